/* Gantry for C and C++: digests, MACs, ciphers and AEADs. Each request runs on the engine of the machine that serves it best.
 *
 *     cc program.c $(pkg-config --cflags --libs gantry)
 *
 * Rules for all functions:
 *
 * - A function that returns int returns GANTRY_OK, a count, or a negative error. gantry_strerror describes errors,
 *   and gantry_last_error the last one of the thread.
 * - Lengths are in bytes. A pointer may be NULL if its length is 0.
 * - The caller owns all buffers. The library keeps no pointer after a call, except in gantry_queue_submit.
 * - Buffers that are written must not overlap others. `out` may equal `in` where a comment says so.
 * - A struct that begins with `size` is zeroed first, and `size` set to its sizeof. A newer program works with an older library as long
 *   as it leaves fields zero that the library does not know.
 * - Several threads may use a gantry or gantry_session at the same time. A gantry_stream or gantry_queue takes one thread at a time;
 *   a second one gets GANTRY_E_BUSY.
 * - A handle must not be used after it was closed. Closing NULL does nothing. Handles may be closed in any order.
 * - The library starts no thread, handles no signal and writes to no standard stream. A call needs 128 KiB of stack.
 * - After fork, the child continues with the handles of its parent. Queues stay with the parent.
 */
#ifndef GANTRY_H
#define GANTRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors of calls. The call has done nothing, unless a comment says otherwise. */
#define GANTRY_OK 0
#define GANTRY_E_ARGUMENT (-1)      /* a pointer is NULL or not aligned, a length is too large, a reserved field is not 0 */
#define GANTRY_E_VERSION (-2)       /* a struct has the size of another version, or uses fields that this library does not know */
#define GANTRY_E_HANDLE (-3)        /* not a handle of this type, or already closed */
#define GANTRY_E_OVERLAP (-4)       /* a buffer that is written overlaps another one */
#define GANTRY_E_CONFIGURATION (-5) /* the configuration is invalid */
#define GANTRY_E_ALGORITHM (-6)     /* no digest, MAC, cipher or AEAD has this name */
#define GANTRY_E_KEY (-7)           /* the algorithm does not accept this key */
#define GANTRY_E_LENGTH (-8)        /* an IV, tag or output has a length that the session does not accept */
#define GANTRY_E_OPERATION (-9)     /* the session has no such operation */
#define GANTRY_E_UNSERVED (-10)     /* no device serves the request */
#define GANTRY_E_DEVICE (-11)       /* every device that could serve the request failed */
#define GANTRY_E_FULL (-12)         /* the queue is full: take completions first */
#define GANTRY_E_BUSY (-13)         /* another thread is using the handle, or the call names it twice */
#define GANTRY_E_MEMORY (-14)       /* not enough memory for the requests */
#define GANTRY_E_SYSTEM (-15)       /* the process has no file descriptors left */
#define GANTRY_E_FORKED (-16)       /* the queue belongs to the parent of this process */
#define GANTRY_E_INTERNAL (-17)     /* a bug in the library; the handle can only be closed */

/* Results of requests: one of these, or one of the errors above. */
#define GANTRY_DONE 0       /* the output is complete */
#define GANTRY_BAD_TAG 1    /* the tag does not match; `out` holds no plaintext: it is unchanged, or zeros */
#define GANTRY_BAD_LENGTH 2 /* the algorithm does not accept data of this length; `out` is unchanged */
#define GANTRY_NOT_RUN 3    /* the call returned an error before this request ran */

/* Operations of requests, by the kind of the session's algorithm. */
#define GANTRY_DIGEST 0u  /* digests: `in` to `out` */
#define GANTRY_MAC 1u     /* MACs: `in` to `out`; with `iv` if the algorithm takes one (GMAC) */
#define GANTRY_ENCRYPT 2u /* ciphers: `in` to `out`, of the same length, with `iv` */
#define GANTRY_DECRYPT 3u /* ciphers: the reverse */
#define GANTRY_SEAL 4u    /* AEADs: `in` to `out`, of the same length, and to `tag`, with `iv` (the nonce) and `aad` */
#define GANTRY_OPEN 5u    /* AEADs: the reverse; `tag` is read */

