/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "hosts.h"
#include "findings.h"

#define MBIT 1000000ULL
#define MS 1000000ULL

static struct host_facts quiet_host(void)
{
    return (struct host_facts){.route_window_bytes = UNKNOWN,
                               .route_cwnd_packets = UNKNOWN,
                               .segmentation_offload = 1,
                               .receive_offload = 1,
                               .memory_bytes = 64LL << 30,
                               .tcp_mem_bytes = 4LL << 30,
                               .kernel = "6.18.44-test",
                               .congestion_control = "cubic",
                               .sack = 1,
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
    struct findings f = {.path = AUTOBUF_PATH_INIT, .limits = *limits, .socket = socket_new()};
    const struct arguments asked = {0};

    if (rate_bit_per_s)
        assert_int_equal(autobuf_path_given(&f.path, rate_bit_per_s, rtt_ns), 0);
    assert_int_equal(findings_plan(&f, &asked), 0);
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
        {"send buffer of other programs", &host_6_18, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "programs without libautobuf: net.ipv4.tcp_wmem limits the send window to 2.8 MB of 4.8 MB",
         "sysctl -w \"net.ipv4.tcp_wmem=4096 16384 8388608\"", 0.41, 0.43},
        {"receive buffer of all programs", &host_older, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "all programs: net.ipv4.tcp_rmem", "sysctl -w \"net.ipv4.tcp_rmem=4096 131072 12582912\"", 0.33, 0.36},
        {"OpenSSH's channel", &host_6_18, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "rsync over ssh: OpenSSH's channel window", "rsync -e autobuf-ssh), or 3 transfers at once", 0.55, 0.58},
        {"two of which hold the path", &host_6_18, 400, 75, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "rsync over ssh: OpenSSH's channel window", "rsync -e autobuf-ssh), or 2 transfers at once", 0.41, 0.43},
        {"curl's SFTP", &host_6_18, 400, 100, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
         "libssh2 keeps 409.6 kB in flight, which allows 32.8 Mbit/s; up, 5.2 Mbit/s", "autobuf run curl", 0.91, 0.92},
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
        struct bottleneck found[BOTTLENECKS_MOST];
        struct findings f;
        size_t count, at = 0;

        limits.tcp_mem_bytes = rows[i].tcp_mem_bytes;
        f = findings_of(&limits, rows[i].mbit * MBIT, rows[i].rtt_ms * MS);
        host.sack = rows[i].sack == UNKNOWN ? host.sack : rows[i].sack;
        host.slow_start_after_idle = rows[i].idle == UNKNOWN ? 0 : rows[i].idle;
        host.tcp_used_bytes = rows[i].used == UNKNOWN ? 0 : rows[i].used;
        if (rows[i].tcp_mem_bytes)
            host.tcp_mem_bytes = (int64_t)rows[i].tcp_mem_bytes;
        host.queue_drops = rows[i].drops == UNKNOWN ? 0 : rows[i].drops;
        host.ssthresh_packets = rows[i].ssthresh;
        count = bottlenecks_find(&f, &host, found);
        while (at < count && !(strstr(found[at].what, rows[i].what) && strstr(found[at].line, rows[i].line)))
            at++;
        CHECK(rows[i].name, at < count);
        CHECK(found[at].line, strstr(found[at].line, rows[i].line) != NULL);
        CHECK(rows[i].name, found[at].lost >= rows[i].least && found[at].lost <= rows[i].most);
    }
}

