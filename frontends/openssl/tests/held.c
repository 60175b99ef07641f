// What contexts hold that have had messages of 16 KiB, beside those of the default provider: for each cipher that is named, the bytes
// that one has more.
//
//     held CONFIGURATION CIPHER...

#include "must.h"
#include <malloc.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <string.h>

enum { FIRST = 8, CONTEXTS = 64, MESSAGES = 8, BYTES = 16384 };
static unsigned char data[BYTES], key[64], iv[16];

// A context with a key of its own that has had messages.
static EVP_CIPHER_CTX *used(EVP_CIPHER *cipher, int number)
{
    int written;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    memset(key, 1 + number % 100, sizeof key / 2);
    must(EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL), "key");
    for (int message = 0; message < MESSAGES; message++) {
        must(EVP_EncryptInit_ex2(ctx, NULL, NULL, iv, NULL), "nonce");
        must(EVP_EncryptUpdate(ctx, data, &written, data, BYTES), "update");
        must(EVP_EncryptFinal_ex(ctx, data, &written), "final");
    }
    return ctx;
}

static long held(OSSL_LIB_CTX *library, const char *name, const char *provider)
{
    static EVP_CIPHER_CTX *contexts[CONTEXTS];
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, name, provider);
    must(cipher != NULL, name);
    // The first ones bring what all have together.
    for (int i = 0; i < FIRST; i++)
        EVP_CIPHER_CTX_free(used(cipher, i));
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < CONTEXTS; i++)
        contexts[i] = used(cipher, i);
    long bytes = (long)(mallinfo2().uordblks - before) / CONTEXTS;
    for (int i = 0; i < CONTEXTS; i++)
        EVP_CIPHER_CTX_free(contexts[i]);
    EVP_CIPHER_free(cipher);
    return bytes;
}

int main(int count, char **words)
{
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    must(count > 2 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    for (int i = 2; i < count; i++)
        printf("%s %+ld\n", words[i], held(library, words[i], "provider=gantry") - held(library, words[i], "provider=default"));
    return 0;
}
