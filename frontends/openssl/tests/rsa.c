/* RSA through gantry and without it: keys of all sizes and kinds, paddings, digests that are signed and messages that are digested
 * first, what is wrong with them, what programs say to a context, and what else RSA does.
 *
 *     rsa CONFIGURATION
 *
 * The configuration is for gantry's library context. */
#include <openssl/core_names.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "sides.h"

static EVP_PKEY *made(const char *type, unsigned bits, unsigned long long exponent, unsigned primes, const char *properties)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(with, type, properties);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_uint(OSSL_PKEY_PARAM_RSA_BITS, &bits),
        OSSL_PARAM_construct_uint64(OSSL_PKEY_PARAM_RSA_E, (uint64_t *)&exponent),
        OSSL_PARAM_construct_uint(OSSL_PKEY_PARAM_RSA_PRIMES, &primes),
        OSSL_PARAM_construct_end(),
    };
    must(EVP_PKEY_keygen_init(ctx) == 1 && EVP_PKEY_CTX_set_params(ctx, params) == 1 && EVP_PKEY_keygen(ctx, &key) == 1,
        "making a key");
    EVP_PKEY_CTX_free(ctx);
    return key;
}

/* What a context is told of padding. */
struct padding {
    const char *mode, *salt, *mask;
    /* Two signatures of one message are the same. */
    int same;
};

static const struct padding PADDINGS[] = {
    { NULL, NULL, NULL, 1 },
    { "pkcs1", NULL, NULL, 1 },
    { "pss", "digest", NULL, 0 },
    { "pss", NULL, NULL, 0 },
    { "pss", "max", NULL, 0 },
    { "pss", "32", NULL, 0 },
    { "pss", "20", NULL, 0 },
    { "pss", "digest", "SHA256", 0 },
    { "x931", NULL, NULL, 1 },
};

static int is_same(const EVP_PKEY *key, const struct padding *padding)
{
    return padding->same && !EVP_PKEY_is_a(key, "RSA-PSS");
}

static OSSL_PARAM *tell(const struct padding *padding, OSSL_PARAM *params)
{
    OSSL_PARAM *end = params;
    if (padding->mode != NULL)
        *end++ = OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, (char *)padding->mode, 0);
    if (padding->salt != NULL)
        *end++ = OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, (char *)padding->salt, 0);
    if (padding->mask != NULL)
        *end++ = OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_MGF1_DIGEST, (char *)padding->mask, 0);
    *end = OSSL_PARAM_construct_end();
    return params;
}

static void messages(EVP_PKEY *key, EVP_PKEY *theirs)
{
    static const char *const digests[] = { "SHA256", "SHA2-384", "sha512", "SHA1", "SHA512-256", "SHA3-256", "MD5-SHA1" };
    static const size_t lengths[] = { 0, 64, 300, LONGEST };
    EVP_PKEY *public = moved(key, with, EVP_PKEY_PUBLIC_KEY), *their_public = moved(key, without, EVP_PKEY_PUBLIC_KEY);
    unsigned char ours[ROOM], others[ROOM + 1];
    size_t size, their_size;
    OSSL_PARAM params[4];
    for (size_t p = 0; p < sizeof PADDINGS / sizeof *PADDINGS; p++) {
        told = tell(&PADDINGS[p], params);
        for (size_t d = 0; d < sizeof digests / sizeof *digests; d++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i += d == 0 && p < 3 ? 1 : 3) {
                int good = sign(without, theirs, digests[d], lengths[i], i & 1, others, &their_size);
                ERR_clear_error();
                must(sign(with, key, digests[d], lengths[i], i & 1, ours, &size) == good, "one side signs");
                if (!good) {
                    ERR_clear_error();
                    continue;
                }
                must(ERR_peek_error() == 0, "an error without a failure");
                must(size == their_size, "sizes of signatures differ");
                must((memcmp(ours, others, size) == 0) == is_same(key, &PADDINGS[p]), "signatures are the same or are not");
                must(judged(public, their_public, digests[d], lengths[i], ours, size), "ours");
                must(judged(key, theirs, digests[d], lengths[i], others, size), "theirs");
                if (d != 0 || i != 0)
                    continue;
                /* Forgeries, and what is no signature at all. */
                for (size_t at = 0; at < size; at += size / 3) {
                    memcpy(others, ours, size);
                    others[at] ^= 1;
                    must(!judged(public, their_public, digests[d], lengths[i], others, size), "a forgery");
                }
                memcpy(others, ours, size);
                others[size] = 0;
                must(!judged(public, their_public, digests[d], lengths[i], others, size + 1), "a long signature");
                must(!judged(public, their_public, digests[d], lengths[i], others, size - 1), "a short signature");
                must(!judged(public, their_public, digests[d], lengths[i], others, 0), "no signature");
                must(!judged(public, their_public, digests[d], 1, others, size), "another message");
                must(!judged(public, their_public, "SHA384", lengths[i], others, size), "another digest");
                memset(others, 0xff, size);
                must(!judged(public, their_public, digests[d], lengths[i], others, size), "more than the modulus");
            }
    }
    told = NULL;
    must(sign(with, public, "SHA256", 5, 0, ours, &size) == sign(without, their_public, "SHA256", 5, 0, others, &their_size),
        "a public key signs");
    ERR_clear_error();
    EVP_PKEY_free(public);
    EVP_PKEY_free(their_public);
}

