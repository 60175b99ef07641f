/*
 * What is tested.
 */
#include "lab.h"

#define CIPHER_ROW(name, algorithm, key, iv, block) {name, CIPHER, RTE_CRYPTO_CIPHER_##algorithm, 0, 0, key, 0, iv, 0, 0, 0, block, 0}
#define AUTH_ROW(name, algorithm, key, iv, tag) {name, AUTH, 0, RTE_CRYPTO_AUTH_##algorithm, 0, 0, key, 0, iv, tag, 0, 1, 0}
#define AEAD_ROW(name, algorithm, key, iv, tag, aad) {name, AEAD, 0, 0, RTE_CRYPTO_AEAD_##algorithm, key, 0, iv, 0, tag, aad, 1, 0}
#define CHAIN_ROWS(name, cipher, key, iv, block, auth, auth_key, tag) \
	{name, CHAIN, RTE_CRYPTO_CIPHER_##cipher, RTE_CRYPTO_AUTH_##auth, 0, key, auth_key, iv, 0, tag, 0, block, 0}, \
	{name ", MAC first", CHAIN, RTE_CRYPTO_CIPHER_##cipher, RTE_CRYPTO_AUTH_##auth, 0, key, auth_key, iv, 0, tag, 0, block, 1}

const struct algorithm ALGORITHMS[] = {
	CIPHER_ROW("aes-128-cbc", AES_CBC, 16, 16, 16),
	CIPHER_ROW("aes-192-cbc", AES_CBC, 24, 16, 16),
	CIPHER_ROW("aes-256-cbc", AES_CBC, 32, 16, 16),
	CIPHER_ROW("aes-128-ctr", AES_CTR, 16, 16, 1),
	CIPHER_ROW("aes-256-ctr", AES_CTR, 32, 16, 1),
	CIPHER_ROW("3des-cbc", 3DES_CBC, 24, 8, 8),
	AUTH_ROW("md5", MD5, 0, 0, 16),
	AUTH_ROW("sha1", SHA1, 0, 0, 20),
	AUTH_ROW("sha224", SHA224, 0, 0, 28),
	AUTH_ROW("sha256", SHA256, 0, 0, 32),
	AUTH_ROW("sha384", SHA384, 0, 0, 48),
	AUTH_ROW("sha512", SHA512, 0, 0, 64),
	AUTH_ROW("hmac-md5", MD5_HMAC, 16, 0, 12),
	AUTH_ROW("hmac-sha1", SHA1_HMAC, 20, 0, 12),
	AUTH_ROW("hmac-sha224", SHA224_HMAC, 64, 0, 28),
	AUTH_ROW("hmac-sha256", SHA256_HMAC, 32, 0, 16),
	AUTH_ROW("hmac-sha384", SHA384_HMAC, 48, 0, 24),
	AUTH_ROW("hmac-sha512", SHA512_HMAC, 64, 0, 64),
	AUTH_ROW("aes-128-cmac", AES_CMAC, 16, 0, 16),
	AUTH_ROW("aes-128-gmac", AES_GMAC, 16, 12, 16),
	AUTH_ROW("aes-256-gmac", AES_GMAC, 32, 12, 16),
	AEAD_ROW("aes-128-gcm", AES_GCM, 16, 12, 16, 8),
	AEAD_ROW("aes-192-gcm", AES_GCM, 24, 12, 16, 0),
	AEAD_ROW("aes-256-gcm", AES_GCM, 32, 12, 16, 12),
	AEAD_ROW("aes-128-ccm", AES_CCM, 16, 13, 8, 8),
	AEAD_ROW("aes-256-ccm", AES_CCM, 32, 11, 16, 24),
	AEAD_ROW("chacha20-poly1305", CHACHA20_POLY1305, 32, 12, 16, 12),
	CHAIN_ROWS("aes-128-cbc, hmac-sha1", AES_CBC, 16, 16, 16, SHA1_HMAC, 20, 12),
	CHAIN_ROWS("aes-128-cbc, hmac-sha256", AES_CBC, 16, 16, 16, SHA256_HMAC, 32, 16),
	CHAIN_ROWS("aes-256-cbc, hmac-sha384", AES_CBC, 32, 16, 16, SHA384_HMAC, 48, 24),
	CHAIN_ROWS("aes-256-cbc, hmac-sha512", AES_CBC, 32, 16, 16, SHA512_HMAC, 64, 32),
	CHAIN_ROWS("aes-256-ctr, hmac-sha256", AES_CTR, 32, 16, 1, SHA256_HMAC, 32, 16),
	CHAIN_ROWS("3des-cbc, hmac-sha1", 3DES_CBC, 24, 8, 8, SHA1_HMAC, 20, 12),
};
const unsigned int ALGORITHM_COUNT = RTE_DIM(ALGORITHMS);
