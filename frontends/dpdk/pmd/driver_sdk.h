/*
 * The driver's side of DPDK's vdev bus and cryptodev, as far as crypto_gantry uses it.
 *
 * DPDK installs these declarations only where it is built with `enable_driver_sdk`, which Debian does not do; the symbols are
 * exported there all the same (version INTERNAL). Names and layouts are facts of DPDK's dev_driver.h, bus_vdev_driver.h and
 * cryptodev_pmd.h (BSD-3-Clause), of the releases 22.11.3 to 26.03. Structures of which the library owns the memory end here
 * behind the last field that is used.
 */
#ifndef DRIVER_SDK_H
#define DRIVER_SDK_H

#include <stdalign.h>
#include <sys/queue.h>

#include <rte_bus_vdev.h>
#include <rte_crypto.h>
#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 3, 0) || RTE_VERSION >= RTE_VERSION_NUM(26, 7, 0, 0)
#error "The layouts of this header are those of DPDK 22.11.3 to 26.03"
#endif

/* dev_driver.h */

struct rte_driver {
	RTE_TAILQ_ENTRY(rte_driver) next;
	const char *name;
	const char *alias;
};

struct rte_device {
	RTE_TAILQ_ENTRY(rte_device) next;
	const char *name;
	const char *bus_info;
	const struct rte_driver *driver;
	const struct rte_bus *bus;
	int numa_node;
	struct rte_devargs *devargs;
};

/* bus_vdev_driver.h */

struct rte_vdev_device {
	RTE_TAILQ_ENTRY(rte_vdev_device) next;
	struct rte_device device;
};

struct rte_vdev_driver {
	RTE_TAILQ_ENTRY(rte_vdev_driver) next;
	struct rte_driver driver;
	int (*probe)(struct rte_vdev_device *device);
	int (*remove)(struct rte_vdev_device *device);
	int (*dma_map)(struct rte_vdev_device *device, void *address, uint64_t iova, size_t length);
	int (*dma_unmap)(struct rte_vdev_device *device, void *address, uint64_t iova, size_t length);
	uint32_t drv_flags;
};

void rte_vdev_register(struct rte_vdev_driver *driver);

/* cryptodev_pmd.h */

struct rte_cryptodev_pmd_init_params {
	char name[RTE_CRYPTODEV_NAME_MAX_LEN];
	size_t private_data_size;
	int socket_id;
	unsigned int max_nb_queue_pairs;
};

struct rte_cryptodev_data {
	uint8_t dev_id;
	int socket_id;
	char name[RTE_CRYPTODEV_NAME_MAX_LEN];
	__extension__ uint8_t dev_started : 1;
	struct rte_mempool *session_pool;
	void **queue_pairs;
	uint16_t nb_queue_pairs;
	void *dev_private;
};

struct rte_cryptodev_ops;

struct rte_cryptodev {
	dequeue_pkt_burst_t dequeue_burst;
	enqueue_pkt_burst_t enqueue_burst;
	struct rte_cryptodev_data *data;
	struct rte_cryptodev_ops *dev_ops;
	uint64_t feature_flags;
	struct rte_device *device;
	uint8_t driver_id;
};

struct rte_cryptodev_sym_session {
	uint64_t opaque_data;
	uint32_t sess_data_sz;
	uint16_t user_data_sz;
	uint8_t driver_id;
	rte_iova_t driver_priv_data_iova;
	alignas(RTE_CACHE_LINE_MIN_SIZE) uint8_t driver_priv_data[];
};

/* Members that crypto_gantry leaves empty have their place and not their type. */
struct rte_cryptodev_ops {
	int (*dev_configure)(struct rte_cryptodev *device, struct rte_cryptodev_config *config);
	int (*dev_start)(struct rte_cryptodev *device);
	void (*dev_stop)(struct rte_cryptodev *device);
	int (*dev_close)(struct rte_cryptodev *device);
	void (*dev_infos_get)(struct rte_cryptodev *device, struct rte_cryptodev_info *info);
	void (*stats_get)(struct rte_cryptodev *device, struct rte_cryptodev_stats *stats);
	void (*stats_reset)(struct rte_cryptodev *device);
	int (*queue_pair_setup)(struct rte_cryptodev *device, uint16_t id, const struct rte_cryptodev_qp_conf *config,
		int socket);
	int (*queue_pair_release)(struct rte_cryptodev *device, uint16_t id);
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
	void (*queue_pair_reset)(void);
#endif
	unsigned int (*sym_session_get_size)(struct rte_cryptodev *device);
	void (*asym_session_get_size)(void);
	int (*sym_session_configure)(struct rte_cryptodev *device, struct rte_crypto_sym_xform *transform,
		struct rte_cryptodev_sym_session *session);
	void (*asym_session_configure)(void);
	void (*sym_session_clear)(struct rte_cryptodev *device, struct rte_cryptodev_sym_session *session);
	void (*asym_session_clear)(void);
	/* sym_cpu_process, or the two functions of the raw data path. */
	void (*other_paths[2])(void);
	void (*session_ev_mdata_set)(void);
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	void (*queue_pair_event_error_query)(void);
#endif
};

struct cryptodev_driver {
	RTE_TAILQ_ENTRY(cryptodev_driver) next;
	const struct rte_driver *driver;
	uint8_t id;
};

uint8_t rte_cryptodev_allocate_driver(struct cryptodev_driver *crypto_driver, const struct rte_driver *driver);
int rte_cryptodev_pmd_parse_input_args(struct rte_cryptodev_pmd_init_params *params, const char *arguments);
struct rte_cryptodev *rte_cryptodev_pmd_create(const char *name, struct rte_device *device,
	struct rte_cryptodev_pmd_init_params *params);
int rte_cryptodev_pmd_destroy(struct rte_cryptodev *device);
struct rte_cryptodev *rte_cryptodev_pmd_get_named_dev(const char *name);
void rte_cryptodev_pmd_probing_finish(struct rte_cryptodev *device);

#endif
