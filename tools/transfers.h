/* SPDX-License-Identifier: MIT */
/* The transfers of autobuf measure: each direction with the kernel's defaults and tuned, one after the other. */
#ifndef TRANSFERS_H
#define TRANSFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <autobuf/autobuf.h>

#include "resolve.h"
#include "transfer.h"

enum { SENDING_DEFAULT, SENDING_TUNED, RECEIVING_DEFAULT, RECEIVING_TUNED, TRANSFERS };

struct transfer_result {
    bool receives;
    bool tuned;
    int error;          /* 0: there is a rate */
    uint64_t code;      /* of the server's refusal; 0: none */
    uint64_t rate_bit_per_s; /* of payload that arrived */
    uint64_t bytes;          /* that arrived */
    uint64_t elapsed_ns;     /* in this time */
    struct transfer_line sender; /* what the sender saw */
};

struct transferring {
    const struct sockaddr *peer;
    socklen_t peer_len;
    const struct source *source;
    const struct autobuf_path *path; /* to the peer: flows are told it */
    uint32_t intent;                 /* AUTOBUF_INTENT_* */
    uint64_t seconds;                /* of each transfer; what the server has granted, afterwards */
    bool progress;                   /* a line on stderr while it goes on */
};

/* Makes them. If the server refuses one, the others are not tried, and have the same error. */
void transfers_run(struct transferring *want, struct transfer_result results[TRANSFERS]);

/* ------------------------------------------------------------------- what the command prints of them */

#define PICTURE_COLUMNS 20

/* Of a transfer that goes on. Zeros, but for the time, before the first call. */
struct transfer_picture {
    uint64_t begin_ns;
    uint64_t shown_ns; /* last */
    uint64_t bytes;    /* then */
    uint64_t rates[PICTURE_COLUMNS]; /* the newest last */
};

/*
 * One line of a terminal, which the next call overwrites: the rates so far; the rate, the window, the round trip now.
 */
void show_transfer_progress(FILE *out, struct transfer_picture *p, const struct transfer *t, uint64_t now_ns);

/* Why a transfer has no rate, in words. */
const char *show_transfer_why(const struct transfer_result *r);

/* The table, and for each direction what tuning has gained, and why. */
void show_transfers(FILE *out, const struct transfer_result results[TRANSFERS], uint64_t seconds);

/* A member of the JSON object; a comma follows. */
void show_transfers_json(FILE *out, const struct transfer_result results[TRANSFERS]);

#endif
