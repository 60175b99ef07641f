// Measures how much more memory gantry's contexts hold than the default provider's, after messages of 16 KiB and one of 16 bytes. Prints
// the difference in bytes for each cipher. Both must encrypt alike.
//
//     held CONFIGURATION CIPHER...

#include "must.h"
#include <malloc.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <string.h>

enum { FIRST = 8, CONTEXTS = 64, MESSAGES = 80, SMALL = 8, MANY = 600, BYTES = 16384 };
static unsigned char data[BYTES], key[64], iv[16];

// Encrypts one message in place.
static void encrypt(EVP_CIPHER_CTX *ctx, int bytes)
{
    int written;
    must(EVP_EncryptInit_ex2(ctx, NULL, NULL, iv, NULL), "nonce");
    must(EVP_EncryptUpdate(ctx, data, &written, data, bytes), "update");
    must(EVP_EncryptFinal_ex(ctx, data, &written), "final");
}

// Returns a context with its own key that has processed messages.
static EVP_CIPHER_CTX *used(EVP_CIPHER *cipher, int number)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    memset(key, 1 + number % 100, sizeof key / 2);
    must(EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL), "key");
    for (int message = 0; message < MESSAGES; message++)
        encrypt(ctx, message == SMALL ? 16 : BYTES);
    return ctx;
}

// Returns the bytes per context; `result` receives the data.
static long held(OSSL_LIB_CTX *library, const char *name, const char *provider, unsigned char *result)
{
    static EVP_CIPHER_CTX *contexts[CONTEXTS];
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, name, provider);
    must(cipher != NULL, name);
    memset(data, 1, sizeof data);
    // The first contexts allocate shared data.
    for (int i = 0; i < FIRST; i++)
        EVP_CIPHER_CTX_free(used(cipher, i));
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < CONTEXTS; i++)
        contexts[i] = used(cipher, i);
    long bytes = (long)(mallinfo2().uordblks - before) / CONTEXTS;
    for (int i = 0; i < CONTEXTS; i++) {
        for (int message = 0; message < MANY; message++)
            encrypt(contexts[i], 16);
        encrypt(contexts[i], BYTES);
        EVP_CIPHER_CTX_free(contexts[i]);
    }
    memcpy(result, data, sizeof data);
    EVP_CIPHER_free(cipher);
    return bytes;
}

int main(int count, char **words)
{
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    must(count > 2 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    for (int i = 2; i < count; i++) {
        static unsigned char theirs[BYTES], ours[BYTES];
        long more = held(library, words[i], "provider=gantry", ours) - held(library, words[i], "provider=default", theirs);
        must(memcmp(ours, theirs, BYTES) == 0, "the same data");
        printf("%s %+ld\n", words[i], more);
    }
    return 0;
}
