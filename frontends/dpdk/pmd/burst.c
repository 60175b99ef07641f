/*
 * A burst: operations of DPDK, with their mbufs, become operations of Gantry, and their results go back.
 *
 * Everything that an operation says about its mbufs is checked here. The pointers to digests, associated data and IVs are the
 * program's word.
 */
#include "pmd.h"

#include <string.h>

/* Of gantry_op.after: what is left to do behind Gantry. */
#define AFTER_GATHERED 1
#define AFTER_SESSIONLESS 2

/* The IV of the joint algorithms, in front of the ciphertext. */
#define JOINT_IV 16

static const uint8_t STATUS[] = {
	[GANTRY_DONE] = RTE_CRYPTO_OP_STATUS_SUCCESS,
	[GANTRY_BAD_TAG] = RTE_CRYPTO_OP_STATUS_AUTH_FAILED,
	[GANTRY_BAD_ARGUMENTS] = RTE_CRYPTO_OP_STATUS_INVALID_ARGS,
	[GANTRY_ERROR] = RTE_CRYPTO_OP_STATUS_ERROR,
};

/* Where a range of a packet lies, if that is in its first segment. */
static inline uint8_t *within(const struct rte_mbuf *mbuf, uint32_t from, uint32_t length)
{
	return likely((uint64_t)from + length <= mbuf->data_len) ? rte_pktmbuf_mtod_offset(mbuf, uint8_t *, from) : NULL;
}

static inline int overlap(const uint8_t *one, uint32_t length, const uint8_t *other, uint32_t other_length)
{
	return length && other_length && one < other + other_length && other < one + length;
}

static inline struct rte_mbuf *target_of(const struct rte_crypto_sym_op *sym, const struct pmd_session *session)
{
	return sym->m_dst && session->kind != KIND_AUTH ? sym->m_dst : sym->m_src;
}

static inline struct ranges ranges_of(const struct rte_crypto_sym_op *sym, const struct pmd_session *session)
{
	switch (session->kind) {
	case KIND_AEAD:
		return (struct ranges){sym->aead.data.offset, sym->aead.data.length, 0, 0};
	case KIND_CIPHER:
		return (struct ranges){sym->cipher.data.offset, sym->cipher.data.length, 0, 0};
	case KIND_AUTH:
		return (struct ranges){0, 0, sym->auth.data.offset, sym->auth.data.length};
	default:
		return (struct ranges){sym->cipher.data.offset, sym->cipher.data.length, sym->auth.data.offset,
			sym->auth.data.length};
	}
}

/* Lays the data of a chain out, if all of them lie in one piece. 0 if not. */
static inline int lay_chain(const struct pmd_session *session, const struct rte_mbuf *source, const struct rte_mbuf *target,
	const struct ranges *ranges, struct gantry_op *work)
{
	const uint32_t front = ranges->cipher > ranges->auth ? RTE_MIN(ranges->cipher - ranges->auth, ranges->auth_length) : 0;
	const uint64_t cipher_end = (uint64_t)ranges->cipher + ranges->cipher_length;
	const uint64_t auth_end = (uint64_t)ranges->auth + ranges->auth_length;
	work->auth = within(source, ranges->auth, ranges->auth_length);
	if (!work->auth)
		return 0;
	if (target != source && session->cipher_first) {
		/* The MAC is that of the target, where what is not encrypted has to be first. */
		uint8_t *to = within(target, ranges->auth, ranges->auth_length);
		if (!to || overlap(to, ranges->auth_length, work->auth, ranges->auth_length))
			return 0;
		memcpy(to, work->auth, front);
		if (auth_end > cipher_end) {
			const uint32_t back = RTE_MIN(auth_end - cipher_end, (uint64_t)ranges->auth_length);
			memcpy(to + ranges->auth_length - back, work->auth + ranges->auth_length - back, back);
		}
		work->auth = to;
	}
	/* The layout of ESP (RFC 4303): associated data, IV, ciphertext. Its IV is the one of the operation, or else the two
	 * transforms are two. */
	work->joint = session->joint && front >= JOINT_IV && auth_end == cipher_end && front == ranges->cipher - ranges->auth &&
		memcmp(work->auth + front - JOINT_IV, work->iv, JOINT_IV) == 0;
	work->aad = work->auth;
	work->aad_length = work->joint ? front - JOINT_IV : 0;
	return 1;
}

