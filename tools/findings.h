/* SPDX-License-Identifier: MIT */
/*
 * What the command has found out, what follows from it for whom, and what limits a transfer on this path. Pure, but for
 * host_read().
 */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <autobuf/autobuf.h>

#include "arguments.h"
#include "resolve.h"

#define UNKNOWN (-1)
#define INITIAL_WINDOW_BYTES 14480U /* ten packets (RFC 6928) of 1448 bytes */

/* A file that sets a size that autotuning may reach. */
struct setting {
    char file[128];      /* "": none is known */
    int64_t third_bytes; /* the last of its three values */
};

/* What may limit a transfer on this host, apart from its buffer limits. */
struct host_facts {
    int64_t mtu_probing;           /* net.ipv4.tcp_mtu_probing; UNKNOWN, as all below, where it cannot be read */
    int64_t sack;                  /* net.ipv4.tcp_sack; UNKNOWN where it cannot be read */
    int64_t slow_start_after_idle; /* net.ipv4.tcp_slow_start_after_idle */
    int64_t tcp_used_bytes;        /* memory of all TCP sockets now */
    int64_t queue_packets;         /* txqueuelen of the device towards the peer */
    int64_t queue_drops;           /* packets that its qdisc has dropped since it was set up */
    int64_t ssthresh_packets;      /* remembered of earlier connections to the peer (tcp_metrics) */
    int64_t route_window_bytes;    /* of the route to the peer: what limits the window that is offered; UNKNOWN: none */
    int64_t route_cwnd_packets;    /* what limits the congestion window; UNKNOWN: none */
    int64_t segmentation_offload;  /* of the device: 0 if neither TSO nor GSO is on */
    int64_t receive_offload;       /* 0 if GRO is not on */
    int64_t memory_bytes;          /* of this host */
    uint64_t tcp_mem_pages[3];     /* net.ipv4.tcp_mem, if the next is known */
    int64_t tcp_mem_bytes;         /* net.ipv4.tcp_mem, second value; UNKNOWN also in a container */
    bool inner_namespace;          /* not the host's first network namespace: a container's */
    char kernel[48];               /* "6.18.44-amd64" */
    char congestion_control[16];   /* of the route to the peer, or else of the host; "": unknown */
    char device[16];               /* "": unknown, or no peer */
    char qdisc[16];
    char peer[64];                 /* numeric */
    struct setting tcp_wmem;       /* files of sysctl.d(5) that set what holds now */
    struct setting tcp_rmem;
};

/*
 * Reads these facts and sends nothing. peer: an IPv4 or IPv6 address, or NULL; its route is that of a socket which is
 * bound to source. A fact that cannot be read stays UNKNOWN or "".
 */
void host_read(const struct sockaddr *peer, socklen_t peer_len, const struct source *source, struct host_facts *facts);

struct findings {
    struct autobuf_path path;
    struct autobuf_available available; /* size 0: nobody asked */
    struct autobuf_path share; /* of one connection, if several use the path; a rate that is unsure is unknown here */
    struct autobuf_limits limits;
    struct autobuf_socket socket; /* a new one */
    struct autobuf_plan plan;     /* for the user who runs the command, or whom it was told */
    struct autobuf_plan user;     /* for an ordinary user */
    struct autobuf_plan root;     /* for one with CAP_NET_ADMIN */
    uint64_t expected_bytes;      /* of the transfer; 0: unknown */
};

/*
 * Makes the share and the plans, from path, limits and socket, for the intent, expected_bytes, streams and as_user that
 * are wanted. Errors of autobuf_plan_make().
 */
int findings_plan(struct findings *f, const struct arguments *want);

/* Why the path's rate could not be told, as autobuf_unsure_name() says it: then there is no plan. NULL: it could. */
const char *findings_unsure(const struct findings *f);

/* The payload rate that a window allows at the minimum RTT, in bit/s; 0: unknown. */
uint64_t findings_window_rate(const struct findings *f, uint64_t window_bytes);

/* The same, but never more than what is known of the path in that direction. */
uint64_t findings_rate(const struct findings *f, bool sends, uint64_t window_bytes);

/* Whether the path may have more in that direction than is known of it, and the window would allow it. */
bool findings_or_more(const struct findings *f, bool sends, uint64_t window_bytes);

/* The window that the transfer needs in one direction: the path's, or the whole transfer. 0: unknown. */
uint64_t findings_wanted(const struct findings *f, bool sends);

/* How long a transfer takes. AUTOBUF_NS_UNSET: this end of the range is unknown. */
struct duration {
    uint64_t low_ns, high_ns;
};

/*
 * The time that bytes of payload take at a rate in bit/s, after slow start from ten packets (RFC 6928) if a round-trip
 * time is given; AUTOBUF_NS_UNSET: the rate is 0.
 */
uint64_t findings_time_ns(uint64_t bytes, uint64_t rate_bit_per_s, uint64_t rtt_ns);

/*
 * How long a new connection with this window takes for the expected bytes while it has the path for itself. Other
 * traffic makes it longer, so the high end is known only where the path may have more than is known of it. Both are
 * unknown if the path is, or if no bytes were told.
 */
