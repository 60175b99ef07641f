/* libgantry as a crypto callback of wolfSSL: objects made with the device's number ask gantry first, and wolfSSL itself does the rest.
 * Digests, HMAC, AES in CBC, CTR and GCM.
 *
 *     cc -std=c11 wolfssl.c $(pkg-config --cflags --libs gantry wolfssl)
 *
 * The program prints some results, and the number of calls on either side. With the argument `alone`, no object uses gantry.
 *
 * The layout of wolfSSL's structs depends on the C standard: before C11 it differs from the library's. */
#include <wolfssl/options.h>

#include <wolfssl/wolfcrypt/aes.h>
#include <wolfssl/wolfcrypt/cryptocb.h>
#include <wolfssl/wolfcrypt/error-crypt.h>
#include <wolfssl/wolfcrypt/hmac.h>
#include <wolfssl/wolfcrypt/sha.h>
#include <wolfssl/wolfcrypt/sha256.h>
#include <wolfssl/wolfcrypt/sha512.h>

#include <gantry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of the device: anything but INVALID_DEVID. */
enum { DEVICE = 1 };

struct device {
    gantry *devices;
    /* Calls served by gantry, and calls left to wolfSSL. Counted by one thread. */
    unsigned served, left;
};

/* A digest or HMAC in progress. Freeing a digest before its end leaks its message, because wolfSSL 5.5 then makes no callback. */
struct message {
    gantry_stream *stream;
    size_t digest_len;
    /* The object that owns the message, by the address of its devCtx, and the bytes so far. */
    void **owner;
    word32 len;
};

static gantry_session *session_of(struct device *device, const char *algorithm, const void *key, size_t key_len, size_t tag_len)
{
    gantry_session *session = NULL;
    gantry_params params = {0};
    params.size = sizeof params;
    params.algorithm = algorithm;
    params.key = key;
    params.key_len = key_len;
    params.tag_len = tag_len;
    /* wolfSSL's callers choose the length of GCM's nonces. */
    params.flags = GANTRY_ANY_NONCE;
    return gantry_session_open(device->devices, &params, &session) < 0 ? NULL : session;
}

/* Returns a copy of `from`, or a new message if `from` is NULL. */
static struct message *message_of(struct device *device, const char *algorithm, const void *key, size_t key_len, const struct message *from)
{
    struct message *message = calloc(1, sizeof *message);
    int error = -1;
    if (!message)
        return NULL;
    if (from) {
        *message = *from;
        error = gantry_stream_copy(from->stream, &message->stream);
    } else {
        gantry_session *session = session_of(device, algorithm, key, key_len, 0);
        if (session) {
            message->digest_len = gantry_session_tag_len(session);
            error = gantry_stream_open(session, 1, &message->stream);
            gantry_session_close(session);
        }
    }
    if (error < 0) {
        free(message);
        return NULL;
    }
    return message;
}

/* Adds a chunk to a message, or ends it. `ctx` is the devCtx of the object, and `len` counts its bytes.
 *
 * wolfSSL copies objects byte by byte without a callback. A copy is recognised by its address. The copy can take over the original's
 * message, unless the original has continued. */
static int step(struct device *device, const char *algorithm, const void *key, size_t key_len, void **ctx, word32 *len,
                const byte *in, word32 in_len, byte *digest)
{
    struct message *message = *ctx;
    if (!message || message->owner != ctx) {
        if (message && message->len != *len)
            return BAD_STATE_E;
        struct message *own = message_of(device, algorithm, key, key_len, message);
        if (!own)
            return message ? WC_HW_E : CRYPTOCB_UNAVAILABLE;
        own->owner = ctx;
        *ctx = message = own;
    }
    if (!digest) {
        *len = message->len += in_len;
        return gantry_stream_update(message->stream, in, in_len) < 0 ? WC_HW_E : 0;
    }
    int error = gantry_stream_final(message->stream, digest, message->digest_len);
    gantry_stream_close(message->stream);
    free(message);
    *ctx = NULL;
    *len = 0;
    return error < 0 ? WC_HW_E : 0;
}

