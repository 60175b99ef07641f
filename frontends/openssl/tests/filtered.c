// A program that filters its own system calls after it has loaded the provider:
//
//     filtered first|later allow|refuse|kill
//
// The filter is in force from the first request on, or from a later one. It allows memory, clocks, threads, and output. Any other call works,
// fails with EPERM, or ends the process.

#include "must.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void filter(unsigned otherwise)
{
    static const int allowed[] = { SYS_brk, SYS_clock_gettime, SYS_exit_group, SYS_futex, SYS_madvise, SYS_mmap,
        SYS_mprotect, SYS_mremap, SYS_munmap, SYS_write };
    enum { ALLOWED = sizeof allowed / sizeof *allowed };
    struct sock_filter steps[2 * ALLOWED + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    for (int i = 0; i < ALLOWED; i++) {
        steps[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        steps[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    steps[2 * ALLOWED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = { 2 * ALLOWED + 2, steps };
    must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "filter");
}

// Seals a message and opens it again.
static void message(const EVP_CIPHER *cipher, EVP_CIPHER_CTX *ctx)
{
    static unsigned char plain[16384], sealed[16384], opened[16384], tag[16];
    const unsigned char key[32] = { 1 }, iv[12] = { 2 };
    int length;
    must(EVP_EncryptInit_ex(ctx, cipher, NULL, key, iv) && EVP_EncryptUpdate(ctx, sealed, &length, plain, sizeof plain), "seal");
    must(EVP_EncryptFinal_ex(ctx, sealed, &length) && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, tag), "tag");
    must(EVP_DecryptInit_ex(ctx, cipher, NULL, key, iv) && EVP_DecryptUpdate(ctx, opened, &length, sealed, sizeof sealed), "open");
    must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, tag) && EVP_DecryptFinal_ex(ctx, opened, &length), "tag");
    must(!memcmp(plain, opened, sizeof plain) && memcmp(plain, sealed, sizeof plain), "data");
}

int main(int count, char **words)
{
    must(count == 3, "words");
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(cipher && ctx && !strcmp(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)), "gantry"), "gantry");
    if (!strcmp(words[1], "later"))
        message(cipher, ctx);
    filter(!strcmp(words[2], "allow") ? SECCOMP_RET_ALLOW : !strcmp(words[2], "refuse") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS);
    // Enough to measure costs, and to keep them.
    for (int i = 0; i < 10000; i++)
        message(cipher, ctx);
    must(write(1, "good\n", 5) == 5, "output");
    // Without handlers, which write statistics.
    _exit(0);
}
