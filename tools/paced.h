/* SPDX-License-Identifier: MIT */
/*
 * One end of a stretch of lib/available/stretch.h over a TCP connection. The sender writes chunks at the pace, each
 * when TCP has sent the one before: so the time in a chunk's first bytes is that at which it left. Nothing here
 * blocks, and a step moves a bounded number of bytes.
 *
 *     chunk = time payload    time: 8 bytes, the highest first: nanoseconds since the first chunk
 *     end   = time            with the highest bit. Chunks that were sent later do not count, because packets were
 *                             lost; all bits: none were
 */
#ifndef PACED_H
#define PACED_H

#include "../lib/available/stretch.h"

#define PACED_HEADER_BYTES 8U
#define PACED_CHUNK_BYTES 65536U /* the largest */
#define PACED_CHUNKS 1024U       /* of a stretch, at most */
#define PACED_END (1ULL << 63)

struct paced {
    int fd; /* the caller's */
    bool sends;
    bool ends;  /* a sender: all chunks are sent; a receiver: the end is here */
    struct ab_stretch how;
    uint64_t most_bytes;    /* of IP */
    uint64_t segment_bytes; /* payload of a packet */
    uint64_t chunk_bytes;   /* with its time; 0: not known yet */
    uint64_t begin_ns;      /* AUTOBUF_NS_UNSET: the first chunk is not sent yet */
    uint64_t newest_ns;     /* the newest chunk was sent */
    uint64_t due_ns;        /* when a sender has something to do */
    uint64_t until_ns;      /* sent later, chunks do not count */
    uint64_t moved_bytes;   /* payload */
    uint64_t ip_bytes;      /* of whole chunks */
    uint32_t resent_packets; /* of the connection, at the beginning */
    uint8_t time[PACED_HEADER_BYTES];
    size_t at;     /* bytes of the present chunk, or of the end, that have moved */
    size_t count;  /* chunks */
    struct ab_chunk chunks[PACED_CHUNKS]; /* of a receiver */
    struct ab_available room;
};

/* Sets what stretches need of a connection. Returns 0, or an error of autobuf_inband_prepare(). */
int paced_prepare(int fd);

/* Begins. A sender knows its chunk_bytes then; a receiver is told them with paced_chunk(). 0; -ENOTCONN; -EBADF. */
int paced_begin(struct paced *p, int fd, bool sends, const struct ab_stretch *how);

/* False: no chunk has so many bytes. */
bool paced_chunk(struct paced *p, uint64_t bytes);

/* The events for poll(2), and when to step even if nothing happens. */
int paced_events(const struct paced *p);
uint64_t paced_deadline_ns(const struct paced *p);

/*
 * Moves what is due; not_now: a sender begins no chunk. payload has PACED_CHUNK_BYTES. Returns 0: it goes on; 1: it is
 * over. AUTOBUF_E_PROTOCOL: more came than a stretch has; -ECONNRESET; other errnos of send(2), recvmsg(2).
 */
int paced_step(struct paced *p, const char *payload, bool not_now);

/* The IP rate at which the chunks were sent; 0: there were fewer than two. */
uint64_t paced_sent_bit_per_s(const struct paced *p);

#endif
