/*
 * Sessions and operations with something wrong: no session, or a status, and nothing else.
 */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct algorithm GCM = {"aes-128-gcm", AEAD, 0, 0, RTE_CRYPTO_AEAD_AES_GCM, 16, 0, 12, 0, 16, 8, 1, 0},
	CBC = {"aes-128-cbc", CIPHER, RTE_CRYPTO_CIPHER_AES_CBC, 0, 0, 16, 0, 16, 0, 0, 0, 16, 0},
	HMAC = {"hmac-sha256", AUTH, 0, RTE_CRYPTO_AUTH_SHA256_HMAC, 0, 0, 32, 0, 0, 16, 0, 1, 0},
	CHAINED = {"cbc, hmac", CHAIN, RTE_CRYPTO_CIPHER_AES_CBC, RTE_CRYPTO_AUTH_SHA256_HMAC, 0, 16, 32, 16, 0, 16, 0, 16, 0};

static void fill(struct task *task, const struct algorithm *a, uint32_t bytes)
{
	memset(task, 0, sizeof *task);
	*task = (struct task){.algorithm = a, .length = FRONT + bytes + TAIL, .segments = 1, .cipher = FRONT,
		.cipher_length = bytes, .auth_length = FRONT + bytes};
}

/* What is done to an operation before it is enqueued; `other` is a session of another PMD. */
static void no_source(struct rte_crypto_op *op, void *other)
{
	(void)other;
	rte_pktmbuf_free(op->sym->m_src);
	op->sym->m_src = NULL;
}

static void no_session(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->session = NULL;
}

static void session_of_another(struct rte_crypto_op *op, void *other)
{
	op->sym->session = other;
}

static void asymmetric(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->type = RTE_CRYPTO_OP_TYPE_ASYMMETRIC;
}

static void of_security(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sess_type = RTE_CRYPTO_OP_SECURITY_SESSION;
}

static void no_transform(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sess_type = RTE_CRYPTO_OP_SESSIONLESS;
	op->sym->xform = NULL;
}

/* The offsets and lengths of AEADs and ciphers lie at the same place (rte_crypto_sym.h), those of MACs at another. */
#define WRONG_RANGE(name, start, bytes) \
	static void name(struct rte_crypto_op *op, void *other) \
	{ \
		(void)other; \
		op->sym->cipher.data.offset = start; \
		op->sym->cipher.data.length = bytes; \
	} \
	static void name##_of_mac(struct rte_crypto_op *op, void *other) \
	{ \
		(void)other; \
		op->sym->auth.data.offset = start; \
		op->sym->auth.data.length = bytes; \
	}

WRONG_RANGE(behind_the_end, FRONT, 4096)
WRONG_RANGE(from_far_away, 1u << 20, 64)
WRONG_RANGE(wrapping, 0xfffffff0u, 32)
WRONG_RANGE(longest, 0, 0xfffffff0u)

static void no_block(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->cipher.data.length = 65;
}

static void no_aead_digest(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->aead.digest.data = NULL;
}

static void no_digest(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->auth.digest.data = NULL;
}

static void no_aad(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->aead.aad.data = NULL;
}

static void digest_in_data(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->auth.digest.data = rte_pktmbuf_mtod_offset(op->sym->m_src, uint8_t *, FRONT + 8);
}

static void aead_digest_in_data(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->aead.digest.data = rte_pktmbuf_mtod_offset(op->sym->m_src, uint8_t *, FRONT + 8);
}

static void short_target(struct rte_crypto_op *op, void *other)
{
	(void)other;
	op->sym->m_dst = packet_of((const uint8_t[128]){0}, FRONT + 8, 1);
}

