/* Invalid calls return errors, and change nothing. */
#include "must.h"

static gantry *devices;
static gantry_session *sha256, *gcm;

static void opening(void)
{
    gantry *none = NULL;
    char message[300] = "before";
    must(gantry_open("", NULL, NULL, 0) == GANTRY_E_ARGUMENT);
    must(gantry_open("\npolcy = 1", &none, message, sizeof message) == GANTRY_E_CONFIGURATION);
    must(strcmp(message, "configuration:2: unknown key 'polcy'; did you mean policy?") == 0);
    must(gantry_open("policy = \"pin:nobody\"", &none, message, 20) == GANTRY_E_CONFIGURATION);
    must(strlen(message) == 19 && !none);
    must(gantry_open("\xff", &none, message, sizeof message) == GANTRY_E_CONFIGURATION);
    must(strcmp(message, "the configuration is not UTF-8") == 0);
    must(gantry_open("", &none, NULL, 99) == GANTRY_OK && none);
    gantry_close(none);
    gantry_close(NULL);
    gantry_session_close(NULL);
    gantry_stream_close(NULL);
    gantry_queue_close(NULL);
    for (int error = -17; error <= 3; error++)
        must(strlen(gantry_strerror(error)) > 5 && strcmp(gantry_strerror(error), gantry_strerror(-99)) != 0);
}

static int said(const char *message)
{
    if (strcmp(gantry_last_error(), message) == 0)
        return 1;
    fprintf(stderr, "%s\n", gantry_last_error());
    return 0;
}

static int session_with(gantry_params params)
{
    gantry_session *session = NULL;
    int error = gantry_session_open(devices, &params, &session);
    must((error == GANTRY_OK) == (session != NULL));
    gantry_session_close(session);
    return error;
}

static void sessions(void)
{
    static const unsigned char key[64];
    gantry_session *session = NULL;
    gantry_params good = params_of("aes-128-gcm", key, 16), params = good;
    must(session_with(good) == GANTRY_OK);
    must(gantry_session_open(NULL, &good, &session) == GANTRY_E_ARGUMENT);
    must(gantry_session_open(devices, NULL, &session) == GANTRY_E_ARGUMENT);
    must(gantry_session_open(devices, &good, NULL) == GANTRY_E_ARGUMENT);
    /* A handle of another type, and memory that is not a handle. */
    void *foreign = sha256;
    static uint64_t zeros[8];
    must(gantry_session_open((gantry *)foreign, &good, &session) == GANTRY_E_HANDLE);
    foreign = zeros;
    must(gantry_session_open((gantry *)foreign, &good, &session) == GANTRY_E_HANDLE);
    foreign = (char *)zeros + 1;
    must(gantry_session_open((gantry *)foreign, &good, &session) == GANTRY_E_HANDLE);

    size_t sizes[] = {0, 1, sizeof params - 8, sizeof params + 1, 4104, (size_t)-8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        params = good;
        params.size = sizes[i];
        must(session_with(params) == GANTRY_E_VERSION);
    }
    /* A later version with a new field that is unused, then used. */
    struct { gantry_params params; uint64_t later; } longer;
    memset(&longer, 0, sizeof longer);
    longer.params = good;
    longer.params.size = sizeof longer;
    must(gantry_session_open(devices, &longer.params, &session) == GANTRY_OK);
    gantry_session_close(session);
    longer.later = 1;
    must(gantry_session_open(devices, &longer.params, &session) == GANTRY_E_VERSION);

    const char *names[] = {"", "sha257", "aes", "ed25519", "x25519", "zstd", "\xff"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        params = good;
        params.algorithm = names[i];
        must(session_with(params) == GANTRY_E_ALGORITHM);
    }
    params = good; params.algorithm = NULL; must(session_with(params) == GANTRY_E_ARGUMENT);
    params = good; params.key_len = 15; must(session_with(params) == GANTRY_E_KEY);
    must(said("aes-128-gcm: a key of 15 bytes; it takes 16"));
    params = good; params.algorithm = "sha257"; must(session_with(params) == GANTRY_E_ALGORITHM);
    must(strstr(gantry_last_error(), "did you mean sha256"));
    params = good; params.algorithm = "aes-gcm"; must(session_with(params) == GANTRY_E_ALGORITHM);
    must(said("unknown algorithm 'aes-gcm'; did you mean aes-128-gcm, aes-192-gcm or aes-256-gcm?"));
    params = good; params.key = NULL; must(session_with(params) == GANTRY_E_ARGUMENT);
    params = good; params.key_len = (size_t)-1; must(session_with(params) == GANTRY_E_ARGUMENT);
    params = good; params.mac_key = key; params.mac_key_len = 1; must(session_with(params) == GANTRY_E_KEY);
    params = good; params.tag_len = 17; must(session_with(params) == GANTRY_E_LENGTH);
    must(said("aes-128-gcm: a tag of 17 bytes; it takes 4 to 16"));
    params = good; params.direction = 3; must(session_with(params) == GANTRY_E_ARGUMENT);
    params = good; params.flags = 2; must(session_with(params) == GANTRY_E_ARGUMENT);
    must(session_with(params_of("aes-128-xts", key, 32)) == GANTRY_E_KEY); /* both halves are equal */
    must(strncmp(gantry_last_error(), "aes-128-xts: ", 13) == 0);
    params = params_of("sha256", NULL, 0); params.mac_key = key; params.mac_key_len = 1;
    must(session_with(params) == GANTRY_E_KEY && said("sha256: a MAC key of 1 bytes; it takes 0"));
}

