/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

#include "hosts.h"

#define TEXT_BYTES 1024
#define GUARD 0x5a

static const struct reason_row {
    uint32_t reason;
    const char *name;
} reasons[] = {
    {AUTOBUF_REASON_UNKNOWN, "unknown"}, {AUTOBUF_REASON_KERNEL, "kernel"},
    {AUTOBUF_REASON_SET, "set"},         {AUTOBUF_REASON_CAPPED, "capped"},
    {AUTOBUF_REASON_LARGER, "larger"},   {AUTOBUF_REASON_LATE, "late"},
    {AUTOBUF_REASON_OFF, "off"},
};

static void reasons_have_the_documented_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(reasons); i++)
        assert_string_equal(autobuf_reason_name(reasons[i].reason), reasons[i].name);
    assert_string_equal(autobuf_reason_name(COUNT(reasons)), "?");
    assert_string_equal(autobuf_reason_name(UINT32_MAX), "?");
}

/* All numbers differ. */
static struct autobuf_plan some_plan(uint32_t snd_reason, uint32_t rcv_reason)
{
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    p.snd_reason = snd_reason;
    p.rcv_reason = rcv_reason;
    p.rtt_ns = 100 * AB_NS_PER_MS;
    p.snd_wanted_bytes = 9100000;
    p.snd_window_bytes = 5500000;
    p.snd_kernel_bytes = 2700000;
    p.rcv_wanted_bytes = 9200000;
    p.rcv_window_bytes = 16800000;
    p.rcv_kernel_bytes = 1300000;
    if (snd_reason == AUTOBUF_REASON_SET || snd_reason == AUTOBUF_REASON_CAPPED)
        p.snd_request_bytes = 4194304;
    if (rcv_reason == AUTOBUF_REASON_SET || rcv_reason == AUTOBUF_REASON_CAPPED)
        p.rcv_request_bytes = 4194305;
    if (snd_reason == AUTOBUF_REASON_CAPPED) {
        p.snd_sysctl = AUTOBUF_SYSCTL_WMEM_MAX;
        p.snd_needed_bytes = 14480000;
    }
    if (rcv_reason == AUTOBUF_REASON_CAPPED) {
        p.rcv_sysctl = AUTOBUF_SYSCTL_TCP_RMEM;
        p.rcv_needed_bytes = 40300000;
    }
    return p;
}

static void explain(const struct autobuf_plan *p, char *text)
{
    int len = autobuf_plan_explain(p, text, TEXT_BYTES);

    assert_in_range(len, 1, TEXT_BYTES - 1);
    assert_int_equal(strlen(text), len);
}

/* Two lines, each with its side, its reason and a line feed at its end; plain ASCII. */
static void check_two_lines(const char *name, const char *text, const char *snd, const char *rcv)
{
    char begin[64];
    const char *second = strchr(text, '\n');

    CHECK(name, second != NULL);
    second++;
    CHECK(name, strchr(second, '\n') != NULL && strchr(second, '\n')[1] == '\0');
    snprintf(begin, sizeof begin, "send: %s: ", snd);
    CHECK(name, strncmp(text, begin, strlen(begin)) == 0);
    snprintf(begin, sizeof begin, "receive: %s: ", rcv);
    CHECK(name, strncmp(second, begin, strlen(begin)) == 0);
    for (; *text; text++)
        CHECK(name, *text == '\n' || (*text >= ' ' && *text <= '~'));
}

static void every_reason_gives_a_line_a_side(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(reasons) * COUNT(reasons); i++) {
        const struct reason_row *snd = &reasons[i % COUNT(reasons)];
        const struct reason_row *rcv = &reasons[i / COUNT(reasons)];
        struct autobuf_plan p = some_plan(snd->reason, rcv->reason);
        char text[TEXT_BYTES];

        explain(&p, text);
        check_two_lines(snd->name, text, snd->name, rcv->name);
        p.snd_request_bytes = p.rcv_request_bytes = 0;
        p.rtt_ns = AUTOBUF_NS_UNSET;
        p.flags = AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK;
        explain(&p, text);
        check_two_lines(snd->name, text, snd->name, rcv->name);
    }
}

static void reasons_read_differently(void **state)
{
    char texts[COUNT(reasons)][TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT(reasons); i++) {
        struct autobuf_plan p = some_plan(reasons[i].reason, reasons[i].reason);
        const char *behind_the_name;

        explain(&p, texts[i]);
        behind_the_name = strchr(strchr(texts[i], ':') + 1, ':');
        memmove(texts[i], behind_the_name, strlen(behind_the_name) + 1);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(texts[i], texts[k]);
    }
}

