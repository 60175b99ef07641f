/*
 * Several lcores with a queue pair each, and one pair that one lcore fills and another empties; sessions come and go meanwhile.
 * Then statistics, and a device that is stopped and set up again.
 */
#include "lab.h"

#include <rte_launch.h>
#include <rte_lcore.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 200
#define STREAM 8000

/* What every lcore does, with what has to come of it. */
static struct goal { void *session; struct task before, after; } goals[16];
static unsigned int goal_count;

static void prepare(void)
{
	for (unsigned int k = 0; k < ALGORITHM_COUNT && goal_count < RTE_DIM(goals); k += 2) {
		struct goal *goal = &goals[goal_count++];
		struct task *one = &goal->after;
		uint8_t status;
		goal->session = open_session(devices[OURS], &ALGORITHMS[k], 0);
		need(goal->session != NULL, "%s has no session", ALGORITHMS[k].name);
		goal->before = (struct task){.algorithm = &ALGORITHMS[k], .length = FRONT + 512 + TAIL, .segments = 1, .cipher = FRONT,
			.cipher_length = 512, .auth_length = FRONT + 512};
		memset(goal->before.packet, k, goal->before.length);
		goal->after = goal->before;
		run_tasks(devices[OURS], 0, &goal->session, &one, 1, &status);
		need(status == RTE_CRYPTO_OP_STATUS_SUCCESS, "status %u", status);
	}
}

static void burst(uint16_t pair)
{
	static __thread struct task tasks[32];
	struct task *pointers[32];
	void *sessions[32];
	uint8_t statuses[32];
	unsigned int picked[32];
	const uint16_t count = 1 + random_below(32);
	for (uint16_t i = 0; i < count; i++) {
		picked[i] = random_below(goal_count);
		tasks[i] = goals[picked[i]].before;
		pointers[i] = &tasks[i];
		sessions[i] = goals[picked[i]].session;
	}
	run_tasks(devices[OURS], pair, sessions, pointers, count, statuses);
	for (uint16_t i = 0; i < count; i++) {
		const struct task *should = &goals[picked[i]].after;
		need(statuses[i] == RTE_CRYPTO_OP_STATUS_SUCCESS, "status %u", statuses[i]);
		need(memcmp(tasks[i].packet, should->packet, should->length) == 0 &&
			memcmp(tasks[i].tag, should->tag, sizeof should->tag) == 0, "another result on pair %u", pair);
	}
}

static int worker(void *pair)
{
	for (int round = 0; round < ROUNDS; round++)
		burst((uintptr_t)pair);
	return 0;
}

/* Fills pair 3, which the main lcore empties. */
static int producer(void *pair)
{
	for (unsigned int sent = 0; sent < STREAM;) {
		struct rte_crypto_op *op = op_of(&goals[sent % goal_count].before, goals[sent % goal_count].session);
		while (rte_cryptodev_enqueue_burst(devices[OURS], (uintptr_t)pair, &op, 1) == 0)
			sched_yield();
		sent++;
	}
	return 0;
}

