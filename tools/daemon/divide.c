/* SPDX-License-Identifier: MIT */
/* A total of window bytes, shared by the connections of one rule. Pure. */
#include "managed.h"

#include "../../lib/base/base.h"

/* Each turn gives those who demand less than an equal part of the rest what they demand, until nobody does. */
void divide_shares(uint64_t total_bytes, const uint64_t *demands, uint64_t *shares, size_t count)
{
    uint64_t rest = ab_min(total_bytes, UINT64_MAX - 1); /* so that a demand for all is more than any part */
    size_t open = count;
    bool any = true;

    for (size_t i = 0; i < count; i++)
        shares[i] = UINT64_MAX; /* not given yet */
    while (open && any) {
        uint64_t part = rest / open;

        any = false;
        for (size_t i = 0; i < count; i++) {
            if (shares[i] != UINT64_MAX || demands[i] > part)
                continue;
            shares[i] = demands[i];
            rest -= demands[i];
            open--;
            any = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        shares[i] = ab_max(shares[i] == UINT64_MAX ? rest / open : shares[i], DIVIDE_LEAST_BYTES);
}

uint64_t divide_demand(uint64_t window_bytes, uint32_t bottleneck, uint64_t share_bytes, uint64_t most_bytes)
{
    bool elsewhere = bottleneck != AUTOBUF_BOTTLENECK_UNKNOWN && bottleneck != AUTOBUF_BOTTLENECK_SND_BUFFER &&
                     bottleneck != AUTOBUF_BOTTLENECK_RCV_BUFFER;
    uint64_t uses_bytes = elsewhere ? ab_min(window_bytes, most_bytes) : most_bytes;

    if (uses_bytes >= share_bytes / 5 * 4 || uses_bytes > UINT64_MAX / 8)
        return UINT64_MAX;
    return ab_max(uses_bytes + uses_bytes / 2, DIVIDE_LEAST_BYTES); /* with room to grow */
}

uint64_t divide_paced(uint64_t byte_per_s, uint64_t rtt_ns)
{
    double bytes = (double)byte_per_s * ((double)rtt_ns / AB_NS_PER_S);

    return byte_per_s == UINT64_MAX || rtt_ns == UINT64_MAX || bytes >= 1e18 ? UINT64_MAX : (uint64_t)bytes;
}

uint64_t divide_pace(uint64_t share_bytes, uint64_t rtt_ns, uint64_t most_byte_per_s, uint64_t now_byte_per_s)
{
    double pace = (double)share_bytes * (AB_NS_PER_S / (double)ab_max(rtt_ns, 1));
    uint64_t wanted = ab_min(pace < 1e18 ? (uint64_t)pace : (uint64_t)1e18, most_byte_per_s);

    return ab_max(now_byte_per_s, wanted) - ab_min(now_byte_per_s, wanted) <= wanted / 50 ? 0 : wanted;
}

uint64_t divide_request(uint64_t share_bytes, uint64_t most_bytes, uint64_t snd_buf_bytes)
{
    uint64_t request = ab_min(ab_min(share_bytes, UINT64_MAX / 3) / 2 * 3, most_bytes);

    return request > snd_buf_bytes / 2 ? request : 0; /* the kernel doubles it */
}
