// Who serves SHA-256 in a program that reads the configuration that it is told to, and whether it does:
//
//     who CONFIGURATION PROPERTIES

#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(int count, char **words)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (count != 3 || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    EVP_MD *md = EVP_MD_fetch(NULL, "SHA256", words[2]);
    int done = md != NULL && EVP_Digest("abc", 3, digest, NULL, md, NULL);
    printf("%s, %s, ", getauxval(AT_SECURE) ? "secure" : "plain",
           md == NULL ? "nobody" : OSSL_PROVIDER_get0_name(EVP_MD_get0_provider(md)));
    if (done)
        printf("%02x%02x%02x%02x\n", digest[0], digest[1], digest[2], digest[3]);
    else
        printf("failed\n");
    EVP_MD_free(md);
    return 0;
}
