/*
 * Sessions: DPDK's transforms become Gantry's keys.
 */
#include "pmd.h"

#include <errno.h>
#include <string.h>

/* CCM: the first byte of the IV and the first 18 of the associated data are room for a driver (rte_crypto_sym.h). */
#define CCM_IV_SKIP 1
#define CCM_AAD_SKIP 18

static int cipher_of(const struct rte_crypto_cipher_xform *from, struct gantry_transform *to, struct pmd_session *session)
{
	if (from->dataunit_len)
		return -ENOTSUP;
	*to = (struct gantry_transform){
		.name = gantry_name(RTE_CRYPTO_SYM_XFORM_CIPHER, from->algo, from->key.length),
		.key = from->key.data, .key_length = from->key.length, .iv_length = from->iv.length,
		.backward = from->op == RTE_CRYPTO_CIPHER_OP_DECRYPT,
	};
	session->iv = from->iv.offset;
	return to->name ? 0 : -ENOTSUP;
}

static int auth_of(const struct rte_crypto_auth_xform *from, struct gantry_transform *to, struct pmd_session *session)
{
	*to = (struct gantry_transform){
		.name = gantry_name(RTE_CRYPTO_SYM_XFORM_AUTH, from->algo, from->key.length),
		.key = from->key.data, .key_length = from->key.length, .iv_length = from->iv.length,
		.tag_length = from->digest_length, .backward = from->op == RTE_CRYPTO_AUTH_OP_VERIFY,
	};
	session->auth_iv = from->iv.offset;
	session->tag_length = from->digest_length;
	return to->name ? 0 : -ENOTSUP;
}

static int aead_of(const struct rte_crypto_aead_xform *from, struct gantry_transform *to, struct pmd_session *session)
{
	const int ccm = from->algo == RTE_CRYPTO_AEAD_AES_CCM;
	*to = (struct gantry_transform){
		.name = gantry_name(RTE_CRYPTO_SYM_XFORM_AEAD, from->algo, from->key.length),
		.key = from->key.data, .key_length = from->key.length, .iv_length = from->iv.length,
		.tag_length = from->digest_length, .backward = from->op == RTE_CRYPTO_AEAD_OP_DECRYPT,
	};
	session->iv = from->iv.offset + (ccm ? CCM_IV_SKIP : 0);
	session->aad_skip = ccm ? CCM_AAD_SKIP : 0;
	session->aad_length = from->aad_length;
	session->tag_length = from->digest_length;
	return to->name ? 0 : -ENOTSUP;
}

int gantry_session_make(const struct rte_crypto_sym_xform *transform, struct pmd_session *session)
{
	struct gantry_transform transforms[2];
	struct gantry_session made;
	int count = 0, result = transform ? 0 : -EINVAL;
	memset(session, 0, sizeof *session);
	for (; transform && result == 0; transform = transform->next, count++) {
		/* A cipher and a MAC in either order, or one transform alone. */
		const uint8_t before = session->kind;
		if (count == 2)
			return -ENOTSUP;
		switch (transform->type) {
		case RTE_CRYPTO_SYM_XFORM_CIPHER:
			session->kind = before ? KIND_CHAIN : KIND_CIPHER;
			result = before && before != KIND_AUTH ? -ENOTSUP :
				cipher_of(&transform->cipher, &transforms[count], session);
			break;
		case RTE_CRYPTO_SYM_XFORM_AUTH:
			session->kind = before ? KIND_CHAIN : KIND_AUTH;
			session->cipher_first = before != 0;
			result = before && before != KIND_CIPHER ? -ENOTSUP :
				auth_of(&transform->auth, &transforms[count], session);
			break;
		case RTE_CRYPTO_SYM_XFORM_AEAD:
			session->kind = KIND_AEAD;
			result = before ? -ENOTSUP : aead_of(&transform->aead, &transforms[count], session);
			break;
		default:
			result = -ENOTSUP;
		}
	}
	if (result == 0)
		result = gantry_pmd_session_new(transforms, count, &made);
	if (result < 0) {
		memset(session, 0, sizeof *session);
		return result;
	}
	session->of_plaintext = count == 2 && transforms[0].backward == transforms[1].backward &&
		session->cipher_first == transforms[0].backward;
	session->keys = made.keys;
	session->joint = made.joint;
	return 0;
}

void gantry_session_end(struct pmd_session *session)
{
	if (session->keys)
		gantry_pmd_session_free(session->keys);
	memset(session, 0, sizeof *session);
}
