/* SPDX-License-Identifier: MIT */
/* tools/daemon/reported.c: what programs say that they have learned, true or not. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/keep.h"
#include "daemon/log.h"
#include "sockets.h"

#define NOW_S 1700000000U
#define STRANGER 54321

static uint64_t reported_deadline_ns(const struct reported *of, uint64_t now_ns)
{
    struct pollfd polled[1];
    uint64_t until_ns = UINT64_MAX;

    (void)reported_poll(of, polled, now_ns, &until_ns);
    return until_ns;
}

static char folder[] = "/tmp/test_handed.XXXXXX", file[sizeof folder + 8];
static struct keep keep;
static struct reported *reported;
static uint64_t now_ns;

static void say(const char *line)
{
    fail_msg("%s", line);
}

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return -1;
    snprintf(file, sizeof file, "%s/socket", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

static int open_one(void **state)
{
    (void)state;
    now_ns = 1000000000;
    keep = (struct keep){.file = "/no/such/file"}; /* nothing is written here */
    return reported_open(&reported, file, &(struct believed){.count = 0}, &keep);
}

static int close_one(void **state)
{
    (void)state;
    reported_close(reported);
    return access(file, F_OK) == 0;
}

static struct autobuf_paths_entry entry(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.tx_rate_bit_per_s = e.rx_rate_bit_per_s = 100000000;
    e.rtt_min_ns = 40000000;
    e.learned_s = (uint64_t)time(NULL);
    e.expires_s = e.learned_s + 3600;
    return e;
}

/* ----------------------------------------------------------------------------------- trust */

static void set_given(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_GIVEN; }
static void set_imported(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_IMPORTED; }
static void set_none(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_NONE; }
static void set_later(struct autobuf_paths_entry *e) { e->method = 99; }
static void set_passive(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_PASSIVE; }
static void set_network(struct autobuf_paths_entry *e)
{
    assert_int_equal(autobuf_prefix_parse("192.0.2.0/24", &e->remote), 0);
}
static void set_everything(struct autobuf_paths_entry *e)
{
    assert_int_equal(autobuf_prefix_parse("::/0", &e->remote), 0);
}
static void set_loopback(struct autobuf_paths_entry *e)
{
    assert_int_equal(autobuf_prefix_parse("127.0.0.1", &e->remote), 0);
}
static void set_group(struct autobuf_paths_entry *e)
{
    assert_int_equal(autobuf_prefix_parse("ff02::1", &e->remote), 0);
}
static void set_local(struct autobuf_paths_entry *e)
{
    assert_int_equal(autobuf_prefix_parse("192.0.2.2", &e->local), 0);
}
static void set_device(struct autobuf_paths_entry *e) { strcpy(e->device, "eth0"); }
static void set_expired(struct autobuf_paths_entry *e) { e->expires_s = NOW_S; }
static void set_no_rtt(struct autobuf_paths_entry *e) { e->rtt_min_ns = AUTOBUF_NS_UNSET; }
static void set_no_rate(struct autobuf_paths_entry *e) { e->tx_rate_bit_per_s = e->rx_rate_bit_per_s = 0; }
static void set_one_rate(struct autobuf_paths_entry *e) { e->tx_rate_bit_per_s = 0; }
static void set_unsure(struct autobuf_paths_entry *e) { e->tx_unsure = AUTOBUF_UNSURE_JITTER; }
static void set_nothing(struct autobuf_paths_entry *e) { (void)e; }

