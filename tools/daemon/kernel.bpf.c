/* SPDX-License-Identifier: MIT */
/*
 * The kernel's part of autobufd. Sizes that programs set by SO_SNDBUF and SO_RCVBUF, and that are smaller than what
 * autotuning reaches, are withheld from the kernel, so that no buffer is locked, nor the window scale of a SYN small.
 * The program reads with getsockopt() what it would read otherwise. A size is applied after all when the connection
 * turns out to be one that a rule leaves alone, or its peer so near that the size is no bottleneck, or when the program
 * sets a window clamp. A side that anybody locks meanwhile, as SO_RCVBUFFORCE and SO_BUF_LOCK do, is theirs.
 *
 * And the daemon is told of a connection as soon as it moves bulk data. The kernel calls for each packet that a
 * connection sends, acknowledgements included, until that is told, or a few hundred have told nothing.
 */
#include <linux/bpf.h>
#include <linux/in6.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bulk_mark.h"

#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define IPPROTO_MPTCP 262
#define TCP_WINDOW_CLAMP 10
#define TCP_ESTABLISHED 1
#define TCP_CLOSE_WAIT 8
#define SOL_SOCKET 1
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define LOOPBACK_NET 127
/*
 * What a connection is watched by, which the kernel keeps as bits of its socket: to be called for each packet, and for
 * each timeout, of which nothing is made. No other program is likely to want just these two: so those are known that an
 * earlier daemon has left, or for which there was no room.
 */
#define WATCHED (BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG)
#define WATCHED_MOST 16384 /* 2 MB; those that have sent nothing for the longest time go first */
#define CALLS_MOST 256 /* for a connection: 64 KB are 45 packets; what is slow for so long costs nothing more */
#define PAGE_BYTES 4096 /* of a longer option, a program has only the beginning: it must say that it leaves that */

/* What is read of the kernel's own, wherever a kernel has it. */
#define KERNEL __attribute__((preserve_access_index))

typedef struct {
    __u32 val;
} KERNEL kuid_t;

struct sock_common {
    __be32 skc_daddr, skc_rcv_saddr;
    __be16 skc_dport;
    __u16 skc_num;
    unsigned short skc_family;
    struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} KERNEL;

struct inode {
    unsigned long i_ino;
} KERNEL;

struct socket {
    int state;
} KERNEL;

struct socket_alloc {
    struct socket socket;
    struct inode vfs_inode;
} KERNEL;

struct sock {
    struct sock_common __sk_common;
    __u8 sk_userlocks : 4;
    kuid_t sk_uid;
    int sk_sndbuf, sk_rcvbuf;
    struct socket *sk_socket;
} KERNEL;

struct kernfs_node {
    const char *name;
} KERNEL;

struct cgroup {
    struct kernfs_node *kn;
} KERNEL;

struct css_set {
    struct cgroup *dfl_cgrp;
} KERNEL;

struct task_struct {
    struct task_struct *group_leader;
    struct css_set *cgroups;
    char comm[16];
} KERNEL;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct withhold_table);
} table SEC(".maps");

/* SO_NETNS_COOKIE: sockets of this network namespace count. The daemon cannot change it. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} network SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, WITHHOLD_RULES);
    __type(key, __u32);
    __type(value, struct withhold_rule);
} rules SEC(".maps");

/* What a program has asked for, and who it was. A connection that a listening socket accepts has the same. */
struct asked {
    struct withhold_subject who;
    __u32 bytes[WITHHOLD_SIDES]; /* of sk_sndbuf and sk_rcvbuf; 0: not withheld */
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
    __type(key, int);
    __type(value, struct asked);
} sockets SEC(".maps");

/* A connection that may begin to move bulk data. */
struct watched {
    struct bulk_mark mark;
    __u64 calls;
};

/* By SO_COOKIE. Memory of the daemon: a map of fixed size, for anybody may open sockets. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, WATCHED_MOST);
    __type(key, __u64);
    __type(value, struct watched);
} watched SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, BULK_EVENTS_BYTES);
} events SEC(".maps");

/* ------------------------------------------------------------------------------ the rule that decides */

/* Each kind of context begins with the kernel's socket. */
static const struct sock *socket_of(const void *context)
{
    const struct sock *sk = 0;

    bpf_probe_read_kernel(&sk, sizeof sk, context);
    return sk;
}

