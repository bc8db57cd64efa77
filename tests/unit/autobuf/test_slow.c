/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"
#include "print.h"
#include "slow.h"

#define MBIT 1000000ULL
#define MS 1000000ULL
#define LOOK_MS 2000U /* two seconds, in samples of 100 ms */

/* A connection of process 17 that sends 12.5 MB, 50 Mbit/s, in two seconds, over 100 ms. */
static struct connections all = {.process = {.pid = 17}};

static struct connection connection_of(uint32_t bottleneck)
{
    struct connection c = {.of = &all, .fd = 3, .peer = "192.0.2.1:7600", .congestion_control = "cubic",
                           .state = AUTOBUF_LIVE_STATE_INIT, .available = AUTOBUF_AVAILABLE_INIT,
                           .settings = AUTOBUF_SETTINGS_INIT};

    c.state.bottleneck = bottleneck;
    c.state.rtt_ns = c.state.rtt_min_ns = 100 * MS;
    c.state.snd_buf_bytes = c.state.rcv_buf_bytes = 131072;
    c.state.cwnd_bytes = 1000000;
    c.state.peer_window_bytes = 65536;
    c.state.notsent_bytes = 200000;
    c.state.packet_bytes = 1500;
    c.available.cause = AUTOBUF_CAUSE_NO_QUEUE;
    c.settings.pacing_byte_per_s = UINT64_MAX;
    return c;
}

static enum activity activity;

/* Samples it while it sends and receives so much, and concludes; a path of so many Mbit/s is known, or none (0). */
static void look(struct slow *s, struct connection *c, uint64_t sent, uint64_t received, uint64_t resent, uint64_t mbit)
{
    const struct arguments asked = {0};

    for (uint64_t ms = 0; ms <= LOOK_MS; ms += 100) {
        c->state.sent_bytes = sent * ms / LOOK_MS;
        c->state.received_bytes = received * ms / LOOK_MS;
        c->state.retransmits = (uint32_t)(resent * ms / LOOK_MS);
        slow_sample(s, c, activity, ms * MS);
    }
    c->sent_bit_per_s = sent * 8000 / LOOK_MS;
    c->received_bit_per_s = received * 8000 / LOOK_MS;
    s->f = (struct findings){.path = AUTOBUF_PATH_INIT, .limits = host_6_18, .socket = socket_new()};
    s->f.path.rtt_min_ns = 100 * MS;
    if (mbit)
        assert_int_equal(autobuf_path_given(&s->f.path, mbit * MBIT, 100 * MS), 0);
    s->f.socket.locks = c->settings.locks;
    if (c->settings.locks)
        s->f.socket.snd_buf_bytes = s->f.socket.rcv_buf_bytes = 131072;
    assert_int_equal(findings_plan(&s->f, &asked), 0);
}

static char *shown(const struct slow *s, uint64_t bytes)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    slow_show(out, s);
    slow_show_figures(out, s, bytes);
    fclose(out);
    return text;
}

