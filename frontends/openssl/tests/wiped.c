// Counts copies of keys in memory after their contexts are freed. Prints each algorithm's name and the number of copies.
//
//     wiped CONFIGURATION
//
// Searches every writable page of the process. The keys are kept with each bit inverted, so that they are not found.

#include "must.h"
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

enum { LONGEST = 64, BYTES = 16384, ROUNDS = 6 };
static unsigned char data[BYTES], iv[16];

struct places {
    char *from, *to;
};

// Lists readable and writable pages. The list is static, because allocating would change the pages.
static int pages(struct places *list, int most)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], access[5];
    int count = 0;
    must(maps != NULL, "maps");
    while (count < most && fgets(line, sizeof line, maps)) {
        void *from, *to;
        if (sscanf(line, "%p-%p %4s", &from, &to, access) == 3 && strncmp(access, "rw", 2) == 0)
            list[count++] = (struct places){from, to};
    }
    fclose(maps);
    return count;
}

// Returns the number of copies of a key's first `length` bytes; `stack` includes the current stack.
static int found(const unsigned char *turned, size_t length, int stack)
{
    static struct places list[4096];
    int places = 0, count = pages(list, 4096);
    for (int i = 0; i < count; i++)
        for (const char *at = stack || (char *)&count < list[i].from || (char *)&count >= list[i].to ? list[i].from : list[i].to; at + length <= list[i].to; at++) {
            size_t same = 0;
            while (same < length && (unsigned char)~at[same] == turned[same])
                same++;
            places += same == length;
        }
    return places;
}

static void make_key(unsigned char *key, unsigned char *turned, size_t length)
{
    static unsigned long state = 88172645463325252UL;
    for (size_t i = 0; i < length; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        key[i] = (unsigned char)state;
        turned[i] = (unsigned char)~key[i];
    }
}

static void cipher(const char *name, unsigned char *key)
{
    int written;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new(), *copy = EVP_CIPHER_CTX_new();
    must(cipher != NULL && EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL), name);
    for (int round = 0; round < ROUNDS; round++) {
        must(EVP_EncryptInit_ex2(ctx, NULL, NULL, iv, NULL), "nonce");
        must(EVP_EncryptUpdate(ctx, data, &written, data, BYTES), "update");
    }
    must(EVP_CIPHER_CTX_copy(copy, ctx), "copy");
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_CTX_free(copy);
    EVP_CIPHER_free(cipher);
}

// Runs the maximum of messages in pipelines, with a copy in the middle of them; then single messages.
static void pipelines(const char *name, unsigned char *key)
{
#if OPENSSL_VERSION_NUMBER >= 0x30500000L
    enum { PIPES = 32, PART = BYTES / PIPES };
    const unsigned char *ivs[PIPES], *in[PIPES];
    unsigned char *out[PIPES];
    size_t written[PIPES], room[PIPES], parts[PIPES];
    for (size_t pipe = 0; pipe < PIPES; pipe++) {
        ivs[pipe] = iv;
        in[pipe] = out[pipe] = data + pipe * PART;
        room[pipe] = parts[pipe] = PART;
    }
    EVP_CIPHER *with = EVP_CIPHER_fetch(NULL, name, NULL);
    if (EVP_CIPHER_can_pipeline(with, 1)) {
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new(), *copy = EVP_CIPHER_CTX_new();
        must(EVP_CipherPipelineEncryptInit(ctx, with, key, 32, PIPES, ivs, sizeof iv), name);
        must(EVP_CipherPipelineUpdate(ctx, out, written, room, in, parts), "update");
        must(EVP_CIPHER_CTX_copy(copy, ctx), "copy");
        EVP_CIPHER_CTX_free(ctx);
        EVP_CIPHER_CTX_free(copy);
    }
    EVP_CIPHER_free(with);
#endif
    cipher(name, key);
}