static void consume(uint16_t pair)
{
	static struct task task;
	for (unsigned int got = 0; got < STREAM;) {
		struct rte_crypto_op *ops[BURST];
		uint16_t count = rte_cryptodev_dequeue_burst(devices[OURS], pair, ops, BURST);
		if (count == 0)
			sched_yield();
		for (uint16_t i = 0; i < count; i++, got++) {
			const struct goal *goal = &goals[got % goal_count];
			need(ops[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS, "status %u", ops[i]->status);
			task = goal->before;
			free_op(ops[i], &task);
			need(memcmp(task.packet, goal->after.packet, task.length) == 0, "another result of operation %u", got);
		}
	}
}

/* Sessions that live for one burst, beside the traffic of others. */
static void come_and_go(uint16_t pair)
{
	for (int round = 0; round < ROUNDS; round++) {
		static struct task task;
		struct task *one = &task;
		const struct goal *goal = &goals[random_below(goal_count)];
		uint8_t status;
		void *session = open_session(devices[OURS], goal->before.algorithm, 0);
		need(session != NULL, "no session");
		task = goal->before;
		run_tasks(devices[OURS], pair, &session, &one, 1, &status);
		need(status == RTE_CRYPTO_OP_STATUS_SUCCESS && memcmp(task.packet, goal->after.packet, task.length) == 0,
			"a session that comes and goes has another result");
		need(rte_cryptodev_sym_session_free(devices[OURS], session) == 0, "session_free");
	}
}

static void statistics(void)
{
	struct rte_cryptodev_stats stats;
	need(rte_cryptodev_stats_get(devices[OURS], &stats) == 0, "stats_get");
	need(stats.enqueued_count == stats.dequeued_count && stats.enqueued_count > STREAM && stats.dequeue_err_count == 0,
		"%lu enqueued, %lu dequeued, %lu failed", stats.enqueued_count, stats.dequeued_count, stats.dequeue_err_count);
	rte_cryptodev_stats_reset(devices[OURS]);
	struct rte_crypto_op *op = op_of(&goals[0].before, NULL);
	op->sym->session = NULL;
	run_ops(devices[OURS], 0, &op, 1);
	need(op->status == RTE_CRYPTO_OP_STATUS_INVALID_SESSION, "status %u", op->status);
	static struct task task;
	task = goals[0].before;
	free_op(op, &task);
	need(rte_cryptodev_stats_get(devices[OURS], &stats) == 0, "stats_get");
	need(stats.enqueued_count == 1 && stats.dequeued_count == 1 && stats.dequeue_err_count == 1,
		"after a reset %lu enqueued, %lu dequeued, %lu failed", stats.enqueued_count, stats.dequeued_count,
		stats.dequeue_err_count);
}

/* No more operations are taken than a pair has room for; and it works after it was set up anew. */
static void set_up_again(void)
{
	struct rte_cryptodev_config config = {.socket_id = 0, .nb_queue_pairs = 2};
	struct rte_cryptodev_qp_conf small = {.nb_descriptors = 8, .mp_session = session_pool}, none = {.mp_session = session_pool};
	struct rte_crypto_op *ops[16], *done[16];
	rte_cryptodev_stop(devices[OURS]);
	need(rte_cryptodev_configure(devices[OURS], &config) == 0, "configure again");
	need(rte_cryptodev_queue_pair_setup(devices[OURS], 0, &none, 0) < 0, "a pair without room");
	for (uint16_t pair = 0; pair < 2; pair++)
		need(rte_cryptodev_queue_pair_setup(devices[OURS], pair, &small, 0) == 0, "queue_pair_setup again");
	need(rte_cryptodev_start(devices[OURS]) == 0, "start again");
	for (int i = 0; i < 16; i++)
		ops[i] = op_of(&goals[0].before, goals[0].session);
	need(rte_cryptodev_enqueue_burst(devices[OURS], 1, ops, 16) == 8, "a pair of 8 takes another number");
	need(rte_cryptodev_dequeue_burst(devices[OURS], 1, done, 3) == 3, "dequeue 3");
	need(rte_cryptodev_enqueue_burst(devices[OURS], 1, ops + 8, 8) == 3, "there is room for 3");
	need(rte_cryptodev_dequeue_burst(devices[OURS], 1, done + 3, 13) == 8, "dequeue the rest");
	for (int i = 0; i < 16; i++) {
		static struct task task;
		task = goals[0].before;
		need(i >= 11 || (done[i] == ops[i] && done[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS), "operation %d", i);
		free_op(ops[i], &task);
	}
}

int lcores(void)
{
	unsigned int lcore, workers = 0;
	prepare();
	RTE_LCORE_FOREACH_WORKER(lcore) {
		/* Two have a pair each; the last one fills a pair. */
		workers++;
		need(rte_eal_remote_launch(workers < 3 ? worker : producer, (void *)(uintptr_t)workers, lcore) == 0, "launch");
	}
	need(workers == 3, "%u lcores", workers);
	come_and_go(0);
	consume(3);
	rte_eal_mp_wait_lcore();
	statistics();
	set_up_again();
	for (unsigned int i = 0; i < goal_count; i++)
		need(rte_cryptodev_sym_session_free(devices[OURS], goals[i].session) == 0, "session_free");
	printf("%u lcores\n", workers + 1);
	return 0;
}
