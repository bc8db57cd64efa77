/* unshare() */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "emu_netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TXQUEUE_PACKETS 10000
#define DEVICE "path0"

__attribute__((format(printf, 3, 4))) static int fail(char *err, size_t size, const char *fmt, ...)
{
    char what[96];
    va_list ap;
    int saved = errno;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    snprintf(err, size, "%s: %s", what, strerror(saved));
    return -1;
}

static int write_file(const char *path, const char *text)
{
    size_t len = strlen(text);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = write(fd, text, len);
    close(fd);
    return n == (ssize_t)len ? 0 : -1;
}

/* Root inside maps to the caller: those who enter then get the capabilities over the network. */
static int enter_userns(char *err, size_t size)
{
    char map[64];
    unsigned uid = (unsigned)getuid(), gid = (unsigned)getgid();

    if (unshare(CLONE_NEWUSER) < 0)
        return fail(err, size, "user namespace");
    /* The kernel allows an ordinary user a map of groups only after this. */
    if (write_file("/proc/self/setgroups", "deny") < 0)
        return fail(err, size, "setgroups");
    snprintf(map, sizeof(map), "0 %u 1", uid);
    if (write_file("/proc/self/uid_map", map) < 0)
        return fail(err, size, "uid_map");
    snprintf(map, sizeof(map), "0 %u 1", gid);
    if (write_file("/proc/self/gid_map", map) < 0)
        return fail(err, size, "gid_map");
    return 0;
}

static void name(struct ifreq *ifr, const char *device)
{
    memset(ifr, 0, sizeof(*ifr));
    snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", device);
}

static int set_flags(int sock, const char *device, int set, int clear)
{
    struct ifreq ifr;

    name(&ifr, device);
    if (ioctl(sock, SIOCGIFFLAGS, &ifr) < 0)
        return -1;
    ifr.ifr_flags = (short)((ifr.ifr_flags | set) & ~clear);
    return ioctl(sock, SIOCSIFFLAGS, &ifr);
}

static int set_ipv4(int sock, const char *address, bool is_mask)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    struct ifreq ifr;

    name(&ifr, DEVICE);
    inet_pton(AF_INET, address, &sin.sin_addr);
    memcpy(&ifr.ifr_addr, &sin, sizeof(sin));
    return ioctl(sock, is_mask ? SIOCSIFNETMASK : SIOCSIFADDR, &ifr);
}

static int set_ipv6(const char *address)
{
    struct in6_ifreq req = {.ifr6_prefixlen = 64};
    struct ifreq ifr;
    int rc = -1, sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    /* A kernel without IPv6 still makes a good path. */
    if (sock < 0)
        return errno == EAFNOSUPPORT ? 0 : -1;
    name(&ifr, DEVICE);
    if (ioctl(sock, SIOCGIFINDEX, &ifr) == 0) {
        req.ifr6_ifindex = ifr.ifr_ifindex;
        inet_pton(AF_INET6, address, &req.ifr6_addr);
        rc = ioctl(sock, SIOCSIFADDR, &req);
    }
    close(sock);
    return rc;
}

static int open_tun(void)
{
    struct ifreq ifr;
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -1;
    name(&ifr, DEVICE);
    ifr.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(fd, TUNSETIFF, &ifr) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int set_mtu(int sock, int mtu)
{
    struct ifreq ifr;

    name(&ifr, DEVICE);
    ifr.ifr_mtu = mtu;
    return ioctl(sock, SIOCSIFMTU, &ifr);
}

/* By netlink: the ioctl for this one asks for a capability that a user namespace does not give. */
static int set_txqueue(uint32_t packets)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg info;
        struct nlattr attr;
        uint32_t value;
    } ask = {
        .header = {.nlmsg_len = sizeof(ask),
                   .nlmsg_type = RTM_NEWLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .info = {.ifi_family = AF_UNSPEC, .ifi_index = (int)if_nametoindex(DEVICE)},
        .attr = {.nla_len = sizeof(struct nlattr) + sizeof(uint32_t), .nla_type = IFLA_TXQLEN},
        .value = packets,
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    int rc = -1, sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (sock < 0)
        return -1;
    if (send(sock, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask) &&
        recv(sock, &answer, sizeof(answer), 0) > 0 && answer.header.nlmsg_type == NLMSG_ERROR) {
        errno = -answer.error.error;
        rc = errno ? -1 : 0;
    }
    close(sock);
    return rc;
}

/*
 * Only the test's packets may be on the path, or the truth would not add up: no link-local address,
 * no router solicitation, no multicast report. (Where there is no IPv6 there are no such files.)
 */
static void be_quiet(void)
{
    write_file("/proc/sys/net/ipv6/conf/" DEVICE "/addr_gen_mode", "1");
    write_file("/proc/sys/net/ipv6/conf/" DEVICE "/accept_ra", "0");
    write_file("/proc/sys/net/ipv6/conf/" DEVICE "/router_solicitations", "0");
}

static int configure(int mtu, const char *ipv4, const char *ipv6, char *err, size_t size)
{
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -1;

    if (sock < 0)
        return fail(err, size, "socket");
    be_quiet();
    if (set_flags(sock, "lo", IFF_UP, 0) < 0)
        fail(err, size, "lo up");
    else if (set_mtu(sock, mtu) < 0)
        fail(err, size, "mtu %d", mtu);
    else if (set_txqueue(TXQUEUE_PACKETS) < 0)
        fail(err, size, "txqueuelen");
    else if (set_ipv4(sock, ipv4, false) < 0 ||
             set_ipv4(sock, "255.255.255.0", true) < 0)
        fail(err, size, "address %s", ipv4);
    else if (set_flags(sock, DEVICE, IFF_UP, IFF_MULTICAST) < 0)
        fail(err, size, "%s up", DEVICE);
    /* IPv6 does not exist below an MTU of 1280. */
    else if (mtu >= 1280 && set_ipv6(ipv6) < 0)
        fail(err, size, "address %s", ipv6);
    else
        rc = 0;
    close(sock);
    return rc;
}

static int make_side(struct emu_netns *side, int mtu, const char *ipv4, const char *ipv6, char *err,
                     size_t size)
{
    if (unshare(CLONE_NEWNET) < 0)
        return fail(err, size, "network namespace");
    side->ns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (side->ns_fd < 0)
        return fail(err, size, "/proc/self/ns/net");
    side->tun_fd = open_tun();
    if (side->tun_fd < 0)
        return fail(err, size, "/dev/net/tun");
    return configure(mtu, ipv4, ipv6, err, size);
}

int emu_netns_pair(struct emu_netns side[2], int mtu, char *err, size_t err_size)
{
    if (geteuid() != 0 && enter_userns(err, err_size) < 0)
        return -1;
    if (make_side(&side[0], mtu, "10.77.0.1", "fd77::1", err, err_size) < 0)
        return -1;
    return make_side(&side[1], mtu, "10.77.0.2", "fd77::2", err, err_size);
}
