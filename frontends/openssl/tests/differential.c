/* Makes the same calls to the default provider and to gantry, and compares all results.
 *
 *     differential CONFIGURATION SEED
 *
 * The configuration is for gantry's library context. Calls are random: keys and nonces set together or one by one, chunks of
 * all lengths, in place or not, copies in the middle of a message, tags of all lengths set early or late, and consecutive
 * messages under one key. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2, MOST = 40000 };

static OSSL_LIB_CTX *library[SIDES];
static uint64_t state;
static const char *at_work = "";

static uint32_t chance(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % below);
}

static void fill(unsigned char *to, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)chance(256);
}

static void same(int good, const char *what)
{
    if (good)
        return;
    printf("%s: %s differs\n", at_work, what);
    exit(1);
}

/* Mostly long enough for a device. */
static int length(void)
{
    switch (chance(8)) {
    case 0: return (int)chance(20);
    case 1: return 16 * (int)chance(40);
    case 2: return 4096;
    default: return (int)chance(6000);
    }
}

struct side {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *ctx;
    unsigned char output[MOST + 64];
    int written;
};

/* Replaces the context by a copy; the original then processes other data. */
static void copy(struct side *side)
{
    EVP_CIPHER_CTX *other = EVP_CIPHER_CTX_new();
    if (EVP_CIPHER_CTX_copy(other, side->ctx) != 1) {
        EVP_CIPHER_CTX_free(other);
        return;
    }
    unsigned char lost[64];
    int written;
    EVP_CipherUpdate(side->ctx, lost, &written, (const unsigned char *)"another way", 11);
    EVP_CIPHER_CTX_free(side->ctx);
    side->ctx = other;
}

/* Sets the padding, as an integer of `size` bytes, or as a double if that exceeds 16. */
static int set_padding(EVP_CIPHER_CTX *ctx, int padding, size_t size)
{
    unsigned char number[16] = { 0 };
    const uint16_t one = 1;
    number[*(const unsigned char *)&one || size > sizeof number ? 0 : size - 1] = (unsigned char)padding;
    double real = padding;
    const OSSL_PARAM params[] = { size > sizeof number ? OSSL_PARAM_construct_double("padding", &real)
        : (OSSL_PARAM){ "padding", OSSL_PARAM_UNSIGNED_INTEGER, number, size, OSSL_PARAM_UNMODIFIED }, OSSL_PARAM_construct_end() };
    return EVP_CIPHER_CTX_set_params(ctx, params);
}

/* Sets a nonce, and perhaps a key, with a wrong parameter. The call fails; later calls show what it changed. */
static void wrong(struct side *sides, const unsigned char *key, const unsigned char *iv, int encrypt)
{
    int results[SIDES];
    unsigned char tag[17] = { 0 };
    OSSL_PARAM params[] = { OSSL_PARAM_construct_octet_string("tag", tag, sizeof tag),
        OSSL_PARAM_construct_utf8_string("padding", "none", 0), OSSL_PARAM_construct_end() };
    for (int i = 0; i < SIDES; i++)
        results[i] = EVP_CipherInit_ex2(sides[i].ctx, NULL, key, iv, encrypt, params);
    same(results[0] == results[1], "the result of a wrong initialisation");
}

