#include "lab.h"

#include <rte_bus_vdev.h>
#include <rte_eal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS 4

int devices[DEVICES];
struct rte_mempool *op_pool, *mbuf_pool, *session_pool;

static uint8_t keys[2][64];

void need(int good, const char *format, ...)
{
	va_list values;
	if (good)
		return;
	va_start(values, format);
	fflush(stdout);
	vfprintf(stderr, format, values);
	fprintf(stderr, "\n");
	exit(1);
}

/* The same numbers in each run (xorshift of Marsaglia, 2003). */
uint32_t random_below(uint32_t end)
{
	static __thread uint32_t state = 2463534242u;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % end;
}

static int has(int device, enum rte_crypto_sym_xform_type type, int algorithm, uint16_t key, uint16_t tag, uint16_t iv,
	uint16_t aad)
{
	struct rte_cryptodev_sym_capability_idx index = {.type = type};
	/* One enumeration of three in a union. */
	index.algo.cipher = algorithm;
	const struct rte_cryptodev_symmetric_capability *found =
		device < 0 ? NULL : rte_cryptodev_sym_capability_get(device, &index);
	if (!found)
		return 0;
	switch (type) {
	case RTE_CRYPTO_SYM_XFORM_CIPHER:
		return rte_cryptodev_sym_capability_check_cipher(found, key, iv) == 0;
	case RTE_CRYPTO_SYM_XFORM_AUTH:
		return rte_cryptodev_sym_capability_check_auth(found, key, tag, iv) == 0;
	default:
		return rte_cryptodev_sym_capability_check_aead(found, key, tag, aad, iv) == 0;
	}
}

int offers(int device, const struct algorithm *a)
{
	if (a->kind == AEAD)
		return has(device, RTE_CRYPTO_SYM_XFORM_AEAD, a->aead, a->key, a->tag, a->iv, a->aad);
	return (a->kind == AUTH || has(device, RTE_CRYPTO_SYM_XFORM_CIPHER, a->cipher, a->key, 0, a->iv, 0)) &&
		(a->kind == CIPHER || has(device, RTE_CRYPTO_SYM_XFORM_AUTH, a->auth, a->auth_key, a->tag, a->auth_iv, 0));
}

struct rte_crypto_sym_xform *transforms(const struct algorithm *a, int backward, struct rte_crypto_sym_xform *to)
{
	const struct rte_crypto_sym_xform aead = {.type = RTE_CRYPTO_SYM_XFORM_AEAD, .aead = {
		.op = backward ? RTE_CRYPTO_AEAD_OP_DECRYPT : RTE_CRYPTO_AEAD_OP_ENCRYPT, .algo = a->aead, .key = {keys[0], a->key},
		.iv = {SIDE_AT + offsetof(struct side, iv), a->iv}, .digest_length = a->tag, .aad_length = a->aad}};
	const struct rte_crypto_sym_xform cipher = {.type = RTE_CRYPTO_SYM_XFORM_CIPHER, .cipher = {
		.op = backward ? RTE_CRYPTO_CIPHER_OP_DECRYPT : RTE_CRYPTO_CIPHER_OP_ENCRYPT, .algo = a->cipher,
		.key = {keys[0], a->key}, .iv = {SIDE_AT + offsetof(struct side, iv), a->iv}}};
	const struct rte_crypto_sym_xform auth = {.type = RTE_CRYPTO_SYM_XFORM_AUTH, .auth = {
		.op = backward ? RTE_CRYPTO_AUTH_OP_VERIFY : RTE_CRYPTO_AUTH_OP_GENERATE, .algo = a->auth,
		.key = {keys[1], a->auth_key}, .iv = {SIDE_AT + offsetof(struct side, auth_iv), a->auth_iv},
		.digest_length = a->tag}};
	const int cipher_first = a->mac_first == backward;
	to[0] = a->kind == AEAD ? aead : a->kind == CIPHER || (a->kind == CHAIN && cipher_first) ? cipher : auth;
	to[1] = cipher_first ? auth : cipher;
	if (a->kind == CHAIN)
		to[0].next = &to[1];
	return to;
}

void *open_session(int device, const struct algorithm *a, int backward)
{
	struct rte_crypto_sym_xform made[2];
	return rte_cryptodev_sym_session_create(device, transforms(a, backward, made), session_pool);
}

