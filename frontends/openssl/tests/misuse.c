/* Makes the same right and wrong calls to the default provider and to gantry, and compares results, outputs and error stacks.
 *
 *     misuse CONFIGURATION [ALGORITHM CALLS]
 *
 * The configuration is for gantry's library context. A sequence of calls is a word, and each call a letter: `step_*` lists them. Prints
 * the sequences that differ, each with both sides' results of each call, and the number of all. An error is its library and reason. With
 * an algorithm and calls, prints both sides of this sequence alone. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <string.h>

#include "must.h"

enum { SIDES = 2, ROOM = 20000, CALLS = 12, ROWS = 64, BYTES = 608, KEY = 64, TAG = 16, HEADER = 13, RECORD = 8 + 100 + TAG };

static OSSL_LIB_CTX *library[SIDES];
static const char *const providers[SIDES] = {"provider=default", "provider=gantry"};
static unsigned char bytes[ROOM], output[ROOM];

/* The results of a sequence on one side: with the outputs, and without them. */
struct results {
    char all[40 * CALLS * 2], codes[40 * CALLS * 2];
};

/* Notes the result of a call, the errors that it left, and its output if it succeeded. */
static void note(struct results *to, int result, size_t length)
{
    size_t room = sizeof to->codes, at = strlen(to->codes), all = strlen(to->all);
    int most = (int)(room - at - 1);
    unsigned long error;
    char text[200];
    int used = snprintf(text, sizeof text, " %d", result);
    while ((error = ERR_get_error()) != 0)
        used += snprintf(text + used, sizeof text - (size_t)used, "[%d:%d]", ERR_GET_LIB(error), ERR_GET_REASON(error));
    snprintf(to->codes + at, room - at, "%.*s", most, text);
    unsigned sum = 2166136261u;
    for (size_t i = 0; result == 1 && i < length && i < ROOM; i++)
        sum = (sum ^ output[i]) * 16777619u;
    if (result == 1 && length > 0)
        snprintf(text + used, sizeof text - (size_t)used, "=%zu:%08x", length, sum);
    snprintf(to->all + all, sizeof to->all - all, "%s", text);
}

/* ---- ciphers */

struct message {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *ctx;
    int encrypt;
};

/* The ciphertext of `BYTES` zeros with twenty bytes of associated data, its tag, and a sealed record. */
static unsigned char sealed[BYTES + 64], right_tag[TAG], record[RECORD], header[HEADER];

static void copy_message(struct message *this, struct results *to)
{
    EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();
    int copied = EVP_CIPHER_CTX_copy(copy, this->ctx);
    note(to, copied, 0);
    EVP_CIPHER_CTX_free(copied == 1 ? this->ctx : copy);
    this->ctx = copied == 1 ? copy : this->ctx;
}

static int parameter(EVP_CIPHER_CTX *ctx, const char *key, void *data, size_t length, int set)
{
    OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_string(key, data, length), OSSL_PARAM_construct_end()};
    return set ? EVP_CIPHER_CTX_set_params(ctx, params) : EVP_CIPHER_CTX_get_params(ctx, params);
}

