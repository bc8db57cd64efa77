/* SPDX-License-Identifier: MIT */
/* Any events in any order, times that run forwards or do not: the window stays between its bounds. */
#include "fuzz.h"

#include <autobuf/autobuf.h>

static void check_state(const struct autobuf_rightsize *rs, uint64_t window)
{
    struct autobuf_rightsize_state s = AUTOBUF_RIGHTSIZE_STATE_INIT;

    CHECK(autobuf_rightsize_state(rs, &s) == 0);
    CHECK(s.window_bytes == window);
    CHECK(s.sender_low_bytes <= s.sender_high_bytes);
    CHECK(s.best_byte_per_s >= s.rate_byte_per_s || !s.best_byte_per_s);
    CHECK(s.rtt_min_ns > 0 && s.rtt_min_ns <= s.rtt_ns);
    CHECK((s.rtt_min_ns == AUTOBUF_NS_UNSET) == (s.rtt_ns == AUTOBUF_NS_UNSET));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
    struct autobuf_rightsize *rs;
    uint64_t now_ns = take_number(&in);

    options.window_bytes = take_number(&in);
    options.cap_bytes = take_number(&in);
    if (autobuf_rightsize_open(&rs, &options) < 0) {
        CHECK(!rs && options.cap_bytes < options.window_bytes);
        return 0;
    }
    if (!options.window_bytes)
        options.window_bytes = options.cap_bytes && options.cap_bytes < 65536 ? options.cap_bytes : 65536;
    while (in.len > 0) {
        unsigned what = (unsigned)take(&in, 1);
        uint64_t value = take_number(&in), window;

        now_ns = what & 128 ? take_number(&in) : now_ns + take_number(&in) % 1000000000;
        if (what % 5 == 0)
            autobuf_rightsize_rtt(rs, value);
        else if (what % 5 == 1)
            autobuf_rightsize_granted(rs, now_ns, value);
        else if (what % 5 == 2)
            autobuf_rightsize_received(rs, now_ns, value);
        else if (what % 5 == 3 && what & 64)
            autobuf_rightsize_gap(rs, now_ns);
        window = autobuf_rightsize_consumed(rs, now_ns, value);
        CHECK(window >= options.window_bytes);
        CHECK(!options.cap_bytes || window <= options.cap_bytes);
        check_state(rs, window);
    }
    autobuf_rightsize_close(rs);
    return 0;
}
