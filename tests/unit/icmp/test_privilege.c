/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "icmp/probe.h"

#include "sockets.h"

/* Capabilities without libcap, so that nothing is shared with what is tested. */
struct capabilities {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct words[2];
};

static struct capabilities capabilities_now(void)
{
    struct capabilities c = {{_LINUX_CAPABILITY_VERSION_3, 0}, {{0, 0, 0}, {0, 0, 0}}};

    syscall(SYS_capget, &c.header, c.words);
    return c;
}

static bool same_capabilities(const struct capabilities *a, const struct capabilities *b)
{
    return memcmp(a->words, b->words, sizeof a->words) == 0;
}

/* What socket(2) itself permits this process. */
static bool may_open(int family, int type)
{
    int fd = socket(family, type | SOCK_CLOEXEC,
                    family == AF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

enum { AS_PERMITTED, WRONG_ERROR, WRONG_KIND, WRONG_FLAGS, CAPABILITIES_LEFT };

static int open_as_permitted(const void *arg)
{
    int family = *(const int *)arg, type = 0;
    bool ping = may_open(family, SOCK_DGRAM), may_raw = may_open(family, SOCK_RAW), raw = !ping;
    struct capabilities before = capabilities_now(), after;
    int fd = ab_privilege_icmp_socket(family, &raw);
    socklen_t len = sizeof type;
    int result = AS_PERMITTED;

    after = capabilities_now();
    if (!same_capabilities(&before, &after))
        return CAPABILITIES_LEFT;
    if (!ping && !may_raw)
        return fd == -EACCES ? AS_PERMITTED : WRONG_ERROR;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
        return WRONG_ERROR;
    if (raw != !ping || type != (ping ? SOCK_DGRAM : SOCK_RAW))
        result = WRONG_KIND;
    else if (!(fcntl(fd, F_GETFL) & O_NONBLOCK) || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
        result = WRONG_FLAGS;
    close(fd);
    return result;
}

static void opens_what_is_permitted(void **state)
{
    static const int families[] = {AF_INET, AF_INET6};

    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        int probe = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0), child;

        if (probe < 0)
            continue; /* no such family here */
        close(probe);
        assert_int_equal(open_as_permitted(&families[i]), AS_PERMITTED);
        child = without_privileges(open_as_permitted, &families[i]);
        if (child < 0)
            SKIP("privileges cannot be dropped here");
        assert_int_equal(child, AS_PERMITTED);
    }
}

/* Permitted and not in effect, as setcap cap_net_raw+p leaves it: raised for the one call only. */
static void raises_what_is_only_permitted(void **state)
{
    struct capabilities all = capabilities_now(), lowered = all, after;
    const uint32_t net_raw = 1U << CAP_NET_RAW;
    bool raw = false;
    int fd;

    (void)state;
    if (!(all.words[0].effective & net_raw) || may_open(AF_INET, SOCK_DGRAM))
        SKIP("no CAP_NET_RAW, or ping sockets are permitted anyway");
    lowered.words[0].effective &= ~net_raw;
    assert_int_equal(syscall(SYS_capset, &lowered.header, lowered.words), 0);
    fd = ab_privilege_icmp_socket(AF_INET, &raw);
    after = capabilities_now();
    assert_int_equal(syscall(SYS_capset, &all.header, all.words), 0);
    assert_true(same_capabilities(&lowered, &after));
    assert_true(fd >= 0 && raw);
    close(fd);
}

static void other_families_are_errors(void **state)
{
    bool raw = false;
    int fd = ab_privilege_icmp_socket(12345, &raw);

    (void)state;
    assert_int_equal(fd, -EAFNOSUPPORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_what_is_permitted),
        cmocka_unit_test(raises_what_is_only_permitted),
        cmocka_unit_test(other_families_are_errors),
    };

    return cmocka_run_group_tests_name("privilege", tests, NULL, NULL);
}