static void pair(const char *name, unsigned char *key)
{
    unsigned char out[64], other[32] = {9};
    size_t length = sizeof out;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key_ex(NULL, name, NULL, key, 32);
    must(pair != NULL, name);
    if (strcmp(name, "ED25519") == 0) {
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        must(EVP_DigestSignInit_ex(ctx, NULL, NULL, NULL, NULL, pair, NULL), "sign");
        must(EVP_DigestSign(ctx, out, &length, data, 100), "signed");
        EVP_MD_CTX_free(ctx);
    } else {
        EVP_PKEY *peer = EVP_PKEY_new_raw_public_key_ex(NULL, name, NULL, other, 32);
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, pair, NULL);
        must(EVP_PKEY_derive_init(ctx) && EVP_PKEY_derive_set_peer(ctx, peer), "peer");
        must(EVP_PKEY_derive(ctx, out, &length), "secret");
        EVP_PKEY_CTX_free(ctx);
        EVP_PKEY_free(peer);
    }
    EVP_PKEY_free(pair);
}

#if OPENSSL_VERSION_NUMBER >= 0x30500000L
// SK.seed and SK.prf are the key; the public half is zeros.
static void slh_dsa(const char *name, unsigned char *key)
{
    static unsigned char signature[17088];
    size_t length = sizeof signature;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key_ex(NULL, name, NULL, key, 64);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new(), *copy = EVP_MD_CTX_new();
    must(pair != NULL && EVP_DigestSignInit_ex(ctx, NULL, NULL, NULL, NULL, pair, NULL), name);
    must(EVP_MD_CTX_copy(copy, ctx) && EVP_DigestSign(ctx, signature, &length, data, 100), "signed");
    must(EVP_DigestSign(copy, signature, &length, data, 100), "signed by the copy");
    EVP_MD_CTX_free(ctx);
    EVP_MD_CTX_free(copy);
    EVP_PKEY_free(pair);
}
#endif

// Finds the seed d ‖ z of an encapsulation key of ML-KEM. The key's last 32 bytes are the first half of G(d ‖ k) (FIPS 203, 5.1).
static int find_seed(const unsigned char *rho, unsigned char rank, unsigned char *turned)
{
    static struct places list[4096];
    unsigned char hash[64];
    EVP_MD *sha3 = EVP_MD_fetch(NULL, "SHA3-512", "provider=default");
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int count = pages(list, 4096), is_found = 0;
    for (int i = 0; i < count; i++)
        for (const char *at = list[i].from; !is_found && at + 64 <= list[i].to; at += 8) {
            // Most memory is zero.
            if (memcmp(at, "\0\0\0\0\0\0\0", 8) == 0)
                continue;
            must(EVP_DigestInit_ex2(ctx, sha3, NULL) && EVP_DigestUpdate(ctx, at, 32) && EVP_DigestUpdate(ctx, &rank, 1)
                    && EVP_DigestFinal_ex(ctx, hash, NULL), "G");
            is_found = memcmp(hash, rho, 32) == 0;
            for (int j = 0; is_found && j < 64; j++)
                turned[j] = (unsigned char)~at[j];
        }
    must(EVP_DigestInit_ex2(ctx, sha3, NULL) && EVP_DigestUpdate(ctx, data, 200), "G");
    EVP_MD_CTX_free(ctx);
    EVP_MD_free(sha3);
    return is_found;
}