/* What the measurement has shown of the path: the first of all, with what helps. */
static void what_the_path_does_to_tcp(void **state)
{
    static const struct {
        const char *name;
        bool hole;
        int64_t mtu_probing;
        const char *what, *line;
        double lost;
    } rows[] = {
        {"a black hole", true, 0, "packets above 1280 bytes are lost",
         "sysctl -w \"net.ipv4.tcp_mtu_probing=1\", or ip route change the route to 192.0.2.7 with advmss 1240", 1},
        {"a black hole, and a host that probes", true, 1, "or net.ipv4.tcp_mtu_probing gets it going",
         "ip route change", 1},
        {"a black hole, and a host that does not tell", true, UNKNOWN, "(a PMTU black hole)", "tcp_mtu_probing=1", 1},
        {"no window scaling", false, 0,
         "window scaling was not negotiated (a middlebox?): at most 65,535 bytes in flight",
         "window scale option", 0.98},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = findings_of(&host_6_18, 400 * MBIT, 100 * MS);
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        const struct arguments asked = {0};
        size_t count;

        host.mtu_probing = rows[i].mtu_probing;
        if (rows[i].hole) {
            f.path.flags = AUTOBUF_PATH_BLACK_HOLE;
            f.path.packet_bytes = 1280;
        } else {
            f.socket.stage = AUTOBUF_STAGE_CONNECTED;
            f.socket.flags = AUTOBUF_SOCKET_UNSCALED;
            f.socket.snd_window_max_bytes = f.socket.rcv_window_max_bytes = 65535;
        }
        assert_int_equal(findings_plan(&f, &asked), 0);
        count = bottlenecks_find(&f, &host, found);
        CHECK(rows[i].name, count > 0 && strstr(found[0].what, rows[i].what) && strstr(found[0].line, rows[i].line));
        CHECK(rows[i].name, found[0].lost >= rows[i].lost);
        for (size_t k = 0; !rows[i].hole && k < count; k++) /* no size helps */
            CHECK(found[k].what, !strstr(found[k].line, "mem"));
        CHECK(rows[i].name,
              rows[i].hole || (f.plan.snd_reason == AUTOBUF_REASON_LATE && f.plan.snd_window_bytes == 65535 &&
                               !f.plan.snd_request_bytes && f.plan.rcv_reason == AUTOBUF_REASON_LATE));
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
        struct bottleneck found[BOTTLENECKS_MOST];

        CHECK_EQUAL(rows[i].name, bottlenecks_find(&f, &host, found), 0);
        memset(&host, 0, sizeof host);
        host.route_window_bytes = host.route_cwnd_packets = host.segmentation_offload = host.receive_offload =
            host.memory_bytes = host.tcp_mem_bytes = UNKNOWN;
        host.mtu_probing = host.sack = host.slow_start_after_idle = host.tcp_used_bytes = host.queue_packets =
            host.queue_drops = host.ssthresh_packets = UNKNOWN;
        CHECK_EQUAL(rows[i].name, bottlenecks_find(&f, &host, found), 0);
    }
}

/* A sysctl that limits all programs is named once. */
static void no_sysctl_is_named_twice(void **state)
{
    static const uint64_t mbits[] = {100, 400, 1000, 10000};
    static const struct autobuf_limits *const hosts[] = {&host_older, &host_6_18, &host_esnet_64};

    (void)state;
    for (size_t i = 0; i < COUNT(mbits) * COUNT(hosts); i++) {
        struct findings f = findings_of(hosts[i % COUNT(hosts)], mbits[i / COUNT(hosts)] * MBIT, 100 * MS);
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        size_t count = bottlenecks_find(&f, &host, found);

        for (size_t a = 0; a < count; a++)
            for (size_t b = 0; b < a; b++)
                CHECK(found[a].line, strcspn(found[a].line, "=") != strcspn(found[b].line, "=") ||
                                         strncmp(found[a].line, found[b].line, strcspn(found[a].line, "=")) != 0 ||
                                         strncmp(found[a].line, "sysctl", 6) != 0);
    }
}

/* Nobody's choice is replaced. */
static void a_queue_that_drops(void **state)
{
    static const struct {
        const char *qdisc, *line;
    } rows[] = {
        {"pfifo_fast", "tc qdisc replace"}, {"fq", "tc -s"}, {"mq", "tc -s"}, {"htb", "tc -s"}, {"cake", "tc -s"}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = findings_of(&host_6_18, 400 * MBIT, 100 * MS);
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        size_t count, at = 0;

        host.queue_drops = 7;
        snprintf(host.qdisc, sizeof host.qdisc, "%s", rows[i].qdisc);
        count = bottlenecks_find(&f, &host, found);
        while (at < count && !strstr(found[at].what, "has dropped 7 packets"))
            at++;
        CHECK(rows[i].qdisc, at < count && strncmp(found[at].line, rows[i].line, strlen(rows[i].line)) == 0);
    }
}

