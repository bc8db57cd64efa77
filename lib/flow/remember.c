/* SPDX-License-Identifier: MIT */
/* What the path store knows of a flow's path, and what the flow adds to it. */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "../base/address.h"
#include "../kernel/rtnetlink.h"
#include "../kernel/socket.h"
#include "../paths/store.h"
#include "flow.h"

/* How long a measurement, and a lower bound, is valid. Capacity and minimum RTT change with the network only. */
#define VALID_S 86400U
#define BOUND_VALID_S 3600U

/* This end of a connection. */
struct here {
    struct sockaddr_storage local;
    int local_len; /* 0: unknown */
    char device[AUTOBUF_INTERFACE_BYTES];
};

/* The interface that a connection certainly uses: SO_BINDTODEVICE, or a link-local peer. "": unknown. */
static void find_device(const struct ab_decision *d, int fd, char *device)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&d->peer;

    ab_socket_device(fd, device);
    if (!device[0] && d->peer.ss_family == AF_INET6 && v6->sin6_scope_id && !if_indextoname(v6->sin6_scope_id, device))
        device[0] = '\0';
}

/* For an empty name the kernel would load a module. */
static uint32_t device_index(const char *device)
{
    return device[0] ? if_nametoindex(device) : 0;
}

/* The address that a socket is bound or connected from. Returns its length; 0: none yet. */
static int find_local(int fd, struct sockaddr_storage *local)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    int local_len = 0;

    if (getsockname(fd, (struct sockaddr *)&bound, &len) == 0)
        local_len = ab_address_copy((struct sockaddr *)&bound, len, local);
    return local_len <= 0 || ab_address_is_any(local) ? 0 : local_len;
}

/* As the socket is bound or connected, or else by the routes. */
static void find_here(const struct ab_decision *d, int fd, struct here *here)
{
    struct ab_route route;

    memset(here, 0, sizeof *here);
    find_device(d, fd, here->device);
    here->local_len = find_local(fd, &here->local);
    if ((here->local_len && here->device[0]) ||
        ab_route_to(&d->peer, here->local_len ? &here->local : NULL, device_index(here->device), &route) < 0)
        return;
    if (!here->local_len && route.source_bytes)
        here->local_len = ab_address_make(route.source, route.source_bytes, &here->local);
    if (!here->device[0] && !if_indextoname(route.device, here->device))
        here->device[0] = '\0';
}

static int look_up(const struct ab_decision *d, int fd, uint32_t intent, const struct autobuf_paths *paths,
                   struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    struct here here;

    query.remote = (const struct sockaddr *)&d->peer;
    query.remote_len = (uint32_t)d->peer_len;
    query.intent = intent;
    query.now_s = (uint64_t)time(NULL);
    if (ab_paths_are_local(paths)) {
        find_here(d, fd, &here);
        query.device = here.device;
        query.local = here.local_len ? (const struct sockaddr *)&here.local : NULL;
        query.local_len = (uint32_t)here.local_len;
    }
    return autobuf_paths_find(paths, &query, entry);
}

/* file: NULL: the host's store, or else the user's. fd: -1: there is no socket any more. */
static int look_up_in(const struct ab_decision *d, int fd, uint32_t intent, const char *file,
                      struct autobuf_paths_entry *entry)
{
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, file);

    if (error < 0)
        return error;
    error = look_up(d, fd, intent, paths, entry);
    autobuf_paths_close(paths);
    return error;
}

