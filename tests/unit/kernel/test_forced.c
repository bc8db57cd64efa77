/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>

#include "kernel/forced.h"
#include "kernel/netlink.h"
#include "plan/plan.h"

#include "sockets.h"

#define SND_ABOVE 1000U
#define RCV_ABOVE 2000U
#define SOCKETS 100U

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
        cmocka_unit_test(sums_what_is_above),
        cmocka_unit_test(broken_answers),
        cmocka_unit_test(counts_connections_and_new_sockets),
        cmocka_unit_test(all_together_are_bounded),
    };

    return cmocka_run_group_tests_name("forced", tests, NULL, NULL);
}
