/*
 * Gantry's shim over DPDK's cryptodev; gantry_dpdk.h describes the functions.
 *
 * Built by scripts/dpdk where libdpdk-dev is installed. Half of cryptodev's data path is inline functions of its headers,
 * which is why a library of the same release has to stand between it and a program that does not know the release.
 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API
#include "gantry_dpdk.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or newer: sessions were different objects before"
#endif

#define IV_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
#define BURST 64

static struct { uint32_t ours; int theirs; } const CIPHERS[] = {
	{GANTRY_NULL, RTE_CRYPTO_CIPHER_NULL},
	{GANTRY_AES_CBC, RTE_CRYPTO_CIPHER_AES_CBC},
	{GANTRY_AES_CTR, RTE_CRYPTO_CIPHER_AES_CTR},
	{GANTRY_AES_ECB, RTE_CRYPTO_CIPHER_AES_ECB},
	{GANTRY_DES3_CBC, RTE_CRYPTO_CIPHER_3DES_CBC},
}, AUTHS[] = {
	{GANTRY_MD5, RTE_CRYPTO_AUTH_MD5},
	{GANTRY_SHA1, RTE_CRYPTO_AUTH_SHA1},
	{GANTRY_SHA224, RTE_CRYPTO_AUTH_SHA224},
	{GANTRY_SHA256, RTE_CRYPTO_AUTH_SHA256},
	{GANTRY_SHA384, RTE_CRYPTO_AUTH_SHA384},
	{GANTRY_SHA512, RTE_CRYPTO_AUTH_SHA512},
	{GANTRY_SHA3_224, RTE_CRYPTO_AUTH_SHA3_224},
	{GANTRY_SHA3_256, RTE_CRYPTO_AUTH_SHA3_256},
	{GANTRY_SHA3_384, RTE_CRYPTO_AUTH_SHA3_384},
	{GANTRY_SHA3_512, RTE_CRYPTO_AUTH_SHA3_512},
	{GANTRY_HMAC_MD5, RTE_CRYPTO_AUTH_MD5_HMAC},
	{GANTRY_HMAC_SHA1, RTE_CRYPTO_AUTH_SHA1_HMAC},
	{GANTRY_HMAC_SHA224, RTE_CRYPTO_AUTH_SHA224_HMAC},
	{GANTRY_HMAC_SHA256, RTE_CRYPTO_AUTH_SHA256_HMAC},
	{GANTRY_HMAC_SHA384, RTE_CRYPTO_AUTH_SHA384_HMAC},
	{GANTRY_HMAC_SHA512, RTE_CRYPTO_AUTH_SHA512_HMAC},
	{GANTRY_HMAC_SHA3_224, RTE_CRYPTO_AUTH_SHA3_224_HMAC},
	{GANTRY_HMAC_SHA3_256, RTE_CRYPTO_AUTH_SHA3_256_HMAC},
	{GANTRY_HMAC_SHA3_384, RTE_CRYPTO_AUTH_SHA3_384_HMAC},
	{GANTRY_HMAC_SHA3_512, RTE_CRYPTO_AUTH_SHA3_512_HMAC},
	{GANTRY_AES_CMAC, RTE_CRYPTO_AUTH_AES_CMAC},
	{GANTRY_AES_GMAC, RTE_CRYPTO_AUTH_AES_GMAC},
}, AEADS[] = {
	{GANTRY_AES_GCM, RTE_CRYPTO_AEAD_AES_GCM},
	{GANTRY_AES_CCM, RTE_CRYPTO_AEAD_AES_CCM},
	{GANTRY_CHACHA20_POLY1305, RTE_CRYPTO_AEAD_CHACHA20_POLY1305},
};

#define FIND(table, from, value, to) __extension__({ \
	int found_ = 0; \
	for (size_t i_ = 0; i_ < RTE_DIM(table); i_++) \
		if ((int)(table)[i_].from == (int)(value)) found_ = (int)(table)[i_].to; \
	found_; \
})

/* A slot: an operation and a buffer that always belong together. `rsa` is the operation of RSA requests, on devices with RSA.
 * `input` and `output` have no memory of their own: they stand for data outside of the slot. */
struct place {
	struct rte_crypto_op *op, *rsa;
	struct rte_mbuf *mbuf, *input, *output;
};

/* The session objects of each device. */
static struct rte_mempool *sessions[RTE_CRYPTO_MAX_DEVS];

