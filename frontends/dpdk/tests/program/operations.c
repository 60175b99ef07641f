/*
 * Results: every algorithm, both directions, in every layout, with good tags and bad ones. What is right is said by another PMD,
 * which has each packet in one piece and in place; or by a document, where no other PMD has the algorithm.
 */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A task with what has to come of it. */
struct check {
	void *session;
	struct task task;
	uint8_t status;
	uint8_t packet[MOST_PACKET], tag[64];
	/* After a bad tag the data are as they were, or zeros: `packet` has them as they were. */
	int may_be_zeros;
};

#define MOST_CHECKS 16384
static struct check *checks[MOST_CHECKS];
static unsigned int check_count;

/* What a MAC covers in a chain. ESP: header, IV and ciphertext (RFC 4303), with the IV of the operation or with another one.
 * ENCRYPTED: the plaintext, with which the MAC is encrypted. */
enum cover { EXACTLY, ESP, ESP_OTHER_IV, MORE, APART, ENCRYPTED, COVERS };

/* Segments of source and target; 0 for no target. */
static const struct { int segments, target; } LAYOUTS[] = {{1, 0}, {1, 1}, {3, 0}, {3, 4}, {5, 1}, {1, 3}};

static void fill(struct task *task, const struct algorithm *a, uint32_t bytes, enum cover cover)
{
	memset(task, 0, sizeof *task);
	task->algorithm = a;
	task->length = FRONT + bytes + TAIL;
	task->segments = 1;
	for (uint32_t i = 0; i < task->length; i++)
		task->packet[i] = random_below(256);
	for (size_t i = 0; i < sizeof task->iv; i++)
		task->iv[i] = random_below(256);
	if (cover == ESP)
		memcpy(task->packet + HEADER, task->iv, 16);
	task->cipher = FRONT;
	task->cipher_length = bytes;
	task->auth = cover == ESP || cover == ESP_OTHER_IV ? 0 : cover == MORE ? HEADER : FRONT;
	task->auth_length = FRONT - task->auth + bytes;
	if (cover == APART) {
		/* The MAC covers the header alone, in front of the data. */
		task->auth = 0;
		task->auth_length = HEADER;
	}
}

static struct check *add(void *session, const struct task *task, uint8_t status)
{
	struct check *check = calloc(1, sizeof *check);
	need(check && check_count < MOST_CHECKS, "too many checks");
	check->session = session;
	check->task = *task;
	check->status = status;
	checks[check_count++] = check;
	return check;
}

/* A check of each layout. `before` is what comes in, `after` what goes out. */
static void add_layouts(void *session, const struct task *before, const struct task *after, uint8_t status)
{
	const struct algorithm *a = before->algorithm;
	const int good = status == RTE_CRYPTO_OP_STATUS_SUCCESS, cipher_first = a->mac_first == before->backward;
	for (size_t i = 0; i < RTE_DIM(LAYOUTS); i++) {
		struct task task = *before;
		task.segments = LAYOUTS[i].segments;
		task.target_segments = LAYOUTS[i].target;
		task.tag_inside = before->tag_inside || (a->tag && random_below(2));
		struct check *check = add(session, &task, status);
		memcpy(check->packet, (good ? after : before)->packet, sizeof check->packet);
		memcpy(check->tag, (good ? after : before)->tag, sizeof check->tag);
		check->may_be_zeros = !good;
		if (task.target_segments) {
			/* What an operation does not write in another packet stays what it was: 0xee. */
			memset(check->packet, 0xee, sizeof check->packet);
			if (good && a->kind != AUTH)
				memcpy(check->packet + task.cipher, after->packet + task.cipher, task.cipher_length);
			if (good && a->kind == CHAIN && cipher_first)
				memcpy(check->packet + task.auth, after->packet + task.auth, task.auth_length);
		}
	}
}

/* The counterpart's result. */
static void compute(int counterpart, const struct algorithm *a, struct task *task)
{
	uint8_t status;
	void *session = open_session(counterpart, a, 0);
	need(session != NULL, "%s: the counterpart has no session", a->name);
	run_tasks(counterpart, 0, &session, &task, 1, &status);
	need(status == RTE_CRYPTO_OP_STATUS_SUCCESS, "%s: the counterpart has status %u", a->name, status);
	rte_cryptodev_sym_session_free(counterpart, session);
}

/* The same of a MAC that is encrypted with its data, which no counterpart has: the MAC first, and then the cipher. */
static void compute_encrypted(int counterpart, const struct algorithm *a, struct task *task)
{
	const struct algorithm *both = task->algorithm;
	struct algorithm mac = *a, cipher = *a;
	mac.kind = AUTH;
	cipher.kind = CIPHER;
	task->algorithm = &mac;
	compute(counterpart, &mac, task);
	memcpy(task->packet + task->auth + task->auth_length, task->tag, a->tag);
	task->algorithm = &cipher;
	compute(counterpart, &cipher, task);
	task->algorithm = both;
	memcpy(task->tag, task->packet + task->auth + task->auth_length, a->tag);
}