/* Directions of sessions: a device may prepare less for a session with one direction. */
#define GANTRY_BOTH 0u
#define GANTRY_ONLY_ENCRYPT 1u /* encrypt and seal */
#define GANTRY_ONLY_DECRYPT 2u /* decrypt and open */

/* Flags of sessions. */
#define GANTRY_ANY_NONCE 1u /* AES-GCM: nonces of 1 to 65,536 bytes; without it, of 12 */

/* The devices of the machine, and the policy for routing requests. */
typedef struct gantry gantry;
/* An algorithm with its keys. */
typedef struct gantry_session gantry_session;
/* A digest or MAC of a message that arrives in chunks. */
typedef struct gantry_stream gantry_stream;
/* Requests in flight. */
typedef struct gantry_queue gantry_queue;

/* The parameters of a session. */
typedef struct gantry_params {
    size_t size;
    /* A name listed by `gantry algorithms`: "sha256", "hmac-sha256", "aes-128-cbc", "aes-256-gcm". Case, '-', '_', '/' and spaces make no
     * difference. */
    const char *algorithm;
    const void *key;
    size_t key_len;      /* 0 for digests; both halves for XTS */
    const void *mac_key; /* for algorithms that encrypt and then authenticate ("aes-128-cbc-hmac-sha256") */
    size_t mac_key_len;
    size_t tag_len; /* of the digest, MAC or tag; 0: the algorithm's default, mostly the longest */
    uint32_t direction;
    uint32_t flags; /* 0, or GANTRY_ANY_NONCE */
} gantry_params;

/* One request. `out` may equal `in` for encryption and decryption. Fields that the operation does not use are 0. All elements of an
 * array have the same `size`. */
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

/* A message, and the buffer for its digest or MAC. */
typedef struct gantry_message {
    const void *data;
    size_t len;
    void *out;
} gantry_message;

/* The next chunk of a stream's message. */
typedef struct gantry_piece {
    gantry_stream *stream;
    const void *data;
    size_t len;
} gantry_piece;

/* A column of strings or byte strings, as in Arrow's variable-size binary arrays: value i is `values` from offset i to offset i + 1. */
typedef struct gantry_column {
    size_t size;
    size_t count; /* values, including missing ones */
    const void *values;
    size_t values_len;
    const void *offsets;    /* count + 1 signed integers, which do not decrease */
    const uint8_t *validity; /* bit validity_offset + i, least significant first, is 1 if value i is present; NULL: all are */
    size_t validity_offset;
    uint32_t offset_bits; /* of each offset: 32 or 64 */
    uint32_t reserved;    /* 0 */
} gantry_column;

/* A request that a queue has finished. */
typedef struct gantry_completion {
    uint64_t user; /* the value passed to gantry_queue_submit */
    int32_t result;
    uint32_t reserved;
} gantry_completion;

/* The version of the library, such as "0.1.0". */
const char *gantry_version(void);

/* A short description of an error or of a request's result; never NULL. */
const char *gantry_strerror(int error);

/* The last error of a call of this thread, with names and lengths: "aes-128-gcm: a key of 15 bytes; it takes 16". Never NULL, and valid
 * until the thread's next call that fails. */
const char *gantry_last_error(void);

/* Finds the devices. `configuration` is the text of a gantry.toml (gantry.toml(5)), which then replaces all other sources. With NULL, the
 * configuration comes from the machine's files and variables; in a program with more rights than its caller (set-user-ID, file
 * capabilities), from /etc/gantry/gantry.toml only. `message` receives the problem with the configuration, at most `message_len`
 * bytes including the terminating 0; it may be NULL.
 *
 * GANTRY_E_CONFIGURATION. */
int gantry_open(const char *configuration, gantry **out, char *message, size_t message_len);

/* Sessions, streams and queues made from the handle remain usable. */
void gantry_close(gantry *handle);

/* Copies the key. GANTRY_E_ALGORITHM, GANTRY_E_KEY, GANTRY_E_LENGTH (tag_len). */
int gantry_session_open(gantry *handle, const gantry_params *params, gantry_session **out);

/* The key is zeroized once the last stream and request of the session have ended. */
void gantry_session_close(gantry_session *session);