static void step_cipher(void *state, char call, struct results *to)
{
    struct message *this = state;
    EVP_CIPHER_CTX *ctx = this->ctx;
    const unsigned char *from = this->encrypt ? bytes + 1000 : sealed, *key = bytes + 100, *iv = bytes + 200;
    unsigned char number[TAG + 1] = {0};
    int written = 0, done, length;
    memset(output, 0xa5, sizeof output);
    switch (call) {
    case 'K': note(to, EVP_CipherInit_ex2(ctx, NULL, key, iv, this->encrypt, NULL), 0); return; /* a key and a nonce */
    case 'k': note(to, EVP_CipherInit_ex2(ctx, NULL, key, NULL, this->encrypt, NULL), 0); return;
    case 'n': note(to, EVP_CipherInit_ex2(ctx, NULL, NULL, iv, this->encrypt, NULL), 0); return;
    case 'e': note(to, EVP_CipherInit_ex2(ctx, NULL, key, iv, this->encrypt ^= 1, NULL), 0); return; /* the other direction */
    case 'v': note(to, EVP_CipherInit_ex2(ctx, NULL, NULL, NULL, this->encrypt ^= 1, NULL), 0); return;
    case 'y': copy_message(this, to); return;
    case 'd': case 'o': case '0': case 'j': /* data: whole blocks, a part of one, none, in place */
        length = call == '0' ? 0 : call == 'o' ? 7 : BYTES;
        if (call == 'j')
            from = memcpy(output, from, BYTES);
        done = EVP_CipherUpdate(ctx, output, &written, from, length);
        note(to, done, (size_t)written);
        return;
    case 'a': case 'A': /* associated data: some, much */
        done = EVP_CipherUpdate(ctx, NULL, &written, bytes, call == 'a' ? 20 : 100);
        note(to, done, 0);
        return;
    case 'c': case 'C': /* the one-shot call: data, the end */
        done = EVP_Cipher(ctx, output, call == 'c' ? from : NULL, call == 'c' ? BYTES : 0);
        note(to, done >= 0 ? 1 : done, done > 0 ? (size_t)done : 0);
        return;
    case 'f':
        done = EVP_CipherFinal_ex(ctx, output, &written);
        note(to, done, (size_t)written);
        return;
    case 't': case 'T': case 'u': /* the tag: all of it, nothing of it, too much */
        length = call == 't' ? TAG : call == 'T' ? 0 : TAG + 1;
        note(to, parameter(ctx, "tag", output, (size_t)length, 0), (size_t)length);
        return;
    case 's': note(to, parameter(ctx, "tag", right_tag, TAG, 1), 0); return;
    case 'S': note(to, parameter(ctx, "tag", number, TAG + 1, 1), 0); return;
    case 'w': note(to, parameter(ctx, "tag", number, TAG, 1), 0); return;
    case '4': note(to, parameter(ctx, "tag", right_tag, 4, 1), 0); return;
    case 'l': note(to, EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_IVLEN, TAG, NULL), 0); return;
    case 'x': note(to, parameter(ctx, "tlsivfixed", bytes, EVP_CIPHER_is_a(this->cipher, "ChaCha20-Poly1305") ? 12 : 4, 1), 0); return;
    case 'h': note(to, parameter(ctx, "tlsaad", header, HEADER, 1), 0); return;
    case 'H': note(to, parameter(ctx, "tlsaad", header, HEADER - 1, 1), 0); return;
    case 'r': case 'R': /* a record: whole, too short */
        memcpy(output, record, RECORD);
        done = EVP_CipherUpdate(ctx, output, &written, output, call == 'r' ? RECORD : 20);
        note(to, done, (size_t)written);
        return;
    case 'p': note(to, EVP_CIPHER_CTX_set_padding(ctx, 0), 0); return;
    case 'i': note(to, EVP_CIPHER_CTX_get_updated_iv(ctx, output, sizeof number), TAG); return;
    case 'z': note(to, EVP_CipherInit_ex2(ctx, NULL, number, iv, this->encrypt, (OSSL_PARAM[]){
        OSSL_PARAM_construct_octet_string("padding", number, 1), OSSL_PARAM_construct_end()}), 0); return;
    default: must(0, "a call of ciphers");
    }
}

static void run_cipher(int side, const char *name, const char *calls, struct results *to)
{
    struct message this = {EVP_CIPHER_fetch(library[side], name, providers[side]), EVP_CIPHER_CTX_new(), *calls++ == '+'};
    must(this.cipher != NULL, name);
    must(EVP_CipherInit_ex2(this.ctx, this.cipher, NULL, NULL, this.encrypt, NULL), name);
    for (; *calls; calls++)
        step_cipher(&this, *calls, to);
    EVP_CIPHER_CTX_free(this.ctx);
    EVP_CIPHER_free(this.cipher);
}

/* Makes the ciphertext that the calls of both sides open. */
static void seal(const char *name)
{
    int aead, written, chacha = strcmp(name, "ChaCha20-Poly1305") == 0;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library[0], name, NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    aead = (EVP_CIPHER_get_flags(cipher) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0;
    must(EVP_EncryptInit_ex2(ctx, cipher, bytes + 100, bytes + 200, NULL), name);
    must(!aead || EVP_EncryptUpdate(ctx, NULL, &written, bytes, 20), name);
    must(EVP_EncryptUpdate(ctx, sealed, &written, bytes + 1000, BYTES) && EVP_EncryptFinal_ex(ctx, sealed + written, &written), name);
    must(!aead || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, right_tag), name);
    memset(record, 0, RECORD);
    memcpy(header, (unsigned char[]){0, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3, 0, chacha ? RECORD - TAG : RECORD - TAG}, HEADER);
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
}

/* ---- signatures and key exchange */

struct pairs {
    int side;
    const char *name;
    EVP_PKEY *pair, *public, *other, *low;
    EVP_MD_CTX *digest;
    EVP_PKEY_CTX *ctx;
    int is_ready;
};

static unsigned char signature[ROOM];
static size_t signature_length;