/* Forwards and backwards, as the counterpart has it. */
static void learn(int counterpart, void *const sessions[2], const struct algorithm *a, uint32_t bytes, enum cover cover)
{
	struct task plain, sealed, opened;
	fill(&plain, a, bytes, cover);
	sealed = plain;
	if (cover == ENCRYPTED) {
		plain.cipher_length += a->tag;
		plain.tag_inside = 1;
		sealed.cipher_length += a->tag;
		compute_encrypted(counterpart, a, &sealed);
		sealed.tag_inside = 1;
	} else {
		compute(counterpart, a, &sealed);
	}
	add_layouts(sessions[0], &plain, &sealed, RTE_CRYPTO_OP_STATUS_SUCCESS);
	sealed.backward = 1;
	opened = sealed;
	memcpy(opened.packet, plain.packet, sizeof opened.packet);
	add_layouts(sessions[1], &sealed, &opened, RTE_CRYPTO_OP_STATUS_SUCCESS);
	if (!a->tag)
		return;
	const uint32_t wrong = random_below(a->tag);
	sealed.tag[wrong] ^= 1 << random_below(8);
	if (cover == ENCRYPTED)
		sealed.packet[sealed.auth + sealed.auth_length + wrong] = sealed.tag[wrong];
	add_layouts(sessions[1], &sealed, &opened, RTE_CRYPTO_OP_STATUS_AUTH_FAILED);
}

static void verify(const struct check *check, const struct task *done, uint8_t status)
{
	const struct algorithm *a = done->algorithm;
	struct task is = *done;
	uint8_t should[MOST_PACKET];
	need(status == check->status, "%s, %u bytes, %d into %d segments: status %u instead of %u", a->name, done->cipher_length,
		done->segments, done->target_segments, status, check->status);
	memcpy(should, check->packet, sizeof should);
	/* The tag has been compared, or is compared below. */
	memset(is.packet + done->length - TAIL, 0, TAIL);
	memset(should + done->length - TAIL, 0, TAIL);
	/* Into another packet, what a MAC covers beside the ciphertext may go along even then. */
	for (uint32_t i = done->auth; check->may_be_zeros && done->target_segments && i < done->auth + done->auth_length; i++)
		if (i - done->cipher >= done->cipher_length)
			should[i] = is.packet[i];
	int same = memcmp(is.packet, should, done->length) == 0;
	if (!same && check->may_be_zeros) {
		memset(should + done->cipher, 0, done->cipher_length);
		same = memcmp(is.packet, should, done->length) == 0;
	}
	need(same, "%s, %s, %u bytes, %d into %d segments, status %u: another result", a->name,
		done->backward ? "backward" : "forward", done->cipher_length, done->segments, done->target_segments, status);
	need(done->backward || memcmp(done->tag, check->tag, a->tag) == 0, "%s, %u bytes, %d into %d segments: another tag", a->name,
		done->cipher_length, done->segments, done->target_segments);
}

/* In bursts of `most` at most, in the order in which they are. */
static void run_all(uint32_t most)
{
	static struct task tasks[BURST];
	for (unsigned int at = 0; at < check_count;) {
		const uint16_t count = RTE_MIN(check_count - at, 1 + random_below(most));
		void *sessions[BURST];
		struct task *pointers[BURST];
		uint8_t statuses[BURST];
		for (uint16_t i = 0; i < count; i++) {
			tasks[i] = checks[at + i]->task;
			pointers[i] = &tasks[i];
			sessions[i] = checks[at + i]->session;
		}
		run_tasks(devices[OURS], 0, sessions, pointers, count, statuses);
		for (uint16_t i = 0; i < count; i++)
			verify(checks[at + i], &tasks[i], statuses[i]);
		at += count;
	}
}

static void shuffle(void)
{
	for (unsigned int i = check_count - 1; i > 0; i--) {
		unsigned int other = random_below(i + 1);
		struct check *check = checks[i];
		checks[i] = checks[other];
		checks[other] = check;
	}
}