/* A message that is begun with one padding and ended with another; copies; the same context for other messages. */
static void changes(EVP_PKEY *key, EVP_PKEY *theirs)
{
    unsigned char ours[ROOM], others[ROOM];
    OSSL_PARAM params[4];
    for (size_t p = 0; p < sizeof PADDINGS / sizeof *PADDINGS; p++) {
        size_t sizes[2] = { ROOM, ROOM };
        long results[2][4];
        for (int side = 0; side < 2; side++) {
            EVP_MD_CTX *ctx = EVP_MD_CTX_new(), *copy = EVP_MD_CTX_new();
            EVP_PKEY_CTX *inside = NULL;
            unsigned char *signature = side ? ours : others;
            must(EVP_DigestSignInit_ex(ctx, &inside, "SHA256", side ? with : without, NULL, side ? key : theirs, NULL) == 1,
                "beginning");
            must(EVP_DigestSignUpdate(ctx, message, 100) == 1 && EVP_MD_CTX_copy_ex(copy, ctx) == 1, "copying a context");
            results[side][0] = came(EVP_PKEY_CTX_set_params(inside, tell(&PADDINGS[p], params)));
            must(EVP_DigestSignUpdate(ctx, message + 100, 200) == 1 && EVP_DigestSignUpdate(copy, message + 100, 50) == 1, "both");
            results[side][1] = came(EVP_DigestSignFinal(ctx, signature, &sizes[side]));
            size_t size = ROOM;
            unsigned char copied[ROOM];
            must(EVP_DigestSignFinal(copy, copied, &size) == 1, "the end of a copy");
            must(judged(key, theirs, "SHA256", 150, copied, size), "a copy's");
            /* Another message under another digest. */
            results[side][2] = came(EVP_DigestSignInit_ex(ctx, NULL, "SHA512", side ? with : without, NULL, NULL, NULL));
            size = ROOM;
            results[side][3] = came(EVP_DigestSign(ctx, copied, &size, message, 33));
            EVP_MD_CTX_free(ctx);
            EVP_MD_CTX_free(copy);
        }
        must(memcmp(results[0], results[1], sizeof *results) == 0, "results of changes differ");
        if (results[0][1] != 100000)
            continue;
        must(sizes[0] == sizes[1] && (memcmp(ours, others, sizes[0]) == 0) == is_same(key, &PADDINGS[p]), "signatures after a change");
        told = tell(&PADDINGS[p], params);
        must(judged(key, theirs, "SHA256", 300, ours, sizes[1]), "ours after a change");
        told = NULL;
    }
}

