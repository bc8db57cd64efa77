/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>

#include <autobuf/autobuf.h>

#include "kernel/limits.h"
#include "kernel/netlink.h"
#include "plan/plan.h"
#include "sockets.h"

#define MOST_SETTABLE 0x3fffffffULL /* the kernel doubles into an int */
#define SND_ABOVE 1000U
#define RCV_ABOVE 2000U
#define SOCKETS 100U

/* Read with stdio, so that nothing is shared with what is tested. Returns how many there were. */
static int read_sysctl(const char *name, uint64_t numbers[3])
{
    char path[128];
    int found;
    FILE *file;

    snprintf(path, sizeof path, "/proc/sys/net/%s", name);
    file = fopen(path, "r");
    if (!file)
        return 0;
    found = fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &numbers[0], &numbers[1], &numbers[2]);
    fclose(file);
    return found > 0 ? found : 0;
}

static struct autobuf_limits this_host(void)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;

    assert_int_equal(autobuf_limits_host(&l), 0);
    assert_int_equal(l.size, sizeof l);
    return l;
}

/* A handle is opened without the list of all connections, which costs twenty times the rest. */
static void what_all_hold_is_read_apart(void **state)
{
    struct autobuf_limits whole = this_host(), cheap;

    (void)state;
    assert_int_equal(ab_limits_read(&cheap), 0);
    assert_int_equal(cheap.tcp_used_bytes, 0);
    assert_int_equal(cheap.forced_bytes, 0);
    whole.tcp_used_bytes = whole.forced_bytes = 0;
    assert_memory_equal(&cheap, &whole, sizeof whole);
}

static void settable_agrees_with_proc(void **state)
{
    struct autobuf_limits l = this_host();
    uint64_t v[3];

    (void)state;
    if (read_sysctl("core/wmem_max", v) != 1)
        SKIP("net.core.wmem_max is not visible in this namespace");
    assert_int_equal(l.snd_settable_bytes, v[0] < MOST_SETTABLE ? v[0] : MOST_SETTABLE);
    assert_int_equal(read_sysctl("core/rmem_max", v), 1);
    assert_int_equal(l.rcv_settable_bytes, v[0] < MOST_SETTABLE ? v[0] : MOST_SETTABLE);
}

static void autotuning_agrees_with_proc(void **state)
{
    struct autobuf_limits l = this_host();
    uint64_t v[3];

    (void)state;
    if (read_sysctl("ipv4/tcp_wmem", v) != 3)
        SKIP("net.ipv4.tcp_wmem is not readable");
    assert_int_equal(l.tcp_wmem_min_bytes, v[0]);
    assert_int_equal(l.tcp_wmem_default_bytes, v[1]);
    assert_int_equal(l.tcp_wmem_max_bytes, v[2]);
    assert_int_equal(read_sysctl("ipv4/tcp_rmem", v), 3);
    assert_int_equal(l.tcp_rmem_min_bytes, v[0]);
    assert_int_equal(l.tcp_rmem_default_bytes, v[1]);
    assert_int_equal(l.tcp_rmem_max_bytes, v[2]);
}

static void memory_agrees_with_proc(void **state)
{
    struct autobuf_limits l = this_host();
    uint64_t v[3];

    (void)state;
    if (read_sysctl("ipv4/tcp_mem", v) != 3)
        SKIP("net.ipv4.tcp_mem is not readable");
    assert_int_equal(l.tcp_mem_bytes, v[1] * (uint64_t)sysconf(_SC_PAGESIZE));
}

static int limits_of_a_new_namespace(const void *arg)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    uint64_t v[3];

    (void)arg;
    if (unshare(CLONE_NEWNET) < 0 || read_sysctl("ipv4/tcp_mem", v) == 3)
        return 99; /* nothing to be seen here */
    if (autobuf_limits_host(&l) < 0)
        return 1;
    if (!(l.flags & AUTOBUF_LIMITS_FORCE))
        return 2;
    if (l.tcp_mem_bytes < 1000000 || l.tcp_mem_bytes > 1ULL << 50)
        return 3; /* a sixteenth of the memory that there is */
    return l.forced_bytes == 0 ? 0 : 4;
}

