/*
 * Measures an ESP packet with DPDK's librte_ipsec over a cryptodev, sealed and opened in bursts of 32 that belong to 32
 * associations. For benches/packets/run.
 *
 *     ipsec VDEV gcm|cbc BYTES...
 *
 * Prints a row for each size of an IPv4 packet in transport mode: bytes, nanoseconds to seal a packet and to open it. Each is the
 * best of many rounds.
 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API
#include <rte_bus_vdev.h>
#include <rte_cryptodev.h>
#include <rte_eal.h>
#include <rte_ip.h>
#include <rte_ipsec.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST 32
#define ROUNDS 200
#define MOST 2048
#define IV_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))

static uint8_t device;
static struct rte_ipsec_session out[BURST], in[BURST];
static struct rte_crypto_op *ops[BURST];
static struct rte_mbuf *mbufs[BURST];

static void need(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "ipsec: %s failed\n", what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Sends one packet of each association through the device, by the sessions of one direction. */
static void burst(struct rte_ipsec_session *sessions)
{
	struct rte_crypto_op *done[BURST];
	for (int i = 0; i < BURST; i++)
		need(rte_ipsec_pkt_crypto_prepare(&sessions[i], &mbufs[i], &ops[i], 1) == 1, "preparing a packet");
	int sent = 0, got = 0;
	while (got < BURST) {
		if (sent < BURST)
			sent += rte_cryptodev_enqueue_burst(device, 0, ops + sent, BURST - sent);
		int count = rte_cryptodev_dequeue_burst(device, 0, done, BURST);
		for (int i = 0; i < count; i++)
			if (done[i]->status != RTE_CRYPTO_OP_STATUS_SUCCESS)
				done[i]->sym->m_src->ol_flags |= RTE_MBUF_F_RX_SEC_OFFLOAD_FAILED;
		got += count;
	}
	for (int i = 0; i < BURST; i++)
		need(rte_ipsec_pkt_process(&sessions[i], &mbufs[i], 1) == 1, "finishing a packet");
}

static void measure(int bytes, double at_least, double *sealing, double *opening)
{
	struct rte_ipv4_hdr header = {.version_ihl = 0x45, .total_length = rte_cpu_to_be_16(bytes), .time_to_live = 64,
		.next_proto_id = IPPROTO_UDP, .src_addr = 0x0100000a, .dst_addr = 0x0200000a};
	double sealed_in = 0, opened_in = 0;
	int bursts = 0;
	while (sealed_in + opened_in < at_least) {
		double begin = now();
		for (int i = 0; i < BURST; i++) {
			struct rte_mbuf *mbuf = mbufs[i];
			mbuf->data_off = RTE_PKTMBUF_HEADROOM;
			mbuf->data_len = mbuf->pkt_len = bytes;
			mbuf->l2_len = 0;
			mbuf->l3_len = sizeof(header);
			mbuf->ol_flags = 0;
			memcpy(rte_pktmbuf_mtod(mbuf, void *), &header, sizeof(header));
		}
		burst(out);
		double sealed = now();
		burst(in);
		double opened = now();
		need(mbufs[0]->pkt_len == (uint32_t)bytes, "getting the packet back");
		sealed_in += sealed - begin;
		opened_in += opened - sealed;
		bursts++;
	}
	*sealing = sealed_in / bursts / BURST;
	*opening = opened_in / bursts / BURST;
}