/* Also of IPv4 in IPv6. */
static void find_ends(const struct sock *sk, struct withhold_end *local, struct withhold_end *remote)
{
    struct in6_addr there, here;

    local->port = BPF_CORE_READ(sk, __sk_common.skc_num);
    remote->port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6) {
        BPF_CORE_READ_INTO(&there, sk, __sk_common.skc_v6_daddr);
        BPF_CORE_READ_INTO(&here, sk, __sk_common.skc_v6_rcv_saddr);
        if (there.in6_u.u6_addr32[0] || there.in6_u.u6_addr32[1] || there.in6_u.u6_addr32[2] != bpf_htonl(0xffff)) {
            local->version = remote->version = 6;
            __builtin_memcpy(local->address, &here, sizeof here);
            __builtin_memcpy(remote->address, &there, sizeof there);
            return;
        }
    }
    local->version = remote->version = 4;
    local->address[0] = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
    remote->address[0] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
}

/* The process that sets a size: as /proc says it. */
static void find_process(const struct sock *sk, struct withhold_subject *s)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();

    BPF_CORE_READ_STR_INTO(&s->program, task, group_leader, comm);
    bpf_probe_read_kernel_str(s->unit, sizeof s->unit, BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, name));
    s->user = BPF_CORE_READ(sk, sk_uid.val);
}

struct search {
    const struct withhold_subject *subject;
    __u32 count;
    __u32 sides;
    __u32 depends; /* on ends that are not known */
};

/* Ends with the first rule that decides. */
static long try(void *map, const __u32 *at, const struct withhold_rule *rule, struct search *search)
{
    (void)map;
    if (*at >= search->count)
        return 1;
    search->depends |= rule->ends && !search->subject->remote.version && withhold_matches(rule, search->subject);
    if (!withhold_decides(rule, search->subject))
        return 0;
    search->sides = rule->sides;
    return 1;
}

/* WITHHOLD_* of the rule that decides; 0: none. certain: nor if that depends on ends that are not known. */
static __u32 find_sides(const volatile struct withhold_table *t, const struct withhold_subject *s, int certain)
{
    __u32 generation = t->generation;
    struct search search = {.subject = s, .count = t->count};

    /* On its ports, if there are any to stop at. */
    search.depends = !s->remote.version && t->stop_ports.first[0] <= t->stop_ports.last[0];

    if (s->remote.version && (withhold_is_among((const struct withhold_ports *)&t->stop_ports, s->local.port) ||
                              withhold_is_among((const struct withhold_ports *)&t->stop_ports, s->remote.port)))
        return 0;
    bpf_for_each_map_elem(&rules, try, &search, 0);
    return generation & 1 || generation != t->generation || (certain && search.depends) ? 0 : search.sides;
}

static int is_on_this_host(const struct withhold_subject *s)
{
    __u32 differs = 0;

    for (int i = 0; i < 4; i++)
        differs |= s->local.address[i] ^ s->remote.address[i];
    return !differs || (s->remote.version == 4 && bpf_ntohl(s->remote.address[0]) >> 24 == LOOPBACK_NET);
}

static struct withhold_table *table_of_namespace(__u64 cookie)
{
    __u32 key = 0;
    const __u64 *ours = bpf_map_lookup_elem(&network, &key);

    return ours && *ours == cookie ? bpf_map_lookup_elem(&table, &key) : 0;
}

/* ------------------------------------------------------------------------------------ the programs */

/* 0, 1; other options: -1. */
static int side_of(const struct bpf_sockopt *ctx)
{
    if (ctx->level != SOL_SOCKET)
        return -1;
    return ctx->optname == SO_SNDBUF ? 0 : ctx->optname == SO_RCVBUF ? 1 : -1;
}

/*
 * Also of MPTCP, whose listener takes connections of plain TCP. The kernel has sockets of its own for these and for
 * subflows, so nothing can be applied later.
 */
static int is_tcp(const struct bpf_sock *socket)
{
    return socket && socket->type == SOCK_STREAM &&
           (socket->protocol == IPPROTO_TCP || socket->protocol == IPPROTO_MPTCP) &&
           (socket->family == AF_INET || socket->family == AF_INET6);
}

static int is_locked(const struct sock *sk, unsigned side)
{
    return BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) >> side & 1;
}

/* Of a side; 0: nothing is. */
static __u32 withheld(const struct asked *asked, const struct sock *sk, unsigned side)
{
    return asked && asked->bytes[side] && sk && !is_locked(sk, side) ? asked->bytes[side] : 0;
}

