/* Derives in several threads at the same time, and in a forked child:
 *
 *     logins CONFIGURATION
 */
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/provider.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"
#include "threads.h"

enum { ROUNDS = 3, ITERATIONS = 300000 };

/* Keys derived by the default provider. */
static unsigned char expected[THREADS][32];

static int derive(size_t which, unsigned char *key)
{
    char password[32];
    int length = snprintf(password, sizeof password, "password %zu", which);
    return PKCS5_PBKDF2_HMAC(password, length, (const unsigned char *)"salt", 4, ITERATIONS + (int)which * 1000, EVP_sha256(), 32, key);
}

static void *work(void *place)
{
    unsigned char key[32];
    for (int round = 0; round < ROUNDS; round++)
        if (derive((size_t)place, key) != 1 || memcmp(key, expected[(size_t)place], 32) != 0)
            return "another key";
    return "the same";
}

int main(int count, char **words)
{
    must(count == 2, "one configuration");
    for (size_t which = 0; which < THREADS; which++)
        must(derive(which, expected[which]), "the default provider");
    must(OSSL_LIB_CTX_load_config(NULL, words[1]) == 1, "the configuration");
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "PBKDF2", NULL);
    must(strcmp(OSSL_PROVIDER_get0_name(EVP_KDF_get0_provider(kdf)), "gantry") == 0, "it is not gantry's");
    EVP_KDF_free(kdf);
    if (in_threads(work) != 0)
        return 1;
    fflush(stdout);
    /* A child has none of the parent's other threads, and starts afresh. */
    pid_t child = fork();
    if (child == 0) {
        unsigned char key[32];
        _exit(derive(3, key) == 1 && memcmp(key, expected[3], 32) == 0 ? 0 : 1);
    }
    int status = 1;
    must(waitpid(child, &status, 0) == child && status == 0, "the child");
    return 0;
}