/* net.ipv4.tcp_mem is the first network namespace's: elsewhere memory itself is the bound. */
static void memory_is_known_in_a_namespace(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0)
        _exit(limits_of_a_new_namespace(NULL));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 99)
        SKIP("no network namespace of its own, or net.ipv4.tcp_mem is visible in it");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void flags_agree_with_proc(void **state)
{
    static const struct {
        const char *sysctl;
        uint32_t flag;
    } rows[] = {
        {"ipv4/tcp_moderate_rcvbuf", AUTOBUF_LIMITS_RCV_AUTOTUNING},
        {"ipv4/tcp_window_scaling", AUTOBUF_LIMITS_WINDOW_SCALING},
    };
    struct autobuf_limits l = this_host();

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t v[3];

        if (read_sysctl(rows[i].sysctl, v) != 1)
            SKIP("the sysctl is not readable");
        CHECK_EQUAL(rows[i].sysctl, (l.flags & rows[i].flag) != 0, v[0] != 0);
    }
}

/* The most that a socket takes, tried on one: what is told must be it, to the byte. */
static void settable_is_what_a_socket_takes(void **state)
{
    struct autobuf_limits l = this_host();
    int fd = tcp_socket();

    (void)state;
    set_option(fd, SO_SNDBUF, (int)l.snd_settable_bytes);
    set_option(fd, SO_RCVBUF, (int)l.rcv_settable_bytes);
    assert_int_equal(option_of(fd, SO_SNDBUF), 2 * l.snd_settable_bytes);
    assert_int_equal(option_of(fd, SO_RCVBUF), 2 * l.rcv_settable_bytes);
    set_option(fd, SO_SNDBUF, (int)MOST_SETTABLE);
    set_option(fd, SO_RCVBUF, (int)MOST_SETTABLE);
    assert_int_equal(option_of(fd, SO_SNDBUF), 2 * l.snd_settable_bytes);
    assert_int_equal(option_of(fd, SO_RCVBUF), 2 * l.rcv_settable_bytes);
    close(fd);
}

static bool may_force(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), size = 65536;
    bool may = setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) == 0;

    close(fd);
    return may;
}

static int force_flag_of_nobody(const void *arg)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;

    (void)arg;
    if (may_force())
        return 2; /* still privileged */
    if (autobuf_limits_host(&l) != 0)
        return 3;
    return (l.flags & AUTOBUF_LIMITS_FORCE) != 0;
}

static void force_is_told_to_those_who_may(void **state)
{
    struct autobuf_limits l = this_host();
    int child;

    (void)state;
    assert_int_equal((l.flags & AUTOBUF_LIMITS_FORCE) != 0, may_force());
    child = without_privileges(force_flag_of_nobody, NULL);
    if (child < 0 || child == 2)
        SKIP("CAP_NET_ADMIN cannot be dropped here");
    assert_int_equal(child, 0);
}

static void limits_of_other_programs(void **state)
{
    struct autobuf_limits whole = this_host(), cut;
    static const uint32_t bad[] = {0, 3};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct autobuf_limits before;

        memset(&cut, 0x77, sizeof cut);
        cut.size = bad[i];
        before = cut;
        assert_int_equal(autobuf_limits_host(&cut), -EINVAL);
        assert_memory_equal(&cut, &before, sizeof cut);
    }
    memset(&cut, 0x77, sizeof cut);
    cut.size = offsetof(struct autobuf_limits, rcv_settable_bytes);
    assert_int_equal(autobuf_limits_host(&cut), 0);
    assert_int_equal(cut.size, offsetof(struct autobuf_limits, rcv_settable_bytes));
    assert_true(cut.snd_settable_bytes == whole.snd_settable_bytes);
    assert_true(cut.rcv_settable_bytes == 0x7777777777777777ULL);
    assert_true(cut.tcp_mem_bytes == 0x7777777777777777ULL);
}

