/* SPDX-License-Identifier: MIT */
/* What is done with one socket of another process while its descriptor is borrowed. */
#ifndef ACT_H
#define ACT_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "broker.h"
#include "rules.h"
#include "state.h"

#define ACT_CONTROL 256U /* beside AUTOBUF_EVENT_*: the congestion control was set, or could not be */

/* Once, by a rule, for one socket. */
struct act {
    const struct rule *rule;
    const struct autobuf_limits *limits; /* of this host */
    bool dry_run;
    autobuf_log_fn *say; /* what was set, or would be */
    void *user;
};

/* What all forced buffers may hold, with what TCP holds anyway. */
uint64_t act_forced_most(const struct autobuf_limits *limits);

/* What a connection's buffers hold of that: those that are larger than anybody gets them without force. */
uint64_t act_forced_bytes(const struct autobuf_limits *limits, uint64_t snd_buf_bytes, uint64_t rcv_buf_bytes);

/* Whether autotuning's window already allows any rate on a path so short, so that there is nothing to look for. */
bool act_is_near(int copy, const struct autobuf_limits *limits, uint32_t intent);

/*
 * Sets what the rule says for all modes, and the sizes of mode fixed. 1: it set something; 0: there was nothing to set;
 * -errno: no size and no pace was set. With dry_run it only says so.
 */
int act_fixed(const struct act *act, int copy);

/* Whether a connection receives more than it sends. */
bool act_receives(const struct autobuf_live_state *state);

/* A connection's part of a total. */
struct share {
    uint64_t bytes;
    uint64_t own_byte_per_s; /* the most that its program allows; UINT64_MAX: any */
    bool locked;             /* its program has set its send buffer */
    bool paced;              /* it has a pace for its share */
    uint64_t set_byte_per_s; /* written: the pace that it was given now; 0: none */
};

/*
 * Brings the window of a connection to its share: of one that receives by its clamp, which autotuning raises again, so
 * it is set each time; of one that sends by its pace. One that is paced stays so, whatever it does now. 1: it set
 * something; 0: it is right; errors of autobuf_apply().
 */
int act_share(const struct act *act, int copy, const struct autobuf_live_state *state, struct share *share);

/* What of the socket a rule can change, as it is now. 0; errors of autobuf_settings_read(). */
int act_read(const struct act *act, int copy, uint64_t cookie, struct noted *noted);

/*
 * Bounds the sizes that a file says of a socket: by what it has now, what this host lets everybody
 * set, how far autotuning goes, and what a rule could force.
 */
void act_bound(const struct autobuf_limits *limits, const struct autobuf_settings *now,
               struct autobuf_settings *was);

/* Puts that back. 0; errors of autobuf_settings_restore(); -ENOENT: there is no such congestion control any more. */
int act_restore(int copy, const struct noted *noted);

/*
 * SO_MAX_PACING_RATE of a socket, UINT64_MAX: none, as the kernel takes 0; 0: unknown. Sets it: 1; 0: AUTOBUF=off;
 * errors of autobuf_apply().
 */
uint64_t act_pace(int copy);
int act_set_pace(int copy, uint64_t byte_per_s);

/* Puts back buffers, locks and the clamp only. */
int act_restore_sizes(int copy, const struct noted *noted);

#endif
