/* SPDX-License-Identifier: MIT */
/* What a flow and autobuf_tune() take from the path store. What they add to it: tests/net/test_paths.py. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "paths/record.h"
#include "flow/flow.h"
#include "paths/store.h"
#include "sockets.h"

#define RATE 123000000U
#define YEAR_S 31536000

static char file[] = "/tmp/test_remember.XXXXXX", lock[sizeof file + 8];

static const struct row {
    const char *name, *remote, *local, *device;
    int64_t expires_in_s;
    bool known;
} rows[] = {
    {"the host", "127.0.0.1", NULL, "", 60, true},
    {"its network", "127.0.0.0/8", NULL, "", 60, true},
    {"another host", "127.0.0.2", NULL, "", 60, false},
    {"too old", "127.0.0.1", NULL, "", -1, false},
    {"of a clock that was years ahead", "127.0.0.1", NULL, "", 100000000, false},
    {"its interface", "127.0.0.1", NULL, "lo", 60, true},
    {"another interface", "127.0.0.1", NULL, "eth9", 60, false},
    {"from here", "127.0.0.1", "127.0.0.0/8", "", 60, true},
    {"from elsewhere", "127.0.0.1", "10.0.0.0/8", "", 60, false},
    {"from here and by its interface", "127.0.0.1", "127.0.0.0/8", "lo", 60, true},
};

static void entry_of(const struct row *row, struct autobuf_paths_entry *e)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t now_s = (uint64_t)time(NULL);

    *e = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
    assert_int_equal(autobuf_path_given(&path, RATE, 100000000), 0);
    assert_int_equal(autobuf_paths_learn(e, &path), 0);
    assert_int_equal(autobuf_prefix_parse(row->remote, &e->remote), 0);
    if (row->local)
        assert_int_equal(autobuf_prefix_parse(row->local, &e->local), 0);
    strcpy(e->device, row->device);
    e->expires_s = now_s + (uint64_t)row->expires_in_s;
    e->learned_s = row->expires_in_s > YEAR_S ? e->expires_s - 60 : now_s;
}

static void write_store(const struct autobuf_paths_entry *e)
{
    assert_int_equal(truncate(file, 0), 0);
    assert_int_equal(autobuf_paths_keep(file, e, 0, 0), 0);
}

/* Of the host alone. */
static void one_way(struct autobuf_paths_entry *e, uint32_t method, bool tx, bool rx)
{
    entry_of(&rows[0], e);
    e->method = method;
    if (!tx)
        e->tx_rate_bit_per_s = e->tx_rate_low_bit_per_s = e->tx_rate_high_bit_per_s = e->tx_bdp_bytes = 0;
    if (!rx)
        e->rx_rate_bit_per_s = e->rx_rate_low_bit_per_s = e->rx_rate_high_bit_per_s = e->rx_bdp_bytes = 0;
}

static void store(const struct row *row)
{
    struct autobuf_paths_entry e;

    entry_of(row, &e);
    write_store(&e);
}

static int begin(void **state)
{
    int fd = mkstemp(file);

    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", file);
    ab_store_environment(file, NULL, NULL);
    return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
    (void)state;
    unlink(lock);
    return unlink(file);
}

static struct sockaddr_in peer(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* The rate that the flow knows, and whether it has measured. 0: nothing. */
static uint64_t known_rate(struct autobuf_flow *flow)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;

    applied.path = &path;
    assert_int_equal(autobuf_flow_state(flow, &applied), 0);
    assert_int_equal(applied.measured, 0);
    return path.tx_rate_bit_per_s;
}

static void a_flow_that_is_to_connect(void **state)
{
    struct sockaddr_in to = peer();

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct autobuf_flow *flow;

        store(&rows[i]);
        assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&to, sizeof to, NULL), 0);
        CHECK_EQUAL(rows[i].name, known_rate(flow), rows[i].known ? RATE : 0);
        autobuf_flow_close(flow);
        close(fd);
    }
}

static void a_flow_that_is_connected(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct autobuf_flow *flow;
        struct connection c;

        options.flags = AUTOBUF_FLOW_SILENT;
        store(&rows[i]);
        c = tcp_connection();
        assert_int_equal(autobuf_flow_open(&flow, c.client, NULL, 0, &options), 0);
        CHECK_EQUAL(rows[i].name, known_rate(flow), rows[i].known ? RATE : 0);
        autobuf_flow_close(flow);
        close_connection(&c);
    }
}

