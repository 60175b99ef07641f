// Prints the provider of AES-128-ECB under a configuration, and if it works:
//
//     who CONFIGURATION PROPERTIES

#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(int count, char **words)
{
    unsigned char block[16] = { 0 };
    int length;
    if (count != 3 || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-ECB", words[2]);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int done = cipher != NULL && EVP_EncryptInit_ex2(ctx, cipher, block, NULL, NULL)
        && EVP_EncryptUpdate(ctx, block, &length, block, sizeof block);
    printf("%s, %s, ", getauxval(AT_SECURE) ? "secure" : "plain",
           cipher == NULL ? "nobody" : OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)));
    if (done)
        printf("%02x%02x%02x%02x\n", block[0], block[1], block[2], block[3]);
    else
        printf("failed\n");
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
    return 0;
}