/* DPDK's log goes into memory instead of the program's standard error. Only the first error of a call is kept, because it is the
 * closest to the cause. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_line[256];

static ssize_t keep_log(void *cookie, const char *text, size_t size)
{
	size_t length = size;
	(void)cookie;
	while (length && text[length - 1] == '\n')
		length--;
	if (length) {
		if (length >= sizeof log_line)
			length = sizeof log_line - 1;
		pthread_mutex_lock(&log_lock);
		if (!log_line[0]) {
			memcpy(log_line, text, length);
			log_line[length] = 0;
		}
		pthread_mutex_unlock(&log_lock);
	}
	return size;
}

static void forget_log(void)
{
	pthread_mutex_lock(&log_lock);
	log_line[0] = 0;
	pthread_mutex_unlock(&log_lock);
}

static void last_log(char *text, uint32_t size)
{
	pthread_mutex_lock(&log_lock);
	snprintf(text, size, "%s", log_line);
	log_line[0] = 0;
	pthread_mutex_unlock(&log_lock);
}

static int start(int argc, char **argv)
{
	FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep_log});
	if (!log)
		return -ENOMEM;
	setvbuf(log, NULL, _IOLBF, 0);
	rte_openlog_stream(log);
	return rte_eal_init(argc, argv) < 0 ? -(rte_errno ? rte_errno : EIO) : 0;
}

static int plug(const char *bus, const char *name, const char *arguments)
{
	forget_log();
	int result = rte_eal_hotplug_add(bus, name, arguments);
	return result == -EEXIST ? 0 : result;
}

static struct gantry_range range(const struct rte_crypto_param_range *theirs)
{
	return (struct gantry_range){theirs->min, theirs->max, theirs->increment, 0};
}

#include "rsa.h"

static int find(const char *name, uint32_t asymmetric, struct gantry_device *device)
{
	struct rte_cryptodev_info info;
	const uint64_t both = RTE_CRYPTODEV_FF_SYMMETRIC_CRYPTO | RTE_CRYPTODEV_FF_ASYMMETRIC_CRYPTO;
	for (uint32_t id = 0; id < RTE_CRYPTO_MAX_DEVS; id++) {
		if (!rte_cryptodev_is_valid_dev(id))
			continue;
		memset(&info, 0, sizeof info);
		rte_cryptodev_info_get(id, &info);
		if (strcmp(rte_dev_name(info.device), name) != 0)
			continue;
		if (asymmetric ? (info.feature_flags & both) != RTE_CRYPTODEV_FF_ASYMMETRIC_CRYPTO :
				!(info.feature_flags & RTE_CRYPTODEV_FF_SYMMETRIC_CRYPTO))
			continue;
		*device = (struct gantry_device){
			.id = id,
			.features = (info.feature_flags & RTE_CRYPTODEV_FF_HW_ACCELERATED ? GANTRY_HARDWARE : 0) |
				(info.feature_flags & RTE_CRYPTODEV_FF_SYM_OPERATION_CHAINING ? GANTRY_CHAINS : 0) |
				(info.feature_flags & RTE_CRYPTODEV_FF_OOP_LB_IN_LB_OUT ? GANTRY_OUT_OF_PLACE : 0),
			.most_queues = info.max_nb_queue_pairs,
			.most_sessions = info.sym.max_nb_sessions,
			.rsa = rsa_of(&info),
		};
		snprintf(device->name, sizeof device->name, "%s", rte_cryptodev_name_get(id));
		snprintf(device->driver, sizeof device->driver, "%s", info.driver_name);
		return 0;
	}
	return -ENODEV;
}

static uint32_t capabilities(uint8_t device, struct gantry_capability *rows, uint32_t most)
{
	struct rte_cryptodev_info info;
	uint32_t count = 0;
	rte_cryptodev_info_get(device, &info);
	const struct rte_cryptodev_capabilities *theirs = info.capabilities;
	for (; theirs && theirs->op != RTE_CRYPTO_OP_TYPE_UNDEFINED && count < most; theirs++) {
		struct gantry_capability *row = &rows[count];
		if (theirs->op != RTE_CRYPTO_OP_TYPE_SYMMETRIC)
			continue;
		memset(row, 0, sizeof *row);
		switch (theirs->sym.xform_type) {
		case RTE_CRYPTO_SYM_XFORM_CIPHER:
			row->kind = GANTRY_CIPHER;
			row->algorithm = FIND(CIPHERS, theirs, theirs->sym.cipher.algo, ours);
			row->key = range(&theirs->sym.cipher.key_size);
			row->iv = range(&theirs->sym.cipher.iv_size);
			break;
		case RTE_CRYPTO_SYM_XFORM_AUTH:
			row->kind = GANTRY_AUTH;
			row->algorithm = FIND(AUTHS, theirs, theirs->sym.auth.algo, ours);
			row->key = range(&theirs->sym.auth.key_size);
			row->tag = range(&theirs->sym.auth.digest_size);
			row->iv = range(&theirs->sym.auth.iv_size);
			break;
		case RTE_CRYPTO_SYM_XFORM_AEAD:
			row->kind = GANTRY_AEAD;
			row->algorithm = FIND(AEADS, theirs, theirs->sym.aead.algo, ours);
			row->key = range(&theirs->sym.aead.key_size);
			row->tag = range(&theirs->sym.aead.digest_size);
			row->aad = range(&theirs->sym.aead.aad_size);
			row->iv = range(&theirs->sym.aead.iv_size);
			break;
		default:
			break;
		}
		count += row->algorithm != 0;
	}
	return count;
}

static int configure(uint8_t device, uint32_t queues, uint32_t descriptors, uint32_t count)
{
	int socket = RTE_MAX(rte_cryptodev_socket_id(device), 0), result;
	struct rte_cryptodev_config config = {.socket_id = socket, .nb_queue_pairs = queues};
	struct rte_cryptodev_info info = {0};
	char name[RTE_MEMPOOL_NAMESIZE];
	forget_log();
	rte_cryptodev_info_get(device, &info);
	if (info.feature_flags & RTE_CRYPTODEV_FF_SYMMETRIC_CRYPTO) {
		snprintf(name, sizeof name, "gantry_sessions_%u", device);
		sessions[device] = rte_cryptodev_sym_session_pool_create(name, count,
			rte_cryptodev_sym_get_private_session_size(device), 0, 0, SOCKET_ID_ANY);
		if (!sessions[device])
			return -(rte_errno ? rte_errno : ENOMEM);
	}
	result = rsa_configure(device, &info);
	if (result < 0)
		return result;
	result = rte_cryptodev_configure(device, &config);
	for (uint32_t queue = 0; queue < queues && result == 0; queue++) {
		struct rte_cryptodev_qp_conf pair = {.nb_descriptors = descriptors, .mp_session = sessions[device]};
		result = rte_cryptodev_queue_pair_setup(device, queue, &pair, socket);
	}
	return result ? result : rte_cryptodev_start(device);
}

static int run(uint8_t device)
{
	return rte_cryptodev_start(device);
}

static void stop(uint8_t device)
{
	rte_cryptodev_stop(device);
}

static void *session_new(uint8_t device, const struct gantry_session *p)
{
	const int decrypt = p->decrypt != 0;
	struct rte_crypto_sym_xform cipher = {.type = RTE_CRYPTO_SYM_XFORM_CIPHER, .cipher = {
		.op = decrypt ? RTE_CRYPTO_CIPHER_OP_DECRYPT : RTE_CRYPTO_CIPHER_OP_ENCRYPT,
		.algo = FIND(CIPHERS, ours, p->cipher, theirs),
		.key = {p->key, p->key_length},
		.iv = {IV_AT, p->iv_length},
	}};
	struct rte_crypto_sym_xform auth = {.type = RTE_CRYPTO_SYM_XFORM_AUTH, .auth = {
		.op = decrypt ? RTE_CRYPTO_AUTH_OP_VERIFY : RTE_CRYPTO_AUTH_OP_GENERATE,
		.algo = FIND(AUTHS, ours, p->auth, theirs),
		.key = {p->auth_key, p->auth_key_length},
		.iv = {IV_AT, p->kind == GANTRY_AUTH ? p->iv_length : 0},
		.digest_length = p->tag_length,
	}};
	struct rte_crypto_sym_xform aead = {.type = RTE_CRYPTO_SYM_XFORM_AEAD, .aead = {
		.op = decrypt ? RTE_CRYPTO_AEAD_OP_DECRYPT : RTE_CRYPTO_AEAD_OP_ENCRYPT,
		.algo = FIND(AEADS, ours, p->aead, theirs),
		.key = {p->key, p->key_length},
		.iv = {IV_AT, p->iv_length},
		.digest_length = p->tag_length,
		.aad_length = p->aad_length,
	}};
	switch (p->kind) {
	case GANTRY_CIPHER:
		return rte_cryptodev_sym_session_create(device, &cipher, sessions[device]);
	case GANTRY_AUTH:
		return rte_cryptodev_sym_session_create(device, &auth, sessions[device]);
	case GANTRY_AEAD:
		return rte_cryptodev_sym_session_create(device, &aead, sessions[device]);
	case GANTRY_CHAIN:
		/* Encrypt and then authenticate, or authenticate and then decrypt. */
		*(decrypt ? &auth.next : &cipher.next) = decrypt ? &cipher : &auth;
		return rte_cryptodev_sym_session_create(device, decrypt ? &auth : &cipher, sessions[device]);
	default:
		return NULL;
	}
}

