/* SPDX-License-Identifier: MIT */
/* What every room may use: sizes of public structs, the log, a text that grows. */
#ifndef AB_BASE_H
#define AB_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#define AB_NS_PER_S 1000000000ULL
#define AB_NS_PER_MS 1000000ULL
#define AB_NS_PER_US 1000ULL

/* No plausible path is faster. A train of 1500-byte echoes could not resolve a higher rate. */
#define AB_PLAUSIBLE_BIT_PER_S 10000000000ULL

/* A transfer of up to so many bytes ends before any window limits it, so nothing is measured for it. */
#define AB_SHORT_BYTES 1000000U

/* How long a transfer waits at most for a peer that answers no echo. */
#define AB_SILENCE_NS (300 * AB_NS_PER_MS)

/* Bytes that a measurement may send: the default, which is also the most, and the least. */
#define AB_BUDGET_BYTES 1000000U
#define AB_BUDGET_BYTES_MIN 1000U

#define AB_IP_PACKET_BYTES 1500U   /* a full-size packet, if nothing better is known */
#define AB_TCP_HEADER_BYTES 52U    /* IPv4, TCP and the timestamp option */

/*
 * Copy a public struct in or out. It begins with its size, and the program may be older or newer than the library:
 * on the way in, fields that the program does not have are 0; on the way out, fields that the library does not have
 * are left alone. Both return false if theirs is NULL, or if its size is too small for the size field itself.
 */
bool ab_struct_out(void *theirs, const void *ours, size_t ours_bytes);
bool ab_struct_in(void *ours, size_t ours_bytes, const void *theirs);

/*
 * Sets up a struct of size bytes as ours is. Does nothing if it is NULL, or if size is too small for the size
 * field.
 */
void ab_struct_init(void *theirs, uint32_t size, const void *ours, size_t ours_bytes);

/* A text that is appended to as snprintf() does; what does not fit is counted only. */
struct ab_text {
    char *buf;
    size_t cap;
    size_t len;
};

void ab_add(struct ab_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A handle's callback, if it has one. */
struct ab_log {
    autobuf_log_fn *fn;
    void *user;
};

#define AB_LOG_BYTES 256U /* of a line, with its end; what does not fit is cut off */

/* Whether anybody reads it. */
bool ab_log_is_on(const struct ab_log *log);

/* Tells how something goes: AUTOBUF_EVENT_NOTE. All else is an event with numbers: event.h. */
void ab_log(const struct ab_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* a * b / c without overflow in between; UINT64_MAX if the result does not fit. c must be above 0. */
uint64_t ab_mul_div(uint64_t a, uint64_t b, uint64_t c);

static inline uint64_t ab_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of sizes in memory, which have 32 bits on some machines. */
static inline size_t ab_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline uint64_t ab_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The kernel says 0 for a time that is not known; the library says AUTOBUF_NS_UNSET. */
static inline uint64_t ab_ns_or_unset(uint64_t ns)
{
    return ns ? ns : AUTOBUF_NS_UNSET;
}

/* The largest send buffer (stored) that a process can have without force. */
static inline uint64_t ab_unforced_snd_stored(const struct autobuf_limits *limits)
{
    return ab_max(limits->tcp_wmem_max_bytes, 2 * ab_min(limits->snd_settable_bytes, UINT64_MAX / 2));
}

/* The same of receive buffers. */
static inline uint64_t ab_unforced_rcv_stored(const struct autobuf_limits *limits)
{
    return ab_max(limits->tcp_rmem_max_bytes, 2 * ab_min(limits->rcv_settable_bytes, UINT64_MAX / 2));
}

#endif