/* What concerns this host, not its limits. */
static void this_host(void **state)
{
    static const struct {
        const char *name;
        const char *kernel, *cc, *qdisc;
        int64_t window, cwnd, offload;
        const char *file;
        int64_t third;
        const char *what, *line; /* NULL: nothing is said */
        double least, most;
    } rows[] = {
        {"first window of a quarter", "6.6.13", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0,
         "may have a fault: a program that sets SO_RCVBUF", "6.6.33", 0, 0},
        {"mended in its series", "6.6.87", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "a quarter", NULL, 0, 0},
        {"and later in it", "6.6.140", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "a quarter", NULL, 0, 0},
        {"a series that ended", "6.7.12", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "a quarter", "6.8.12", 0, 0},
        {"mended in the next", "6.8.12", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "a quarter", NULL, 0, 0},
        {"that is mended", "6.9.3", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "a quarter", NULL, 0, 0},
        {"ratchets down", "6.17.8+deb13-amd64", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "shrink", "6.18.17", 0, 0},
        {"also later", "6.18.16", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "shrink", "6.18.17", 0, 0},
        {"mended there", "6.18.17", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "shrink", NULL, 0, 0},
        {"again in the next", "6.19.2", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "shrink", "6.19.7", 0, 0},
        {"no longer in 7.0", "7.0.0", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "shrink", NULL, 0, 0},
        {"a number that cannot be read", "", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "Linux", NULL, 0, 0},
        {"bbr without fq", "6.18.44", "bbr", "fq_codel", UNKNOWN, UNKNOWN, 1, "", 0, "fq_codel, not fq", "root fq", 0,
         0},
        {"bbr with fq", "6.18.44", "bbr", "fq", UNKNOWN, UNKNOWN, 1, "", 0, "not fq", NULL, 0, 0},
        {"bbr with a queue for each core", "6.18.44", "bbr", "mq", UNKNOWN, UNKNOWN, 1, "", 0, "not fq", NULL, 0, 0},
        {"bbr and a shaper", "6.18.44", "bbr", "htb", UNKNOWN, UNKNOWN, 1, "", 0, "not fq", NULL, 0, 0},
        {"bbr on loopback", "6.18.44", "bbr", "noqueue", UNKNOWN, UNKNOWN, 1, "", 0, "not fq", NULL, 0, 0},
        {"a route's window", "6.18.44", "cubic", "fq", 1000000, UNKNOWN, 1, "", 0, "limits the receive window", "route",
         0.78, 0.80},
        {"a route's window that is enough", "6.18.44", "cubic", "fq", 9000000, UNKNOWN, 1, "", 0,
         "limits the receive window", NULL, 0, 0},
        {"a route's cwnd", "6.18.44", "cubic", "fq", UNKNOWN, 100, 1, "", 0, "congestion window", "route", 0.96, 0.98},
        {"no segmentation offload", "6.18.44", "cubic", "fq", UNKNOWN, UNKNOWN, 0, "", 0, "neither TSO nor GSO",
         "ethtool -K eth0", 0, 0},
        {"a file that lowers", "6.18.44", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "/etc/sysctl.d/10-old.conf", 16777216,
         "/etc/sysctl.d/10-old.conf lowers net.ipv4.tcp_rmem to 16.8 MB", "/etc/sysctl.d/10-old.conf", 0, 0},
        {"the same on an older kernel", "6.12.3", "cubic", "fq", UNKNOWN, UNKNOWN, 1, "/etc/sysctl.d/10-old.conf",
         16777216, "lowers", NULL, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = findings_of(&host_6_18, rows[i].offload ? 400 * MBIT : 10000 * MBIT, 100 * MS);
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        size_t count, at = 0;

        snprintf(host.kernel, sizeof host.kernel, "%s", rows[i].kernel);
        snprintf(host.congestion_control, sizeof host.congestion_control, "%s", rows[i].cc);
        snprintf(host.qdisc, sizeof host.qdisc, "%s", rows[i].qdisc);
        host.route_window_bytes = rows[i].window;
        host.route_cwnd_packets = rows[i].cwnd;
        host.segmentation_offload = rows[i].offload;
        snprintf(host.tcp_rmem.file, sizeof host.tcp_rmem.file, "%s", rows[i].file);
        host.tcp_rmem.third_bytes = rows[i].third;
        count = bottlenecks_find(&f, &host, found);
        while (at < count && !strstr(found[at].what, rows[i].what))
            at++;
        CHECK(rows[i].name, (at < count) == (rows[i].line != NULL));
        if (!rows[i].line)
            continue;
        CHECK(found[at].line, strstr(found[at].line, rows[i].line) != NULL);
        CHECK(rows[i].name, found[at].lost >= rows[i].least && found[at].lost <= rows[i].most);
    }
}

/* Of 20 / 500 Mbit/s echoes show the 20: a buffer may be the bottleneck of the other direction. */
static void what_may_limit_a_direction_that_was_not_measured(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags;
        uint64_t rtt_ms, rmem, expected;
        const char *what; /* NULL: nothing is said */
    } rows[] = {
        {"both directions measured", 0, 150, 6291456, 0, NULL},
        {"echoes", AB_PATH_AT_LEAST | AB_PATH_ECHOED, 150, 6291456, 0,
         "net.ipv4.tcp_rmem limits receiving to 167.8 Mbit/s, net.ipv4.tcp_wmem limits sending to 149.1 Mbit/s"},
        {"echoes, a receive window that few senders fill", AB_PATH_AT_LEAST | AB_PATH_ECHOED, 150, 33554432, 0,
         "show: net.ipv4.tcp_wmem limits sending"},
        {"a receive buffer that is too small for the slower one", AUTOBUF_PATH_RX_AT_LEAST, 150, 600000, 0, NULL},
        {"a path so short that each window is enough", AB_PATH_AT_LEAST | AB_PATH_ECHOED, 1, 6291456, 0, NULL},
        {"a transfer that each window holds", AB_PATH_AT_LEAST | AB_PATH_ECHOED, 150, 6291456, 2000000, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct arguments asked = {.expected_bytes = rows[i].expected};
        struct autobuf_limits limits = host_6_18;
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        struct findings f;
        size_t count, at = 0;

        limits.tcp_rmem_max_bytes = rows[i].rmem;
        f = findings_of(&limits, 20 * MBIT, rows[i].rtt_ms * MS);
        f.path.flags = rows[i].flags;
        assert_int_equal(findings_plan(&f, &asked), 0);
        count = bottlenecks_find(&f, &host, found);
        while (at < count && strcmp(found[at].line, "autobuf measure 192.0.2.7") != 0)
            at++;
        CHECK(rows[i].name, (at < count) == (rows[i].what != NULL));
        if (rows[i].what)
            CHECK(found[at].what, strstr(found[at].what, rows[i].what) != NULL);
        CHECK(rows[i].name, at == count || found[at].lost < 0.001);
    }
}

/* 1 MB over 10 Gbit/s and 300 ms: no window is its bottleneck, neither TCP's nor OpenSSH's. */
static void a_short_transfer_has_no_window_for_a_bottleneck(void **state)
{
    const struct arguments asked = {.expected_bytes = 400000};
    struct findings f = findings_of(&host_6_18, 10000 * MBIT, 300 * MS);
    struct host_facts host = quiet_host();
    struct bottleneck found[BOTTLENECKS_MOST];

    (void)state;
    assert_true(bottlenecks_find(&f, &host, found) > 3);
    assert_int_equal(findings_plan(&f, &asked), 0);
    assert_int_equal(bottlenecks_find(&f, &host, found), 0);
}

/*
 * 200 Mbit/s x 60 ms: TCP has 2.4 to 3 Mbit/s with a loss of 1% each way, of which 28 echoes showed two, or 1000
 * twenty.
 */
static void loss_limits_by_the_congestion_control(void **state)
{
    static const struct {
        const char *name, *cc;
        uint32_t permille, samples;
        const char *what; /* NULL: nothing is said */
        double lost;      /* at least */
    } rows[] = {
        {"none", "cubic", 0, 1000, NULL, 0},
        {"two of 28", "cubic", 71, 26, "one connection with cubic to between 491.0 kbit/s and 3.0 Mbit/s", 0.98},
        {"the same, reno", "reno", 71, 26, "one connection with reno to between 491.0 kbit/s and 3.0 Mbit/s", 0.98},
        {"twenty of 1000", "cubic", 20, 980, "with cubic to between 1.4 Mbit/s and 2.9 Mbit/s: 2.0% of the echoes",
         0.98},
        {"one of 1000, by chance", "cubic", 1, 999, "with cubic to between 3.3 Mbit/s and ", 0},
        {"bbr", "bbr", 20, 980, "loss hardly slows bbr, but may limit one connection with cubic to between 1.4 Mbit/s",
         0},
        {"another", "westwood", 20, 980, "with cubic to between 1.4 Mbit/s", 0.98},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = findings_of(&host_6_18, 200 * MBIT, 60 * MS);
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        size_t count, at = 0;

        f.path.loss_permille = rows[i].permille;
        f.path.samples = rows[i].samples;
        snprintf(host.congestion_control, sizeof host.congestion_control, "%s", rows[i].cc);
        count = bottlenecks_find(&f, &host, found);
        while (at < count && strncmp(found[at].what, "loss", 4) != 0)
            at++;
        CHECK(rows[i].name, (at < count) == (rows[i].what != NULL));
        if (!rows[i].what)
            continue;
        CHECK(found[at].what, strstr(found[at].what, rows[i].what) != NULL);
        CHECK(found[at].what, strstr(found[at].what, " or something limits echoes alone") != NULL);
        CHECK(found[at].line, strstr(found[at].line, "autobuf measure --transfer 10 192.0.2.7") != NULL);
        CHECK(rows[i].name, found[at].lost >= rows[i].lost && (rows[i].lost > 0 || found[at].lost < 0.6));
    }
}

/* No size is enough where TCP's window or the host's memory ends: streams are. */
static void what_one_connection_cannot_hold(void **state)
{
    static const struct {
        uint64_t mbit, memory_bytes;
        const char *why; /* NULL: one is enough */
    } rows[] = {
        {400, 64ULL << 30, NULL}, {400000, 1ULL << 40, "TCP allows"}, {60000, 4ULL << 30, "the memory of this host"}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = host_6_18;
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        struct findings f;
        size_t count, at = 0;

        host.memory_bytes = (int64_t)rows[i].memory_bytes;
        limits.tcp_mem_bytes = rows[i].memory_bytes / 16;
        f = findings_of(&limits, rows[i].mbit * MBIT, 150 * MS);
        count = bottlenecks_find(&f, &host, found);
        while (at < count && !strstr(found[at].line, "connections at once"))
            at++;
        CHECK("streams", (at < count) == (rows[i].why != NULL));
        if (rows[i].why)
            CHECK(found[at].what, strstr(found[at].what, rows[i].why) != NULL);
        for (at = 0; at < count; at++)
            CHECK(found[at].line,
                  strstr(found[at].line, "net.ipv4.tcp_mem=") == NULL ||
                      strtod(strrchr(found[at].line, ' ') + 1, NULL) * 4096 <= (double)rows[i].memory_bytes / 2);
    }
}

static bool is_named(const struct bottleneck *found, size_t count, const char *words)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(found[i].what, words) || strstr(found[i].line, words))
            return true;
    return false;
}

