/* The interface of /dev/crypto for C programs that the tests build: no package of Debian has a header for it.
 *
 * Numbers and layouts are those of crypto/cryptodev.h of cryptodev-linux 1.14, whose authors placed it in the public domain;
 * `gantry-abi-cryptodev` has the same for Rust. */
#ifndef GANTRY_TESTS_CRYPTODEV_H
#define GANTRY_TESTS_CRYPTODEV_H

#include <linux/types.h>
#include <sys/ioctl.h>

enum {
    CRYPTO_DES_CBC = 1,
    CRYPTO_3DES_CBC = 2,
    CRYPTO_BLF_CBC = 3,
    CRYPTO_CAST_CBC = 4,
    CRYPTO_MD5_HMAC = 6,
    CRYPTO_SHA1_HMAC = 7,
    CRYPTO_AES_CBC = 11,
    CRYPTO_ARC4 = 12,
    CRYPTO_MD5 = 13,
    CRYPTO_SHA1 = 14,
    CRYPTO_SHA2_256_HMAC = 18,
    CRYPTO_SHA2_384_HMAC = 19,
    CRYPTO_SHA2_512_HMAC = 20,
    CRYPTO_AES_CTR = 21,
    CRYPTO_AES_ECB = 23,
    CRYPTO_AES_GCM = 50,
    CRYPTO_CAMELLIA_CBC = 101,
    CRYPTO_RIPEMD160 = 102,
    CRYPTO_SHA2_224 = 103,
    CRYPTO_SHA2_256 = 104,
    CRYPTO_SHA2_384 = 105,
    CRYPTO_SHA2_512 = 106
};

enum { COP_ENCRYPT, COP_DECRYPT };

#define COP_FLAG_NONE 0
#define COP_FLAG_UPDATE 1
#define COP_FLAG_FINAL 2
#define COP_FLAG_WRITE_IV 4
#define SIOP_FLAG_KERNEL_DRIVER_ONLY 1
#define CRYPTODEV_MAX_ALG_NAME 64
#define HASH_MAX_LEN 64

struct session_op {
    __u32 cipher, mac, keylen;
    __u8 *key;
    __u32 mackeylen;
    __u8 *mackey;
    __u32 ses;
};

struct crypt_op {
    __u32 ses;
    __u16 op, flags;
    __u32 len;
    __u8 *src, *dst, *mac, *iv;
};

struct crypt_auth_op {
    __u32 ses;
    __u16 op, flags;
    __u32 len, auth_len;
    __u8 *auth_src, *src, *dst, *tag;
    __u32 tag_len;
    __u8 *iv;
    __u32 iv_len;
};

struct session_info_op {
    __u32 ses;
    struct {
        char cra_name[CRYPTODEV_MAX_ALG_NAME], cra_driver_name[CRYPTODEV_MAX_ALG_NAME];
    } cipher_info, hash_info;
    __u16 alignmask;
    __u32 flags;
};

struct cphash_op {
    __u32 dst_ses, src_ses;
};

#define CRIOGET _IOWR('c', 101, __u32)
#define CIOCGSESSION _IOWR('c', 102, struct session_op)
#define CIOCFSESSION _IOW('c', 103, __u32)
#define CIOCCRYPT _IOWR('c', 104, struct crypt_op)
#define CIOCGSESSINFO _IOWR('c', 107, struct session_info_op)
#define CIOCAUTHCRYPT _IOWR('c', 109, struct crypt_auth_op)
#define CIOCCPHASH _IOW('c', 112, struct cphash_op)

#endif
