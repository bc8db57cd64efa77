/* SPDX-License-Identifier: MIT */
/* What every room may use: sizes of public structs, the log line, the environment switch. */
#ifndef AB_BASE_H
#define AB_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#define AB_NS_PER_S 1000000000ULL
#define AB_NS_PER_MS 1000000ULL
#define AB_NS_PER_US 1000ULL

/* No plausible path is faster, and an echo train of 1500-byte packets could not resolve it. */
#define AB_PLAUSIBLE_BIT_PER_S 10000000000ULL

/* A transfer of so many bytes is over before a window is the limit: nothing is looked at for it. */
#define AB_SHORT_BYTES 1000000U

/* A peer that answers no echo is not waited for longer before a transfer. */
#define AB_SILENCE_NS (300 * AB_NS_PER_MS)

/* What a measurement may send: the default and most, and the least. */
#define AB_BUDGET_BYTES 1000000U
#define AB_BUDGET_BYTES_MIN 1000U

#define AB_IP_PACKET_BYTES 1500U   /* full-size packet where nothing better is known */
#define AB_TCP_HEADER_BYTES 52U    /* IPv4, TCP and the timestamp option */

/*
 * Public structs begin with their size, and may come from an older or a newer program than the
 * library: what only one of the two knows is left alone on the way out and zero on the way in.
 * false: theirs is NULL, or its size cannot even hold the size itself.
 */
bool ab_struct_out(void *theirs, const void *ours, size_t ours_bytes);
bool ab_struct_in(void *ours, size_t ours_bytes, const void *theirs);

/* Sets a struct of size bytes up as ours is. Does nothing if it is NULL, or too small for the size itself. */
void ab_struct_init(void *theirs, uint32_t size, const void *ours, size_t ours_bytes);

/* A line for a handle's callback; nothing if there is none. */
struct ab_log {
    autobuf_log_fn *fn;
    void *user;
};

void ab_log(const struct ab_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* a * b / c without overflow on the way; UINT64_MAX where the result has no room. c above 0. */
uint64_t ab_mul_div(uint64_t a, uint64_t b, uint64_t c);

static inline uint64_t ab_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t ab_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Where the kernel, and what stands on its word, has 0 for a time that is not known. */
static inline uint64_t ab_ns_or_unset(uint64_t ns)
{
    return ns ? ns : AUTOBUF_NS_UNSET;
}

/* The largest send buffer (stored) that there is without force. */
static inline uint64_t ab_unforced_stored(const struct autobuf_limits *limits)
{
    return ab_max(limits->tcp_wmem_max_bytes, 2 * ab_min(limits->snd_settable_bytes, UINT64_MAX / 2));
}

#endif
