/* SPDX-License-Identifier: MIT */
/*
 * A peer that never stops sending: recvmmsg() and recvmsg(), replaced by the linker, always return another message.
 * A step must return nevertheless, because its caller looks at the clock between steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <autobuf/autobuf.h>

#define CALLS_MOST 1000000U /* beyond this it is taken for endless */
#define CALLS_A_STEP 400U

static struct {
    bool on;
    unsigned calls;
} flood;

static bool has_more(void)
{
    return flood.on && ++flood.calls < CALLS_MOST;
}

int __real_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t);
int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t);

int __wrap_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t)
{
    if (!has_more())
        return __real_recvmmsg(fd, m, n, flags, t);
    for (unsigned i = 0; i < n; i++) {
        memset(m[i].msg_hdr.msg_name, 0, m[i].msg_hdr.msg_namelen);
        m[i].msg_hdr.msg_controllen = 0;
        m[i].msg_len = 64;
    }
    return (int)n;
}

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
    if (!has_more())
        return __real_recvmsg(fd, m, flags);
    m->msg_controllen = 0;
    memset(m->msg_iov->iov_base, 0, m->msg_iov->iov_len);
    return (ssize_t)m->msg_iov->iov_len;
}

static void a_flood_of_replies_and_errors_ends_each_step(void **state)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct autobuf_probe *probe;
    int result = autobuf_probe_open(&probe, (struct sockaddr *)&peer, sizeof peer, NULL);
    uint64_t start = autobuf_now_ns();

    (void)state;
    if (result == -EACCES) {
        print_message("skipped: %s\n", autobuf_strerror(result));
        skip();
    }
    assert_int_equal(result, 0);
    flood.on = true;
    do {
        flood.calls = 0;
        result = autobuf_probe_step(probe, autobuf_now_ns());
        assert_in_range(flood.calls, 1, CALLS_A_STEP);
    } while (result == 0 && autobuf_now_ns() - start < 10000000000U);
    flood.on = false;
    assert_int_equal(result, AUTOBUF_E_NOREPLY); /* not one of them was a reply */
    autobuf_probe_close(probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_replies_and_errors_ends_each_step),
    };

    return cmocka_run_group_tests_name("flood", tests, NULL, NULL);
}