static unsigned count_fds(void)
{
    unsigned open_fds = 0;

    for (int fd = 0; fd < 256; fd++)
        open_fds += fcntl(fd, F_GETFD) >= 0;
    return open_fds;
}

static void scratch_socket_is_closed(void **state)
{
    unsigned before = count_fds();

    (void)state;
    for (int i = 0; i < 10; i++)
        this_host();
    assert_int_equal(count_fds(), before);
}

/* ------------------------------------------------------------------------ autobuf_socket_state */

static struct autobuf_socket socket_state(int fd)
{
    struct autobuf_socket s = AUTOBUF_SOCKET_INIT;

    assert_int_equal(autobuf_socket_state(fd, &s), 0);
    assert_int_equal(s.size, sizeof s);
    assert_int_equal(s.snd_buf_bytes, option_of(fd, SO_SNDBUF));
    assert_int_equal(s.rcv_buf_bytes, option_of(fd, SO_RCVBUF));
    return s;
}

static void stages(void **state)
{
    struct connection c = tcp_connection();
    int fresh = tcp_socket();
    const struct {
        const char *name;
        int fd;
        uint32_t stage;
    } rows[] = {
        {"new", fresh, AUTOBUF_STAGE_NEW},
        {"listening", c.listener, AUTOBUF_STAGE_LISTENING},
        {"connected", c.client, AUTOBUF_STAGE_CONNECTED},
        {"accepted", c.accepted, AUTOBUF_STAGE_CONNECTED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_socket s = socket_state(rows[i].fd);

        CHECK_EQUAL(rows[i].name, s.stage, rows[i].stage);
        CHECK_EQUAL(rows[i].name, s.locks, 0);
        CHECK_EQUAL(rows[i].name, s.mss_bytes != 0, rows[i].stage == AUTOBUF_STAGE_CONNECTED);
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_socket s = socket_state(rows[i].fd);
        bool connected = rows[i].stage == AUTOBUF_STAGE_CONNECTED;

        /* 16 bits, shifted by what both ends agreed on */
        CHECK_EQUAL(rows[i].name, s.snd_window_max_bytes >= 65535, connected);
        CHECK_EQUAL(rows[i].name, s.rcv_window_max_bytes >= 65535, connected);
        CHECK(rows[i].name, s.rcv_window_max_bytes % 65535 == 0);
        CHECK(rows[i].name, s.rtt_min_ns == AUTOBUF_NS_UNSET || connected);
    }
    assert_in_range(socket_state(c.client).rtt_min_ns, 1, AUTOBUF_NS_UNSET - 1); /* the SYN's */
    assert_int_equal(socket_state(c.client).snd_window_max_bytes,
                     socket_state(c.accepted).rcv_window_max_bytes);
    shutdown(c.client, SHUT_WR); /* a half that is closed still has its window scale */
    assert_int_equal(socket_state(c.client).stage, AUTOBUF_STAGE_CONNECTED);
    assert_int_equal(socket_state(c.accepted).stage, AUTOBUF_STAGE_CONNECTED);
    close(fresh);
    close_connection(&c);
}

static void bound_is_still_new(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = tcp_socket();

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(socket_state(fd).stage, AUTOBUF_STAGE_NEW);
    close(fd);
}

static int tcp_state(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ? -1 : info.tcpi_state;
}

/* A listener whose queue is full answers no SYN: the scale is out, the answer is not back. */
static void syn_sent_counts_as_connected(void **state)
{
    int listener = tcp_listener(), waiting[8], syn_sent = 0;
    struct sockaddr_in to;
    socklen_t len = sizeof to;

    (void)state;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &len), 0);
    for (size_t i = 0; i < COUNT(waiting); i++) {
        waiting[i] = tcp_socket();
        assert_int_equal(fcntl(waiting[i], F_SETFL, O_NONBLOCK), 0);
        if (connect(waiting[i], (struct sockaddr *)&to, len) < 0)
            assert_int_equal(errno, EINPROGRESS);
        syn_sent += tcp_state(waiting[i]) == TCP_SYN_SENT;
        assert_int_equal(socket_state(waiting[i]).stage, AUTOBUF_STAGE_CONNECTED);
    }
    for (size_t i = 0; i < COUNT(waiting); i++)
        close(waiting[i]);
    close(listener);
    if (!syn_sent)
        SKIP("this kernel queues more connections than it is asked for");
}

