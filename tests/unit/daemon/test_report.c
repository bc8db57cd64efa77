/* SPDX-License-Identifier: MIT */
/* tools/daemon/report.c: what it prints, to the letter. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/report.h"

static struct rule rule = {.name = "by \"night\"", .line = 7, .mode = MODE_PATH, .dry_run = true};

/* Each text is what a hostile program, unit or rule may be called. */
static void hostile(struct report_flow *f)
{
    static const struct owner owner = {
        .pid = 42, .fd = 5, .program = "a\"b\\c\td\n\033[2J", .unit = "x\xff.service"};

    f->owner = &owner;
    f->user = 4294967294U;
    strcpy(f->local, "192.0.2.1:80");
    strcpy(f->peer, "[2001:db8::1]:65535");
    f->rule = &rule;
    f->available.kind = AUTOBUF_KIND_AVAILABLE;
    f->available.tx_low_bit_per_s = 14;
    f->available.over_ns = 15;
    f->available.cause = AUTOBUF_CAUSE_NO_QUEUE;
    f->live.bottleneck = AUTOBUF_BOTTLENECK_SND_BUFFER;
    f->live.rtt_ns = 40000000;
    f->live.rtt_min_ns = 39000000;
    f->live.sent_bit_per_s = UINT64_MAX;
    f->live.received_bit_per_s = 1;
    f->live.sent_bytes = 2;
    f->live.received_bytes = 3;
    f->live.in_flight_bytes = 4;
    f->live.cwnd_bytes = 5;
    f->live.peer_window_bytes = 9;
    f->live.notsent_bytes = 10;
    f->live.packet_bytes = 11;
    f->live.resent_permille = 12;
    f->live.retransmits = 13;
    f->live.snd_buf_bytes = 131072;
    f->live.rcv_buf_bytes = 6;
    f->live.pacing_bit_per_s = 7;
    f->live.changes = 8;
    f->action = "send: kernel: given back\tto autotuning";
    f->action_ns = 1000000000;
}

static void flow_at(const void *user, size_t at, struct report_flow *f)
{
    static struct owner owner;
    static struct rule acts;

    assert_ptr_equal(user, &rule);
    if (at == 0) {
        hostile(f);
        return;
    }
    owner.pid = (pid_t)at;
    acts = rule;
    acts.dry_run = false;
    *f = (struct report_flow){.owner = &owner, .rule = &acts, .action = "",
                              .live = {.rtt_ns = AUTOBUF_NS_UNSET, .rtt_min_ns = AUTOBUF_NS_UNSET}};
}

static const struct report_learning learning = {
    .connections = 51, .programs = 52, .rejected = {61, 62, 63, 64}, .lost = 53, .failed = 54, .cpu_ns = 55,
    .site = {.used = true, .up = true, .sent = 71, .taken = 72, .rejected = 73, .lost = 74, .failed = 75,
             .cpu_ns = 76}};

static struct report report_of(const struct report_counts *counts, size_t managed)
{
    return (struct report){.counts = counts, .learning = &learning, .now_ns = 3500000000,
                           .clients = {.answered = 5, .dropped = 6, .cpu_ns = 4},
                           .rejected = 7, .memory_bytes = 8192, .generation = 2, .rules = 3, .managed = managed,
                           .flow = flow_at, .user = &rule};
}

static char *printed(void (*print)(FILE *, const struct report *), const struct report *r)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    print(out, r);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(strlen(text), length);
    return text;
}