static EVP_PKEY *raw(int side, const char *name, int is_private, size_t length, const unsigned char *from)
{
    return (is_private ? EVP_PKEY_new_raw_private_key_ex : EVP_PKEY_new_raw_public_key_ex)(library[side], name, providers[side], from, length);
}

/* Notes whether a key of this length is made, and frees it. */
static void note_key(struct pairs *this, int is_private, size_t length, struct results *to)
{
    EVP_PKEY *key = raw(this->side, this->name, is_private, length, bytes + 300);
    note(to, key != NULL, 0);
    EVP_PKEY_free(key);
}

static void step_pair(void *state, char call, struct results *to)
{
    struct pairs *this = state;
    size_t length = ROOM;
    int done;
    OSSL_LIB_CTX *lib = library[this->side];
    memset(output, 0xa5, sizeof output);
    /* OpenSSL itself crashes here unless the initialisation succeeded. */
    if (strchr("uqsmvwhy", call) && !this->is_ready) {
        note(to, -9, 0);
        return;
    }
    switch (call) {
    /* keys: of wrong lengths, the private half of a public key, too little room, a parameter that no key takes */
    case '1': note_key(this, 1, 31, to); return;
    case '2': note_key(this, 1, 0, to); return;
    case '3': note_key(this, 0, 33, to); return;
    case '4': note_key(this, 0, 32, to); return;
    case '5':
        done = EVP_PKEY_get_raw_private_key(this->public, output, &length);
        note(to, done, length);
        return;
    case '6':
        length = 5;
        done = EVP_PKEY_get_raw_public_key(this->pair, output, &length);
        note(to, done, length);
        return;
    case '7': note(to, EVP_PKEY_set_utf8_string_param(this->public, "group", "none"), 0); return;
    case '8': note(to, EVP_PKEY_eq(this->pair, this->public), 0); return;
    case '9': note(to, EVP_PKEY_set1_encoded_public_key(this->other, bytes, 3), 0); return;
    /* signatures */
    case 'I': case 'P': case 'X': /* with a pair, with a public key, with a digest */
        this->is_ready = EVP_DigestSignInit_ex(this->digest, NULL, call == 'X' ? "SHA2-256" : NULL, lib, NULL,
            call == 'P' ? this->public : this->pair, NULL) == 1;
        note(to, this->is_ready, 0);
        return;
    case 'V':
        this->is_ready = EVP_DigestVerifyInit_ex(this->digest, NULL, NULL, lib, NULL, this->public, NULL) == 1;
        note(to, this->is_ready, 0);
        return;
    case 'u': note(to, EVP_DigestSignUpdate(this->digest, bytes, 10), 0); return;
    case 'q': case 's': case 'm': /* a signature: its length, with room, without room */
        length = call == 'm' ? 5 : ROOM;
        done = EVP_DigestSign(this->digest, call == 'q' ? NULL : output, &length, bytes, 100);
        note(to, done, this->name[0] == 'E' ? length : 0);
        return;
    case 'v': note(to, EVP_DigestVerify(this->digest, signature, signature_length, bytes, 100), 0); return;
    case 'w': note(to, EVP_DigestVerify(this->digest, signature, signature_length, bytes, 101), 0); return;
    case 'h': note(to, EVP_DigestVerify(this->digest, signature, signature_length - 1, bytes, 100), 0); return;
    case 'i': note(to, EVP_PKEY_sign_init(this->ctx), 0); return;
    case 'j':
        done = EVP_PKEY_sign(this->ctx, output, &length, bytes, 100);
        note(to, done, 0);
        return;
    case 'y': {
        EVP_MD_CTX *copy = EVP_MD_CTX_new();
        int copied = EVP_MD_CTX_copy_ex(copy, this->digest);
        note(to, copied, 0);
        EVP_MD_CTX_free(copied == 1 ? this->digest : copy);
        this->digest = copied == 1 ? copy : this->digest;
        return;
    }
    /* key exchange */
    case 'D': note(to, EVP_PKEY_derive_init(this->ctx), 0); return;
    case 'p': note(to, EVP_PKEY_derive_set_peer(this->ctx, this->public), 0); return;
    case 'o': note(to, EVP_PKEY_derive_set_peer(this->ctx, this->other), 0); return; /* a key of another type */
    case 'z': note(to, EVP_PKEY_derive_set_peer_ex(this->ctx, this->low, 0), 0); return;
    case 'd': case 'l': case 'r': /* a secret: with room, its length, without room */
        length = call == 'r' ? 5 : ROOM;
        done = EVP_PKEY_derive(this->ctx, call == 'l' ? NULL : output, &length);
        note(to, done, length);
        return;
    default: must(0, "a call of pairs");
    }
}