static void cipher(const char *name)
{
    static struct side sides[SIDES];
    static unsigned char input[MOST], key[64], iv[16], aad[200], tag[16];
    at_work = name;
    for (int i = 0; i < SIDES; i++) {
        sides[i].cipher = EVP_CIPHER_fetch(library[i], name, i ? "provider=gantry" : NULL);
        if (!sides[i].cipher) {
            printf("%s: not there\n", name);
            ERR_print_errors_fp(stdout);
            exit(1);
        }
        sides[i].ctx = EVP_CIPHER_CTX_new();
    }
    int mode = EVP_CIPHER_get_mode(sides[0].cipher);
    int gcm = mode == EVP_CIPH_GCM_MODE, aead = !!(EVP_CIPHER_get_flags(sides[0].cipher) & EVP_CIPH_FLAG_AEAD_CIPHER);
    int xts = mode == EVP_CIPH_XTS_MODE;
    /* A second message under one nonce is allowed for ChaCha20-Poly1305 before OpenSSL 4.0. */
    int is_first = 1, encrypt = 1, may_reuse_nonce = !aead;
    /* The last message was abandoned, and the nonce of the context may have changed. */
    int is_abandoned = 0;

    /* Enough messages for effects that need many. */
    for (int message = 0; message < (aead || xts ? 600 : 120); message++) {
        /* Two periods, a short and a longer one, in which large messages follow each other without special calls. */
        int is_calm = !is_first && ((message % 24 >= 12 && message % 24 < 23) || (message >= 300 && message < 400));
        int new_key = is_first || (!is_calm && chance(4) == 0), sets_both = chance(2), padding = (int)chance(2);
        size_t padding_size = chance(3) ? 0 : 1 + chance(17);
        int turn = !is_calm && chance(8) == 0, use_cipher = !aead && !is_calm && chance(6) == 0;
        if (turn || is_first) {
            encrypt = (int)chance(2);
            new_key = 1;
        }
        /* The other direction without a key: the result is useless, but must be equal on both sides. */
        if (!is_first && !is_calm && !aead && !new_key && chance(10) == 0)
            encrypt ^= 1;
        int no_iv = !is_first && may_reuse_nonce && !xts && !new_key && chance(8) == 0;
        /* Many programs set the same key with each message. */
        int sets_key = new_key || chance(3) == 0 || is_abandoned;
        no_iv |= is_abandoned;
        is_abandoned = 0;
        fill(iv, sizeof iv);
        if (new_key)
            fill(key, sizeof key);
        int aad_length = aead ? (int)chance(chance(3) ? 20 : sizeof aad) : 0;
        int pieces = xts ? 1 : aead && !is_calm ? (int)chance(5) : 1 + (int)chance(4);
        int tag_length = chance(4) ? 16 : 4 + (int)chance(13), late = (int)chance(2);
        int iv_length = gcm && !is_calm && chance(6) == 0 ? 8 + (int)chance(9) : 12, queries = !is_calm && chance(4) == 0;
        fill(aad, sizeof aad);
        fill(tag, sizeof tag);

        if (!is_first && !is_calm && chance(10) == 0) {
            int keyed = new_key || chance(2);
            if (keyed)
                fill(key, sizeof key);
            /* XTS: a key with equal halves. */
            size_t half = (size_t)EVP_CIPHER_get_key_length(sides[0].cipher) / 2;
            if (xts)
                memcpy(key + half, key, half);
            wrong(sides, keyed || xts ? key : NULL, iv, encrypt);
            if (xts) {
                fill(key, sizeof key);
                sets_key = 1;
                no_iv = (int)chance(2);
            }
        }
        for (int i = 0; i < SIDES; i++) {
            EVP_CIPHER_CTX *ctx = sides[i].ctx;
            int result = 1;
            if (new_key && is_first)
                result = EVP_CipherInit_ex2(ctx, sides[i].cipher, NULL, NULL, encrypt, NULL);
            if (gcm)
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, iv_length, NULL);
            if (sets_key && sets_both && !no_iv)
                result &= EVP_CipherInit_ex2(ctx, NULL, key, iv, encrypt, NULL);
            else {
                if (sets_key)
                    result &= EVP_CipherInit_ex2(ctx, NULL, key, NULL, encrypt, NULL);
                result &= EVP_CipherInit_ex2(ctx, NULL, NULL, no_iv ? NULL : iv, encrypt, NULL);
            }
            if (result != 1) {
                printf("%s: init fails on side %d\n", name, i);
                exit(1);
            }
            if (padding_size)
                set_padding(ctx, padding, padding_size);
            else
                EVP_CIPHER_CTX_set_padding(ctx, padding);
        }
        is_first = 0;
        if (aead && !encrypt && !late)
            for (int i = 0; i < SIDES; i++)
                EVP_CIPHER_CTX_ctrl(sides[i].ctx, EVP_CTRL_AEAD_SET_TAG, tag_length, tag);
        for (int from = 0; from < aad_length;) {
            int piece = 1 + (int)chance((uint32_t)(aad_length - from)), written[SIDES];
            for (int i = 0; i < SIDES; i++)
                same(EVP_CipherUpdate(sides[i].ctx, NULL, &written[i], aad + from, piece) == 1, "associated data");
            same(written[0] == written[1], "the count of associated data");
            from += piece;
        }
        int duplicate = !is_calm && chance(3) == 0 && pieces ? (int)chance((uint32_t)pieces) : -1;
        for (int piece = 0; piece < pieces; piece++) {
            int bytes = is_calm ? 600 + (int)chance(4000) : length(), results[SIDES], in_place = (int)chance(2);
            if (aead && !gcm && piece && chance(6) == 0) {
                fill(iv, sizeof iv);
                wrong(sides, chance(2) ? key : NULL, iv, encrypt);
                is_abandoned = 1;
                break;
            }
            if (xts && bytes < 16)
                bytes = 16;
            if (use_cipher)
                bytes = bytes / 16 * 16 + 16;
            fill(input, (size_t)bytes);
            /* Sets the position within a block. (CTR has no such position.) */
            if (!is_calm && (mode == EVP_CIPH_CFB_MODE || mode == EVP_CIPH_OFB_MODE) && chance(6) == 0) {
                int num = (int)chance(16);
                for (int i = 0; i < SIDES; i++)
                    EVP_CIPHER_CTX_set_num(sides[i].ctx, num);
            }
            for (int i = 0; i < SIDES; i++) {
                struct side *side = &sides[i];
                if (piece == duplicate)
                    copy(side);
                memset(side->output, 0xEE, sizeof side->output);
                const unsigned char *from = input;
                if (in_place)
                    from = memcpy(side->output, input, (size_t)bytes);
                if (use_cipher) {
                    results[i] = EVP_Cipher(side->ctx, side->output, from, (unsigned)bytes);
                    side->written = results[i];
                } else
                    results[i] = EVP_CipherUpdate(side->ctx, side->output, &side->written, from, bytes);
            }
            same(results[0] == results[1], "the result of an update");
            if (results[0] > 0) {
                same(sides[0].written == sides[1].written, "the count of an update");
                same(!memcmp(sides[0].output, sides[1].output, (size_t)sides[0].written), "the output");
            }
            if (queries) {
                unsigned char one[16] = { 0 }, other[16] = { 0 };
                int a = EVP_CIPHER_CTX_get_original_iv(sides[0].ctx, one, sizeof one);
                int b = EVP_CIPHER_CTX_get_original_iv(sides[1].ctx, other, sizeof other);
                same(a == b && !memcmp(one, other, sizeof one), "the original nonce");
                a = EVP_CIPHER_CTX_get_updated_iv(sides[0].ctx, one, sizeof one);
                b = EVP_CIPHER_CTX_get_updated_iv(sides[1].ctx, other, sizeof other);
                same(a == b && (gcm || !memcmp(one, other, sizeof one)), "the updated nonce");
                same(EVP_CIPHER_CTX_get_num(sides[0].ctx) == EVP_CIPHER_CTX_get_num(sides[1].ctx), "num");
            }
        }
        if (is_abandoned)
            continue;
        int results[SIDES];
        for (int i = 0; i < SIDES; i++) {
            struct side *side = &sides[i];
            if (aead && !encrypt && late)
                EVP_CIPHER_CTX_ctrl(side->ctx, EVP_CTRL_AEAD_SET_TAG, tag_length, tag);
            results[i] = EVP_CipherFinal_ex(side->ctx, side->output, &side->written);
        }
        same(results[0] == results[1], "the result of the end");
        if (results[0] == 1) {
            same(sides[0].written == sides[1].written, "the count of the end");
            same(!memcmp(sides[0].output, sides[1].output, (size_t)sides[0].written), "the end");
        }
        if (aead && encrypt) {
            unsigned char tags[SIDES][16] = { { 0 } };
            for (int i = 0; i < SIDES; i++)
                same(EVP_CIPHER_CTX_ctrl(sides[i].ctx, EVP_CTRL_AEAD_GET_TAG, tag_length, tags[i]) == 1, "asking for the tag");
            same(!memcmp(tags[0], tags[1], 16), "the tag");
        }
        if (aead && results[0] == 1) {
            int after[SIDES];
            for (int i = 0; i < SIDES; i++)
                after[i] = EVP_CipherUpdate(sides[i].ctx, sides[i].output, &sides[i].written, input, 600);
            same(after[0] == after[1] && !(gcm && after[0] == 1), "a second message under one nonce");
            same(after[0] != 1 || !memcmp(sides[0].output, sides[1].output, 600), "what it says");
            may_reuse_nonce = after[0] == 1;
            for (int i = 0; may_reuse_nonce && i < SIDES; i++)
                after[i] = EVP_CipherFinal_ex(sides[i].ctx, sides[i].output, &sides[i].written);
            same(after[0] == after[1], "the end of a second message");
        }
    }
    for (int i = 0; i < SIDES; i++) {
        EVP_CIPHER_CTX_free(sides[i].ctx);
        EVP_CIPHER_free(sides[i].cipher);
    }
}

