/*
 * The vdev crypto_gantry, its driver, and its queue pairs.
 *
 * Operations wait in a ring until they are dequeued, and run then, on the dequeuing thread: what was enqueued in small bursts is
 * one batch for Gantry.
 */
#include "pmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_malloc.h>

RTE_LOG_REGISTER(gantry_log, pmd.crypto.gantry, NOTICE);
uint8_t gantry_driver;

struct pmd_device { unsigned int most_queue_pairs; };

static uint16_t enqueue(void *of, struct rte_crypto_op **ops, uint16_t count)
{
	struct queue_pair *pair = of;
	count = rte_ring_sp_enqueue_burst(pair->waiting, (void **)ops, count, NULL);
	pair->counts.enqueued_count += count;
	return count;
}

static uint16_t dequeue(void *of, struct rte_crypto_op **ops, uint16_t count)
{
	struct queue_pair *pair = of;
	count = rte_ring_sc_dequeue_burst(pair->waiting, (void **)ops, count, NULL);
	if (count == 0)
		return 0;
	pair->counts.dequeue_err_count += gantry_burst(pair, ops, count);
	pair->counts.dequeued_count += count;
	return count;
}

static int queue_pair_release(struct rte_cryptodev *device, uint16_t id)
{
	struct queue_pair *pair = device->data->queue_pairs[id];
	if (pair) {
		rte_ring_free(pair->waiting);
		gantry_pmd_batch_free(pair->batch);
		rte_free(pair);
		device->data->queue_pairs[id] = NULL;
	}
	return 0;
}