static void ipv6_sockets_are_read(void **state)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    if (fd < 0)
        SKIP("no IPv6 here");
    assert_int_equal(socket_state(fd).stage, AUTOBUF_STAGE_NEW);
    close(fd);
}

static void locks_are_seen(void **state)
{
    static const struct {
        const char *name;
        int snd, rcv;
        uint32_t locks;
    } rows[] = {
        {"none", 0, 0, 0},
        {"send", 1, 0, AUTOBUF_LOCK_SND},
        {"receive", 0, 1, AUTOBUF_LOCK_RCV},
        {"both", 1, 1, AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd = tcp_socket();

        if (rows[i].snd)
            set_option(fd, SO_SNDBUF, 50000);
        if (rows[i].rcv)
            set_option(fd, SO_RCVBUF, 60000);
        CHECK_EQUAL(rows[i].name, socket_state(fd).locks, rows[i].locks);
        CHECK(rows[i].name, !rows[i].snd || socket_state(fd).snd_buf_bytes == 100000);
        CHECK(rows[i].name, !rows[i].rcv || socket_state(fd).rcv_buf_bytes == 120000);
        close(fd);
    }
}

static void other_descriptors_are_refused(void **state)
{
    int pipes[2], udp, local;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct {
        const char *name;
        int fd, error;
    } rows[] = {
        {"UDP", udp, -EOPNOTSUPP},       {"a local stream", local, -EOPNOTSUPP},
        {"a pipe", pipes[0], -ENOTSOCK}, {"closed", closed_fd(), -EBADF},
        {"-1", -1, -EBADF},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_socket s, before;

        memset(&s, 0x77, sizeof s);
        s.size = sizeof s;
        before = s;
        CHECK_EQUAL(rows[i].name, autobuf_socket_state(rows[i].fd, &s), rows[i].error);
        CHECK(rows[i].name, memcmp(&s, &before, sizeof s) == 0);
    }
    close(pipes[0]);
    close(pipes[1]);
    close(udp);
    close(local);
}

static void sockets_of_other_programs(void **state)
{
    struct autobuf_socket s;
    int fd = tcp_socket();

    (void)state;
    memset(&s, 0x77, sizeof s);
    s.size = 0;
    assert_int_equal(autobuf_socket_state(fd, &s), -EINVAL);
    s.size = 3;
    assert_int_equal(autobuf_socket_state(fd, &s), -EINVAL);
    s.size = offsetof(struct autobuf_socket, rcv_buf_bytes);
    assert_int_equal(autobuf_socket_state(fd, &s), 0);
    assert_int_equal(s.snd_buf_bytes, option_of(fd, SO_SNDBUF));
    assert_true(s.rcv_buf_bytes == 0x7777777777777777ULL);
    close(fd);
}

/* As the kernel tells of one connection. */
struct message {
    struct nlmsghdr header;
    struct inet_diag_msg body;
    struct rtattr other;
    uint32_t ignored;
    struct rtattr head;
    uint32_t memory[SK_MEMINFO_VARS];
};

static struct message message_of(uint32_t snd_buf, uint32_t rcv_buf)
{
    struct message m = {
        .header = {.nlmsg_len = sizeof m, .nlmsg_type = SOCK_DIAG_BY_FAMILY},
        .other = {.rta_len = sizeof m.other + sizeof m.ignored, .rta_type = INET_DIAG_TOS},
        .head = {.rta_len = sizeof m.head + sizeof m.memory, .rta_type = INET_DIAG_SKMEMINFO},
    };

    m.memory[SK_MEMINFO_RMEM_ALLOC] = m.memory[SK_MEMINFO_WMEM_ALLOC] = 77777;
    m.memory[SK_MEMINFO_SNDBUF] = snd_buf;
    m.memory[SK_MEMINFO_RCVBUF] = rcv_buf;
    return m;
}

static void add(void *user, const uint8_t *body, size_t len)
{
    struct ab_tcp_diag told;

    if (ab_tcp_diag_parse(body, len, &told) == 0)
        ab_forced_add(user, &told);
}

static int parse(const void *answers, size_t len, uint64_t *bytes)
{
    struct ab_forced sum = {SND_ABOVE, RCV_ABOVE, *bytes};
    int result = ab_netlink_parse(answers, len, SOCK_DIAG_BY_FAMILY, add, &sum);

    *bytes = sum.bytes;
    return result;
}

static void sums_what_is_above(void **state)
{
    struct message m[4] = {message_of(SND_ABOVE, RCV_ABOVE), message_of(SND_ABOVE + 1, RCV_ABOVE),
                           message_of(0, RCV_ABOVE + 1), message_of(500000, 300000)};
    uint64_t bytes = 5;

    (void)state;
    assert_int_equal(parse(m, sizeof m, &bytes), 0);
    assert_int_equal(bytes, 5 + SND_ABOVE + 1 + RCV_ABOVE + 1 + 500000 + 300000);
    m[1].header.nlmsg_type = NLMSG_DONE;
    bytes = 0;
    assert_int_equal(parse(m, sizeof m, &bytes), 1);
    assert_int_equal(bytes, 0);
    m[0].header.nlmsg_type = NLMSG_ERROR;
    assert_int_equal(parse(m, sizeof m, &bytes), -EPROTO);
    m[0] = message_of(500000, 0); /* another list's message */
    m[0].header.nlmsg_type = RTM_NEWQDISC;
    assert_int_equal(parse(m, sizeof m[0], &bytes), 0);
    assert_int_equal(bytes, 0);
}

/* Cut anywhere, and with any length in any place: nothing is read beyond the end. */
static void broken_answers(void **state)
{
    struct message m = message_of(500000, 300000);
    uint64_t bytes = 0;

    (void)state;
    for (size_t len = 1; len < sizeof m; len++) {
        void *cut = malloc(len);

        memcpy(cut, &m, len);
        assert_int_equal(parse(cut, len, &bytes), -EPROTO);
        free(cut);
    }
    for (unsigned len = 0; len < 200; len++) {
        struct message *copy = malloc(sizeof m);

        *copy = m;
        copy->other.rta_len = (unsigned short)len;
        parse(copy, sizeof m, &bytes);
        *copy = m;
        copy->head.rta_len = (unsigned short)len;
        parse(copy, sizeof m, &bytes);
        *copy = m;
        copy->header.nlmsg_len = len;
        parse(copy, sizeof m, &bytes);
        free(copy);
    }
}

static struct autobuf_limits limits_or_skip(void)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;

    assert_int_equal(autobuf_limits_host(&l), 0);
    if (!(l.flags & AUTOBUF_LIMITS_FORCE)) {
        print_message("skipped: not permitted to force a buffer\n");
        skip();
    }
    return l;
}