struct duration findings_duration(const struct findings *f, bool sends, uint64_t window_bytes);

/* The next power of two, or one and a half of one, in bytes. */
uint64_t findings_sensible(uint64_t bytes);

#define TCP_WINDOW_BYTES (1ULL << 30) /* the largest (RFC 7323); a sysctl is an int, too */

/* The largest buffer that is advised on a host: what TCP can use, and its memory allows. */
uint64_t findings_size_most(const struct autobuf_limits *limits);

/* Whether anything is known of what the path holds. */
bool findings_known(const struct findings *f);

/* Whether autotuning can fill the path with sizes that may be advised here. */
bool findings_fillable(const struct findings *f, bool sends);

#define SYSCTLS_MOST 4

struct sysctl_line {
    char name[32];
    char value[64];
};

/*
 * Finds the settings with which autotuning alone fills the path, for all programs of the host: sizes are powers of
 * two, or halfway between two. None lowers a value. Returns how many there are; 0: the host needs none, or can have no
 * larger ones, or the path or its present limits are unknown.
 */
size_t findings_sysctls(const struct findings *f, struct sysctl_line out[SYSCTLS_MOST]);

#define BOTTLENECKS_MOST 24

enum way { WAY_SYSCTL, WAY_AUTOBUFD, WAY_RUN, WAY_LINK, WAYS };

enum help {
    HELP_UNSAID, /* it is no window that these ways could enlarge */
    HELP_NO,
    HELP_ROOT, /* only with CAP_NET_ADMIN, which whoever asks has not */
    HELP_PART, /* not as far as the path needs */
    HELP_ALL,
};

struct bottleneck {
    double lost;    /* share of the path's rate that is lost, 0 to 1, an estimate; 0: it depends */
    char what[240]; /* without a line feed */
    char line[200]; /* the command that changes it */
    enum help ways[WAYS]; /* of a window: what else enlarges it */
};

/* format: what it is, a line feed, and the command that changes it. */
void bottleneck_say(struct bottleneck *bottleneck, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/*
 * The payload rates between which TCP with this congestion control may be where so many of the packets that were sent
 * are lost, and at least this part of them on the way of the data. 0: unknown.
 */
void bottlenecks_loss(const char *congestion_control, double lost, double sent, double part,
                      const struct autobuf_path *path, double *least_bit_per_s, double *most_bit_per_s);

/*
 * Whether a line of autobuf_plan_sysctl() can be set here: net.ipv4.tcp_mem must leave half of this host's memory to
 * others, lowers none of its values, and a container does not have it.
 */
bool bottlenecks_settable(const char *line, const struct findings *found, const struct host_facts *host);

/*
 * Says for each way how far it enlarges the send or the receive window, beyond window_bytes. run and link: with the
 * permission of whoever the plan of *f is for. autobufd has CAP_NET_ADMIN.
 */
void ways_find(const struct findings *f, bool sends, uint64_t window_bytes, enum help ways[WAYS]);

/* "helps: sysctl, autobufd; as root: run, link" */
void ways_text(const enum help ways[WAYS], char *text, size_t cap);

/* An object with a member for each way, or null. */
void ways_json(FILE *out, const enum help ways[WAYS]);

/* Writes the bottlenecks, largest loss first, and returns how many there are. */
size_t bottlenecks_find(const struct findings *found, const struct host_facts *host,
                      struct bottleneck out[BOTTLENECKS_MOST]);

struct transfer_result;

/* One object on one line, keys as the manual page has them. transfers: NULL: none was asked for. */
void show_json(FILE *out, const struct findings *f, const struct host_facts *host, const struct bottleneck *bottlenecks,
               size_t count, const struct transfer_result *transfers);

/* Members of an object; a comma follows. side: "snd_", "rcv_" or "". */
void json_path_rates(FILE *out, const struct autobuf_path *path);
void json_duration(FILE *out, const char *side, struct duration duration);
void json_host(FILE *out, const struct autobuf_limits *limits, const struct host_facts *host);
void json_bottlenecks(FILE *out, const struct bottleneck *bottlenecks, size_t count);

/*
 * Parts of the text: rate, RTT, BDP and cost; a histogram of the readings, which it sorts, with the chosen rate marked;
 * the two lines of the plan, and the lines that an administrator must change; this host's kernel and limits; what one
 * connection can do, of programs as they are and with libautobuf; the bottlenecks, with the line that changes each; and
 * a file for /etc/sysctl.d.
 */
void show_label(FILE *out, const char *label); /* in columns of its own, before a figure */
void show_path(FILE *out, const struct autobuf_path *path);
void show_histogram(FILE *out, uint64_t *rates, size_t count, uint64_t chosen);
void show_plan(FILE *out, const struct findings *f, const struct host_facts *host);
void show_host(FILE *out, const struct autobuf_limits *limits, const struct host_facts *host);
void show_outlook(FILE *out, const struct findings *f, const struct host_facts *host);
void show_bottlenecks(FILE *out, const struct bottleneck *bottlenecks, size_t count);
void show_sysctls(FILE *out, const struct findings *f);

#endif
