/* SPDX-License-Identifier: MIT */
/*
 * What the library itself asks of an exchange, beside <autobuf/inband.h>: FTP greets first and measures later, and
 * then tells the peer which windows the path needs.
 */
#ifndef AB_INBAND_H
#define AB_INBAND_H

#include <stdbool.h>

#include "../base/base.h"

/* ------------------------------------------------------------------------- an initiator */

/* Right after opening: HELLO is said, and the exchange is over. ab_inband_begin() measures. */
void ab_inband_greet_only(struct autobuf_inband *ib);

/* Buffer sizes that the peer says it can set; 0: it does not say. -ENODATA: it did not answer HELLO. */
int ab_inband_peer(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * After ab_inband_greet_only(), when it is over: measures in these directions (0: both), and it goes on. May be
 * repeated, within the budget. It stops once the product (IP bytes) is certainly not between low_bytes and
 * high_bytes; 0 and 0: every product is of interest. -EINVAL: not now; -ENOMEM.
 */
int ab_inband_begin(struct autobuf_inband *ib, uint64_t now_ns, uint32_t directions, uint64_t low_bytes,
                    uint64_t high_bytes);

/*
 * When it is over: SET tells the peer which windows the path needs, in bytes of TCP payload, for what the peer
 * receives and sends (0: leave it alone), and it goes on. Once it is over again, took() gives the answer: buffer
 * sizes that the peer sets for that, as setsockopt() takes them, 0 its kernel's choice. -EINVAL: not now; took()
 * -ENODATA: no answer, or an error.
 */
int ab_inband_set(struct autobuf_inband *ib, uint64_t now_ns, uint64_t rcv_bytes, uint64_t snd_bytes);
int ab_inband_took(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/* -------------------------------------------------------------------------- a responder */

/*
 * SET: which windows the peer needs comes in, the buffers that are set for them go out, 0 the kernel's choice. They
 * are a peer's wish: bound them.
 */
typedef void ab_inband_set_fn(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * Right after opening: SET is answered by this function, and not with 0 0; HELLO tells the peer the largest buffers
 * that it can give, 0: not told.
 */
void ab_inband_on_set(struct autobuf_inband *ib, ab_inband_set_fn *set, void *user, uint64_t rcv_most_bytes,
                      uint64_t snd_most_bytes);

/* ---------------------------------------------------------------------------- either end */

/*
 * The largest product (IP bytes) that a peer's word is worth after this exchange: of what it sends, twice what was
 * read off its trains; of what is sent to it, any plausible rate, if it took a train. 0: nothing went that way.
 */
uint64_t ab_inband_believable(const struct autobuf_inband *ib, bool tx);

/*
 * autobuf_inband_facts() for this handle, over fd: what it knows of the host by now counts, and the host is asked
 * only once HELLO came or was sent.
 */
int ab_inband_read_facts(const struct autobuf_inband *ib, int fd, struct autobuf_inband_facts *facts);

/* Steps a handle that has a socket until it is over: 1, or an error of autobuf_inband_step() or ppoll(2). */
int ab_inband_run(struct autobuf_inband *ib);

/* Payload that travels as one packet, as the exchange was told. */
uint32_t ab_inband_segment_bytes(const struct autobuf_inband *ib);

#endif
