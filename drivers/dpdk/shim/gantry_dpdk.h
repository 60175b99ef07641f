/*
 * The interface between Gantry's DPDK driver (Rust) and this shim (C).
 *
 * Everything here has a fixed size and is independent of the DPDK release: Gantry is built without DPDK, and the shim is
 * built once for each release. `drivers/dpdk/src/sys.rs` repeats these declarations; raise GANTRY_DPDK_ABI when one changes.
 */
#ifndef GANTRY_DPDK_H
#define GANTRY_DPDK_H

#include <stdint.h>

#define GANTRY_DPDK_ABI 3

/* Positions inside the buffer of a slot. Data always begin at GANTRY_DATA, which is aligned to a cache line; associated data end
 * there. */
#define GANTRY_DATA 1152
#define GANTRY_MOST_DATA 16384
#define GANTRY_ROOM (GANTRY_DATA + GANTRY_MOST_DATA + 128)
#define GANTRY_IV 16

enum gantry_kind {
	GANTRY_CIPHER = 1, GANTRY_AUTH = 2, GANTRY_AEAD = 3, GANTRY_CHAIN = 4,
	/* Requests only: raise the data, a number as long as the modulus, to the power of the exponent. `tag` is the place of the result. */
	GANTRY_RSA_PRIVATE = 5, GANTRY_RSA_PUBLIC = 6
};

/* Algorithms by the shim's own numbers: a release of DPDK may renumber its enumerations. */
enum gantry_cipher { GANTRY_NULL = 1, GANTRY_AES_CBC, GANTRY_AES_CTR, GANTRY_AES_ECB, GANTRY_DES3_CBC };
enum gantry_auth {
	GANTRY_MD5 = 1, GANTRY_SHA1, GANTRY_SHA224, GANTRY_SHA256, GANTRY_SHA384, GANTRY_SHA512,
	GANTRY_SHA3_224, GANTRY_SHA3_256, GANTRY_SHA3_384, GANTRY_SHA3_512,
	GANTRY_HMAC_MD5, GANTRY_HMAC_SHA1, GANTRY_HMAC_SHA224, GANTRY_HMAC_SHA256, GANTRY_HMAC_SHA384, GANTRY_HMAC_SHA512,
	GANTRY_HMAC_SHA3_224, GANTRY_HMAC_SHA3_256, GANTRY_HMAC_SHA3_384, GANTRY_HMAC_SHA3_512,
	GANTRY_AES_CMAC, GANTRY_AES_GMAC
};
enum gantry_aead { GANTRY_AES_GCM = 1, GANTRY_AES_CCM, GANTRY_CHACHA20_POLY1305 };

/* Lengths that a device takes, in bytes. A step of 0 means `min` only. */
struct gantry_range { uint16_t min, max, step, spare; };

/* One algorithm of a device: `kind` is never GANTRY_CHAIN here. */
struct gantry_capability {
	uint32_t kind, algorithm;
	struct gantry_range key, tag, aad, iv;
};

/* Bits of gantry_device.features. */
#define GANTRY_HARDWARE 1u
#define GANTRY_CHAINS 2u
#define GANTRY_OUT_OF_PLACE 4u /* from one contiguous buffer into another */

struct gantry_device {
	uint8_t id;
	char name[64];
	char driver[64];
	uint32_t features;
	uint32_t most_queues;  /* queue pairs */
	uint32_t most_sessions; /* 0: no limit */
	/* Bytes of an RSA modulus that the device supports. A maximum of 0 means no limit; all zeros, no RSA. */
	struct gantry_range rsa;
};

/* An RSA key. Numbers are big-endian. */
struct gantry_rsa {
	const uint8_t *modulus, *exponent;
	/* p, q, d mod p - 1, d mod q - 1, and the inverse of q mod p, each of half the bytes of the modulus; NULL: a public key. */
	const uint8_t *primes;
	uint32_t modulus_length, exponent_length;
};

