/* SPDX-License-Identifier: MIT */
/*
 * What other rooms of the library need of an exchange, in addition to <autobuf/inband.h>: FTP greets first,
 * measures later, and then tells the peer which windows the path needs.
 */
#ifndef AB_INBAND_H
#define AB_INBAND_H

#include <stdbool.h>

#include "../base/base.h"

/* ------------------------------------------------------------------------- an initiator */

/* Call it right after opening: the exchange then ends after HELLO and its answer. ab_inband_begin() measures. */
void ab_inband_greet_only(struct autobuf_inband *ib);

/* Buffer sizes that the peer says it can set; 0: it does not say. -ENODATA: it did not answer HELLO. */
int ab_inband_peer(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * After ab_inband_greet_only(), when the exchange is over: continues it, and measures in these directions (0:
 * both). May be repeated, within the budget. It stops once the product (IP bytes) is certainly not between
 * low_bytes and high_bytes; 0 and 0: every product is of interest. -EINVAL: not possible now; -ENOMEM.
 */
int ab_inband_begin(struct autobuf_inband *ib, uint64_t now_ns, uint32_t directions, uint64_t low_bytes,
                    uint64_t high_bytes);

/*
 * When the exchange is over: continues it with SET, which tells the peer which windows the path needs, in bytes of
 * TCP payload, for what the peer receives and sends (0: leave it alone). Once it is over again, took() gives the
 * answer: the buffer sizes that the peer sets for that, as setsockopt() takes them; 0: the peer's kernel chooses.
 * -EINVAL: not possible now; took() -ENODATA: there was no answer, or an error.
 */
int ab_inband_set(struct autobuf_inband *ib, uint64_t now_ns, uint64_t rcv_bytes, uint64_t snd_bytes);
int ab_inband_took(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/* -------------------------------------------------------------------------- a responder */

/*
 * Handles SET. In: the windows that the peer needs. Out: the buffers that are set for them; 0: the kernel chooses.
 * A peer may ask for anything, so the function has to bound them.
 */
typedef void ab_inband_set_fn(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * Call it right after opening: this function then answers SET; without it the answer is 0 0. The answer to HELLO
 * tells the peer the largest buffers that the function can give; 0: it does not.
 */
void ab_inband_on_set(struct autobuf_inband *ib, ab_inband_set_fn *set, void *user, uint64_t rcv_most_bytes,
                      uint64_t snd_most_bytes);

/* ---------------------------------------------------------------------------- either end */

/*
 * The largest product (IP bytes) that a peer may claim after this exchange. tx false: for what the peer sends,
 * twice what its trains showed. tx true: for what is sent to it, the product of any plausible rate, if it took a
 * train. 0: no train went that way.
 */
uint64_t ab_inband_believable(const struct autobuf_inband *ib, bool tx);

/*
 * autobuf_inband_facts() for this handle, over fd. What the handle already knows of the host is used, and the host
 * is asked only after HELLO has come or was sent.
 */
int ab_inband_read_facts(const struct autobuf_inband *ib, int fd, struct autobuf_inband_facts *facts);

/*
 * Steps a handle that has a socket until it is over. Returns 1, or an error of autobuf_inband_step() or ppoll(2).
 */
int ab_inband_run(struct autobuf_inband *ib);

/* Payload of one packet, as the exchange was told. */
uint32_t ab_inband_segment_bytes(const struct autobuf_inband *ib);

#endif
