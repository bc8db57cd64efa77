/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "hosts.h"

#define MBIT 1000000ULL
#define MS 1000000ULL

static struct findings findings_of(const struct autobuf_limits *limits, uint64_t mbit, uint64_t rtt_ms,
                                   const struct arguments *asked)
{
    struct findings f = {.path = AUTOBUF_PATH_INIT, .limits = *limits, .socket = socket_new()};

    if (mbit)
        assert_int_equal(autobuf_path_given(&f.path, mbit * MBIT, rtt_ms * MS), 0);
    assert_int_equal(findings_plan(&f, asked), 0);
    return f;
}

static void each_user_has_a_plan(void **state)
{
    struct autobuf_limits forces = host_6_18;
    const struct arguments as_user = {.as_user = true}, as_it_is = {0};
    struct findings f;

    (void)state;
    forces.flags |= AUTOBUF_LIMITS_FORCE;
    forces.tcp_mem_bytes = 4000000000;
    f = findings_of(&forces, 10000, 100, &as_it_is);
    assert_int_equal(f.plan.snd_window_bytes, f.root.snd_window_bytes);
    assert_true(f.root.snd_window_bytes > f.user.snd_window_bytes);
    assert_true(f.user.snd_window_bytes > f.user.snd_kernel_bytes);
    f = findings_of(&forces, 10000, 100, &as_user);
    assert_int_equal(f.plan.snd_window_bytes, f.user.snd_window_bytes);
}

static void connections_share_a_path(void **state)
{
    const struct arguments one = {0}, four = {.streams = 4};
    struct findings alone, shared;

    (void)state;
    alone = findings_of(&host_6_18, 400, 100, &one);
    shared = findings_of(&host_6_18, 400, 100, &four);
    assert_int_equal(shared.path.tx_bdp_bytes, alone.path.tx_bdp_bytes);
    assert_int_equal(shared.share.tx_bdp_bytes, alone.path.tx_bdp_bytes / 4);
    assert_int_equal(shared.plan.snd_reason, AUTOBUF_REASON_KERNEL);
    assert_int_equal(alone.plan.snd_reason, AUTOBUF_REASON_SET);
    assert_in_range(findings_rate(&shared, true, 1 << 30), 96 * MBIT, 97 * MBIT); /* payload of 100 */
}

static void no_window_is_faster_than_the_path(void **state)
{
    const struct arguments asked = {0};
    struct findings f = findings_of(&host_6_18, 400, 100, &asked), none = findings_of(&host_6_18, 0, 0, &asked);

    (void)state;
    assert_in_range(findings_rate(&f, true, 2796202), 223 * MBIT, 224 * MBIT);
    assert_in_range(findings_rate(&f, true, UINT32_MAX), 386 * MBIT, 387 * MBIT);
    assert_int_equal(findings_rate(&none, true, 2796202), 0);
}

/* What was not measured may be more: nothing that is said of it is "at most". */
static void a_lower_bound_is_no_most(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags;
        uint64_t window;
        bool sends, more;
        uint64_t mbit;
    } rows[] = {
        {"a known path", 0, 2796202, false, false, 19},
        {"a lower bound", AUTOBUF_PATH_RX_AT_LEAST, 2796202, false, true, 19},
        {"the other direction's", AUTOBUF_PATH_RX_AT_LEAST, 2796202, true, false, 19},
        {"a window that is the bottleneck", AUTOBUF_PATH_RX_AT_LEAST, 200000, false, false, 10},
    };
    const struct arguments asked = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = findings_of(&host_6_18, 20, 150, &asked);

        f.path.flags = rows[i].flags;
        assert_int_equal(findings_plan(&f, &asked), 0);
        CHECK_EQUAL(rows[i].name, findings_rate(&f, rows[i].sends, rows[i].window) / MBIT, rows[i].mbit);
        CHECK_EQUAL(rows[i].name, findings_or_more(&f, rows[i].sends, rows[i].window), rows[i].more);
    }
}

/* A transfer of 1 MB never needs a window that holds more. */
static void a_short_transfer_needs_no_more_than_itself(void **state)
{
    const struct arguments asked = {.expected_bytes = 1000000}, longer = {.expected_bytes = 100000000};
    struct findings f = findings_of(&host_6_18, 10000, 300, &asked);
    struct sysctl_line found[SYSCTLS_MOST];

    (void)state;
    assert_int_equal(findings_wanted(&f, true), 1000000);
    assert_int_equal(findings_wanted(&f, false), 1000000);
    assert_int_equal(findings_sysctls(&f, found), 0);
    f = findings_of(&host_6_18, 10000, 300, &longer);
    assert_int_equal(findings_sysctls(&f, found), 2);
    assert_non_null(strstr(found[0].value, " 201326592"));
}