static void no_window_is_larger_than_tcp_s(void **state)
{
    struct autobuf_plan p = some_plan(AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_KERNEL);
    char text[TEXT_BYTES];

    (void)state;
    p.snd_sysctl = AUTOBUF_SYSCTL_NONE;
    p.snd_window_bytes = 65535ULL << 14;
    p.snd_wanted_bytes = 2000000000;
    explain(&p, text);
    assert_non_null(strstr(text, "; limited by TCP, whose largest window it is\n"));
}

static void lines_say_what_matters(void **state)
{
    static const struct {
        const char *name;
        uint32_t snd, rcv, flags, snd_sysctl, rcv_sysctl;
        uint64_t pacing;
        const char *snd_says, *rcv_says;
    } rows[] = {
        {"set: the request", AUTOBUF_REASON_SET, AUTOBUF_REASON_SET, 0, 0, 0, 0,
         "SO_SNDBUF 4194304", "SO_RCVBUF 4194305"},
        {"set: the window and its rate", AUTOBUF_REASON_SET, AUTOBUF_REASON_SET, 0, 0, 0, 0,
         "5.5 MB (440.0 Mbit/s)", "gives a window of 16.8 MB; without"}, /* no rate above the path's */
        {"set: the window without it", AUTOBUF_REASON_SET, AUTOBUF_REASON_SET, 0, 0, 0, 0,
         "2.7 MB (216.0 Mbit/s)", "1.3 MB (104.0 Mbit/s)"},
        {"capped: the sysctl", AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_CAPPED, 0,
         AUTOBUF_SYSCTL_WMEM_MAX, AUTOBUF_SYSCTL_TCP_RMEM, 0, "net.core.wmem_max",
         "net.ipv4.tcp_rmem"},
        {"capped: the request", AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_CAPPED, 0,
         AUTOBUF_SYSCTL_WMEM_MAX, AUTOBUF_SYSCTL_TCP_RMEM, 0, "SO_SNDBUF 4194304",
         "SO_RCVBUF 4194305"},
        {"capped: window scaling", AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_CAPPED, 0,
         AUTOBUF_SYSCTL_WINDOW_SCALING, AUTOBUF_SYSCTL_WINDOW_SCALING, 0,
         "net.ipv4.tcp_window_scaling", "net.ipv4.tcp_window_scaling"},
        {"capped: TCP's memory, receive autotuning", AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_CAPPED,
         0, AUTOBUF_SYSCTL_TCP_MEM, AUTOBUF_SYSCTL_MODERATE_RCVBUF, 0, "net.ipv4.tcp_mem",
         "net.ipv4.tcp_moderate_rcvbuf"},
        {"capped: all that stands in the way", AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_CAPPED, 0,
         AUTOBUF_SYSCTL_TCP_MEM | AUTOBUF_SYSCTL_WMEM_MAX, AUTOBUF_SYSCTL_TCP_RMEM, 0,
         "net.core.wmem_max (or the third value of net.ipv4.tcp_wmem) and the memory",
         "net.ipv4.tcp_rmem"},
        {"a lower bound", AUTOBUF_REASON_SET, AUTOBUF_REASON_KERNEL,
         AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_RCV_AT_LEAST, 0, 0, 0, "at least 9.1 MB",
         "at least 9.2 MB"},
        {"late: what helps as far as it goes", AUTOBUF_REASON_LATE, AUTOBUF_REASON_LATE,
         AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK, 0, 0, 0, "given back", "given back"},
        {"unknown: what there is", AUTOBUF_REASON_UNKNOWN, AUTOBUF_REASON_UNKNOWN, 0, 0, 0, 0,
         "5.5 MB", "16.8 MB"},
        {"kernel: its window", AUTOBUF_REASON_KERNEL, AUTOBUF_REASON_KERNEL, 0, 0, 0, 0, "5.5 MB",
         "16.8 MB"},
        {"kernel: the product", AUTOBUF_REASON_KERNEL, AUTOBUF_REASON_KERNEL, 0, 0, 0, 0, "9.1 MB",
         "9.2 MB"},
        {"kernel: a transfer that is shorter than what the path holds", AUTOBUF_REASON_KERNEL, AUTOBUF_REASON_KERNEL, 0,
         0, 0, 0,
         "holds 9.1 MB, but the transfer is too short to need more", "holds 9.2 MB"},
        {"kernel: given back", AUTOBUF_REASON_KERNEL, AUTOBUF_REASON_KERNEL,
         AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK, 0, 0, 0, "given back", "given back"},
        {"larger: its window", AUTOBUF_REASON_LARGER, AUTOBUF_REASON_LARGER, 0, 0, 0, 0, "5.5 MB",
         "16.8 MB"},
        {"late: why", AUTOBUF_REASON_LATE, AUTOBUF_REASON_LATE, 0, 0, 0, 0, "window scale",
         "window scale"},
        {"off: why", AUTOBUF_REASON_OFF, AUTOBUF_REASON_OFF, 0, 0, 0, 0, "AUTOBUF=off",
         "AUTOBUF=off"},
        {"pacing: its rate", AUTOBUF_REASON_SET, AUTOBUF_REASON_KERNEL, 0, 0, 0, 94600000,
         "94.6 Mbit/s", "autotuning"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan p = some_plan(rows[i].snd, rows[i].rcv);
        char text[TEXT_BYTES], *second;

        p.flags = rows[i].flags;
        p.snd_sysctl = rows[i].snd_sysctl;
        p.rcv_sysctl = rows[i].rcv_sysctl;
        p.snd_pacing_bit_per_s = rows[i].pacing;
        explain(&p, text);
        second = strchr(text, '\n') + 1;
        CHECK(rows[i].name, strstr(second, rows[i].rcv_says) != NULL);
        *second = '\0';
        CHECK(rows[i].name, strstr(text, rows[i].snd_says) != NULL);
    }
}

/* A plan from a newer library may name what this one does not know. */
static void foreign_values_do_no_harm(void **state)
{
    struct autobuf_plan p = some_plan(UINT32_MAX, 1000);
    char text[TEXT_BYTES];

    (void)state;
    explain(&p, text);
    check_two_lines("foreign reasons", text, "?", "?");
    p = some_plan(AUTOBUF_REASON_CAPPED, AUTOBUF_REASON_CAPPED);
    p.snd_sysctl = p.rcv_sysctl = UINT32_MAX;
    p.snd_wanted_bytes = p.snd_window_bytes = p.snd_kernel_bytes = UINT64_MAX;
    p.rcv_request_bytes = p.snd_request_bytes = p.snd_pacing_bit_per_s = UINT64_MAX;
    p.rtt_ns = 1;
    explain(&p, text);
    check_two_lines("foreign sysctls", text, "capped", "capped");
    p.rtt_ns = 0;
    explain(&p, text);
    check_two_lines("no round-trip time", text, "capped", "capped");
}

/* At every length as snprintf(3): a prefix, a final zero, nothing behind it. */
static void explain_is_cut_at_cap(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(reasons); i++) {
        struct autobuf_plan p = some_plan(reasons[i].reason, AUTOBUF_REASON_CAPPED);
        char all[TEXT_BYTES], cut[TEXT_BYTES];
        size_t len;

        p.snd_pacing_bit_per_s = 100000000;
        explain(&p, all);
        len = strlen(all);
        assert_int_equal(autobuf_plan_explain(&p, NULL, 0), len);
        for (size_t cap = 0; cap <= len + 1; cap++) {
            memset(cut, GUARD, sizeof cut);
            CHECK_EQUAL(reasons[i].name, autobuf_plan_explain(&p, cut, cap), len);
            if (cap) {
                CHECK_EQUAL(reasons[i].name, strlen(cut), cap - 1);
                CHECK(reasons[i].name, memcmp(cut, all, cap - 1) == 0);
            }
            for (size_t k = cap; k < sizeof cut; k++)
                CHECK_EQUAL(reasons[i].name, cut[k], GUARD);
        }
    }
}