/* What is written with the tag or the associated data in it. The tag of the plaintext may lie right behind what it is of, and is
 * encrypted then (RTE_CRYPTODEV_FF_DIGEST_ENCRYPTED). The result is whether that is so; otherwise the status is an error. */
static __rte_noinline int encrypts_tag(const struct pmd_session *session, const struct rte_mbuf *source,
	const struct rte_mbuf *target, const struct ranges *ranges, const struct gantry_op *work, uint8_t *status)
{
	const uint64_t end = (uint64_t)ranges->cipher + ranges->cipher_length, behind = (uint64_t)ranges->auth + ranges->auth_length;
	const struct rte_mbuf *const packets[] = {source, target};
	int encrypted = 0;
	for (int i = 0; i < 2; i++) {
		const uint32_t at = gantry_position(packets[i], work->tag);
		if (at == UINT32_MAX || at >= end || (uint64_t)at + session->tag_length <= ranges->cipher)
			continue;
		if (session->of_plaintext && at == behind && behind >= ranges->cipher && behind + session->tag_length <= end)
			encrypted = 1;
		else if (packets[i] == target)
			*status = RTE_CRYPTO_OP_STATUS_INVALID_ARGS;
	}
	return encrypted;
}

/* One operation, with everything in it that can be wrong. A status of DPDK. */
static inline uint8_t read_op(struct queue_pair *pair, const struct pmd_session *session, struct rte_crypto_op *op,
	struct gantry_op *work, uint32_t place)
{
	const struct rte_crypto_sym_op *sym = op->sym;
	const struct rte_mbuf *source = sym->m_src, *target;
	if (unlikely(!session->keys))
		return RTE_CRYPTO_OP_STATUS_INVALID_SESSION;
	if (unlikely(!source))
		return RTE_CRYPTO_OP_STATUS_INVALID_ARGS;
	target = target_of(sym, session);
	const struct ranges ranges = ranges_of(sym, session);
	work->keys = session->keys;
	work->iv = (const uint8_t *)op + session->iv;
	work->auth_iv = (const uint8_t *)op + session->auth_iv;
	work->length = ranges.cipher_length;
	work->auth_length = ranges.auth_length;
	work->joint = 0;
	if (session->kind == KIND_AEAD) {
		work->tag = sym->aead.digest.data;
		work->aad = sym->aead.aad.data + session->aad_skip;
		work->aad_length = session->aad_length;
		if (unlikely(session->aad_length && !sym->aead.aad.data))
			return RTE_CRYPTO_OP_STATUS_INVALID_ARGS;
	} else {
		work->tag = session->kind == KIND_CIPHER ? NULL : sym->auth.digest.data;
		work->aad_length = 0;
	}
	if (unlikely(!work->tag && session->tag_length))
		return RTE_CRYPTO_OP_STATUS_INVALID_ARGS;

	int plain = 1;
	if (session->kind == KIND_CHAIN)
		plain = lay_chain(session, source, target, &ranges, work);
	else if (session->kind == KIND_AUTH)
		plain = (work->auth = within(source, ranges.auth, ranges.auth_length)) != NULL;
	if (session->kind != KIND_AUTH) {
		work->input = within(source, ranges.cipher, ranges.cipher_length);
		work->output = target == source ? (uint8_t *)(uintptr_t)work->input :
			within(target, ranges.cipher, ranges.cipher_length);
		plain = plain && work->input && work->output && (work->input == work->output ||
			!overlap(work->output, work->length, work->input, work->length));
	}
	uint8_t status = RTE_CRYPTO_OP_STATUS_SUCCESS;
	int encrypted = 0;
	if (plain && session->kind != KIND_AUTH &&
			unlikely(overlap(work->tag, session->tag_length, work->output, work->length) ||
			overlap(work->aad, work->aad_length, work->output, work->length) ||
			(session->of_plaintext && target != source))) {
		encrypted = encrypts_tag(session, source, target, &ranges, work, &status);
		if (overlap(work->aad, work->aad_length, work->output, work->length))
			status = RTE_CRYPTO_OP_STATUS_INVALID_ARGS;
		/* From one packet into another it takes a copy in which tag and data lie together. */
		plain = !encrypted || target == source;
	} else if (!plain) {
		encrypted = session->tag_length && encrypts_tag(session, source, target, &ranges, work, &status);
	}
	if (unlikely(!plain && status == RTE_CRYPTO_OP_STATUS_SUCCESS)) {
		status = gantry_gather(source, target, &ranges, session->cipher_first, &pair->gathered[place], work);
		if (status != RTE_CRYPTO_OP_STATUS_SUCCESS)
			return status;
		if (encrypted)
			work->tag = (uint8_t *)(uintptr_t)work->auth + ranges.auth_length;
		work->after |= AFTER_GATHERED;
		work->joint = 0;
	}
	return status;
}