/* One algorithm in each usual spelling. */
static void spellings(void)
{
    static const unsigned char key[16];
    static const char *digests[] = {"SHA-256", "sha256", "SHA2-256", "SHA256", "sha_256", "Sha 256"};
    static const char *aeads[] = {"AES-128-GCM", "aes-128-gcm", "AES128GCM", "aes_128_gcm", "id-aes128-GCM", "AES/128/GCM"};
    for (size_t i = 0; i < 6; i++) {
        gantry_session *digest = session_of(devices, digests[i], NULL, 0), *aead = session_of(devices, aeads[i], key, 16);
        must(gantry_session_tag_len(digest) == 32 && gantry_session_tag_len(aead) == 16);
        gantry_session_close(digest);
        gantry_session_close(aead);
    }
}

static unsigned char nonce[12], data[64], out[64], tag[16];

static gantry_request seal(void)
{
    gantry_request request = request_of(GANTRY_SEAL, data, 64, out, 64);
    request.iv = nonce;
    request.iv_len = sizeof nonce;
    request.tag = tag;
    request.tag_len = sizeof tag;
    return request;
}

/* Runs an invalid request between two valid ones: its result is the error, and the others do not run. */
static int run(gantry_request wrong)
{
    static unsigned char first[64], last[64], tags[2][16];
    gantry_request requests[] = {seal(), wrong, seal()};
    requests[0].out = first;
    requests[0].tag = tags[0];
    requests[2].out = last;
    requests[2].tag = tags[1];
    memset(first, 0xee, sizeof first);
    int error = gantry_run(gcm, requests, 3);
    if (error != GANTRY_OK) {
        must(requests[1].result == error || (error == GANTRY_E_OVERLAP && requests[1].result == GANTRY_NOT_RUN));
        must(requests[0].result == GANTRY_NOT_RUN && requests[2].result == GANTRY_NOT_RUN && first[0] == 0xee);
    }
    return error;
}

/* AES-GCM takes nonces of other lengths than 12 if the caller asks for them. */
static void any_nonce(void)
{
    static const unsigned char key[16], nonce[16];
    gantry_params params = params_of("AES_128_GCM", key, 16);
    gantry_session *session;
    params.flags = GANTRY_ANY_NONCE;
    must(gantry_session_open(devices, &params, &session) == GANTRY_OK);
    gantry_request request = seal();
    request.iv = nonce;
    for (request.iv_len = 1; request.iv_len <= 16; request.iv_len++)
        must(gantry_run(session, &request, 1) == GANTRY_OK && request.result == GANTRY_DONE);
    gantry_session_close(session);
}