/* One of wolfSSL's digest types. The length is kept in a field that wolfSSL does not use while the callback serves. */
#define DIGEST_CASE(type, object, algorithm)                                                      \
    case type: {                                                                                  \
        word32 len = (word32)info->hash.object->loLen;                                            \
        int error = step(device, algorithm, NULL, 0, &info->hash.object->devCtx, &len,            \
                         info->hash.in, info->hash.inSz, info->hash.digest);                      \
        info->hash.object->loLen = len;                                                           \
        return error;                                                                             \
    }

static int hash(struct device *device, wc_CryptoInfo *info)
{
    switch (info->hash.type) {
        DIGEST_CASE(WC_HASH_TYPE_SHA, sha1, "sha1")
        DIGEST_CASE(WC_HASH_TYPE_SHA256, sha256, "sha256")
        DIGEST_CASE(WC_HASH_TYPE_SHA384, sha384, "sha384")
        DIGEST_CASE(WC_HASH_TYPE_SHA512, sha512, "sha512")
    }
    return CRYPTOCB_UNAVAILABLE;
}

static int hmac(struct device *device, wc_CryptoInfo *info)
{
    Hmac *object = info->hmac.hmac;
    const char *algorithm = info->hmac.macType == WC_SHA      ? "hmac-sha1"
                            : info->hmac.macType == WC_SHA256 ? "hmac-sha256"
                            : info->hmac.macType == WC_SHA384 ? "hmac-sha384"
                            : info->hmac.macType == WC_SHA512 ? "hmac-sha512"
                                                              : NULL;
    struct message *message = object->devCtx;
    word32 len = message ? message->len : 0;
    if (!algorithm)
        return CRYPTOCB_UNAVAILABLE;
    return step(device, algorithm, object->keyRaw, object->keyLen, &object->devCtx, &len,
                info->hmac.in, info->hmac.inSz, info->hmac.digest);
}

/* Runs one request under an object's key. The session is closed after the call, because wolfSSL 5.5 does not report the end of a key. */
static int run(struct device *device, const char *mode, Aes *aes, size_t tag_len, gantry_request *request)
{
    char algorithm[24];
    snprintf(algorithm, sizeof algorithm, "aes-%u-%s", 8 * (unsigned)aes->keylen, mode);
    gantry_session *session = session_of(device, algorithm, aes->devKey, (size_t)aes->keylen, tag_len);
    if (!session)
        return CRYPTOCB_UNAVAILABLE;
    request->size = sizeof *request;
    int error = gantry_run(session, request, 1);
    gantry_session_close(session);
    if (error == GANTRY_E_DEVICE)
        return WC_HW_E;
    if (error < 0 || request->result == GANTRY_BAD_LENGTH)
        return CRYPTOCB_UNAVAILABLE;
    return request->result == GANTRY_BAD_TAG ? AES_GCM_AUTH_E : 0;
}

static int cbc(struct device *device, int encrypt, Aes *aes, byte *out, const byte *in, word32 len)
{
    gantry_request request = {0};
    byte next[AES_BLOCK_SIZE];
    if (len == 0 || len % AES_BLOCK_SIZE != 0)
        return CRYPTOCB_UNAVAILABLE;
    request.operation = encrypt ? GANTRY_ENCRYPT : GANTRY_DECRYPT;
    request.iv = aes->reg;
    request.iv_len = AES_BLOCK_SIZE;
    request.in = in;
    request.out = out;
    request.in_len = request.out_len = len;
    memcpy(next, in + len - AES_BLOCK_SIZE, AES_BLOCK_SIZE);
    int error = run(device, "cbc", aes, 0, &request);
    if (!error)
        memcpy(aes->reg, encrypt ? out + len - AES_BLOCK_SIZE : next, AES_BLOCK_SIZE);
    return error;
}

/* Whole blocks only, so that wolfSSL can continue with the counter at any time. */
static int ctr(struct device *device, Aes *aes, byte *out, const byte *in, word32 len)
{
    gantry_request request = {0};
    if (aes->left != 0 || len == 0 || len % AES_BLOCK_SIZE != 0)
        return CRYPTOCB_UNAVAILABLE;
    request.operation = GANTRY_ENCRYPT;
    request.iv = aes->reg;
    request.iv_len = AES_BLOCK_SIZE;
    request.in = in;
    request.out = out;
    request.in_len = request.out_len = len;
    int error = run(device, "ctr", aes, 0, &request);
    if (error)
        return error;
    byte *counter = (byte *)aes->reg;
    word32 carry = len / AES_BLOCK_SIZE;
    for (int i = AES_BLOCK_SIZE - 1; i >= 0; i--) {
        carry += counter[i];
        counter[i] = (byte)carry;
        carry >>= 8;
    }
    return 0;
}

