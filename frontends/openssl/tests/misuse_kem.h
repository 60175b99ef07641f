/* Sequences of calls with the keys of hybrid TLS groups, for misuse.c. */

#define PREFERRED "?provider=gantry,?gantry.serves=yes"

enum { SHARE = 1800, SECRET = 128 };

/* A pair of the default provider, its parts, and an answer to its share. */
static struct {
    EVP_PKEY *pair;
    unsigned char share[SHARE], private[4000], answer[SHARE];
    size_t share_length, private_length, answer_length, secret_length;
} known;

struct kem {
    int side;
    const char *name;
    EVP_PKEY *key;
    EVP_PKEY_CTX *ctx;
};

/* Makes an empty key, as libssl does for a peer's share, or a pair; with a property query of its own unless it is null. Returns null if
 * that fails. */
static EVP_PKEY *new_key(int side, const char *name, int pair, const char *query)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("properties", (char *)(size_t)query, 0), OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library[side], name, providers[side]);
    if (ctx && (pair ? EVP_PKEY_keygen_init(ctx) : EVP_PKEY_paramgen_init(ctx)) == 1 && (!query || EVP_PKEY_CTX_set_params(ctx, params) == 1))
        (void)(pair ? EVP_PKEY_keygen(ctx, &key) : EVP_PKEY_paramgen(ctx, &key));
    EVP_PKEY_CTX_free(ctx);
    return key;
}

/* Imports the known public or private key. Returns null if that fails. */
static EVP_PKEY *import(int side, const char *name, int private)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library[side], name, providers[side]);
    OSSL_PARAM params[] = {private ? OSSL_PARAM_construct_octet_string("priv", known.private, known.private_length)
                                   : OSSL_PARAM_construct_octet_string("pub", known.share, known.share_length),
        OSSL_PARAM_construct_end()};
    if (ctx && EVP_PKEY_fromdata_init(ctx) == 1)
        EVP_PKEY_fromdata(ctx, &key, private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, params);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

/* Notes whether there is another key, which then replaces the old one. */
static void replace_key(struct kem *this, EVP_PKEY *key, struct results *to)
{
    note(to, key != NULL, 0);
    if (key == NULL)
        return;
    EVP_PKEY_free(this->key);
    this->key = key;
}

/* Sets a share: the known one, damaged at `at` unless it is 0, with `length` bytes. */
static void set_share(struct kem *this, size_t length, size_t at, struct results *to)
{
    unsigned char share[SHARE];
    memcpy(share, known.share, sizeof share);
    if (at > 0)
        memset(share + at, 0xff, 3);
    note(to, EVP_PKEY_set1_encoded_public_key(this->key, share, length), 0);
}

/* Agrees with the key of the context. Returns 2 if the known pair agrees on the same secret. */
static int encapsulate(EVP_PKEY_CTX *ctx, size_t room, size_t secret_room)
{
    unsigned char secret[SECRET], theirs[SECRET];
    size_t length = room, secret_length = secret_room, theirs_length = sizeof theirs;
    int done = EVP_PKEY_encapsulate(ctx, output, &length, secret, &secret_length);
    if (done != 1)
        return done;
    EVP_PKEY_CTX *peer = EVP_PKEY_CTX_new_from_pkey(library[0], known.pair, NULL);
    int agreed = EVP_PKEY_decapsulate_init(peer, NULL) == 1 && EVP_PKEY_decapsulate(peer, theirs, &theirs_length, output, length) == 1;
    agreed = agreed && theirs_length == secret_length && memcmp(secret, theirs, secret_length) == 0;
    EVP_PKEY_CTX_free(peer);
    return done + agreed;
}

