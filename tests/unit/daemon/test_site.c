/* SPDX-License-Identifier: MIT */
/* tools/daemon/site.c: rounds with a server, which the test plays, at times that the test says. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>

#include "daemon/site.h"
#include "daemon/log.h"

#define NS_PER_S 1000000000ULL
#define NOTHING "*-1\r\n"
#define ADDED "$3\r\n1-0\r\n"

static uint64_t site_deadline_ns(const struct site *of, uint64_t now_ns)
{
    struct pollfd polled[1];
    uint64_t until_ns = UINT64_MAX;

    (void)site_poll(of, polled, now_ns, &until_ns);
    return until_ns;
}

static char folder[] = "/tmp/test_site.XXXXXX", file[sizeof folder + 16], secret[sizeof folder + 16];
static struct keep keep;
static struct config config;
static struct site *site;
static int listener, server; /* -1: none */
static unsigned lines;
static char said[200];
static char round_text[65536]; /* the newest that was taken */
static int64_t clock_ahead_s;

/* The clock of this host, which anybody may set. */
time_t time(time_t *now)
{
    struct timespec real;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &real), 0);
    real.tv_sec += clock_ahead_s;
    if (now)
        *now = real.tv_sec;
    return real.tv_sec;
}

static void say(const char *line)
{
    lines++;
    snprintf(said, sizeof said, "%s", line);
}

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/socket", folder);
    snprintf(secret, sizeof secret, "%s/secret", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void listen_now(void)
{
    const struct sockaddr *address = (const struct sockaddr *)&config.site.address;

    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, address, config.site.address_bytes), 0);
    assert_int_equal(listen(listener, 4), 0);
}

/* Nobody listens yet. */
static int open_alone(void **state)
{
    char place[sizeof file + 8];

    (void)state;
    lines = 0;
    clock_ahead_s = 0;
    listener = server = -1;
    keep = (struct keep){.file = "/no/such/file"}; /* nothing is written here */
    config = (struct config){.site_key = "key"};
    snprintf(place, sizeof place, "unix:%s", file);
    assert_true(site_place_parse(place, &config.site));
    site = NULL;
    return site_open(&site, &config, &keep);
}

static int open_one(void **state)
{
    int error = open_alone(state);

    listen_now();
    return error;
}

static int close_one(void **state)
{
    (void)state;
    site_close(site);
    site = NULL;
    if (listener >= 0)
        close(listener);
    if (server >= 0)
        close(server);
    unlink(file);
    return keep.offer ? -1 : 0;
}

