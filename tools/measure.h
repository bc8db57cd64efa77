/* SPDX-License-Identifier: MIT */
/*
 * Measurements of a path: by ICMP echoes, or over TCP with autobuf serve. And the transfers of autobuf measure: each
 * direction with the kernel's defaults and tuned, one after the other; and what is free.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <autobuf/autobuf.h>

#include "arguments.h"
#include "resolve.h"
#include "transfer.h"

#define READINGS 1024

struct measurement {
    struct source source; /* to send from; all zero: the kernel chooses */
    bool progress;        /* a line on stderr while it goes on */
    struct sockaddr_storage peer; /* that was measured */
    socklen_t peer_len;           /* 0: none was */
    struct autobuf_socket socket; /* of the connection to a server; size 0: there was none */
    bool greeted;                 /* it answered HELLO */
    uint64_t readings[READINGS];  /* of echoes */
    size_t reading_count;
    struct autobuf_available available; /* that echoes showed; size 0: nobody asked */
};

/*
 * Each measures the path to the host that is asked for. 0 with *path filled, also when only the round-trip time was
 * found; resolve()'s errors;
 *
 *   measure_echoes()  errors of autobuf_probe_open(), _step() and _result()
 *   measure_server()  errors of socket(2), connect(2), autobuf_inband_step() and _result()
 */
int measure_echoes(const struct arguments *want, struct measurement *m, struct autobuf_path *path);
int measure_server(const struct arguments *want, struct measurement *m, struct autobuf_path *path);

enum { SENDING_DEFAULT, SENDING_TUNED, RECEIVING_DEFAULT, RECEIVING_TUNED, TRANSFERS };

struct transfer_result {
    bool receives, tuned;
    int error;          /* 0: there is a rate */
    uint64_t code;      /* of the server's refusal; 0: none */
    uint64_t rate_bit_per_s; /* of payload that arrived */
    uint64_t bytes;          /* that arrived */
    uint64_t elapsed_ns;     /* in this time */
    struct transfer_line sender; /* what the sender saw */
};

/*
 * Makes them, each of as many seconds as are wanted, or as the server has granted: returns how many. If the server
 * refuses one, the others are not tried, and have the same error.
 */
uint64_t transfers_run(const struct arguments *want, const struct measurement *m, const struct autobuf_path *path,
                       struct transfer_result results[TRANSFERS]);

/*
 * Has stretches of paced data sent both ways over one connection to the server, and fills *found with what they show to
 * be free. Returns 0, also if nothing can be told; AUTOBUF_E_UNSUPPORTED, and *code; other errors of a transfer.
 */
int measure_free(const struct measurement *m, const struct autobuf_path *path, struct autobuf_available *found,
                 uint64_t *code);

/* A line for each direction, or for the one with less. */
void show_free(FILE *out, const struct autobuf_available *found);

#define PICTURE_COLUMNS 20

/* Of a transfer that goes on. Zeros, but for the time, before the first call. */
struct transfer_picture {
    uint64_t begin_ns;
    uint64_t shown_ns; /* last */
    uint64_t bytes;    /* then */
    uint64_t rates[PICTURE_COLUMNS]; /* the newest last */
};

/* One line of a terminal, which the next call overwrites: the rates so far; the rate, the window, the RTT now. */
void show_transfer_progress(FILE *out, struct transfer_picture *p, const struct transfer *t, uint64_t now_ns);

/*
 * Why a transfer, or measure_free(), failed, in words; the table, and for each direction what tuning has gained, and
 * why; a member of the JSON object, which a comma follows.
 */
const char *show_transfer_why(int error, uint64_t code);
void show_transfers(FILE *out, const struct transfer_result results[TRANSFERS], uint64_t seconds);
void show_transfers_json(FILE *out, const struct transfer_result results[TRANSFERS]);

#endif
