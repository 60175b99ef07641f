/* What of a message is left in libcrypto's memory when its digest's context is freed.
 *
 *     left CONFIGURATION
 *
 * Prints the digests of which something is left, after whole messages and those that were given up. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

/* Of one byte, which looks the same in either order of the bytes of a word. */
enum { LONGEST = 300, BYTE = 0xA7 };

/* Every block that libcrypto has. */
struct block {
    struct block *next, *before;
    size_t bytes;
};
static struct block blocks = { &blocks, &blocks, 0 };

static void *allocate(size_t bytes, const char *file, int line)
{
    struct block *block = malloc(sizeof *block + bytes);
    (void)file, (void)line;
    if (!block)
        return NULL;
    *block = (struct block) { blocks.next, &blocks, bytes };
    block->next->before = block->before->next = block;
    return block + 1;
}

static void release(void *at, const char *file, int line)
{
    struct block *block = at;
    (void)file, (void)line;
    if (!block--)
        return;
    block->next->before = block->before;
    block->before->next = block->next;
    free(block);
}

static void *resize(void *at, size_t bytes, const char *file, int line)
{
    void *other = bytes ? allocate(bytes, file, line) : NULL;
    if (at && other) {
        size_t known = ((struct block *)at - 1)->bytes;
        memcpy(other, at, known < bytes ? known : bytes);
    }
    if (other || !bytes)
        release(at, file, line);
    return other;
}

/* Whether eight bytes of a message in a row are anywhere. */
static int is_left(void)
{
    for (struct block *block = blocks.next; block != &blocks; block = block->next) {
        const unsigned char *bytes = (void *)(block + 1);
        int row = 0;
        for (size_t i = 0; i < block->bytes && row < 8; i++)
            row = bytes[i] == BYTE ? row + 1 : 0;
        if (row == 8)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "MD5", "SHA1", "SHA2-224", "SHA2-256", "SHA2-384", "SHA2-512", "SHA2-512/256", "SHA3-224",
        "SHA3-256", "SHA3-384", "SHA3-512", "RIPEMD-160" };
    static unsigned char message[LONGEST], digest[EVP_MAX_MD_SIZE];
    int known = 0, left = 0;

    if (argc != 2 || !CRYPTO_set_mem_functions(allocate, resize, release))
        return 2;
    must(OSSL_LIB_CTX_load_config(NULL, argv[1]), "the configuration");
    memset(message, BYTE, sizeof message);
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        EVP_MD *md = EVP_MD_fetch(NULL, names[name], "provider=gantry");
        must(md != NULL, names[name]);
        for (int length = 20; length <= LONGEST; length += 20)
            for (int ended = 0; ended < 2; ended++) {
                EVP_MD_CTX *ctx = EVP_MD_CTX_new();
                must(EVP_DigestInit_ex2(ctx, md, NULL) && EVP_DigestUpdate(ctx, message, length), names[name]);
                /* Or this could not find anything. */
                known += is_left();
                must(!ended || EVP_DigestFinal_ex(ctx, digest, NULL), names[name]);
                EVP_MD_CTX_free(ctx);
                if (is_left()) {
                    printf("%s, %d bytes%s\n", names[name], length, ended ? "" : ", given up");
                    left = 1;
                }
            }
        EVP_MD_free(md);
    }
    must(known > 0, "a message is not seen even while it is there");
    if (!left)
        puts("nothing");
    return 0;
}
