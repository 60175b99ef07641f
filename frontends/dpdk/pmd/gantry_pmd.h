/*
 * The interface between the crypto PMD of DPDK (C, in this folder) and Gantry (Rust, in ../src).
 *
 * Both are linked into one library, so that no version is asked for. `src/abi.rs` repeats these declarations. Nothing here
 * depends on the release of DPDK: algorithms have Gantry's names, and an operation is pointers and lengths.
 */
#ifndef GANTRY_PMD_H
#define GANTRY_PMD_H

#include <stddef.h>
#include <stdint.h>

/* Lengths in bytes: every `step`th from `min` to `max`. */
struct gantry_range { uint32_t min, max, step; };

struct gantry_algorithm {
	struct gantry_range key, iv, tag;
	uint32_t block;
};

/* One transform of a session. */
struct gantry_transform {
	const char *name; /* Gantry's name of the algorithm, which `gantry_pmd_served` knows */
	const uint8_t *key;
	uint32_t key_length, iv_length, tag_length;
	uint32_t backward; /* 0: encrypt, or generate; 1: decrypt, or verify */
};

struct gantry_session {
	void *keys;
	/* Both transforms are one algorithm for operations whose MAC covers associated data, the IV, and the ciphertext. */
	uint32_t joint;
};

enum gantry_status { GANTRY_DONE = 0, GANTRY_BAD_TAG = 1, GANTRY_BAD_ARGUMENTS = 2, GANTRY_ERROR = 3 };

/*
 * One operation. Its session says which fields count. `output` is `input`, or overlaps neither it nor the associated data; the
 * tag lies outside of `output`, unless it is that of the plaintext and is encrypted with it.
 */
struct gantry_op {
	const void *keys;
	const uint8_t *iv;      /* of the cipher or AEAD */
	const uint8_t *auth_iv; /* of a MAC that has one */
	const uint8_t *aad;
	const uint8_t *input;   /* of the cipher or AEAD */
	uint8_t *output;
	const uint8_t *auth;    /* what a MAC or digest covers */
	uint8_t *tag;
	uint32_t length, auth_length, aad_length;
	uint8_t joint;  /* use the joint algorithm: `aad` lies before the IV, `auth` and `auth_length` do not count */
	uint8_t status; /* written: enum gantry_status */
	uint8_t after;  /* the PMD's own */
	uint8_t spare;
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct gantry_algorithm) == 40 && sizeof(struct gantry_transform) == 32 &&
	sizeof(struct gantry_session) == 16 && sizeof(struct gantry_op) == 80, "as abi.rs has them");
#endif

/* Opens the framework of this process, once. 0, or -1 and why not as text of at most `size` bytes with its final zero. */
int gantry_pmd_open(char *why, uint32_t size);
/* 1 if a device serves the algorithm, which is then described; otherwise 0. */
int gantry_pmd_served(const char *name, struct gantry_algorithm *algorithm);
/* Keys of one or two transforms, in the order in which they are applied. 0, or -errno. Keys are copied. */
int gantry_pmd_session_new(const struct gantry_transform *transforms, uint32_t count, struct gantry_session *session);
/* Wipes and frees them. */
void gantry_pmd_session_free(void *keys);
/* Memory of one queue pair, for one thread at a time. NULL without memory. */
void *gantry_pmd_batch_new(void);
void gantry_pmd_batch_free(void *batch);
/* Runs operations, and writes the status of each. */
void gantry_pmd_run(void *batch, struct gantry_op *ops, uint32_t count);

#endif