static void a_flow_that_does_not_ask(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct sockaddr_in to = peer();
    struct autobuf_flow *flow;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    options.flags = AUTOBUF_FLOW_NO_STORE;
    store(&rows[0]);
    assert_true(rows[0].known);
    assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&to, sizeof to, &options), 0);
    assert_int_equal(known_rate(flow), 0);
    autobuf_flow_close(flow);
    close(fd);
}

static void the_blocking_call_measures_no_known_path(void **state)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = peer();

    (void)state;
    store(&rows[0]);
    applied.path = &path;
    assert_true(autobuf_tune(fd, (struct sockaddr *)&to, sizeof to, NULL, &applied) >= 0);
    assert_int_equal(path.tx_rate_bit_per_s, RATE);
    assert_int_equal(path.method, AUTOBUF_METHOD_GIVEN);
    assert_int_equal(applied.measured, 0);
    close(fd);
}

/* The store may know one direction only: a program of the other one measures. */
static void a_path_of_which_one_direction_is_known(void **state)
{
    static const struct {
        const char *name;
        uint32_t method, intent;
        bool tx, rx, known;
    } stores[] = {
        {"a sender, of sent data", AUTOBUF_METHOD_PASSIVE, AUTOBUF_INTENT_SENDS, true, false, true},
        {"a sender, of received data", AUTOBUF_METHOD_PASSIVE, AUTOBUF_INTENT_SENDS, false, true, false},
        {"a receiver, of received data", AUTOBUF_METHOD_PASSIVE, AUTOBUF_INTENT_RECEIVES, false, true, true},
        {"a receiver, of sent data", AUTOBUF_METHOD_PASSIVE, AUTOBUF_INTENT_RECEIVES, true, false, false},
        {"whoever may do both, of sent data", AUTOBUF_METHOD_PASSIVE, AUTOBUF_INTENT_THROUGHPUT, true, false, true},
        {"both, of received data", AUTOBUF_METHOD_PASSIVE,
         AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES, false, true, true},
        {"a sender, of both", AUTOBUF_METHOD_PASSIVE, AUTOBUF_INTENT_SENDS, true, true, true},
        {"a sender, measured in band one way", AUTOBUF_METHOD_INBAND, AUTOBUF_INTENT_SENDS, false, true, false},
        {"a sender, set by hand", AUTOBUF_METHOD_GIVEN, AUTOBUF_INTENT_SENDS, false, true, true},
    };
    struct sockaddr_in to = peer();

    (void)state;
    for (size_t i = 0; i < COUNT(stores); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct autobuf_paths_entry e;
        struct ab_decision d;

        options.intent = stores[i].intent;
        one_way(&e, stores[i].method, stores[i].tx, stores[i].rx);
        write_store(&e);
        assert_int_equal(ab_decide_begin(&d, fd, (struct sockaddr *)&to, sizeof to, &options), 0);
        ab_decide_recall(&d, fd);
        CHECK_EQUAL(stores[i].name, d.path.tx_rate_bit_per_s, stores[i].known && stores[i].tx ? RATE : 0);
        CHECK_EQUAL(stores[i].name, d.path.rx_rate_bit_per_s, stores[i].known && stores[i].rx ? RATE : 0);
        CHECK_EQUAL(stores[i].name, ab_decide_knows_path(&d), stores[i].known);
        close(fd);
    }
}

/* What is unsure plans nothing, and must not keep a program from measuring. */
static void a_rate_that_is_unsure_is_not_known(void **state)
{
    static const uint32_t intents[] = {AUTOBUF_INTENT_SENDS, AUTOBUF_INTENT_RECEIVES, AUTOBUF_INTENT_THROUGHPUT};
    struct sockaddr_in to = peer();

    (void)state;
    for (unsigned sides = 1; sides <= 3; sides++) {
        for (size_t i = 0; i < COUNT(intents); i++) {
            struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            struct autobuf_paths_entry e;
            struct ab_decision d;

            options.intent = intents[i];
            one_way(&e, AUTOBUF_METHOD_INBAND, true, true);
            e.tx_unsure = sides & 1 ? AUTOBUF_UNSURE_JITTER : 0;
            e.rx_unsure = sides & 2 ? AUTOBUF_UNSURE_PAUSES : 0;
            write_store(&e);
            assert_int_equal(ab_decide_begin(&d, fd, (struct sockaddr *)&to, sizeof to, &options), 0);
            ab_decide_recall(&d, fd);
            assert_int_equal(ab_decide_knows_path(&d),
                             sides != 3 && (!intents[i] || intents[i] == AUTOBUF_INTENT_SENDS * (3 - sides)));
            close(fd);
        }
    }
}