/* An entry of the host of this number. */
static struct autobuf_paths_entry entry(unsigned host)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    char text[AUTOBUF_PREFIX_BYTES];

    snprintf(text, sizeof text, "198.51.%u.%u", host / 256, host % 256);
    assert_int_equal(autobuf_prefix_parse(text, &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.tx_rate_bit_per_s = e.rx_rate_bit_per_s = 100000000;
    e.rtt_min_ns = 40000000;
    e.learned_s = (uint64_t)time(NULL);
    e.expires_s = e.learned_s + 3600;
    return e;
}

/* Takes the connection if there is a new one, and how many entries this round has sent. */
static unsigned take_round(void)
{
    char *const text = round_text, *at = text;
    unsigned added = 0;
    ssize_t got;

    if (server < 0)
        server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    got = recv(server, text, sizeof round_text - 1, 0);
    assert_true(got > 0);
    text[got] = '\0';
    while ((at = memmem(at, (size_t)(text + got - at), "XADD", 4)))
        added++, at += 4;
    assert_non_null(memmem(text, (size_t)got, "XREAD", 5));
    return added;
}

/* Answers so many additions, and that nothing has come. */
static void answer(unsigned added)
{
    for (; added; added--)
        assert_int_equal(send(server, ADDED, strlen(ADDED), MSG_NOSIGNAL), strlen(ADDED));
    assert_int_equal(send(server, NOTHING, strlen(NOTHING), MSG_NOSIGNAL), strlen(NOTHING));
}

/* Does what is due next. Returns when that was. */
static uint64_t step_when_due(void)
{
    uint64_t due_ns = site_deadline_ns(site, 0);

    site_step(site, due_ns);
    return due_ns;
}

/* Whether the round that was taken last reads so many from there, a number of two digits or an id. */
static bool reads(const char *count, const char *from)
{
    char text[100];
    const char *read = memmem(round_text, sizeof round_text, "XREAD", 5);

    snprintf(text, sizeof text,
             "XREAD\r\n$5\r\nCOUNT\r\n$%zu\r\n%s\r\n$7\r\nSTREAMS\r\n$11\r\nkey:paths:1\r\n$%zu\r\n%s\r\n",
             strlen(count), count, strlen(from), from);
    assert_non_null(read);
    return strcmp(read, text) == 0;
}

/* Answers with messages from this one on, which have a field and are no entries. */
static void answer_messages(unsigned first, unsigned count, size_t bytes)
{
    static char text[262144], field[65536];
    int length = sprintf(text, "*1\r\n*2\r\n$11\r\nkey:paths:1\r\n*%u\r\n", count);

    memset(field, 'x', bytes);
    field[bytes] = '\0';
    for (unsigned n = first; n < first + count; n++)
        length += sprintf(text + length, "*2\r\n$%d\r\n%u-0\r\n*2\r\n$1\r\nf\r\n$%zu\r\n%s\r\n", n < 10 ? 3 : 4, n,
                          bytes, field);
    for (ssize_t at = 0, sent; at < length; at += sent) { /* a socket holds more */
        sent = send(server, text + at, (size_t)(length - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(sent > 0);
    }
}

/* Takes all of an answer that has been sent: a part at each step. Returns when that was. */
static uint64_t hear_all(uint64_t now_ns)
{
    for (unsigned i = 0; i < 10; i++) {
        now_ns += SITE_SOON_NS / 16;
        site_step(site, now_ns);
    }
    return now_ns;
}

/* --------------------------------------------------------------------------------------- tests */

static void nobody_is_there(void **state)
{
    uint64_t wait_ns = SITE_SOON_NS, was_ns = 0;

    (void)state;
    for (unsigned n = 1; n <= 20; n++) {
        uint64_t now_ns = step_when_due();

        assert_int_equal(keep.counts.site.failed, n);
        if (n > 1) { /* between a half of the time to wait and one and a half */
            assert_in_range(now_ns - was_ns, wait_ns / 2, wait_ns / 2 * 3);
            wait_ns = 2 * wait_ns < SITE_BACKOFF_NS ? 2 * wait_ns : SITE_BACKOFF_NS;
        }
        was_ns = now_ns;
    }
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, "goes on without it"));
    listen_now();
    step_when_due();
    answer(take_round());
    site_step(site, was_ns);
    assert_int_equal(lines, 2);
    assert_non_null(strstr(said, "is back"));
    assert_true(keep.counts.site.up);
}

static void a_server_that_says_nothing(void **state)
{
    struct pollfd fd;

    (void)state;
    assert_int_equal(site_poll(site, &fd, 0, &(uint64_t){UINT64_MAX}), 0); /* not connected yet */
    site_step(site, 7);
    assert_int_equal(site_poll(site, &fd, 0, &(uint64_t){UINT64_MAX}), 1);
    assert_int_equal(site_deadline_ns(site, 0), 7 + SITE_ROUND_NS);
    site_step(site, 6 + SITE_ROUND_NS);
    assert_int_equal(lines, 0);
    site_step(site, 7 + SITE_ROUND_NS);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, strerror(ETIMEDOUT)));
    assert_int_equal(site_poll(site, &fd, 0, &(uint64_t){UINT64_MAX}), 0);
    assert_false(keep.counts.site.up);
}