/* What is only assumed of this host is neither told as read nor changed: in a container, and without /proc. */
static void what_is_not_known_of_this_host(void **state)
{
    struct autobuf_limits limits = host_older;
    struct host_facts host = quiet_host();
    struct bottleneck found[BOTTLENECKS_MOST];
    struct findings f;
    size_t count;

    (void)state;
    limits.tcp_mem_bytes = 100000000; /* as guessed from the memory that is available */
    f = findings_of(&limits, 10000 * MBIT, 100 * MS);
    host.tcp_used_bytes = 200000000;
    host.tcp_mem_bytes = 100000000;
    count = bottlenecks_find(&f, &host, found);
    assert_true(is_named(found, count, "memory pressure"));
    assert_true(is_named(found, count, "\"net.ipv4.tcp_rmem="));
    host.tcp_mem_bytes = UNKNOWN;
    host.inner_namespace = true;
    count = bottlenecks_find(&f, &host, found);
    assert_false(is_named(found, count, "memory pressure"));
    assert_false(is_named(found, count, "net.ipv4.tcp_mem="));
    assert_true(is_named(found, count, "\"net.ipv4.tcp_rmem="));
    limits.flags |= AUTOBUF_LIMITS_ASSUMED;
    f = findings_of(&limits, 10000 * MBIT, 100 * MS);
    count = bottlenecks_find(&f, &host, found);
    assert_false(is_named(found, count, "net.ipv4.tcp_rmem"));
    assert_false(is_named(found, count, "net.ipv4.tcp_wmem"));
}

