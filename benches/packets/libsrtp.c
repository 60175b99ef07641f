/*
 * Measures a packet of SRTP with libsrtp2, as gantry-bench-srtp does with Gantry.
 *
 *     libsrtp SUITE BYTES STREAMS SECONDS        e.g. libsrtp AEAD_AES_128_GCM 172 1000 0.2
 *
 * Each stream has a session and a master key of its own. Each round seals PACKETS packets of every stream, one of each in turn, and then
 * opens them. Prints nanoseconds of CPU time for each sealed packet, and for each opened one.
 *
 * Built by benches/packets/srtp with: cc -O2 libsrtp.c -lsrtp2
 */
#include <srtp2/srtp.h>
#include <string.h>

#define PEER "libsrtp"
#include "../peers/peer.h"

/* Packets of each stream in a round. */
enum { PACKETS = 8, HEADER = 12, SALTED = 46 };

static const struct {
    const char *name;
    void (*policy)(srtp_crypto_policy_t *);
} SUITES[] = {
    { "AES_CM_128_HMAC_SHA1_80", srtp_crypto_policy_set_rtp_default },
    { "AES_256_CM_HMAC_SHA1_80", srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80 },
    { "AEAD_AES_128_GCM", srtp_crypto_policy_set_aes_gcm_128_16_auth },
    { "AEAD_AES_256_GCM", srtp_crypto_policy_set_aes_gcm_256_16_auth },
};

static srtp_t session(void (*crypto)(srtp_crypto_policy_t *), uint32_t stream)
{
    uint8_t key[SALTED];
    srtp_policy_t policy;
    srtp_t made;

    for (size_t at = 0; at < sizeof(key); at++)
        key[at] = (uint8_t)(at + stream * 7);
    memset(&policy, 0, sizeof(policy));
    crypto(&policy.rtp);
    crypto(&policy.rtcp);
    policy.ssrc.type = ssrc_specific;
    policy.ssrc.value = stream;
    policy.key = key;
    policy.window_size = 128;
    if (srtp_create(&made, &policy) != srtp_err_status_ok)
        fail("no session");
    return made;
}

static void header(uint8_t *packet, uint32_t stream, uint16_t sequence)
{
    const uint8_t bytes[HEADER] = { 0x80, 96, (uint8_t)(sequence >> 8), (uint8_t)sequence, 0, 0, 0, 0,
                                    (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream };
    memcpy(packet, bytes, HEADER);
}

int main(int count, char **words)
{
    if (count != 5)
        fail("SUITE BYTES STREAMS SECONDS");
    size_t suite = 0;
    while (suite < sizeof(SUITES) / sizeof(*SUITES) && strcmp(SUITES[suite].name, words[1]) != 0)
        suite++;
    if (suite == sizeof(SUITES) / sizeof(*SUITES))
        fail("no such suite");
    const size_t bytes = strtoul(words[2], NULL, 10), streams = strtoul(words[3], NULL, 10);
    const uint64_t least = (uint64_t)(strtod(words[4], NULL) * 1e9);
    if (bytes < HEADER || streams == 0 || srtp_init() != srtp_err_status_ok)
        fail("bytes, streams, or no library");

    /* Whole words, because libsrtp2 reads whole words. */
    const size_t room = (bytes + SRTP_MAX_TRAILER_LEN + 63) / 64 * 64, packets = streams * PACKETS;
    uint8_t *buffers = aligned_alloc(64, packets * room);
    srtp_t *out = calloc(streams, sizeof(*out)), *in = calloc(streams, sizeof(*in));
    if (!buffers || !out || !in)
        fail("no memory");
    memset(buffers, 1, packets * room);
    for (size_t stream = 0; stream < streams; stream++) {
        out[stream] = session(SUITES[suite].policy, (uint32_t)stream);
        in[stream] = session(SUITES[suite].policy, (uint32_t)stream);
    }

    uint64_t seal = 0, open = 0, done = 0;
    /* The first round fills caches, and is not counted. */
    for (uint64_t turn = 0; turn == 0 || seal + open < least; turn++) {
        uint64_t begun = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        int length = 0;
        for (size_t at = 0; at < packets; at++) {
            const size_t stream = at % streams;
            header(buffers + at * room, (uint32_t)stream, (uint16_t)(turn * PACKETS + at / streams));
            length = (int)bytes;
            if (srtp_protect(out[stream], buffers + at * room, &length) != srtp_err_status_ok)
                fail("not sealed");
        }
        const uint64_t sealed = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        for (size_t at = 0; at < packets; at++) {
            int left = length;
            if (srtp_unprotect(in[at % streams], buffers + at * room, &left) != srtp_err_status_ok)
                fail("not opened");
        }
        const uint64_t opened = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        if (turn > 0) {
            seal += sealed - begun;
            open += opened - sealed;
            done += packets;
        }
    }
    printf("%.1f %.1f\n", (double)seal / (double)done, (double)open / (double)done);
    return 0;
}