static void explain_without_a_plan(void **state)
{
    struct autobuf_plan p = some_plan(AUTOBUF_REASON_SET, AUTOBUF_REASON_SET);
    char text[TEXT_BYTES] = "before";

    (void)state;
    p.size = 3;
    assert_int_equal(autobuf_plan_explain(&p, text, sizeof text), -EINVAL);
    assert_string_equal(text, "");
}

/* -------------------------------------------------------------------------- autobuf_plan_sysctl */

static const struct sysctl_row {
    const char *name;
    uint32_t snd, rcv;
    const char *lines[3];
} sysctl_rows[] = {
    {"none", AUTOBUF_SYSCTL_NONE, AUTOBUF_SYSCTL_NONE, {NULL}},
    {"send", AUTOBUF_SYSCTL_WMEM_MAX, AUTOBUF_SYSCTL_NONE, {"net.core.wmem_max=7240000"}},
    {"receive: the rest of the triple stays", AUTOBUF_SYSCTL_NONE, AUTOBUF_SYSCTL_TCP_RMEM,
     {"net.ipv4.tcp_rmem=4096 131072 40300000"}},
    {"both", AUTOBUF_SYSCTL_WMEM_MAX, AUTOBUF_SYSCTL_TCP_RMEM,
     {"net.core.wmem_max=7240000", "net.ipv4.tcp_rmem=4096 131072 40300000"}},
    {"the same on both sides, once", AUTOBUF_SYSCTL_WINDOW_SCALING, AUTOBUF_SYSCTL_WINDOW_SCALING,
     {"net.ipv4.tcp_window_scaling=1"}},
    {"receive autotuning", AUTOBUF_SYSCTL_NONE, AUTOBUF_SYSCTL_MODERATE_RCVBUF,
     {"net.ipv4.tcp_moderate_rcvbuf=1"}},
    {"TCP's memory: pages, in the kernel's proportion", AUTOBUF_SYSCTL_TCP_MEM,
     AUTOBUF_SYSCTL_NONE, {"net.ipv4.tcp_mem=1500 2000 3000"}},
    {"TCP's memory and receive autotuning", AUTOBUF_SYSCTL_TCP_MEM,
     AUTOBUF_SYSCTL_MODERATE_RCVBUF,
     {"net.ipv4.tcp_mem=1500 2000 3000", "net.ipv4.tcp_moderate_rcvbuf=1"}},
};

