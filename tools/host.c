/* SPDX-License-Identifier: MIT */
#include "host.h"

#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/pkt_sched.h>
#include <linux/sockios.h>
#include <linux/tcp_metrics.h>

#include "netlink.h"
#include "settings.h"

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

/* --------------------------------------------------------------------------- route, device */

/* RTA_METRICS holds the numbers that ip-route(8) calls window, cwnd and so on. */
static void take_route(const struct nlmsghdr *m, void *out)
{
    struct host_facts *facts = out;
    const struct rtattr *metrics;
    int64_t device = 0;

    if (m->nlmsg_type != RTM_NEWROUTE)
        return;
    netlink_number(netlink_attribute(m, sizeof(struct rtmsg), RTA_OIF), &device);
    if (device > 0 && !if_indextoname((unsigned)device, facts->device))
        facts->device[0] = '\0';
    metrics = netlink_attribute(m, sizeof(struct rtmsg), RTA_METRICS);
    if (!metrics)
        return;
    netlink_number(netlink_nested(metrics, RTAX_WINDOW), &facts->route_window_bytes);
    netlink_number(netlink_nested(metrics, RTAX_CWND), &facts->route_cwnd_packets);
}

static void read_route(const struct sockaddr *peer, struct host_facts *facts)
{
    bool v4 = peer->sa_family == AF_INET;
    struct request r;
    struct rtmsg *route = netlink_begin(&r, RTM_GETROUTE, 0, sizeof *route);

    route->rtm_family = (unsigned char)peer->sa_family;
    route->rtm_dst_len = v4 ? 32 : 128;
    if (v4)
        netlink_add(&r, RTA_DST, &((const struct sockaddr_in *)peer)->sin_addr, sizeof(struct in_addr));
    else
        netlink_add(&r, RTA_DST, &((const struct sockaddr_in6 *)peer)->sin6_addr, sizeof(struct in6_addr));
    netlink_ask(NETLINK_ROUTE, &r, take_route, facts);
}

/* 1, 0, or UNKNOWN. */
static int64_t read_offload(int fd, const char *device, uint32_t command)
{
    struct ethtool_value value = {.cmd = command};
    struct ifreq request = {.ifr_data = (void *)&value};

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    return ioctl(fd, SIOCETHTOOL, &request) < 0 ? UNKNOWN : value.data != 0;
}

static void read_offloads(struct host_facts *facts)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int64_t tso, gso;

    if (fd < 0)
        return;
    tso = read_offload(fd, facts->device, ETHTOOL_GTSO);
    gso = read_offload(fd, facts->device, ETHTOOL_GGSO);
    facts->segmentation_offload = tso == UNKNOWN || gso == UNKNOWN ? UNKNOWN : tso || gso;
    facts->receive_offload = read_offload(fd, facts->device, ETHTOOL_GGRO);
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
    kind = netlink_attribute(m, sizeof *tc, TCA_KIND);
    stats = netlink_attribute(m, sizeof *tc, TCA_STATS);
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
    struct tcmsg *tc = netlink_begin(&r, RTM_GETQDISC, NLM_F_DUMP, sizeof *tc);

    tc->tcm_family = AF_UNSPEC;
    snprintf(file, sizeof file, "/sys/class/net/%s/tx_queue_len", facts->device);
    facts->queue_packets = read_number(file);
    if (q.device)
        netlink_ask(NETLINK_ROUTE, &r, take_qdisc, &q);
}

static void take_family(const struct nlmsghdr *m, void *out)
{
    const struct rtattr *id = netlink_attribute(m, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID);

    if (id && RTA_PAYLOAD(id) >= sizeof(uint16_t))
        memcpy(out, RTA_DATA(id), sizeof(uint16_t));
}

/* The kernel numbers its values from 1: TCP_METRIC_SSTHRESH is attribute TCP_METRIC_SSTHRESH + 1. */
static void take_metrics(const struct nlmsghdr *m, void *out)
{
    struct host_facts *facts = out;
    const struct rtattr *values = netlink_attribute(m, sizeof(struct genlmsghdr), TCP_METRICS_ATTR_VALS);
    const struct rtattr *ssthresh = values ? netlink_nested(values, TCP_METRIC_SSTHRESH + 1) : NULL;

    netlink_number(ssthresh, &facts->ssthresh_packets);
}