/* Checks that the default provider opens messages that gantry sealed, and the other way round, and that neither opens forgeries. */
static void sealed(const char *name)
{
    static unsigned char text[MOST], box[MOST], back[MOST], key[32], iv[12], aad[13], tag[16];
    EVP_CIPHER *ciphers[SIDES];
    at_work = name;
    for (int i = 0; i < SIDES; i++)
        ciphers[i] = EVP_CIPHER_fetch(library[i], name, i ? "provider=gantry" : NULL);
    for (int round = 0; round < 200; round++) {
        int bytes = length(), from = (int)chance(2), written, tag_length = chance(3) ? 16 : 8 + (int)chance(9);
        int late = (int)chance(2);
        fill(key, sizeof key);
        fill(iv, sizeof iv);
        fill(text, (size_t)bytes);
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        EVP_EncryptInit_ex2(ctx, ciphers[from], key, iv, NULL);
        EVP_EncryptUpdate(ctx, NULL, &written, aad, sizeof aad);
        EVP_EncryptUpdate(ctx, box, &written, text, bytes);
        same(EVP_EncryptFinal_ex(ctx, box, &written) == 1, "sealing");
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, tag_length, tag);
        EVP_CIPHER_CTX_free(ctx);
        for (int forged = 0; forged < 2; forged++) {
            tag[chance((uint32_t)tag_length)] ^= (unsigned char)forged;
            ctx = EVP_CIPHER_CTX_new();
            EVP_DecryptInit_ex2(ctx, ciphers[!from], key, iv, NULL);
            if (!late)
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, tag_length, tag);
            EVP_DecryptUpdate(ctx, NULL, &written, aad, sizeof aad);
            EVP_DecryptUpdate(ctx, back, &written, box, bytes);
            if (late)
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, tag_length, tag);
            same(EVP_DecryptFinal_ex(ctx, back, &written) == !forged, forged ? "opening a forgery" : "opening");
            same(forged || !memcmp(text, back, (size_t)bytes), "what was opened");
            EVP_CIPHER_CTX_free(ctx);
        }
    }
    for (int i = 0; i < SIDES; i++)
        EVP_CIPHER_free(ciphers[i]);
}