static int queue_pair_setup(struct rte_cryptodev *device, uint16_t id, const struct rte_cryptodev_qp_conf *config, int socket)
{
	char name[RTE_RING_NAMESIZE];
	queue_pair_release(device, id);
	if (config->nb_descriptors == 0 || config->nb_descriptors > RTE_RING_SZ_MASK)
		return -EINVAL;
	struct queue_pair *pair = rte_zmalloc_socket("gantry queue pair", sizeof *pair, RTE_CACHE_LINE_SIZE, socket);
	if (!pair)
		return -ENOMEM;
	device->data->queue_pairs[id] = pair;
	snprintf(name, sizeof name, "gantry_%u_%u", device->data->dev_id, id);
	pair->waiting = rte_ring_create(name, config->nb_descriptors, socket, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
	pair->batch = gantry_pmd_batch_new();
	if (pair->waiting && pair->batch)
		return 0;
	queue_pair_release(device, id);
	return -ENOMEM;
}

static int configure(struct rte_cryptodev *device, struct rte_cryptodev_config *config)
{
	(void)device;
	(void)config;
	return 0;
}

static int start(struct rte_cryptodev *device)
{
	(void)device;
	return 0;
}

static void stop(struct rte_cryptodev *device)
{
	(void)device;
}

static int close_device(struct rte_cryptodev *device)
{
	for (uint16_t id = 0; id < device->data->nb_queue_pairs; id++)
		queue_pair_release(device, id);
	return 0;
}

static void info(struct rte_cryptodev *device, struct rte_cryptodev_info *info)
{
	const struct pmd_device *own = device->data->dev_private;
	info->driver_id = device->driver_id;
	info->feature_flags = device->feature_flags;
	info->capabilities = gantry_capabilities();
	info->max_nb_queue_pairs = own->most_queue_pairs;
	info->sym.max_nb_sessions = 0;
}

static void stats(struct rte_cryptodev *device, struct rte_cryptodev_stats *stats)
{
	for (uint16_t id = 0; id < device->data->nb_queue_pairs; id++) {
		const struct queue_pair *pair = device->data->queue_pairs[id];
		if (!pair)
			continue;
		stats->enqueued_count += pair->counts.enqueued_count;
		stats->dequeued_count += pair->counts.dequeued_count;
		stats->dequeue_err_count += pair->counts.dequeue_err_count;
	}
}

static void reset_stats(struct rte_cryptodev *device)
{
	for (uint16_t id = 0; id < device->data->nb_queue_pairs; id++) {
		struct queue_pair *pair = device->data->queue_pairs[id];
		if (pair)
			pair->counts = (struct rte_cryptodev_stats){0};
	}
}

static unsigned int session_size(struct rte_cryptodev *device)
{
	(void)device;
	return sizeof(struct pmd_session);
}

static int configure_session(struct rte_cryptodev *device, struct rte_crypto_sym_xform *transform,
	struct rte_cryptodev_sym_session *session)
{
	(void)device;
	return gantry_session_make(transform, (struct pmd_session *)session->driver_priv_data);
}

static void clear_session(struct rte_cryptodev *device, struct rte_cryptodev_sym_session *session)
{
	(void)device;
	gantry_session_end((struct pmd_session *)session->driver_priv_data);
}

static struct rte_cryptodev_ops operations = {
	.dev_configure = configure,
	.dev_start = start,
	.dev_stop = stop,
	.dev_close = close_device,
	.dev_infos_get = info,
	.stats_get = stats,
	.stats_reset = reset_stats,
	.queue_pair_setup = queue_pair_setup,
	.queue_pair_release = queue_pair_release,
	.sym_session_get_size = session_size,
	.sym_session_configure = configure_session,
	.sym_session_clear = clear_session,
};

static int probe(struct rte_vdev_device *vdev)
{
	const char *name = vdev->device.name;
	const char *arguments = vdev->device.devargs ? vdev->device.devargs->args : "";
	struct rte_cryptodev_pmd_init_params params = {
		.private_data_size = sizeof(struct pmd_device),
		.socket_id = rte_socket_id(),
		.max_nb_queue_pairs = 8, /* as other PMDs in software */
	};
	char why[512];
	if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
		LOG(ERR, "%s: sessions are in the memory of one process, and a secondary process of DPDK cannot use them\n", name);
		return -ENOTSUP;
	}
	if (rte_cryptodev_pmd_parse_input_args(&params, arguments) != 0) {
		LOG(ERR, "%s: cannot read the arguments '%s'; they are max_nb_queue_pairs and socket_id\n", name, arguments);
		return -EINVAL;
	}
	if (gantry_pmd_open(why, sizeof why) != 0) {
		LOG(ERR, "%s: Gantry does not start: %s\n", name, why);
		return -ENODEV;
	}
	/* Made here, so that threads only read it. */
	gantry_capabilities();
	struct rte_cryptodev *device = rte_cryptodev_pmd_create(name, &vdev->device, &params);
	if (!device) {
		LOG(ERR, "%s: cryptodev has no place for it\n", name);
		return -EFAULT;
	}
	/* A release whose layouts are not those of driver_sdk.h would show here first. */
	if (strcmp(device->data->name, name) != 0) {
		LOG(ERR, "%s: this library was built for another release of DPDK than %s\n", name, rte_version());
		return -ENOTSUP;
	}
	device->driver_id = gantry_driver;
	device->dev_ops = &operations;
	device->enqueue_burst = enqueue;
	device->dequeue_burst = dequeue;
	device->feature_flags = RTE_CRYPTODEV_FF_SYMMETRIC_CRYPTO | RTE_CRYPTODEV_FF_SYM_OPERATION_CHAINING |
		RTE_CRYPTODEV_FF_SYM_SESSIONLESS | RTE_CRYPTODEV_FF_IN_PLACE_SGL | RTE_CRYPTODEV_FF_OOP_SGL_IN_SGL_OUT |
		RTE_CRYPTODEV_FF_OOP_SGL_IN_LB_OUT | RTE_CRYPTODEV_FF_OOP_LB_IN_SGL_OUT | RTE_CRYPTODEV_FF_OOP_LB_IN_LB_OUT |
		RTE_CRYPTODEV_FF_DIGEST_ENCRYPTED;
	((struct pmd_device *)device->data->dev_private)->most_queue_pairs = params.max_nb_queue_pairs;
	rte_cryptodev_pmd_probing_finish(device);
	return 0;
}

static int remove_device(struct rte_vdev_device *vdev)
{
	struct rte_cryptodev *device = rte_cryptodev_pmd_get_named_dev(vdev->device.name);
	return device ? rte_cryptodev_pmd_destroy(device) : -ENODEV;
}

static struct rte_vdev_driver driver = {.driver.name = "crypto_gantry", .probe = probe, .remove = remove_device};
static struct cryptodev_driver crypto_driver;

/* What EAL finds when it has loaded the library (`-d`). */
RTE_INIT(register_driver)
{
	rte_vdev_register(&driver);
	gantry_driver = rte_cryptodev_allocate_driver(&crypto_driver, &driver.driver);
}