/* Digests, and what is none, are signed, verified and given back. */
static void digests(EVP_PKEY *key, EVP_PKEY *theirs)
{
    static const char *const names[] = { NULL, "SHA256", "SHA384", "SHA512", "SHA1" };
    static const size_t lengths[] = { 0, 20, 32, 48, 64 };
    unsigned char one[ROOM], other[ROOM], back[2][ROOM];
    OSSL_PARAM params[4];
    struct padding none = { "none", NULL, NULL, 1 };
    for (size_t p = 0; p <= sizeof PADDINGS / sizeof *PADDINGS; p++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                const struct padding *padding = p < sizeof PADDINGS / sizeof *PADDINGS ? &PADDINGS[p] : &none;
                size_t length = padding == &none && i == 2 ? (size_t)EVP_PKEY_get_size(key) : lengths[i], sizes[2];
                long results[2][6] = { { 0 } };
                for (int side = 0; side < 2; side++) {
                    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(side ? with : without, side ? key : theirs, NULL);
                    unsigned char *signature = side ? one : other;
                    must(EVP_PKEY_sign_init(ctx) == 1, "beginning");
                    if (names[n] != NULL)
                        results[side][0] = came(EVP_PKEY_CTX_set_signature_md(ctx, EVP_get_digestbyname(names[n])));
                    results[side][1] = came(EVP_PKEY_CTX_set_params(ctx, tell(padding, params)));
                    size_t size = 0;
                    must(EVP_PKEY_sign(ctx, NULL, &size, message, length) == 1, "the size of signatures");
                    size_t little = size - 1;
                    results[side][2] = came(EVP_PKEY_sign(ctx, signature, &little, message, length));
                    sizes[side] = ROOM;
                    results[side][3] = came(EVP_PKEY_sign(ctx, signature, &sizes[side], message, length));
                    EVP_PKEY_CTX *copy = EVP_PKEY_CTX_dup(ctx);
                    size = ROOM;
                    results[side][4] = came(EVP_PKEY_sign(copy, back[side], &size, message, length));
                    EVP_PKEY_CTX_free(copy);
                    EVP_PKEY_CTX_free(ctx);
                }
                must(memcmp(results[0], results[1], sizeof *results) == 0, "results of signing differ");
                if (results[0][3] != 100000)
                    continue;
                must(sizes[0] == sizes[1], "sizes of signatures differ");
                must((memcmp(one, other, sizes[0]) == 0) == is_same(key, padding), "signatures are the same or are not");
                for (int side = 0; side < 2; side++) {
                    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(side ? with : without, side ? key : theirs, NULL);
                    must(EVP_PKEY_verify_init(ctx) == 1, "beginning");
                    if (names[n] != NULL)
                        came(EVP_PKEY_CTX_set_signature_md(ctx, EVP_get_digestbyname(names[n])));
                    came(EVP_PKEY_CTX_set_params(ctx, tell(padding, params)));
                    results[side][0] = came(EVP_PKEY_verify(ctx, one, sizes[0], message, length));
                    results[side][1] = came(EVP_PKEY_verify(ctx, other, sizes[0], message, length));
                    results[side][2] = came(EVP_PKEY_verify(ctx, one, sizes[0], message, length + 1));
                    results[side][3] = came(EVP_PKEY_verify_recover_init(ctx));
                    if (names[n] != NULL)
                        came(EVP_PKEY_CTX_set_signature_md(ctx, EVP_get_digestbyname(names[n])));
                    came(EVP_PKEY_CTX_set_params(ctx, tell(padding, params)));
                    size_t size = ROOM;
                    memset(back[side], 0, ROOM);
                    results[side][4] = came(EVP_PKEY_verify_recover(ctx, back[side], &size, one, sizes[0]));
                    EVP_PKEY_CTX_free(ctx);
                }
                must(memcmp(results[0], results[1], sizeof *results) == 0, "results of verifying differ");
                must(results[0][0] == results[0][1], "one of the signatures is bad");
                must(memcmp(back[0], back[1], ROOM) == 0, "what is given back differs");
            }
}

/* What a context says of itself. */
static void words(EVP_PKEY *key, EVP_PKEY *theirs)
{
    OSSL_PARAM padding[4];
    for (size_t p = 0; p < sizeof PADDINGS / sizeof *PADDINGS; p++) {
        unsigned char ids[2][128] = { { 0 } };
        char texts[2][4][32] = { { { 0 } } };
        long results[2];
        for (int side = 0; side < 2; side++) {
            EVP_MD_CTX *ctx = EVP_MD_CTX_new();
            EVP_PKEY_CTX *inside = NULL;
            OSSL_PARAM params[] = {
                OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_DIGEST, texts[side][0], 32),
                OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_MGF1_DIGEST, texts[side][1], 32),
                OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, texts[side][2], 32),
                OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, texts[side][3], 32),
                OSSL_PARAM_construct_octet_string(OSSL_SIGNATURE_PARAM_ALGORITHM_ID, ids[side], sizeof ids[side]),
                OSSL_PARAM_construct_end(),
            };
            must(EVP_DigestSignInit_ex(ctx, &inside, "SHA384", side ? with : without, NULL, side ? key : theirs, NULL) == 1,
                "beginning");
            results[side] = came(EVP_PKEY_CTX_set_params(inside, tell(&PADDINGS[p], padding)));
            results[side] = results[side] * 10 + came(EVP_PKEY_CTX_get_params(inside, params));
            EVP_MD_CTX_free(ctx);
        }
        must(results[0] == results[1] && memcmp(texts[0], texts[1], sizeof *texts) == 0, "words differ");
        must(memcmp(ids[0], ids[1], sizeof *ids) == 0, "names of the algorithm differ");
    }
}

