/* A driver panics after it has written something wrong into the buffer of a request.
 *
 *     spoilt CONFIGURATION CIPHER [in-place]
 *
 * The default provider and gantry encrypt the same messages. Gantry may fail if the data are lost, but must not be wrong. Prints the
 * numbers of failed and of wrong messages. */
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <string.h>

#include "must.h"

enum { BYTES = 4096, MESSAGES = 200, SIDES = 2 };

static OSSL_LIB_CTX *library[SIDES];

/* Encrypts one message with its nonce. Returns 1 on success. */
static int encrypt(EVP_CIPHER_CTX *ctx, const unsigned char *iv, unsigned char *to, const unsigned char *from)
{
    int written;
    must(EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, iv), "a nonce");
    return EVP_EncryptUpdate(ctx, to, &written, from, BYTES) == 1;
}

static void cipher(const char *name, int in_place)
{
    static unsigned char text[BYTES], right[BYTES], box[BYTES];
    EVP_CIPHER_CTX *ctx[SIDES];
    unsigned char key[64], iv[16] = { 0 };
    int failed = 0, wrong = 0;

    for (int i = 0; i < (int)sizeof key; i++)
        key[i] = (unsigned char)(7 * i);
    for (int side = 0; side < SIDES; side++) {
        EVP_CIPHER *cipher = EVP_CIPHER_fetch(library[side], name, side ? "provider=gantry" : NULL);
        must(cipher != NULL, name);
        ctx[side] = EVP_CIPHER_CTX_new();
        must(EVP_EncryptInit_ex(ctx[side], cipher, NULL, NULL, NULL), "a context");
        must(EVP_EncryptInit_ex(ctx[side], NULL, NULL, key, NULL), "a key");
        EVP_CIPHER_CTX_set_padding(ctx[side], 0);
        EVP_CIPHER_free(cipher);
    }
    for (int message = 0; message < MESSAGES; message++) {
        iv[0] = (unsigned char)message;
        memset(text, message, BYTES);
        must(encrypt(ctx[0], iv, right, text), "the default provider");
        memcpy(box, text, BYTES);
        int good = encrypt(ctx[1], iv, box, in_place ? box : text);
        failed += !good;
        wrong += good && memcmp(box, right, BYTES) != 0;
    }
    printf("%d failed, %d wrong\n", failed, wrong);
    for (int side = 0; side < SIDES; side++)
        EVP_CIPHER_CTX_free(ctx[side]);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    for (int side = 0; side < SIDES; side++)
        library[side] = OSSL_LIB_CTX_new();
    OSSL_PROVIDER *default_provider = OSSL_PROVIDER_load(library[0], "default");
    must(default_provider && OSSL_LIB_CTX_load_config(library[1], argv[1]), "the configuration");
    cipher(argv[2], argc > 3);
    OSSL_PROVIDER_unload(default_provider);
    for (int side = 0; side < SIDES; side++)
        OSSL_LIB_CTX_free(library[side]);
    return 0;
}