static void requests(void)
{
    gantry_request good = seal(), wrong;
    must(run(good) == GANTRY_OK);
    must(gantry_run(NULL, &good, 1) == GANTRY_E_ARGUMENT && gantry_run(gcm, NULL, 1) == GANTRY_E_ARGUMENT);
    must(gantry_run(gcm, &good, (size_t)-1) == GANTRY_E_ARGUMENT);
    must(gantry_run(gcm, &good, (size_t)-1 / sizeof good) == GANTRY_E_ARGUMENT);
    must(gantry_run(gcm, (gantry_request *)((char *)&good + 1), 1) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.size = 8; must(run(wrong) == GANTRY_E_VERSION);
    wrong = good; wrong.size += 8; must(run(wrong) == GANTRY_E_VERSION);
    wrong = good; wrong.operation = 6; must(run(wrong) == GANTRY_E_OPERATION);
    wrong = good; wrong.operation = GANTRY_ENCRYPT; must(run(wrong) == GANTRY_E_OPERATION);
    wrong = good; wrong.operation = GANTRY_DIGEST; must(run(wrong) == GANTRY_E_OPERATION);
    wrong = good; wrong.in = NULL; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.out = NULL; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.iv = NULL; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.tag = NULL; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.aad_len = 1; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.in_len = (size_t)-1; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.in_len = wrong.out_len = (size_t)1 << 62; must(run(wrong) != GANTRY_OK);
    wrong = good; wrong.aad = data; wrong.aad_len = (size_t)-16; must(run(wrong) == GANTRY_E_ARGUMENT);
    wrong = good; wrong.iv_len = 0; must(run(wrong) == GANTRY_E_LENGTH);
    must(said("aes-128-gcm: an IV of 0 bytes; it takes 12"));
    wrong = good; wrong.iv_len = 11; must(run(wrong) == GANTRY_E_LENGTH);
    wrong = good; wrong.out_len = 63; must(run(wrong) == GANTRY_E_LENGTH);
    must(said("aes-128-gcm: an output buffer of 63 bytes for a result of 64"));
    wrong = good; wrong.tag_len = 15; must(run(wrong) == GANTRY_E_LENGTH);
    must(said("aes-128-gcm: a tag of 15 bytes; it takes 16"));
    must(gantry_run(NULL, &good, 1) == GANTRY_E_ARGUMENT && said(gantry_strerror(GANTRY_E_ARGUMENT)));
    any_nonce();
    /* Overlapping buffers; only data in place is allowed. */
    wrong = good; wrong.in = out; must(run(wrong) == GANTRY_OK);
    wrong = good; wrong.in = out + 1; wrong.in_len = wrong.out_len = 60; must(run(wrong) == GANTRY_E_OVERLAP);
    wrong = good; wrong.tag = out + 48; must(run(wrong) == GANTRY_E_OVERLAP);
    wrong = good; wrong.iv = out; must(run(wrong) == GANTRY_E_OVERLAP);
    wrong = good; wrong.aad = tag; wrong.aad_len = 1; must(run(wrong) == GANTRY_E_OVERLAP);
    wrong = good; wrong.out = data + 8; wrong.in = data + 8; wrong.in_len = wrong.out_len = 8; must(run(wrong) == GANTRY_E_OVERLAP);
    gantry_request itself = request_of(GANTRY_DIGEST, data, 64, NULL, 32);
    itself.out = &itself.iv;
    must(gantry_run(sha256, &itself, 1) == GANTRY_E_OVERLAP);
    /* Fields that the operation does not have. */
    gantry_request digest = request_of(GANTRY_DIGEST, data, 64, out, 32);
    digest.iv = nonce;
    digest.iv_len = 12;
    must(gantry_run(sha256, &digest, 1) == GANTRY_E_ARGUMENT);
    digest = request_of(GANTRY_DIGEST, data, 64, out, 31);
    must(gantry_run(sha256, &digest, 1) == GANTRY_E_LENGTH);
    /* A session with one direction. */
    static const unsigned char key[16];
    gantry_params params = params_of("aes-128-gcm", key, 16);
    params.direction = GANTRY_ONLY_DECRYPT;
    gantry_session *opens;
    must(gantry_session_open(devices, &params, &opens) == GANTRY_OK);
    must(gantry_run(opens, &good, 1) == GANTRY_E_OPERATION);
    gantry_session_close(opens);
}

static void many(void)
{
    unsigned char digests[4][32];
    gantry_message messages[4];
    for (int i = 0; i < 4; i++) {
        messages[i].data = "abc";
        messages[i].len = 3;
        messages[i].out = digests[i];
    }
    must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_OK);
    must(gantry_digest_many(sha256, messages, 4, 31) == GANTRY_E_LENGTH);
    must(said("sha256: an output buffer of 31 bytes for a result of 32"));
    must(gantry_digest_many(sha256, NULL, 4, 32) == GANTRY_E_ARGUMENT);
    must(gantry_digest_many(sha256, messages, (size_t)-1 / 24, 32) == GANTRY_E_ARGUMENT);
    must(gantry_digest_many(gcm, messages, 4, 16) == GANTRY_E_OPERATION);
    messages[2].out = digests[1] + 1; must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_E_OVERLAP);
    messages[2].out = NULL; must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_E_ARGUMENT);
    messages[2].out = digests[2]; messages[3].data = digests[2] + 31;
    must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_E_OVERLAP);
    messages[3].data = NULL; must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_E_ARGUMENT);
    messages[3].len = 0; must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_OK);
    messages[3].out = messages; must(gantry_digest_many(sha256, messages, 4, 32) == GANTRY_E_OVERLAP);
}

