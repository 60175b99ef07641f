// Digests whose states are written down in the middle of a message and read by another context, of the same provider or the
// other (OpenSSL 4.0):
//
//     serialised CONFIGURATION
//
// Prints "the same" if either provider goes on with the other's states, and how many states of ours could be written down.

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "must.h"

#define MUST(what) must(what, #what)

static const char *const NAMES[] = {"SHA2-256", "SHA2-512", "SHA3-256"};

// Of the first piece, of the second, and of the rest.
static const size_t PIECES[][3] = {{0, 0, 50000}, {1, 70, 50000}, {50000, 0, 50000}, {50000, 33, 7}, {64, 0, 0}};

static unsigned char data[100000];

static EVP_MD_CTX *begun(const EVP_MD *digest)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    MUST(ctx != NULL && EVP_DigestInit_ex2(ctx, digest, NULL));
    return ctx;
}

// The digest of what was read in and the rest.
static void ended(EVP_MD_CTX *ctx, size_t at, size_t rest, unsigned char *out)
{
    MUST(EVP_DigestUpdate(ctx, data + at, rest) && EVP_DigestFinal_ex(ctx, out, NULL));
    EVP_MD_CTX_free(ctx);
}

int main(int count, char **words)
{
    int written = 0;
    MUST(count == 2 && OSSL_LIB_CTX_load_config(NULL, words[1]));
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t name = 0; name < sizeof NAMES / sizeof *NAMES; name++) {
        EVP_MD *gantry = EVP_MD_fetch(NULL, NAMES[name], "provider=gantry");
        EVP_MD *providers[] = {gantry, EVP_MD_fetch(NULL, NAMES[name], "provider=default")};
        MUST(providers[0] != NULL && providers[1] != NULL);
        for (size_t row = 0; row < sizeof PIECES / sizeof *PIECES; row++) {
            const size_t *piece = PIECES[row];
            unsigned char states[2][1024], expected[EVP_MAX_MD_SIZE];
            size_t lengths[2] = {sizeof states[0], sizeof states[1]};
            MUST(EVP_Digest(data, piece[0] + piece[1] + piece[2], expected, NULL, providers[1], NULL));
            for (int from = 0; from < 2; from++) {
                EVP_MD_CTX *ctx = begun(providers[from]);
                MUST(EVP_DigestUpdate(ctx, data, piece[0]) && EVP_DigestUpdate(ctx, data + piece[0], piece[1]));
                if (!EVP_MD_CTX_serialize(ctx, states[from], &lengths[from]))
                    lengths[from] = 0;
                // Writing it down changes nothing.
                unsigned char out[EVP_MAX_MD_SIZE];
                ended(ctx, piece[0] + piece[1], piece[2], out);
                MUST(memcmp(out, expected, EVP_MD_get_size(providers[from])) == 0);
            }
            MUST(lengths[1] != 0);
            // Bytes of the last block that the message has not reached yet are anybody's.
            if (lengths[0] != 0)
                MUST(lengths[0] == lengths[1]);
            written += lengths[0] != 0;
            for (int from = 0; from < 2; from++)
                for (int to = 0; to < 2 && lengths[from] != 0; to++) {
                    // Whatever the context had before is gone.
                    for (int before = 0; before < 3; before++) {
                        EVP_MD_CTX *ctx = begun(providers[to]);
                        MUST(EVP_DigestUpdate(ctx, data + 5, (size_t)before * 20000));
                        MUST(EVP_MD_CTX_deserialize(ctx, states[from], lengths[from]));
                        unsigned char out[EVP_MAX_MD_SIZE];
                        ended(ctx, piece[0] + piece[1], piece[2], out);
                        MUST(memcmp(out, expected, EVP_MD_get_size(providers[to])) == 0);
                    }
                }
        }
        EVP_MD_free(providers[0]);
        EVP_MD_free(providers[1]);
    }
    printf("the same, %d\n", written);
    return 0;
}
