/* Wrong calls of digests and MACs, which stay with OpenSSL, with gantry and without it:
 *
 *     untouched CONFIGURATION
 *
 * Prints each call that differs, and the number of calls. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <string.h>

#include "must.h"

enum { SIDES = 2, CALLS = 12, ROOM = 64 };

static OSSL_LIB_CTX *library[SIDES];

/* The results of the calls on one side. */
struct results {
    int count;
    struct {
        int result;
        unsigned long error;
        unsigned char output[ROOM];
    } calls[CALLS];
};

static void note(struct results *to, int result, const unsigned char *output)
{
    to->calls[to->count].result = result;
    to->calls[to->count].error = ERR_peek_last_error();
    memcpy(to->calls[to->count++].output, output, ROOM);
    ERR_clear_error();
}

/* An output of any length of a digest that has one length, and the master secret of SSL 3. */
static void digests(OSSL_LIB_CTX *lib, struct results *to)
{
    static const char *const names[] = {"SHA1", "SHA2-256"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned char output[ROOM] = {0}, secret[48] = "a master secret of SSL 3, which has 48 bytes..";
        EVP_MD *md = EVP_MD_fetch(lib, names[i], NULL);
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        must(md && EVP_DigestInit_ex2(ctx, md, NULL) && EVP_DigestUpdate(ctx, "data", 4), names[i]);
        note(to, EVP_MD_CTX_ctrl(ctx, EVP_CTRL_SSL3_MASTER_SECRET, sizeof secret, secret), output);
        EVP_MD_CTX *copy = EVP_MD_CTX_new();
        must(EVP_MD_CTX_copy(copy, ctx), names[i]);
        note(to, EVP_DigestFinalXOF(copy, output, 40), output);
        note(to, EVP_DigestFinal_ex(ctx, output, NULL), output);
        note(to, EVP_DigestFinal_ex(ctx, output, NULL), output);
        EVP_MD_CTX_free(copy);
        EVP_MD_CTX_free(ctx);
        EVP_MD_free(md);
    }
}

/* The end of a MAC, twice. */
static void macs(OSSL_LIB_CTX *lib, struct results *to)
{
    unsigned char output[ROOM] = {0};
    size_t length;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", "SHA2-256", 0), OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(lib, "HMAC", NULL);
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);
    must(ctx && EVP_MAC_init(ctx, (const unsigned char *)"key", 3, params) && EVP_MAC_update(ctx, (const unsigned char *)"data", 4), "HMAC");
    for (int i = 0; i < 2; i++) {
        int done = EVP_MAC_final(ctx, output, &length, sizeof output);
        note(to, done, output);
    }
    note(to, EVP_MAC_final(ctx, output, &length, 5), output);
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
}

int main(int count, char **words)
{
    static struct results sides[SIDES];
    for (int i = 0; i < SIDES; i++)
        library[i] = OSSL_LIB_CTX_new();
    OSSL_PROVIDER *default_provider = OSSL_PROVIDER_load(library[0], "default");
    must(default_provider && count == 2 && OSSL_LIB_CTX_load_config(library[1], words[1]), "the configuration");
    for (int i = 0; i < SIDES; i++) {
        digests(library[i], &sides[i]);
        macs(library[i], &sides[i]);
    }
    for (int i = 0; i < sides[0].count; i++)
        if (memcmp(&sides[0].calls[i], &sides[1].calls[i], sizeof sides[0].calls[i]))
            printf("call %d: %d %lx, %d %lx\n", i, sides[0].calls[i].result, sides[0].calls[i].error, sides[1].calls[i].result, sides[1].calls[i].error);
    printf("%d calls\n", sides[0].count);
    OSSL_PROVIDER_unload(default_provider);
    return 0;
}
