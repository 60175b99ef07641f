/*
 * Throughput of Intel's ipsec-mb, in rows of the same shape as `gantry speed --json`.
 *
 *     ipsec_mb ALGORITHM BYTES BATCH SECONDS ALIGNMENT LEVEL     e.g. ipsec_mb hmac-sha256 1024 16 0.5 64 best
 *
 * LEVEL is best or avx2: with all instructions of the CPU, or without AVX-512.
 *
 * One thread hands over BATCH requests of BYTES bytes each and flushes until all of them are done,
 * again and again. Every request has its own data and IV, and ciphers work in place, as in `gantry speed`. Of its interfaces the fastest is used: unchecked, and a synchronous burst where it has one.
 *
 * Built by benches/peers/run with: cc -O2 ipsec_mb.c -lIPSec_MB
 */
#include <intel-ipsec-mb.h>
#include <string.h>

#define PEER "ipsec_mb"
#include "peer.h"

/* Associated data is as long as in `gantry speed`. Where it is authenticated in front of the ciphertext, the IV is between them. */
enum { MAX_BATCH = 128, MAX_SAMPLES = 1 << 20, AAD = 13, IV = 16, NONCE = 12, FRONT = AAD + IV };

/* One row per algorithm that is compared. */
static const struct algorithm {
    const char *name;
    const char *operation;
    IMB_CIPHER_MODE cipher;
    IMB_HASH_ALG hash;
    size_t key;
    size_t tag;
    int burst; /* whether version 1.3 has the burst interface for it */
} ALGORITHMS[] = {
    { "sha1", "digest", IMB_CIPHER_NULL, IMB_AUTH_SHA_1, 0, 20, 0 },
    { "sha256", "digest", IMB_CIPHER_NULL, IMB_AUTH_SHA_256, 0, 32, 0 },
    { "sha512", "digest", IMB_CIPHER_NULL, IMB_AUTH_SHA_512, 0, 64, 0 },
    { "hmac-md5", "mac", IMB_CIPHER_NULL, IMB_AUTH_MD5, 0, 16, 0 },
    { "hmac-sha1", "mac", IMB_CIPHER_NULL, IMB_AUTH_HMAC_SHA_1, 0, 20, 1 },
    { "hmac-sha256", "mac", IMB_CIPHER_NULL, IMB_AUTH_HMAC_SHA_256, 0, 32, 1 },
    { "aes-128-cmac", "mac", IMB_CIPHER_NULL, IMB_AUTH_AES_CMAC, 16, 16, 0 },
    { "aes-128-cbc", "encrypt", IMB_CIPHER_CBC, IMB_AUTH_NULL, 16, 0, 1 },
    { "aes-256-cbc", "encrypt", IMB_CIPHER_CBC, IMB_AUTH_NULL, 32, 0, 1 },
    { "aes-128-ctr", "encrypt", IMB_CIPHER_CNTR, IMB_AUTH_NULL, 16, 0, 1 },
    { "aes-128-gcm", "seal", IMB_CIPHER_GCM, IMB_AUTH_AES_GMAC, 16, 16, 0 },
    { "aes-256-gcm", "seal", IMB_CIPHER_GCM, IMB_AUTH_AES_GMAC, 32, 16, 0 },
    { "aes-128-ccm", "seal", IMB_CIPHER_CCM, IMB_AUTH_AES_CCM, 16, 16, 0 },
    { "aes-128-cbc-hmac-sha1", "seal", IMB_CIPHER_CBC, IMB_AUTH_HMAC_SHA_1, 16, 20, 0 },
    { "aes-128-cbc-hmac-sha256", "seal", IMB_CIPHER_CBC, IMB_AUTH_HMAC_SHA_256, 16, 32, 0 },
    { "aes-128-ctr-hmac-sha256", "seal", IMB_CIPHER_CNTR, IMB_AUTH_HMAC_SHA_256, 16, 32, 0 },
};

static DECLARE_ALIGNED(uint32_t encrypt_keys[15 * 4], 16);
static DECLARE_ALIGNED(uint32_t decrypt_keys[15 * 4], 16);
static DECLARE_ALIGNED(uint8_t ipad[64], 16);
static DECLARE_ALIGNED(uint8_t opad[64], 16);
static DECLARE_ALIGNED(uint8_t subkeys[2][16], 16);
static DECLARE_ALIGNED(struct gcm_key_data gcm_key, 64);
static const uint8_t aad[AAD] = { 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7 };

static struct buffers {
    uint8_t *data; /* behind at least FRONT bytes */
    uint8_t iv[IV];
    uint8_t tag[64];
} requests[MAX_REQUESTS];