#define TCP_MEM_NEEDED (2000 * 4096 / AB_TCP_MEM_SHARE)

static struct autobuf_plan sysctl_plan(const struct sysctl_row *row)
{
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    p.snd_reason = row->snd ? AUTOBUF_REASON_CAPPED : AUTOBUF_REASON_KERNEL;
    p.rcv_reason = row->rcv ? AUTOBUF_REASON_CAPPED : AUTOBUF_REASON_KERNEL;
    p.snd_sysctl = row->snd;
    p.rcv_sysctl = row->rcv;
    p.snd_needed_bytes = row->snd == AUTOBUF_SYSCTL_TCP_MEM ? TCP_MEM_NEEDED : 14480000;
    p.rcv_needed_bytes = 40300000;
    return p;
}

/* name=value, or values with one blank between them: what sysctl(8) takes. */
static void check_sysctl_line(const char *line)
{
    const char *value = strchr(line, '=');

    CHECK(line, strncmp(line, "net.", 4) == 0 && value != NULL);
    CHECK(line, strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789._") == (size_t)(value - line));
    do {
        size_t digits = strspn(++value, "0123456789");

        CHECK(line, digits > 0);
        value += digits;
    } while (*value == ' ');
    CHECK(line, *value == '\0');
}

static void sysctl_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sysctl_rows); i++) {
        const struct sysctl_row *row = &sysctl_rows[i];
        struct autobuf_plan p = sysctl_plan(row);
        struct autobuf_limits host = host_6_18;
        unsigned index = 0;

        host.tcp_mem_bytes = 4096000; /* less than any row needs */
        for (; index < COUNT(row->lines) && row->lines[index]; index++) {
            char line[128] = "";

            CHECK_EQUAL(row->name,
                        autobuf_plan_sysctl(&p, &host, index, line, sizeof line),
                        strlen(row->lines[index]));
            CHECK(row->name, strcmp(line, row->lines[index]) == 0);
            check_sysctl_line(line);
        }
        for (unsigned beyond = index; beyond < index + 3; beyond++)
            CHECK_EQUAL(row->name, autobuf_plan_sysctl(&p, &host, beyond, NULL, 0), 0);
        CHECK_EQUAL(row->name, autobuf_plan_sysctl(&p, &host, UINT32_MAX, NULL, 0), 0);
    }
}

/* A path may need more than any sysctl takes. */
static void what_is_at_its_maximum_is_not_advised_again(void **state)
{
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;
    struct autobuf_limits host = host_6_18;
    char line[128];

    (void)state;
    p.snd_sysctl = AUTOBUF_SYSCTL_WMEM_MAX;
    p.rcv_sysctl = AUTOBUF_SYSCTL_TCP_RMEM;
    p.snd_needed_bytes = p.rcv_needed_bytes = 1ULL << 40;
    assert_true(autobuf_plan_sysctl(&p, &host, 0, line, sizeof line) > 0);
    assert_string_equal(line, "net.core.wmem_max=2147483646");
    assert_true(autobuf_plan_sysctl(&p, &host, 1, line, sizeof line) > 0);
    assert_string_equal(line, "net.ipv4.tcp_rmem=4096 131072 2147483646");
    host.snd_settable_bytes = host.tcp_rmem_max_bytes = 2147483646;
    assert_int_equal(autobuf_plan_sysctl(&p, &host, 0, line, sizeof line), 0);
}