/* It is looked at now and then, and not for each byte; what it says in the end is taken. */
static void a_server_that_answers_byte_by_byte(void **state)
{
    const uint64_t ms = 1000000;
    uint64_t now_ns = ms;
    struct pollfd fd;

    (void)state;
    site_step(site, now_ns);
    take_round();
    for (const char *byte = NOTHING; byte[1]; byte++) {
        assert_int_equal(site_poll(site, &fd, now_ns, &(uint64_t){UINT64_MAX}), 1);
        assert_int_equal(send(server, byte, 1, MSG_NOSIGNAL), 1);
        site_step(site, now_ns);
        assert_int_equal(site_poll(site, &fd, now_ns, &(uint64_t){UINT64_MAX}), 0);
        assert_int_equal(site_deadline_ns(site, now_ns), now_ns + 50 * ms);
        now_ns += 50 * ms;
    }
    assert_int_equal(send(server, "\n", 1, MSG_NOSIGNAL), 1);
    site_step(site, now_ns - ms); /* woken by something else */
    assert_false(keep.counts.site.up);
    site_step(site, now_ns);
    assert_true(keep.counts.site.up);
}

static void a_round_and_the_next(void **state)
{
    uint64_t due_ns;

    (void)state;
    site_step(site, 0);
    assert_int_equal(take_round(), 0);
    answer(0);
    site_step(site, 1);
    assert_true(keep.counts.site.up);
    due_ns = site_deadline_ns(site, 0);
    assert_in_range(due_ns, 1 + SITE_ROUND_NS / 2, 1 + SITE_ROUND_NS / 2 * 3);
    site_step(site, due_ns - 1); /* not yet */
    assert_int_equal(site_deadline_ns(site, 0), due_ns);
    site_step(site, due_ns);
    assert_int_equal(take_round(), 0); /* on the same connection */
}

static void wait_for_answer(void)
{
    struct pollfd fd;

    assert_int_equal(site_poll(site, &fd, 0, &(uint64_t){UINT64_MAX}), 1);
    fd.events = POLLIN;
    assert_int_equal(poll(&fd, 1, 10000), 1);
}

/* A port where nobody listens at first. */
static void over_tcp(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    char place[64];
    struct site *tcp = NULL;

    (void)state;
    close(listener);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    snprintf(place, sizeof place, "redis://127.0.0.1:%u", ntohs(address.sin_port));
    assert_true(site_place_parse(place, &config.site));
    assert_int_equal(site_open(&tcp, &config, &keep), 0);
    site_close(site);
    site = tcp;
    site_step(site, 0);
    if (keep.counts.site.failed == 0) { /* the refusal may come a little later */
        wait_for_answer();
        site_step(site, 0);
    }
    assert_int_equal(keep.counts.site.failed, 1);
    assert_non_null(strstr(said, strerror(ECONNREFUSED)));
    assert_int_equal(listen(listener, 1), 0);
    step_when_due();
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    site_step(site, site_deadline_ns(site, 0) - 1); /* sends, if it was not connected before */
    assert_int_equal(take_round(), 0);
    answer(0);
    wait_for_answer();
    site_step(site, site_deadline_ns(site, 0) - 1);
    assert_true(keep.counts.site.up);
}

/* As servers do with connections that rest for long. */
static void a_connection_that_is_closed_meanwhile(void **state)
{
    (void)state;
    site_step(site, 0);
    answer(take_round());
    site_step(site, 1);
    close(server);
    server = -1;
    site_step(site, 2);
    step_when_due();
    assert_int_equal(take_round(), 0);
    assert_int_equal(keep.counts.site.failed, 0);
    assert_int_equal(lines, 0);
}