static uint64_t samples[MAX_SAMPLES];

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Hashes the pads of HMAC. */
static void prepare_hmac(IMB_MGR *manager, IMB_HASH_ALG hash, const uint8_t *key)
{
    for (int outer = 0; outer < 2; outer++) {
        uint8_t block[64], *pad = outer ? opad : ipad;
        for (size_t i = 0; i < sizeof(block); i++)
            block[i] = (uint8_t)(key[i] ^ (outer ? 0x5c : 0x36));
        if (hash == IMB_AUTH_MD5)
            IMB_MD5_ONE_BLOCK(manager, block, pad);
        else if (hash == IMB_AUTH_HMAC_SHA_1)
            IMB_SHA1_ONE_BLOCK(manager, block, pad);
        else
            IMB_SHA256_ONE_BLOCK(manager, block, pad);
    }
}

/* Prepares the keys, which all requests share. */
static void prepare(IMB_MGR *manager, const struct algorithm *algorithm)
{
    uint8_t key[64];

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    if (algorithm->key == 16) {
        IMB_AES_KEYEXP_128(manager, key, encrypt_keys, decrypt_keys);
        IMB_AES128_GCM_PRE(manager, key, &gcm_key);
    }
    if (algorithm->key == 32) {
        IMB_AES_KEYEXP_256(manager, key, encrypt_keys, decrypt_keys);
        IMB_AES256_GCM_PRE(manager, key, &gcm_key);
    }
    switch (algorithm->hash) {
    case IMB_AUTH_MD5:
    case IMB_AUTH_HMAC_SHA_1:
    case IMB_AUTH_HMAC_SHA_256:
        prepare_hmac(manager, algorithm->hash, key);
        break;
    case IMB_AUTH_AES_CMAC:
        IMB_AES_CMAC_SUBKEY_GEN_128(manager, encrypt_keys, subkeys[0], subkeys[1]);
        break;
    default:
        break;
    }
}

static void fill(IMB_JOB *job, const struct algorithm *algorithm, struct buffers *request, size_t bytes)
{
    /* Encrypt-then-authenticate also covers the associated data and the IV in front. */
    const size_t front = algorithm->cipher != IMB_CIPHER_NULL && algorithm->hash <= IMB_AUTH_HMAC_SHA_512 ? FRONT : 0;

    job->chain_order = IMB_ORDER_HASH_CIPHER;
    job->cipher_direction = IMB_DIR_ENCRYPT;
    job->cipher_mode = algorithm->cipher;
    job->hash_alg = algorithm->hash;
    job->src = request->data - front;
    if (algorithm->cipher != IMB_CIPHER_NULL) {
        job->chain_order = IMB_ORDER_CIPHER_HASH;
        job->enc_keys = encrypt_keys;
        job->dec_keys = decrypt_keys;
        job->key_len_in_bytes = algorithm->key;
        job->dst = request->data;
        job->cipher_start_src_offset_in_bytes = front;
        job->msg_len_to_cipher_in_bytes = bytes;
        job->iv = request->iv;
        job->iv_len_in_bytes = IV;
    }
    if (algorithm->hash != IMB_AUTH_NULL) {
        job->hash_start_src_offset_in_bytes = 0;
        job->msg_len_to_hash_in_bytes = front + bytes;
        job->auth_tag_output = request->tag;
        job->auth_tag_output_len_in_bytes = algorithm->tag;
    }
    switch (algorithm->hash) {
    case IMB_AUTH_AES_GMAC:
        job->enc_keys = &gcm_key;
        job->dec_keys = &gcm_key;
        job->iv_len_in_bytes = NONCE;
        job->u.GCM.aad = aad;
        job->u.GCM.aad_len_in_bytes = AAD;
        break;
    case IMB_AUTH_AES_CCM:
        job->chain_order = IMB_ORDER_HASH_CIPHER;
        job->iv_len_in_bytes = NONCE;
        job->u.CCM.aad = aad;
        job->u.CCM.aad_len_in_bytes = AAD;
        break;
    case IMB_AUTH_AES_CMAC:
        job->u.CMAC._key_expanded = encrypt_keys;
        job->u.CMAC._skey1 = subkeys[0];
        job->u.CMAC._skey2 = subkeys[1];
        break;
    default:
        job->u.HMAC._hashed_auth_key_xor_ipad = ipad;
        job->u.HMAC._hashed_auth_key_xor_opad = opad;
    }
}