/* The session of an operation, or NULL. */
static inline const struct pmd_session *session_of(struct queue_pair *pair, struct rte_crypto_op *op, struct gantry_op *work,
	uint32_t place)
{
	if (unlikely(op->type != RTE_CRYPTO_OP_TYPE_SYMMETRIC))
		return NULL;
	if (likely(op->sess_type == RTE_CRYPTO_OP_WITH_SESSION)) {
		const struct rte_cryptodev_sym_session *session = op->sym->session;
		return likely(session && session->driver_id == gantry_driver) ?
			(const struct pmd_session *)session->driver_priv_data : NULL;
	}
	if (op->sess_type != RTE_CRYPTO_OP_SESSIONLESS)
		return NULL;
	if (gantry_session_make(op->sym->xform, &pair->sessionless[place]) < 0)
		return NULL;
	work->after |= AFTER_SESSIONLESS;
	return &pair->sessionless[place];
}

/* What few operations need behind Gantry. */
static __rte_noinline void settle(struct queue_pair *pair, struct rte_crypto_op *op, const struct gantry_op *work, uint32_t place)
{
	if (work->after & AFTER_GATHERED) {
		const struct pmd_session *session = work->after & AFTER_SESSIONLESS ? &pair->sessionless[place] :
			(const struct pmd_session *)((struct rte_cryptodev_sym_session *)op->sym->session)->driver_priv_data;
		const struct ranges ranges = ranges_of(op->sym, session);
		gantry_scatter(&pair->gathered[place], &ranges, session->cipher_first, op->sym->m_src, target_of(op->sym, session),
			work->status == GANTRY_DONE);
	}
	if (work->after & AFTER_SESSIONLESS)
		gantry_session_end(&pair->sessionless[place]);
}

static uint16_t run(struct queue_pair *pair, struct rte_crypto_op **ops, uint32_t count)
{
	struct gantry_op work[BATCH];
	struct rte_crypto_op *taken[BATCH];
	uint32_t many = 0, failed = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct rte_crypto_op *op = ops[i];
		struct gantry_op *next = &work[many];
		next->after = 0;
		const struct pmd_session *session = session_of(pair, op, next, many);
		op->status = session ? read_op(pair, session, op, next, many) : RTE_CRYPTO_OP_STATUS_INVALID_SESSION;
		if (likely(op->status == RTE_CRYPTO_OP_STATUS_SUCCESS)) {
			taken[many++] = op;
			continue;
		}
		failed++;
		settle(pair, op, next, many);
	}
	gantry_pmd_run(pair->batch, work, many);
	for (uint32_t i = 0; i < many; i++) {
		if (unlikely(work[i].status != GANTRY_DONE)) {
			taken[i]->status = STATUS[work[i].status];
			failed++;
		}
		if (unlikely(work[i].after))
			settle(pair, taken[i], &work[i], i);
	}
	return failed;
}

uint16_t gantry_burst(struct queue_pair *pair, struct rte_crypto_op **ops, uint16_t count)
{
	uint16_t failed = 0;
	for (uint32_t done = 0; done < count; done += BATCH)
		failed += run(pair, ops + done, RTE_MIN(count - done, (uint32_t)BATCH));
	return failed;
}
