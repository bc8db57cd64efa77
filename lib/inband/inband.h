/* SPDX-License-Identifier: MIT */
/*
 * What other rooms need beside <autobuf/inband.h>: FTP says HELLO first, measures later, and then tells the peer which
 * windows the path needs.
 */
#ifndef AB_INBAND_H
#define AB_INBAND_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/base.h"

/* ------------------------------------------------------------------------- an initiator */

/* Call right after opening: the exchange then ends after HELLO and its answer. ab_inband_begin() measures. */
void ab_inband_hello_only(struct autobuf_inband *ib);

/* Largest buffers that the peer can set; 0: unknown. -ENODATA: it did not answer HELLO. */
int ab_inband_peer(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * After ab_inband_hello_only(), when the exchange is over: continues it, and measures in these directions (0: both).
 * May be repeated, within the budget. It stops once the BDP (IP bytes) is certainly not between low_bytes and
 * high_bytes; 0 and 0: every BDP matters. -EINVAL: not possible now; -ENOMEM.
 */
int ab_inband_begin(struct autobuf_inband *ib, uint64_t now_ns, uint32_t directions, uint64_t low_bytes,
                    uint64_t high_bytes);

/*
 * When the exchange is over: continues it with SET, which tells the peer which windows the path needs, in payload
 * bytes, for what the peer receives and sends (0: leave it alone). Once it is over again, ab_inband_set_answer() gives
 * the sizes that the peer requests with setsockopt() for that; 0: its kernel chooses. -EINVAL: not possible now.
 * -ENODATA: no answer, or an error.
 */
int ab_inband_set(struct autobuf_inband *ib, uint64_t now_ns, uint64_t rcv_bytes, uint64_t snd_bytes);
int ab_inband_set_answer(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/* -------------------------------------------------------------------------- a responder */

/*
 * Handles SET. In: the windows that the peer asks for. Out: the buffer sizes to request for them, which the function
 * bounds; 0: the kernel chooses.
 */
typedef void ab_inband_set_fn(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * Call right after opening: this function then answers SET; without it the answer is 0 0. The answer to HELLO reports
 * the largest buffers that the function can give; 0: it does not.
 */
void ab_inband_on_set(struct autobuf_inband *ib, ab_inband_set_fn *set, void *user, uint64_t rcv_max_bytes,
                      uint64_t snd_max_bytes);

/* ---------------------------------------------------------------------------- either end */

/*
 * The largest BDP (IP bytes) that a peer may claim after this exchange. tx false, the peer sends: twice what its trains
 * showed. tx true: that of AB_PLAUSIBLE_BIT_PER_S, if a train was sent. 0: no train went that way.
 */
uint64_t ab_inband_max_bdp(const struct autobuf_inband *ib, bool tx);

/*
 * How the bytes of a handle are moved if TLS wraps its connection: by autobuf_ftp_read_fn() and autobuf_ftp_write_fn(),
 * in records that take so many bytes of each segment. read NULL: over the socket.
 */
struct ab_inband_io {
    int64_t (*read)(void *user, void *buf, size_t len, uint64_t deadline_ns, uint64_t *stamp_ns);
    int64_t (*write)(void *user, const void *buf, size_t len, size_t segment_bytes, uint64_t deadline_ns);
    void *user;
    uint32_t record_bytes;
};

/* As autobuf_inband_open(). With read() and write() only ab_inband_run() runs the handle. */
int ab_inband_open_io(struct autobuf_inband **ib, uint32_t role, int fd, const struct autobuf_inband_options *options,
                      const struct ab_inband_io *io);

/*
 * Reads the facts of the handle's socket again. It lists the queueing disciplines of the host at most once, and only
 * after HELLO.
 */
int ab_inband_refresh(struct autobuf_inband *ib);

/* Steps a handle with a socket to its end. Returns 1, or an error of autobuf_inband_step() or ppoll(2). */
int ab_inband_run(struct autobuf_inband *ib);

#endif