/* TLS 1.2 records with GCM and ChaCha20-Poly1305, sealed and opened by both sides. Some are forged or have a wrong length in the header.
 * Nonces, parts of nonces and ordinary messages come between header and record, and between records. */
static void records(const char *name)
{
    enum { HEADER = 13, NONCE = 12, TAG = 16 };
    static struct side sides[2][SIDES];
    static unsigned char record[MOST], key[32], iv[NONCE], aad[100], input[600];
    int gcm = strstr(name, "GCM") != NULL, explicit = gcm ? 8 : 0, good = 0;
    at_work = name;
    fill(key, sizeof key);
    fill(iv, sizeof iv);
    for (int seal = 0; seal < 2; seal++)
        for (int i = 0; i < SIDES; i++) {
            struct side *side = &sides[seal][i];
            side->cipher = EVP_CIPHER_fetch(library[i], name, i ? "provider=gantry" : NULL);
            side->ctx = EVP_CIPHER_CTX_new();
            same(EVP_CipherInit_ex2(side->ctx, side->cipher, key, gcm ? NULL : iv, seal, NULL) == 1, "the beginning of records");
        }
    /* The first records may come before the fixed part of nonces is set. */
    for (int number = 0; number < 300; number++) {
        int bytes = length(), whole = explicit + bytes + TAG, forged = chance(5) == 0, wrong = chance(6) == 0 ? 1 : 0;
        int sets_fixed = number == 3 || chance(20) == 0, with_ordinary = chance(8) == 0, between = chance(12) == 0;
        unsigned char header[HEADER] = { 0, 0, 0, 0, 0, 0, 0, (unsigned char)number, 23, 3, 3 };
        fill(record, (size_t)whole);
        fill(aad, sizeof aad);
        if (sets_fixed)
            fill(iv, sizeof iv);
        for (int seal = 1; seal >= 0; seal--) {
            int results[SIDES], around = explicit + bytes + (seal ? 0 : TAG) + wrong;
            header[HEADER - 2] = (unsigned char)(around >> 8);
            header[HEADER - 1] = (unsigned char)around;
            if (!seal && forged)
                record[chance((uint32_t)whole)] ^= 1;
            /* First an ordinary message, which may be incomplete. */
            if (with_ordinary) {
                int written, rest = (int)chance(3), ends = (int)chance(2), ordinary[SIDES];
                for (int i = 0; i < SIDES; i++) {
                    EVP_CIPHER_CTX *ctx = sides[seal][i].ctx;
                    ordinary[i] = EVP_CipherInit_ex2(ctx, NULL, NULL, iv, seal, NULL) == 1
                        && EVP_CipherUpdate(ctx, NULL, &written, aad, rest ? sizeof aad : 20) == 1
                        && EVP_CipherUpdate(ctx, sides[seal][i].output, &written, aad, sizeof aad) == 1
                        && EVP_CipherUpdate(ctx, sides[seal][i].output + written, &written, input, sizeof input) == 1;
                    if (ends)
                        ordinary[i] += 2 * EVP_CipherFinal_ex(ctx, sides[seal][i].output + 700, &written);
                }
                same(ordinary[0] == ordinary[1] && !memcmp(sides[seal][0].output, sides[seal][1].output, 700), "a message beside records");
            }
            for (int i = 0; sets_fixed && i < SIDES; i++)
                EVP_CIPHER_CTX_ctrl(sides[seal][i].ctx, EVP_CTRL_AEAD_SET_IV_FIXED, gcm ? -1 : NONCE, iv);
            if (sets_fixed && with_ordinary && gcm) {
                /* A message follows, under the nonce that SET_IV_FIXED has set. */
                for (int i = 0; i < SIDES; i++) {
                    struct side *side = &sides[seal][i];
                    results[i] = EVP_CipherUpdate(side->ctx, side->output, &side->written, input, sizeof input);
                }
                same(results[0] == results[1], "the result of a message under it");
                same(results[0] != 1 || !memcmp(sides[seal][0].output, sides[seal][1].output, sizeof input), "a message under it");
            }
            for (int i = 0; i < SIDES; i++) {
                struct side *side = &sides[seal][i];
                memcpy(side->output, record, (size_t)whole);
                results[i] = EVP_CIPHER_CTX_ctrl(side->ctx, EVP_CTRL_AEAD_TLS1_AAD, HEADER, header);
            }
            same(results[0] == results[1], "the room for a tag");
            if (results[0] != TAG)
                continue;
            for (int i = 0; i < SIDES; i++) {
                struct side *side = &sides[seal][i];
                if (between)
                    same(EVP_CipherInit_ex2(side->ctx, NULL, NULL, iv, seal, NULL) == 1, "a nonce before a record");
                side->written = 0;
                results[i] = EVP_CipherUpdate(side->ctx, side->output, &side->written, side->output, whole);
            }
            struct side *one = &sides[seal][0], *other = &sides[seal][1];
            same(results[0] == results[1] && one->written == other->written, "the result of a record");
            if (results[0] == 1)
                same(!memcmp(one->output, other->output, (size_t)whole), "a record");
            good += !seal && results[0] == 1;
            if (seal)
                memcpy(record, one->output, (size_t)whole);
        }
    }
    same(good > 100, "the number of records that are opened");
    for (int seal = 0; seal < 2; seal++)
        for (int i = 0; i < SIDES; i++) {
            EVP_CIPHER_CTX_free(sides[seal][i].ctx);
            EVP_CIPHER_free(sides[seal][i].cipher);
        }
}

