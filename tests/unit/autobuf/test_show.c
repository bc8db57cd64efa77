/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "hosts.h"
#include "findings.h"

#define MBIT 1000000ULL
#define MS 1000000ULL

static struct findings findings_of(const struct autobuf_limits *limits, uint64_t mbit, uint64_t rtt_ms)
{
    struct findings f = {.path = AUTOBUF_PATH_INIT, .limits = *limits, .socket = socket_new()};
    const struct arguments asked = {0};

    assert_int_equal(autobuf_path_given(&f.path, mbit * MBIT, rtt_ms * MS), 0);
    assert_int_equal(findings_plan(&f, &asked), 0);
    return f;
}

/* A host has enough, or needs lines that are enough, or can have no more: each is told as what it is. */
static void a_file_of_sysctls(void **state)
{
    static const struct {
        uint64_t mbit, rtt_ms, tcp_mem_bytes;
        uint32_t flags;
        unsigned lines;
        const char *says;
    } rows[] = {
        {100, 10, 1ULL << 40, 0, 0,
         "# For 100.0 Mbit/s and a round-trip time of 10.0 ms:\n# this host's limits are enough.\n"},
        {100, 10, 1ULL << 40, AUTOBUF_PATH_TX_AT_LEAST, 0, "# For at least 100.0 Mbit/s and"},
        {400, 100, 1ULL << 40, 0, 1, "# autotuning may go so far.\nnet.ipv4.tcp_wmem = 4096 16384 8388608\n"},
        {10000, 100, 800000000, 0, 2,
         "10.0 Gbit/s and a round-trip time of 100.0 ms:\n# as far as this host's memory and TCP allow.\n"},
        {10000, 100, 8000000, 0, 0, "this host's memory, or TCP, allows no more.\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = host_6_18;
        struct findings f;
        char *text;
        size_t bytes;
        unsigned lines = 0;
        FILE *out = open_memstream(&text, &bytes);

        limits.tcp_mem_bytes = rows[i].tcp_mem_bytes;
        f = findings_of(&limits, rows[i].mbit, rows[i].rtt_ms);
        f.share.flags |= rows[i].flags;
        show_sysctls(out, &f);
        fclose(out);
        CHECK(text, strstr(text, rows[i].says) != NULL);
        CHECK(text, (strstr(text, "enough") != NULL) == (i < 2));
        for (const char *at = text; (at = strstr(at, " = ")); at++)
            lines++;
        CHECK_EQUAL(text, lines, rows[i].lines);
        free(text);
    }
}

/* net.ipv4.tcp_mem is named only where the host has that memory, and the sysctl. */
static void memory_that_is_not_there(void **state)
{
    static const struct {
        int64_t memory_bytes, tcp_mem_bytes;
        bool named;
    } rows[] = {{64LL << 30, 100000000, true},
                {1LL << 30, 100000000, false},
                {UNKNOWN, 100000000, false},
                {64LL << 30, UNKNOWN, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = host_rmem_16;
        struct host_facts host = {.memory_bytes = rows[i].memory_bytes, .tcp_mem_bytes = rows[i].tcp_mem_bytes};
        struct findings f;
        char *text;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);

        limits.tcp_mem_bytes = 100000000;
        f = findings_of(&limits, 10000, 100);
        show_plan(out, &f, &host);
        show_json(out, &f, &host, NULL, 0, NULL);
        fclose(out);
        CHECK(text, (strstr(text, "   sysctl -w \"net.ipv4.tcp_mem=") != NULL) == rows[i].named);
        CHECK(text, (strstr(text, "\"net.ipv4.tcp_mem=") != NULL) == rows[i].named);
        CHECK(text, strstr(text, "to change, as root:   sysctl -w \"net.core.wmem_max=") != NULL);
        CHECK(text, strstr(text, "[\"net.core.wmem_max=") != NULL);
        free(text);
    }
}

static void limits_that_cannot_be_read(void **state)
{
    (void)state;
    for (int assumed = 0; assumed < 2; assumed++) {
        struct autobuf_limits limits = host_older;
        struct host_facts host = {.tcp_mem_bytes = assumed ? UNKNOWN : 1 << 30};
        struct findings f;
        char *text;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);

        limits.flags |= assumed ? AUTOBUF_LIMITS_ASSUMED : 0;
        f = findings_of(&limits, 400, 100);
        show_host(out, &limits, &host);
        show_outlook(out, &f, &host);
        show_json(out, &f, &host, NULL, 0, NULL);
        fclose(out);
        CHECK(text, (strstr(text, "autotuning gives  unknown: /proc/sys cannot be read\n") != NULL) == assumed);
        CHECK(text, (strstr(text, "assumed below     4.2 MB to send") != NULL) == assumed);
        CHECK(text, (strstr(text, "one connection, at most:") != NULL) != assumed);
        CHECK(text, (strstr(text, "\"tcp_rmem_max_bytes\":null,") != NULL) == assumed);
        CHECK(text, (strstr(text, "\"tcp_mem_bytes\":null,\"window_scaling\":null,\"rcv_autotuning\":null,") != NULL) ==
                        assumed);
        CHECK(text, (strstr(text, "net.ipv4.tcp_rmem=") != NULL) != assumed);
        free(text);
    }
}

