/*
 * The RSA part of the shim: modular powers without padding, which all PMDs with RSA have in common. Gantry's driver pads. It does not
 * use DPDK's operation to verify signatures, because OpenSSL's PMD reports success for wrong ones (process_openssl_rsa_op_evp).
 */

/* Sessions of a device. A key has one for each of the device's queue pairs. */
#define RSA_SESSIONS 512
/* The offset of the slot's number in an RSA operation. */
#define RSA_SLOT_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_asym_op))

static struct rte_mempool *rsa_sessions[RTE_CRYPTO_MAX_DEVS];

/* Returns the supported lengths of the modulus in bytes. */
static struct gantry_range rsa_of(const struct rte_cryptodev_info *info)
{
	const uint32_t needed = 1u << RTE_CRYPTO_ASYM_OP_SIGN | 1u << RTE_CRYPTO_ASYM_OP_ENCRYPT;
	const struct rte_cryptodev_capabilities *row = info->capabilities;
	/* Before 23.11, OpenSSL's PMD leaves private keys in memory forever (openssl_set_asym_session_parameters). */
	if (!(info->feature_flags & RTE_CRYPTODEV_FF_ASYMMETRIC_CRYPTO) ||
	    (RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0) && strcmp(info->driver_name, "crypto_openssl") == 0))
		return (struct gantry_range){0};
	for (; row && row->op != RTE_CRYPTO_OP_TYPE_UNDEFINED; row++) {
		if (row->op == RTE_CRYPTO_OP_TYPE_ASYMMETRIC && row->asym.xform_capa.xform_type == RTE_CRYPTO_ASYM_XFORM_RSA &&
		    (row->asym.xform_capa.op_types & needed) == needed)
			return range(&row->asym.xform_capa.modlen);
	}
	return (struct gantry_range){0};
}

static int rsa_configure(uint8_t device, const struct rte_cryptodev_info *info)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	if (!rsa_of(info).min)
		return 0;
	snprintf(name, sizeof name, "gantry_rsa_%u", device);
	rsa_sessions[device] = rte_cryptodev_asym_session_pool_create(name, RSA_SESSIONS, 0, 0, SOCKET_ID_ANY);
	return rsa_sessions[device] ? 0 : -(rte_errno ? rte_errno : ENOMEM);
}

/* Makes the RSA operations of a queue pair's slots, if the device has RSA. Returns 0 if memory is exhausted. */
static int rsa_queue_new(uint8_t device, uint32_t number, uint32_t slots, struct place *places)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_mempool *ops;
	if (!rsa_sessions[device])
		return 1;
	snprintf(name, sizeof name, "gantry_rsa_ops_%u_%u", device, number);
	ops = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_ASYMMETRIC, slots, 0, sizeof(uint64_t), SOCKET_ID_ANY);
	for (uint32_t slot = 0; ops && slot < slots; slot++) {
		places[slot].rsa = rte_crypto_op_alloc(ops, RTE_CRYPTO_OP_TYPE_ASYMMETRIC);
		if (!places[slot].rsa) {
			rte_mempool_free(ops);
			return 0;
		}
		memcpy((uint8_t *)places[slot].rsa + RSA_SLOT_AT, &slot, sizeof slot);
	}
	return ops != NULL;
}

static void *rsa_new(uint8_t device, const struct gantry_rsa *key)
{
	const uint32_t half = key->modulus_length / 2;
	/* PMDs copy the numbers, and change none. */
	uint8_t *primes = (uint8_t *)(uintptr_t)key->primes;
	struct rte_crypto_asym_xform rsa = {.xform_type = RTE_CRYPTO_ASYM_XFORM_RSA};
	static uint8_t one = 1;
	void *session = NULL;
	rsa.rsa.n = (rte_crypto_uint){.data = (uint8_t *)(uintptr_t)key->modulus, .length = key->modulus_length};
	rsa.rsa.e = (rte_crypto_uint){.data = (uint8_t *)(uintptr_t)key->exponent, .length = key->exponent_length};
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
	rsa.rsa.padding.type = RTE_CRYPTO_RSA_PADDING_NONE;
#endif
	rsa.rsa.key_type = primes ? RTE_RSA_KEY_TYPE_QT : RTE_RSA_KEY_TYPE_EXP;
	/* A placeholder: QAT's PMD makes no session of a public key without a private exponent, which it does not use. */
	rsa.rsa.d = (rte_crypto_uint){.data = &one, .length = 1};
	if (primes) {
		rsa.rsa.qt.p = (rte_crypto_uint){.data = primes, .length = half};
		rsa.rsa.qt.q = (rte_crypto_uint){.data = primes + half, .length = half};
		rsa.rsa.qt.dP = (rte_crypto_uint){.data = primes + 2 * half, .length = half};
		rsa.rsa.qt.dQ = (rte_crypto_uint){.data = primes + 3 * half, .length = half};
		rsa.rsa.qt.qInv = (rte_crypto_uint){.data = primes + 4 * half, .length = half};
	}
	if (!rsa_sessions[device] || rte_cryptodev_asym_session_create(device, &rsa, rsa_sessions[device], &session) < 0)
		return NULL;
	return session;
}

static void rsa_free(uint8_t device, void *session)
{
	/* As in session_free. */
	if (rte_cryptodev_asym_session_free(device, session) == 0)
		explicit_bzero(session, rsa_sessions[device]->elt_size);
}

/* Returns the operation of an RSA request. Its data are in the slot. */
static struct rte_crypto_op *fill_rsa(struct place *place, const struct gantry_request *request)
{
	struct rte_crypto_op *op = place->rsa;
	struct rte_crypto_rsa_op_param *rsa = &op->asym->rsa;
	uint8_t *buffer = place->mbuf->buf_addr;
	rte_iova_t iova = rte_mbuf_iova_get(place->mbuf);
	rte_crypto_param in = {.data = buffer + request->packet, .iova = iova + request->packet, .length = request->cipher_length};
	rte_crypto_param out = {.data = buffer + request->tag, .iova = iova + request->tag, .length = request->cipher_length};

	op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
	op->sess_type = RTE_CRYPTO_OP_WITH_SESSION;
	op->asym->session = request->session;
	memset(rsa, 0, sizeof *rsa);
#if RTE_VERSION < RTE_VERSION_NUM(24, 11, 0, 0)
	rsa->padding.type = RTE_CRYPTO_RSA_PADDING_NONE;
#endif
	rsa->op_type = request->kind == GANTRY_RSA_PRIVATE ? RTE_CRYPTO_ASYM_OP_SIGN : RTE_CRYPTO_ASYM_OP_ENCRYPT;
	rsa->message = in;
	*(request->kind == GANTRY_RSA_PRIVATE ? &rsa->sign : &rsa->cipher) = out;
	return op;
}
