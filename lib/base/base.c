/* SPDX-License-Identifier: MIT */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

bool ab_struct_out(void *theirs, const void *ours, size_t ours_bytes)
{
    uint32_t size;

    if (!theirs)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return false;
    memcpy(theirs, ours, ab_min_size(size, ours_bytes));
    memcpy(theirs, &size, sizeof size);
    return true;
}

bool ab_struct_in(void *ours, size_t ours_bytes, const void *theirs)
{
    uint32_t size;

    if (!theirs)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return false;
    memset(ours, 0, ours_bytes);
    memcpy(ours, theirs, ab_min_size(size, ours_bytes));
    size = (uint32_t)ours_bytes;
    memcpy(ours, &size, sizeof size);
    return true;
}

void ab_add(struct ab_text *t, const char *format, ...)
{
    bool room = t->len < t->cap;
    va_list args;
    int added;

    va_start(args, format);
    added = vsnprintf(room ? t->buf + t->len : NULL, room ? t->cap - t->len : 0, format, args);
    va_end(args);
    t->len += added > 0 ? (size_t)added : 0;
}

static bool is_unsure(uint32_t unsure, uint64_t bdp_bytes)
{
    return unsure && (unsure != AUTOBUF_UNSURE_BATCHES || !bdp_bytes);
}

void ab_path_forget_unsure(struct autobuf_path *path)
{
    if (is_unsure(path->tx_unsure, path->tx_bdp_bytes)) {
        path->tx_rate_bit_per_s = path->tx_bdp_bytes = 0;
        path->flags &= ~(AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED);
    }
    if (is_unsure(path->rx_unsure, path->rx_bdp_bytes)) {
        path->rx_rate_bit_per_s = path->rx_bdp_bytes = 0;
        path->flags &= ~(AUTOBUF_PATH_RX_AT_LEAST | AUTOBUF_PATH_RX_ECHOED);
    }
}

bool ab_file_may_have(uint64_t bytes)
{
    struct rlimit max;

    return getrlimit(RLIMIT_FSIZE, &max) < 0 || max.rlim_cur == RLIM_INFINITY || bytes <= max.rlim_cur;
}

#ifdef __SIZEOF_INT128__

__extension__ typedef unsigned __int128 wide_uint;

uint64_t ab_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    wide_uint bdp = (wide_uint)a * b / c;

    return bdp > UINT64_MAX ? UINT64_MAX : (uint64_t)bdp;
}

#else /* machines of 32 bits */

/* a * b in 128 bits. Returns the upper half. */
static uint64_t multiply(uint64_t a, uint64_t b, uint64_t *low)
{
    uint64_t a_high = a >> 32, a_low = a & UINT32_MAX, b_high = b >> 32, b_low = b & UINT32_MAX;
    uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
    uint64_t other = a_low * b_high + (middle & UINT32_MAX);

    *low = a * b;
    return a_high * b_high + (middle >> 32) + (other >> 32);
}

uint64_t ab_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t low, high = multiply(a, b, &low);

    if (high >= c) /* then the result has more than 64 bits */
        return UINT64_MAX;
    if (high == 0)
        return low / c;
    /* Long division: high is the rest so far, and low gives its bits and takes the result's. */
    for (int bit = 0; bit < 64; bit++) {
        bool above = high >> 63;

        high = high << 1 | low >> 63;
        low <<= 1;
        if (above || high >= c) {
            high -= c;
            low |= 1;
        }
    }
    return low;
}

#endif
