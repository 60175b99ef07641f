// Changes the nonce length in the middle of a message:
//
//     lengths CONFIGURATION CIPHER...
//
// From then on each call must return the same as without gantry, and the next message must work.

#include "must.h"
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <string.h>

enum { BYTES = 4096, AAD = 13, TAG = 16 };
static unsigned char plain[BYTES], key[32], iv[16];

// The results of the calls on a context, in order.
struct story {
    unsigned char results[BYTES + 64];
    int length;
};

static void note(struct story *story, int result)
{
    story->results[story->length++] = (unsigned char)result;
    ERR_clear_error();
}

static int set_length(EVP_CIPHER_CTX *ctx, size_t length)
{
    OSSL_PARAM params[] = { OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_AEAD_IVLEN, &length), OSSL_PARAM_construct_end() };
    return EVP_CIPHER_CTX_set_params(ctx, params);
}

static void tell(OSSL_LIB_CTX *library, const char *name, int seal, int aad, int bytes, size_t length, struct story *story)
{
    unsigned char out[BYTES + TAG], tag[TAG] = { 1 };
    int written;
    memset(story, 0, sizeof *story);
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(library, name, NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(cipher != NULL && EVP_CipherInit_ex2(ctx, cipher, key, iv, seal, NULL), "a context");
    must(seal || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, tag), "a tag");
    must(aad == 0 || EVP_CipherUpdate(ctx, NULL, &written, plain, aad), "associated data");
    must(bytes == 0 || EVP_CipherUpdate(ctx, out, &written, plain, bytes), "data");
    note(story, set_length(ctx, length));
    note(story, EVP_CipherUpdate(ctx, out, &written, plain, BYTES));
    note(story, EVP_CipherFinal_ex(ctx, out, &written));
    note(story, seal && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, tag));

    // The next message, sealed.
    note(story, set_length(ctx, 12));
    note(story, EVP_CipherInit_ex2(ctx, NULL, key, iv + 1, 1, NULL));
    note(story, EVP_CipherUpdate(ctx, NULL, &written, plain, AAD));
    note(story, EVP_CipherUpdate(ctx, story->results + story->length, &written, plain, BYTES - TAG));
    story->length += BYTES - TAG;
    note(story, EVP_CipherFinal_ex(ctx, out, &written));
    note(story, EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, story->results + story->length));
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
}

int main(int count, char **words)
{
    static const int pieces[][2] = { { 0, 0 }, { AAD, 0 }, { 0, BYTES }, { AAD, BYTES }, { AAD, 16 } };
    OSSL_LIB_CTX *without = OSSL_LIB_CTX_new(), *with = OSSL_LIB_CTX_new();
    struct story ours, theirs;
    must(count > 2 && OSSL_PROVIDER_load(without, "default") && OSSL_LIB_CTX_load_config(with, words[1]), "configuration");
    for (int i = 0; i < BYTES; i++)
        plain[i] = (unsigned char)i;
    memset(key, 0x77, sizeof key);
    memset(iv, 0x12, sizeof iv);
    for (int word = 2; word < count; word++)
        for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++)
            for (int seal = 0; seal < 2; seal++)
                for (size_t length = 8; length < 14; length++) {
                    tell(with, words[word], seal, pieces[i][0], pieces[i][1], length, &ours);
                    tell(without, words[word], seal, pieces[i][0], pieces[i][1], length, &theirs);
                    if (memcmp(&ours, &theirs, sizeof ours) != 0)
                        printf("%s, %s, %d and %d bytes, then a length of %zu: %d %d %d %d, and without gantry %d %d %d %d\n", words[word],
                            seal ? "sealed" : "opened", pieces[i][0], pieces[i][1], length, ours.results[0], ours.results[1],
                            ours.results[2], ours.results[3], theirs.results[0], theirs.results[1], theirs.results[2], theirs.results[3]);
                }
    printf("compared\n");
    OSSL_LIB_CTX_free(with);
    OSSL_LIB_CTX_free(without);
    return 0;
}