// Agrees on a secret in a TLS group. Before 3.5 the key is gantry's, and its seed is found in memory while it lives. Returns 0 if there is no
// such group.
static int group(const char *name, size_t ml_kem, size_t place, unsigned char rank)
{
    static unsigned char turned[64], answer[2000], secret[100], turned_secret[100];
    unsigned char *share = NULL;
    size_t length = sizeof answer, secret_length = sizeof secret, room = sizeof secret;
    EVP_PKEY *pair = NULL, *peer = NULL;
    EVP_PKEY_CTX *make = EVP_PKEY_CTX_new_from_name(NULL, name, NULL);
    ERR_clear_error();
    if (make == NULL || EVP_PKEY_keygen_init(make) != 1) {
        EVP_PKEY_CTX_free(make);
        return 0;
    }
    must(EVP_PKEY_keygen(make, &pair), name);
    EVP_PKEY_CTX_free(make);
    size_t bytes = EVP_PKEY_get1_encoded_public_key(pair, &share);
    make = EVP_PKEY_CTX_new_from_name(NULL, name, NULL);
    must(EVP_PKEY_paramgen_init(make) && EVP_PKEY_paramgen(make, &peer) && EVP_PKEY_set1_encoded_public_key(peer, share, bytes), name);
    EVP_PKEY_CTX *answers = EVP_PKEY_CTX_new_from_pkey(NULL, peer, NULL), *agrees = EVP_PKEY_CTX_new_from_pkey(NULL, pair, NULL);
    must(EVP_PKEY_encapsulate_init(answers, NULL) && EVP_PKEY_encapsulate(answers, answer, &length, secret, &secret_length), name);
    for (size_t i = 0; i < secret_length; i++)
        turned_secret[i] = (unsigned char)~secret[i];
    OPENSSL_cleanse(secret, sizeof secret);
    must(EVP_PKEY_decapsulate_init(agrees, NULL) && EVP_PKEY_decapsulate(agrees, secret, &room, answer, length), name);
    must(found(turned_secret, secret_length, 1) >= 1, "the secret");
#if OPENSSL_VERSION_NUMBER < 0x30500000L
    must(find_seed(share + place + ml_kem - 32, rank, turned), "the seed");
#else
    memcpy(turned, turned_secret, 16);
    memcpy(turned + 48, turned_secret + secret_length - 16, 16);
#endif
    OPENSSL_cleanse(secret, sizeof secret);
    EVP_PKEY_CTX_free(answers);
    EVP_PKEY_CTX_free(agrees);
    EVP_PKEY_CTX_free(make);
    EVP_PKEY_free(pair);
    EVP_PKEY_free(peer);
    OPENSSL_free(share);
    int left = found(turned, 16, 1) + found(turned + 48, 16, 1) + found(turned_secret, 16, 1)
        + found(turned_secret + secret_length - 16, 16, 1);
    printf("%s %d\n", name, left);
    return 1;
}

static const struct {
    const char *name;
    void (*use)(const char *, unsigned char *);
    size_t length;
} ALGORITHMS[] = {
    {"AES-128-GCM", cipher, 16},      {"AES-256-GCM", cipher, 32}, {"AES-256-XTS", cipher, 64}, {"AES-256-CBC", cipher, 32},
    {"AES-256-CTR", cipher, 32},      {"DES-EDE3-CBC", cipher, 24}, {"ChaCha20-Poly1305", cipher, 32},
    {"ED25519", pair, 32}, {"X25519", pair, 32},
    {"AES-256-CBC", pipelines, 32},
#if OPENSSL_VERSION_NUMBER >= 0x30500000L
    {"SLH-DSA-SHA2-128f", slh_dsa, 32},
#endif
};

int main(int count, char **words)
{
    must(count == 2 && OSSL_LIB_CTX_load_config(NULL, words[1]), "configuration");
    for (size_t i = 0; i < sizeof ALGORITHMS / sizeof *ALGORITHMS; i++) {
        static unsigned char key[LONGEST], turned[LONGEST];
        make_key(key, turned, ALGORITHMS[i].length);
        ALGORITHMS[i].use(ALGORITHMS[i].name, key);
        // Proves that the search works.
        must(found(turned, 16, 1) >= 1, "the key");
        OPENSSL_cleanse(key, sizeof key);
        const unsigned char *last = turned + ALGORITHMS[i].length - 16;
        printf("%s %d\n", ALGORITHMS[i].name, found(turned, 16, 1) + found(last, 16, 1));
    }
    // Releases before 3.5 have these only with gantry.
    group("X25519MLKEM768", 1184, 0, 3);
    group("SecP384r1MLKEM1024", 1568, 97, 4);
    group("ML-KEM-512", 800, 0, 2);
    return 0;
}
