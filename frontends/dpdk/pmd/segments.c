/*
 * Data in several segments, or in mbufs that overlap: copied into one piece of memory, and results copied back.
 *
 * Gantry's devices take such data in one piece. The copy is of what the operation reads, in place, and is wiped afterwards.
 */
#define _GNU_SOURCE
#include "pmd.h"

#include <stdlib.h>
#include <string.h>

int gantry_covers(const struct rte_mbuf *mbuf, uint32_t from, uint32_t length)
{
	/* The lengths of the segments count, and not the packet's: it is these that are read. */
	uint64_t left = (uint64_t)from + length;
	for (; mbuf && left > mbuf->data_len; mbuf = mbuf->next)
		left -= mbuf->data_len;
	return mbuf != NULL;
}

uint32_t gantry_position(const struct rte_mbuf *mbuf, const uint8_t *pointer)
{
	uint32_t before = 0;
	for (; mbuf; before += mbuf->data_len, mbuf = mbuf->next) {
		const uint8_t *data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
		if (pointer >= data && pointer < data + mbuf->data_len)
			return before + (pointer - data);
	}
	return UINT32_MAX;
}

/* Copies between a range of a packet, which covers it, and contiguous memory. */
static void copy(const struct rte_mbuf *mbuf, uint32_t from, uint32_t length, uint8_t *memory, int into_packet)
{
	for (; length; mbuf = mbuf->next) {
		if (from >= mbuf->data_len) {
			from -= mbuf->data_len;
			continue;
		}
		uint8_t *here = rte_pktmbuf_mtod_offset(mbuf, uint8_t *, from);
		uint32_t part = RTE_MIN(length, mbuf->data_len - from);
		if (into_packet)
			memcpy(here, memory, part);
		else
			memcpy(memory, here, part);
		memory += part;
		length -= part;
		from = 0;
	}
}

uint8_t gantry_gather(const struct rte_mbuf *source, const struct rte_mbuf *target, const struct ranges *ranges,
	int cipher_first, struct gathered *gathered, struct gantry_op *work)
{
	/* A range without bytes is nowhere. */
	uint64_t from = UINT64_MAX, end = 0;
	if (ranges->cipher_length) {
		from = ranges->cipher;
		end = (uint64_t)ranges->cipher + ranges->cipher_length;
	}
	if (ranges->auth_length) {
		from = RTE_MIN(from, ranges->auth);
		end = RTE_MAX(end, (uint64_t)ranges->auth + ranges->auth_length);
	}
	if (!gantry_covers(source, ranges->cipher, ranges->cipher_length) ||
			!gantry_covers(target, ranges->cipher, ranges->cipher_length) ||
			!gantry_covers(source, ranges->auth, ranges->auth_length) ||
			(cipher_first && !gantry_covers(target, ranges->auth, ranges->auth_length)))
		return RTE_CRYPTO_OP_STATUS_INVALID_ARGS;
	const uint32_t length = end ? end - from : 0;
	uint8_t *memory = malloc(length + 1);
	if (!memory)
		return RTE_CRYPTO_OP_STATUS_ERROR;
	*gathered = (struct gathered){.memory = memory, .from = length ? from : 0, .length = length};
	copy(source, gathered->from, length, memory, 0);
	work->input = work->output = memory + (ranges->cipher_length ? ranges->cipher - from : 0);
	work->auth = memory + (ranges->auth_length ? ranges->auth - from : 0);
	return RTE_CRYPTO_OP_STATUS_SUCCESS;
}

void gantry_scatter(struct gathered *gathered, const struct ranges *ranges, int cipher_first, struct rte_mbuf *source,
	struct rte_mbuf *target, int done)
{
	if (done) {
		/* What a MAC covers besides the ciphertext goes along into another packet. */
		if (cipher_first && target != source && ranges->auth_length)
			copy(target, ranges->auth, ranges->auth_length, gathered->memory + (ranges->auth - gathered->from), 1);
		if (ranges->cipher_length)
			copy(target, ranges->cipher, ranges->cipher_length, gathered->memory + (ranges->cipher - gathered->from), 1);
	}
	explicit_bzero(gathered->memory, gathered->length);
	free(gathered->memory);
}
