/* SPDX-License-Identifier: MIT */
/* A total of window bytes, shared by the connections of one rule. Pure. */
#ifndef DIVIDE_H
#define DIVIDE_H

#include <stddef.h>
#include <stdint.h>

#define DIVIDE_LEAST_BYTES 32768U /* of a connection, however many there are */

/*
 * Max-min fair shares: no connection gets more than it demands, and those that demand more than an equal share of what
 * is left get that. No share is less than DIVIDE_LEAST_BYTES, so the shares of very many add up to more. Writes count
 * shares.
 */
void divide_shares(uint64_t total_bytes, const uint64_t *demands, uint64_t *shares, size_t count);

/* What a connection would use if nothing but the path limited it. UINT64_MAX: all that it gets. */
uint64_t divide_demand(uint64_t window_bytes, uint32_t limiter, uint64_t share_bytes);

/*
 * The send buffer, as setsockopt() takes it, that brings a connection's window to its share; 0: it stays as it is. A
 * buffer holds less payload than its size says, and how much less is told by the window that it gave so far.
 */
uint64_t divide_request(uint64_t share_bytes, uint64_t window_bytes, uint64_t snd_buf_bytes, uint32_t limiter);

#endif
