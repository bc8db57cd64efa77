/* SPDX-License-Identifier: MIT */
#include "findings.h"

#include "sysctls.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/tcp_metrics.h>

#include "../lib/base/address.h"
#include "../lib/kernel/netlink.h"
#include "../lib/kernel/proc.h"
#include "../lib/kernel/rtnetlink.h"

#define READS_MOST 256U /* of one list */

static int64_t read_number(const char *path)
{
    uint64_t value;

    return ab_proc_read(path, &value, 1) == 1 && value <= INT64_MAX ? (int64_t)value : UNKNOWN;
}

/* In pages. */
static int64_t read_tcp_used(void)
{
    uint64_t pages;

    return ab_proc_read_named("/proc/net/sockstat", "TCP:", "mem", &pages) && pages <= 1ULL << 40
               ? (int64_t)pages * sysconf(_SC_PAGESIZE)
               : UNKNOWN;
}

static void read_route(const struct sockaddr_storage *peer, const struct source *source, struct host_facts *facts)
{
    uint32_t device = source->device[0] ? if_nametoindex(source->device) : 0;
    struct ab_route route;

    if (ab_route_to(peer, source->len ? &source->address : NULL, device, &route) < 0)
        return;
    if (route.device && !if_indextoname(route.device, facts->device))
        facts->device[0] = '\0';
    if (route.window_bytes)
        facts->route_window_bytes = route.window_bytes;
    if (route.cwnd_packets)
        facts->route_cwnd_packets = route.cwnd_packets;
    if (route.congestion_control[0])
        memcpy(facts->congestion_control, route.congestion_control, sizeof facts->congestion_control);
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
static void take_qdisc(void *user, const uint8_t *body, size_t len)
{
    const struct queue *q = user;
    size_t head = ab_netlink_aligned(sizeof(struct tcmsg)), bytes;
    const uint8_t *kind, *stats;
    struct tc_stats counted;
    struct tcmsg tc;

    if (len < head)
        return;
    memcpy(&tc, body, sizeof tc);
    if (tc.tcm_ifindex != (int)q->device || tc.tcm_parent != TC_H_ROOT)
        return;
    kind = ab_netlink_attribute(body + head, len - head, TCA_KIND, 0, &bytes);
    if (kind)
        snprintf(q->facts->qdisc, sizeof q->facts->qdisc, "%.*s", (int)bytes, (const char *)kind);
    stats = ab_netlink_attribute(body + head, len - head, TCA_STATS, sizeof counted, NULL);
    if (stats) {
        memcpy(&counted, stats, sizeof counted);
        q->facts->queue_drops = counted.drops;
    }
}

static void read_queue(struct host_facts *facts)
{
    struct {
        struct nlmsghdr header;
        struct tcmsg body;
    } ask = {.header = {.nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETQDISC,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    struct queue q = {if_nametoindex(facts->device), facts};
    char file[64];

    snprintf(file, sizeof file, "/sys/class/net/%s/tx_queue_len", facts->device);
    facts->queue_packets = read_number(file);
    if (q.device)
        (void)ab_netlink_ask(NETLINK_ROUTE, &ask, sizeof ask, READS_MOST, RTM_NEWQDISC, take_qdisc, &q);
}

static void take_family(void *user, const uint8_t *body, size_t len)
{
    const uint8_t *id = len < GENL_HDRLEN ? NULL
                                          : ab_netlink_attribute(body + GENL_HDRLEN, len - GENL_HDRLEN,
                                                                 CTRL_ATTR_FAMILY_ID, sizeof(uint16_t), NULL);

    if (id)
        memcpy(user, id, sizeof(uint16_t));
}

/* The kernel numbers its values from 1: TCP_METRIC_SSTHRESH is attribute TCP_METRIC_SSTHRESH + 1. */
static void take_metrics(void *user, const uint8_t *body, size_t len)
{
    struct host_facts *facts = user;
    uint32_t ssthresh_packets = 0;
    const uint8_t *values = NULL;
    size_t bytes;

    if (len >= GENL_HDRLEN)
        values = ab_netlink_attribute(body + GENL_HDRLEN, len - GENL_HDRLEN, TCP_METRICS_ATTR_VALS, 0, &bytes);
    if (values)
        ab_netlink_number(values, bytes, TCP_METRIC_SSTHRESH + 1, &ssthresh_packets);
    if (ssthresh_packets)
        facts->ssthresh_packets = ssthresh_packets;
}

/* Asks one command of a family of generic netlink, with one attribute. */
static void ask_generic(uint16_t family, struct genlmsghdr command, uint16_t type, const void *value, size_t bytes,
                        ab_netlink_fn *take, void *user)
{
    struct {
        struct nlmsghdr header;
        struct genlmsghdr command;
        struct rtattr attribute;
        char value[16];
    } ask = {.header = {.nlmsg_type = family, .nlmsg_flags = NLM_F_REQUEST}, .command = command,
             .attribute = {.rta_len = (uint16_t)(sizeof ask.attribute + bytes), .rta_type = type}};

    memcpy(ask.value, value, bytes);
    ask.header.nlmsg_len = (uint32_t)(sizeof ask - sizeof ask.value + ab_netlink_aligned(bytes));
    /* One answer, which no end of a list follows. Of generic netlink its type is that of the question. */
    (void)ab_netlink_ask(NETLINK_GENERIC, &ask, ask.header.nlmsg_len, 1, family, take, user);
}

static void read_metrics(const struct sockaddr_storage *peer, struct host_facts *facts)
{
    const struct genlmsghdr find = {.cmd = CTRL_CMD_GETFAMILY, .version = 1};
    const struct genlmsghdr get = {.cmd = TCP_METRICS_CMD_GET, .version = TCP_METRICS_GENL_VERSION};
    uint16_t family = 0;

    ask_generic(GENL_ID_CTRL, find, CTRL_ATTR_FAMILY_NAME, TCP_METRICS_GENL_NAME, sizeof TCP_METRICS_GENL_NAME,
                take_family, &family);
    if (family && peer->ss_family == AF_INET)
        ask_generic(family, get, TCP_METRICS_ATTR_ADDR_IPV4, &((const struct sockaddr_in *)peer)->sin_addr,
                    sizeof(struct in_addr), take_metrics, facts);
    else if (family)
        ask_generic(family, get, TCP_METRICS_ATTR_ADDR_IPV6, &((const struct sockaddr_in6 *)peer)->sin6_addr,
                    sizeof(struct in6_addr), take_metrics, facts);
}

static int64_t third_of(const char *value)
{
    uint64_t v[3];

    return ab_proc_parse(value, v, 3) == 3 && v[2] <= INT64_MAX ? (int64_t)v[2] : UNKNOWN;
}

/* The third number of net.ipv4.tcp_wmem or tcp_rmem, and the file that has set it. */
static void read_setting(const char *name, struct setting *setting)
{
    struct sysctl_setting found;
    char now[SYSCTL_VALUE_BYTES];

    *setting = (struct setting){.third_bytes = sysctls_now("", name, now) ? third_of(now) : UNKNOWN};
    if (setting->third_bytes != UNKNOWN &&
        ((sysctls_last("", name, &found) && third_of(found.value) == setting->third_bytes) ||
         (sysctls_tuned("", name, &found) && third_of(found.value) == setting->third_bytes)))
        snprintf(setting->file, sizeof setting->file, "%s", found.file);
}

static void read_kernel(struct host_facts *facts)
{
    struct utsname system;
    long pages = sysconf(_SC_PHYS_PAGES);

    if (uname(&system) == 0)
        snprintf(facts->kernel, sizeof facts->kernel, "%.*s", (int)sizeof facts->kernel - 1, system.release);
    if (pages > 0)
        facts->memory_bytes = (int64_t)pages * sysconf(_SC_PAGESIZE);
    ab_proc_text("/proc/sys/net/ipv4/tcp_congestion_control", facts->congestion_control,
                 sizeof facts->congestion_control);
    facts->congestion_control[strcspn(facts->congestion_control, " \n")] = '\0';
    if (ab_proc_read("/proc/sys/net/ipv4/tcp_mem", facts->tcp_mem_pages, 3) == 3)
        facts->tcp_mem_bytes = (int64_t)(facts->tcp_mem_pages[1] * (uint64_t)sysconf(_SC_PAGESIZE));
    /* Only the first namespace shows net.ipv4.tcp_mem; all show net.ipv4.tcp_wmem. */
    facts->inner_namespace = access("/proc/sys/net/ipv4/tcp_wmem", F_OK) == 0 && facts->tcp_mem_bytes == UNKNOWN;
    read_setting("net.ipv4.tcp_wmem", &facts->tcp_wmem);
    read_setting("net.ipv4.tcp_rmem", &facts->tcp_rmem);
}

void host_read(const struct sockaddr *peer, socklen_t peer_len, const struct source *source, struct host_facts *facts)
{
    struct sockaddr_storage address;

    *facts = (struct host_facts){.mtu_probing = read_number("/proc/sys/net/ipv4/tcp_mtu_probing"),
                                 .sack = read_number("/proc/sys/net/ipv4/tcp_sack"),
                                 .slow_start_after_idle = read_number("/proc/sys/net/ipv4/tcp_slow_start_after_idle"),
                                 .tcp_used_bytes = read_tcp_used(), .queue_packets = UNKNOWN, .queue_drops = UNKNOWN,
                                 .ssthresh_packets = UNKNOWN, .route_window_bytes = UNKNOWN,
                                 .route_cwnd_packets = UNKNOWN, .segmentation_offload = UNKNOWN,
                                 .receive_offload = UNKNOWN, .memory_bytes = UNKNOWN, .tcp_mem_bytes = UNKNOWN};
    read_kernel(facts);
    if (!peer || ab_address_copy(peer, peer_len, &address) < 0)
        return;
    getnameinfo(peer, peer_len, facts->peer, sizeof facts->peer, NULL, 0, NI_NUMERICHOST);
    read_route(&address, source, facts);
    if (facts->device[0]) {
        read_queue(facts);
        read_offloads(facts);
    }
    read_metrics(&address, facts);
}