static void run_pair(int side, const char *name, const char *calls, struct results *to)
{
    size_t length = strncmp(name, "SLH", 3) ? 32 : strstr(name, "128") ? 64 : strstr(name, "192") ? 96 : 128;
    struct pairs this = {side, name, raw(side, name, 1, length, bytes + 300), NULL, NULL, NULL, EVP_MD_CTX_new(), NULL, 0};
    unsigned char low[32] = {0}, public[64];
    size_t public_length = sizeof public;
    must(this.pair != NULL && EVP_PKEY_get_raw_public_key(this.pair, public, &public_length), name);
    this.public = raw(side, name, 0, public_length, public);
    this.other = raw(side, strcmp(name, "X25519") ? "X25519" : "ED25519", 1, 32, bytes + 300);
    if (this.other == NULL)
        this.other = EVP_PKEY_new_raw_private_key_ex(library[side], strcmp(name, "X25519") ? "X25519" : "ED25519", NULL, bytes + 300, 32);
    this.low = raw(side, name, 0, public_length, public_length == 32 ? low : public);
    this.ctx = EVP_PKEY_CTX_new_from_pkey(library[side], this.pair, providers[side]);
    must(this.public && this.other && this.low && this.ctx, name);
    ERR_clear_error();
    for (; *calls; calls++)
        step_pair(&this, *calls, to);
    EVP_PKEY_CTX_free(this.ctx);
    EVP_MD_CTX_free(this.digest);
    EVP_PKEY_free(this.low);
    EVP_PKEY_free(this.other);
    EVP_PKEY_free(this.public);
    EVP_PKEY_free(this.pair);
}

/* Makes the signature that both sides verify. */
static void sign(const char *name)
{
    size_t length = strncmp(name, "SLH", 3) ? 32 : strstr(name, "128") ? 64 : strstr(name, "192") ? 96 : 128;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key_ex(library[0], name, NULL, bytes + 300, length);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    signature_length = ROOM;
    /* Signatures of the other sets take long, and only their lengths matter here. */
    if (strcmp(name, "ED25519") == 0 || strcmp(name, "SLH-DSA-SHA2-128f") == 0)
        must(EVP_DigestSignInit_ex(ctx, NULL, NULL, library[0], NULL, pair, NULL)
                && EVP_DigestSign(ctx, signature, &signature_length, bytes, 100), name);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pair);
}

/* ---- sequences */

typedef void (*runner)(int, const char *, const char *, struct results *);

static int sequences, different;

static void compare(runner run, const char *name, const char *calls, int shows)
{
    static struct results sides[SIDES + 1];
    memset(sides, 0, sizeof sides);
    ERR_clear_error();
    /* Random numbers differ in two runs of one side. */
    for (int i = 0; i < SIDES + 1; i++)
        run(i % SIDES, name, calls, &sides[i]);
    int random = strcmp(sides[0].all, sides[SIDES].all) != 0;
    const char *one = random ? sides[0].codes : sides[0].all, *other = random ? sides[1].codes : sides[1].all;
    sequences++;
    if (strcmp(one, other) || shows) {
        different++;
        printf("%s %s |%s |%s\n", name, calls, one, other);
    }
}

/* Compares all sequences that begin with one of the words and continue with up to `depth` of the calls. */
static void each(runner run, const char *name, const char *const *words, const char *calls, int depth)
{
    for (; *words; words++) {
        char sequence[32];
        size_t length = strlen(*words), many = strlen(calls);
        int count[] = {1, (int)many, (int)(many * many), (int)(many * many * many)};
        for (int more = 0; more <= depth; more++)
            for (int i = 0; i < count[more]; i++) {
                memcpy(sequence, *words, length + 1);
                for (int at = 0, rest = i; at < more; at++, rest /= (int)many)
                    sequence[length + (size_t)at] = calls[rest % (int)many], sequence[length + (size_t)at + 1] = 0;
                compare(run, name, sequence, 0);
            }
    }
}

struct rows {
    char names[ROWS][32];
    int count;
};

static void add(struct rows *to, const char *name, const OSSL_PROVIDER *provider)
{
    if (strcmp(OSSL_PROVIDER_get0_name(provider), "gantry") == 0 && to->count < ROWS)
        snprintf(to->names[to->count++], sizeof *to->names, "%s", name);
}

static void add_cipher(EVP_CIPHER *row, void *to)
{
    add(to, EVP_CIPHER_get0_name(row), EVP_CIPHER_get0_provider(row));
}

