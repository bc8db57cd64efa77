/* SPDX-License-Identifier: MIT */
/*
 * This calls capset(2) itself, which changes only the calling thread. libcap's cap_set_proc() would change every
 * thread of a program that links libpsx, with signals.
 */
#include "probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#define NET_RAW (1U << CAP_NET_RAW) /* of the first word */

struct capabilities {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];
};

static bool set_net_raw(struct capabilities *c, bool effective)
{
    c->words[0].effective = effective ? c->words[0].effective | NET_RAW : c->words[0].effective & ~NET_RAW;
    return syscall(SYS_capset, &c->header, c->words) == 0;
}

static int raw_socket(int family, int protocol)
{
    struct capabilities c = {.header = {_LINUX_CAPABILITY_VERSION_3, 0}};
    bool raised = syscall(SYS_capget, &c.header, c.words) == 0 &&
                  c.words[0].permitted & ~c.words[0].effective & NET_RAW && set_net_raw(&c, true);
    int fd = socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol), error = errno;

    if (raised && !set_net_raw(&c, false) && fd >= 0) {
        close(fd); /* never keep the capability */
        fd = -1;
        error = EPERM;
    }
    errno = error;
    return fd;
}

int ab_privilege_icmp_socket(int family, bool *raw)
{
    int protocol = family == AF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

    *raw = false;
    if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EPROTONOSUPPORT)) {
        fd = raw_socket(family, protocol);
        *raw = true;
    }
    if (fd < 0)
        return errno == EPERM ? -EACCES : -errno;
    return fd;
}