/* With the lines set, autotuning alone fills the path; with any smaller sensible size it does not. */
static void sysctls_are_enough_and_no_more(void **state)
{
    static const struct autobuf_limits *const hosts[] = {&host_older, &host_6_18, &host_esnet_64};
    static const uint64_t mbits[] = {10, 100, 400, 1000, 2500, 10000};
    const struct arguments asked = {0};
    unsigned lines = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(hosts) * COUNT(mbits); i++) {
        struct findings f = findings_of(hosts[i % COUNT(hosts)], mbits[i / COUNT(hosts)], 100, &asked);
        struct sysctl_line found[SYSCTLS_MOST];
        size_t count = findings_sysctls(&f, found);

        for (size_t k = 0; k < count; k++) {
            bool sends = strcmp(found[k].name, "net.ipv4.tcp_wmem") == 0;
            uint64_t *most = sends ? &f.limits.tcp_wmem_max_bytes : &f.limits.tcp_rmem_max_bytes;
            uint64_t was = *most, size = strtoull(strrchr(found[k].value, ' ') + 1, NULL, 10);

            CHECK(found[k].name, sends || strcmp(found[k].name, "net.ipv4.tcp_rmem") == 0);
            CHECK_EQUAL(found[k].value, findings_sensible(size), size);
            *most = size;
            assert_int_equal(findings_plan(&f, &asked), 0);
            CHECK(found[k].value, sends ? f.user.snd_kernel_bytes >= f.user.snd_wanted_bytes
                                        : f.user.rcv_kernel_bytes >= f.user.rcv_wanted_bytes);
            *most = size & (size - 1) ? size / 3 * 2 : size / 4 * 3; /* the next smaller sensible size */
            assert_int_equal(findings_plan(&f, &asked), 0);
            CHECK(found[k].value, *most <= was || (sends ? f.user.snd_kernel_bytes < f.user.snd_wanted_bytes
                                                         : f.user.rcv_kernel_bytes < f.user.rcv_wanted_bytes));
            *most = was;
            lines++;
        }
    }
    assert_true(lines >= 6);
}

/*
 * Whoever applies the lines is not asked for them again; no line lowers a value, or is more than this host's memory
 * allows.
 */
static void advice_that_was_applied_is_enough(void **state)
{
    static const uint64_t mbits[] = {400, 10000, 60000, 400000};
    static const uint64_t memories[] = {0, 100000000, 1600000000, 64000000000};
    const struct arguments asked = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(mbits) * COUNT(memories); i++) {
        struct autobuf_limits limits = host_6_18;
        struct sysctl_line found[SYSCTLS_MOST];
        struct findings f;

        limits.tcp_mem_bytes = memories[i / COUNT(mbits)];
        f = findings_of(&limits, mbits[i % COUNT(mbits)], 150, &asked);
        for (size_t k = findings_sysctls(&f, found); k-- > 0;) {
            bool sends = strcmp(found[k].name, "net.ipv4.tcp_wmem") == 0;
            uint64_t *most = sends ? &f.limits.tcp_wmem_max_bytes : &f.limits.tcp_rmem_max_bytes;
            uint64_t size = strtoull(strrchr(found[k].value, ' ') + 1, NULL, 10);

            CHECK(found[k].value, size > *most && (!limits.tcp_mem_bytes || size <= limits.tcp_mem_bytes / 8));
            *most = size;
        }
        CHECK_EQUAL("again", findings_sysctls(&f, found), 0);
    }
}

static void switches_that_are_off(void **state)
{
    const struct arguments asked = {0};
    struct autobuf_limits limits = host_6_18;
    struct sysctl_line found[SYSCTLS_MOST];
    struct findings f;

    (void)state;
    limits.flags &= ~(AUTOBUF_LIMITS_WINDOW_SCALING | AUTOBUF_LIMITS_RCV_AUTOTUNING);
    f = findings_of(&limits, 100, 100, &asked);
    assert_int_equal(findings_sysctls(&f, found), 2);
    assert_string_equal(found[0].name, "net.ipv4.tcp_window_scaling");
    assert_string_equal(found[1].name, "net.ipv4.tcp_moderate_rcvbuf");
    assert_string_equal(found[1].value, "1");
    f = findings_of(&limits, 0, 0, &asked);
    assert_int_equal(findings_sysctls(&f, found), 0);
}

/* What is set is not known: any line might lower it. */
static void assumed_limits_change_nothing(void **state)
{
    const struct arguments asked = {0};
    struct autobuf_limits limits = host_older;
    struct sysctl_line found[SYSCTLS_MOST];
    struct findings f;

    (void)state;
    f = findings_of(&limits, 10000, 100, &asked);
    assert_int_equal(findings_sysctls(&f, found), 2);
    assert_true(findings_known(&f) && findings_fillable(&f, true) && findings_fillable(&f, false));
    limits.flags |= AUTOBUF_LIMITS_ASSUMED;
    f = findings_of(&limits, 10000, 100, &asked);
    assert_int_equal(findings_sysctls(&f, found), 0);
    f = findings_of(&host_older, 0, 0, &asked);
    assert_false(findings_known(&f));
}