/* Documents whose answers no other PMD here computes. */
static void known_answers(void)
{
	static const struct algorithm XTS = {"aes-128-xts", CIPHER, RTE_CRYPTO_CIPHER_AES_XTS, 0, 0, 32, 0, 16, 0, 0, 0, 1, 0},
		ECB = {"aes-128-ecb", CIPHER, RTE_CRYPTO_CIPHER_AES_ECB, 0, 0, 16, 0, 0, 0, 0, 0, 16, 0},
		SHA3 = {"sha3-256", AUTH, 0, RTE_CRYPTO_AUTH_SHA3_256, 0, 0, 0, 0, 0, 32, 0, 1, 0},
		HMAC = {"hmac-sha3-256", AUTH, 0, RTE_CRYPTO_AUTH_SHA3_256_HMAC, 0, 0, 20, 0, 0, 32, 0, 1, 0};
	static const struct {
		const struct algorithm *algorithm;
		const char *source;
		uint8_t key[32], iv[16], input[32];
		uint32_t length;
		uint8_t output[32];
	} ROWS[] = {
		{&XTS, "IEEE 1619, vector 2", {[0 ... 15] = 0x11, [16 ... 31] = 0x22}, {[0 ... 4] = 0x33}, {[0 ... 31] = 0x44}, 32,
			"\xc4\x54\x18\x5e\x6a\x16\x93\x6e\x39\x33\x40\x38\xac\xef\x83\x8b\xfb\x18\x6f\xff\x74\x80\xad\xc4\x28\x93\x82\xec\xd6"
			"\xd3\x94\xf0"},
		{&ECB, "SP 800-38A, F.1.1", "\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c", {0},
			"\x6b\xc1\xbe\xe2\x2e\x40\x9f\x96\xe9\x3d\x7e\x11\x73\x93\x17\x2a", 16,
			"\x3a\xd7\x7b\xb4\x0d\x7a\x36\x60\xa8\x9e\xca\xf3\x24\x66\xef\x97"},
		{&SHA3, "FIPS 202, of \"abc\"", {0}, {0}, "abc", 3,
			"\x3a\x98\x5d\xa7\x4f\xe2\x25\xb2\x04\x5c\x17\x2d\x6b\xd3\x90\xbd\x85\x5f\x08\x6e\x3e\x9d\x52\x5b\x46\xbf\xe2\x45\x11"
			"\x43\x15\x32"},
		{&HMAC, "NIST's examples of HMAC with SHA-3, and RFC 4231's first text", {[0 ... 19] = 0x0b}, {0}, "Hi There", 8,
			"\xba\x85\x19\x23\x10\xdf\xfa\x96\xe2\xa3\xa4\x0e\x69\x77\x43\x51\x14\x0b\xb7\x18\x5e\x12\x02\xcd\xcc\x91\x75\x89\xf9"
			"\x5e\x16\xbb"},
	};
	for (size_t i = 0; i < RTE_DIM(ROWS); i++) {
		const struct algorithm *a = ROWS[i].algorithm;
		struct rte_crypto_sym_xform made[2];
		struct task task;
		struct task *one = &task;
		uint8_t status;
		need(offers(devices[OURS], a), "%s is not offered", a->name);
		transforms(a, 0, made);
		if (a->kind == AUTH)
			made[0].auth.key.data = ROWS[i].key;
		else
			made[0].cipher.key.data = ROWS[i].key;
		void *session = rte_cryptodev_sym_session_create(devices[OURS], made, session_pool);
		need(session != NULL, "%s has no session", a->name);
		fill(&task, a, ROWS[i].length, EXACTLY);
		memcpy(task.packet + FRONT, ROWS[i].input, ROWS[i].length);
		memcpy(task.iv, ROWS[i].iv, sizeof task.iv);
		run_tasks(devices[OURS], 0, &session, &one, 1, &status);
		need(status == RTE_CRYPTO_OP_STATUS_SUCCESS, "%s: status %u", a->name, status);
		need(memcmp(a->kind == AUTH ? task.tag : task.packet + FRONT, ROWS[i].output, a->kind == AUTH ? a->tag : ROWS[i].length) == 0,
			"%s: not the answer of %s", a->name, ROWS[i].source);
		rte_cryptodev_sym_session_free(devices[OURS], session);
	}
}

int operations(void)
{
	static const uint32_t LENGTHS[] = {1, 15, 16, 48, 100, 256, 1500, 1504, 3200};
	static void *sessions[256][2];
	need(devices[OPENSSL] >= 0, "crypto_openssl is not there");
	for (unsigned int k = 0; k < ALGORITHM_COUNT; k++) {
		const struct algorithm *a = &ALGORITHMS[k];
		int counterpart = offers(devices[OPENSSL], a) ? devices[OPENSSL] : devices[AESNI];
		need(offers(devices[OURS], a), "%s is not offered", a->name);
		need(offers(counterpart, a), "%s has no counterpart", a->name);
		for (int backward = 0; backward < 2; backward++) {
			sessions[k][backward] = open_session(devices[OURS], a, backward);
			need(sessions[k][backward] != NULL, "%s has no session", a->name);
		}
		for (size_t i = 0; i < RTE_DIM(LENGTHS); i++)
			for (int cover = EXACTLY; LENGTHS[i] % a->block == 0 && cover < (a->kind == CHAIN ? COVERS : 1); cover++)
				if (cover != ENCRYPTED || (a->mac_first && (LENGTHS[i] + a->tag) % a->block == 0))
					learn(counterpart, sessions[k], a, LENGTHS[i], cover);
	}
	/* Bursts of one session, one by one, and of many sessions. */
	run_all(BURST);
	run_all(1);
	shuffle();
	run_all(BURST);
	known_answers();
	printf("%u algorithms, %u operations\n", ALGORITHM_COUNT + 4, check_count);
	for (unsigned int k = 0; k < ALGORITHM_COUNT; k++)
		for (int backward = 0; backward < 2; backward++)
			need(rte_cryptodev_sym_session_free(devices[OURS], sessions[k][backward]) == 0, "session_free");
	for (unsigned int i = 0; i < check_count; i++)
		free(checks[i]);
	return 0;
}
