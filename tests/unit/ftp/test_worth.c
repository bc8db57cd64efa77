/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "ftp/ftp.h"
#include "hosts.h"

#define MB 1000000ULL
#define MS 1000000ULL
#define SENDS AUTOBUF_INTENT_SENDS
#define RECEIVES AUTOBUF_INTENT_RECEIVES

static const struct row {
    const char *name;
    const struct autobuf_limits *limits;
    bool peer_sets;
    uint64_t peer_max_bytes, rtt_ns;
    uint32_t direction;
    uint64_t expected_bytes;
    bool pays;
} rows[] = {
    {"400 MB far away", &host_6_18, true, 4194304, 100 * MS, RECEIVES, 400 * MB, true},
    {"nobody knows how much", &host_6_18, true, 0, 100 * MS, RECEIVES, 0, true},
    {"nor how far", &host_6_18, true, 0, AUTOBUF_NS_UNSET, RECEIVES, 0, true},
    {"as far as a measurement waits", &host_6_18, true, 0, 1999 * MS, RECEIVES, 0, true},
    {"and beyond", &host_6_18, true, 0, 2001 * MS, RECEIVES, 0, false},
    {"1 byte", &host_6_18, true, 0, 100 * MS, RECEIVES, 1, false},
    {"100 KB", &host_6_18, true, 0, 100 * MS, RECEIVES, 100000, false},
    {"5 MB", &host_6_18, true, 0, 100 * MS, RECEIVES, 5 * MB, false},
    {"20 MB", &host_6_18, true, 0, 100 * MS, RECEIVES, 20 * MB, false},
    {"only what is faster than 1 Gbit/s could gain", &host_6_18, true, 0, 20 * MS, RECEIVES, 400 * MB, false},
    {"hardly away", &host_6_18, true, 0, MS / 2, RECEIVES, 4000 * MB, false},
    {"nothing may be set", &host_older, true, 0, 100 * MS, RECEIVES, 400 * MB, false},
    {"an upload, which the flow measures", &host_6_18, true, 0, 100 * MS, SENDS, 400 * MB, false},
    {"to a server whose window could be larger", &host_rmem_16, true, 0, 100 * MS, SENDS, 400 * MB, true},
    {"that can set nothing", &host_rmem_16, true, 212992, 100 * MS, SENDS, 400 * MB, false},
    {"that cannot be told", &host_rmem_16, false, 0, 100 * MS, SENDS, 400 * MB, false},
    {"the peer may set nothing", &host_6_18, true, 212992, 100 * MS, RECEIVES, 400 * MB, false},
    {"the peer may, this host may not", &host_older, true, 4194304, 100 * MS, RECEIVES, 400 * MB, true},
    {"the server cannot be told", &host_6_18, false, 0, 100 * MS, RECEIVES, 400 * MB, false},
    {"but the window here is too small", &host_rmem_16, false, 0, 100 * MS, RECEIVES, 400 * MB, true},
    {"autotuning takes more", &host_wmem_16, true, 0, 100 * MS, RECEIVES, 400 * MB, false},
};

static void test_worth(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_worth worth = {rows[i].limits, rows[i].peer_sets, rows[i].peer_max_bytes, rows[i].rtt_ns,
                                 rows[i].direction, 8, rows[i].expected_bytes};
        uint64_t low = 0, high = 0;

        CHECK_EQUAL(rows[i].name, ab_worth_measuring(&worth, &low, &high), rows[i].pays);
        if (rows[i].pays)
            CHECK(rows[i].name, low > MB && high > low);
        CHECK_EQUAL(rows[i].name, ab_worth_measuring(&worth, NULL, NULL), rows[i].pays);
    }
}

static void test_worth_by_round_trips(void **state)
{
    struct ab_worth worth = {&host_6_18, true, 0, 100 * MS, RECEIVES, 3, 30 * MB};

    (void)state;
    assert_true(ab_worth_measuring(&worth, NULL, NULL));
    worth.round_trips = 8;
    assert_false(ab_worth_measuring(&worth, NULL, NULL));
}

/* This host's privilege is not the peer's. */
static void test_privilege_is_not_the_peers(void **state)
{
    struct autobuf_limits root = host_older;
    struct ab_worth worth = {&root, true, 0, 100 * MS, RECEIVES, 8, 400 * MB};

    (void)state;
    root.flags |= AUTOBUF_LIMITS_FORCE;
    assert_false(ab_worth_measuring(&worth, NULL, NULL));
}

static void test_request(void **state)
{
    struct autobuf_limits root = host_6_18;

    (void)state;
    root.flags |= AUTOBUF_LIMITS_FORCE;
    assert_int_equal(ab_worth_request(&host_6_18, SENDS, 5 * MB), 4194304);
    assert_int_equal(ab_worth_request(&root, SENDS, 5 * MB), 4194304);
    assert_int_equal(ab_worth_request(&host_6_18, SENDS, 1 * MB), 0);  /* autotuning reaches it */
    assert_int_equal(ab_worth_request(&host_6_18, SENDS, 0), 0);       /* unknown */
    assert_int_equal(ab_worth_request(&host_6_18, RECEIVES, 5 * MB), 0);
    assert_int_equal(ab_worth_request(&host_rmem_16, RECEIVES, 5 * MB), 10000000);
    assert_int_equal(ab_worth_request(&host_older, SENDS, 5 * MB), 0); /* and nothing is to be had */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worth),
        cmocka_unit_test(test_worth_by_round_trips),
        cmocka_unit_test(test_privilege_is_not_the_peers),
        cmocka_unit_test(test_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