/* A line raises what it names, also where more is set than would be advised. */
static void no_line_lowers(void **state)
{
    static const uint64_t memories[] = {100000000, 1600000000, 1ULL << 40};

    (void)state;
    for (size_t i = 0; i < COUNT(memories); i++) {
        struct autobuf_limits limits = host_esnet_64;
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        struct findings f;
        size_t count;

        limits.tcp_mem_bytes = memories[i];
        limits.tcp_wmem_max_bytes = 4194304;
        f = findings_of(&limits, 100000 * MBIT, 100 * MS);
        count = bottlenecks_find(&f, &host, found);
        for (size_t k = 0; k < count; k++)
            if (strstr(found[k].line, "net.core.wmem_max="))
                CHECK(found[k].line, strtoull(strchr(found[k].line, '=') + 1, NULL, 10) > limits.snd_settable_bytes);
    }
}

static void the_dearest_comes_first(void **state)
{
    static const uint64_t mbits[] = {10, 100, 400, 1000, 10000};

    (void)state;
    for (size_t m = 0; m < COUNT(mbits); m++) {
        struct findings f = findings_of(&host_older, mbits[m] * MBIT, 200 * MS);
        struct host_facts host = quiet_host();
        struct bottleneck found[BOTTLENECKS_MOST];
        size_t count;

        host.sack = 0;
        host.slow_start_after_idle = 1;
        host.queue_drops = 5;
        host.ssthresh_packets = 10;
        count = bottlenecks_find(&f, &host, found);
        assert_in_range(count, 3, BOTTLENECKS_MOST);
        for (size_t i = 0; i < count; i++) {
            assert_true(found[i].lost >= 0 && found[i].lost <= 1);
            assert_true(i == 0 || found[i - 1].lost >= found[i].lost);
            assert_true(found[i].what[0] && found[i].line[0]);
            assert_null(strchr(found[i].what, '\n'));
        }
    }
}

