/* Runs vectors through EVP, and prints the results:
 *
 *     vectors CONFIGURATION <LINES
 *
 * A line is a kind (aead or cipher), an algorithm, and key, nonce, associated data, input, output and tag in hexadecimal, with
 * a dash for an empty field. The answer is a line with a word for each way of calling: encrypt in one call, encrypt in many
 * chunks, and both again to decrypt output and tag. A word is the result, or "refused". Chunks are processed in place, unless
 * bytes may be held back; XTS takes no chunks. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
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

/* Returns the length of the next chunk; the lengths reach every position within a block. */
static int piece(int at, int rest, int whole)
{
    int length = whole ? rest : 1 + 5 * at % 23;
    return length < rest ? length : rest;
}

/* `to` is null for associated data. */
static int feed(EVP_CIPHER_CTX *ctx, struct bytes *to, const unsigned char *from, int length, int whole)
{
    int at = 0, written;
    while (at < length) {
        int now = piece(at, length - at, whole);
        if (EVP_CipherUpdate(ctx, to ? to->at + to->length : NULL, &written, from + at, now) != 1)
            return 0;
        if (to)
            to->length += written;
        at += now;
    }
    return 1;
}

static int aead(EVP_CIPHER_CTX *ctx, EVP_CIPHER *cipher, struct vector *v, int seal, int whole, struct bytes *out)
{
    struct bytes *from = seal ? &v->input : &v->output;
    int written;
    const unsigned char *data = whole ? from->at : memcpy(out->at, from->at, (size_t)from->length);
    /* The tag is set before or after the data. */
    int early = whole;
    return EVP_CipherInit_ex2(ctx, cipher, NULL, NULL, seal, NULL) == 1
        && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, v->iv.length, NULL) == 1
        && (!early || seal || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, v->tag.length, v->tag.at) == 1)
        && EVP_CipherInit_ex2(ctx, NULL, v->key.at, v->iv.at, seal, NULL) == 1
        && feed(ctx, NULL, v->aad.at, v->aad.length, whole)
        && feed(ctx, out, data, from->length, whole)
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
        || !feed(ctx, out, data, from->length, whole || xts)
        || EVP_CipherFinal_ex(ctx, out->at + out->length, &written) != 1)
        return 0;
    out->length += written;
    return 1;
}

static int run(struct vector *v, int forward, int whole, struct bytes *out)
{
    out->length = 0;
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
        for (int way = 0; way < 4; way++) {
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
