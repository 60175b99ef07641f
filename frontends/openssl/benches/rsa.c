/* RSA of AWS-LC, which is what the software device computes with, and of OpenSSL in one process: short runs on either side in turn, and the
 * median of their ratios. CPU time of the thread, so that a busy machine does not matter.
 *
 *     rsa [BITS]
 *
 * A ratio of 2 is twice as fast with AWS-LC. Signatures are of messages of 300 bytes with SHA-256, each in a new context; `pss` has salts
 * as long as the digest, and MGF1 with it. `first` reads the key from DER and signs or verifies once, `copy` hands a key from one provider
 * of OpenSSL to another, which AWS-LC has no part in.
 *
 * Built twice by `rsa`, because both libraries have the same names: with OTHER for the functions of AWS-LC, and without for the rest. */
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef OTHER
#define SIDE(name) aws_lc_side_##name
#else
#define SIDE(name) openssl_side_##name
#endif

enum { MESSAGE = 300, LONGEST = 512 };
static const unsigned char message[MESSAGE];

static void must(int good, const char *what)
{
    if (good > 0)
        return;
    fprintf(stderr, "rsa: %s failed\n", what);
    exit(1);
}

static void pad(EVP_PKEY_CTX *ctx, int pss)
{
    if (!pss)
        return;
    must(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING), "padding");
    must(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, -1), "salt");
}

EVP_PKEY *SIDE(private)(const unsigned char *der, long length)
{
    EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &der, length);
    must(key != NULL, "private key");
    return key;
}

EVP_PKEY *SIDE(public)(const unsigned char *der, long length)
{
    EVP_PKEY *key = d2i_PUBKEY(NULL, &der, length);
    must(key != NULL, "public key");
    return key;
}

void SIDE(free)(EVP_PKEY *key)
{
    EVP_PKEY_free(key);
}

void SIDE(sign)(EVP_PKEY *key, int pss, unsigned char *signature, size_t *length)
{
    EVP_PKEY_CTX *ctx;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    must(EVP_DigestSignInit(md, &ctx, EVP_sha256(), NULL, key), "init");
    pad(ctx, pss);
    *length = LONGEST;
    must(EVP_DigestSign(md, signature, length, message, MESSAGE), "sign");
    EVP_MD_CTX_free(md);
}

void SIDE(verify)(EVP_PKEY *key, int pss, const unsigned char *signature, size_t length)
{
    EVP_PKEY_CTX *ctx;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    must(EVP_DigestVerifyInit(md, &ctx, EVP_sha256(), NULL, key), "init");
    pad(ctx, pss);
    must(EVP_DigestVerify(md, signature, length, message, MESSAGE), "verify");
    EVP_MD_CTX_free(md);
}

#ifndef OTHER
enum { SIDES = 2, ROUNDS = 61 };
static const double ROUND_NS = 4e6;

EVP_PKEY *aws_lc_side_private(const unsigned char *der, long length);
EVP_PKEY *aws_lc_side_public(const unsigned char *der, long length);
void aws_lc_side_free(EVP_PKEY *key);
void aws_lc_side_sign(EVP_PKEY *key, int pss, unsigned char *signature, size_t *length);
void aws_lc_side_verify(EVP_PKEY *key, int pss, const unsigned char *signature, size_t length);

static const struct side {
    EVP_PKEY *(*private)(const unsigned char *, long);
    EVP_PKEY *(*public)(const unsigned char *, long);
    void (*free)(EVP_PKEY *);
    void (*sign)(EVP_PKEY *, int, unsigned char *, size_t *);
    void (*verify)(EVP_PKEY *, int, const unsigned char *, size_t);
} sides[SIDES] = {
    { openssl_side_private, openssl_side_public, openssl_side_free, openssl_side_sign, openssl_side_verify },
    { aws_lc_side_private, aws_lc_side_public, aws_lc_side_free, aws_lc_side_sign, aws_lc_side_verify },
};

static unsigned char *private_der, *public_der, signature[LONGEST];
static int private_length, public_length;
static size_t signature_length;
static EVP_PKEY *privates[SIDES], *publics[SIDES];

