// Loads, uses and unloads the module in one thread, after another provider with child callbacks ("legacy"), and while other threads load
// and unload providers of the same library context:
//
//     loads CONFIGURATION
//
// The configuration names the module, and does not activate it.

#include "must.h"
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 300 };
static OSSL_LIB_CTX *library;
static atomic_int stop;

static void *others(void *name)
{
    while (!stop) {
        OSSL_PROVIDER *provider = OSSL_PROVIDER_load(library, name);
        must(provider != NULL && OSSL_PROVIDER_unload(provider), name);
    }
    return NULL;
}

static void use_gantry(void)
{
    OSSL_PROVIDER *gantry = OSSL_PROVIDER_load(library, "gantry");
    must(gantry != NULL, "gantry");
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, "AES-128-CBC", "provider=gantry");
    static unsigned char key[16], iv[16], data[4096], out[4096 + 16];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length;
    must(cipher != NULL && EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) && EVP_EncryptUpdate(context, out, &length, data, sizeof data), "cipher");
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    OSSL_PROVIDER_unload(gantry);
}

int main(int count, char **words)
{
    pthread_t threads[2];
    library = OSSL_LIB_CTX_new();
    must(count == 2 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    OSSL_PROVIDER *default_provider = OSSL_PROVIDER_load(library, "default");
    must(default_provider != NULL, "default");
    OSSL_PROVIDER *legacy = OSSL_PROVIDER_load(library, "legacy");
    must(legacy != NULL, "legacy");
    use_gantry();
    OSSL_PROVIDER_unload(legacy);
    must(pthread_create(&threads[0], NULL, others, "legacy") == 0 && pthread_create(&threads[1], NULL, others, "null") == 0, "threads");
    for (int round = 0; round < ROUNDS; round++)
        use_gantry();
    stop = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    OSSL_PROVIDER_unload(default_provider);
    OSSL_LIB_CTX_free(library);
    printf("as it should\n");
    return 0;
}
