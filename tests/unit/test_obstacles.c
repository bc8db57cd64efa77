/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>

#include "hosts.h"
#include "obstacles.h"

#define MBIT 1000000ULL
#define MS 1000000ULL

static struct host_facts quiet_host(void)
{
    return (struct host_facts){.sack = 1,
                               .slow_start_after_idle = 0,
                               .tcp_used_bytes = 0,
                               .queue_packets = 1000,
                               .queue_drops = 0,
                               .ssthresh_packets = UNKNOWN,
                               .device = "eth0",
                               .qdisc = "pfifo_fast",
                               .peer = "192.0.2.7"};
}

static struct findings findings_of(const struct autobuf_limits *limits, uint64_t rate_bit_per_s,
                                   uint64_t rtt_ns)
{
    struct findings f = {AUTOBUF_PATH_INIT, *limits, AUTOBUF_PLAN_INIT};
    struct autobuf_socket s = socket_new();

    if (rate_bit_per_s)
        assert_int_equal(autobuf_path_given(&f.path, rate_bit_per_s, rtt_ns), 0);
    assert_int_equal(autobuf_plan_make(&f.path, limits, &s, 0, 0, &f.plan), 0);
    return f;
}

/* Each bottleneck alone, on a path where it matters: what is said, how much rate it costs, and what removes it. */
static void each_cause_and_its_line(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *limits;
        uint64_t mbit, rtt_ms;
        uint64_t tcp_mem_bytes;
        int64_t sack, idle, used, drops, ssthresh; /* UNKNOWN: as on a quiet host */
        const char *what, *line;
        double least, most; /* of the rate */
    } rows[] = {
        {"send buffer", &host_older, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "net.core.wmem_max", "sysctl -w \"net.core.wmem_max=", 0.4, 0.45},
        {"receive buffer", &host_older, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "net.ipv4.tcp_rmem", "sysctl -w \"net.ipv4.tcp_rmem=4096 131072 ", 0.33, 0.36},
        {"OpenSSH's channel", &host_6_18, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "channel window", "at once", 0.55, 0.58},
        {"SFTP's requests", &host_esnet_64, 2000, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         UNKNOWN, "64 requests", "sftp -R ", 0.29, 0.32},
        {"a cached threshold", &host_6_18, 100, 50, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 74,
         "tcp_metrics", "ip tcp_metrics flush 192.0.2.7", 0.8, 0.85},
        {"memory pressure", &host_6_18, 100, 50, 100000000, UNKNOWN, UNKNOWN, 200000000, UNKNOWN,
         UNKNOWN, "net.ipv4.tcp_mem", "net.ipv4.tcp_mem", 0.5, 0.5},
        {"no SACK", &host_6_18, 100, 50, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "selective acknowledgements", "net.ipv4.tcp_sack=1", 0, 0},
        {"slow start after a pause", &host_6_18, 100, 50, 0, UNKNOWN, 1, UNKNOWN, UNKNOWN, UNKNOWN,
         "6 round trips, 0.3 s", "net.ipv4.tcp_slow_start_after_idle=0", 0, 0},
        {"a queue that overflows", &host_6_18, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, 12, UNKNOWN,
         "eth0 (pfifo_fast) has dropped 12 packets, and is shorter", "txqueuelen 3334", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = *rows[i].limits;
        struct host_facts host = quiet_host();
        struct obstacle found[OBSTACLES_MOST];
        struct findings f;
        size_t count, at = 0;

        limits.tcp_mem_bytes = rows[i].tcp_mem_bytes;
        f = findings_of(&limits, rows[i].mbit * MBIT, rows[i].rtt_ms * MS);
        host.sack = rows[i].sack == UNKNOWN ? host.sack : rows[i].sack;
        host.slow_start_after_idle = rows[i].idle == UNKNOWN ? 0 : rows[i].idle;
        host.tcp_used_bytes = rows[i].used == UNKNOWN ? 0 : rows[i].used;
        host.queue_drops = rows[i].drops == UNKNOWN ? 0 : rows[i].drops;
        host.ssthresh_packets = rows[i].ssthresh;
        count = obstacles_find(&f, &host, found);
        while (at < count && !strstr(found[at].what, rows[i].what))
            at++;
        CHECK(rows[i].name, at < count);
        CHECK(found[at].line, strstr(found[at].line, rows[i].line) != NULL);
        CHECK(rows[i].name, found[at].lost >= rows[i].least && found[at].lost <= rows[i].most);
    }
}

static void nothing_where_nothing_is_in_the_way(void **state)
{
    static const struct {
        const char *name;
        uint64_t mbit, rtt_ms;
    } rows[] = {{"nothing known", 0, 0}, {"a short path", 100, 10}, {"a slow one", 1, 100}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = findings_of(&host_6_18, rows[i].mbit * MBIT, rows[i].rtt_ms * MS);
        struct host_facts host = quiet_host();
        struct obstacle found[OBSTACLES_MOST];

        CHECK_EQUAL(rows[i].name, obstacles_find(&f, &host, found), 0);
        memset(&host, 0, sizeof host);
        host.sack = host.slow_start_after_idle = host.tcp_used_bytes = host.queue_packets =
            host.queue_drops = host.ssthresh_packets = UNKNOWN;
        CHECK_EQUAL(rows[i].name, obstacles_find(&f, &host, found), 0);
    }
}

static void the_dearest_comes_first(void **state)
{
    static const uint64_t mbits[] = {10, 100, 400, 1000, 10000};

    (void)state;
    for (size_t m = 0; m < COUNT(mbits); m++) {
        struct findings f = findings_of(&host_older, mbits[m] * MBIT, 200 * MS);
        struct host_facts host = quiet_host();
        struct obstacle found[OBSTACLES_MOST];
        size_t count;

        host.sack = 0;
        host.slow_start_after_idle = 1;
        host.queue_drops = 5;
        host.ssthresh_packets = 10;
        count = obstacles_find(&f, &host, found);
        assert_in_range(count, 3, OBSTACLES_MOST);
        for (size_t i = 0; i < count; i++) {
            assert_true(found[i].lost >= 0 && found[i].lost <= 1);
            assert_true(i == 0 || found[i - 1].lost >= found[i].lost);
            assert_true(found[i].what[0] && found[i].line[0]);
            assert_null(strchr(found[i].what, '\n'));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_and_its_line),
        cmocka_unit_test(nothing_where_nothing_is_in_the_way),
        cmocka_unit_test(the_dearest_comes_first),
    };

    return cmocka_run_group_tests_name("obstacles", tests, NULL, NULL);
}