static void what_a_program_may_say(void **state)
{
    static const struct {
        const char *name;
        void (*set)(struct autobuf_paths_entry *);
        bool taken;
    } rows[] = {
        {"measured", set_nothing, true},       {"passive", set_passive, true},       {"one rate", set_one_rate, true},
        {"given", set_given, false},           {"imported", set_imported, false},    {"no method", set_none, false},
        {"a later method", set_later, false},  {"a network", set_network, false},
        {"everything", set_everything, false},
        {"loopback", set_loopback, false},     {"a group", set_group, false},        {"local", set_local, false},
        {"device", set_device, false},         {"expired", set_expired, false},      {"no rtt", set_no_rtt, false},
        {"no rate", set_no_rate, false},       {"unsure", set_unsure, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry e = entry();

        e.learned_s = NOW_S + 1000; /* a clock that is ahead */
        e.expires_s = UINT64_MAX;
        rows[i].set(&e);
        CHECK_EQUAL(rows[i].name, reported_check(&e, NOW_S), rows[i].taken);
        if (rows[i].taken) {
            CHECK_EQUAL(rows[i].name, e.learned_s, NOW_S);
            CHECK_EQUAL(rows[i].name, e.expires_s, NOW_S + 86400);
        }
    }
}

/* ------------------------------------------------------------------------------- datagrams */

static struct sockaddr_un address(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    strcpy(to.sun_path, file);
    return to;
}

/* Sends them from a child of this user. Its exit status: the errno of the first that was refused. */
static int send_as(uid_t user, const void *bytes, size_t count, unsigned times)
{
    struct sockaddr_un to = address();
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0), error = 0;

        if (user != geteuid() && setuid(user) < 0)
            _exit(99);
        for (unsigned i = 0; i < times && error == 0; i++)
            error = sendto(fd, bytes, count, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) < 0 ? errno : 0;
        _exit(error);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* All that has come, with as many rests as that takes. */
static void step(void)
{
    for (unsigned i = 0; i < 20; i++) {
        uint64_t next_ns = reported_deadline_ns(reported, now_ns);

        reported_step(reported, now_ns);
        next_ns = reported_deadline_ns(reported, now_ns);
        now_ns = next_ns == UINT64_MAX ? now_ns : next_ns;
    }
}

static void an_entry_is_taken(void **state)
{
    struct autobuf_paths_entry e = entry();
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    struct pollfd fds[1];
    struct stat made;

    (void)state;
    assert_int_equal(stat(file, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0600);
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), sizeof message);
    assert_int_equal(reported_poll(reported, fds, now_ns, &(uint64_t){UINT64_MAX}), 1);
    assert_int_equal(poll(fds, 1, 0), 0);
    assert_int_equal(send_as(geteuid(), message, sizeof message, 1), 0);
    assert_int_equal(poll(fds, 1, 0), 1);
    step();
    assert_int_equal(keep.counts.programs, 1);
    assert_int_equal(keep.count, 1);
    assert_memory_equal(&keep.waiting[0], &e, sizeof e);
}

static void what_is_no_message(void **state)
{
    struct autobuf_paths_entry e = entry();
    uint8_t message[70000] = {0};

    (void)state;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), AUTOBUF_PATHS_MESSAGE_BYTES);
    assert_int_equal(send_as(geteuid(), message, 0, 1), 0);
    assert_int_equal(send_as(geteuid(), message, AUTOBUF_PATHS_MESSAGE_BYTES - 1, 1), 0);
    assert_int_equal(send_as(geteuid(), message, AUTOBUF_PATHS_MESSAGE_BYTES + 1, 1), 0);
    assert_int_equal(send_as(geteuid(), message, sizeof message, 1), 0);
    message[8] = 2; /* a later version */
    assert_int_equal(send_as(geteuid(), message, AUTOBUF_PATHS_MESSAGE_BYTES, 1), 0);
    step();
    assert_int_equal(keep.counts.rejected[REPORT_MALFORMED], 5);
    e.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), AUTOBUF_PATHS_MESSAGE_BYTES);
    assert_int_equal(send_as(geteuid(), message, AUTOBUF_PATHS_MESSAGE_BYTES, 1), 0);
    step();
    assert_int_equal(keep.counts.rejected[REPORT_NOT_VALID], 1);
    assert_int_equal(keep.count, 0);
}

static void descriptors_that_come_along_are_closed(void **state)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct sockaddr_un to = address();
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof control};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), ends[2], sent[4];
    unsigned before;
    char nothing;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    for (size_t i = 0; i < COUNT(sent); i++)
        sent[i] = ends[1];
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof sent);
    memcpy(CMSG_DATA(&control.header), sent, sizeof sent);
    before = open_descriptors();
    assert_int_equal(sendmsg(fd, &message, 0), 1);
    step();
    assert_int_equal(keep.counts.rejected[REPORT_MALFORMED], 1);
    assert_int_equal(open_descriptors(), before);
    close(ends[1]);
    assert_int_equal(read(ends[0], &nothing, 1), 0); /* nobody holds the other end */
    close(ends[0]);
    close(fd);
}

/* It does not rest from that, and so wakes nobody afterwards. */
static void nothing_has_come(void **state)
{
    (void)state;
    reported_step(reported, now_ns);
    assert_int_equal(reported_deadline_ns(reported, now_ns), UINT64_MAX);
    assert_int_equal(reported_poll(reported, &(struct pollfd){0}, now_ns, &(uint64_t){UINT64_MAX}), 1);
}