static void each_bottleneck_has_its_line(void **state)
{
    static const struct {
        const char *name;
        uint32_t bottleneck;
        bool receives;
        uint64_t resent, mbit, rtt_ms, window, pace;
        const char *cc, *says, *change;
    } rows[] = {
        {"full", AUTOBUF_BOTTLENECK_PATH, false, 0, 52, 100, 1, 0, "cubic",
         "the path is full: it delivers 50.0 Mbit/s of 50.2 Mbit/s (100% of 2.0 s)\n", "nothing: the path"},
        {"a queue", AUTOBUF_BOTTLENECK_PATH, false, 9, 0, 131, 1, 0, "cubic",
         "it delivers 50.0 Mbit/s, and a queue stands (RTT 131.0 ms, least 100.0 ms); 0.10% of the packets were",
         "nothing"},
        {"bbr", AUTOBUF_BOTTLENECK_PATH, false, 9, 0, 100, 1, 0, "bbr", "Mbit/s, as bbr sees it; 0.10%", "nothing"},
        {"together", AUTOBUF_BOTTLENECK_PATH, false, 86, 400, 129, 1, 0, "cubic",
         "it delivers 50.0 Mbit/s, and its queue overflows; 0.99% of the packets were sent again (", "nothing"},
        {"loss", AUTOBUF_BOTTLENECK_PATH, false, 1, 400, 129, 1, 0, "cubic",
         "loss: 0.01% of the packets (1) were sent again; cubic reaches ", "sysctl -w \"net.ipv4.tcp_cong"},
        {"loss of what is not modelled", AUTOBUF_BOTTLENECK_PATH, false, 86, 400, 100, 1, 0, "dctcp",
         "(86) were sent again (100%", "tcp_congestion_control=bbr"},
        {"neither", AUTOBUF_BOTTLENECK_PATH, false, 0, 400, 100, 1, 0, "cubic",
         "congestion control: its window is 1.0 MB; no queue and no loss was seen (0 packets", "nothing: it looks"},
        {"a pace", AUTOBUF_BOTTLENECK_PATH, false, 0, 0, 100, 1, 6500000, "cubic", "its pace: 52.0 Mbit/s", "whoever"},
        {"a pace above it", AUTOBUF_BOTTLENECK_PATH, false, 0, 0, 100, 1, 7500000, "cubic", "congestion", "nothing"},
        {"send buffer", AUTOBUF_BOTTLENECK_SND_BUFFER, false, 0, 0, 100, 1, 0, "cubic",
         "the send buffer: 131.1 kB, as far as autotuning goes (100%", "net.ipv4.tcp_wmem, or autobuf watch --tune 17"},
        {"receive buffer", AUTOBUF_BOTTLENECK_RCV_BUFFER, true, 0, 0, 100, 1, 0, "cubic",
         "50.0 Mbit/s from 192.0.2.1:7600 (fd 3): the receive buffer: 131.1 kB, as far", "a larger net.ipv4.tcp_rmem"},
        {"peer's window", AUTOBUF_BOTTLENECK_PEER, false, 0, 0, 100, 65536, 0, "cubic",
         "50.0 Mbit/s to 192.0.2.1:7600 (fd 3): the peer: its receive window of 65.5 kB is full", "on the peer"},
        {"closed", AUTOBUF_BOTTLENECK_PEER, false, 0, 0, 100, 0, 0, "cubic", "its window is closed", "on the peer"},
        {"what comes", AUTOBUF_BOTTLENECK_PEER, true, 0, 0, 100, 1, 0, "cubic", "the peer, or the path from", "--pid"},
        {"sends no more", AUTOBUF_BOTTLENECK_SENDER, false, 0, 0, 100, 1, 0, "cubic",
         "the program, which sends nothing more", "nothing in TCP: the program, and what it waits for"},
        {"leaves unread", AUTOBUF_BOTTLENECK_RECEIVER, true, 0, 0, 100, 1, 0, "cubic",
         "the program, which leaves data unread", "nothing in TCP: the program, and what it waits for"},
        {"stalled", AUTOBUF_BOTTLENECK_STALLED, false, 9, 0, 100, 1, 0, "cubic", "stalled: ", "tcp_mtu_probing=1"},
        {"pauses", AUTOBUF_BOTTLENECK_IDLE, false, 0, 0, 100, 1, 0, "cubic", "which sends nothing more", "nothing"},
        {"waits", AUTOBUF_BOTTLENECK_IDLE, true, 0, 0, 100, 1, 0, "cubic", "the peer, or the path from there", "--pid"},
        {"too short", AUTOBUF_BOTTLENECK_UNKNOWN, false, 0, 0, 100, 1, 0, "cubic",
         "(fd 3): unknown: too little was seen\n", "nothing"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = connection_of(rows[i].bottleneck);
        struct slow s = {0};
        char *text;

        c.state.rtt_ns = rows[i].rtt_ms * MS;
        c.state.peer_window_bytes = rows[i].window;
        snprintf(c.congestion_control, sizeof c.congestion_control, "%s", rows[i].cc);
        if (rows[i].pace)
            c.settings.pacing_byte_per_s = rows[i].pace;
        look(&s, &c, rows[i].receives ? 0 : 12500000, rows[i].receives ? 12500000 : 0, rows[i].resent, rows[i].mbit);
        text = shown(&s, 0);
        CHECK(text, strstr(text, rows[i].says) != NULL);
        CHECK(text, strstr(slow_cause(&s).line, rows[i].change) != NULL);
        CHECK(text, slow_is_bulk(&s));
        free(text);
    }
}

/* Of 57 Mbit/s with headers 55.0 are payload, of 59 57.0: 50 are more than nine tenths of the former only. */
static void what_is_free_is_full(void **state)
{
    static const struct {
        uint64_t high_mbit;
        bool full;
    } rows[] = {{57, true}, {59, false}, {0, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = connection_of(AUTOBUF_BOTTLENECK_PATH);
        struct slow s = {0};
        struct bottleneck cause;

        c.available.tx_high_bit_per_s = rows[i].high_mbit * MBIT;
        look(&s, &c, 12500000, 0, 0, 0);
        cause = slow_cause(&s);
        CHECK(cause.what, (strstr(cause.what, "it delivers 50.0 Mbit/s, all that is free") != NULL) == rows[i].full);
    }
}

/* A host that is late for a moment raises the RTT, too. */
static void a_high_rtt_for_a_while_is_no_queue(void **state)
{
    (void)state;
    for (uint64_t high_ms = 1400; high_ms <= 1500; high_ms += 100) {
        struct connection c = connection_of(AUTOBUF_BOTTLENECK_PATH);
        struct slow s = {0};
        struct bottleneck cause;

        for (uint64_t ms = 0; ms <= LOOK_MS; ms += 100) {
            c.state.rtt_ns = (ms <= high_ms ? 130 : 129) * MS;
            slow_sample(&s, &c, PROCESS_WAITS, ms * MS);
        }
        cause = slow_cause(&s);
        CHECK(cause.what, (strstr(cause.what, "a queue stands") != NULL) == (high_ms == 1500));
    }
}

static void what_the_program_does(void **state)
{
    static const struct {
        enum activity activity;
        uint32_t bottleneck;
        const char *what, *line;
    } rows[] = {
        {PROCESS_DISK, AUTOBUF_BOTTLENECK_SENDER, "nothing more: it waits for a disk", "in TCP: the disk"},
        {PROCESS_DISK, AUTOBUF_BOTTLENECK_IDLE, "nothing more: it waits for a disk", "in TCP: the disk"},
        {PROCESS_RUNS, AUTOBUF_BOTTLENECK_SENDER, "sends nothing more: it computes", "or a faster processor"},
        {PROCESS_RUNS, AUTOBUF_BOTTLENECK_RECEIVER, "leaves data unread: it computes", "or a faster processor"},
        {PROCESS_WAITS, AUTOBUF_BOTTLENECK_SENDER, "sends nothing more", "and what it waits for"},
        {PROCESS_RUNS, AUTOBUF_BOTTLENECK_SND_BUFFER, "the send buffer: ", "autobuf watch"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = connection_of(rows[i].bottleneck);
        struct slow s = {0};
        struct bottleneck cause;

        activity = rows[i].activity;
        look(&s, &c, 12500000, 0, 0, 0);
        activity = PROCESS_WAITS;
        cause = slow_cause(&s);
        CHECK(cause.what, strstr(cause.what, rows[i].what));
        CHECK(cause.line, strstr(cause.line, rows[i].line));
    }
}

static void nothing_moves(void **state)
{
    struct connection c = connection_of(AUTOBUF_BOTTLENECK_IDLE);
    struct slow s = {0};
    char *text;

    (void)state;
    c.state.notsent_bytes = 0;
    look(&s, &c, 14480, 0, 0, 0);
    assert_int_equal(slow_bottleneck(&s), AUTOBUF_BOTTLENECK_IDLE);
    assert_false(slow_is_bulk(&s));
    look(&(struct slow){0}, &c, 0, 0, 0, 0);
    text = shown(&s, 1000000);
    CHECK(text, strstr(text, "0 bit/s ") == text && strstr(text, "idle: nothing moves, and nothing waits"));
    CHECK(text, strstr(text, "1.0 MB take              unknown\n"));
    free(text);
}

/* What was for most of the time counts, and a connection in the place of another one begins anew. */
static void most_of_the_time_counts(void **state)
{
    struct connection c = connection_of(AUTOBUF_BOTTLENECK_PATH);
    struct slow s = {0};

    (void)state;
    slow_sample(&s, &c, PROCESS_WAITS, 0);
    slow_sample(&s, &c, PROCESS_WAITS, 400 * MS);
    c.state.bottleneck = AUTOBUF_BOTTLENECK_UNKNOWN;
    slow_sample(&s, &c, PROCESS_WAITS, 1200 * MS);
    assert_int_equal(slow_bottleneck(&s), AUTOBUF_BOTTLENECK_PATH);
    c.state.bottleneck = AUTOBUF_BOTTLENECK_SND_BUFFER;
    slow_sample(&s, &c, PROCESS_WAITS, 1601 * MS);
    assert_int_equal(slow_bottleneck(&s), AUTOBUF_BOTTLENECK_SND_BUFFER);
    c.since_ns = 1650 * MS;
    c.state.bottleneck = AUTOBUF_BOTTLENECK_PEER;
    slow_sample(&s, &c, PROCESS_WAITS, 1700 * MS);
    assert_int_equal(slow_bottleneck(&s), AUTOBUF_BOTTLENECK_PEER);
    assert_int_equal(s.spent_ns[AUTOBUF_BOTTLENECK_PEER], 50 * MS);
}

/* A buffer that the program has set, which no sysctl changes, and one that autotuning cannot make larger. */
static void what_enlarges_a_buffer(void **state)
{
    struct connection c = connection_of(AUTOBUF_BOTTLENECK_SND_BUFFER);
    struct slow s = {0};
    char *text;

    (void)state;
    look(&s, &c, 12500000, 0, 0, 400);
    text = shown(&s, 0);
    CHECK(text, strstr(text, "sysctl -w \"net.ipv4.tcp_wmem=4096 16384 8388608\"\n"));
    CHECK(text, strstr(text, "   helps: sysctl, autobufd, run, link\n"));
    assert_in_range(1000 * slow_cause(&s).lost, 865, 875); /* 50 of 386 Mbit/s */
    free(text);

    c.settings.locks = AUTOBUF_LOCK_SND;
    look(&s, &c, 12500000, 0, 0, 0);
    text = shown(&s, 0);
    CHECK(text, strstr(text, "the send buffer: 131.1 kB, which the program has set (100%"));
    CHECK(text, strstr(text, "to change it             autobuf watch --tune 17\n"));
    CHECK(text, strstr(text, "   helps: autobufd, run, link; does not help: sysctl\n"));
    CHECK(text, strstr(text, "another connection       at most 7.0 Mbit/s: its window is 87.4 kB\n"));
    free(text);
    look(&s, &c, 12500000, 0, 0, 400);
    assert_int_equal(slow_cause(&s).ways[WAY_SYSCTL], HELP_NO);
    assert_int_equal(slow_cause(&s).ways[WAY_RUN], HELP_ALL);
    assert_int_equal(slow_cause(&s).ways[WAY_AUTOBUFD], HELP_ALL);

    c.state.snd_buf_bytes = host_6_18.tcp_wmem_max_bytes; /* no smaller than autotuning would make it */
    look(&s, &c, 12500000, 0, 0, 0);
    assert_int_equal(slow_cause(&s).ways[WAY_RUN], HELP_UNSAID);
}

static void without_window_scaling(void **state)
{
    static const struct {
        const char *name;
        uint32_t bottleneck;
        uint64_t sent, received;
        bool says;
    } rows[] = {{"sends", AUTOBUF_BOTTLENECK_PEER, 1310000, 0, true},
                {"receives", AUTOBUF_BOTTLENECK_PEER, 0, 1310000, true},
                {"receives less", AUTOBUF_BOTTLENECK_PEER, 0, 1000000, false},
                {"sends less", AUTOBUF_BOTTLENECK_SENDER, 1000000, 0, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = connection_of(rows[i].bottleneck);
        struct slow s = {0};

        c.unscaled = true;
        look(&s, &c, rows[i].sent, rows[i].received, 0, 0);
        CHECK(rows[i].name, (strstr(slow_cause(&s).what, UNSCALED_WORDS) != NULL) == rows[i].says);
    }
}

/* 50 Mbit/s now. What is free counts IP bytes: 100 Mbit/s carry 96.5 of payload. */
static void how_long_it_takes(void **state)
{
    static const struct {
        uint64_t free_mbit, mbit;
        const char *says;
    } rows[] = {{0, 0, "1.0 GB take              at most 160 s, as it goes now\n"},
                {0, 200, "1.0 GB take              41.4 s to 160 s, the latter as it goes now\n"},
                {100, 200, "1.0 GB take              82.9 s to 160 s, the latter as it goes now\n"},
                {10, 0, "1.0 GB take              160 s, as it goes now\n"}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = connection_of(AUTOBUF_BOTTLENECK_SND_BUFFER);
        struct slow s = {0};
        char *text;

        c.available.tx_high_bit_per_s = rows[i].free_mbit * MBIT;
        look(&s, &c, 12500000, 0, 0, rows[i].mbit);
        text = shown(&s, 1000000000);
        CHECK(text, strstr(text, rows[i].says));
        free(text);
    }
}

/* 2.8 MB in 100 ms are 223.7 Mbit/s. */
static void how_many_connections_pay(void **state)
{
    static const struct {
        uint64_t low_mbit, high_mbit;
        uint32_t kind;
        uint64_t resent;
        const char *says;
    } rows[] = {{500, 600, AUTOBUF_KIND_AVAILABLE, 0, "several connections      3 take what is free\n"},
                {500, 0, AUTOBUF_KIND_AVAILABLE, 0, "several connections      at least 2 take what is free\n"},
                {90, 100, AUTOBUF_KIND_AVAILABLE, 0, "several connections      take no more than one\n"},
                {90, 100, AUTOBUF_KIND_SHARE, 0, "several connections      only take from others\n"},
                {90, 0, AUTOBUF_KIND_AVAILABLE, 0, "several connections      unknown\n"},
                {90, 100, AUTOBUF_KIND_AVAILABLE, 86, "several connections      61 take what is free\n"}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = connection_of(AUTOBUF_BOTTLENECK_SENDER);
        struct slow s = {0};
        char *text;

        c.available.kind = rows[i].kind;
        c.available.tx_low_bit_per_s = rows[i].low_mbit * MBIT;
        c.available.tx_high_bit_per_s = rows[i].high_mbit * MBIT;
        look(&s, &c, 12500000, 0, rows[i].resent, 0);
        text = shown(&s, 0);
        CHECK(text, strstr(text, rows[i].says));
        free(text);
    }
}

static void the_busiest_comes_first(void **state)
{
    static struct connection c[4];
    static struct slow s[4];
    static const uint64_t sent[4] = {1000, 0, 500000, 14000};

    (void)state;
    for (size_t i = 0; i < COUNT(c); i++) {
        c[i] = connection_of(i == 1 ? AUTOBUF_BOTTLENECK_STALLED : AUTOBUF_BOTTLENECK_SENDER);
        c[i].state.notsent_bytes = 0;
        c[i].fd = (int)i;
        look(&s[i], &c[i], sent[i], 0, 0, 0);
    }
    qsort(s, COUNT(s), sizeof *s, slow_by_bytes);
    assert_int_equal(s[0].of->fd, 2);
    assert_int_equal(s[1].of->fd, 1); /* stands still, and has to move */
    assert_int_equal(s[2].of->fd, 3);
    assert_false(slow_is_bulk(&s[2]));
}

static void as_an_object(void **state)
{
    struct connection c = connection_of(AUTOBUF_BOTTLENECK_SND_BUFFER);
    struct slow s = {0};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    look(&s, &c, 12500000, 0, 0, 0);
    slow_json(out, &s, 1000000000);
    fclose(out);
    CHECK(text, strstr(text, "{\"method\":null,\"tx_rate_bit_per_s\":null,") == text);
    CHECK(text, strstr(text, "\"obstacles\":[{\"lost_permille\":null,\"what\":\"the send buffer: 131.1 kB, as far"));
    CHECK(text, strstr(text, "\"streams\":null,\"expected_low_ns\":null,\"expected_high_ns\":160000000000,"
                             "\"pid\":17,\"fd\":3,"));
    CHECK(text, strstr(text, "\"limited\":\"send-buffer\",") && text[size - 1] == '}');
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bottleneck_has_its_line), cmocka_unit_test(nothing_moves),
        cmocka_unit_test(what_the_program_does), cmocka_unit_test(what_is_free_is_full),
        cmocka_unit_test(a_high_rtt_for_a_while_is_no_queue),
        cmocka_unit_test(most_of_the_time_counts),      cmocka_unit_test(what_enlarges_a_buffer),
        cmocka_unit_test(without_window_scaling),       cmocka_unit_test(how_long_it_takes),
        cmocka_unit_test(how_many_connections_pay),     cmocka_unit_test(the_busiest_comes_first),
        cmocka_unit_test(as_an_object),
    };

    return cmocka_run_group_tests_name("slow", tests, NULL, NULL);
}