static void sensible_sizes(void **state)
{
    static const struct {
        uint64_t bytes, sensible;
    } rows[] = {{1, 65536},         {65536, 65536},       {65537, 98304},      {98304, 98304},
                {98305, 131072},    {3620001, 4194304},   {4194305, 6291456},  {6291457, 8388608},
                {90500000, 100663296}, {1 << 30, 1 << 30}, {1ULL << 40, 1 << 30}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char row[32];

        snprintf(row, sizeof row, "%llu", (unsigned long long)rows[i].bytes);
        CHECK_EQUAL(row, findings_sensible(rows[i].bytes), rows[i].sensible);
    }
}

/* Neither plan nor advice; if one direction is sure, there is a plan for it. */
static void a_rate_that_is_unsure_plans_nothing(void **state)
{
    const struct arguments asked = {0};
    struct sysctl_line lines[SYSCTLS_MOST];
    struct findings f = findings_of(&host_older, 400, 100, &asked);

    (void)state;
    assert_null(findings_unsure(&f));
    assert_true(findings_sysctls(&f, lines) > 0);
    f.path.rx_unsure = AUTOBUF_UNSURE_PAUSES;
    assert_int_equal(findings_plan(&f, &asked), 0);
    assert_null(findings_unsure(&f));
    assert_true(f.plan.snd_wanted_bytes && !f.plan.rcv_wanted_bytes);
    f.path.tx_unsure = AUTOBUF_UNSURE_JITTER;
    f.path.flags |= AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST;
    assert_int_equal(findings_plan(&f, &asked), 0);
    assert_int_equal(f.share.flags & (AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST), 0); /* nor "or more" */
    assert_string_equal(findings_unsure(&f), "jitter");
    assert_true(!f.plan.snd_wanted_bytes && !f.plan.rcv_wanted_bytes && !f.root.snd_request_bytes);
    assert_int_equal(findings_rate(&f, true, 1 << 30), 0);
    assert_int_equal(findings_sysctls(&f, lines), 0);
}

/* 10 GB at 193 Mbit/s of payload (200 with headers) and 223.7 Mbit/s (2.8 MB in 100 ms); 28,960 bytes in two rounds. */
static void how_long_a_transfer_takes(void **state)
{
    static const struct {
        const char *name;
        uint64_t mbit, bytes, window;
        uint32_t flags;
        double low_s, high_s; /* 0: unknown */
    } rows[] = {
        {"all of the path", 200, 10000000000, 4000000, 0, 415, 0},
        {"a window is less", 400, 10000000000, 2796202, 0, 358.5, 0},
        {"the path may have more", 200, 10000000000, 2796202, AUTOBUF_PATH_TX_AT_LEAST, 358.5, 415},
        {"of the window it cannot have more", 400, 10000000000, 2796202, AUTOBUF_PATH_TX_AT_LEAST, 358.5, 0},
        {"no path is so fast", 200, 10000000000, 1 << 30, AUTOBUF_PATH_TX_AT_LEAST, 0, 415},
        {"slow start", 200, 28960, 2796202, 0, 0.1006, 0},
        {"the first window", 200, 14480, 2796202, 0, 0.0006, 0},
        {"without a path", 0, 10000000000, 2796202, 0, 0, 0},
        {"without bytes", 200, 0, 2796202, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct arguments asked = {.expected_bytes = rows[i].bytes};
        struct findings f = findings_of(&host_6_18, rows[i].mbit, 100, &asked);
        struct duration d;
        double ends_s[2];

        f.path.flags |= rows[i].flags;
        assert_int_equal(findings_plan(&f, &asked), 0);
        d = findings_duration(&f, true, rows[i].window);
        ends_s[0] = d.low_ns == AUTOBUF_NS_UNSET ? 0 : (double)d.low_ns / 1e9;
        ends_s[1] = d.high_ns == AUTOBUF_NS_UNSET ? 0 : (double)d.high_ns / 1e9;
        CHECK(rows[i].name, ends_s[0] >= 0.99 * rows[i].low_s && ends_s[0] <= 1.01 * rows[i].low_s);
        CHECK(rows[i].name, ends_s[1] >= 0.99 * rows[i].high_s && ends_s[1] <= 1.01 * rows[i].high_s);
    }
    assert_true(findings_time_ns(1000000000000000000, 1, 0) == AUTOBUF_NS_UNSET - 1); /* more than 64 bits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_user_has_a_plan),        cmocka_unit_test(connections_share_a_path),
        cmocka_unit_test(no_window_is_faster_than_the_path), cmocka_unit_test(a_lower_bound_is_no_most),
        cmocka_unit_test(a_short_transfer_needs_no_more_than_itself), cmocka_unit_test(sysctls_are_enough_and_no_more),
        cmocka_unit_test(advice_that_was_applied_is_enough),
        cmocka_unit_test(a_rate_that_is_unsure_plans_nothing),
        cmocka_unit_test(assumed_limits_change_nothing), cmocka_unit_test(switches_that_are_off),
        cmocka_unit_test(sensible_sizes), cmocka_unit_test(how_long_a_transfer_takes),
    };

    return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