/* Hands over one batch and waits for its last request. */
static void run(IMB_MGR *manager, const struct algorithm *algorithm, struct buffers *requests, size_t bytes,
                size_t batch)
{
    static IMB_JOB jobs[MAX_BATCH];
    size_t done = 0;

    if (algorithm->burst) {
        for (size_t i = 0; i < batch; i++)
            fill(&jobs[i], algorithm, &requests[i], bytes);
        if (algorithm->cipher != IMB_CIPHER_NULL)
            done = IMB_SUBMIT_CIPHER_BURST_NOCHECK(manager, jobs, (uint32_t)batch, algorithm->cipher,
                                                   IMB_DIR_ENCRYPT, algorithm->key);
        else
            done = IMB_SUBMIT_HASH_BURST_NOCHECK(manager, jobs, (uint32_t)batch, algorithm->hash);
        if (done != batch)
            fail("a request did not complete");
        return;
    }
    for (size_t i = 0; i < batch; i++) {
        fill(IMB_GET_NEXT_JOB(manager), algorithm, &requests[i], bytes);
        for (IMB_JOB *job = IMB_SUBMIT_JOB_NOCHECK(manager); job; job = IMB_GET_COMPLETED_JOB(manager))
            done += job->status == IMB_STATUS_COMPLETED;
    }
    for (IMB_JOB *job = IMB_FLUSH_JOB(manager); job; job = IMB_FLUSH_JOB(manager))
        done += job->status == IMB_STATUS_COMPLETED;
    if (done != batch)
        fail("a request did not complete");
}

int main(int argc, char **argv)
{
    const struct algorithm *algorithm = NULL;

    if (argc != 7 || (strcmp(argv[6], "best") != 0 && strcmp(argv[6], "avx2") != 0))
        fail("usage: ipsec_mb ALGORITHM BYTES BATCH SECONDS ALIGNMENT best|avx2");
    for (size_t i = 0; i < sizeof(ALGORITHMS) / sizeof(*ALGORITHMS); i++)
        if (strcmp(argv[1], ALGORITHMS[i].name) == 0)
            algorithm = &ALGORITHMS[i];
    const size_t bytes = strtoul(argv[2], NULL, 10);
    const size_t batch = strtoul(argv[3], NULL, 10);
    const size_t alignment = strtoul(argv[5], NULL, 10);
    const uint64_t span = (uint64_t)(strtod(argv[4], NULL) * 1e9);
    if (alignment < 64 || (alignment & (alignment - 1)) != 0)
        fail("an alignment is a power of two, 64 or more");
    if (!algorithm || bytes == 0 || bytes > 65535 - 64 || batch == 0 || batch > MAX_BATCH)
        fail("unknown algorithm, more than 65471 bytes, or a batch above 128");

    IMB_MGR *manager = alloc_mb_mgr(0);
    if (!manager)
        fail("out of memory");
    if (strcmp(argv[6], "avx2") == 0)
        init_mb_mgr_avx2(manager);
    else
        init_mb_mgr_auto(manager, NULL);
    prepare(manager, algorithm);
    size_t sets = WORKING_SET / (bytes * batch);
    if (sets > MAX_REQUESTS / batch)
        sets = MAX_REQUESTS / batch;
    if (sets == 0)
        sets = 1;
    for (size_t i = 0; i < sets * batch; i++) {
        requests[i].data = aligned_alloc(alignment, alignment + (bytes + alignment - 1) / alignment * alignment);
        if (!requests[i].data)
            fail("out of memory");
        requests[i].data += alignment;
        memset(requests[i].data - FRONT, (int)i, FRONT + bytes);
    }

    /* Warms up before the measurement: page faults, and the rise to the full clock. */
    size_t batches = 0;
    for (uint64_t end = nanoseconds(CLOCK_MONOTONIC) + span / 8; nanoseconds(CLOCK_MONOTONIC) < end;)
        run(manager, algorithm, &requests[batches++ % sets * batch], bytes, batch);

    batches = 0;
    const uint64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    const uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    uint64_t last = start;
    while (last - start < span && batches < MAX_SAMPLES) {
        run(manager, algorithm, &requests[batches % sets * batch], bytes, batch);
        const uint64_t now = nanoseconds(CLOCK_MONOTONIC);
        samples[batches++] = now - last;
        last = now;
    }
    const double wall_s = (double)(last - start) / 1e9;
    const double cpu_s = (double)(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    const double count = (double)(batches * batch);

    qsort(samples, batches, sizeof(*samples), ascending);
    printf("[{\"algorithm\":\"%s\",\"operation\":\"%s\",\"device\":\"ipsec-mb %s\",\"bytes\":%zu,\"batch\":%zu,"
           "\"threads\":1,\"requests\":%zu,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"mb_per_s\":%.3f,"
           "\"requests_per_s\":%.1f,\"p50_ns\":%llu,\"p99_ns\":%llu}]\n",
           algorithm->name, algorithm->operation, imb_get_version_str(), bytes, batch, batches * batch, wall_s, cpu_s,
           count * (double)bytes / wall_s / 1e6, count / wall_s,
           (unsigned long long)samples[batches / 2], (unsigned long long)samples[batches * 99 / 100]);
    free_mb_mgr(manager);
    return 0;
}
