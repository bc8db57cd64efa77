/* SPDX-License-Identifier: MIT */
/* What the command prints of transfers. */
#ifndef SHOW_TRANSFER_H
#define SHOW_TRANSFER_H

#include <stdint.h>
#include <stdio.h>

#include "transfers.h"

#define PICTURE_COLUMNS 20

/* Of a transfer that goes on. Zeros, but for the time, before the first call. */
struct transfer_picture {
    uint64_t begin_ns;
    uint64_t shown_ns; /* last */
    uint64_t bytes;    /* then */
    uint64_t rates[PICTURE_COLUMNS]; /* the newest last */
};

/* One line of a terminal, which the next call overwrites: the rates so far; the rate, the window, the round trip now. */
void show_transfer_progress(FILE *out, struct transfer_picture *p, const struct transfer *t, uint64_t now_ns);

/* Why a transfer has no rate, in words. */
const char *show_transfer_why(const struct transfer_result *r);

/* The table, and for each direction what tuning has gained, and why. */
void show_transfers(FILE *out, const struct transfer_result results[TRANSFERS], uint64_t seconds);

/* A member of the JSON object; a comma follows. */
void show_transfers_json(FILE *out, const struct transfer_result results[TRANSFERS]);

#endif