/* 20 Mbit/s by echoes, of 500 in the other direction: 19.3 is no most. By measuring each way it is. */
static void what_echoes_did_not_see_may_be_more(void **state)
{
    (void)state;
    for (int echoed = 0; echoed < 2; echoed++) {
        struct host_facts host = {.tcp_mem_bytes = 1 << 30, .memory_bytes = UNKNOWN};
        struct findings f = findings_of(&host_6_18, 20, 150);
        char *text;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);

        f.path.method = echoed ? AUTOBUF_METHOD_ICMP : AUTOBUF_METHOD_INBAND;
        f.path.flags = echoed ? AB_PATH_AT_LEAST | AB_PATH_ECHOED : 0;
        assert_int_equal(findings_plan(&f, &(struct arguments){0}), 0);
        show_path(out, &f.path);
        show_outlook(out, &f, &host);
        show_json(out, &f, &host, NULL, 0, NULL);
        fclose(out);
        CHECK(text, (strstr(text, "the slower direction's (autobuf measure: of each)\n") != NULL) == echoed);
        CHECK(text, (strstr(text, "  362.0 kB     19.3 Mbit/s+  362.0 kB     19.3 Mbit/s+\n   (+: or more.") != NULL) ==
                        echoed);
        CHECK(text, (strstr(text, "  362.0 kB     19.3 Mbit/s   362.0 kB     19.3 Mbit/s\nsend: ") != NULL) != echoed);
        CHECK(text, (strstr(text, "the path\n   holds at least 362.0 kB") != NULL) == echoed);
        CHECK(text, (strstr(text, "\"tx_at_least\":true,\"tx_echoed\":true,") != NULL) == echoed);
        CHECK(text, (strstr(text, "\"rx_at_least\":false,\"rx_echoed\":false,") != NULL) != echoed);
        free(text);
    }
}

/* 10 GB at 223.7 and at 386.1 Mbit/s; received, at least 19.3, and at most what autotuning's window allows. */
static void seconds_of_a_transfer(void **state)
{
    const struct arguments asked = {.expected_bytes = 10000000000};

    (void)state;
    for (int at_least = 0; at_least < 2; at_least++) {
        struct host_facts host = {.tcp_mem_bytes = 1 << 30, .memory_bytes = UNKNOWN};
        struct findings f = findings_of(&host_6_18, at_least ? 20 : 400, 100);
        char *text;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);

        f.path.flags |= at_least ? AUTOBUF_PATH_TX_AT_LEAST : 0;
        assert_int_equal(findings_plan(&f, &asked), 0);
        show_outlook(out, &f, &host);
        show_json(out, &f, &host, NULL, 0, NULL);
        fclose(out);
        CHECK(text, strstr(text, at_least ? "    10.0 GB take                   358 s to 4144 s" :
                                            "    10.0 GB take                    at least 358 s"));
        CHECK(text, strstr(text, at_least ? "            at least 4144 s\n" : "             at least 208 s\n"));
        CHECK(text, (strstr(text, "\"snd_expected_high_ns\":null,\"snd_force\"") != NULL) != at_least);
        CHECK(text, strstr(text, "\"rcv_expected_high_ns\":null,\"rcv_force\"") != NULL);
        CHECK(text, strstr(text, at_least ? "\"rcv_expected_low_ns\":4143" : "\"rcv_expected_low_ns\":207") != NULL);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_sysctls), cmocka_unit_test(limits_that_cannot_be_read),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(what_echoes_did_not_see_may_be_more),
        cmocka_unit_test(seconds_of_a_transfer),
    };

    return cmocka_run_group_tests_name("show", tests, NULL, NULL);
}