static void add_pair(EVP_KEYMGMT *row, void *to)
{
    /* Those of TLS groups have their own sequences. */
    const char *name = EVP_KEYMGMT_get0_name(row);
    if (strcasecmp(name, "ED25519") == 0 || strcasecmp(name, "X25519") == 0 || strncmp(name, "SLH", 3) == 0)
        add(to, name, EVP_KEYMGMT_get0_provider(row));
}

/* The default provider lacks these before 3.5. */
static void add_kem(EVP_KEM *row, void *to)
{
    EVP_KEM *theirs = EVP_KEM_fetch(library[0], EVP_KEM_get0_name(row), NULL);
    if (theirs != NULL)
        add(to, EVP_KEM_get0_name(row), EVP_KEM_get0_provider(row));
    EVP_KEM_free(theirs);
}

static void add_kdf(EVP_KDF *row, void *to)
{
    add(to, EVP_KDF_get0_name(row), EVP_KDF_get0_provider(row));
}

static void compare_cipher(const char *name, const char *calls)
{
    static const char *const sealing[] = {"+", "+K", "+Kd", "+Kad", "+Kaf", "+Kadf", "+Kadft", "+kx", "+kxhr", "+Kh", NULL};
    static const char *const opening[] = {"-", "-K", "-Ks", "-Kd", "-Kads", "-Ksad", "-Kadsf", "-Kadwf", "-kx", "-kxhr", "-Kh", NULL};
    static const char *const plain[] = {"+", "+K", "+Kd", "+Kdf", "+Ko", "-", "-K", "-Kd", "-Kdf", "-Kpd", NULL};
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library[0], name, NULL);
    int aead = (EVP_CIPHER_get_flags(cipher) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0;
    EVP_CIPHER_free(cipher);
    seal(name);
    if (calls) {
        compare(run_cipher, name, calls, 1);
    } else if (aead) {
        each(run_cipher, name, sealing, "KknevyadojcCf0AtTusSwlxhrRHz", 2);
        each(run_cipher, name, opening, "KknevyadojcCf0AtTusSw4lxhrRHz", 2);
    } else {
        each(run_cipher, name, plain, "KknevydojcCf0piz", 2);
    }
}

static void compare_pair(const char *name, const char *calls)
{
    static const char *const none[] = {"", NULL}, *const some[] = {"", "I", "V", "P", "X", "D", "Dp", "Dz", NULL};
    sign(name);
    if (calls)
        compare(run_pair, name, calls, 1);
    else if (strncmp(name, "SLH", 3))
        each(run_pair, name, some, "123456789IPXVuqsmvwhijyDpozdlr", 2);
    else
        each(run_pair, name, strcmp(name, "SLH-DSA-SHA2-128f") ? none : some, "123456789IPXVuqmvwhiyDpo", strcmp(name, "SLH-DSA-SHA2-128f") ? 2 : 1);
}

#include "misuse_kdf.h"
#include "misuse_kem.h"

static int in_order(const void *one, const void *other)
{
    return strcmp(one, other);
}

int main(int count, char **words)
{
    static struct rows rows[4];
    static void (*const kinds[])(const char *, const char *) = {compare_cipher, compare_pair, compare_kdf, compare_kem};
    for (int i = 0; i < ROOM; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    for (int i = 0; i < SIDES; i++)
        library[i] = OSSL_LIB_CTX_new();
    OSSL_PROVIDER *default_provider = OSSL_PROVIDER_load(library[0], "default");
    must(default_provider && count >= 2 && OSSL_LIB_CTX_load_config(library[1], words[1]), "the configuration");
    EVP_CIPHER_do_all_provided(library[1], add_cipher, &rows[0]);
    EVP_KEYMGMT_do_all_provided(library[1], add_pair, &rows[1]);
    EVP_KDF_do_all_provided(library[1], add_kdf, &rows[2]);
    EVP_KEM_do_all_provided(library[1], add_kem, &rows[3]);
    int all = 0;
    for (int kind = 0; kind < 4; kind++) {
        qsort(rows[kind].names, (size_t)rows[kind].count, sizeof *rows[kind].names, in_order);
        for (int row = 0; row < rows[kind].count; row++)
            if (count < 4 || strcmp(words[2], rows[kind].names[row]) == 0)
                kinds[kind](rows[kind].names[row], count < 4 ? NULL : words[3]), all++;
    }
    printf("%d of %d sequences differ, %d algorithms\n", different, sequences, all);
    OSSL_PROVIDER_unload(default_provider);
    return 0;
}