/* Opens the association `at` in one direction. */
static void open_session(struct rte_ipsec_session *session, int at, int gcm, int seals, struct rte_mempool *pool)
{
	uint8_t key[16], mac_key[32];
	memset(key, at, sizeof(key));
	memset(mac_key, at, sizeof(mac_key));
	struct rte_crypto_sym_xform auth = {.type = RTE_CRYPTO_SYM_XFORM_AUTH, .auth = {
		.op = seals ? RTE_CRYPTO_AUTH_OP_GENERATE : RTE_CRYPTO_AUTH_OP_VERIFY,
		.algo = RTE_CRYPTO_AUTH_SHA256_HMAC, .key = {mac_key, 32}, .digest_length = 16}};
	struct rte_crypto_sym_xform cipher = {.type = RTE_CRYPTO_SYM_XFORM_CIPHER, .cipher = {
		.op = seals ? RTE_CRYPTO_CIPHER_OP_ENCRYPT : RTE_CRYPTO_CIPHER_OP_DECRYPT,
		.algo = RTE_CRYPTO_CIPHER_AES_CBC, .key = {key, 16}, .iv = {IV_AT, 16}}};
	struct rte_crypto_sym_xform aead = {.type = RTE_CRYPTO_SYM_XFORM_AEAD, .aead = {
		.op = seals ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT,
		.algo = RTE_CRYPTO_AEAD_AES_GCM, .key = {key, 16}, .iv = {IV_AT, 12}, .digest_length = 16, .aad_length = 8}};
	struct rte_crypto_sym_xform *first = gcm ? &aead : seals ? &cipher : &auth;
	if (!gcm) {
		if (seals)
			cipher.next = &auth;
		else
			auth.next = &cipher;
	}
	struct rte_ipsec_sa_prm params = {.ipsec_xform = {.spi = 0x1000 + at, .salt = 0x01010101 * at,
		.direction = seals ? RTE_SECURITY_IPSEC_SA_DIR_EGRESS : RTE_SECURITY_IPSEC_SA_DIR_INGRESS,
		.proto = RTE_SECURITY_IPSEC_SA_PROTO_ESP, .mode = RTE_SECURITY_IPSEC_SA_MODE_TRANSPORT,
		.replay_win_sz = seals ? 0 : 64}, .crypto_xform = first, .trs = {.proto = IPPROTO_IPIP}};
	int size = rte_ipsec_sa_size(&params);
	need(size > 0, "the size of an association");
	session->sa = rte_zmalloc(NULL, size, RTE_CACHE_LINE_SIZE);
	need(session->sa && rte_ipsec_sa_init(session->sa, &params, size) > 0, "making an association");
	session->type = RTE_SECURITY_ACTION_TYPE_NONE;
	session->crypto.dev_id = device;
	session->crypto.ses = rte_cryptodev_sym_session_create(device, first, pool);
	need(session->crypto.ses && rte_ipsec_session_prepare(session) == 0, "opening a session");
}

int main(int count, char **values)
{
	char *eal[] = {"ipsec", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va", "-m", "64",
		"--lcores=0@(0-1)", "--log-level=error"};
	need(count > 3, "the command line");
	int gcm = strcmp(values[2], "gcm") == 0;
	need(rte_eal_init(RTE_DIM(eal), eal) >= 0, "rte_eal_init");
	need(rte_vdev_init(values[1], NULL) == 0, "rte_vdev_init");
	device = rte_cryptodev_get_dev_id(values[1]);
	struct rte_mempool *sessions = rte_cryptodev_sym_session_pool_create("sessions", 4 * BURST,
		rte_cryptodev_sym_get_private_session_size(device), 0, 64, 0);
	struct rte_mempool *op_pool = rte_crypto_op_pool_create("ops", RTE_CRYPTO_OP_TYPE_SYMMETRIC, BURST, 0, 64, 0);
	struct rte_mempool *mbuf_pool = rte_pktmbuf_pool_create("mbufs", BURST, 0, 0, MOST + RTE_PKTMBUF_HEADROOM, 0);
	need(sessions && op_pool && mbuf_pool, "making pools");
	struct rte_cryptodev_config config = {.socket_id = 0, .nb_queue_pairs = 1};
	struct rte_cryptodev_qp_conf pair = {.nb_descriptors = 256, .mp_session = sessions};
	need(rte_cryptodev_configure(device, &config) == 0 && rte_cryptodev_queue_pair_setup(device, 0, &pair, 0) == 0 &&
		rte_cryptodev_start(device) == 0, "starting the device");
	for (int i = 0; i < BURST; i++) {
		open_session(&out[i], i, gcm, 1, sessions);
		open_session(&in[i], i, gcm, 0, sessions);
		ops[i] = rte_crypto_op_alloc(op_pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC);
		mbufs[i] = rte_pktmbuf_alloc(mbuf_pool);
		need(ops[i] && mbufs[i], "taking from a pool");
	}
	for (int i = 3; i < count; i++) {
		int bytes = atoi(values[i]);
		need(bytes >= 28 && bytes <= MOST - 100, "reading a size");
		double sealing = 1e18, opening = 1e18, seal, open;
		measure(bytes, 5e8, &seal, &open);
		for (int round = 0; round < ROUNDS; round++) {
			measure(bytes, 2e6, &seal, &open);
			sealing = seal < sealing ? seal : sealing;
			opening = open < opening ? open : opening;
		}
		printf("%d %.2f %.2f\n", bytes, sealing, opening);
	}
	return 0;
}
