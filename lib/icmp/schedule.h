/* SPDX-License-Identifier: MIT */
/*
 * ICMP echo messages (RFC 792, RFC 4443), and the measurement without its socket. Pure: bytes and times in, bytes and
 * results out. autobuf_probe_*() adds the socket.
 */
#ifndef AB_SCHEDULE_H
#define AB_SCHEDULE_H

#include "stretches.h"

#define AB_ECHO_HEADER_BYTES 8U
#define AB_TOKEN_BYTES 16U
#define AB_ECHO_PARSE_BYTES (AB_ECHO_HEADER_BYTES + AB_TOKEN_BYTES) /* header and token */
#define AB_ECHO_MAX_BYTES 1480U

struct ab_echo {
    bool ipv6;
    uint16_t ident; /* a ping socket overwrites it, and shows only its own replies */
    uint8_t token[AB_TOKEN_BYTES];
};

/*
 * Writes an echo request of len bytes (AB_ECHO_PARSE_BYTES to AB_ECHO_MAX_BYTES): header, token, and
 * filler that does not compress. The ICMPv6 checksum is left zero, for the kernel.
 */
void ab_echo_build(const struct ab_echo *echo, uint16_t sequence, uint8_t *buf, size_t len);

/*
 * Says whether the len bytes at buf begin an echo reply with this run's token, and stores its number in *sequence.
 * It does not compare the identifier: the token is longer, and a NAT may change the identifier.
 */
bool ab_echo_parse(const struct ab_echo *echo, const uint8_t *buf, size_t len, uint16_t *sequence);

/*
 * The same for an echo request of this run that an ICMP error quotes. An error without the token does not count,
 * because a host off the path can forge it. (RFC 792 asks routers to quote 8 bytes; RFC 1812, 4.3.2.3, as many as
 * fit.)
 */
bool ab_echo_quotes(const struct ab_echo *echo, const uint8_t *buf, size_t len, uint16_t *sequence);

/* Length of the IPv4 header before a message that was read from a raw socket; 0: the header is not valid. */
size_t ab_echo_ipv4_header_bytes(const uint8_t *buf, size_t len);

/*
 * Which echo to send next, what a reply means, when the measurement is over:
 *
 *   pings    Five small echoes, 2 ms apart, give the RTT. Until one is answered, one more is sent every 200 ms.
 *            Without any answer the measurement ends after 1 s, or sooner if the caller asked for that.
 *   extra    If the small echoes come back in a bunch, address resolution or a waking radio delayed them. Then one
 *            more echo shows the RTT; if it is lost, up to two others at the end.
 *   first    One train of 10 packets gives a rough rate, for 15 KB.
 *   second   One train of the rest of 64 KB, 32 packets. On paths up to 200 Mbit/s it lasts 2 ms.
 *   last     On faster paths: up to three trains of about 2.5 ms each, pipelined, within 1 MB.
 *   again    While the rate is unsure: two more trains, a little later, up to three times within budget and time.
 *   stretches  If they are wanted: up to four of packets at a pace, with what the budget has left (stretches.h).
 *
 * If only BDPs between two bounds matter, the first train is sent right after the small echoes, and the measurement
 * ends once the BDP is certainly outside them: usually after one round trip.
 *
 * If a queue dropped the end of a train, the next trains are only as long as what came through, and there are more.
 */
enum ab_phase { AB_PINGS, AB_FIRST, AB_SECOND, AB_LAST, AB_AGAIN, AB_STRETCHES, AB_DONE };

struct ab_schedule {
    struct ab_echo echo;
    struct ab_log log;
    struct ab_packet *packets; /* sent so far: count of capacity */
    uint64_t *scratch;         /* capacity values */
    size_t count;
    size_t capacity;
    enum ab_phase phase;
    uint32_t small_bytes; /* IP bytes of a small echo */
    uint32_t full_bytes;  /* IP bytes of a packet in a train */
    uint32_t budget_bytes;
    uint32_t pings_left;  /* small echoes still to be sent */
    uint32_t trains;      /* begun */
    uint32_t train_size;  /* packets of a train of this phase */
    uint32_t train_left;  /* still to be sent of the current one */
    uint32_t trains_left; /* further ones in this phase */
    uint32_t burst_max;   /* longest train, in packets, that a queue took, or that the receive buffer holds */
    bool short_queue;     /* a queue dropped the end of a train */
    bool extra_due;       /* an extra small echo is to be sent, because the first ones came in a bunch */
    bool only_extra_missing; /* every other reply has come, or its time is over */
    size_t extra;         /* index in packets of the newest extra echo; 0: none was sent */
    uint32_t extras_sent;
    uint32_t agains;      /* attempts after the first, because the rate was unsure */
    bool black_hole;      /* full packets were lost without such an error */
    bool shrunk;          /* an ICMP error made packets smaller during the run */
    uint32_t received;
    size_t phase_begin;   /* first packet of this phase */
    uint64_t cost_bytes;
    uint64_t bdp_low_bytes;  /* the range of BDPs that matter; 0: all */
    uint64_t bdp_high_bytes;
    uint64_t silence_ns;  /* without any reply the measurement ends after this time */
    uint64_t start_ns;
    uint64_t end_ns;      /* the deadline: nothing is sent later */
    uint64_t next_ns;     /* earliest time of the next packet */
    uint64_t spacing_ns;  /* between trains of this phase */
    uint64_t close_ns;    /* until when to wait for this phase's replies */
    uint64_t last_ns;     /* when the newest reply came */
    uint64_t finished_ns;
    size_t measured;      /* packets before the stretches; 0: none has begun */
    struct ab_stretches *stretches; /* NULL: nobody asked what is free */
};

/* How many packets a measurement with these options sends at most. */
size_t ab_schedule_capacity(const struct autobuf_probe_options *options);

/* Begins at now_ns. packets and scratch have room for capacity each. -EINVAL: options. */
int ab_schedule_init(struct ab_schedule *schedule, const struct ab_echo *echo,
                 const struct autobuf_probe_options *options, struct ab_packet *packets,
                 uint64_t *scratch, size_t capacity, uint64_t now_ns);

/* How many packets the rate is told from: those before the stretches. */
size_t ab_schedule_measured(const struct ab_schedule *schedule);

/* As autobuf_probe_next(), _reply(), _mtu(), _deadline_ns(), _result(). */
int ab_schedule_next(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap);
uint64_t ab_schedule_deadline_ns(const struct ab_schedule *schedule);
int ab_schedule_result(const struct ab_schedule *schedule, struct autobuf_path *path);
void ab_schedule_mtu(struct ab_schedule *schedule, uint32_t packet_bytes);

/* As autobuf_probe_reply(). Returns whether the reply belongs to this run and is new. */
bool ab_schedule_reply(struct ab_schedule *schedule, uint64_t stamp_ns, const uint8_t *buf, size_t len);

/* Whether an ICMP error quotes a packet of this run. */
bool ab_schedule_quoted(const struct ab_schedule *schedule, const uint8_t *quoted, size_t len);

/* Sets when packet index was really sent, which ab_schedule_next() cannot know. */
void ab_schedule_sent(struct ab_schedule *schedule, size_t index, uint64_t sent_ns);

/*
 * The same by the kernel's stamp, for packets of trains only: echoes that wait for an address resolution leave
 * together, and ping_answered() tells them by when they were handed over.
 */
void ab_schedule_stamped(struct ab_schedule *schedule, size_t index, uint64_t stamp_ns);

/* Takes back the packets from index on, which were built but not sent. */
void ab_schedule_unsend(struct ab_schedule *schedule, size_t index);

#endif
