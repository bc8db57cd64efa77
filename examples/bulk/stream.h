/* SPDX-License-Identifier: MIT */
/*
 * One TCP connection of a bulk transfer. A connection carries, from the client, one line that says
 * what is wanted (struct request); then the data, in one direction or the other, up to its end;
 * last, from the server, TRAILER_BYTES of text that say how it went on its side (struct trailer).
 */
#ifndef STREAM_H
#define STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#define NS_PER_S 1000000000ULL
#define LINE_BYTES 160
#define TRAILER_BYTES 256
#define CHUNK_BYTES 131072 /* as iperf3 writes; what is written at once matters to the kernel */
#define MAX_STREAMS 64

enum tune { TUNE_NONE, TUNE_NAIVE, TUNE_AUTOBUF, TUNE_LIVE };

struct request {
    bool reverse;         /* the server sends */
    enum tune tune;       /* how the sending side is tuned */
    uint32_t intent;      /* AUTOBUF_INTENT_* */
    uint64_t naive_bytes;
    uint64_t bytes;       /* 0: until the time is over */
    uint64_t limit_ns;    /* how long to send; 0: until the bytes are out */
    uint32_t streams;     /* connections that share the transfer */
    char cc[16];          /* congestion control; "": the default */
    uint64_t byte_per_s;  /* this end sends no more; 0: all it can. With TUNE_LIVE what else is free is searched */
};

struct trailer {
    uint64_t bytes;       /* of data, that the server sent or received */
    uint64_t rtt_min_ns;  /* of the server's TCP */
    uint64_t rtt_mean_ns;
    uint64_t snd_buf_bytes;
    uint64_t rcv_buf_bytes;
    uint32_t reason;      /* AUTOBUF_REASON_* of the server's plan */
};

enum phase { PHASE_REQUEST, PHASE_DATA, PHASE_TRAILER, PHASE_DONE };

struct stream {
    int fd;
    enum phase phase;
    struct request request;
    bool sending;          /* this end sends the data */
    uint64_t begin_ns;
    uint64_t end_ns;       /* when to stop sending; UINT64_MAX: never */
    uint64_t total_bytes;  /* moved, trailer included */
    uint64_t arrived_ns;   /* when the last byte did */
    uint64_t progress_ns;
    int left_bytes; /* in TCP's send buffer, when that was last asked */
    uint64_t sample_ns;    /* time of the next sample of the RTT */
    uint64_t rtt_sum_ns;
    uint64_t rtt_count;
    uint64_t rtt_min_ns;
    size_t text_len;       /* of the line or the trailer, as far as it is there */
    uint32_t reason;       /* AUTOBUF_REASON_* of the sending side */
    struct autobuf_flow *flow; /* with TUNE_AUTOBUF, and with TUNE_LIVE once data move; NULL: none */
    bool leads;            /* may measure for all streams of the transfer */
    char text[TRAILER_BYTES];
};

/* The line, ending in a line feed; returns its length. */
size_t request_format(const struct request *r, char text[LINE_BYTES]);
/* From a peer: false for anything that is not exactly such a line (without its line feed). */
bool request_parse(const char *text, struct request *r);

void trailer_format(const struct trailer *t, char text[TRAILER_BYTES]);
bool trailer_parse(const char text[TRAILER_BYTES], struct trailer *t);

/*
 * Sets the congestion control and tunes; peer NULL on a connected socket. leads: this stream may measure the path, and
 * stream_share() tells the others the result. 0 or -errno.
 */
int stream_tune(struct stream *s, const struct sockaddr *peer, socklen_t peer_len, bool leads);

/* Tells the path that one of count streams has measured, if one has, to the others with the same peer. */
void stream_share(struct stream *streams, size_t count);

/* Whether both are connected to the same host. */
bool stream_same_peer(const struct stream *a, const struct stream *b);

void stream_begin(struct stream *s, uint64_t begin_ns);

/* Closes what it holds, the connection included. */
void stream_end(struct stream *s);

/* What poll() is to wait for. */
short stream_events(const struct stream *s);

/*
 * Moves what can be moved without blocking. 0; -errno, -EPROTO for a peer that talks nonsense,
 * -ETIMEDOUT when nothing has moved for 30 s.
 */
int stream_step(struct stream *s, short revents, uint64_t now);

/* What this end knows, for a trailer or a report. */
void stream_measure(const struct stream *s, struct trailer *t);

int run_send(int argc, char **argv);
int run_recv(int argc, char **argv);

#endif