/* Which way enlarges a window: by kernel, direction and permission. */
static void by_kernel_and_permission(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *limits;
        uint64_t mbit;
        bool sends, forces;
        uint32_t off;
        const char *says;
    } rows[] = {
        {"6.12 sends", &host_older, 400, true, false, 0, "helps: sysctl, autobufd; helps as root: run, link"},
        {"6.12 sends, as root", &host_older, 400, true, true, 0, "helps: sysctl, autobufd, run, link"},
        {"6.12 receives", &host_older, 400, false, false, 0, "helps: sysctl, autobufd; does not help: run, link"},
        {"6.12 receives more than its window scale allows", &host_older, 10000, false, true, 0,
         "helps: sysctl; helps in part: autobufd; does not help: run, link"},
        {"6.17 sends", &host_6_16, 400, true, false, 0, "helps: sysctl, autobufd; helps as root: run, link"},
        {"6.18 sends", &host_6_18, 400, true, false, 0, "helps: sysctl, autobufd, run, link"},
        {"6.18 sends more", &host_6_18, 10000, true, false, 0, "helps: sysctl, autobufd; helps in part: run, link"},
        {"6.18 receives", &host_6_18, 10000, false, false, 0,
         "helps: sysctl; helps in part: autobufd; does not help: run, link"},
        {"wmem_max raised", &host_esnet_64, 10000, true, false, 0, "helps: sysctl, autobufd; helps in part: run, link"},
        {"rmem_max raised", &host_rmem_16, 400, false, false, 0, "helps: sysctl, autobufd, run, link"},
        {"no window scaling", &host_6_18, 400, false, true, AUTOBUF_LIMITS_WINDOW_SCALING,
         "helps: sysctl; does not help: autobufd, run, link"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct findings f = {.path = AUTOBUF_PATH_INIT, .limits = *rows[i].limits, .socket = socket_new()};
        const struct arguments asked = {0};
        enum help ways[WAYS];
        char text[128];

        f.limits.flags &= ~rows[i].off;
        f.limits.flags |= rows[i].forces ? AUTOBUF_LIMITS_FORCE : 0;
        assert_int_equal(autobuf_path_given(&f.path, rows[i].mbit * MBIT, 100 * MS), 0);
        assert_int_equal(findings_plan(&f, &asked), 0);
        ways_find(&f, rows[i].sends, rows[i].sends ? f.user.snd_kernel_bytes : f.user.rcv_kernel_bytes, ways);
        ways_text(ways, text, sizeof text);
        if (strcmp(text, rows[i].says) != 0)
            fail_msg("%s: %s", rows[i].name, text);
    }
}