/* What else is done with keys: the default provider does it. */
static void others(EVP_PKEY *key, EVP_PKEY *theirs)
{
    EVP_PKEY *copy = EVP_PKEY_dup(key);
    must(copy != NULL && EVP_PKEY_eq(key, copy) == 1 && EVP_PKEY_eq(key, theirs) == 1, "the same key");
    must(EVP_PKEY_get_bits(key) == EVP_PKEY_get_bits(theirs) && EVP_PKEY_get_size(key) == EVP_PKEY_get_size(theirs), "its sizes");
    unsigned char *one = NULL, *two = NULL;
    int length = i2d_PrivateKey(key, &one);
    must(length > 0 && length == i2d_PrivateKey(theirs, &two) && memcmp(one, two, (size_t)length) == 0, "its DER");
    const unsigned char *at = one;
    EVP_PKEY *back = d2i_AutoPrivateKey_ex(NULL, &at, length, with, NULL);
    must(back != NULL && EVP_PKEY_eq(back, key) == 1, "back from DER");
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(with, key, NULL);
    must(EVP_PKEY_check(ctx) == 1 && EVP_PKEY_pairwise_check(ctx) == 1, "checking it");
    EVP_PKEY_CTX_free(ctx);
    if (EVP_PKEY_is_a(key, "RSA")) {
        unsigned char sealed[ROOM], opened[ROOM];
        size_t size = ROOM, written = ROOM;
        EVP_PKEY_CTX *seals = EVP_PKEY_CTX_new_from_pkey(with, key, NULL), *opens = EVP_PKEY_CTX_new_from_pkey(without, theirs, NULL);
        for (int ours = 0; ours < 2; ours++) {
            must(EVP_PKEY_encrypt_init(seals) == 1 && EVP_PKEY_CTX_set_rsa_padding(seals, RSA_PKCS1_OAEP_PADDING) == 1
                    && EVP_PKEY_encrypt(seals, sealed, &size, message, 40) == 1,
                "encrypting");
            must(EVP_PKEY_decrypt_init(opens) == 1 && EVP_PKEY_CTX_set_rsa_padding(opens, RSA_PKCS1_OAEP_PADDING) == 1
                    && EVP_PKEY_decrypt(opens, opened, &written, sealed, size) == 1 && written == 40
                    && memcmp(opened, message, 40) == 0,
                "decrypting");
            EVP_PKEY_CTX *swapped = seals;
            seals = opens;
            opens = swapped;
            size = written = ROOM;
        }
        EVP_PKEY_CTX_free(seals);
        EVP_PKEY_CTX_free(opens);
        must(EVP_PKEY_get0_RSA(key) != NULL && RSA_size(EVP_PKEY_get0_RSA(key)) == EVP_PKEY_get_size(key), "as an old program has it");
    }
    OPENSSL_free(one);
    OPENSSL_free(two);
    EVP_PKEY_free(copy);
    EVP_PKEY_free(back);
}

static void all(EVP_PKEY *key, int briefly)
{
    EVP_PKEY *theirs = moved(key, without, EVP_PKEY_KEYPAIR);
    others(key, theirs);
    messages(key, theirs);
    words(key, theirs);
    if (!briefly) {
        changes(key, theirs);
        digests(key, theirs);
    }
    /* The old structure may have been looked at: it is used as before. */
    EVP_PKEY_free(theirs);
    EVP_PKEY_free(key);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    all(made("RSA", 2048, 65537, 2, "provider=gantry"), 0);
    all(made("RSA", 2048, 65537, 2, "provider=default"), 0);
    all(made("RSA", 3072, 65537, 2, NULL), 1);
    all(made("RSA", 4096, 3, 2, NULL), 1);
    /* What devices do not have: other sizes, long exponents, more primes, keys that say how they sign. */
    all(made("RSA", 2056, 65537, 2, "provider=gantry"), 1);
    all(made("RSA", 2047, 65537, 2, "provider=gantry"), 1);
    all(made("RSA", 2048, (1ULL << 40) + 15, 2, "provider=gantry"), 1);
    all(made("RSA", 2048, 65537, 3, "provider=gantry"), 1);
    all(made("RSA-PSS", 2048, 65537, 2, NULL), 1);
    return end();
}