static void force(int fd, int option, int bytes)
{
    assert_int_equal(setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes), 0);
}

/* Others on this machine may force buffers at the same time: what is ours is in it all the same. */
static void counts_connections_and_new_sockets(void **state)
{
    struct autobuf_limits l = limits_or_skip();
    uint64_t snd_above = ab_unforced_sndbuf(&l), rcv_above = ab_unforced_rcvbuf(&l);
    int snd = (int)(snd_above / 2 + 1000000), rcv = (int)(rcv_above / 2 + 1000000), fresh = tcp_socket();
    uint64_t each = 2 * (uint64_t)snd + 2 * (uint64_t)rcv;
    struct connection c = tcp_connection();

    (void)state;
    assert_true(ab_forced_bytes(snd_above, rcv_above) != UINT64_MAX);
    force(fresh, SO_SNDBUFFORCE, snd);
    assert_true(ab_forced_bytes(snd_above, rcv_above) >= 2 * (uint64_t)snd);
    force(fresh, SO_RCVBUFFORCE, rcv);
    assert_true(ab_forced_bytes(snd_above, rcv_above) >= each);
    force(c.client, SO_SNDBUFFORCE, snd);
    assert_true(ab_forced_bytes(snd_above, rcv_above) >= each + 2 * (uint64_t)snd);
    force(c.client, SO_RCVBUFFORCE, rcv);
    assert_true(ab_forced_bytes(snd_above, rcv_above) >= 2 * each);
    assert_true(ab_forced_bytes(2 * (uint64_t)snd, 2 * (uint64_t)rcv) < each);
    close(fresh);
    close_connection(&c);
}