static void session_free(uint8_t device, void *session)
{
	/* Not every PMD wipes its part of the object. Nothing else uses the object here: the caller never runs session_new and
	 * session_free at the same time. */
	if (rte_cryptodev_sym_session_free(device, session) == 0)
		explicit_bzero(session, sessions[device]->elt_size);
}

struct queue {
	uint8_t device;
	uint16_t queue;
	uint32_t slots;
	struct place places[];
};

static void *queue_new(uint8_t device, uint32_t number, uint32_t slots, struct gantry_slot *memory)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	struct queue *queue = calloc(1, sizeof *queue + slots * sizeof *queue->places);
	struct rte_mempool *ops = NULL, *mbufs = NULL, *outside = NULL;
	if (!queue)
		return NULL;
	*queue = (struct queue){.device = device, .queue = number, .slots = slots};
	snprintf(name, sizeof name, "gantry_ops_%u_%u", device, number);
	/* The number of the slot follows the IV. */
	ops = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, slots, 0, GANTRY_IV + sizeof(uint64_t),
		SOCKET_ID_ANY);
	snprintf(name, sizeof name, "gantry_mbufs_%u_%u", device, number);
	mbufs = ops ? rte_pktmbuf_pool_create(name, slots, 0, 0, GANTRY_ROOM, SOCKET_ID_ANY) : NULL;
	snprintf(name, sizeof name, "gantry_outside_%u_%u", device, number);
	outside = mbufs ? rte_pktmbuf_pool_create(name, 2 * slots, 0, 0, 0, SOCKET_ID_ANY) : NULL;
	for (uint32_t slot = 0; outside && slot < slots; slot++) {
		struct place *place = &queue->places[slot];
		place->op = rte_crypto_op_alloc(ops, RTE_CRYPTO_OP_TYPE_SYMMETRIC);
		place->mbuf = rte_pktmbuf_alloc(mbufs);
		place->input = rte_pktmbuf_alloc(outside);
		place->output = rte_pktmbuf_alloc(outside);
		if (!place->op || !place->mbuf || !place->input || !place->output)
			goto failed;
		uint8_t *iv = (uint8_t *)place->op + IV_AT;
		memcpy(iv + GANTRY_IV, &slot, sizeof slot);
		memory[slot] = (struct gantry_slot){.data = place->mbuf->buf_addr, .iv = iv};
	}
	if (outside && rsa_queue_new(device, number, slots, queue->places))
		return queue;