static void flows(void **state)
{
    struct report_counts counts = {.sockets = 11, .sweeps = 12};
    struct report r = report_of(&counts, 2);
    char *text = printed(report_flows, &r), *middle = strstr(text, ",{\"pid\":1,"), wanted[2048];

    (void)state;
    assert_non_null(middle);
    snprintf(wanted, sizeof wanted,
             "{\"version\":\"%s\",\"generation\":2,\"sweeps\":12,\"sockets\":11,\"managed\":2,\"left_out\":0,"
             "\"learned\":51,\"reported\":52,"
             "\"rejected\":250,\"withheld_sizes\":null,"
             "\"site\":{\"sent\":71,\"taken\":72,\"rejected\":73,\"lost\":74,\"failures\":75,\"up\":true},"
             "\"flows\":["
             "{\"pid\":42,\"fd\":5,\"program\":\"a\\\"b\\\\c?d??[2J\",\"user\":4294967294,\"unit\":\"x?.service\","
             "\"local\":\"192.0.2.1:80\",\"peer\":\"[2001:db8::1]:65535\",\"mode\":\"path\",\"rule\":\"by "
             "\\\"night\\\"\","
             "\"rule_line\":7,\"dry_run\":true,\"available\":{\"kind\":\"available\",\"tx_low_bit_per_s\":14,"
             "\"tx_high_bit_per_s\":null,\"rx_low_bit_per_s\":null,\"rx_high_bit_per_s\":null,\"over_ns\":15,"
             "\"age_ns\":0,\"echoed\":false,\"cause\":\"no-queue\"},"
             "\"limited\":\"send-buffer\",\"rtt_ns\":40000000,\"rtt_min_ns\":39000000,"
             "\"sent_bytes\":2,\"received_bytes\":3,\"sent_bit_per_s\":18446744073709551615,\"received_bit_per_s\":1,"
             "\"in_flight_bytes\":4,\"cwnd_bytes\":5,\"peer_window_bytes\":9,\"notsent_bytes\":10,"
             "\"snd_buf_bytes\":131072,\"rcv_buf_bytes\":6,\"pacing_bit_per_s\":7,"
             "\"mtu_bytes\":11,\"loss_permille\":12,\"retransmits\":13,\"changes\":8,\"action\":\"send: kernel: given "
             "back?to autotuning\",\"action_age_ns\":2500000000}",
             autobuf_version());
    *middle = '\0';
    assert_string_equal(text, wanted);
    assert_string_equal(middle + 1,
                        "{\"pid\":1,\"fd\":0,\"program\":\"\",\"user\":0,\"unit\":null,\"local\":\"\",\"peer\":\"\","
                        "\"mode\":\"path\",\"rule\":\"by \\\"night\\\"\",\"rule_line\":7,\"dry_run\":false,"
                        "\"available\":{\"kind\":null,\"tx_low_bit_per_s\":null,\"tx_high_bit_per_s\":null,"
                        "\"rx_low_bit_per_s\":null,\"rx_high_bit_per_s\":null,\"over_ns\":null,\"age_ns\":null,"
                        "\"echoed\":false,\"cause\":null},"
                        "\"limited\":\"unknown\",\"rtt_ns\":null,\"rtt_min_ns\":null,\"sent_bytes\":0,"
                        "\"received_bytes\":0,"
                        "\"sent_bit_per_s\":0,\"received_bit_per_s\":0,\"in_flight_bytes\":0,\"cwnd_bytes\":0,"
                        "\"peer_window_bytes\":null,\"notsent_bytes\":0,\"snd_buf_bytes\":0,\"rcv_buf_bytes\":0,"
                        "\"pacing_bit_per_s\":null,"
                        "\"mtu_bytes\":null,\"loss_permille\":0,\"retransmits\":0,\"changes\":0,\"action\":null,"
                        "\"action_age_ns\":null}]}\n");
    free(text);
}

static void without_a_site(void **state)
{
    const struct report_learning alone = {.connections = 51};
    struct report_counts counts = {.sockets = 11};
    struct report r = report_of(&counts, 0);
    char *text;

    (void)state;
    r.learning = &alone;
    text = printed(report_flows, &r);
    assert_non_null(strstr(text, ",\"site\":null,"));
    free(text);
    text = printed(report_metrics, &r);
    assert_null(strstr(text, "autobufd_site_"));
    free(text);
}

static void many_are_left_out(void **state)
{
    struct report_counts counts = {0};
    struct report r = report_of(&counts, 100000);
    char *text = printed(report_flows, &r), *at = text;
    size_t count = 0;

    (void)state;
    assert_non_null(strstr(text, "\"managed\":100000,\"left_out\":98000,"));
    while ((at = strstr(at, "{\"pid\":")) != NULL) {
        at++;
        count++;
    }
    assert_int_equal(count, REPORT_FLOWS_MOST);
    free(text);
}

