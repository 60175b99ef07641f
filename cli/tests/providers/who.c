// Prints the provider of each algorithm in a program that reads its configuration, one per line:
//
//     who [PROPERTIES...]
//
// The first answers are for a program without a property query.

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <stdio.h>

static const char *name(const OSSL_PROVIDER *provider)
{
    return OSSL_PROVIDER_get0_name(provider);
}

#define FETCH(TYPE, ALGORITHM)                                                                 \
    do {                                                                                       \
        EVP_##TYPE *found = EVP_##TYPE##_fetch(NULL, ALGORITHM, properties);                   \
        printf("%s\t%s %s\t%s\n", properties == NULL ? "" : properties, #TYPE, ALGORITHM,      \
               found == NULL ? "nobody" : name(EVP_##TYPE##_get0_provider(found)));            \
        EVP_##TYPE##_free(found);                                                              \
    } while (0)

#define EACH(TYPE, ...)                                                                        \
    do {                                                                                       \
        static const char *const all[] = { __VA_ARGS__ };                                      \
        for (size_t at = 0; at < sizeof(all) / sizeof(*all); at++)                             \
            FETCH(TYPE, all[at]);                                                              \
    } while (0)

static void serves(const char *properties)
{
    EACH(MD, "SHA2-256", "SHA2-512", "SHA1", "SHA3-256", "MD5", "RIPEMD160", "MD4", "STUB");
    EACH(CIPHER, "AES-128-GCM", "AES-256-CBC", "AES-256-CTR", "AES-256-XTS", "ChaCha20", "ChaCha20-Poly1305", "DES-EDE3-CBC", "RC4");
    EACH(MAC, "HMAC", "CMAC", "GMAC", "Poly1305");
    EACH(KDF, "PBKDF2", "HKDF", "SCRYPT");
    EACH(RAND, "CTR-DRBG", "HASH-DRBG");
    EACH(KEYMGMT, "RSA", "EC", "ED25519", "X25519", "DSA");
    EACH(SIGNATURE, "RSA", "ECDSA", "ED25519");
    EACH(KEYEXCH, "ECDH", "X25519");
    EACH(ASYM_CIPHER, "RSA");
}

int main(int count, char **words)
{
    serves(NULL);
    for (int at = 1; at < count; at++)
        serves(words[at]);
    EVP_RAND_CTX *primary = RAND_get0_primary(NULL);
    printf("\tRAND_bytes\t%s\n", primary == NULL ? "nobody" : name(EVP_RAND_get0_provider(EVP_RAND_CTX_get0_rand(primary))));
    EVP_PKEY *key = EVP_RSA_gen(1024);
    printf("\tRSA of 1024 bits\t%s\n", key == NULL ? "nobody" : name(EVP_PKEY_get0_provider(key)));
    EVP_PKEY_free(key);
    return 0;
}
