/* Vectors through EVP, and what comes out:
 *
 *     vectors CONFIGURATION <LINES
 *
 * A line is a kind (aead, cipher, mac, verify or derive), an algorithm, and key, nonce, associated data, input, output and tag, in hexadecimal
 * with a dash for nothing. A MAC is named with what is inside: HMAC/SHA256. Each line is answered by one with a word for each
 * way through EVP: forward in one piece, forward in many, and the same back from output and tag. A word is what came out, or
 * "refused"; of what has one way only, there are two words. The key of a signature is public and in DER, and what comes out is 01; its
 * algorithm is a digest, with the length of the salt behind it where RSA has PSS: SHA256/32. Of
 * a secret it is a number, and the input is the peer's point, or its public key in DER. What is in many pieces is in place, too, unless bytes wait in between; CCM and XTS know no pieces. */
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

struct bytes {
    unsigned char at[MOST];
    int length;
};

struct vector {
    char kind[16], algorithm[40];
    struct bytes key, iv, aad, input, output, tag;
};

static OSSL_LIB_CTX *library;

/* The pieces of a message: lengths that meet every place in a block. */
static int piece(int at, int rest, int whole)
{
    int length = whole ? rest : 1 + 5 * at % 23;
    return length < rest ? length : rest;
}

/* `to` may be null, for associated data. One call at least where `always`. */
static int feed(EVP_CIPHER_CTX *ctx, struct bytes *to, const unsigned char *from, int length, int whole, int always)
{
    int at = 0, written;
    while (at < length || always) {
        int now = piece(at, length - at, whole);
        if (EVP_CipherUpdate(ctx, to ? to->at + to->length : NULL, &written, from + at, now) != 1)
            return 0;
        if (to)
            to->length += written;
        at += now;
        always = 0;
    }
    return 1;
}

static int aead(EVP_CIPHER_CTX *ctx, EVP_CIPHER *cipher, struct vector *v, int seal, int whole, struct bytes *out)
{
    struct bytes *from = seal ? &v->input : &v->output;
    int ccm = EVP_CIPHER_get_mode(cipher) == EVP_CIPH_CCM_MODE, written;
    const unsigned char *data = whole ? from->at : memcpy(out->at, from->at, (size_t)from->length);
    /* CCM wants the tag, or how long it will be, before the key; of others, it is told before or after the data. */
    int early = ccm || whole;
    return EVP_CipherInit_ex2(ctx, cipher, NULL, NULL, seal, NULL) == 1
        && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, v->iv.length, NULL) == 1
        && (!early || (seal && !ccm)
            || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, v->tag.length, seal ? NULL : v->tag.at) == 1)
        && EVP_CipherInit_ex2(ctx, NULL, v->key.at, v->iv.at, seal, NULL) == 1
        && (!ccm || EVP_CipherUpdate(ctx, NULL, &written, NULL, from->length) == 1)
        && feed(ctx, NULL, v->aad.at, v->aad.length, whole || ccm, 0)
        && feed(ctx, out, data, from->length, whole || ccm, ccm)
        && (seal || early || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, v->tag.length, v->tag.at) == 1)
        && EVP_CipherFinal_ex(ctx, out->at + out->length, &written) == 1
        && (!seal || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, v->tag.length, out->at + out->length) == 1)
        && (out->length += seal ? v->tag.length : 0, 1);
}

static int cipher(EVP_CIPHER_CTX *ctx, EVP_CIPHER *cipher, struct vector *v, int encrypt, int whole, struct bytes *out)
{
    struct bytes *from = encrypt ? &v->input : &v->output;
    int xts = EVP_CIPHER_get_mode(cipher) == EVP_CIPH_XTS_MODE, written;
    const unsigned char *data = from->at;
    if (xts && !whole)
        data = memcpy(out->at, data, (size_t)from->length);
    if (v->iv.length != EVP_CIPHER_get_iv_length(cipher)
        || EVP_CipherInit_ex2(ctx, cipher, v->key.at, v->iv.at, encrypt, NULL) != 1
        || !feed(ctx, out, data, from->length, whole || xts, 0)
        || EVP_CipherFinal_ex(ctx, out->at + out->length, &written) != 1)
        return 0;
    out->length += written;
    return 1;
}

static int mac(struct vector *v, int whole, struct bytes *out)
{
    OSSL_PARAM params[3], *end = params;
    char *inside = strchr(v->algorithm, '/');
    size_t written = 0;
    int good;
    *inside = 0;
    EVP_MAC *mac = EVP_MAC_fetch(library, v->algorithm, NULL);
    *inside++ = '/';
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);
    const char *name = strcmp(EVP_MAC_get0_name(mac), "HMAC") ? OSSL_MAC_PARAM_CIPHER : OSSL_MAC_PARAM_DIGEST;
    *end++ = OSSL_PARAM_construct_utf8_string(name, inside, 0);
    if (v->iv.length)
        *end++ = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, v->iv.at, (size_t)v->iv.length);
    *end = OSSL_PARAM_construct_end();
    good = EVP_MAC_init(ctx, v->key.at, (size_t)v->key.length, params) == 1;
    for (int at = 0, now; good && at < v->input.length; at += now) {
        now = piece(at, v->input.length - at, whole);
        good = EVP_MAC_update(ctx, v->input.at + at, (size_t)now) == 1;
    }
    good = good && EVP_MAC_final(ctx, out->at, &written, sizeof out->at) == 1;
    out->length = (int)written;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    return good;
}

