// Two libcryptos in one process, each with the module, process two messages in turns:
//
//     twice CONFIGURATION LIBCRYPTO LIBCRYPTO

#define _GNU_SOURCE
#include <dlfcn.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

struct library {
    __typeof__(OSSL_LIB_CTX_load_config) *load;
    __typeof__(EVP_CIPHER_fetch) *fetch;
    __typeof__(EVP_CIPHER_CTX_new) *new;
    __typeof__(EVP_EncryptInit_ex2) *init;
    __typeof__(EVP_EncryptUpdate) *update;
    EVP_CIPHER_CTX *ours, *theirs;
};

static int open_library(struct library *library, const char *path, const char *configuration)
{
    // Binds its calls to its own symbols, not to those of the other library.
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (handle == NULL)
        return 0;
    library->load = dlsym(handle, "OSSL_LIB_CTX_load_config");
    library->fetch = dlsym(handle, "EVP_CIPHER_fetch");
    library->new = dlsym(handle, "EVP_CIPHER_CTX_new");
    library->init = dlsym(handle, "EVP_EncryptInit_ex2");
    library->update = dlsym(handle, "EVP_EncryptUpdate");
    if (!library->load(NULL, configuration))
        return 0;
    static const unsigned char key[16] = { 1 }, iv[16] = { 2 };
    EVP_CIPHER *ours = library->fetch(NULL, "AES-128-CTR", "provider=gantry");
    EVP_CIPHER *theirs = library->fetch(NULL, "AES-128-CTR", "provider=default");
    if (ours == NULL || theirs == NULL)
        return 0;
    library->ours = library->new();
    library->theirs = library->new();
    return library->init(library->ours, ours, key, iv, NULL) && library->init(library->theirs, theirs, key, iv, NULL);
}

int main(int count, char **words)
{
    static unsigned char data[50000], ours[sizeof data], theirs[sizeof data];
    int written;
    struct library libraries[2];
    if (count != 4)
        return 1;
    for (int i = 0; i < 2; i++)
        if (!open_library(&libraries[i], words[2 + i], words[1]))
            return printf("%s: cannot be used\n", words[2 + i]);
    if (libraries[0].update == libraries[1].update)
        return puts("one library");
    for (int piece = 0; piece < 10; piece++)
        for (int i = 0; i < 2; i++) {
            memset(data, piece * 2 + i, sizeof data);
            if (!libraries[i].update(libraries[i].ours, ours, &written, data, sizeof data)
                || !libraries[i].update(libraries[i].theirs, theirs, &written, data, sizeof data))
                return puts("failed");
            if (memcmp(ours, theirs, sizeof data) != 0)
                return puts("different");
        }
    puts("the same");
    return 0;
}