/* Sets what was withheld of a side. */
static void apply(void *ctx, struct asked *asked, unsigned side)
{
    int value = (int)(asked->bytes[side] / 2);

    asked->bytes[side] = 0;
    bpf_setsockopt(ctx, SOL_SOCKET, side ? SO_RCVBUF : SO_SNDBUF, &value, sizeof value);
}

/* Sides of which a size is to be applied, as long as the peer is so far away. */
static __u32 sides_to_apply(const struct asked *asked, const struct withhold_subject *s, __u32 sides, __u32 rtt_us)
{
    __u32 left = ~sides & (WITHHOLD_SND | WITHHOLD_RCV);

    if (sides & WITHHOLD_NEAR)
        return left;
    if (is_on_this_host(s))
        return WITHHOLD_SND | WITHHOLD_RCV;
    return left | (withhold_is_enough(asked->bytes[0], rtt_us) ? WITHHOLD_SND : 0) |
           (withhold_is_enough(asked->bytes[1], rtt_us) ? WITHHOLD_RCV : 0);
}

SEC("cgroup/setsockopt")
int withhold_set(struct bpf_sockopt *ctx)
{
    int side = side_of(ctx), value;
    struct bpf_sock *socket = ctx->sk;
    struct withhold_table *t;
    const struct sock *sk;
    struct asked *asked, now = {0};
    struct bpf_tcp_sock *tcp;
    __u32 sides, bytes;
    void *at = ctx->optval;

    if (ctx->optlen > PAGE_BYTES)
        ctx->optlen = 0;
    if (ctx->level == IPPROTO_TCP && ctx->optname == TCP_WINDOW_CLAMP && is_tcp(socket)) {
        asked = bpf_sk_storage_get(&sockets, socket, 0, 0);
        if (withheld(asked, socket_of(ctx), 1))
            apply(socket, asked, 1); /* or autotuning would move the clamp */
        return 1;
    }
    if (side < 0 || !is_tcp(socket) || at + sizeof value > ctx->optval_end)
        return 1;
    t = table_of_namespace(bpf_get_netns_cookie(ctx));
    sk = socket_of(ctx);
    if (!t || !sk)
        return 1;
    side &= 1;
    value = *(int *)at;
    bytes = withhold_stored(t, side, value);
    asked = bpf_sk_storage_get(&sockets, socket, 0, 0);
    if (asked)
        asked->bytes[side] = 0;
    if (bytes >= t->reach_bytes[side] || is_locked(sk, side))
        return 1; /* autotuning would not reach it; locked already, perhaps by somebody who wants just that */
    find_process(sk, &now.who);
    now.bytes[side] = bytes;
    if (socket->state == TCP_ESTABLISHED || socket->state == TCP_CLOSE_WAIT)
        find_ends(sk, &now.who.local, &now.who.remote);
    tcp = bpf_tcp_sock(socket);
    sides = find_sides(t, &now.who, socket->protocol == IPPROTO_MPTCP);
    if (now.who.remote.version && tcp)
        sides &= ~sides_to_apply(&now, &now.who, sides, tcp->srtt_us >> 3);
    if (!(sides & 1U << side))
        return 1;
    asked = asked ? asked : bpf_sk_storage_get(&sockets, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!asked)
        return 1;
    asked->who = now.who;
    asked->bytes[side] = bytes;
    __sync_fetch_and_add(&t->withheld, 1);
    ctx->optlen = -1; /* the kernel is done with it */
    return 1;
}

SEC("cgroup/getsockopt")
int withhold_get(struct bpf_sockopt *ctx)
{
    int side = side_of(ctx);
    struct bpf_sock *socket = ctx->sk;
    void *at = ctx->optval;
    struct asked *asked;
    __u32 bytes;

    if (ctx->optlen > PAGE_BYTES)
        ctx->optlen = 0;
    if (side < 0 || !is_tcp(socket) || at + sizeof(int) > ctx->optval_end)
        return 1;
    asked = bpf_sk_storage_get(&sockets, socket, 0, 0);
    side &= 1;
    bytes = withheld(asked, socket_of(ctx), side);
    if (bytes)
        *(__u32 *)at = bytes;
    return 1;
}

