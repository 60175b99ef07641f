/* Measures AES-128-CBC encryption by libkcapi through AF_ALG. Prints "BYTES NANOSECONDS" of a request for each given size.
 *
 *     kcapi DRIVER SECONDS BYTES...
 *
 * Measures both methods of libkcapi, sendmsg and its heuristic, which splices. The faster one counts. */
#include <kcapi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static const int ways[] = {KCAPI_ACCESS_SENDMSG, KCAPI_ACCESS_HEURISTIC};
    /* Whole pages, as on our side: the kernel pins each page that a buffer touches. */
    static uint8_t input[1 << 18] __attribute__((aligned(4096))), output[1 << 18] __attribute__((aligned(4096)));
    uint8_t key[16] = {1}, iv[16] = {2};
    struct kcapi_handle *cipher;

    if (argc < 4 || kcapi_cipher_init(&cipher, argv[1], 0) || kcapi_cipher_setkey(cipher, key, sizeof key)) {
        fprintf(stderr, "kcapi: no %s here\n", argc > 1 ? argv[1] : "driver");
        return 1;
    }
    for (int size = 3; size < argc; size++) {
        const size_t bytes = strtoul(argv[size], NULL, 10);
        double best = 0;

        if (bytes == 0 || bytes > sizeof input)
            return 2;
        for (int way = 0; way < 2; way++) {
            const double start = now(), end = start + atof(argv[2]);
            double time = start;
            long requests = 0;

            for (; time < end; requests++, time = now())
                if (kcapi_cipher_encrypt(cipher, input, bytes, iv, output, bytes, ways[way]) != (ssize_t)bytes) {
                    fprintf(stderr, "kcapi: a request of %zu bytes failed\n", bytes);
                    return 1;
                }
            time = (time - start) / requests * 1e9;
            if (best == 0 || time < best)
                best = time;
        }
        printf("%zu %.0f\n", bytes, best);
        fflush(stdout);
    }
    kcapi_cipher_destroy(cipher);
    return 0;
}
