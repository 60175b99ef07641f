/* Gantry for C and C++: digests, MACs, ciphers and AEADs on the engine of the machine that serves each request best.
 *
 *     cc program.c $(pkg-config --cflags --libs gantry)
 *
 * Rules that hold for every function:
 *
 * - A function that returns int returns GANTRY_OK or a count, or a negative error, of which gantry_strerror tells the meaning.
 * - Lengths are in bytes. A pointer may be NULL where its length is 0.
 * - Every buffer is the caller's. The library keeps no pointer beyond a call, but for gantry_queue_submit.
 * - Buffers that are written may not overlap others, except that `out` may be equal to `in` where a comment says so.
 * - A struct that begins with `size` is set to zeros, and `size` to its sizeof. A newer program works with an older library as long as it
 *   leaves fields at zero that the library does not know.
 * - Handles of the types gantry and gantry_session may be used by many threads at a time. Those of gantry_stream and gantry_queue
 *   are of one thread at a time; a second one gets GANTRY_E_BUSY.
 * - A handle may not be used after it was closed. Closing NULL does nothing. Handles may be closed in any order.
 * - The library starts no thread, handles no signal and writes to no standard stream. A call needs 128 KiB of stack.
 * - After fork the child goes on with the handles of its parent, except with queues, which stay with the parent.
 */
#ifndef GANTRY_H
#define GANTRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors of calls. Nothing was done, unless a comment says more. */
#define GANTRY_OK 0
#define GANTRY_E_ARGUMENT (-1)      /* a pointer is NULL or not aligned, a length is absurd, a reserved field is not 0 */
#define GANTRY_E_VERSION (-2)       /* a struct has the size of another version, or uses fields that this library does not know */
#define GANTRY_E_HANDLE (-3)        /* not a handle of this type, or one that was closed */
#define GANTRY_E_OVERLAP (-4)       /* a buffer that is written overlaps another one */
#define GANTRY_E_CONFIGURATION (-5) /* the configuration is wrong */
#define GANTRY_E_ALGORITHM (-6)     /* no digest, MAC, cipher or AEAD has this name */
#define GANTRY_E_KEY (-7)           /* a key that the algorithm does not take */
#define GANTRY_E_LENGTH (-8)        /* an IV, tag or output has a length that the session does not have */
#define GANTRY_E_OPERATION (-9)     /* the session has no such operation */
#define GANTRY_E_UNSERVED (-10)     /* no device serves the request */
#define GANTRY_E_DEVICE (-11)       /* every device that could serve the request failed */
#define GANTRY_E_FULL (-12)         /* the queue is full: take completions first */
#define GANTRY_E_BUSY (-13)         /* another thread is using the handle, or a call names it twice */
#define GANTRY_E_MEMORY (-14)       /* there is no memory for the requests of the call */
#define GANTRY_E_SYSTEM (-15)       /* the process has no file descriptor left */
#define GANTRY_E_FORKED (-16)       /* the queue belongs to the parent of this process */
#define GANTRY_E_INTERNAL (-17)     /* a defect of the library; the handle can only be closed */

/* Results of requests: one of these, or a negative error of those above. */
#define GANTRY_DONE 0       /* the output is complete */
#define GANTRY_BAD_TAG 1    /* the tag is not that of the data; `out` holds no plaintext: it is as it was, or zeros */
#define GANTRY_BAD_LENGTH 2 /* the algorithm has no data of this length; `out` is as it was */
#define GANTRY_NOT_RUN 3    /* the call returned an error before this request was run */

/* Operations of requests, by the kind of the session's algorithm. */
#define GANTRY_DIGEST 0u  /* digests: `in` to `out` */
#define GANTRY_MAC 1u     /* MACs: `in` to `out`; with an `iv` where the algorithm takes one (GMAC) */
#define GANTRY_ENCRYPT 2u /* ciphers: `in` to `out`, of the same length, with `iv` */
#define GANTRY_DECRYPT 3u /* ciphers: the other way */
#define GANTRY_SEAL 4u    /* AEADs: `in` to `out`, of the same length, and to `tag`, with `iv` (the nonce) and `aad` */
#define GANTRY_OPEN 5u    /* AEADs: the other way; `tag` is read */