static int gcm(struct device *device, wc_CryptoInfo *info)
{
    gantry_request request = {0};
    /* Both directions have the same fields; the tag is written or read. */
    request.operation = info->cipher.enc ? GANTRY_SEAL : GANTRY_OPEN;
    request.iv = info->cipher.aesgcm_enc.iv;
    request.iv_len = info->cipher.aesgcm_enc.ivSz;
    request.aad = info->cipher.aesgcm_enc.authIn;
    request.aad_len = info->cipher.aesgcm_enc.authInSz;
    request.in = info->cipher.aesgcm_enc.in;
    request.out = info->cipher.aesgcm_enc.out;
    request.in_len = request.out_len = info->cipher.aesgcm_enc.sz;
    request.tag = info->cipher.aesgcm_enc.authTag;
    request.tag_len = info->cipher.aesgcm_enc.authTagSz;
    return run(device, "gcm", info->cipher.aesgcm_enc.aes, request.tag_len, &request);
}

static int cipher(struct device *device, wc_CryptoInfo *info)
{
    switch (info->cipher.type) {
    case WC_CIPHER_AES_CBC:
        return cbc(device, info->cipher.enc, info->cipher.aescbc.aes, info->cipher.aescbc.out, info->cipher.aescbc.in,
                   info->cipher.aescbc.sz);
    case WC_CIPHER_AES_CTR:
        return ctr(device, info->cipher.aesctr.aes, info->cipher.aesctr.out, info->cipher.aesctr.in,
                   info->cipher.aesctr.sz);
    case WC_CIPHER_AES_GCM:
        return gcm(device, info);
    }
    return CRYPTOCB_UNAVAILABLE;
}

/* The callback for wolfSSL. */
static int callback(int number, wc_CryptoInfo *info, void *context)
{
    struct device *device = context;
    int result = CRYPTOCB_UNAVAILABLE;
    (void)number;
    switch (info->algo_type) {
    case WC_ALGO_TYPE_HASH:
        result = hash(device, info);
        break;
    case WC_ALGO_TYPE_HMAC:
        result = hmac(device, info);
        break;
    case WC_ALGO_TYPE_CIPHER:
        result = cipher(device, info);
        break;
    }
    if (result == CRYPTOCB_UNAVAILABLE)
        device->left++;
    else
        device->served++;
    return result;
}

