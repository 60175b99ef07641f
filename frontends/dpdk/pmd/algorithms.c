/*
 * DPDK's algorithms by Gantry's names. What the PMD offers follows from what Gantry's devices serve when it starts.
 */
#include "pmd.h"

#include <stdlib.h>
#include <string.h>

/* Of one algorithm, with one name for each length of keys where Gantry has several. */
#define NAMES 3
#define CIPHER(algorithm, ...) {RTE_CRYPTO_SYM_XFORM_CIPHER, RTE_CRYPTO_CIPHER_##algorithm, {__VA_ARGS__}}
#define AUTH(algorithm, ...) {RTE_CRYPTO_SYM_XFORM_AUTH, RTE_CRYPTO_AUTH_##algorithm, {__VA_ARGS__}}
#define AEAD(algorithm, ...) {RTE_CRYPTO_SYM_XFORM_AEAD, RTE_CRYPTO_AEAD_##algorithm, {__VA_ARGS__}}

static const struct row {
	enum rte_crypto_sym_xform_type type;
	int algorithm;
	const char *names[NAMES];
} ROWS[] = {
	CIPHER(AES_CBC, "aes-128-cbc", "aes-192-cbc", "aes-256-cbc"),
	CIPHER(AES_CTR, "aes-128-ctr", "aes-192-ctr", "aes-256-ctr"),
	CIPHER(AES_ECB, "aes-128-ecb", "aes-192-ecb", "aes-256-ecb"),
	CIPHER(AES_XTS, "aes-128-xts", "aes-256-xts"),
	CIPHER(3DES_CBC, "des-ede3-cbc"),
	AUTH(MD5, "md5"),
	AUTH(SHA1, "sha1"),
	AUTH(SHA224, "sha224"),
	AUTH(SHA256, "sha256"),
	AUTH(SHA384, "sha384"),
	AUTH(SHA512, "sha512"),
	AUTH(SHA3_224, "sha3-224"),
	AUTH(SHA3_256, "sha3-256"),
	AUTH(SHA3_384, "sha3-384"),
	AUTH(SHA3_512, "sha3-512"),
	AUTH(MD5_HMAC, "hmac-md5"),
	AUTH(SHA1_HMAC, "hmac-sha1"),
	AUTH(SHA224_HMAC, "hmac-sha224"),
	AUTH(SHA256_HMAC, "hmac-sha256"),
	AUTH(SHA384_HMAC, "hmac-sha384"),
	AUTH(SHA512_HMAC, "hmac-sha512"),
	AUTH(SHA3_224_HMAC, "hmac-sha3-224"),
	AUTH(SHA3_256_HMAC, "hmac-sha3-256"),
	AUTH(SHA3_384_HMAC, "hmac-sha3-384"),
	AUTH(SHA3_512_HMAC, "hmac-sha3-512"),
	AUTH(AES_CMAC, "aes-128-cmac", "aes-192-cmac", "aes-256-cmac"),
	AUTH(AES_GMAC, "aes-128-gmac", "aes-192-gmac", "aes-256-gmac"),
	AEAD(AES_GCM, "aes-128-gcm", "aes-192-gcm", "aes-256-gcm"),
	AEAD(AES_CCM, "aes-128-ccm", "aes-192-ccm", "aes-256-ccm"),
	AEAD(CHACHA20_POLY1305, "chacha20-poly1305"),
};

/* Those of ROWS that are served, and a last one that says so (RTE_CRYPTODEV_END_OF_CAPABILITIES_LIST). */
static struct rte_cryptodev_capabilities table[RTE_DIM(ROWS) + 1];
static int made;

static int allows(const struct gantry_range *range, uint32_t length)
{
	return length >= range->min && length <= range->max && (length - range->min) % range->step == 0;
}

const char *gantry_name(enum rte_crypto_sym_xform_type type, int algorithm, uint32_t key_length)
{
	for (size_t i = 0; i < RTE_DIM(ROWS); i++) {
		const struct row *row = &ROWS[i];
		if (row->type != type || row->algorithm != algorithm)
			continue;
		for (size_t k = 0; k < NAMES && row->names[k]; k++) {
			struct gantry_algorithm served = {.block = 1};
			if (gantry_pmd_served(row->names[k], &served) && allows(&served.key, key_length))
				return row->names[k];
		}
	}
	return NULL;
}

/* A range of one length has the step 0 in DPDK; lengths have 16 bits. */
static struct rte_crypto_param_range range_of(const struct gantry_range *range)
{
	struct rte_crypto_param_range theirs = {.min = RTE_MIN(range->min, (uint32_t)UINT16_MAX), .max = RTE_MIN(range->max, (uint32_t)UINT16_MAX)};
	theirs.increment = theirs.min == theirs.max ? 0 : range->step;
	return theirs;
}

/* What Gantry serves of a row: its names in a row whose keys are equally far apart, as one range. 0 if nothing. */
static int served_of(const struct row *row, struct gantry_algorithm *all)
{
	int count = 0;
	for (size_t k = 0; k < NAMES && row->names[k]; k++) {
		struct gantry_algorithm one;
		if (!gantry_pmd_served(row->names[k], &one))
			continue;
		if (count == 0) {
			*all = one;
		} else {
			uint32_t step = one.key.min - all->key.max;
			if (count > 1 && step != all->key.step)
				break;
			all->key.step = step;
			all->key.max = one.key.max;
		}
		count++;
	}
	return count;
}

static void fill(struct rte_cryptodev_symmetric_capability *to, const struct row *row, const struct gantry_algorithm *served)
{
	to->xform_type = row->type;
	switch (row->type) {
	case RTE_CRYPTO_SYM_XFORM_CIPHER:
		to->cipher.algo = row->algorithm;
		to->cipher.block_size = served->block;
		to->cipher.key_size = range_of(&served->key);
		to->cipher.iv_size = range_of(&served->iv);
		break;
	case RTE_CRYPTO_SYM_XFORM_AUTH:
		to->auth.algo = row->algorithm;
		to->auth.block_size = served->block;
		to->auth.key_size = range_of(&served->key);
		to->auth.digest_size = range_of(&served->tag);
		to->auth.iv_size = range_of(&served->iv);
		break;
	default:
		to->aead.algo = row->algorithm;
		to->aead.block_size = 16;
		to->aead.key_size = range_of(&served->key);
		to->aead.digest_size = range_of(&served->tag);
		to->aead.iv_size = range_of(&served->iv);
		to->aead.aad_size = (struct rte_crypto_param_range){0, UINT16_MAX, 1};
		break;
	}
}

const struct rte_cryptodev_capabilities *gantry_capabilities(void)
{
	size_t count = 0;
	for (size_t i = 0; !made && i < RTE_DIM(ROWS); i++) {
		struct gantry_algorithm served = {.block = 1};
		if (!served_of(&ROWS[i], &served))
			continue;
		table[count].op = RTE_CRYPTO_OP_TYPE_SYMMETRIC;
		fill(&table[count].sym, &ROWS[i], &served);
		count++;
	}
	made = 1;
	return table;
}