static void sign(int side, int pss)
{
    sides[side].sign(privates[side], pss, signature, &signature_length);
}

static void verify(int side, int pss)
{
    sides[side].verify(publics[side], pss, signature, signature_length);
}

static void first_sign(int side, int pss)
{
    EVP_PKEY *key = sides[side].private(private_der, private_length);
    sides[side].sign(key, pss, signature, &signature_length);
    sides[side].free(key);
}

static void first_verify(int side, int pss)
{
    EVP_PKEY *key = sides[side].public(public_der, public_length);
    sides[side].verify(key, pss, signature, signature_length);
    sides[side].free(key);
}

static void copy(EVP_PKEY *key, int selection)
{
    OSSL_PARAM *params;
    EVP_PKEY *made = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    must(EVP_PKEY_todata(key, selection, &params), "export");
    must(EVP_PKEY_fromdata_init(ctx) > 0 && EVP_PKEY_fromdata(ctx, &made, selection, params), "import");
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(made);
    OSSL_PARAM_free(params);
}

static void copy_private(int side, int pss)
{
    (void)side, (void)pss;
    copy(privates[0], EVP_PKEY_KEYPAIR);
}

static void copy_public(int side, int pss)
{
    (void)side, (void)pss;
    copy(publics[0], EVP_PKEY_PUBLIC_KEY);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void row(int bits, const char *what, int pss, void (*run)(int, int))
{
    double ratios[ROUNDS], times[SIDES] = { 1e18, 1e18 };
    long count = 1;
    int alone = run == copy_private || run == copy_public;

    /* What either makes the other verifies. */
    for (int side = 0; side < SIDES; side++) {
        sign(side, pss);
        verify(!side, pss);
        run(side, pss);
    }
    for (double spent = 0; spent < ROUND_NS; count *= 2) {
        double begun = now();
        for (long i = 0; i < count; i++)
            run(0, pss);
        spent = now() - begun;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double spent[SIDES];
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (turn + round) % SIDES;
            double begun = now();
            for (long i = 0; i < count; i++)
                run(side, pss);
            spent[side] = (now() - begun) / count;
            if (spent[side] < times[side])
                times[side] = spent[side];
        }
        ratios[round] = spent[0] / spent[1];
    }
    qsort(ratios, ROUNDS, sizeof *ratios, compare);
    printf("RSA-%d %-14s %-8s %8.1f us", bits, what, alone ? "" : pss ? "pss" : "pkcs1", times[0] / 1e3);
    if (!alone)
        printf("  %8.1f us  %5.2f", times[1] / 1e3, ratios[ROUNDS / 2]);
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int only = argc > 1 ? atoi(argv[1]) : 0;

    printf("%s\n%-32s %11s  %11s  ratio\n", OpenSSL_version(OPENSSL_VERSION), "", "OpenSSL", "AWS-LC");
    for (int bits = 2048; bits <= 4096; bits += 1024) {
        if (only && only != bits)
            continue;
        privates[0] = EVP_RSA_gen((size_t)bits);
        must(privates[0] != NULL, "key");
        private_der = public_der = NULL;
        private_length = i2d_PrivateKey(privates[0], &private_der);
        public_length = i2d_PUBKEY(privates[0], &public_der);
        privates[1] = sides[1].private(private_der, private_length);
        for (int side = 0; side < SIDES; side++)
            publics[side] = sides[side].public(public_der, public_length);
        for (int pss = 0; pss < 2; pss++) {
            row(bits, "sign", pss, sign);
            row(bits, "verify", pss, verify);
        }
        row(bits, "sign, first", 0, first_sign);
        row(bits, "verify, first", 0, first_verify);
        row(bits, "copy private", 0, copy_private);
        row(bits, "copy public", 0, copy_public);
        for (int side = 0; side < SIDES; side++) {
            sides[side].free(privates[side]);
            sides[side].free(publics[side]);
        }
        OPENSSL_free(private_der);
        OPENSSL_free(public_der);
    }
    return 0;
}
#endif