static int column_of(const void *offsets, uint32_t bits, size_t count, size_t values_len)
{
    unsigned char digests[4 * 32];
    gantry_column column;
    memset(&column, 0, sizeof column);
    column.size = sizeof column;
    column.count = count;
    column.values = "abcdef";
    column.values_len = values_len;
    column.offsets = offsets;
    column.offset_bits = bits;
    return gantry_digest_column(sha256, &column, digests, count < 5 ? count * 32 : 0);
}

static void columns(void)
{
    static const int32_t good[] = {0, 2, 4, 6}, backwards[] = {0, 4, 2, 6}, negative[] = {-1, 2, 4, 6};
    static const int64_t wide[] = {0, 2, 4, 6}, huge[] = {0, 2, 4, INT64_MAX};
    must(column_of(good, 32, 3, 6) == GANTRY_OK && column_of(wide, 64, 3, 6) == GANTRY_OK);
    must(column_of(backwards, 32, 3, 6) == GANTRY_E_LENGTH && column_of(negative, 32, 3, 6) == GANTRY_E_LENGTH);
    must(column_of(backwards, 32, 3, 6) == GANTRY_E_LENGTH && said("value 1: its offsets run backwards"));
    must(column_of(good, 32, 3, 5) == GANTRY_E_LENGTH && column_of(huge, 64, 3, 6) == GANTRY_E_LENGTH);
    must(column_of(NULL, 32, 3, 6) == GANTRY_E_ARGUMENT && column_of(good, 16, 3, 6) == GANTRY_E_ARGUMENT);
    must(column_of((const char *)good + 1, 32, 2, 6) == GANTRY_E_ARGUMENT);
    must(column_of(good, 32, (size_t)-1, 6) == GANTRY_E_ARGUMENT && column_of(good, 32, (size_t)1 << 40, 6) == GANTRY_E_LENGTH);
    gantry_column column;
    memset(&column, 0, sizeof column);
    column.size = sizeof column;
    column.count = 3;
    column.values = "abcdef";
    column.values_len = 6;
    column.offsets = good;
    column.offset_bits = 32;
    unsigned char digests[3 * 32];
    must(gantry_digest_column(sha256, &column, digests, 95) == GANTRY_E_LENGTH);
    must(gantry_digest_column(sha256, &column, NULL, 96) == GANTRY_E_ARGUMENT);
    must(gantry_digest_column(gcm, &column, digests, 48) == GANTRY_E_OPERATION);
    column.validity = digests + 95;
    must(gantry_digest_column(sha256, &column, digests, 96) == GANTRY_E_OVERLAP);
    column.validity = (const uint8_t *)"";
    column.validity_offset = (size_t)-1;
    must(gantry_digest_column(sha256, &column, digests, 96) == GANTRY_E_ARGUMENT);
    column.validity = NULL;
    column.reserved = 1;
    must(gantry_digest_column(sha256, &column, digests, 96) == GANTRY_E_ARGUMENT);
    column.reserved = 0;
    /* A truncated HMAC, and a MAC that lanes do not have. */
    static const unsigned char key[16];
    gantry_params params = params_of("hmac-sha256", key, 16);
    params.tag_len = 16;
    gantry_session *session;
    must(gantry_session_open(devices, &params, &session) == GANTRY_OK);
    must(gantry_digest_column(session, &column, digests, 48) == GANTRY_E_OPERATION);
    gantry_session_close(session);
    session = session_of(devices, "aes-128-cmac", key, 16);
    must(gantry_digest_column(session, &column, digests, 48) == GANTRY_E_UNSERVED);
    gantry_session_close(session);
}