static const struct wrong {
	const char *name;
	const struct algorithm *algorithm;
	void (*make)(struct rte_crypto_op *op, void *other);
	uint8_t status;
} WRONGS[] = {
	{"no source", &GCM, no_source, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"no session", &GCM, no_session, RTE_CRYPTO_OP_STATUS_INVALID_SESSION},
	{"the session of another PMD", &GCM, session_of_another, RTE_CRYPTO_OP_STATUS_INVALID_SESSION},
	{"an asymmetric operation", &GCM, asymmetric, RTE_CRYPTO_OP_STATUS_INVALID_SESSION},
	{"an operation of rte_security", &GCM, of_security, RTE_CRYPTO_OP_STATUS_INVALID_SESSION},
	{"neither session nor transform", &GCM, no_transform, RTE_CRYPTO_OP_STATUS_INVALID_SESSION},
	{"data behind the end", &GCM, behind_the_end, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"data behind the end", &CBC, behind_the_end, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"data behind the end", &CHAINED, behind_the_end, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"data far away", &CBC, from_far_away, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"data far away", &CHAINED, from_far_away, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"an offset and a length beyond 32 bits", &GCM, wrapping, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"the longest length", &CBC, longest, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a MAC behind the end", &HMAC, behind_the_end_of_mac, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a MAC behind the end", &CHAINED, behind_the_end_of_mac, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a MAC far away", &CHAINED, from_far_away_of_mac, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a MAC beyond 32 bits", &HMAC, wrapping_of_mac, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"the longest MAC", &CHAINED, longest_of_mac, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a part of a block", &CBC, no_block, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a part of a block", &CHAINED, no_block, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"no digest", &GCM, no_aead_digest, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"no digest", &HMAC, no_digest, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"no digest", &CHAINED, no_digest, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"no associated data", &GCM, no_aad, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a digest within the data", &GCM, aead_digest_in_data, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a digest within the data", &CHAINED, digest_in_data, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a target that is too short", &GCM, short_target, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
	{"a target that is too short", &CHAINED, short_target, RTE_CRYPTO_OP_STATUS_INVALID_ARGS},
};

/* Frees what is left of an operation whose fields say nothing. */
static void discard(struct rte_crypto_op *op)
{
	rte_pktmbuf_free(op->sym->m_src);
	rte_pktmbuf_free(op->sym->m_dst);
	rte_crypto_op_free(op);
}

/* Each in a burst between two good ones, which it must not spoil. */
static void wrong_operations(void)
{
	void *other = open_session(devices[OPENSSL], &GCM, 0);
	static struct task task;
	need(other != NULL, "crypto_openssl has no session");
	for (size_t i = 0; i < RTE_DIM(WRONGS); i++) {
		const struct wrong *wrong = &WRONGS[i];
		void *session = open_session(devices[OURS], wrong->algorithm, 0);
		struct rte_crypto_op *ops[3];
		need(session != NULL, "no session");
		fill(&task, wrong->algorithm, 256);
		for (int k = 0; k < 3; k++)
			ops[k] = op_of(&task, session);
		wrong->make(ops[1], other);
		run_ops(devices[OURS], 0, ops, 3);
		need(ops[1]->status == wrong->status, "%s of %s: status %u instead of %u", wrong->name, wrong->algorithm->name,
			ops[1]->status, wrong->status);
		need(ops[0]->status == RTE_CRYPTO_OP_STATUS_SUCCESS && ops[2]->status == RTE_CRYPTO_OP_STATUS_SUCCESS,
			"%s of %s: its neighbours have failed", wrong->name, wrong->algorithm->name);
		for (int k = 0; k < 3; k++)
			discard(ops[k]);
		rte_cryptodev_sym_session_free(devices[OURS], session);
	}
	rte_cryptodev_sym_session_free(devices[OPENSSL], other);
}

/* A session that has ended, and whose object nobody has yet. */
static void ended_session(void)
{
	static struct task task;
	void *session = open_session(devices[OURS], &GCM, 0);
	fill(&task, &GCM, 256);
	struct rte_crypto_op *op = op_of(&task, session);
	need(rte_cryptodev_enqueue_burst(devices[OURS], 0, &op, 1) == 1, "enqueue");
	rte_cryptodev_sym_session_free(devices[OURS], session);
	need(rte_cryptodev_dequeue_burst(devices[OURS], 0, &op, 1) == 1, "dequeue");
	need(op->status == RTE_CRYPTO_OP_STATUS_INVALID_SESSION, "a session that has ended: status %u", op->status);
	discard(op);
}

/* Random offsets, lengths and mbufs. Nothing outside of a packet changes. */
static void random_operations(void)
{
	static const struct algorithm *const ALL[] = {&GCM, &CBC, &HMAC, &CHAINED};
	static struct task task;
	void *sessions[RTE_DIM(ALL)][2];
	unsigned int good = 0, bad = 0;
	for (size_t k = 0; k < RTE_DIM(ALL); k++)
		for (int backward = 0; backward < 2; backward++)
			sessions[k][backward] = open_session(devices[OURS], ALL[k], backward);
	for (int round = 0; round < 4000; round++) {
		struct rte_crypto_op *ops[8];
		for (size_t i = 0; i < RTE_DIM(ops); i++) {
			const size_t k = random_below(RTE_DIM(ALL));
			fill(&task, ALL[k], 16 * random_below(20));
			task.segments = 1 + random_below(3);
			task.target_segments = random_below(3);
			ops[i] = op_of(&task, sessions[k][random_below(2)]);
			uint32_t *fields[] = {&ops[i]->sym->cipher.data.offset, &ops[i]->sym->cipher.data.length,
				&ops[i]->sym->auth.data.offset, &ops[i]->sym->auth.data.length};
			/* Those of MACs are pointers of AEADs. */
			uint32_t *field = fields[random_below(ALL[k]->kind == AEAD ? 2 : 4)];
			*field = random_below(4) ? random_below(500) : random_below(UINT32_MAX);
			for (struct rte_mbuf *mbuf = ops[i]->sym->m_src; mbuf; mbuf = mbuf->next)
				memset((uint8_t *)mbuf->buf_addr + mbuf->data_off + mbuf->data_len, 0x77, 32);
		}
		run_ops(devices[OURS], 0, ops, RTE_DIM(ops));
		for (size_t i = 0; i < RTE_DIM(ops); i++) {
			need(ops[i]->status != RTE_CRYPTO_OP_STATUS_NOT_PROCESSED, "an operation without a status");
			*(ops[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS ? &good : &bad) += 1;
			for (struct rte_mbuf *mbuf = ops[i]->sym->m_src; mbuf; mbuf = mbuf->next)
				for (int byte = 0; byte < 32; byte++)
					need(*((uint8_t *)mbuf->buf_addr + mbuf->data_off + mbuf->data_len + byte) == 0x77,
						"something was written behind a packet");
			discard(ops[i]);
		}
	}
	need(good > 1000 && bad > 1000, "%u good and %u bad operations are no mixture", good, bad);
	for (size_t k = 0; k < RTE_DIM(ALL); k++)
		for (int backward = 0; backward < 2; backward++)
			rte_cryptodev_sym_session_free(devices[OURS], sessions[k][backward]);
}

static void wrong_sessions(void)
{
	struct algorithm wrong[] = {GCM, GCM, GCM, CBC, CBC, CBC, HMAC, HMAC, CHAINED};
	wrong[0].key = 17;
	wrong[1].tag = 3;
	wrong[2].iv = 0;
	wrong[3].iv = 12;
	wrong[4].key = 0;
	wrong[5].cipher = RTE_CRYPTO_CIPHER_KASUMI_F8;
	wrong[6].tag = 33;
	wrong[7].auth = RTE_CRYPTO_AUTH_ZUC_EIA3;
	wrong[8].tag = 0;
	for (size_t i = 0; i < RTE_DIM(wrong); i++)
		need(!open_session(devices[OURS], &wrong[i], 0), "wrong session %zu (%s) is one", i, wrong[i].name);
	struct rte_crypto_sym_xform one[2], other[2];
	transforms(&CBC, 0, one);
	transforms(&CBC, 0, other);
	one[0].next = &other[0];
	need(!rte_cryptodev_sym_session_create(devices[OURS], one, session_pool), "two ciphers are a session");
	transforms(&CHAINED, 0, one);
	one[1].next = &other[0];
	need(!rte_cryptodev_sym_session_create(devices[OURS], one, session_pool), "three transforms are a session");
	transforms(&GCM, 0, one);
	one[0].next = &other[0];
	need(!rte_cryptodev_sym_session_create(devices[OURS], one, session_pool), "an AEAD and a cipher are a session");
}

/* Operations that bring their transforms. */
static void sessionless(void)
{
	static const struct algorithm *const ALL[] = {&GCM, &CBC, &HMAC, &CHAINED};
	for (size_t k = 0; k < RTE_DIM(ALL); k++) {
		static struct task with, without;
		struct task *one = &with;
		struct rte_crypto_sym_xform made[2];
		uint8_t status;
		void *session = open_session(devices[OURS], ALL[k], 0);
		fill(&with, ALL[k], 256);
		without = with;
		without.segments = k % 2 ? 3 : 1;
		run_tasks(devices[OURS], 0, &session, &one, 1, &status);
		rte_cryptodev_sym_session_free(devices[OURS], session);
		struct rte_crypto_op *op = op_of(&without, NULL);
		op->sess_type = RTE_CRYPTO_OP_SESSIONLESS;
		op->sym->xform = transforms(ALL[k], 0, made);
		run_ops(devices[OURS], 0, &op, 1);
		need(op->status == RTE_CRYPTO_OP_STATUS_SUCCESS, "%s without a session: status %u", ALL[k]->name, op->status);
		free_op(op, &without);
		need(memcmp(with.packet, without.packet, with.length) == 0 && memcmp(with.tag, without.tag, ALL[k]->tag) == 0,
			"%s without a session has another result", ALL[k]->name);
	}
}

int hostile(void)
{
	need(devices[OPENSSL] >= 0, "crypto_openssl is not there");
	wrong_sessions();
	wrong_operations();
	ended_session();
	random_operations();
	sessionless();
	printf("%zu kinds of wrong operations\n", RTE_DIM(WRONGS));
	return 0;
}