static void so_many_wait(void **state)
{
    unsigned sent = 0, most = 0;

    (void)state;
    for (unsigned host = 0; host < SITE_WAITING + 44; host++) {
        struct autobuf_paths_entry e = entry(host);

        site_offer(site, &e);
        site_offer(site, &e); /* once more is not one more */
    }
    assert_int_equal(keep.counts.site.lost, 44);
    for (unsigned round = 0; round < SITE_WAITING / SITE_ROUND; round++) {
        uint64_t now_ns = step_when_due();
        unsigned added = take_round();

        most = added > most ? added : most;
        sent += added;
        answer(added);
        site_step(site, now_ns);
        if (sent < SITE_WAITING)
            assert_int_equal(site_deadline_ns(site, 0), now_ns + SITE_SOON_NS);
    }
    assert_int_equal(most, SITE_ROUND);
    assert_int_equal(sent, SITE_WAITING);
    assert_int_equal(keep.counts.site.sent, SITE_WAITING);
}

static void what_was_not_taken_is_sent_again(void **state)
{
    struct autobuf_paths_entry e = entry(1);

    (void)state;
    site_offer(site, &e);
    site_step(site, 0);
    assert_int_equal(take_round(), 1);
    close(server);
    server = -1;
    site_step(site, 1);
    assert_int_equal(keep.counts.site.failed, 1);
    site_offer(site, &e);
    step_when_due();
    assert_int_equal(take_round(), 1);
    assert_int_equal(keep.counts.site.sent, 0);
}

/* What is learned anew of the same path, after it was sent and before the server has answered. */
static void one_that_is_under_way(void **state)
{
    struct autobuf_paths_entry e = entry(1);

    (void)state;
    site_offer(site, &e);
    site_step(site, 0);
    assert_int_equal(take_round(), 1);
    e.tx_rate_bit_per_s *= 2;
    site_offer(site, &e);
    answer(1);
    site_step(site, 1);
    step_when_due();
    assert_int_equal(take_round(), 1);
}

static void what_is_offered(void **state)
{
    struct autobuf_paths_entry given = entry(1), learned = entry(2), network = entry(3);

    (void)state;
    given.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(autobuf_prefix_parse("198.51.100.0/24", &network.remote), 0);
    site_offer(site, &given);
    site_offer(site, &network);
    site_offer(NULL, &learned);
    keep_learned(&keep, &learned, KEEP_MOST); /* hands it on */
    site_step(site, 0);
    assert_int_equal(take_round(), 1);
}

static void nothing_is_read_without_room(void **state)
{
    struct pollfd fd;

    (void)state;
    keep.count = KEEP_MOST;
    site_step(site, 5);
    assert_int_equal(site_poll(site, &fd, 0, &(uint64_t){UINT64_MAX}), 0);
    assert_int_equal(site_deadline_ns(site, 0), 5 + SITE_SOON_NS);
    keep.count = 0;
    step_when_due();
    assert_int_equal(site_poll(site, &fd, 0, &(uint64_t){UINT64_MAX}), 1);
    assert_int_equal(fd.events & POLLIN, POLLIN);
}

static void end_connection(void)
{
    close(server);
    server = -1;
}

/* Of messages that are longer than an entry the rest is passed over. They are not read once more. */
static void answers_that_are_long(void **state)
{
    uint64_t now_ns = 0;

    (void)state;
    site_step(site, now_ns);
    take_round();
    assert_true(reads("32", "0"));
    answer_messages(10, 10, 10000);
    hear_all(now_ns);
    now_ns = step_when_due();
    take_round(); /* of the same connection */
    assert_true(reads("32", "19-0"));
    answer_messages(20, 1, 10);
    hear_all(now_ns);
    step_when_due();
    take_round();
    assert_true(reads("33", "19-18446744073709551615"));
    assert_int_equal(keep.counts.site.rejected, 0);
    assert_int_equal(keep.counts.site.failed, 0);
    assert_int_equal(lines, 0);
}

