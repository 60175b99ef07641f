// Loads, uses and unloads the module many times in one process: through a library context and its configuration, through calls of the
// program, and with dlopen alone:
//
//     unload ACTIVE PASSIVE MODULE
//
// The first configuration activates the module, the second one only names it. Memory, descriptors and threads must not grow.

#include "must.h"
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <string.h>

enum { WARM = 16, ROUNDS = 64 };
static unsigned char data[65536], key[32], iv[16];

// Encrypts a message with `provider`.
static void use(OSSL_LIB_CTX *library, const char *provider)
{
    unsigned char tag[16];
    int written;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, "AES-128-GCM", provider);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(cipher != NULL && EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL), "init");
    must(EVP_EncryptUpdate(ctx, data, &written, data, sizeof data) && EVP_EncryptFinal_ex(ctx, data, &written), "encrypt");
    must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag), "tag");
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
}

static void by_configuration(const char *configuration)
{
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    must(OSSL_LIB_CTX_load_config(library, configuration), "configuration");
    use(library, "provider=gantry");
    OSSL_LIB_CTX_free(library);
}

static void by_the_program(const char *configuration)
{
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    must(OSSL_LIB_CTX_load_config(library, configuration) && !OSSL_PROVIDER_available(library, "gantry"), "configuration");
    OSSL_PROVIDER *default_provider = OSSL_PROVIDER_load(library, "default"), *gantry = OSSL_PROVIDER_load(library, "gantry");
    must(default_provider != NULL && gantry != NULL, "load");
    use(library, "provider=gantry");
    // A fetched cipher keeps its provider alive.
    int written;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, "AES-128-GCM", "provider=gantry");
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(cipher != NULL && OSSL_PROVIDER_unload(gantry), "unload");
    must(EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL) && EVP_EncryptUpdate(ctx, data, &written, data, sizeof data),
        "a cipher of a provider that was unloaded");
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
    must(!OSSL_PROVIDER_available(library, "gantry"), "gantry is still available");
    use(library, "?provider=gantry");
    // And again in the same library context.
    gantry = OSSL_PROVIDER_load(library, "gantry");
    must(gantry != NULL, "load again");
    use(library, "provider=gantry");
    OSSL_PROVIDER_unload(gantry);
    OSSL_PROVIDER_unload(default_provider);
    OSSL_LIB_CTX_free(library);
}

static void by_the_loader(const char *module)
{
    void *handle = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    must(handle != NULL && dlsym(handle, "OSSL_provider_init") != NULL && dlclose(handle) == 0, "loader");
}

static int entries(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    while (open != NULL && readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

int main(int count, char **words)
{
    size_t bytes = 0;
    if (count != 4)
        return 1;
    int threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
    for (int round = 0; round < WARM + ROUNDS; round++) {
        if (round == WARM)
            bytes = mallinfo2().uordblks;
        by_the_loader(words[3]);
        by_configuration(words[1]);
        by_the_program(words[2]);
    }
    printf("%ld bytes a round, ", (long)(mallinfo2().uordblks - bytes) / ROUNDS);
    printf("%d threads, %d descriptors more\n", entries("/proc/self/task") - threads, entries("/proc/self/fd") - descriptors);
    return 0;
}
