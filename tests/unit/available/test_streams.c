/* SPDX-License-Identifier: MIT */
/* Computed by hand: 1448 of 1500 bytes are payload, and of that nine tenths are to be reached. */
#include "unit.h"

#include <errno.h>

#include "base/base.h"

#define MBIT 1000000ULL
#define MS AB_NS_PER_MS

static const struct row {
    const char *name;
    uint32_t kind;
    uint64_t low_mbit, high_mbit, rtt_ms, window_bytes, most_bit_per_s;
    int streams;
} rows[] = {
    /* 0.9 x 386.1 = 347.5; 2,796,202 bytes in 100 ms are 223.7 Mbit/s */
    {"autotuning's window is too small", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 2796202, 0, 2},
    {"ten times as long", AUTOBUF_KIND_AVAILABLE, 380, 400, 1000, 2796202, 0, 16},
    {"a window that holds it", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 4344000, 0, 1},
    {"nor does a second one pay", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 4400000, UINT64_MAX, 1},
    {"loss limits each to 10 Mbit/s", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 2796202, 10 * MBIT, 35},
    {"loss alone is known", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 0, 10 * MBIT, 35},
    {"others would give way", AUTOBUF_KIND_SHARE, 380, 400, 100, 2796202, 10 * MBIT, 1},
    {"at most so much", AUTOBUF_KIND_AVAILABLE, 0, 400, 100, 2796202, 0, 2},
    {"at least what two bring", AUTOBUF_KIND_AVAILABLE, 400, 0, 100, 2796202, 0, 2},
    {"at least what one brings: there may be more", AUTOBUF_KIND_AVAILABLE, 200, 0, 100, 2796202, 0, 0},
    {"nothing is known", AUTOBUF_KIND_NONE, 0, 0, 100, 2796202, 0, 0},
    {"no round-trip time", AUTOBUF_KIND_AVAILABLE, 380, 400, 0, 2796202, 0, 0},
    {"no limit of one is known", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 0, 0, 0},
    {"hardly anything each", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, 0, 1, 65535},
    {"a window beyond all", AUTOBUF_KIND_AVAILABLE, 380, 400, 100, UINT64_MAX, 0, 1},
};

static void as_many_as_take_what_is_free(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_available available = AUTOBUF_AVAILABLE_INIT;
        struct autobuf_path path = AUTOBUF_PATH_INIT;

        available.kind = rows[i].kind;
        available.tx_low_bit_per_s = rows[i].low_mbit * MBIT;
        available.tx_high_bit_per_s = rows[i].high_mbit * MBIT;
        path.rtt_min_ns = rows[i].rtt_ms * MS;
        CHECK_EQUAL(rows[i].name, autobuf_streams(&available, &path, rows[i].window_bytes, rows[i].most_bit_per_s),
                    rows[i].streams);
    }
}

static void wrong_arguments(void **state)
{
    struct autobuf_available available = AUTOBUF_AVAILABLE_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;

    (void)state;
    assert_int_equal(autobuf_streams(NULL, &path, 1, 1), -EINVAL);
    assert_int_equal(autobuf_streams(&available, NULL, 1, 1), -EINVAL);
    available.tx_high_bit_per_s = 1;
    path.rtt_min_ns = AUTOBUF_NS_UNSET;
    assert_int_equal(autobuf_streams(&available, &path, 1, 1), 0);
    available.kind = AUTOBUF_KIND_AVAILABLE;
    path.rtt_min_ns = MS;
    assert_int_equal(autobuf_streams(&available, &path, 1000, 0), 1);
    available.size = 0;
    assert_int_equal(autobuf_streams(&available, &path, 1, 1), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_take_what_is_free),
        cmocka_unit_test(wrong_arguments),
    };

    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