failed:
	rte_mempool_free(outside);
	rte_mempool_free(mbufs);
	rte_mempool_free(ops);
	free(queue);
	return NULL;
}

static inline void point(struct rte_mbuf *mbuf, uint8_t *data, uint32_t length)
{
	mbuf->buf_addr = data;
	/* Only PMDs that compute on the CPU get such data, by their virtual address. */
	rte_mbuf_iova_set(mbuf, (uintptr_t)data);
	mbuf->buf_len = length;
	mbuf->data_off = 0;
	mbuf->data_len = length;
	mbuf->pkt_len = length;
}

/* Returns the operation of a request. */
static inline struct rte_crypto_op *fill(struct place *place, const struct gantry_request *request)
{
	if (unlikely(request->kind >= GANTRY_RSA_PRIVATE))
		return fill_rsa(place, request);
	struct rte_crypto_op *op = place->op;
	struct rte_crypto_sym_op *sym = op->sym;
	struct rte_mbuf *mbuf = place->mbuf;
	uint8_t *buffer = mbuf->buf_addr;
	rte_iova_t iova = rte_mbuf_iova_get(mbuf);

	op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
	op->sess_type = RTE_CRYPTO_OP_WITH_SESSION;
	mbuf->data_off = request->packet;
	mbuf->data_len = request->packet_length;
	mbuf->pkt_len = request->packet_length;
	sym->m_src = mbuf;
	sym->m_dst = NULL;
	sym->session = request->session;
	if (request->input) {
		uint32_t length = request->kind == GANTRY_AUTH ? request->auth_length : request->cipher_length;
		point(place->input, request->input, length);
		sym->m_src = place->input;
		if (request->output)
			point(place->output, request->output, length);
		if (request->kind != GANTRY_AUTH)
			sym->m_dst = request->output ? place->output : mbuf;
	}
	if (request->kind == GANTRY_AEAD) {
		sym->aead.data.offset = request->cipher;
		sym->aead.data.length = request->cipher_length;
		sym->aead.digest.data = buffer + request->tag;
		sym->aead.digest.phys_addr = iova + request->tag;
		sym->aead.aad.data = buffer + request->aad;
		sym->aead.aad.phys_addr = iova + request->aad;
		return op;
	}
	sym->cipher.data.offset = request->cipher;
	sym->cipher.data.length = request->cipher_length;
	sym->auth.data.offset = request->auth;
	sym->auth.data.length = request->auth_length;
	sym->auth.digest.data = buffer + request->tag;
	sym->auth.digest.phys_addr = iova + request->tag;
	return op;
}