int main(int argc, char **argv)
{
    static const char *const gcms[] = { "AES-128-GCM", "AES-192-GCM", "AES-256-GCM" };
    static const char *const ciphers[] = { "AES-256-XTS", "AES-128-XTS", "AES-128-ECB", "AES-128-CBC", "AES-192-CBC",
        "AES-256-CBC", "AES-128-CTR", "AES-256-CTR", "DES-EDE3-CBC", "ChaCha20" };
    if (argc < 3)
        return 2;
    state = strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < SIDES; i++)
        library[i] = OSSL_LIB_CTX_new();
    OSSL_PROVIDER *default_provider = OSSL_PROVIDER_load(library[0], "default");
    if (!default_provider || !OSSL_LIB_CTX_load_config(library[1], argv[1])) {
        printf("the configuration does not load\n");
        ERR_print_errors_fp(stdout);
        return 1;
    }
    for (size_t i = 0; i < sizeof gcms / sizeof *gcms; i++) {
        cipher(gcms[i]);
        sealed(gcms[i]);
        records(gcms[i]);
    }
    cipher("ChaCha20-Poly1305");
    sealed("ChaCha20-Poly1305");
    records("ChaCha20-Poly1305");
    for (size_t i = 0; i < sizeof ciphers / sizeof *ciphers; i++)
        cipher(ciphers[i]);
    OSSL_PROVIDER_unload(default_provider);
    for (int i = 0; i < SIDES; i++)
        OSSL_LIB_CTX_free(library[i]);
    puts("the same");
    return 0;
}
