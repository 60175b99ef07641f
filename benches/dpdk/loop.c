/*
 * DPDK's own loop over a cryptodev, for benches/dpdk/run: bursts of 32 of one session, the best of many rounds.
 *
 *     loop VDEV gcm|eta BYTES...
 *
 * Prints a row for each size: bytes, nanoseconds a request with the data in the mbuf, and with the data copied there and back, as
 * Gantry does. The first row is the frequency of the cycle counter in MHz.
 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API
#include <rte_bus_vdev.h>
#include <rte_cryptodev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST 32
#define MOST 16384
#define IV_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
#define AAD 8

static uint8_t device;
static void *session;
static int eta;
static struct rte_crypto_op *ops[BURST];
static struct rte_mbuf *mbufs[BURST];
static uint8_t buffers[BURST][MOST] __rte_cache_aligned, tags[BURST][16];
static const uint8_t iv[16] = {3}, aad[AAD] = {4};

static void need(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "loop: %s failed\n", what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* The packet of encrypt-then-authenticate is associated data, IV, data, tag; that of GCM is data and tag. */
static void burst(int bytes, int copies)
{
	struct rte_crypto_op *done[BURST];
	int front = eta ? AAD + 16 : 0;
	for (int i = 0; i < BURST; i++) {
		struct rte_crypto_op *op = ops[i];
		struct rte_mbuf *mbuf = mbufs[i];
		uint8_t *packet = rte_pktmbuf_mtod(mbuf, uint8_t *), *tag = packet + front + bytes, *side = (uint8_t *)op + IV_AT;
		rte_iova_t at = rte_pktmbuf_iova(mbuf) + front + bytes;
		op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
		op->sess_type = RTE_CRYPTO_OP_WITH_SESSION;
		op->sym->session = session;
		op->sym->m_src = mbuf;
		op->sym->m_dst = NULL;
		mbuf->data_len = mbuf->pkt_len = front + bytes + 16;
		memcpy(side, iv, 16);
		if (copies)
			memcpy(packet + front, buffers[i], bytes);
		if (eta) {
			memcpy(packet, aad, AAD);
			memcpy(packet + AAD, iv, 16);
			op->sym->cipher.data.offset = front;
			op->sym->cipher.data.length = bytes;
			op->sym->auth.data.offset = 0;
			op->sym->auth.data.length = front + bytes;
			op->sym->auth.digest.data = tag;
			op->sym->auth.digest.phys_addr = at;
		} else {
			memcpy(side + 16, aad, AAD);
			op->sym->aead.data.offset = 0;
			op->sym->aead.data.length = bytes;
			op->sym->aead.digest.data = tag;
			op->sym->aead.digest.phys_addr = at;
			op->sym->aead.aad.data = side + 16;
			op->sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, IV_AT + 16);
		}
	}
	int sent = 0, got = 0;
	while (got < BURST) {
		if (sent < BURST)
			sent += rte_cryptodev_enqueue_burst(device, 0, ops + sent, BURST - sent);
		int count = rte_cryptodev_dequeue_burst(device, 0, done, BURST);
		for (int i = 0; i < count; i++)
			need(done[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS, "an operation");
		got += count;
	}
	for (int i = 0; copies && i < BURST; i++) {
		uint8_t *packet = rte_pktmbuf_mtod(mbufs[i], uint8_t *) + front;
		memcpy(buffers[i], packet, bytes);
		memcpy(tags[i], packet + bytes, 16);
	}
}

static double best(int bytes, int copies)
{
	int bursts = 1 + 400000 / (BURST * (100 + bytes));
	double fastest = 1e18;
	for (int round = 0; round < 200; round++) {
		double start = now();
		for (int i = 0; i < bursts; i++)
			burst(bytes, copies);
		double took = (now() - start) / bursts / BURST;
		if (took < fastest)
			fastest = took;
	}
	return fastest;
}

int main(int count, char **values)
{
	char *eal[] = {"loop", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va", "-m", "64",
		"--lcores=0@(0-1)", "--log-level=error"};
	uint8_t key[16] = {1}, mac_key[32] = {2};
	need(count > 3, "the command line");
	eta = strcmp(values[2], "eta") == 0;
	need(rte_eal_init(RTE_DIM(eal), eal) >= 0, "rte_eal_init");
	need(rte_vdev_init(values[1], NULL) == 0, "rte_vdev_init");
	device = rte_cryptodev_get_dev_id(values[1]);
	struct rte_mempool *sessions = rte_cryptodev_sym_session_pool_create("sessions", 8,
		rte_cryptodev_sym_get_private_session_size(device), 0, 0, 0);
	struct rte_mempool *op_pool = rte_crypto_op_pool_create("ops", RTE_CRYPTO_OP_TYPE_SYMMETRIC, BURST, 0, 64, 0);
	struct rte_mempool *mbuf_pool = rte_pktmbuf_pool_create("mbufs", BURST, 0, 0, MOST + 256, 0);
	need(sessions && op_pool && mbuf_pool, "making pools");
	struct rte_cryptodev_config config = {.socket_id = 0, .nb_queue_pairs = 1};
	struct rte_cryptodev_qp_conf pair = {.nb_descriptors = 256, .mp_session = sessions};
	need(rte_cryptodev_configure(device, &config) == 0 && rte_cryptodev_queue_pair_setup(device, 0, &pair, 0) == 0 &&
		rte_cryptodev_start(device) == 0, "starting the device");
	struct rte_crypto_sym_xform auth = {.type = RTE_CRYPTO_SYM_XFORM_AUTH, .auth = {.op = RTE_CRYPTO_AUTH_OP_GENERATE,
		.algo = RTE_CRYPTO_AUTH_SHA256_HMAC, .key = {mac_key, 32}, .digest_length = 16}};
	struct rte_crypto_sym_xform cipher = {.type = RTE_CRYPTO_SYM_XFORM_CIPHER, .next = &auth, .cipher = {
		.op = RTE_CRYPTO_CIPHER_OP_ENCRYPT, .algo = RTE_CRYPTO_CIPHER_AES_CBC, .key = {key, 16}, .iv = {IV_AT, 16}}};
	struct rte_crypto_sym_xform aead = {.type = RTE_CRYPTO_SYM_XFORM_AEAD, .aead = {.op = RTE_CRYPTO_AEAD_OP_ENCRYPT,
		.algo = RTE_CRYPTO_AEAD_AES_GCM, .key = {key, 16}, .iv = {IV_AT, 12}, .digest_length = 16, .aad_length = AAD}};
	session = rte_cryptodev_sym_session_create(device, eta ? &cipher : &aead, sessions);
	need(session != NULL, "opening a session");
	for (int i = 0; i < BURST; i++) {
		ops[i] = rte_crypto_op_alloc(op_pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC);
		mbufs[i] = rte_pktmbuf_alloc(mbuf_pool);
		need(ops[i] && mbufs[i], "taking from a pool");
	}
	printf("%.0f\n", rte_get_tsc_hz() / 1e6);
	for (int i = 3; i < count; i++) {
		int bytes = atoi(values[i]);
		need(bytes > 0 && bytes <= MOST, "reading a size");
		printf("%d %.2f %.2f\n", bytes, best(bytes, 0), best(bytes, 1));
	}
	return 0;
}
