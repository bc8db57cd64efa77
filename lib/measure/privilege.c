/* SPDX-License-Identifier: MIT */
#include "privilege.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef AB_HAVE_LIBCAP
#include <sys/capability.h>

static bool net_raw_effective(cap_t caps, cap_flag_value_t wanted)
{
    cap_value_t net_raw = CAP_NET_RAW;

    return cap_set_flag(caps, CAP_EFFECTIVE, 1, &net_raw, wanted) == 0 && cap_set_proc(caps) == 0;
}

static int raw_socket(int family, int protocol)
{
    cap_t caps = cap_get_proc();
    cap_flag_value_t effective = CAP_SET, permitted = CAP_CLEAR;
    bool raised = false;
    int fd, error;

    if (caps && cap_get_flag(caps, CAP_NET_RAW, CAP_EFFECTIVE, &effective) == 0 &&
        cap_get_flag(caps, CAP_NET_RAW, CAP_PERMITTED, &permitted) == 0 &&
        effective == CAP_CLEAR && permitted == CAP_SET)
        raised = net_raw_effective(caps, CAP_SET);
    fd = socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    error = errno;
    if (raised && !net_raw_effective(caps, CAP_CLEAR) && fd >= 0) {
        close(fd); /* cannot happen; if it did, better no socket than a privilege kept */
        fd = -1;
        error = EPERM;
    }
    if (caps)
        cap_free(caps);
    errno = error;
    return fd;
}
#else
static int raw_socket(int family, int protocol)
{
    return socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}
#endif

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