static int verify(struct vector *v, int whole, struct bytes *out)
{
    const unsigned char *der = v->key.at;
    EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &der, v->key.length, library, NULL);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *inside;
    char digest[sizeof v->algorithm];
    size_t name = strcspn(v->algorithm, "/");
    memcpy(digest, v->algorithm, name);
    digest[name] = 0;
    int at = 0, good = key && EVP_DigestVerifyInit_ex(ctx, &inside, digest, library, NULL, key, NULL) == 1
        && (v->algorithm[name] == 0
            || (EVP_PKEY_CTX_set_rsa_padding(inside, RSA_PKCS1_PSS_PADDING) == 1
                && EVP_PKEY_CTX_set_rsa_pss_saltlen(inside, atoi(v->algorithm + name + 1)) == 1));
    for (int now; good && at < v->input.length; at += now) {
        now = piece(at, v->input.length - at, whole);
        good = EVP_DigestVerifyUpdate(ctx, v->input.at + at, (size_t)now) == 1;
    }
    good = good && EVP_DigestVerifyFinal(ctx, v->output.at, (size_t)v->output.length) == 1;
    out->at[0] = 1;
    out->length = good;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good;
}

/* A key on P-256 from one parameter. */
static EVP_PKEY *p256(const char *name, const struct bytes *value, int selection)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BIGNUM *number = BN_bin2bn(value->at, value->length, NULL);
    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
    if (selection == EVP_PKEY_KEYPAIR)
        OSSL_PARAM_BLD_push_BN_pad(build, name, number, 32);
    else
        OSSL_PARAM_BLD_push_octet_string(build, name, value->at, (size_t)value->length);
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library, "EC", NULL);
    if (params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 || EVP_PKEY_fromdata(ctx, &key, selection, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    BN_free(number);
    return key;
}

static int derive(struct vector *v, int whole, struct bytes *out)
{
    const unsigned char *der = v->input.at;
    EVP_PKEY *key = p256(OSSL_PKEY_PARAM_PRIV_KEY, &v->key, EVP_PKEY_KEYPAIR);
    EVP_PKEY *peer = !strcmp(v->algorithm, "ECDH/point") ? p256(OSSL_PKEY_PARAM_PUB_KEY, &v->input, EVP_PKEY_PUBLIC_KEY)
                                                         : d2i_PUBKEY_ex(NULL, &der, v->input.length, library, NULL);
    EVP_PKEY_CTX *ctx = key ? EVP_PKEY_CTX_new_from_pkey(library, key, NULL) : NULL;
    size_t written = MOST;
    int good = peer && ctx && EVP_PKEY_derive_init(ctx) == 1 && EVP_PKEY_derive_set_peer(ctx, peer) == 1;
    if (good && !whole) {
        EVP_PKEY_CTX *copy = EVP_PKEY_CTX_dup(ctx);
        EVP_PKEY_CTX_free(ctx);
        ctx = copy;
    }
    good = good && EVP_PKEY_derive(ctx, out->at, &written) == 1;
    out->length = good ? (int)written : 0;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(key);
    EVP_PKEY_free(peer);
    ERR_clear_error();
    return good;
}

static int has_one_way(const struct vector *v)
{
    return !strcmp(v->kind, "mac") || !strcmp(v->kind, "verify") || !strcmp(v->kind, "derive");
}

static int run(struct vector *v, int forward, int whole, struct bytes *out)
{
    out->length = 0;
    if (!strcmp(v->kind, "verify"))
        return verify(v, whole, out);
    if (!strcmp(v->kind, "derive"))
        return derive(v, whole, out);
    if (!strcmp(v->kind, "mac"))
        return mac(v, whole, out);
    EVP_CIPHER *method = EVP_CIPHER_fetch(library, v->algorithm, NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int good = 0;
    if (v->key.length == EVP_CIPHER_get_key_length(method))
        good = (!strcmp(v->kind, "aead") ? aead : cipher)(ctx, method, v, forward, whole, out);
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(method);
    return good;
}

static void read_hex(struct bytes *to, const char *text)
{
    unsigned byte;
    to->length = 0;
    for (; to->length < MOST && sscanf(text, "%2x", &byte) == 1; text += 2)
        to->at[to->length++] = (unsigned char)byte;
}

int main(int argc, char **argv)
{
    static struct vector v;
    static struct bytes out;
    static char line[12 * MOST];
    if (argc != 2 || !(library = OSSL_LIB_CTX_new()) || !OSSL_LIB_CTX_load_config(library, argv[1]))
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        struct bytes *fields[] = { &v.key, &v.iv, &v.aad, &v.input, &v.output, &v.tag };
        if (sscanf(line, "%15s %39s", v.kind, v.algorithm) != 2)
            return 3;
        strtok(line, " \n");
        strtok(NULL, " \n");
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            const char *text = strtok(NULL, " \n");
            if (!text)
                return 3;
            read_hex(fields[i], text);
        }
        for (int way = 0; way < (has_one_way(&v) ? 2 : 4); way++) {
            if (way)
                putchar(' ');
            if (run(&v, way < 2, way % 2 == 0, &out))
                for (int i = 0; i < out.length; i++)
                    printf("%02x", out.at[i]);
            else
                printf("refused");
        }
        putchar('\n');
    }
    OSSL_LIB_CTX_free(library);
    return 0;
}