/* Of which the beginning succeeds each time. */
static void a_failure_that_comes_again(void **state)
{
    uint64_t wait_ns = SITE_SOON_NS, failed_ns = 0;

    (void)state;
    for (unsigned n = 1; n <= 12; n++) {
        uint64_t now_ns = step_when_due();

        if (n > 1) {
            assert_in_range(now_ns - failed_ns, wait_ns / 2, wait_ns / 2 * 3);
            wait_ns = 2 * wait_ns < SITE_BACKOFF_NS ? 2 * wait_ns : SITE_BACKOFF_NS;
        }
        take_round();
        answer_messages(10, SITE_ROUND, 1);
        site_step(site, now_ns);
        assert_int_equal(keep.counts.site.failed, n - 1);
        failed_ns = step_when_due();
        take_round();
        assert_int_equal(send(server, "?", 1, MSG_NOSIGNAL), 1);
        site_step(site, failed_ns);
        assert_int_equal(keep.counts.site.failed, n);
        end_connection();
    }
    assert_int_equal(lines, 1);
    failed_ns = step_when_due();
    answer(take_round());
    site_step(site, failed_ns);
    assert_int_equal(lines, 2);
    assert_non_null(strstr(said, "is back"));
}

/* What was read before seemed to be expired, or not to be learned yet. */
static void a_clock_that_is_set(void **state)
{
    static const struct {
        int64_t ahead_s;
        const char *count, *from;
    } rows[] = {{0, "33", "9-18446744073709551615"}, {200, "33", "9-18446744073709551615"}, {86400, "32", "0"},
                {86400, "33", "9-18446744073709551615"}, {0, "32", "0"}};
    uint64_t now_ns = 0;

    (void)state;
    site_step(site, now_ns);
    take_round();
    for (size_t i = 0; i < COUNT(rows); i++) {
        answer_messages(10, 1, 1);
        site_step(site, now_ns);
        clock_ahead_s = rows[i].ahead_s;
        now_ns = step_when_due();
        take_round();
        CHECK(rows[i].from, reads(rows[i].count, rows[i].from));
    }
}

/* Who it is in the round that was taken last. */
static void find_who(char who[SITE_WHO_BYTES])
{
    const char *begins = strstr(round_text, "h\r\n$16\r\n");

    assert_non_null(begins);
    snprintf(who, SITE_WHO_BYTES, "%.16s", begins + 8);
}

static void opened_again(void **state)
{
    static const struct {
        const char *key, *file;
        bool same;
    } rows[] = {{"key", "/no/such/file", true}, {"yek", "/no/such/file", false}, {"key", "/no/such/other", false}};
    char who[SITE_WHO_BYTES], before[SITE_WHO_BYTES];
    struct autobuf_paths_entry e = entry(1);

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        site_close(site);
        site = NULL;
        strcpy(keep.file, "/no/such/file");
        strcpy(config.site_key, "key");
        assert_int_equal(site_open(&site, &config, &keep), 0);
        site_offer(site, &e);
        site_step(site, 0);
        assert_int_equal(take_round(), 1);
        find_who(before);
        assert_int_equal(send(server, ADDED, strlen(ADDED), MSG_NOSIGNAL), strlen(ADDED));
        answer_messages(10, 1, 1);
        site_step(site, 0);
        site_offer(site, &e);
        step_when_due(); /* it is under way */
        assert_int_equal(take_round(), 1);
        strcpy(keep.file, rows[i].file);
        strcpy(config.site_key, rows[i].key);
        assert_int_equal(site_open(&site, &config, &keep), 0);
        end_connection();
        assert_true(keep.counts.site.used);
        if (!rows[i].same)
            site_offer(site, &e);
        site_step(site, 0);
        assert_int_equal(take_round(), 1);
        find_who(who);
        CHECK_EQUAL(rows[i].file, strcmp(who, before) == 0, rows[i].same);
        CHECK_EQUAL(rows[i].file, memmem(round_text, sizeof round_text, "\r\n9-18446744073709551615\r\n", 26) != NULL,
                    rows[i].same);
        memset(round_text, 0, sizeof round_text);
        end_connection();
    }
}