/* The other direction comes from the network's entry; without a direction the host's entry counts. */
static void a_host_of_which_one_direction_is_known(void **state)
{
    static const uint32_t intents[] = {AUTOBUF_INTENT_SENDS, AUTOBUF_INTENT_RECEIVES, AUTOBUF_INTENT_THROUGHPUT};
    struct autobuf_paths_entry network, host;
    struct sockaddr_in to = peer();

    (void)state;
    entry_of(&rows[1], &network);
    one_way(&host, AUTOBUF_METHOD_PASSIVE, false, true);
    host.rx_rate_bit_per_s = 2ULL * RATE;
    write_store(&network);
    assert_int_equal(autobuf_paths_keep(file, &host, 0, 0), 0);
    for (size_t i = 0; i < COUNT(intents); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct ab_decision d;

        options.intent = intents[i];
        assert_int_equal(ab_decide_begin(&d, fd, (struct sockaddr *)&to, sizeof to, &options), 0);
        ab_decide_recall(&d, fd);
        assert_int_equal(d.path.tx_rate_bit_per_s, intents[i] == AUTOBUF_INTENT_SENDS ? RATE : 0);
        assert_int_equal(d.path.rx_rate_bit_per_s, intents[i] == AUTOBUF_INTENT_SENDS ? RATE : 2ULL * RATE);
        close(fd);
    }
}

static void a_path_of_the_program_precedes_the_store(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = peer();
    struct autobuf_flow *flow;

    (void)state;
    store(&rows[0]);
    assert_int_equal(autobuf_path_given(&path, 5000000, 1000000), 0);
    options.path = &path;
    assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&to, sizeof to, &options), 0);
    assert_int_equal(known_rate(flow), 5000000);
    autobuf_flow_close(flow);
    close(fd);
}

static void a_store_that_is_damaged_is_no_error(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = peer();
    struct autobuf_flow *flow;

    (void)state;
    store(&rows[0]);
    assert_int_equal(truncate(file, 200), 0);
    assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&to, sizeof to, NULL), 0);
    assert_int_equal(known_rate(flow), 0);
    autobuf_flow_close(flow);
    close(fd);
}

/* ----------------------------------------------------------------------- by which interface */

/* A socket that is bound to the loopback device, which no route to these addresses uses. */
static int socket_of_loopback(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) < 0)
        skip();
    return fd;
}

static struct sockaddr_in6 ipv6(const char *address, const char *device)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(9),
                              .sin6_scope_id = device ? if_nametoindex(device) : 0};

    assert_int_equal(inet_pton(AF_INET6, address, &to.sin6_addr), 1);
    return to;
}

static void the_interface_that_is_certainly_used(void **state)
{
    static const struct way_row {
        struct row stored;
        const char *scope;
        bool bound;
    } ways[] = {
        {{"bound", "2001:db8::1", NULL, "lo", 60, true}, NULL, true},
        {{"bound to another one", "2001:db8::1", NULL, "eth9", 60, false}, NULL, true},
        {{"scope", "fe80::1", NULL, "lo", 60, true}, "lo", false},
        {{"another scope", "fe80::1", NULL, "eth9", 60, false}, "lo", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(ways); i++) {
        int fd = ways[i].bound ? socket_of_loopback() : socket(AF_INET6, SOCK_STREAM, 0);
        struct sockaddr_in6 to = ipv6(ways[i].stored.remote, ways[i].scope);
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct autobuf_flow *flow;

        options.flags = AUTOBUF_FLOW_SILENT;
        store(&ways[i].stored);
        assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&to, sizeof to, &options), 0);
        CHECK_EQUAL(ways[i].stored.name, known_rate(flow), ways[i].stored.known ? RATE : 0);
        autobuf_flow_close(flow);
        close(fd);
    }
}

