/* SPDX-License-Identifier: MIT */
/* What every room may use: public structs, text, the log, events. */
#ifndef AB_BASE_H
#define AB_BASE_H

#include <stdbool.h>

#include <autobuf/autobuf.h>

#define AB_NS_PER_S 1000000000ULL
#define AB_NS_PER_MS 1000000ULL
#define AB_NS_PER_US 1000ULL

#define AB_PATH_AT_LEAST (AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST)
#define AB_PATH_ECHOED (AUTOBUF_PATH_TX_ECHOED | AUTOBUF_PATH_RX_ECHOED)

/* A train of 1500-byte echoes cannot resolve a higher rate. */
#define AB_PLAUSIBLE_BIT_PER_S 10000000000ULL

/* A shorter transfer ends before any window is its bottleneck, so nothing is measured for it. */
#define AB_SHORT_BYTES 1000000U

/* A transfer waits so long for the first echo reply. */
#define AB_SILENCE_NS (300 * AB_NS_PER_MS)

/* Bytes that a measurement may send: the default and maximum, and the minimum. */
#define AB_BUDGET_BYTES 1000000U
#define AB_BUDGET_BYTES_MIN 1000U

#define AB_IP_PACKET_BYTES 1500U   /* a full-size packet, if the MTU is unknown */
#define AB_TCP_HEADER_BYTES 52U    /* IPv4, TCP and the timestamp option */

/*
 * Copy a public struct in or out. It begins with its size, as the program may be older or newer than the library. On
 * the way in, fields that the program does not have are 0; on the way out, fields that the library does not have stay.
 * Both return false if theirs is NULL, or too small for the size field.
 */
bool ab_struct_out(void *theirs, const void *ours, size_t ours_bytes);
bool ab_struct_in(void *ours, size_t ours_bytes, const void *theirs);

/* A text that grows; len counts also what does not fit. */
struct ab_text {
    char *buf;
    size_t cap;
    size_t len;
};

void ab_add(struct ab_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct ab_log {
    autobuf_log_fn *fn;
    void *user;
};

#define AB_LOG_BYTES 256U /* of a line, with its end; what does not fit is cut off */

/* Whether anybody reads it. */
bool ab_log_is_on(const struct ab_log *log);

/* Logs AUTOBUF_EVENT_NOTE. */
void ab_log(const struct ab_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* a * b / c without overflow in between; UINT64_MAX if the result does not fit. c must be above 0. */
uint64_t ab_mul_div(uint64_t a, uint64_t b, uint64_t c);

static inline uint64_t ab_percent(uint64_t whole, uint64_t percent)
{
    return ab_mul_div(whole, percent, 100);
}

/* Whether a file may become so long: beyond RLIMIT_FSIZE write() raises SIGXFSZ. */
bool ab_file_may_have(uint64_t bytes);

static inline uint64_t ab_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline size_t ab_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline uint64_t ab_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The kernel has 0 for an unknown time. */
static inline uint64_t ab_ns_or_unset(uint64_t ns)
{
    return ns ? ns : AUTOBUF_NS_UNSET;
}

/* The largest sk_sndbuf without SO_SNDBUFFORCE. */
static inline uint64_t ab_unforced_sndbuf(const struct autobuf_limits *limits)
{
    return ab_max(limits->tcp_wmem_max_bytes, 2 * ab_min(limits->snd_settable_bytes, UINT64_MAX / 2));
}

/* The largest sk_rcvbuf without SO_RCVBUFFORCE. */
static inline uint64_t ab_unforced_rcvbuf(const struct autobuf_limits *limits)
{
    return ab_max(limits->tcp_rmem_max_bytes, 2 * ab_min(limits->rcv_settable_bytes, UINT64_MAX / 2));
}

/* A rate that may be far off plans nothing. One of a stream that came in groups has a BDP, and is a lower bound. */
void ab_path_forget_unsure(struct autobuf_path *path);

/* Passes an event to the callback and to the log of AUTOBUF. Without a text it gets one in English. */
void ab_event(const struct ab_log *log, struct autobuf_event *event);

/* event.c alone turns events into English or JSON. An event in English, except notes and plans, which have a text. */
void ab_event_say(const struct autobuf_event *event, char *text, size_t cap);

/*
 * An event as a JSON object on one line: all fields but size and text, constants as words, unknown values as null.
 * Returns the length without the NUL, also if cap is too small for it.
 */
size_t ab_event_json(const struct autobuf_event *event, char *text, size_t cap);

/*
 * AUTOBUF in the environment: "off", "log" or "log=FILE". It is read once, when the library is loaded: a later
 * getenv(3) would race with setenv(3) in another thread. Programs that are setuid or have file capabilities ignore it.
 * Reads it as if it had this value when the library was loaded; NULL: unset. For tests.
 */
void ab_environment_read(const char *value);

bool ab_environment_logs(void);

/*
 * Appends a line, without line feed in text, to the file that AUTOBUF names, or writes it to standard error, if that is
 * the file of the loading, and no connection.
 */
void ab_environment_line(const char *text);

#endif