/* Many connections, each of which could use as much as it is given. */
static void all_together_are_bounded(void **state)
{
    struct autobuf_limits l = limits_or_skip();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t sum = 0;
    int fds[SOCKETS];

    (void)state;
    assert_int_equal(autobuf_path_given(&path, 10000000000ULL, 600000000), 0);
    for (size_t i = 0; i < SOCKETS; i++) {
        struct autobuf_socket s = AUTOBUF_SOCKET_INIT;
        struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

        fds[i] = tcp_socket();
        l = (struct autobuf_limits)AUTOBUF_LIMITS_INIT;
        assert_int_equal(autobuf_limits_host(&l), 0);
        assert_int_equal(autobuf_socket_state(fds[i], &s), 0);
        assert_int_equal(autobuf_plan_make(&path, &l, &s, AUTOBUF_INTENT_SENDS, 0, &plan), 0);
        assert_true(autobuf_apply(fds[i], &plan) >= 0);
        assert_true((uint64_t)option_of(fds[i], SO_SNDBUF) <=
                    (AB_UNSEEN_BUF_MAX > ab_unforced_sndbuf(&l) ? AB_UNSEEN_BUF_MAX : ab_unforced_sndbuf(&l)));
        if ((uint64_t)option_of(fds[i], SO_SNDBUF) > ab_unforced_sndbuf(&l))
            sum += (uint64_t)option_of(fds[i], SO_SNDBUF);
    }
    for (size_t i = 0; i < SOCKETS; i++)
        close(fds[i]);
    assert_true(sum <= l.tcp_mem_bytes / AB_FORCED_SHARE);
    if (SOCKETS * AB_UNSEEN_BUF_MAX <= l.tcp_mem_bytes / AB_FORCED_SHARE)
        print_message("more memory than these sockets could use\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_all_hold_is_read_apart),
        cmocka_unit_test(settable_agrees_with_proc),
        cmocka_unit_test(autotuning_agrees_with_proc),
        cmocka_unit_test(memory_agrees_with_proc),
        cmocka_unit_test(memory_is_known_in_a_namespace),
        cmocka_unit_test(flags_agree_with_proc),
        cmocka_unit_test(settable_is_what_a_socket_takes),
        cmocka_unit_test(force_is_told_to_those_who_may),
        cmocka_unit_test(limits_of_other_programs),
        cmocka_unit_test(scratch_socket_is_closed),
        cmocka_unit_test(stages),
        cmocka_unit_test(bound_is_still_new),
        cmocka_unit_test(syn_sent_counts_as_connected),
        cmocka_unit_test(ipv6_sockets_are_read),
        cmocka_unit_test(locks_are_seen),
        cmocka_unit_test(other_descriptors_are_refused),
        cmocka_unit_test(sockets_of_other_programs),
        cmocka_unit_test(sums_what_is_above),
        cmocka_unit_test(broken_answers),
        cmocka_unit_test(counts_connections_and_new_sockets),
        cmocka_unit_test(all_together_are_bounded),
    };

    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
