/*
 * What the files of the PMD share.
 *
 * | file | content |
 * |---|---|
 * | gantry_pmd.h | the interface to Gantry |
 * | driver_sdk.h | declarations of DPDK for drivers, which Debian does not install |
 * | device.c | the vdev and its driver, device operations, queue pairs |
 * | algorithms.c | DPDK's algorithms by Gantry's names, capabilities |
 * | session.c | transforms to sessions |
 * | burst.c | operations and their mbufs to Gantry's operations, and back |
 * | segments.c | data that do not lie in one piece |
 */
#ifndef PMD_H
#define PMD_H

#include "driver_sdk.h"
#include "gantry_pmd.h"

#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

/* Operations that go to Gantry at once; a longer burst is several of them. */
#define BATCH 64

extern int gantry_log;
#define LOG(level, ...) rte_log(RTE_LOG_##level, gantry_log, "crypto_gantry: " __VA_ARGS__)

/* The number that cryptodev has given to this driver. */
extern uint8_t gantry_driver;

enum kind { KIND_CIPHER = 1, KIND_AUTH, KIND_AEAD, KIND_CHAIN };

/* The private part of a session of DPDK, all zeros where there is none. */
struct pmd_session {
	void *keys;
	uint16_t iv, auth_iv; /* from the beginning of the operation */
	uint16_t aad_length;
	uint8_t aad_skip;     /* bytes before the associated data in their buffer */
	uint8_t tag_length;
	uint8_t kind;
	uint8_t joint;        /* of CHAIN */
	uint8_t cipher_first; /* of CHAIN: the MAC covers what the cipher has written */
	uint8_t of_plaintext; /* of CHAIN: the MAC is that of the plaintext, and may be encrypted with it */
};

/* Data of an operation that were copied together. */
struct gathered {
	uint8_t *memory;
	uint32_t from, length; /* in the source */
};

struct queue_pair {
	struct rte_ring *waiting;
	void *batch;
	struct rte_cryptodev_stats counts;
	/* By the place in a batch, as far as `after` of the operation says so. */
	struct pmd_session sessionless[BATCH];
	struct gathered gathered[BATCH];
};

/* algorithms.c */

/* Made by the first call, after Gantry was opened. */
const struct rte_cryptodev_capabilities *gantry_capabilities(void);
/* Gantry's name of an algorithm of DPDK with such a key; NULL if no device serves it. */
const char *gantry_name(enum rte_crypto_sym_xform_type type, int algorithm, uint32_t key_length);

/* session.c */

/* 0, or -errno. */
int gantry_session_make(const struct rte_crypto_sym_xform *transform, struct pmd_session *session);
void gantry_session_end(struct pmd_session *session);

/* burst.c */

/* Runs operations, and writes the status of each. The result is how many failed. */
uint16_t gantry_burst(struct queue_pair *pair, struct rte_crypto_op **ops, uint16_t count);

/* segments.c */

/* What an operation reads and writes, from the beginning of its mbufs. */
struct ranges { uint32_t cipher, cipher_length, auth, auth_length; };

/* Whether a packet has so many bytes there. */
int gantry_covers(const struct rte_mbuf *mbuf, uint32_t from, uint32_t length);
/* Where a pointer points to in a packet, from its beginning; UINT32_MAX if elsewhere. */
uint32_t gantry_position(const struct rte_mbuf *mbuf, const uint8_t *pointer);
/* Copies the data of an operation together and points it there. A status of DPDK. */
uint8_t gantry_gather(const struct rte_mbuf *source, const struct rte_mbuf *target, const struct ranges *ranges,
	int cipher_first, struct gathered *gathered, struct gantry_op *work);
/* Copies results to where they belong, and wipes and frees the copy. */
void gantry_scatter(struct gathered *gathered, const struct ranges *ranges, int cipher_first, struct rte_mbuf *source,
	struct rte_mbuf *target, int done);

#endif