/* net.ipv4.tcp_mem counts pages, rounded up. */
static void tcp_memory_in_pages(void **state)
{
    static const struct {
        const char *name;
        uint64_t page_bytes, needed_bytes, least_pages; /* needed: an eighth of the memory */
    } rows[] = {
        {"unknown: 4096", 0, 512000, 1000},
        {"4096", 4096, 512000, 1000},
        {"16384", 16384, 2048000, 1000},
        {"65536", 65536, 8192000, 1000},
        {"a byte more than pages hold", 4096, 512001, 1001},
        {"a byte less", 4096, 511999, 1000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = host_6_18;
        struct autobuf_plan p = AUTOBUF_PLAN_INIT;
        unsigned long long low, pressure, high;
        char line[128];

        limits.page_bytes = rows[i].page_bytes;
        limits.tcp_mem_bytes = 4096;
        p.snd_reason = AUTOBUF_REASON_CAPPED;
        p.snd_sysctl = AUTOBUF_SYSCTL_TCP_MEM;
        p.snd_needed_bytes = rows[i].needed_bytes;
        CHECK(rows[i].name, autobuf_plan_sysctl(&p, &limits, 0, line, sizeof line) > 0);
        check_sysctl_line(line);
        CHECK_EQUAL(rows[i].name,
                    sscanf(line, "net.ipv4.tcp_mem=%llu %llu %llu", &low, &pressure, &high), 3);
        CHECK(line, low <= pressure && pressure <= high);
        CHECK(rows[i].name, pressure >= rows[i].least_pages && pressure <= rows[i].least_pages + 4);
    }
}

static void sysctl_is_cut_at_cap(void **state)
{
    struct autobuf_plan p = sysctl_plan(&sysctl_rows[3]);

    (void)state;
    for (unsigned index = 0; index < 2; index++) {
        const char *all = sysctl_rows[3].lines[index];

        for (size_t cap = 0; cap <= strlen(all) + 1; cap++) {
            char cut[128];

            memset(cut, GUARD, sizeof cut);
            assert_int_equal(autobuf_plan_sysctl(&p, &host_6_18, index, cut, cap), strlen(all));
            if (cap) {
                assert_int_equal(strlen(cut), cap - 1);
                assert_memory_equal(cut, all, cap - 1);
            }
            for (size_t k = cap; k < sizeof cut; k++)
                assert_int_equal(cut[k], GUARD);
        }
    }
}

static void sysctl_of_bad_inputs(void **state)
{
    struct autobuf_limits limits = host_6_18;
    struct autobuf_plan p = sysctl_plan(&sysctl_rows[3]);
    char line[128];

    (void)state;
    limits.size = 3;
    assert_int_equal(autobuf_plan_sysctl(&p, &limits, 0, line, sizeof line), -EINVAL);
    p.size = 0;
    assert_int_equal(autobuf_plan_sysctl(&p, &host_6_18, 0, line, sizeof line), -EINVAL);
    p = sysctl_plan(&sysctl_rows[3]);
    p.snd_sysctl = 1U << 20; /* a newer library's */
    p.rcv_sysctl = 0;
    assert_int_equal(autobuf_plan_sysctl(&p, &host_6_18, 0, line, sizeof line), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_have_the_documented_names),
        cmocka_unit_test(every_reason_gives_a_line_a_side),
        cmocka_unit_test(reasons_read_differently),
        cmocka_unit_test(no_window_is_larger_than_tcp_s),
        cmocka_unit_test(lines_say_what_matters),
        cmocka_unit_test(foreign_values_do_no_harm),
        cmocka_unit_test(explain_is_cut_at_cap),
        cmocka_unit_test(explain_without_a_plan),
        cmocka_unit_test(sysctl_lines),
        cmocka_unit_test(what_is_at_its_maximum_is_not_advised_again),
        cmocka_unit_test(tcp_memory_in_pages),
        cmocka_unit_test(sysctl_is_cut_at_cap),
        cmocka_unit_test(sysctl_of_bad_inputs),
    };

    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
