/* SPDX-License-Identifier: MIT */
#include "host.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tcp_metrics.h>

#define MESSAGE_BYTES 32768
#define MESSAGES_MOST 64 /* reads of one answer: a host has no more queueing disciplines */

static int64_t read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    long long value = UNKNOWN;

    if (!file)
        return UNKNOWN;
    if (fscanf(file, "%lld", &value) != 1 || value < 0)
        value = UNKNOWN;
    fclose(file);
    return value;
}

/* "TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 2": pages. */
static int64_t read_tcp_used(void)
{
    FILE *file = fopen("/proc/net/sockstat", "re");
    long long pages = UNKNOWN;
    char line[256];

    if (!file)
        return UNKNOWN;
    while (pages < 0 && fgets(line, sizeof line, file)) {
        const char *mem = strncmp(line, "TCP:", 4) == 0 ? strstr(line, " mem ") : NULL;

        if (mem && (sscanf(mem, " mem %lld", &pages) != 1 || pages < 0 || pages > 1LL << 40))
            break;
    }
    fclose(file);
    return pages < 0 ? UNKNOWN : pages * sysconf(_SC_PAGESIZE);
}

/* The device that has the address from which the kernel would send to the peer. */
static void find_device(const struct sockaddr *peer, socklen_t peer_len, char device[IF_NAMESIZE])
{
    struct sockaddr_storage to = {0}, own = {0};
    socklen_t len = sizeof own;
    struct ifaddrs *all;
    int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return;
    peer_len = peer_len < sizeof to ? peer_len : sizeof to;
    memcpy(&to, peer, peer_len);
    ((struct sockaddr_in *)&to)->sin_port = htons(9); /* at the same place in both families */
    if (connect(fd, (struct sockaddr *)&to, peer_len) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &len) == 0 && getifaddrs(&all) == 0) {
        for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
            size_t at = own.ss_family == AF_INET ? offsetof(struct sockaddr_in, sin_addr)
                                                 : offsetof(struct sockaddr_in6, sin6_addr);
            size_t bytes = own.ss_family == AF_INET ? 4 : 16;

            if (a->ifa_addr && a->ifa_addr->sa_family == own.ss_family &&
                memcmp((char *)a->ifa_addr + at, (char *)&own + at, bytes) == 0)
                snprintf(device, IF_NAMESIZE, "%s", a->ifa_name);
        }
        freeifaddrs(all);
    }
    close(fd);
}

/* --------------------------------------------------------------------------------- netlink */

struct request {
    struct nlmsghdr header;
    char body[128];
};

typedef void take_fn(const struct nlmsghdr *message, void *out);

static void *begin_request(struct request *r, uint16_t type, uint16_t flags, size_t bytes)
{
    memset(r, 0, sizeof *r);
    r->header.nlmsg_type = type;
    r->header.nlmsg_flags = NLM_F_REQUEST | flags;
    r->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes);
    return NLMSG_DATA(&r->header);
}

static void add_attribute(struct request *r, uint16_t type, const void *data, size_t bytes)
{
    struct rtattr *a = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));

    a->rta_type = type;
    a->rta_len = (uint16_t)RTA_LENGTH(bytes);
    memcpy(RTA_DATA(a), data, bytes);
    r->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->header.nlmsg_len) + RTA_SPACE(bytes));
}

/* The attribute of a type among left bytes of attributes; NULL: none. */
static const struct rtattr *attribute_among(const void *attributes, size_t left, unsigned type)
{
    const char *at = attributes;

    while (left >= sizeof(struct rtattr)) {
        const struct rtattr *a = (const struct rtattr *)at;
        size_t bytes = RTA_ALIGN(a->rta_len);

        if (a->rta_len < sizeof *a || a->rta_len > left)
            break;
        if ((a->rta_type & NLA_TYPE_MASK) == type)
            return a;
        at += bytes;
        left -= bytes < left ? bytes : left;
    }
    return NULL;
}

/* Reads attributes of a message whose body begins with skip bytes of something else. */
static const struct rtattr *attribute_of(const struct nlmsghdr *m, size_t skip, unsigned type)
{
    size_t begin = NLMSG_LENGTH(NLMSG_ALIGN(skip));

    return attribute_among((const char *)m + begin, m->nlmsg_len > begin ? m->nlmsg_len - begin : 0,
                           type);
}

static const struct rtattr *attribute_in(const struct rtattr *nest, unsigned type)
{
    return attribute_among(RTA_DATA(nest), RTA_PAYLOAD(nest), type);
}

