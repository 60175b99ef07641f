/* Hashes and encrypts with the provider of a configuration, until the costs of devices are known:
 *
 *     provider CONFIGURATION
 */

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES 16384
#define ROUNDS 100000

int main(int count, char **words)
{
    static const unsigned char key[16], iv[12];
    unsigned char tag[16], *data = calloc(1, BYTES);
    int length;
    if (count != 2 || !data || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (!cipher || !context)
        return 1;
    printf("%s\n", OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)));
    for (int round = 0; round < ROUNDS; round++) {
        if (!EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) ||
            !EVP_EncryptUpdate(context, data, &length, data, BYTES) ||
            !EVP_EncryptFinal_ex(context, data, &length) ||
            !EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag))
            return 1;
    }
    /* The query of `openssl list -providers`. */
    char *name = NULL;
    OSSL_PARAM asked[] = {OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_NAME, &name, 0), OSSL_PARAM_END};
    if (!OSSL_PROVIDER_get_params(EVP_CIPHER_get0_provider(cipher), asked))
        return 1;
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    free(data);
    return 0;
}