struct rte_mbuf *packet_of(const uint8_t *bytes, uint32_t length, int segments)
{
	struct rte_mbuf *first = NULL, *last = NULL;
	for (uint32_t at = 0; segments; segments--) {
		const uint32_t left = length - at;
		/* Odd lengths, some of them none at all. */
		const uint32_t part = segments == 1 ? left : left > TAIL ? random_below(left - TAIL) : 0;
		struct rte_mbuf *mbuf = rte_pktmbuf_alloc(mbuf_pool);
		need(mbuf != NULL, "no mbuf");
		memcpy(rte_pktmbuf_append(mbuf, part), bytes + at, part);
		at += part;
		if (last) {
			last->next = mbuf;
			first->nb_segs++;
			first->pkt_len += part;
		} else {
			first = mbuf;
		}
		last = mbuf;
	}
	return first;
}

static void flatten(const struct rte_mbuf *mbuf, uint8_t *bytes)
{
	for (; mbuf; mbuf = mbuf->next) {
		memcpy(bytes, rte_pktmbuf_mtod(mbuf, const uint8_t *), mbuf->data_len);
		bytes += mbuf->data_len;
	}
}

struct rte_crypto_op *op_of(const struct task *task, void *session)
{
	const struct algorithm *a = task->algorithm;
	struct rte_crypto_op *op = rte_crypto_op_alloc(op_pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC);
	need(op != NULL, "no operation");
	struct side *side = (struct side *)((uint8_t *)op + SIDE_AT);
	const int ccm = a->kind == AEAD && a->aead == RTE_CRYPTO_AEAD_AES_CCM;
	struct rte_crypto_sym_op *sym = op->sym;
	memset(side, 0, sizeof *side);
	memcpy(side->iv + ccm, task->iv, sizeof task->iv);
	memcpy(side->auth_iv, task->iv, sizeof task->iv);
	memset(side->aad + (ccm ? 18 : 0), 0xaa, a->aad);
	memcpy(side->tag, task->tag, sizeof side->tag);
	rte_crypto_op_attach_sym_session(op, session);
	sym->m_src = packet_of(task->packet, task->length, task->segments);
	if (task->target_segments) {
		uint8_t empty[MOST_PACKET];
		memset(empty, 0xee, sizeof empty);
		sym->m_dst = packet_of(empty, task->length, task->target_segments);
	}
	uint8_t *tag = side->tag;
	rte_iova_t tag_iova = rte_crypto_op_ctophys_offset(op, SIDE_AT + offsetof(struct side, tag));
	if (task->tag_inside) {
		struct rte_mbuf *last = rte_pktmbuf_lastseg(sym->m_dst && !task->backward ? sym->m_dst : sym->m_src);
		tag = rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len - TAIL);
		tag_iova = rte_pktmbuf_iova_offset(last, last->data_len - TAIL);
		if (task->backward)
			memcpy(tag, task->tag, a->tag);
	}
	if (a->kind == AEAD) {
		sym->aead.data.offset = task->cipher;
		sym->aead.data.length = task->cipher_length;
		sym->aead.digest.data = tag;
		sym->aead.digest.phys_addr = tag_iova;
		sym->aead.aad.data = side->aad;
		sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, SIDE_AT + offsetof(struct side, aad));
		return op;
	}
	sym->cipher.data.offset = task->cipher;
	sym->cipher.data.length = task->cipher_length;
	sym->auth.data.offset = task->auth;
	sym->auth.data.length = task->auth_length;
	sym->auth.digest.data = tag;
	sym->auth.digest.phys_addr = tag_iova;
	return op;
}

void free_op(struct rte_crypto_op *op, struct task *task)
{
	struct rte_mbuf *source = op->sym->m_src, *target = op->sym->m_dst;
	const struct side *side = (struct side *)((uint8_t *)op + SIDE_AT);
	flatten(target ? target : source, task->packet);
	if (!task->tag_inside) {
		memcpy(task->tag, side->tag, sizeof task->tag);
	} else if (!task->backward) {
		memset(task->tag, 0, sizeof task->tag);
		memcpy(task->tag, task->packet + task->length - TAIL, task->algorithm->tag);
	}
	rte_pktmbuf_free(source);
	rte_pktmbuf_free(target);
	rte_crypto_op_free(op);
}