#define must(call)                                                                   \
    do {                                                                             \
        int must_error = (call);                                                     \
        if (must_error != 0) {                                                       \
            fprintf(stderr, "%s: %s\n", #call, wc_GetErrorString(must_error));       \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

static void print(const char *name, const byte *bytes, size_t len)
{
    printf("%s ", name);
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

/* Hashes "abc" in two chunks. */
static void show_digest(const char *name, enum wc_HashType type, int number)
{
    wc_HashAlg object;
    byte digest[64];
    must(wc_HashInit_ex(&object, type, NULL, number));
    must(wc_HashUpdate(&object, type, (const byte *)"a", 1));
    must(wc_HashUpdate(&object, type, (const byte *)"bc", 2));
    must(wc_HashFinal(&object, type, digest));
    print(name, digest, (size_t)wc_HashGetDigestSize(type));
    must(wc_HashFree(&object, type));
}

/* Gets the digest midway, for which wolfSSL copies the object. */
static void show_copy(int number)
{
    wc_Sha256 object;
    byte digest[32];
    must(wc_InitSha256_ex(&object, NULL, number));
    must(wc_Sha256Update(&object, (const byte *)"abc", 3));
    must(wc_Sha256GetHash(&object, digest));
    print("half-way", digest, sizeof digest);
    must(wc_Sha256Update(&object, (const byte *)"abc", 3));
    must(wc_Sha256Final(&object, digest));
    print("abcabc", digest, sizeof digest);
    wc_Sha256Free(&object);
}

static void show_hmac(const char *name, int type, int number)
{
    Hmac object;
    byte tag[64];
    must(wc_HmacInit(&object, NULL, number));
    must(wc_HmacSetKey(&object, type, (const byte *)"Jefe", 4));
    must(wc_HmacUpdate(&object, (const byte *)"what do ya want ", 16));
    must(wc_HmacUpdate(&object, (const byte *)"for nothing?", 12));
    must(wc_HmacFinal(&object, tag));
    print(name, tag, (size_t)wc_HmacSizeByType(type));
    wc_HmacFree(&object);
}

static const byte key[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
static const byte iv[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Encrypts in two calls, the second of which continues the first, and decrypts in place. */
static void show_cbc(int number)
{
    Aes aes;
    byte data[64] = {0};
    must(wc_AesInit(&aes, NULL, number));
    must(wc_AesSetKey(&aes, key, sizeof key, iv, AES_ENCRYPTION));
    must(wc_AesCbcEncrypt(&aes, data, data, 48));
    must(wc_AesCbcEncrypt(&aes, data + 48, data + 48, 16));
    print("aes-128-cbc", data, sizeof data);
    must(wc_AesSetKey(&aes, key, sizeof key, iv, AES_DECRYPTION));
    must(wc_AesCbcDecrypt(&aes, data, data, 16));
    must(wc_AesCbcDecrypt(&aes, data + 16, data + 16, 48));
    print("decrypted", data, sizeof data);
    wc_AesFree(&aes);
}

/* The second call ends within a block, and wolfSSL continues. */
static void show_ctr(int number)
{
    Aes aes;
    byte data[64] = {0};
    must(wc_AesInit(&aes, NULL, number));
    must(wc_AesSetKey(&aes, key, sizeof key, iv, AES_ENCRYPTION));
    must(wc_AesCtrEncrypt(&aes, data, data, 32));
    must(wc_AesCtrEncrypt(&aes, data + 32, data + 32, 5));
    must(wc_AesCtrEncrypt(&aes, data + 37, data + 37, 27));
    print("aes-128-ctr", data, sizeof data);
    wc_AesFree(&aes);
}

static void show_gcm(int number)
{
    static const byte zeros[16];
    Aes aes;
    byte data[16] = {0}, tag[16];
    must(wc_AesInit(&aes, NULL, number));
    must(wc_AesGcmSetKey(&aes, zeros, sizeof zeros));
    must(wc_AesGcmEncrypt(&aes, data, data, sizeof data, zeros, 12, tag, sizeof tag, NULL, 0));
    print("aes-128-gcm", data, sizeof data);
    print("tag", tag, sizeof tag);
    tag[0] ^= 1;
    int error = wc_AesGcmDecrypt(&aes, data, data, sizeof data, zeros, 12, tag, sizeof tag, NULL, 0);
    printf("forged %s\n", error == AES_GCM_AUTH_E ? "refused" : "taken");
    wc_AesFree(&aes);
}

int main(int count, char **arguments)
{
    int number = count == 2 && strcmp(arguments[1], "alone") == 0 ? INVALID_DEVID : DEVICE;
    struct device device = {0};
    char message[200];
    if (gantry_open(NULL, &device.devices, message, sizeof message) < 0) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    must(wolfCrypt_Init());
    must(wc_CryptoCb_RegisterDevice(DEVICE, callback, &device));
    show_digest("sha1", WC_HASH_TYPE_SHA, number);
    show_digest("sha256", WC_HASH_TYPE_SHA256, number);
    show_digest("sha384", WC_HASH_TYPE_SHA384, number);
    show_digest("sha512", WC_HASH_TYPE_SHA512, number);
    show_copy(number);
    show_hmac("hmac-sha1", WC_SHA, number);
    show_hmac("hmac-sha256", WC_SHA256, number);
    show_hmac("hmac-sha512", WC_SHA512, number);
    show_cbc(number);
    show_ctr(number);
    show_gcm(number);
    printf("calls: %u by gantry, %u left to wolfSSL\n", device.served, device.left);
    wc_CryptoCb_UnRegisterDevice(DEVICE);
    must(wolfCrypt_Cleanup());
    gantry_close(device.devices);
    return 0;
}