static void read_metrics(const struct sockaddr *peer, struct host_facts *facts)
{
    static const char name[] = TCP_METRICS_GENL_NAME;
    uint16_t family = 0;
    struct request r;
    struct genlmsghdr *g = netlink_begin(&r, GENL_ID_CTRL, 0, sizeof *g);

    g->cmd = CTRL_CMD_GETFAMILY;
    g->version = 1;
    netlink_add(&r, CTRL_ATTR_FAMILY_NAME, name, sizeof name);
    netlink_ask(NETLINK_GENERIC, &r, take_family, &family);
    if (!family)
        return;
    g = netlink_begin(&r, family, 0, sizeof *g);
    g->cmd = TCP_METRICS_CMD_GET;
    g->version = TCP_METRICS_GENL_VERSION;
    if (peer->sa_family == AF_INET)
        netlink_add(&r, TCP_METRICS_ATTR_ADDR_IPV4, &((const struct sockaddr_in *)peer)->sin_addr,
                      sizeof(struct in_addr));
    else
        netlink_add(&r, TCP_METRICS_ATTR_ADDR_IPV6,
                      &((const struct sockaddr_in6 *)peer)->sin6_addr, sizeof(struct in6_addr));
    netlink_ask(NETLINK_GENERIC, &r, take_metrics, facts);
}

/* ----------------------------------------------------------------------------------- host */

static void read_word(const char *path, char *word, size_t cap)
{
    FILE *file = fopen(path, "re");

    word[0] = '\0';
    if (!file)
        return;
    if (!fgets(word, (int)cap, file))
        word[0] = '\0';
    word[strcspn(word, " \n")] = '\0';
    fclose(file);
}

/* The third number of net.ipv4.tcp_wmem or tcp_rmem, and the file that has set it. */
static void read_setting(const char *name, const char *path, struct setting *setting)
{
    long long first, second, third = UNKNOWN;
    FILE *file = fopen(path, "re");

    if (!file)
        return;
    if (fscanf(file, "%lld %lld %lld", &first, &second, &third) == 3)
        settings_find(name, third, setting);
    fclose(file);
}

static void read_kernel(struct host_facts *facts)
{
    struct utsname system;
    long pages = sysconf(_SC_PHYS_PAGES);

    if (uname(&system) == 0)
        snprintf(facts->kernel, sizeof facts->kernel, "%.*s", (int)sizeof facts->kernel - 1, system.release);
    if (pages > 0)
        facts->memory_bytes = (int64_t)pages * sysconf(_SC_PAGESIZE);
    read_word("/proc/sys/net/ipv4/tcp_congestion_control", facts->congestion_control,
              sizeof facts->congestion_control);
    /* Only the first namespace shows net.ipv4.tcp_mem; all show net.ipv4.tcp_wmem. */
    facts->inner_namespace = access("/proc/sys/net/ipv4/tcp_wmem", F_OK) == 0 &&
                             access("/proc/sys/net/ipv4/tcp_mem", F_OK) != 0;
    read_setting("net.ipv4.tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem", &facts->tcp_wmem);
    read_setting("net.ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem", &facts->tcp_rmem);
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
        .route_window_bytes = UNKNOWN,
        .route_cwnd_packets = UNKNOWN,
        .segmentation_offload = UNKNOWN,
        .receive_offload = UNKNOWN,
        .memory_bytes = UNKNOWN,
    };
    read_kernel(facts);
    if (!peer || (peer->sa_family != AF_INET && peer->sa_family != AF_INET6))
        return;
    getnameinfo(peer, peer_len, facts->peer, sizeof facts->peer, NULL, 0, NI_NUMERICHOST);
    read_route(peer, facts);
    if (facts->device[0]) {
        read_queue(facts);
        read_offloads(facts);
    }
    read_metrics(peer, facts);
}