void ab_decide_recall(struct ab_decision *d, int fd)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    char prefix[AUTOBUF_PREFIX_BYTES] = "";
    const char *own;
    bool sends;
    int error;

    if (!d->peer_len || d->recalled || d->options.flags & AUTOBUF_FLOW_NO_STORE || ab_decide_knows_path(d))
        return;
    d->recalled = true;
    error = look_up_in(d, fd, d->options.intent, NULL, &entry);
    own = error < 0 ? ab_paths_own() : NULL;
    if (own) /* the daemon may have rejected reports of this user */
        error = look_up_in(d, fd, d->options.intent, own, &entry);
    if (error < 0 || entry.method == AUTOBUF_METHOD_NONE || autobuf_paths_path(&entry, &d->path) < 0)
        return;
    (void)autobuf_prefix_print(&entry.remote, prefix);
    sends = entry.tx_rate_bit_per_s;
    ab_event(&d->log, &(struct autobuf_event){.what = AUTOBUF_EVENT_KNOWN,
                                             .side = sends ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV,
                                             .after_bit_per_s = sends ? entry.tx_rate_bit_per_s
                                                                      : entry.rx_rate_bit_per_s,
                                             .rtt_ns = entry.rtt_min_ns, .why = prefix});
}

/* A rule may route this source address differently from the one that the host would choose itself. */
static bool is_source_routed(const struct ab_decision *d, int fd)
{
    struct sockaddr_storage local, usual;
    struct ab_route route;

    if (!find_local(fd, &local) || ab_route_to(&d->peer, NULL, device_index(d->device), &route) < 0 ||
        !route.source_bytes)
        return false;
    (void)ab_address_make(route.source, route.source_bytes, &usual);
    return !ab_address_same(&local, &usual);
}

void ab_decide_record_route(struct ab_decision *d, int fd)
{
    uint32_t mark = 0;
    socklen_t len = sizeof mark;

    find_device(d, fd, d->device);
    d->policy_routed = d->options.mark || (getsockopt(fd, SOL_SOCKET, SO_MARK, &mark, &len) == 0 && mark) ||
                       is_source_routed(d, fd);
}

void ab_decide_leave_faster_direction(const struct ab_decision *d, struct autobuf_paths_entry *entry)
{
    uint32_t sides = d->options.intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);
    uint32_t other = sides ^ (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    struct ab_paths_direction ours = ab_paths_direction(entry, other == AUTOBUF_INTENT_SENDS);
    struct ab_paths_direction theirs = ab_paths_direction(&known, other == AUTOBUF_INTENT_SENDS);

    if (!sides || !other || look_up_in(d, -1, other, NULL, &known) < 0 ||
        *theirs.rate_bit_per_s <= *ours.rate_bit_per_s)
        return;
    *ours.rate_bit_per_s = *ours.low_bit_per_s = *ours.high_bit_per_s = *ours.bdp_bytes = 0;
    entry->flags &= ~(ours.at_least | ours.echoed);
}

void ab_decide_keep(const struct ab_decision *d)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT, reported;
    uint64_t now_s = (uint64_t)time(NULL);
    int error;

    if (d->options.flags & AUTOBUF_FLOW_NO_STORE || d->measured != 1 || d->policy_routed ||
        d->found.method != AUTOBUF_METHOD_ICMP || !d->found.tx_rate_bit_per_s || d->found.tx_unsure ||
        autobuf_paths_learn(&entry, &d->found) < 0 ||
        ab_prefix_of((const struct sockaddr *)&d->peer, d->peer_len, &entry.remote) < 0)
        return;
    memcpy(entry.device, d->device, sizeof entry.device);
    entry.learned_s = now_s;
    entry.expires_s = now_s + (d->found.flags & AB_PATH_ECHOED ? VALID_S : BOUND_VALID_S);
    reported = entry;
    ab_decide_leave_faster_direction(d, &reported);
    if (!entry.device[0] && ab_paths_report(&reported) == 0) /* the daemon takes paths of the whole host */
        return;
    error = autobuf_paths_keep(NULL, &entry, now_s, AUTOBUF_PATHS_TRY | AUTOBUF_PATHS_NO_SYNC);
    if (error < 0 && error != -ENOENT)
        ab_log(&d->log, "not kept in the path store: %s", autobuf_strerror(error));
}
