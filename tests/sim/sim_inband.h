/* SPDX-License-Identifier: MIT */
/*
 * Both ends of the exchange in band over an emulated path in virtual time. TCP is modelled as far as the other end
 * notices it. Segments are sent back to back, or paced in bursts of two. The congestion window doubles with each train;
 * segments beyond it follow an RTT later. A lost segment is retransmitted, and blocks those behind it.
 */
#ifndef SIM_INBAND_H
#define SIM_INBAND_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "emu_link.h"

struct sim_stream_path {
    struct emu_params there; /* from the initiator */
    struct emu_params back;
    uint64_t send_ns;  /* between two segments of a write */
    double pace_gain;  /* above 0: both ends pace at so many congestion windows per RTT */
    bool pace_unsaid;  /* without knowing it, as with fq */
    bool window_untold; /* neither end knows its congestion window */
    uint64_t seed;
};

struct sim_stream_end {
    int state;         /* as autobuf_inband_finished() */
    int result;        /* as autobuf_inband_result() */
    uint64_t sent_bytes; /* IP */
    struct autobuf_path path;
};

struct sim_stream_result {
    struct sim_stream_end initiator, responder;
    uint64_t elapsed_ns;
};

/*
 * The whole exchange. cut_there, cut_back: the connection is reset when that many bytes have arrived
 * in this direction; UINT64_MAX: it is not. *there_bytes and *back_bytes, if not NULL: what arrived.
 */
struct sim_stream_result sim_inband(const struct sim_stream_path *path,
                                    const struct autobuf_inband_options *options,
                                    uint64_t cut_there, uint64_t cut_back, uint64_t *there_bytes,
                                    uint64_t *back_bytes);

#endif