/* The peer is known. rtt_us: of the handshake; 0: before the SYN. */
static void decide(struct bpf_sock_ops *ops, struct bpf_sock *socket, __u32 rtt_us)
{
    struct asked *asked = bpf_sk_storage_get(&sockets, socket, 0, 0);
    struct withhold_subject who;
    struct withhold_table *t;
    const struct sock *sk;
    __u32 sides;

    if (!asked || !(asked->bytes[0] | asked->bytes[1]))
        return;
    t = table_of_namespace(bpf_get_netns_cookie(ops));
    sk = socket_of(ops);
    if (!t || !sk)
        return;
    who = asked->who;
    find_ends(sk, &who.local, &who.remote);
    sides = sides_to_apply(asked, &who, find_sides(t, &who, 0), rtt_us);
    if (sides & WITHHOLD_SND && withheld(asked, sk, 0))
        apply(ops, asked, 0);
    if (sides & WITHHOLD_RCV && withheld(asked, sk, 1))
        apply(ops, asked, 1);
}

/*
 * A connection is there. Not one that another program is called for: whether that still wants to be, when this one does
 * not any more, cannot be known. The daemon's sweeps find it.
 */
static void watch(struct bpf_sock_ops *ops)
{
    __u32 flags = ops->bpf_sock_ops_cb_flags;
    struct watched now = {.mark.ns = bpf_ktime_get_ns()};
    __u64 cookie = bpf_get_socket_cookie(ops);

    if (flags & WATCHED || !table_of_namespace(bpf_get_netns_cookie(ops)) ||
        bpf_map_update_elem(&watched, &cookie, &now, BPF_ANY) < 0)
        return;
    bpf_sock_ops_cb_flags_set(ops, (int)(flags | WATCHED));
}

/* As /proc names it; 0: no program has it open. */
static __u32 inode_of(const struct sock *sk)
{
    const struct socket_alloc *alloc = (const void *)BPF_CORE_READ(sk, sk_socket);

    return alloc ? (__u32)BPF_CORE_READ(alloc, vfs_inode.i_ino) : 0;
}

/* false: there is no room, or nobody has accepted it yet. */
static int tell(struct bpf_sock_ops *ops, const struct sock *sk, __u64 moved_bytes)
{
    __u32 inode = inode_of(sk);
    struct bulk_event *event = inode ? bpf_ringbuf_reserve(&events, sizeof *event, 0) : 0;

    if (!event)
        return 0;
    __builtin_memset(event, 0, sizeof *event);
    event->cookie = bpf_get_socket_cookie(ops);
    event->moved_bytes = moved_bytes;
    find_ends(sk, &event->local, &event->remote);
    event->inode = inode;
    event->user = BPF_CORE_READ(sk, sk_uid.val);
    event->snd_buf_bytes = BPF_CORE_READ(sk, sk_sndbuf);
    event->rcv_buf_bytes = BPF_CORE_READ(sk, sk_rcvbuf);
    bpf_ringbuf_submit(event, 0);
    return 1;
}

static int is_bulk(struct bpf_sock_ops *ops, struct watched *w)
{
    __u64 moved_bytes = ops->bytes_acked + ops->bytes_received;
    const struct sock *sk = socket_of(ops);

    return sk && (ops->state == TCP_ESTABLISHED || ops->state == TCP_CLOSE_WAIT) &&
           bulk_since(&w->mark, moved_bytes, bpf_ktime_get_ns()) && tell(ops, sk, moved_bytes);
}

/* It sends a packet, or is about to write. Once it is told of, the daemon looks at it. */
static void look(struct bpf_sock_ops *ops)
{
    __u32 flags = ops->bpf_sock_ops_cb_flags;
    __u64 cookie = bpf_get_socket_cookie(ops);
    struct watched *w;

    if (ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || (flags & WATCHED) != WATCHED ||
        !table_of_namespace(bpf_get_netns_cookie(ops)))
        return;
    w = bpf_map_lookup_elem(&watched, &cookie);
    if (w && !is_bulk(ops, w) && ++w->calls < CALLS_MOST)
        return;
    bpf_sock_ops_cb_flags_set(ops, (int)(flags & ~WATCHED));
    bpf_map_delete_elem(&watched, &cookie);
}

SEC("sockops")
int connection(struct bpf_sock_ops *ops)
{
    struct bpf_sock *socket = ops->sk;

    if (!socket)
        return 1;
    switch (ops->op) {
    case BPF_SOCK_OPS_TCP_CONNECT_CB:
        decide(ops, socket, 0);
        break;
    case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
    case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
        decide(ops, socket, ops->srtt_us >> 3);
        watch(ops);
        break;
    case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
        look(ops);
        break;
    }
    return 1;
}

/* The kernel lends what is read here to programs under the GPL only; the licence of this file allows that, too. */
char _license[] SEC("license") = "Dual MIT/GPL";