static void step_kem(struct kem *this, char call, struct results *to)
{
    size_t length = ROOM, secret_length = ROOM, curve = known.share_length - 1184 == 32 ? 1184 : 1;
    int done, number = 5;
    EVP_PKEY *other;
    EVP_PKEY_CTX *copy;
    unsigned char secret[SECRET];
    memset(output, 0xa5, sizeof output);
    switch (call) {
    case 'n': replace_key(this, new_key(this->side, this->name, 0, NULL), to); return;
    case 'g': replace_key(this, new_key(this->side, this->name, 1, NULL), to); return;
    case 'a': replace_key(this, new_key(this->side, this->name, 0, "fips=yes"), to); return;
    case 'f': replace_key(this, import(this->side, this->name, 0), to); return;
    case 'k': replace_key(this, import(this->side, this->name, 1), to); return;
    case 'y': replace_key(this, EVP_PKEY_dup(this->key), to); return;
    case 's': set_share(this, known.share_length, 0, to); return;
    case 'S': set_share(this, known.share_length, known.share_length == 1216 ? 3 : 100, to); return; /* not reduced */
    case 'p': set_share(this, known.share_length, curve, to); return;                                 /* another point */
    case 'l': set_share(this, known.share_length - 1, 0, to); return;
    case 'w': note(to, EVP_PKEY_set_int_param(this->key, "encoded-pub-key", number), 0); return;
    case 'P': note(to, EVP_PKEY_set_utf8_string_param(this->key, "properties", "provider=default"), 0); return;
    case 'F': note(to, EVP_PKEY_set_utf8_string_param(this->key, "properties", "fips=yes"), 0); return;
    case 'u': case 'U': /* no algorithm is found; and as before */
        note(to, EVP_set_default_properties(library[this->side], call == 'u' ? "fips=yes" : this->side ? PREFERRED : ""), 0);
        return;
    case 'o': case 'O': /* the public and the private key */
        done = EVP_PKEY_get_octet_string_param(this->key, call == 'o' ? "encoded-pub-key" : "priv", output, ROOM, &length);
        note(to, done, done == 1 ? length : 0);
        return;
    case 'b':
        note(to, EVP_PKEY_get_bits(this->key) + EVP_PKEY_get_security_bits(this->key) + EVP_PKEY_get_size(this->key), 0);
        return;
    case 'q':
        other = import(this->side, this->name, 0);
        note(to, EVP_PKEY_eq(this->key, other), 0);
        EVP_PKEY_free(other);
        return;
    case 'x': case 'X': { /* an export of the public key, or of both */
        OSSL_PARAM *params = NULL;
        note(to, EVP_PKEY_todata(this->key, call == 'x' ? EVP_PKEY_PUBLIC_KEY : EVP_PKEY_KEYPAIR, &params), 0);
        OSSL_PARAM_free(params);
        return;
    }
    case 'i': case 'd': /* a new context, to encapsulate or to decapsulate */
        EVP_PKEY_CTX_free(this->ctx);
        this->ctx = EVP_PKEY_CTX_new_from_pkey(library[this->side], this->key, providers[this->side]);
        must(this->ctx != NULL, "a context");
        note(to, call == 'i' ? EVP_PKEY_encapsulate_init(this->ctx, NULL) : EVP_PKEY_decapsulate_init(this->ctx, NULL), 0);
        return;
    case 'c':
        copy = EVP_PKEY_CTX_dup(this->ctx);
        note(to, copy != NULL, 0);
        EVP_PKEY_CTX_free(copy);
        return;
    case 'L':
        done = EVP_PKEY_encapsulate(this->ctx, NULL, &length, NULL, &secret_length);
        note(to, done == 1 ? (int)(length + secret_length) : done, 0);
        return;
    case 'M': note(to, EVP_PKEY_encapsulate(this->ctx, NULL, NULL, NULL, NULL), 0); return; /* no lengths */
    case 'N': note(to, EVP_PKEY_encapsulate(this->ctx, output, NULL, secret, NULL), 0); return;
    case 'e': note(to, encapsulate(this->ctx, ROOM, SECRET), 0); return;
    case 'v': note(to, EVP_PKEY_encapsulate(this->ctx, output, &length, output + 100, &secret_length), 0); return; /* in one buffer */
    case 'E': note(to, encapsulate(this->ctx, known.answer_length - 1, SECRET), 0); return;
    case 'r': note(to, encapsulate(this->ctx, ROOM, known.secret_length - 1), 0); return;
    case 't': case 'T': /* the known answer, whole and too short */
        length = sizeof secret;
        done = EVP_PKEY_decapsulate(this->ctx, secret, &length, known.answer, known.answer_length - (call == 'T'));
        memcpy(output, secret, sizeof secret);
        note(to, done, done == 1 ? length : 0);
        return;
    default: must(0, "a call of KEMs");
    }
}

static void run_kem(int side, const char *name, const char *calls, struct results *to)
{
    struct kem this = {side, name, new_key(side, name, 0, NULL), NULL};
    must(this.key != NULL, name);
    this.ctx = EVP_PKEY_CTX_new_from_pkey(library[side], this.key, providers[side]);
    ERR_clear_error();
    for (; *calls; calls++)
        step_kem(&this, *calls, to);
    EVP_PKEY_CTX_free(this.ctx);
    EVP_PKEY_free(this.key);
}

static void compare_kem(const char *name, const char *calls)
{
    static const char *const words[] = {"", "s", "si", "siL", "siLe", "sie", "sid", "so", "sy", "gd", "kd", "fi", "as", "Fs", NULL};
    known.pair = new_key(0, name, 1, NULL);
    must(known.pair != NULL, name);
    must(EVP_PKEY_get_octet_string_param(known.pair, "encoded-pub-key", known.share, sizeof known.share, &known.share_length), "the share");
    /* OpenSSL does not export private keys with a NIST curve: its curve's half is no octet string. */
    OSSL_PARAM *exported = NULL;
    void *private = known.private;
    known.private_length = 0;
    if (EVP_PKEY_todata(known.pair, EVP_PKEY_KEYPAIR, &exported) == 1)
        must(OSSL_PARAM_get_octet_string(OSSL_PARAM_locate(exported, "priv"), &private, sizeof known.private, &known.private_length), "the private key");
    must(known.private_length > 0 || strcmp(name, "X25519MLKEM768"), "an export");
    OSSL_PARAM_free(exported);
    EVP_PKEY *peer = import(0, name, 0);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(library[0], peer, NULL);
    unsigned char secret[SECRET];
    known.answer_length = SHARE, known.secret_length = SECRET;
    must(EVP_PKEY_encapsulate_init(ctx, NULL) == 1, name);
    must(EVP_PKEY_encapsulate(ctx, known.answer, &known.answer_length, secret, &known.secret_length) == 1, name);
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(peer);
    static struct results refused;
    /* The default provider gets the share when it can no longer read it. */
    run_kem(1, name, "siurreU", memset(&refused, 0, sizeof refused));
    if (calls)
        compare(run_kem, name, calls, 1);
    else
        each(run_kem, name, words, "nagfkysSplwPFoObqxXidcLMNevErtT", 2);
    EVP_PKEY_free(known.pair);
}