/* Directions of sessions: devices may prepare less for one that goes one way. */
#define GANTRY_BOTH 0u
#define GANTRY_ONLY_ENCRYPT 1u /* encrypt and seal */
#define GANTRY_ONLY_DECRYPT 2u /* decrypt and open */

/* The devices of the machine, and the policy over them. */
typedef struct gantry gantry;
/* An algorithm with its keys. */
typedef struct gantry_session gantry_session;
/* A digest or MAC of a message that arrives in pieces. */
typedef struct gantry_stream gantry_stream;
/* Requests in flight. */
typedef struct gantry_queue gantry_queue;

/* What a session is made from. */
typedef struct gantry_params {
    size_t size;
    const char *algorithm; /* as `gantry algorithms` lists them: "sha256", "hmac-sha256", "aes-128-cbc", "aes-256-gcm" */
    const void *key;
    size_t key_len;      /* 0 for digests; both halves of XTS */
    const void *mac_key; /* of algorithms that encrypt and then authenticate ("aes-128-cbc-hmac-sha256") */
    size_t mac_key_len;
    size_t tag_len; /* of the digest, MAC or tag; 0 is the algorithm's own, mostly the longest */
    uint32_t direction;
    uint32_t reserved; /* 0 */
} gantry_params;

/* One request. `out` may be equal to `in` where data are encrypted or decrypted. Fields that the operation does not name are 0. The elements
 * of an array have the same `size`. */
typedef struct gantry_request {
    size_t size;
    uint32_t operation;
    int32_t result; /* written by gantry_run */
    const void *iv;
    size_t iv_len;
    const void *aad;
    size_t aad_len;
    const void *in;
    size_t in_len;
    void *out;
    size_t out_len; /* exactly the length of the result */
    void *tag;      /* GANTRY_SEAL writes it, GANTRY_OPEN reads it */
    size_t tag_len;
} gantry_request;

/* A message, and where its digest or MAC goes. */
typedef struct gantry_message {
    const void *data;
    size_t len;
    void *out;
} gantry_message;

/* The next piece of a stream's message. */
typedef struct gantry_piece {
    gantry_stream *stream;
    const void *data;
    size_t len;
} gantry_piece;

/* A column of strings or byte strings, as Arrow's variable-size binary arrays: value i lies in `values` from offset i to offset i + 1. */
typedef struct gantry_column {
    size_t size;
    size_t count; /* values, with those that are missing */
    const void *values;
    size_t values_len;
    const void *offsets;    /* count + 1 signed numbers, which do not decrease */
    const uint8_t *validity; /* bit validity_offset + i, the lowest of a byte first, is 1 if value i is there; NULL: all are */
    size_t validity_offset;
    uint32_t offset_bits; /* of each offset: 32 or 64 */
    uint32_t reserved;    /* 0 */
} gantry_column;

/* A request that a queue has finished. */
typedef struct gantry_completion {
    uint64_t user; /* as it was submitted */
    int32_t result;
    uint32_t reserved;
} gantry_completion;

/* The version of the library, as "0.1.0". */
const char *gantry_version(void);

/* What an error means, in a few words; never NULL. */
const char *gantry_strerror(int error);

/* Finds the devices. `configuration` is the text of a gantry.toml (gantry.toml(5)), which alone counts; NULL is what the files and
 * variables of the machine say; in a program with more rights than its caller (set-user-ID, file capabilities), /etc/gantry/gantry.toml alone.
 * `message` gets what is wrong with the configuration, of which `message_len` bytes with the 0 at its end;
 * it may be NULL.
 *
 * GANTRY_E_CONFIGURATION. */
int gantry_open(const char *configuration, gantry **out, char *message, size_t message_len);

/* Sessions, streams and queues that were made from it go on. */
void gantry_close(gantry *handle);

/* GANTRY_E_ALGORITHM, GANTRY_E_KEY, GANTRY_E_LENGTH (tag_len). The key is copied. */
int gantry_session_open(gantry *handle, const gantry_params *params, gantry_session **out);

/* Keys are zeroized, when the last stream or request of the session has ended, too. */
void gantry_session_close(gantry_session *session);

