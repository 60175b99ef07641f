// Uses each of gantry's algorithms in a configuration as the first one, and looks for errors on the stack after calls that succeeded:
//
//     errors CONFIGURATION
//
// Each cipher has its own process, because the first request of an algorithm is special.

#include "must.h"
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096, TAG = 16 };
static unsigned char data[BYTES + 64], key[64], iv[16];

static int seen;

// The program's own error must still be the last one.
static void look(const char *what)
{
    if (ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_PASSED_INVALID_ARGUMENT)
        return;
    printf("%s:\n", what);
    ERR_print_errors_fp(stdout);
    exit(1);
}

static void encrypt(EVP_CIPHER *cipher)
{
    int written, aead = (EVP_CIPHER_get_flags(cipher) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL), "init");
    must(EVP_EncryptUpdate(ctx, data, &written, data, BYTES), "update");
    must(EVP_EncryptFinal_ex(ctx, data + written, &written), "final");
    must(!aead || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, data + BYTES), "tag");
    EVP_CIPHER_CTX_free(ctx);
}

static void decrypt(EVP_CIPHER *cipher)
{
    int written;
    if ((EVP_CIPHER_get_flags(cipher) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0)
        return;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(EVP_DecryptInit_ex2(ctx, cipher, key, iv, NULL) && EVP_CIPHER_CTX_set_padding(ctx, 0), "init");
    must(EVP_DecryptUpdate(ctx, data, &written, data, BYTES), "update");
    EVP_CIPHER_CTX_free(ctx);
}

// Runs one algorithm in its own process.
static void alone(const char *name, void (*use)(EVP_CIPHER *), EVP_CIPHER *cipher)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ERR_raise(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT);
        use(cipher);
        look(name);
        fflush(stdout);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0, name);
    seen++;
}

static void each(EVP_CIPHER *cipher, void *arg)
{
    (void)arg;
    if (strcmp(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)), "gantry") != 0)
        return;
    alone(EVP_CIPHER_get0_name(cipher), encrypt, cipher);
    alone(EVP_CIPHER_get0_name(cipher), decrypt, cipher);
}

static OSSL_LIB_CTX *library;

int main(int count, char **words)
{
    library = OSSL_LIB_CTX_new();
    must(count == 2 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    for (int i = 0; i < (int)sizeof key; i++)
        key[i] = (unsigned char)i;
    EVP_CIPHER_do_all_provided(library, each, NULL);
    printf(seen > 15 ? "no errors\n" : "%d algorithms only\n", seen);
    return 0;
}
