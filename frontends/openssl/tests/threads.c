// Sixteen threads share fetched algorithms, and compare with the default provider:
//
//     threads CONFIGURATION

#include <openssl/evp.h>
#include <string.h>

#include "threads.h"

enum { ROUNDS = 100, MOST = 40000 };

static EVP_CIPHER *gcm[2];
static unsigned char data[MOST];

static int seal(const EVP_CIPHER *cipher, size_t length, unsigned char *out)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int done, rest;
    int good = EVP_EncryptInit_ex2(ctx, cipher, data, data + 32, NULL) && EVP_EncryptUpdate(ctx, out, &done, data, (int)length)
        && EVP_EncryptFinal_ex(ctx, out + done, &rest) && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, out + length);
    EVP_CIPHER_CTX_free(ctx);
    return good;
}

static void *work(void *place)
{
    unsigned state = 1 + (unsigned)(size_t)place;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char sealed[2][MOST + 16] = {0};
        state = state * 1664525 + 1013904223;
        size_t length = (state >> 8) % MOST;
        if (!seal(gcm[0], length, sealed[0]) || !seal(gcm[1], length, sealed[1]))
            return "failed";
        if (memcmp(sealed[0], sealed[1], length + 16) != 0)
            return "different";
    }
    return "the same";
}

int main(int count, char **words)
{
    if (count != 2 || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    for (size_t i = 0; i < MOST; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    gcm[0] = EVP_CIPHER_fetch(NULL, "AES-256-GCM", "provider=gantry");
    gcm[1] = EVP_CIPHER_fetch(NULL, "AES-256-GCM", "provider=default");
    if (gcm[0] == NULL || gcm[1] == NULL)
        return 1;
    return in_threads(work);
}