static void as_text_and_json(void **state)
{
    static const enum help unsaid[WAYS], all[WAYS] = {HELP_ALL, HELP_PART, HELP_ROOT, HELP_NO};
    char text[128], *json;
    size_t bytes;
    FILE *out = open_memstream(&json, &bytes);

    (void)state;
    ways_text(unsaid, text, sizeof text);
    assert_string_equal(text, "");
    ways_text(all, text, sizeof text);
    assert_string_equal(text, "helps: sysctl; helps in part: autobufd; helps as root: run; does not help: link");
    for (size_t cap = 1; cap < sizeof text; cap++) { /* with any room */
        memset(text, 'x', sizeof text);
        ways_text(all, text, cap);
        assert_true(strlen(text) < cap && (cap == sizeof text - 1 || text[cap] == 'x'));
    }
    ways_json(out, unsaid);
    ways_json(out, all);
    fclose(out);
    assert_string_equal(json, "null{\"sysctl\":\"all\",\"autobufd\":\"part\",\"run\":\"root\",\"link\":\"no\"}");
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_kernel_and_permission),
        cmocka_unit_test(as_text_and_json),
        cmocka_unit_test(each_cause_and_its_line),
        cmocka_unit_test(what_the_path_does_to_tcp),
        cmocka_unit_test(nothing_where_nothing_is_in_the_way),
        cmocka_unit_test(no_sysctl_is_named_twice),
        cmocka_unit_test(a_queue_that_drops),
        cmocka_unit_test(this_host),
        cmocka_unit_test(what_may_limit_a_direction_that_was_not_measured),
        cmocka_unit_test(a_short_transfer_has_no_window_for_a_bottleneck),
        cmocka_unit_test(loss_limits_by_the_congestion_control),
        cmocka_unit_test(what_one_connection_cannot_hold),
        cmocka_unit_test(what_is_not_known_of_this_host), cmocka_unit_test(no_line_lowers),
        cmocka_unit_test(the_dearest_comes_first),
    };

    return cmocka_run_group_tests_name("obstacles", tests, NULL, NULL);
}