static int enqueue(void *into, const struct gantry_request *requests, uint32_t count)
{
	struct queue *queue = into;
	struct rte_crypto_op *ops[BURST];
	uint32_t sent = 0;
	while (sent < count) {
		uint32_t burst = RTE_MIN(count - sent, (uint32_t)BURST);
		for (uint32_t i = 0; i < burst; i++) {
			ops[i] = fill(&queue->places[requests[sent + i].slot], &requests[sent + i]);
		}
		rte_errno = 0;
		uint32_t taken = rte_cryptodev_enqueue_burst(queue->device, queue->queue, ops, burst);
		sent += taken;
		if (taken == burst)
			continue;
		/* The functions of a stopped device only set this error. */
		if (sent == 0 && rte_errno == ENOTSUP)
			return -ENOTSUP;
		/* A device that refuses an operation sets its status; a full device leaves the status unchanged. */
		if (sent == 0 && ops[0]->status != RTE_CRYPTO_OP_STATUS_NOT_PROCESSED)
			return -EINVAL;
		break;
	}
	return sent;
}

static uint32_t status_of(const struct rte_crypto_op *op)
{
	switch (op->status) {
	case RTE_CRYPTO_OP_STATUS_SUCCESS:
		return GANTRY_DONE;
	case RTE_CRYPTO_OP_STATUS_AUTH_FAILED:
		return GANTRY_BAD_TAG;
	case RTE_CRYPTO_OP_STATUS_INVALID_SESSION:
		return GANTRY_BAD_SESSION;
	case RTE_CRYPTO_OP_STATUS_INVALID_ARGS:
		return GANTRY_BAD_ARGUMENTS;
	default:
		return GANTRY_ERROR;
	}
}

static int dequeue(void *from, struct gantry_completion *done, uint32_t most)
{
	struct queue *queue = from;
	struct rte_crypto_op *ops[BURST];
	rte_errno = 0;
	uint32_t count = rte_cryptodev_dequeue_burst(queue->device, queue->queue, ops, RTE_MIN(most, (uint32_t)BURST));
	if (count == 0 && rte_errno == ENOTSUP)
		return -ENOTSUP;
	for (uint32_t i = 0; i < count; i++) {
		size_t at = ops[i]->type == RTE_CRYPTO_OP_TYPE_ASYMMETRIC ? RSA_SLOT_AT : IV_AT + GANTRY_IV;
		memcpy(&done[i].slot, (uint8_t *)ops[i] + at, sizeof done[i].slot);
		done[i].status = status_of(ops[i]);
	}
	return count;
}

static void redirect(void *of, uint32_t slot)
{
	struct place *place = &((struct queue *)of)->places[slot];
	uint8_t *data = (uint8_t *)place->mbuf->buf_addr + GANTRY_DATA;
	point(place->input, data, place->input->data_len);
	point(place->output, data, place->output->data_len);
}

static const struct gantry_dpdk INTERFACE = {
	.abi = GANTRY_DPDK_ABI,
	.dpdk_abi = GANTRY_DPDK_RELEASE,
	.version = rte_version,
	.start = start,
	.last_log = last_log,
	.plug = plug,
	.find = find,
	.capabilities = capabilities,
	.configure = configure,
	.run = run,
	.stop = stop,
	.session_new = session_new,
	.session_free = session_free,
	.rsa_new = rsa_new,
	.rsa_free = rsa_free,
	.queue_new = queue_new,
	.enqueue = enqueue,
	.dequeue = dequeue,
	.redirect = redirect,
};

__attribute__((visibility("default"))) const struct gantry_dpdk *gantry_dpdk(void)
{
	return &INTERFACE;
}