/* Bytes of a digest, MAC or tag of the session; 0 of a cipher, and of what is not a session. */
size_t gantry_session_tag_len(const gantry_session *session);

/* Runs `count` requests on the calling thread, in no certain order, and writes the result of each. Requests may read the same bytes.
 *
 * A call that is wrong runs none of them. Where the mistake lies in one request, its result is the error and that of the others
 * GANTRY_NOT_RUN. GANTRY_E_UNSERVED and GANTRY_E_DEVICE: some requests have this error as their result, and the others have run. */
int gantry_run(gantry_session *session, gantry_request *requests, size_t count);

/* Writes the digest or MAC of each message to its `out`, which has `out_len` bytes: gantry_session_tag_len. After GANTRY_E_UNSERVED and
 * GANTRY_E_DEVICE the outputs say nothing. */
int gantry_digest_many(gantry_session *session, const gantry_message *messages, size_t count, size_t out_len);

/* Writes the digest of each value of a column, or its HMAC, one behind the other; those of missing values are zeros. `out_len` is count
 * times gantry_session_tag_len. They are computed by the CPU, whatever the policy.
 *
 * GANTRY_E_LENGTH: offsets run backwards or beyond the values. GANTRY_E_OPERATION: not a digest or HMAC in full length.
 * GANTRY_E_UNSERVED: there are no columns of this algorithm. */
int gantry_digest_column(gantry_session *session, const gantry_column *column, void *out, size_t out_len);

/* A message of a digest or MAC that arrives in pieces. `side_by_side` is how many streams the caller means to feed at a time. */
int gantry_stream_open(gantry_session *session, size_t side_by_side, gantry_stream **out);

void gantry_stream_close(gantry_stream *stream);

/* A second stream that stands where the first one does. */
int gantry_stream_copy(gantry_stream *stream, gantry_stream **out);

/* Takes the next piece. After an error other than GANTRY_E_ARGUMENT and GANTRY_E_BUSY the stream can only be closed. */
int gantry_stream_update(gantry_stream *stream, const void *data, size_t len);

/* The same for many streams of one session, each named once. */
int gantry_stream_update_many(const gantry_piece *pieces, size_t count);

/* Writes the digest or MAC, of gantry_session_tag_len bytes, and begins the next message. */
int gantry_stream_final(gantry_stream *stream, void *out, size_t out_len);

/* Whether two tags of one length are equal, 1 or 0, in a time that depends on nothing but the length. 0 if one of them is NULL. */
int gantry_tags_equal(const void *one, const void *other, size_t len);

/* A queue for `depth` requests in flight, 1 to 65536. */
int gantry_queue_open(gantry *handle, size_t depth, gantry_queue **out);

/* Waits for the requests in flight, whose completions nobody gets. */
void gantry_queue_close(gantry_queue *queue);

/* Takes a request, which may go to a device at once. The struct is not kept, but `in`, `out` and the `tag` of GANTRY_SEAL belong to the
 * library until the completion is there, and to one request at a time. `user` comes back with the completion.
 *
 * GANTRY_E_FULL, and the errors of gantry_run. */
int gantry_queue_submit(gantry_queue *queue, gantry_session *session, const gantry_request *request, uint64_t user);

/* Writes up to `room` completions and returns how many. Does not wait. Requests wait for others to go with for some microseconds, and go
 * nowhere until one of these functions is called. */
int gantry_queue_complete(gantry_queue *queue, gantry_completion *completions, size_t room);

/* The same, and waits for the first completion. 0 if nothing is in flight. */
int gantry_queue_wait(gantry_queue *queue, gantry_completion *completions, size_t room);

/* A descriptor for poll(2) and epoll(7), which becomes readable when there is something to complete, after gantry_queue_arm. The queue
 * closes it. */
int gantry_queue_descriptor(gantry_queue *queue);

/* To be called before each wait. 1: wait until the descriptor is readable, at most `timeout_ms` milliseconds (-1: without end), and then
 * call gantry_queue_complete. 0: do not wait, but call it now, because something is there or a device has to be polled. */
int gantry_queue_arm(gantry_queue *queue, int *timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
