// Makes known numbers of requests, while another program reads the statistics:
//
//     counted CONFIGURATION
//
// Prints a line and waits for one. Then does the same work in a child, and prints and waits again.

#include "must.h"
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static OSSL_LIB_CTX *library;
static unsigned char data[200], out[256], tag[16], key[32], nonce[12];

// Processes messages of AES-256-GCM under one key, 200 bytes each, in two calls.
static void gcm(int messages, int seal)
{
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, "AES-256-GCM", NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int length, rest;
    must(cipher && ctx && EVP_CipherInit_ex2(ctx, cipher, key, NULL, seal, NULL), "key");
    for (int message = 0; message < messages; message++) {
        nonce[0] = (unsigned char)message;
        must(EVP_CipherInit_ex2(ctx, NULL, NULL, nonce, seal, NULL), "nonce");
        must(EVP_CipherUpdate(ctx, out, &length, data, 120) && EVP_CipherUpdate(ctx, out + length, &rest, data + 120, 80), "data");
        if (!seal)
            must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, tag), "tag");
        // Opened messages have a wrong tag; they count all the same.
        must((EVP_CipherFinal_ex(ctx, out + length + rest, &rest) == 1) == seal, "end");
    }
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
}

// Starts two long messages that never end, in contexts that are never freed.
static void left(void)
{
    static unsigned char longer[65536];
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, "AES-128-GCM", NULL);
    int length;
    for (int message = 0; message < 2; message++) {
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        nonce[0] = (unsigned char)message;
        must(EVP_EncryptInit_ex2(ctx, cipher, key, nonce, NULL) && EVP_EncryptUpdate(ctx, longer, &length, longer, sizeof longer), "sealing");
    }
}

static void work(void)
{
    gcm(10, 1);
    gcm(7, 0);
    left();
}

static void show(void)
{
    char line[8];
    printf("ready\n");
    fflush(stdout);
    must(fgets(line, sizeof line, stdin) != NULL, "an answer");
}

int main(int count, char **words)
{
    int status;
    library = OSSL_LIB_CTX_new();
    must(count == 2 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    work();
    show();
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "child");
    show();
    return 0;
}