/* Bytes of the session's digests, MACs or tags; 0 for ciphers, and if it is not a session. */
size_t gantry_session_tag_len(const gantry_session *session);

/* Runs `count` requests on the calling thread, in unspecified order, and writes the result of each. Requests may share input bytes.
 *
 * An invalid call runs no request. If one request is invalid, its result is the error, and the others' is GANTRY_NOT_RUN.
 * GANTRY_E_UNSERVED and GANTRY_E_DEVICE: some requests have this error as their result; the others have run. */
int gantry_run(gantry_session *session, gantry_request *requests, size_t count);

/* Writes the digest or MAC of each message to its `out`, of `out_len` bytes, which is gantry_session_tag_len. After GANTRY_E_UNSERVED and
 * GANTRY_E_DEVICE the contents of the outputs are unspecified. */
int gantry_digest_many(gantry_session *session, const gantry_message *messages, size_t count, size_t out_len);

/* Writes the digests or HMACs of a column's values one after the other; missing values give zeros. `out_len` is count times
 * gantry_session_tag_len. The CPU computes them, whatever the policy.
 *
 * GANTRY_E_LENGTH: offsets decrease or exceed the values. GANTRY_E_OPERATION: not a digest or an HMAC of full length.
 * GANTRY_E_UNSERVED: columns of this algorithm are not supported. */
int gantry_digest_column(gantry_session *session, const gantry_column *column, void *out, size_t out_len);

/* Begins a digest or MAC of a message that arrives in chunks. `side_by_side` is the number of streams that the caller feeds together. */
int gantry_stream_open(gantry_session *session, size_t side_by_side, gantry_stream **out);

void gantry_stream_close(gantry_stream *stream);

/* Makes a second stream in the same state. */
int gantry_stream_copy(gantry_stream *stream, gantry_stream **out);

/* Adds a chunk. After an error other than GANTRY_E_ARGUMENT and GANTRY_E_BUSY, the stream can only be closed. */
int gantry_stream_update(gantry_stream *stream, const void *data, size_t len);

/* Adds chunks to many streams of one session; each stream occurs once. */
int gantry_stream_update_many(const gantry_piece *pieces, size_t count);

/* Writes the digest or MAC, of gantry_session_tag_len bytes, and begins the next message. */
int gantry_stream_final(gantry_stream *stream, void *out, size_t out_len);

/* Compares two tags of equal length. Returns 1 or 0, in a time that depends on the length only; 0 if one of them is NULL. */
int gantry_tags_equal(const void *one, const void *other, size_t len);

/* Opens a queue for `depth` requests in flight, 1 to 65536. */
int gantry_queue_open(gantry *handle, size_t depth, gantry_queue **out);

/* Waits for the requests in flight, and discards their completions. */
void gantry_queue_close(gantry_queue *queue);

/* Submits a request, which may go to a device at once. The struct is not kept. `in`, `out` and the `tag` of GANTRY_SEAL belong to the
 * library until the completion is returned, and to one request at a time. The completion returns `user`.
 *
 * GANTRY_E_FULL, and the errors of gantry_run. */
int gantry_queue_submit(gantry_queue *queue, gantry_session *session, const gantry_request *request, uint64_t user);

/* Writes up to `room` completions, without waiting, and returns their number. A request may wait some microseconds for others to share a
 * batch with; waiting requests proceed only while one of these functions is called. */
int gantry_queue_complete(gantry_queue *queue, gantry_completion *completions, size_t room);

/* As gantry_queue_complete, but waits for the first completion. Returns 0 if nothing is in flight. */
int gantry_queue_wait(gantry_queue *queue, gantry_completion *completions, size_t room);

/* A descriptor for poll(2) and epoll(7). After gantry_queue_arm it becomes readable when there is something to complete. The queue
 * closes it. */
int gantry_queue_descriptor(gantry_queue *queue);

/* Prepares a wait. After 1: wait until the descriptor is readable, at most `timeout_ms` milliseconds (-1: no limit), then call
 * gantry_queue_complete. After 0: call gantry_queue_complete at once, because a request is done or a device has to be polled. */
int gantry_queue_arm(gantry_queue *queue, int *timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
