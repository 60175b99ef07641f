/*
 * Crypto PMDs side by side in one process, for benches/dpdk/run: bursts of 32 of one session, in place, enqueued and dequeued.
 *
 *     pmds PMD ROUNDS WIDTH all|OPERATION BYTES...
 *
 * PMD is librte_crypto_gantry. With a WIDTH of 256, ipsec-mb does without AVX-512: its PMDs ask for what the CPU has, whatever EAL is
 * told (--force-max-simd-bitwidth). A row for each operation and size: the operation, bytes, and nanoseconds of the thread's CPU time an
 * operation of each PMD of the first row, or - where it does not have the operation. PMDs take turns in each of the rounds, and
 * the median of the rounds counts: other programs on the machine slow all of them alike. Before it measures, each PMD has to give
 * the result of the first.
 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API
#include <dlfcn.h>
#include <rte_bus_vdev.h>
#include <rte_cryptodev.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST 32
#define MOST 16384
#define MOST_ROUNDS 101
#define IV_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
#define HEADER 8
#define FRONT (HEADER + 16)

enum { GCM, CBC, HMAC, CHAIN, ESP, OPERATIONS };
/* ESP: the MAC covers a header, the IV and the ciphertext (RFC 4303). CHAIN: the ciphertext, as dpdk-test-crypto-perf has it. */
static const char *const NAMES[] = {"aes-128-gcm", "aes-128-cbc", "hmac-sha256", "cbc-hmac-sha256", "esp-cbc-hmac-sha256"};
static const char *const VDEVS[] = {"crypto_gantry", "crypto_aesni_mb", "crypto_aesni_gcm", "crypto_openssl"};
#define DEVICES RTE_DIM(VDEVS)

static struct rte_crypto_op *ops[BURST];
static struct rte_mbuf *mbufs[BURST];
static int devices[DEVICES];
static struct rte_mempool *sessions;
static int width;

static void need(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "pmds: %s failed\n", what);
		exit(1);
	}
}

/* In the place of ipsec-mb's function, which its PMDs call. */
void init_mb_mgr_avx512(void *manager);
void init_mb_mgr_avx512(void *manager)
{
	void (*init)(void *) = dlsym(RTLD_NEXT, width < 512 ? "init_mb_mgr_avx2" : "init_mb_mgr_avx512");
	need(init != NULL, "finding ipsec-mb");
	init(manager);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* Whether a PMD has the algorithms of an operation. */
static int has(int device, int operation)
{
	const struct rte_cryptodev_sym_capability_idx cipher = {RTE_CRYPTO_SYM_XFORM_CIPHER, {.cipher = RTE_CRYPTO_CIPHER_AES_CBC}},
		auth = {RTE_CRYPTO_SYM_XFORM_AUTH, {.auth = RTE_CRYPTO_AUTH_SHA256_HMAC}},
		aead = {RTE_CRYPTO_SYM_XFORM_AEAD, {.aead = RTE_CRYPTO_AEAD_AES_GCM}};
	if (device < 0)
		return 0;
	if (operation == GCM)
		return rte_cryptodev_sym_capability_get(device, &aead) != NULL;
	return (operation == HMAC || rte_cryptodev_sym_capability_get(device, &cipher)) &&
		(operation == CBC || rte_cryptodev_sym_capability_get(device, &auth));
}

static void *open_session(int device, int operation)
{
	static uint8_t key[16] = {1}, mac_key[64] = {2};
	struct rte_crypto_sym_xform auth = {.type = RTE_CRYPTO_SYM_XFORM_AUTH, .auth = {.op = RTE_CRYPTO_AUTH_OP_GENERATE,
		.algo = RTE_CRYPTO_AUTH_SHA256_HMAC, .key = {mac_key, 64}, .digest_length = 16}};
	struct rte_crypto_sym_xform cipher = {.type = RTE_CRYPTO_SYM_XFORM_CIPHER, .next = operation == CBC ? NULL : &auth,
		.cipher = {.op = RTE_CRYPTO_CIPHER_OP_ENCRYPT, .algo = RTE_CRYPTO_CIPHER_AES_CBC, .key = {key, 16}, .iv = {IV_AT, 16}}};
	struct rte_crypto_sym_xform aead = {.type = RTE_CRYPTO_SYM_XFORM_AEAD, .aead = {.op = RTE_CRYPTO_AEAD_OP_ENCRYPT,
		.algo = RTE_CRYPTO_AEAD_AES_GCM, .key = {key, 16}, .iv = {IV_AT, 12}, .digest_length = 16, .aad_length = HEADER}};
	return rte_cryptodev_sym_session_create(device, operation == GCM ? &aead : operation == HMAC ? &auth : &cipher, sessions);
}

static void fill(int operation, int bytes, void *session)
{
	for (int i = 0; i < BURST; i++) {
		struct rte_crypto_op *op = ops[i];
		struct rte_mbuf *mbuf = mbufs[i];
		uint8_t *packet = rte_pktmbuf_mtod(mbuf, uint8_t *), *side = (uint8_t *)op + IV_AT, *tag = packet + FRONT + bytes;
		mbuf->data_len = mbuf->pkt_len = FRONT + bytes + 16;
		memset(packet, i + 1, FRONT + bytes);
		memset(side, 3, 16);
		memcpy(packet + HEADER, side, 16);
		op->sess_type = RTE_CRYPTO_OP_WITH_SESSION;
		op->sym->session = session;
		op->sym->m_src = mbuf;
		op->sym->m_dst = NULL;
		if (operation == GCM) {
			op->sym->aead.data.offset = FRONT;
			op->sym->aead.data.length = bytes;
			op->sym->aead.digest.data = tag;
			op->sym->aead.digest.phys_addr = rte_pktmbuf_iova(mbuf) + FRONT + bytes;
			op->sym->aead.aad.data = side + 16;
			op->sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, IV_AT + 16);
			continue;
		}
		op->sym->cipher.data.offset = FRONT;
		op->sym->cipher.data.length = bytes;
		op->sym->auth.data.offset = operation == ESP ? 0 : FRONT;
		op->sym->auth.data.length = operation == ESP ? FRONT + bytes : bytes;
		op->sym->auth.digest.data = tag;
		op->sym->auth.digest.phys_addr = rte_pktmbuf_iova(mbuf) + FRONT + bytes;
	}
}

