// Pipelines of AES-CBC, compared with single messages of the default provider:
//
//     pipelines CONFIGURATION

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIPES = 32, MOST = 4000, PIECES = 3, ROUNDS = 60 };

static unsigned seed = 1;

static size_t below(size_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % limit;
}

static void fill(unsigned char *place, size_t length)
{
    for (size_t i = 0; i < length; i++)
        place[i] = (unsigned char)below(256);
}

// Processes a single message. Returns its length, or -1 on failure.
static int alone(const EVP_CIPHER *cipher, int encrypt, int padding, const unsigned char *key, const unsigned char *iv,
    const unsigned char *in, size_t length, unsigned char *out)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int done = 0, rest = 0;
    int good = EVP_CipherInit_ex2(ctx, cipher, key, iv, encrypt, NULL) && EVP_CIPHER_CTX_set_padding(ctx, padding)
        && EVP_CipherUpdate(ctx, out, &done, in, (int)length) && EVP_CipherFinal_ex(ctx, out + done, &rest);
    EVP_CIPHER_CTX_free(ctx);
    return good ? done + rest : -1;
}

// Buffers of messages in place, apart, or adjacent.
static unsigned char input[PIPES][MOST + 32], output[PIPES][MOST + 64], expected[PIPES][MOST + 64];

static const char *round_of(const EVP_CIPHER *ours, const EVP_CIPHER *theirs)
{
    unsigned char key[32], ivs[PIPES][16];
    const unsigned char *iv[PIPES], *in[PIPES];
    unsigned char *out[PIPES];
    size_t lengths[PIPES], given[PIPES] = {0}, got[PIPES] = {0}, outl[PIPES], room[PIPES], part[PIPES];
    int must[PIPES], all = 1;
    size_t pipes = 1 + below(PIPES), same = below(3);
    int encrypt = below(4) != 0, padding = (int)below(2), in_place = (int)below(2), copies = below(4) == 0;

    fill(key, sizeof key);
    for (size_t pipe = 0; pipe < pipes; pipe++) {
        // Equal lengths, different lengths, or whole blocks.
        lengths[pipe] = same == 0 && pipe > 0 ? lengths[0] : below(8) == 0 ? 0 : below(MOST);
        if (same == 2 || !padding)
            lengths[pipe] -= lengths[pipe] % 16;
        fill(ivs[pipe], 16);
        fill(input[pipe], lengths[pipe]);
        iv[pipe] = ivs[pipe];
        if (!encrypt) {
            int length = alone(theirs, 1, padding, key, ivs[pipe], input[pipe], lengths[pipe], output[pipe]);
            if (length < 0)
                return "failed";
            lengths[pipe] = (size_t)length;
            memcpy(input[pipe], output[pipe], lengths[pipe]);
        }
        must[pipe] = alone(theirs, encrypt, padding, key, ivs[pipe], input[pipe], lengths[pipe], expected[pipe]);
        all &= must[pipe] >= 0;
    }
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int good = encrypt
        ? EVP_CipherPipelineEncryptInit(ctx, ours, key, (size_t)EVP_CIPHER_get_key_length(ours), pipes, iv, 16)
        : EVP_CipherPipelineDecryptInit(ctx, ours, key, (size_t)EVP_CIPHER_get_key_length(ours), pipes, iv, 16);
    good = good && EVP_CIPHER_CTX_set_padding(ctx, padding);
    for (int piece = 0; good && piece < PIECES; piece++) {
        for (size_t pipe = 0; pipe < pipes; pipe++) {
            part[pipe] = piece == PIECES - 1 ? lengths[pipe] - given[pipe] : below(lengths[pipe] - given[pipe] + 1);
            // In place only if input and output are at the same position.
            if (in_place && got[pipe] == given[pipe])
                memcpy(output[pipe] + got[pipe], input[pipe] + given[pipe], part[pipe]);
            in[pipe] = in_place && got[pipe] == given[pipe] ? output[pipe] + got[pipe] : input[pipe] + given[pipe];
            out[pipe] = output[pipe] + got[pipe];
            room[pipe] = sizeof output[pipe] - got[pipe];
            outl[pipe] = 99;
        }
        good = EVP_CipherPipelineUpdate(ctx, out, outl, room, in, part);
        for (size_t pipe = 0; pipe < pipes; pipe++) {
            given[pipe] += part[pipe];
            got[pipe] += outl[pipe];
        }
        if (copies && piece == 0 && good) {
            EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();
            good = EVP_CIPHER_CTX_copy(copy, ctx);
            EVP_CIPHER_CTX_free(ctx);
            ctx = copy;
        }
    }
    for (size_t pipe = 0; pipe < pipes; pipe++) {
        out[pipe] = output[pipe] + got[pipe];
        room[pipe] = sizeof output[pipe] - got[pipe];
    }
    good = good && EVP_CipherPipelineFinal(ctx, out, outl, room);
    EVP_CIPHER_CTX_free(ctx);
    if (!good)
        return all ? "failed" : "the same";
    for (size_t pipe = 0; pipe < pipes; pipe++) {
        got[pipe] += outl[pipe];
        if ((int)got[pipe] != must[pipe] || memcmp(output[pipe], expected[pipe], got[pipe]) != 0)
            return "different";
    }
    return "the same";
}

int main(int count, char **words)
{
    static const char *const names[] = {"AES-128-CBC", "AES-192-CBC", "AES-256-CBC"};
    if (count != 2 || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    const char *said = "the same";
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        EVP_CIPHER *ours = EVP_CIPHER_fetch(NULL, names[name], "provider=gantry");
        EVP_CIPHER *theirs = EVP_CIPHER_fetch(NULL, names[name], "provider=default");
        if (ours == NULL || theirs == NULL || !EVP_CIPHER_can_pipeline(ours, 1) || !EVP_CIPHER_can_pipeline(ours, 0))
            return 1;
        for (int round = 0; round < ROUNDS && strcmp(said, "the same") == 0; round++)
            said = round_of(ours, theirs);
        EVP_CIPHER_free(ours);
        EVP_CIPHER_free(theirs);
    }
    // Only algorithms of lanes have pipelines.
    EVP_CIPHER *other = EVP_CIPHER_fetch(NULL, "AES-128-CTR", "provider=gantry");
    if (other == NULL || EVP_CIPHER_can_pipeline(other, 1))
        said = "pipelines of another mode";
    EVP_CIPHER_free(other);
    puts(said);
    return 0;
}