static void metrics(void **state)
{
    struct report_counts counts = {
        .sweeps = 1, .sockets = 2, .sweeps_cpu_ns = 3000000001, .sampling_cpu_ns = 10, .searches_cpu_ns = 999999999,
        .taken_up = 9,
        .actions = {21, 22, 23, 24, 25}, .refused = {31, 32, 33, 34}, .managed_most = 44,
        .forced_bytes = 45, .forced_most_bytes = 46, .full_connections = 47, .full_forced = 48,
        .failed_sweeps = 41, .failed_actions = 42, .withhold = true, .withheld = 43};
    static const char *const lines[] = {
        "autobufd_sweeps_total 1", "autobufd_sockets 2", "autobufd_managed 4", "autobufd_managed_most 44",
        "autobufd_forced_bytes 45", "autobufd_forced_most_bytes 46", "autobufd_full_users{of=\"connections\"} 47",
        "autobufd_full_users{of=\"forced_bytes\"} 48", "autobufd_managed_total 9",
        "autobufd_cpu_seconds_total{part=\"sweeps\"} 3.000000001",
        "autobufd_cpu_seconds_total{part=\"samples\"} 0.000000010",
        "autobufd_cpu_seconds_total{part=\"searches\"} 0.999999999",
        "autobufd_cpu_seconds_total{part=\"answers\"} 0.000000004",
        "autobufd_actions_total{kind=\"given_back\"} 21", "autobufd_actions_total{kind=\"buffers\"} 22",
        "autobufd_actions_total{kind=\"pace\"} 23", "autobufd_actions_total{kind=\"congestion_control\"} 24",
        "autobufd_actions_total{kind=\"other\"} 25", "autobufd_refused_total{reason=\"not_permitted\"} 31",
        "autobufd_refused_total{reason=\"gone\"} 32", "autobufd_refused_total{reason=\"no_owner\"} 33",
        "autobufd_refused_total{reason=\"near\"} 34", "autobufd_errors_total{what=\"sweep\"} 41",
        "autobufd_errors_total{what=\"action\"} 42", "autobufd_errors_total{what=\"rules\"} 7",
        "autobufd_errors_total{what=\"store\"} 54",
        "autobufd_learned_total{from=\"connections\"} 51", "autobufd_learned_total{from=\"programs\"} 52",
        "autobufd_rejected_total{reason=\"not_believed\"} 61", "autobufd_rejected_total{reason=\"malformed\"} 62",
        "autobufd_rejected_total{reason=\"not_valid\"} 63", "autobufd_rejected_total{reason=\"too_many\"} 64",
        "autobufd_learned_lost_total 53", "autobufd_cpu_seconds_total{part=\"learning\"} 0.000000055",
        "autobufd_rules 3",
        "autobufd_config_generation 2", "autobufd_clients_total{end=\"answered\"} 5",
        "autobufd_clients_total{end=\"dropped\"} 6",
        "autobufd_resident_memory_bytes 8192", "autobufd_withheld_sizes_total 43",
        "autobufd_site_up 1", "autobufd_site_entries_total{end=\"sent\"} 71",
        "autobufd_site_entries_total{end=\"taken\"} 72", "autobufd_site_entries_total{end=\"rejected\"} 73",
        "autobufd_site_entries_total{end=\"lost\"} 74", "autobufd_site_failures_total 75",
        "autobufd_cpu_seconds_total{part=\"site\"} 0.000000076",
    };
    struct report r = report_of(&counts, 4);
    char *text = printed(report_metrics, &r), *rest = text, *line, name[64] = "", type[16];
    size_t samples = 0;

    (void)state;
    /* HELP and TYPE come before the samples of each name, and each sample is a line above. */
    while ((line = strsep(&rest, "\n")) != NULL && rest) {
        if (sscanf(line, "# HELP %63s", name) == 1)
            continue;
        if (line[0] == '#') {
            char typed[64];

            assert_int_equal(sscanf(line, "# TYPE %63s %15s", typed, type), 2);
            assert_string_equal(typed, name);
            assert_string_equal(type, strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0 ? "counter"
                                                                                                         : "gauge");
            continue;
        }
        CHECK(line, strncmp(line, name, strlen(name)) == 0);
        if (strncmp(line, "autobufd_info{", 14) == 0)
            continue;
        CHECK(line, samples < COUNT(lines));
        for (size_t i = 0; i < COUNT(lines); i++)
            samples += strcmp(line, lines[i]) == 0;
    }
    assert_int_equal(samples, COUNT(lines));
    assert_string_equal(line, "");
    free(text);
    text = printed(report_flows, &r);
    assert_non_null(strstr(text, ",\"withheld_sizes\":43,"));
    free(text);
    r.memory_bytes = 0;
    counts.withhold = false;
    text = printed(report_metrics, &r);
    assert_null(strstr(text, "resident_memory"));
    assert_null(strstr(text, "withheld_sizes"));
    free(text);
}

static void addresses(void **state)
{
    static const uint8_t v4[4] = {192, 0, 2, 1}, v6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};
    char text[PROCESS_ADDRESS_BYTES];

    (void)state;
    process_address(4, v4, 80, text);
    assert_string_equal(text, "192.0.2.1:80");
    process_address(6, v6, 65535, text);
    assert_string_equal(text, "[2001:db8::1]:65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows), cmocka_unit_test(without_a_site),             cmocka_unit_test(many_are_left_out),
        cmocka_unit_test(metrics), cmocka_unit_test(addresses),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
