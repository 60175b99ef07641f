// A dummy provider with algorithms that can be fetched: NAME is its name, MORE are further properties of its algorithms.

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/core.h>

static int one(void) { return 1; }
static void *context(void) { return &one; }
static void nothing(void) {}

#define ENTRY(ID, FUNCTION) { ID, (void (*)(void))FUNCTION }
#define END { 0, NULL }

static const OSSL_DISPATCH digest[] = {
    ENTRY(OSSL_FUNC_DIGEST_NEWCTX, context), ENTRY(OSSL_FUNC_DIGEST_INIT, one),          ENTRY(OSSL_FUNC_DIGEST_UPDATE, one),
    ENTRY(OSSL_FUNC_DIGEST_FINAL, one),      ENTRY(OSSL_FUNC_DIGEST_FREECTX, nothing),   ENTRY(OSSL_FUNC_DIGEST_GET_PARAMS, one),
    END,
};
static const OSSL_DISPATCH cipher[] = {
    ENTRY(OSSL_FUNC_CIPHER_NEWCTX, context),   ENTRY(OSSL_FUNC_CIPHER_ENCRYPT_INIT, one), ENTRY(OSSL_FUNC_CIPHER_DECRYPT_INIT, one),
    ENTRY(OSSL_FUNC_CIPHER_UPDATE, one),       ENTRY(OSSL_FUNC_CIPHER_FINAL, one),        ENTRY(OSSL_FUNC_CIPHER_CIPHER, one),
    ENTRY(OSSL_FUNC_CIPHER_FREECTX, nothing),  ENTRY(OSSL_FUNC_CIPHER_GET_PARAMS, one),   END,
};
static const OSSL_DISPATCH mac[] = {
    ENTRY(OSSL_FUNC_MAC_NEWCTX, context), ENTRY(OSSL_FUNC_MAC_DUPCTX, context), ENTRY(OSSL_FUNC_MAC_FREECTX, nothing),
    ENTRY(OSSL_FUNC_MAC_INIT, one),       ENTRY(OSSL_FUNC_MAC_UPDATE, one),     ENTRY(OSSL_FUNC_MAC_FINAL, one),
    END,
};
static const OSSL_DISPATCH kdf[] = {
    ENTRY(OSSL_FUNC_KDF_NEWCTX, context), ENTRY(OSSL_FUNC_KDF_FREECTX, nothing), ENTRY(OSSL_FUNC_KDF_DERIVE, one), END,
};
static const OSSL_DISPATCH key[] = {
    ENTRY(OSSL_FUNC_KEYMGMT_NEW, context), ENTRY(OSSL_FUNC_KEYMGMT_FREE, nothing), ENTRY(OSSL_FUNC_KEYMGMT_HAS, one), END,
};
static const OSSL_DISPATCH signature[] = {
    ENTRY(OSSL_FUNC_SIGNATURE_NEWCTX, context), ENTRY(OSSL_FUNC_SIGNATURE_FREECTX, nothing),
    ENTRY(OSSL_FUNC_SIGNATURE_SIGN_INIT, one),  ENTRY(OSSL_FUNC_SIGNATURE_SIGN, one), END,
};

#define SAYS "provider=" NAME MORE

static const OSSL_ALGORITHM digests[] = { { "SHA2-256:SHA-256:SHA256", SAYS, digest, 0 },
                                          { "MD5", SAYS, digest, 0 },
                                          { "STUB", SAYS, digest, 0 },
                                          { 0 } };
static const OSSL_ALGORITHM ciphers[] = { { "AES-128-GCM", SAYS, cipher, 0 }, { "AES-256-CBC", SAYS, cipher, 0 }, { 0 } };
static const OSSL_ALGORITHM macs[] = { { "HMAC", SAYS, mac, 0 }, { 0 } };
static const OSSL_ALGORITHM kdfs[] = { { "HKDF", SAYS, kdf, 0 }, { 0 } };
static const OSSL_ALGORITHM keys[] = { { "RSA:rsaEncryption", SAYS, key, 0 }, { "EC:id-ecPublicKey", SAYS, key, 0 }, { 0 } };
static const OSSL_ALGORITHM signatures[] = { { "RSA:rsaEncryption", SAYS, signature, 0 }, { "ECDSA", SAYS, signature, 0 }, { 0 } };

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache)
{
    (void)provider;
    *no_cache = 0;
    switch (operation) {
    case OSSL_OP_DIGEST: return digests;
    case OSSL_OP_CIPHER: return ciphers;
    case OSSL_OP_MAC: return macs;
    case OSSL_OP_KDF: return kdfs;
    case OSSL_OP_KEYMGMT: return keys;
    case OSSL_OP_SIGNATURE: return signatures;
    default: return NULL;
    }
}

static const OSSL_DISPATCH provider[] = { ENTRY(OSSL_FUNC_PROVIDER_QUERY_OPERATION, query), END };

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **context)
{
    (void)in;
    *out = provider;
    *context = (void *)handle;
    return 1;
}
