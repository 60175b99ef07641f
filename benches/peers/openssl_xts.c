/*
 * Throughput of OpenSSL's AES-256-XTS where every data unit has a tweak of its own, in rows of the same shape as
 * `gantry speed --json`.
 *
 *     openssl_xts BYTES SECONDS     e.g. openssl_xts 1024 0.5
 *
 * XTS numbers the data units (IEEE 1619), so disk encryption sets a tweak for each sector, as `gantry speed` does.
 * `openssl speed` sets one tweak at the start, and encrypts every unit under it.
 *
 * Built by benches/peers/run with: cc -O2 openssl_xts.c -lcrypto
 */
#include <openssl/evp.h>
#include <string.h>

#define PEER "openssl_xts"
#include "peer.h"

static struct unit {
    uint8_t *data;
    uint8_t tweak[16];
} units[MAX_REQUESTS];

/* Encrypts `count` units. The caller reads the clock once for all of them. */
static void run(EVP_CIPHER_CTX *context, size_t count, int bytes)
{
    for (size_t i = 0; i < count; i++) {
        int length;
        if (EVP_EncryptInit_ex2(context, NULL, NULL, units[i].tweak, NULL) != 1 ||
            EVP_EncryptUpdate(context, units[i].data, &length, units[i].data, bytes) != 1 || length != bytes)
            fail("EVP_EncryptUpdate");
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("usage: openssl_xts BYTES SECONDS");
    const size_t bytes = strtoul(argv[1], NULL, 10);
    const uint64_t span = (uint64_t)(strtod(argv[2], NULL) * 1e9);
    if (bytes < 16 || bytes > 1 << 24)
        fail("BYTES are 16 to 2^24");

    uint8_t key[64];
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i ^ 0x5a);
    size_t count = WORKING_SET / bytes;
    if (count > MAX_REQUESTS)
        count = MAX_REQUESTS;
    if (count == 0)
        count = 1;
    for (size_t i = 0; i < count; i++) {
        units[i].data = aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!units[i].data)
            fail("out of memory");
        memset(units[i].data, (int)i, bytes);
        memcpy(units[i].tweak, &i, sizeof(i));
    }
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-XTS", NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (!cipher || !context || EVP_EncryptInit_ex2(context, cipher, key, units[0].tweak, NULL) != 1)
        fail("EVP_EncryptInit_ex2");

    /* Warms up before the measurement: page faults, and the rise to the full clock. */
    for (uint64_t end = nanoseconds(CLOCK_MONOTONIC) + span / 8; nanoseconds(CLOCK_MONOTONIC) < end;)
        run(context, count, (int)bytes);

    size_t rounds = 0;
    const uint64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    const uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    for (; nanoseconds(CLOCK_MONOTONIC) - start < span; rounds++)
        run(context, count, (int)bytes);
    const double wall_s = (double)(nanoseconds(CLOCK_MONOTONIC) - start) / 1e9;
    const double cpu_s = (double)(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    const double requests = (double)(rounds * count);
    printf("[{\"algorithm\":\"aes-256-xts\",\"operation\":\"encrypt\",\"device\":\"openssl\",\"bytes\":%zu,\"batch\":1,"
           "\"threads\":1,\"requests\":%zu,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"mb_per_s\":%.3f,"
           "\"requests_per_s\":%.1f,\"p50_ns\":null,\"p99_ns\":null}]\n",
           bytes, rounds * count, wall_s, cpu_s, requests * (double)bytes / wall_s / 1e6, requests / wall_s);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    return 0;
}