static int found(const void *to, socklen_t to_len, struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, file);

    if (error < 0)
        return error;
    query.remote = to;
    query.remote_len = to_len;
    query.device = "lo";
    error = autobuf_paths_find(paths, &query, entry);
    autobuf_paths_close(paths);
    return error;
}

/* With a measurement to this peer, and a store that has none. */
static struct ab_decision decision_of(const struct sockaddr *to, socklen_t to_len)
{
    struct ab_decision d = {.options = AUTOBUF_OPTIONS_INIT, .path = AUTOBUF_PATH_INIT, .peer_len = to_len};

    memcpy(&d.peer, to, to_len);
    assert_int_equal(autobuf_path_given(&d.path, RATE, 100000000), 0);
    d.path.method = AUTOBUF_METHOD_ICMP;
    assert_int_equal(truncate(file, 0), 0);
    return d;
}

/* Keeps a measurement to this peer from this socket. Returns the error of finding it, and its interface. */
static int kept_of(const struct sockaddr *to, socklen_t to_len, int fd, uint32_t mark, uint32_t unsure,
                   struct autobuf_paths_entry *entry)
{
    struct ab_decision d = decision_of(to, to_len);

    d.options.mark = mark;
    d.path.tx_unsure = d.path.rx_unsure = unsure;
    ab_decide_record_route(&d, fd);
    ab_decide_measured(&d, 0);
    ab_decide_keep(&d);
    return found(to, to_len, entry);
}

static void a_measurement_holds_for_its_interface(void **state)
{
    struct sockaddr_in6 global = ipv6("2001:db8::1", NULL), local = ipv6("fe80::1", "lo");
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    int bound = socket_of_loopback(), free_one = socket(AF_INET6, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(kept_of((struct sockaddr *)&global, sizeof global, free_one, 0, 0, &entry), 0);
    assert_string_equal(entry.device, "");
    assert_int_equal(kept_of((struct sockaddr *)&global, sizeof global, bound, 0, 0, &entry), 0);
    assert_string_equal(entry.device, "lo");
    assert_int_equal(kept_of((struct sockaddr *)&local, sizeof local, free_one, 0, 0, &entry), 0);
    assert_string_equal(entry.device, "lo");
    assert_true(kept_of((struct sockaddr *)&global, sizeof global, free_one, 7, 0, &entry) < 0); /* marked */
    assert_true(kept_of((struct sockaddr *)&global, sizeof global, free_one, 0, AUTOBUF_UNSURE_JITTER, &entry) < 0);
    close(bound);
    close(free_one);
}

/* A sender measures; the store's faster rate of the way back is not replaced by the echo's. */
static void a_measurement_leaves_a_faster_other_direction(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent;
        unsigned row;            /* what is known is of this one, */
        bool tx, rx;             /* in these directions, */
        uint64_t rate_bit_per_s; /* and so fast */
        bool left_tx, left_rx;   /* to be handed in */
    } intents[] = {{"a sender", AUTOBUF_INTENT_SENDS, 0, false, true, 2ULL * RATE, true, false},
                   {"a receiver", AUTOBUF_INTENT_RECEIVES, 0, true, false, 2ULL * RATE, false, true},
                   {"a sender to a known network", AUTOBUF_INTENT_SENDS, 1, false, true, 2ULL * RATE, true, false},
                   {"a sender, to an unknown host", AUTOBUF_INTENT_SENDS, 2, false, true, 2ULL * RATE, true, true},
                   {"a sender, faster than the entry", AUTOBUF_INTENT_SENDS, 0, false, true, RATE / 2, true, true},
                   {"a sender, same direction known", AUTOBUF_INTENT_SENDS, 0, true, false, 2ULL * RATE, true, true},
                   {"whoever may do both", AUTOBUF_INTENT_THROUGHPUT, 0, false, true, 2ULL * RATE, true, true}};
    struct sockaddr_in to = peer();

    (void)state;
    for (size_t i = 0; i < COUNT(intents); i++) {
        struct ab_decision d = {.options = AUTOBUF_OPTIONS_INIT, .path = AUTOBUF_PATH_INIT, .peer_len = sizeof to};
        struct autobuf_paths_entry known, fresh;

        entry_of(&rows[intents[i].row], &known);
        known.method = AUTOBUF_METHOD_PASSIVE;
        known.tx_rate_bit_per_s = intents[i].tx ? intents[i].rate_bit_per_s : 0;
        known.rx_rate_bit_per_s = intents[i].rx ? intents[i].rate_bit_per_s : 0;
        known.tx_bdp_bytes = intents[i].tx ? known.tx_bdp_bytes : 0;
        known.rx_bdp_bytes = intents[i].rx ? known.rx_bdp_bytes : 0;
        write_store(&known);
        memcpy(&d.peer, &to, sizeof to);
        d.options.intent = intents[i].intent;
        entry_of(&rows[0], &fresh);
        fresh.flags = AB_PATH_AT_LEAST | AB_PATH_ECHOED;
        ab_decide_leave_faster_direction(&d, &fresh);
        CHECK_EQUAL(intents[i].name, fresh.tx_rate_bit_per_s, intents[i].left_tx ? RATE : 0);
        CHECK_EQUAL(intents[i].name, fresh.rx_rate_bit_per_s, intents[i].left_rx ? RATE : 0);
        CHECK_EQUAL(intents[i].name, fresh.tx_bdp_bytes != 0, intents[i].left_tx);
        CHECK_EQUAL(intents[i].name, fresh.rx_bdp_bytes != 0, intents[i].left_rx);
        CHECK_EQUAL(intents[i].name, fresh.flags,
                    (intents[i].left_tx ? AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED : 0) |
                        (intents[i].left_rx ? AUTOBUF_PATH_RX_AT_LEAST | AUTOBUF_PATH_RX_ECHOED : 0));
        assert_int_equal(ab_paths_check(&fresh), 0);
    }
}

