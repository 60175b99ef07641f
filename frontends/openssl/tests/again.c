// Counts allocations for messages of 16 KiB: with the key set once, with the same key set again for each message, and with a new key for
// each message. Prints the three counts for each cipher.
//
//     again CONFIGURATION CIPHER...

#include "must.h"
#include <openssl/evp.h>
#include <openssl/provider.h>

enum { FIRST = 8, MESSAGES = 100, BYTES = 16384 };
static unsigned char data[BYTES], key[64], iv[16];

void *__libc_malloc(size_t bytes);
static long blocks;

void *malloc(size_t bytes)
{
    blocks++;
    return __libc_malloc(bytes);
}

enum keys { ALONE, TOLD, OTHERS };

static long asked(EVP_CIPHER_CTX *ctx, int messages, enum keys keys)
{
    int written;
    long before = blocks;
    for (int message = 0; message < messages; message++) {
        iv[0] ^= 1;
        key[0] += keys == OTHERS;
        must(EVP_EncryptInit_ex2(ctx, NULL, keys == ALONE ? NULL : key, iv, NULL), "nonce");
        must(EVP_EncryptUpdate(ctx, data, &written, data, BYTES), "update");
        must(EVP_EncryptFinal_ex(ctx, data, &written), "final");
    }
    return blocks - before;
}

int main(int count, char **words)
{
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    must(count > 2 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    for (int i = 0; i < BYTES; i++)
        key[i % sizeof key] = (unsigned char)i;
    for (int i = 2; i < count; i++) {
        EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, words[i], "provider=gantry");
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        must(cipher && EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL), words[i]);
        asked(ctx, FIRST, ALONE);
        long alone = asked(ctx, MESSAGES, ALONE), told = asked(ctx, MESSAGES, TOLD);
        printf("%s %ld %ld %ld\n", words[i], alone, told, asked(ctx, MESSAGES, OTHERS));
        EVP_CIPHER_CTX_free(ctx);
        EVP_CIPHER_free(cipher);
    }
    return 0;
}
