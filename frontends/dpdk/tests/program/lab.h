/*
 * The program that tests crypto_gantry in DPDK, with other PMDs as its counterparts:
 *
 *     program PMD operations|hostile|lcores
 *
 * | file | content |
 * |---|---|
 * | lab.c | EAL, devices, packets; operations from tasks |
 * | algorithms.c | what is tested |
 * | operations.c | results, layouts and bad tags, beside the counterparts and known answers |
 * | hostile.c | sessions and operations with something wrong |
 * | lcores.c | several lcores and queue pairs, sessions that come and go |
 */
#ifndef LAB_H
#define LAB_H

#define ALLOW_EXPERIMENTAL_API
#include <rte_cryptodev.h>
#include <rte_mbuf.h>
#include <stdint.h>

/* A packet: a header, room for an IV, data, and room for a tag. */
#define HEADER 8
#define FRONT (HEADER + 16)
#define TAIL 64
#define MOST_DATA 3200
#define MOST_PACKET (FRONT + MOST_DATA + TAIL)
#define MOST_AAD 48
#define BURST 64

/* What lies behind an operation. CCM has its nonce one byte and its associated data 18 bytes later (rte_crypto_sym.h). */
struct side {
	uint8_t iv[32], auth_iv[32], aad[18 + MOST_AAD], tag[64];
};
#define SIDE_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))

enum kind { CIPHER, AUTH, AEAD, CHAIN };

struct algorithm {
	const char *name;
	enum kind kind;
	int cipher, auth, aead; /* of DPDK */
	uint16_t key, auth_key, iv, auth_iv, tag, aad;
	uint16_t block;
	int mac_first; /* of CHAIN: the MAC is of the plaintext */
};
extern const struct algorithm ALGORITHMS[];
extern const unsigned int ALGORITHM_COUNT;

/* One operation. */
struct task {
	const struct algorithm *algorithm;
	int backward; /* decrypt, verify */
	uint32_t cipher, cipher_length, auth, auth_length;
	uint8_t iv[16];
	uint8_t tag[64];             /* that came, or that was made */
	int tag_inside;              /* it lies at the end of the packet */
	uint8_t packet[MOST_PACKET]; /* before, and of the target afterwards */
	uint32_t length;
	int segments, target_segments; /* without target segments in place */
};

enum device { OURS, OPENSSL, AESNI, DEVICES };
extern int devices[DEVICES]; /* ids, or -1 */
extern struct rte_mempool *op_pool, *mbuf_pool, *session_pool;

void need(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t random_below(uint32_t end);
/* Whether a device offers an algorithm with these lengths. */
int offers(int device, const struct algorithm *algorithm);
void *open_session(int device, const struct algorithm *algorithm, int backward);
/* The transforms of a session: `to` has two. The first of them is returned. */
struct rte_crypto_sym_xform *transforms(const struct algorithm *algorithm, int backward, struct rte_crypto_sym_xform *to);
/* A packet in so many segments of uneven lengths, the last of which has all of the tail. */
struct rte_mbuf *packet_of(const uint8_t *bytes, uint32_t length, int segments);
/* The operation of a task, and what is left of it. `free_op` also reads the results. */
struct rte_crypto_op *op_of(const struct task *task, void *session);
void free_op(struct rte_crypto_op *op, struct task *task);
/* Enqueues all, dequeues all, in order. */
void run_ops(int device, uint16_t pair, struct rte_crypto_op **ops, uint16_t count);
/* Runs tasks in one burst; their statuses. */
void run_tasks(int device, uint16_t pair, void **sessions, struct task **tasks, uint16_t count, uint8_t *statuses);

int operations(void);
int hostile(void);
int lcores(void);

#endif