static void streams(void)
{
    gantry_stream *stream = NULL, *other = NULL;
    must(gantry_stream_open(gcm, 1, &stream) == GANTRY_E_OPERATION && !stream);
    must(gantry_stream_open(sha256, 1, NULL) == GANTRY_E_ARGUMENT);
    must(gantry_stream_open(NULL, 1, &stream) == GANTRY_E_ARGUMENT);
    must(gantry_stream_open(sha256, 0, &stream) == GANTRY_OK);
    must(gantry_stream_update(stream, NULL, 1) == GANTRY_E_ARGUMENT);
    must(gantry_stream_update(stream, data, (size_t)-1) == GANTRY_E_ARGUMENT);
    void *foreign = sha256;
    must(gantry_stream_update((gantry_stream *)foreign, data, 1) == GANTRY_E_HANDLE);
    must(gantry_stream_final(stream, NULL, 32) == GANTRY_E_ARGUMENT);
    must(gantry_stream_copy(stream, NULL) == GANTRY_E_ARGUMENT);
    gantry_session *md5 = session_of(devices, "md5", NULL, 0);
    must(gantry_stream_open(md5, 1, &other) == GANTRY_OK);
    gantry_piece pieces[] = {{stream, "abc", 3}, {other, "abc", 3}};
    must(gantry_stream_update_many(pieces, 2) == GANTRY_E_OPERATION);
    must(gantry_stream_update_many(NULL, 2) == GANTRY_E_ARGUMENT);
    /* The failed call has added nothing. */
    must(gantry_stream_update(stream, "abc", 3) == GANTRY_OK);
    must(gantry_stream_final(stream, out, 32) == GANTRY_OK && is(out, SHA256_OF_ABC));
    gantry_stream_close(stream);
    gantry_stream_close(other);
    gantry_session_close(md5);
}

static void queues(void)
{
    gantry_queue *queue = NULL;
    gantry_completion completions[4];
    int timeout;
    must(gantry_queue_open(devices, 0, &queue) == GANTRY_E_ARGUMENT);
    must(gantry_queue_open(devices, 65537, &queue) == GANTRY_E_ARGUMENT);
    must(gantry_queue_open(devices, 2, &queue) == GANTRY_OK);
    gantry_request good = seal(), wrong = good;
    wrong.in_len = 63;
    must(gantry_queue_submit(queue, gcm, &wrong, 0) == GANTRY_E_LENGTH);
    wrong = good; wrong.tag = out; must(gantry_queue_submit(queue, gcm, &wrong, 0) == GANTRY_E_OVERLAP);
    must(gantry_queue_submit(queue, NULL, &good, 0) == GANTRY_E_ARGUMENT);
    must(gantry_queue_submit(queue, gcm, NULL, 0) == GANTRY_E_ARGUMENT);
    must(gantry_queue_wait(queue, completions, 4) == 0); /* nothing was submitted */
    must(gantry_queue_arm(queue, NULL) == GANTRY_E_ARGUMENT && gantry_queue_arm(queue, &timeout) == 0 && timeout == 0);
    /* A session over other devices. */
    gantry *others = opened("");
    gantry_session *theirs = session_of(others, "sha256", NULL, 0);
    gantry_request digest = request_of(GANTRY_DIGEST, data, 64, out, 32);
    must(gantry_queue_submit(queue, theirs, &digest, 0) == GANTRY_E_ARGUMENT);
    gantry_session_close(theirs);
    gantry_close(others);
    gantry_queue_close(queue);
}

int main(void)
{
    static const unsigned char key[16];
    opening();
    devices = opened("");
    sha256 = session_of(devices, "sha256", NULL, 0);
    gcm = session_of(devices, "aes-128-gcm", key, 16);
    sessions();
    spellings();
    requests();
    many();
    columns();
    streams();
    queues();
    gantry_session_close(gcm);
    gantry_session_close(sha256);
    gantry_close(devices);
    return 0;
}