struct gantry_session {
	uint32_t kind, cipher, auth, aead;
	uint32_t decrypt; /* 0: encrypt, or generate; 1: decrypt, or verify */
	uint32_t iv_length, aad_length, tag_length;
	const uint8_t *key, *auth_key;
	uint32_t key_length, auth_key_length;
};

/* Memory of a slot: a buffer of GANTRY_ROOM bytes and an IV of GANTRY_IV. */
struct gantry_slot { uint8_t *data, *iv; };

/* A request in a slot. The packet is the part of the buffer that the device sees; the other offsets of data count from its start. */
struct gantry_request {
	void *session;
	uint32_t slot, kind;
	uint32_t packet, packet_length; /* in the buffer */
	uint32_t cipher, cipher_length; /* in the packet; also the data of an AEAD */
	uint32_t auth, auth_length;     /* in the packet */
	uint32_t tag, aad;              /* in the buffer */
	/* Data outside of the slot, without associated data in front of them; NULL: in the slot. `output` is ignored without `input`. */
	uint8_t *input, *output;
};

enum gantry_status { GANTRY_DONE = 0, GANTRY_BAD_TAG = 1, GANTRY_BAD_SESSION = 2, GANTRY_BAD_ARGUMENTS = 3, GANTRY_ERROR = 4 };

struct gantry_completion { uint32_t slot, status; };

/* Results below zero are `-errno`; -ENOTSUP of enqueue and dequeue means that the device was stopped. */
struct gantry_dpdk {
	uint32_t abi;
	uint32_t dpdk_abi; /* the number of DPDK's shared libraries: 23 is 22.11 */
	const char *(*version)(void);
	/* Call it once in a process. It binds the calling thread to a CPU. */
	int (*start)(int argc, char **argv);
	/* The first error that DPDK has logged since `start`, `plug` or `configure` was called, in one line, cut to `size` with its
	 * final zero. Reading clears it. */
	void (*last_log)(char *text, uint32_t size);
	/* `bus` is "vdev" or "pci". A device that already exists is no error. */
	int (*plug)(const char *bus, const char *name, const char *arguments);
	/* Finds the symmetric cryptodev of the device `name`, or with `asymmetric` the purely asymmetric one; -ENODEV if it has none. */
	int (*find)(const char *name, uint32_t asymmetric, struct gantry_device *device);
	uint32_t (*capabilities)(uint8_t device, struct gantry_capability *rows, uint32_t most);
	int (*configure)(uint8_t device, uint32_t queues, uint32_t descriptors, uint32_t sessions);
	int (*run)(uint8_t device);
	void (*stop)(uint8_t device);
	void *(*session_new)(uint8_t device, const struct gantry_session *params);
	void (*session_free)(uint8_t device, void *session);
	void *(*rsa_new)(uint8_t device, const struct gantry_rsa *key);
	void (*rsa_free)(uint8_t device, void *session);
	/* Makes the slots of a queue pair. Their memory is never freed. */
	void *(*queue_new)(uint8_t device, uint32_t queue, uint32_t slots, struct gantry_slot *memory);
	/* Takes requests from the front. Their slots belong to the device until dequeue returns them. */
	int (*enqueue)(void *queue, const struct gantry_request *requests, uint32_t count);
	int (*dequeue)(void *queue, struct gantry_completion *done, uint32_t most);
	/* Points a request that the device has not begun to its slot instead of data outside of it. Only for PMDs that work in calls of
	 * enqueue and dequeue. */
	void (*redirect)(void *queue, uint32_t slot);
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct gantry_capability) == 40 && sizeof(struct gantry_device) == 152 &&
	sizeof(struct gantry_session) == 56 && sizeof(struct gantry_rsa) == 32 && sizeof(struct gantry_slot) == 16 && sizeof(struct gantry_request) == 64 &&
	sizeof(struct gantry_completion) == 8 && sizeof(struct gantry_dpdk) == 144, "as sys.rs has them");
#endif

/* The only symbol of the shim. */
const struct gantry_dpdk *gantry_dpdk(void);

#endif