/* One request, and whatever answers it. */
static void ask(int protocol, const struct request *r, take_fn *take, void *out)
{
    static _Alignas(struct nlmsghdr) char buf[MESSAGE_BYTES];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct timeval patience = {1, 0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    bool more = fd >= 0;

    if (more)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    more = more && sendto(fd, r, r->header.nlmsg_len, 0, (struct sockaddr *)&kernel,
                          sizeof kernel) >= 0;
    for (int i = 0; more && i < MESSAGES_MOST; i++) {
        ssize_t got = recv(fd, buf, sizeof buf, 0);
        const struct nlmsghdr *m = (const struct nlmsghdr *)buf;
        size_t left = got > 0 ? (size_t)got : 0;

        more = got > 0;
        for (; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
            if (m->nlmsg_type == NLMSG_ERROR || m->nlmsg_type == NLMSG_DONE)
                more = false;
            else
                take(m, out);
            more = more && m->nlmsg_flags & NLM_F_MULTI;
        }
    }
    if (fd >= 0)
        close(fd);
}

struct queue {
    unsigned device;
    struct host_facts *facts;
};

/* The root discipline's drops are those of all below it. */
static void take_qdisc(const struct nlmsghdr *m, void *out)
{
    const struct queue *q = out;
    const struct tcmsg *tc = NLMSG_DATA(m);
    const struct rtattr *kind, *stats;
    struct tc_stats counted;

    if (m->nlmsg_type != RTM_NEWQDISC || m->nlmsg_len < NLMSG_LENGTH(sizeof *tc) ||
        tc->tcm_ifindex != (int)q->device || tc->tcm_parent != TC_H_ROOT)
        return;
    kind = attribute_of(m, sizeof *tc, TCA_KIND);
    stats = attribute_of(m, sizeof *tc, TCA_STATS);
    if (kind)
        snprintf(q->facts->qdisc, sizeof q->facts->qdisc, "%.*s", (int)RTA_PAYLOAD(kind),
                 (const char *)RTA_DATA(kind));
    if (stats && RTA_PAYLOAD(stats) >= sizeof counted) {
        memcpy(&counted, RTA_DATA(stats), sizeof counted);
        q->facts->queue_drops = counted.drops;
    }
}

static void read_queue(struct host_facts *facts)
{
    struct queue q = {if_nametoindex(facts->device), facts};
    char file[64];
    struct request r;
    struct tcmsg *tc = begin_request(&r, RTM_GETQDISC, NLM_F_DUMP, sizeof *tc);

    tc->tcm_family = AF_UNSPEC;
    snprintf(file, sizeof file, "/sys/class/net/%s/tx_queue_len", facts->device);
    facts->queue_packets = read_number(file);
    if (q.device)
        ask(NETLINK_ROUTE, &r, take_qdisc, &q);
}

static void take_family(const struct nlmsghdr *m, void *out)
{
    const struct rtattr *id = attribute_of(m, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID);

    if (id && RTA_PAYLOAD(id) >= sizeof(uint16_t))
        memcpy(out, RTA_DATA(id), sizeof(uint16_t));
}

/* The kernel numbers its values from 1: TCP_METRIC_SSTHRESH is attribute TCP_METRIC_SSTHRESH + 1. */
static void take_metrics(const struct nlmsghdr *m, void *out)
{
    struct host_facts *facts = out;
    const struct rtattr *values = attribute_of(m, sizeof(struct genlmsghdr), TCP_METRICS_ATTR_VALS);
    const struct rtattr *ssthresh = values ? attribute_in(values, TCP_METRIC_SSTHRESH + 1) : NULL;
    uint32_t packets;

    if (!ssthresh || RTA_PAYLOAD(ssthresh) < sizeof packets)
        return;
    memcpy(&packets, RTA_DATA(ssthresh), sizeof packets);
    facts->ssthresh_packets = packets;
}

static void read_metrics(const struct sockaddr *peer, struct host_facts *facts)
{
    static const char name[] = TCP_METRICS_GENL_NAME;
    uint16_t family = 0;
    struct request r;
    struct genlmsghdr *g = begin_request(&r, GENL_ID_CTRL, 0, sizeof *g);

    g->cmd = CTRL_CMD_GETFAMILY;
    g->version = 1;
    add_attribute(&r, CTRL_ATTR_FAMILY_NAME, name, sizeof name);
    ask(NETLINK_GENERIC, &r, take_family, &family);
    if (!family)
        return;
    g = begin_request(&r, family, 0, sizeof *g);
    g->cmd = TCP_METRICS_CMD_GET;
    g->version = TCP_METRICS_GENL_VERSION;
    if (peer->sa_family == AF_INET)
        add_attribute(&r, TCP_METRICS_ATTR_ADDR_IPV4, &((const struct sockaddr_in *)peer)->sin_addr,
                      sizeof(struct in_addr));
    else
        add_attribute(&r, TCP_METRICS_ATTR_ADDR_IPV6,
                      &((const struct sockaddr_in6 *)peer)->sin6_addr, sizeof(struct in6_addr));
    ask(NETLINK_GENERIC, &r, take_metrics, facts);
}

void host_read(const struct sockaddr *peer, socklen_t peer_len, struct host_facts *facts)
{
    *facts = (struct host_facts){
        .sack = read_number("/proc/sys/net/ipv4/tcp_sack"),
        .slow_start_after_idle = read_number("/proc/sys/net/ipv4/tcp_slow_start_after_idle"),
        .tcp_used_bytes = read_tcp_used(),
        .queue_packets = UNKNOWN,
        .queue_drops = UNKNOWN,
        .ssthresh_packets = UNKNOWN,
    };
    if (!peer || (peer->sa_family != AF_INET && peer->sa_family != AF_INET6))
        return;
    getnameinfo(peer, peer_len, facts->peer, sizeof facts->peer, NULL, 0, NI_NUMERICHOST);
    find_device(peer, peer_len, facts->device);
    if (facts->device[0])
        read_queue(facts);
    read_metrics(peer, facts);
}