/* Somebody who hands in more than the kernel's queue takes is told so, and each step does a bounded part. */
static void a_flood(void **state)
{
    struct autobuf_paths_entry e = entry();
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    uint64_t taken, all;

    (void)state;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), sizeof message);
    assert_int_equal(send_as(geteuid(), message, sizeof message, 1000000), EAGAIN);
    reported_step(reported, now_ns);
    taken = keep.counts.programs;
    assert_true(taken > 0 && taken <= REPORTED_MOST);
    assert_true(reported_deadline_ns(reported, now_ns) > now_ns);
    assert_int_equal(reported_poll(reported, &(struct pollfd){0}, now_ns, &(uint64_t){UINT64_MAX}), 0);
    reported_step(reported, now_ns); /* it rests */
    assert_int_equal(keep.counts.programs, taken);
    step();
    assert_int_equal(send_as(geteuid(), message, sizeof message, 1), 0); /* there is room again */
    step();
    all = keep.counts.programs + keep.counts.rejected[REPORT_TOO_MANY];
    assert_true(all > taken);
    assert_int_equal(keep.count, 1);
}

static void one_sender_has_so_many_a_second(void **state)
{
    struct autobuf_paths_entry e = entry();
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];

    (void)state;
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), sizeof message);
    for (unsigned i = 0; i < REPORTED_PER_S + 5; i++) {
        assert_int_equal(send_as(geteuid(), message, sizeof message, 1), 0);
        reported_step(reported, now_ns);
        now_ns += 1; /* within the second, whatever the rest says */
        while (reported_deadline_ns(reported, now_ns) != UINT64_MAX)
            now_ns = reported_deadline_ns(reported, now_ns);
        if (now_ns >= 2000000000)
            SKIP("this machine is too busy: the rests between steps took a second");
    }
    assert_int_equal(keep.counts.programs, REPORTED_PER_S);
    assert_int_equal(keep.counts.rejected[REPORT_TOO_MANY], 5);
    now_ns = 3000000000;
    assert_int_equal(send_as(geteuid(), message, sizeof message, 1), 0);
    reported_step(reported, now_ns);
    assert_int_equal(keep.counts.programs, REPORTED_PER_S + 1);
}

/* ------------------------------------------------------------------------------- who may */

static void strangers_and_those_who_are_believed(void **state)
{
    struct believed believed = {{STRANGER}, 1};
    struct autobuf_paths_entry e = entry();
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    int opened;

    (void)state;
    if (geteuid() != 0)
        SKIP("needs a second user");
    assert_int_equal(autobuf_paths_entry_encode(&e, message, sizeof message), sizeof message);
    assert_int_equal(send_as(STRANGER, message, sizeof message, 1), EACCES);
    assert_int_equal(chmod(file, 0666), 0); /* as if the permission said nothing */
    assert_int_equal(send_as(STRANGER, message, sizeof message, 1), 0);
    step();
    assert_int_equal(keep.counts.rejected[REPORT_NOT_BELIEVED], 1);
    reported_close(reported);
    opened = reported_open(&reported, file, &believed, &keep);
    if (opened == 1)
        SKIP("this file system takes no access control lists");
    assert_int_equal(opened, 0);
    assert_int_equal(send_as(STRANGER, message, sizeof message, 1), 0);
    assert_int_equal(send_as(STRANGER + 1, message, sizeof message, 1), EACCES);
    step();
    assert_int_equal(keep.counts.programs, 1);
}

static void a_place_that_is_taken(void **state)
{
    struct reported *second = NULL;
    int fd;

    (void)state;
    assert_int_equal(reported_open(&second, file, &(struct believed){.count = 0}, &keep), -EADDRINUSE);
    assert_null(second);
    assert_int_equal(send_as(geteuid(), "x", 1, 1), 0); /* the first one is still there */
    reported_close(reported);
    fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(reported_open(&reported, file, &(struct believed){.count = 0}, &keep), -EEXIST);
    assert_null(reported);
    assert_int_equal(unlink(file), 0);
}

/* One that a killed daemon has left. */
static void a_socket_that_nobody_has_is_replaced(void **state)
{
    struct sockaddr_un here = address();
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    (void)state;
    reported_close(reported);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    close(fd);
    assert_int_equal(reported_open(&reported, file, &(struct believed){.count = 0}, &keep), 0);
}

#define OPEN(test) cmocka_unit_test_setup_teardown(test, open_one, close_one)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_program_may_say),
        OPEN(an_entry_is_taken),
        OPEN(what_is_no_message),
        OPEN(descriptors_that_come_along_are_closed),
        OPEN(nothing_has_come),
        OPEN(a_flood),
        OPEN(one_sender_has_so_many_a_second),
        OPEN(strangers_and_those_who_are_believed),
        OPEN(a_place_that_is_taken),
        OPEN(a_socket_that_nobody_has_is_replaced),
    };

    log_to(say);
    return cmocka_run_group_tests(tests, begin, end);
}