/* A password's file that went away meanwhile, and a configuration without a server. */
static void what_cannot_be_opened_again(void **state)
{
    (void)state;
    strcpy(config.site_password_file, secret);
    assert_int_equal(site_open(&site, &config, &keep), -ENOENT);
    assert_null(site);
    assert_false(keep.counts.site.used);
    assert_int_equal(site_open(&site, &config, &keep), -ENOENT);
    config.site_password_file[0] = '\0';
    assert_int_equal(site_open(&site, &config, &keep), 0);
    assert_true(keep.counts.site.used);
    config.site.address_bytes = 0;
    assert_int_equal(site_open(&site, &config, &keep), 0);
    assert_null(site);
    assert_false(keep.counts.site.used);
}

static void the_password_s_file(void **state)
{
    static const struct {
        const char *name, *text; /* NULL: there is no file */
        mode_t mode;
        int result;
    } rows[] = {
        {"good", "secret\n", 0600, 0},        {"read-only", "secret", 0400, 0},
        {"readable", "secret\n", 0640, -EPERM},
        {"for all", "secret\n", 0604, -EPERM}, {"writable", "secret\n", 0620, -EPERM}, {"empty", "", 0600, -EINVAL},
        {"a line", "\nsecret\n", 0600, -EINVAL}, {"none", NULL, 0, -ENOENT},
    };
    struct site *one = NULL;

    (void)state;
    strcpy(config.site_password_file, secret);
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].text) {
            FILE *f = fopen(secret, "w");

            assert_non_null(f);
            fputs(rows[i].text, f);
            assert_int_equal(fclose(f), 0);
            assert_int_equal(chmod(secret, rows[i].mode), 0);
        }
        CHECK_EQUAL(rows[i].name, site_open(&one, &config, &keep), rows[i].result);
        CHECK_EQUAL(rows[i].name, one != NULL, rows[i].result == 0);
        site_close(one);
        one = NULL;
        unlink(secret);
    }
    keep.offer_to = site; /* whose place the others took */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_is_there, open_alone, close_one),
        cmocka_unit_test_setup_teardown(a_server_that_says_nothing, open_one, close_one),
        cmocka_unit_test_setup_teardown(a_server_that_answers_byte_by_byte, open_one, close_one),
        cmocka_unit_test_setup_teardown(a_round_and_the_next, open_one, close_one),
        cmocka_unit_test_setup_teardown(over_tcp, open_one, close_one),
        cmocka_unit_test_setup_teardown(a_connection_that_is_closed_meanwhile, open_one, close_one),
        cmocka_unit_test_setup_teardown(so_many_wait, open_one, close_one),
        cmocka_unit_test_setup_teardown(what_was_not_taken_is_sent_again, open_one, close_one),
        cmocka_unit_test_setup_teardown(one_that_is_under_way, open_one, close_one),
        cmocka_unit_test_setup_teardown(what_is_offered, open_one, close_one),
        cmocka_unit_test_setup_teardown(nothing_is_read_without_room, open_one, close_one),
        cmocka_unit_test_setup_teardown(answers_that_are_long, open_one, close_one),
        cmocka_unit_test_setup_teardown(a_failure_that_comes_again, open_one, close_one),
        cmocka_unit_test_setup_teardown(a_clock_that_is_set, open_one, close_one),
        cmocka_unit_test_setup_teardown(opened_again, open_one, close_one),
        cmocka_unit_test_setup_teardown(what_cannot_be_opened_again, open_one, close_one),
        cmocka_unit_test_setup_teardown(the_password_s_file, open_one, close_one),
    };

    log_to(say);
    return cmocka_run_group_tests(tests, begin, end);
}