void run_ops(int device, uint16_t pair, struct rte_crypto_op **ops, uint16_t count)
{
	struct rte_crypto_op *done[BURST];
	uint16_t sent = 0, got = 0;
	while (got < count) {
		if (sent < count)
			sent += rte_cryptodev_enqueue_burst(device, pair, ops + sent, count - sent);
		uint16_t some = rte_cryptodev_dequeue_burst(device, pair, done, RTE_MIN(count - got, BURST));
		for (uint16_t i = 0; i < some; i++)
			need(device != devices[OURS] || done[i] == ops[got + i], "operations come back in another order");
		got += some;
	}
}

void run_tasks(int device, uint16_t pair, void **sessions, struct task **tasks, uint16_t count, uint8_t *statuses)
{
	struct rte_crypto_op *ops[BURST];
	for (uint16_t i = 0; i < count; i++)
		ops[i] = op_of(tasks[i], sessions[i]);
	run_ops(device, pair, ops, count);
	for (uint16_t i = 0; i < count; i++) {
		statuses[i] = ops[i]->status;
		free_op(ops[i], tasks[i]);
	}
}

static int start(const char *vdev, const char *arguments, unsigned int *session_size)
{
	if (rte_vdev_init(vdev, arguments) != 0)
		return -1;
	int id = rte_cryptodev_get_dev_id(vdev);
	*session_size = RTE_MAX(*session_size, rte_cryptodev_sym_get_private_session_size(id));
	return id;
}

int main(int count, char **values)
{
	need(count == 3, "program PMD operations|hostile|lcores");
	char *eal[] = {values[0], "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va", "-m", "256",
		"--lcores=0@(0-1),1@(0-1),2@(0-1),3@(0-1)", "--log-level=error", "-d", values[1]};
	unsigned int size = 0;
	memset(keys[1], 0x5c, sizeof keys[1]);
	for (unsigned int i = 0; i < sizeof keys[0]; i++)
		keys[0][i] = i * 7 + 1;
	need(rte_eal_init(RTE_DIM(eal), eal) >= 0, "rte_eal_init");
	devices[OURS] = start("crypto_gantry", "max_nb_queue_pairs=4", &size);
	need(devices[OURS] >= 0, "crypto_gantry is not there");
	devices[OPENSSL] = start("crypto_openssl", NULL, &size);
	devices[AESNI] = start("crypto_aesni_mb", NULL, &size);
	op_pool = rte_crypto_op_pool_create("ops", RTE_CRYPTO_OP_TYPE_SYMMETRIC, 1024, 32, sizeof(struct side), 0);
	mbuf_pool = rte_pktmbuf_pool_create("mbufs", 4096, 64, 0, MOST_PACKET + RTE_PKTMBUF_HEADROOM, 0);
	session_pool = rte_cryptodev_sym_session_pool_create("sessions", 4096, size, 0, 0, 0);
	need(op_pool && mbuf_pool && session_pool, "no memory for pools");
	for (int i = 0; i < DEVICES; i++) {
		struct rte_cryptodev_config config = {.socket_id = 0, .nb_queue_pairs = i == OURS ? PAIRS : 1};
		struct rte_cryptodev_qp_conf pair = {.nb_descriptors = 128, .mp_session = session_pool};
		if (devices[i] < 0)
			continue;
		need(rte_cryptodev_configure(devices[i], &config) == 0, "configure");
		for (uint16_t id = 0; id < config.nb_queue_pairs; id++)
			need(rte_cryptodev_queue_pair_setup(devices[i], id, &pair, 0) == 0, "queue_pair_setup");
		need(rte_cryptodev_start(devices[i]) == 0, "start");
	}
	int result = strcmp(values[2], "operations") == 0 ? operations() : strcmp(values[2], "hostile") == 0 ? hostile() :
		strcmp(values[2], "lcores") == 0 ? lcores() : 2;
	need(rte_mempool_avail_count(op_pool) == 1024 && rte_mempool_avail_count(mbuf_pool) == 4096 &&
		rte_mempool_avail_count(session_pool) == 4096, "something was not given back");
	for (int i = 0; i < DEVICES; i++)
		if (devices[i] >= 0)
			rte_cryptodev_stop(devices[i]);
	need(rte_vdev_uninit("crypto_gantry") == 0, "rte_vdev_uninit");
	rte_eal_cleanup();
	return result;
}