/* A connection from another source address than the host's choice may be routed differently. */
static void a_measurement_from_another_source_is_not_kept(void **state)
{
    static const struct {
        const char *name, *from;
        bool kept;
    } froms[] = {{"not bound", "0.0.0.0", true},
                 {"bound to the usual address", "127.0.0.1", true}, {"to another", "127.0.0.9", false}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000102)}};
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

    (void)state;
    for (size_t i = 0; i < COUNT(froms); i++) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        assert_int_equal(inet_pton(AF_INET, froms[i].from, &from.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
        CHECK_EQUAL(froms[i].name, kept_of((struct sockaddr *)&to, sizeof to, fd, 0, 0, &entry) == 0, froms[i].kept);
        close(fd);
    }
}

/* The path that the caller tells later is used, but not kept. */
static void a_measurement_is_kept_also_if_the_caller_tells_a_path(void **state)
{
    static const uint32_t told[] = {AUTOBUF_METHOD_GIVEN, AUTOBUF_METHOD_ICMP};
    struct sockaddr_in to = peer();

    (void)state;
    for (size_t i = 0; i < COUNT(told); i++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        struct ab_decision d = decision_of((struct sockaddr *)&to, sizeof to);

        ab_decide_measured(&d, 0);
        assert_int_equal(autobuf_path_given(&d.path, RATE / 2, 100000000), 0);
        d.path.method = told[i];
        ab_decide_keep(&d);
        assert_int_equal(found((struct sockaddr *)&to, sizeof to, &entry), 0);
        assert_int_equal(entry.tx_rate_bit_per_s, RATE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flow_that_is_to_connect),
        cmocka_unit_test(a_flow_that_is_connected),
        cmocka_unit_test(a_flow_that_does_not_ask),
        cmocka_unit_test(the_blocking_call_measures_no_known_path),
        cmocka_unit_test(a_path_of_which_one_direction_is_known),
        cmocka_unit_test(a_rate_that_is_unsure_is_not_known),
        cmocka_unit_test(a_host_of_which_one_direction_is_known),
        cmocka_unit_test(a_path_of_the_program_precedes_the_store),
        cmocka_unit_test(a_store_that_is_damaged_is_no_error),
        cmocka_unit_test(the_interface_that_is_certainly_used),
        cmocka_unit_test(a_measurement_holds_for_its_interface),
        cmocka_unit_test(a_measurement_leaves_a_faster_other_direction),
        cmocka_unit_test(a_measurement_from_another_source_is_not_kept),
        cmocka_unit_test(a_measurement_is_kept_also_if_the_caller_tells_a_path),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