static void burst(int device)
{
	struct rte_crypto_op *done[BURST];
	int sent = 0, got = 0;
	while (got < BURST) {
		if (sent < BURST)
			sent += rte_cryptodev_enqueue_burst(device, 0, ops + sent, BURST - sent);
		int count = rte_cryptodev_dequeue_burst(device, 0, done, BURST);
		for (int i = 0; i < count; i++)
			need(done[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS, "an operation");
		got += count;
	}
}

static int ascending(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

static void compare(int operation, int bytes, int rounds)
{
	static double took[DEVICES][MOST_ROUNDS];
	static uint8_t first[MOST + FRONT + 16];
	const int bursts = 1 + 2000000 / (BURST * (100 + bytes));
	void *opened[DEVICES];
	int have_first = 0;
	for (size_t i = 0; i < DEVICES; i++) {
		opened[i] = has(devices[i], operation) ? open_session(devices[i], operation) : NULL;
		if (!opened[i])
			continue;
		fill(operation, bytes, opened[i]);
		burst(devices[i]);
		const uint8_t *result = rte_pktmbuf_mtod(mbufs[BURST - 1], uint8_t *);
		const int length = FRONT + bytes + (operation == CBC ? 0 : 16);
		if (!have_first)
			memcpy(first, result, length);
		need(memcmp(first, result, length) == 0, "the comparison of results");
		have_first = 1;
	}
	for (int round = 0; round < rounds; round++)
		for (size_t i = 0; i < DEVICES; i++) {
			if (!opened[i])
				continue;
			fill(operation, bytes, opened[i]);
			burst(devices[i]);
			double start = now();
			for (int k = 0; k < bursts; k++)
				burst(devices[i]);
			took[i][round] = (now() - start) / bursts / BURST;
		}
	printf("%s %d", NAMES[operation], bytes);
	for (size_t i = 0; i < DEVICES; i++) {
		if (opened[i]) {
			qsort(took[i], rounds, sizeof took[i][0], ascending);
			printf(" %.1f", took[i][rounds / 2]);
			rte_cryptodev_sym_session_free(devices[i], opened[i]);
		} else {
			printf(" -");
		}
	}
	printf("\n");
	fflush(stdout);
}

int main(int count, char **values)
{
	need(count > 5, "the command line");
	width = atoi(values[3]);
	char *eal[] = {"pmds", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va", "-m", "64",
		"--lcores=0@(0-1)", "--log-level=error", "-d", values[1]};
	const int rounds = RTE_MIN(atoi(values[2]), MOST_ROUNDS);
	unsigned int size = 0;
	need(rounds > 0, "reading the number of rounds");
	need(rte_eal_init(RTE_DIM(eal), eal) >= 0, "rte_eal_init");
	printf("operation bytes");
	for (size_t i = 0; i < DEVICES; i++) {
		devices[i] = rte_vdev_init(VDEVS[i], NULL) == 0 ? rte_cryptodev_get_dev_id(VDEVS[i]) : -1;
		need(devices[i] >= 0 || i > 0, "starting crypto_gantry");
		if (devices[i] >= 0)
			size = RTE_MAX(size, rte_cryptodev_sym_get_private_session_size(devices[i]));
		printf(" %s", VDEVS[i]);
	}
	printf("\n");
	sessions = rte_cryptodev_sym_session_pool_create("sessions", 64, size, 0, 0, 0);
	struct rte_mempool *op_pool = rte_crypto_op_pool_create("ops", RTE_CRYPTO_OP_TYPE_SYMMETRIC, BURST, 0, 64, 0);
	struct rte_mempool *mbuf_pool = rte_pktmbuf_pool_create("mbufs", BURST, 0, 0, MOST + 256, 0);
	need(sessions && op_pool && mbuf_pool, "making pools");
	for (size_t i = 0; i < DEVICES; i++) {
		struct rte_cryptodev_config config = {.socket_id = 0, .nb_queue_pairs = 1};
		struct rte_cryptodev_qp_conf pair = {.nb_descriptors = 256, .mp_session = sessions};
		if (devices[i] >= 0)
			need(rte_cryptodev_configure(devices[i], &config) == 0 &&
				rte_cryptodev_queue_pair_setup(devices[i], 0, &pair, 0) == 0 && rte_cryptodev_start(devices[i]) == 0,
				"starting a device");
	}
	for (int i = 0; i < BURST; i++) {
		ops[i] = rte_crypto_op_alloc(op_pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC);
		mbufs[i] = rte_pktmbuf_alloc(mbuf_pool);
		need(ops[i] && mbufs[i], "taking from a pool");
	}
	for (int operation = 0; operation < OPERATIONS; operation++) {
		if (strcmp(values[4], "all") != 0 && strcmp(values[4], NAMES[operation]) != 0)
			continue;
		for (int i = 5; i < count; i++) {
			int bytes = atoi(values[i]);
			need(bytes > 0 && bytes <= MOST, "reading a size");
			/* CBC has whole blocks only. */
			compare(operation, operation == GCM || operation == HMAC ? bytes : RTE_ALIGN_CEIL(bytes, 16), rounds);
		}
	}
	return 0;
}
