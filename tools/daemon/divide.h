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

/*
 * What a connection would use if nothing but the path, and its program's own pace, limited it: most_bytes are in flight
 * by that. UINT64_MAX: all that it gets.
 */
uint64_t divide_demand(uint64_t window_bytes, uint32_t bottleneck, uint64_t share_bytes, uint64_t most_bytes);

/* What a pace has in flight. UINT64_MAX: no pace, or no round-trip time. */
uint64_t divide_paced(uint64_t byte_per_s, uint64_t rtt_ns);

/*
 * The pace, in bytes a second, of a connection that sends: it has its share in flight at this round-trip time, but is
 * no higher than most. A buffer would not hold it: the kernel compares with that only where a write begins a new
 * packet, not where it goes on in one that is not sent whole, as by Nagle's rule. 0: the pace that it has is about
 * right.
 */
uint64_t divide_pace(uint64_t share_bytes, uint64_t rtt_ns, uint64_t most_byte_per_s, uint64_t now_byte_per_s);

/*
 * The send buffer, as setsockopt() takes it, no larger than most, for the share and for what waits, of one whose
 * program has set a smaller one. 0: it is large enough, or can be no larger.
 */
uint64_t divide_request(uint64_t share_bytes, uint64_t most_bytes, uint64_t snd_buf_bytes);

#endif
