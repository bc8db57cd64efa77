/* SPDX-License-Identifier: MIT */
/*
 * The kernel's part of autobufd, for sock_ops: it runs in tcp_connect_init(), after the kernel has cut the window clamp
 * of a connection down to a receive buffer that its program has locked, and before the window scale of the SYN is
 * chosen by that clamp. It takes the cut back, so the scale becomes that of a socket whose buffer is not locked. The
 * buffer and its lock stay, and once the connection stands the kernel brings the clamp down to the buffer by itself.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "before_syn_table.h"

#define AF_INET6 10
#define SOL_TCP 6
#define TCP_WINDOW_CLAMP 10
#define SOCK_RCVBUF_LOCK 2
#define WINDOW_MOST (65535 << 14) /* RFC 7323 */
#define SCALING_BITS 8            /* TCP_RMEM_TO_WIN_SCALE */

/* What is read of the kernel's own, wherever a kernel has it. */
#define KERNEL __attribute__((preserve_access_index))

typedef struct {
    __u32 val;
} KERNEL kuid_t;

struct netns_ipv4 {
    int sysctl_tcp_adv_win_scale;
} KERNEL;

struct net {
    struct netns_ipv4 ipv4;
} KERNEL;

typedef struct {
    struct net *net;
} KERNEL possible_net_t;

struct sock_common {
    possible_net_t skc_net;
} KERNEL;

struct sock {
    struct sock_common __sk_common;
    int sk_rcvbuf;
    __u8 sk_userlocks : 4;
    kuid_t sk_uid;
} KERNEL;

struct tcp_sock {
    __u32 window_clamp;
    __u8 scaling_ratio; /* since Linux 6.6 */
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
    __type(value, struct before_syn_table);
} table SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, BEFORE_SYN_RULES);
    __type(key, __u32);
    __type(value, struct before_syn_rule);
} rules SEC(".maps");

struct search {
    struct before_syn_subject subject;
    __u32 count;
    __u32 acts;
};

/* tcp_full_space() */
static __u32 full_space(const struct sock *sk, const struct tcp_sock *tp)
{
    int scale;

    if (bpf_core_field_exists(tp->scaling_ratio))
        return (__u32)((__u64)sk->sk_rcvbuf * tp->scaling_ratio >> SCALING_BITS);
    scale = BPF_CORE_READ(sk, __sk_common.skc_net.net, ipv4.sysctl_tcp_adv_win_scale);
    return (__u32)(scale <= 0 ? sk->sk_rcvbuf >> (-scale & 31) : sk->sk_rcvbuf - (sk->sk_rcvbuf >> (scale & 31)));
}

/* volatile: each field is read at its own place, as the verifier wants it. Also of IPv4 in IPv6. */
static void find_ends(const volatile struct bpf_sock_ops *ops, struct before_syn_subject *s)
{
    s->local.port = ops->local_port;
    s->remote.port = bpf_ntohl(ops->remote_port);
    s->local.version = s->remote.version = 4;
    if (ops->family == AF_INET6) {
        s->local.version = s->remote.version = 6;
        for (int i = 0; i < 4; i++) {
            s->local.address[i] = ops->local_ip6[i];
            s->remote.address[i] = ops->remote_ip6[i];
        }
    }
    if (s->remote.version == 6 &&
        (s->remote.address[0] || s->remote.address[1] || s->remote.address[2] != bpf_htonl(0xffff)))
        return;
    *s = (struct before_syn_subject){.local = {.version = 4, .port = s->local.port},
                                     .remote = {.version = 4, .port = s->remote.port}};
    s->local.address[0] = ops->local_ip4;
    s->remote.address[0] = ops->remote_ip4;
}

/* The process that connects: as /proc says it. */
static void find_process(struct before_syn_subject *s)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();

    BPF_CORE_READ_STR_INTO(&s->program, task, group_leader, comm);
    bpf_probe_read_kernel_str(s->unit, sizeof s->unit, BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, name));
}

/* Ends with the first rule that matches. */
static long try(void *map, const __u32 *at, const struct before_syn_rule *rule, struct search *search)
{
    (void)map;
    if (*at >= search->count)
        return 1;
    if (!before_syn_matches(rule, &search->subject))
        return 0;
    search->acts = rule->acts;
    return 1;
}

static int is_wanted(struct bpf_sock_ops *ops, const struct sock *sk, const volatile struct before_syn_table *t)
{
    __u32 generation = t->generation;
    struct search search = {.count = t->count};

    find_ends(ops, &search.subject);
    if (before_syn_is_among((const struct before_syn_ports *)&t->stop_ports, search.subject.local.port) ||
        before_syn_is_among((const struct before_syn_ports *)&t->stop_ports, search.subject.remote.port))
        return 0;
    find_process(&search.subject);
    search.subject.user = sk->sk_uid.val;
    bpf_for_each_map_elem(&rules, try, &search, 0);
    return search.acts && !(generation & 1) && generation == t->generation;
}

SEC("sockops")
int before_syn(struct bpf_sock_ops *ops)
{
    struct bpf_sock *socket = ops->op == BPF_SOCK_OPS_RWND_INIT ? ops->sk : 0; /* 0 also for one that accepts */
    const struct tcp_sock *tp;
    const struct sock *sk;
    struct before_syn_table *t;
    __u32 key = 0;
    int most = WINDOW_MOST;

    if (!socket)
        return 1;
    tp = bpf_skc_to_tcp_sock(socket);
    t = bpf_map_lookup_elem(&table, &key);
    if (!tp || !t || bpf_get_netns_cookie(ops) != t->namespace_cookie)
        return 1;
    sk = (const struct sock *)tp;
    if (!(BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & SOCK_RCVBUF_LOCK) || tp->window_clamp != full_space(sk, tp))
        return 1; /* not locked, or the program or the route asks for another window */
    if (is_wanted(ops, sk, t) && bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &most, sizeof most) == 0)
        __sync_fetch_and_add(&t->raised, 1);
    return 1;
}

/* The kernel lends what is read here to programs under the GPL only; the licence of this file allows that, too. */
char _license[] SEC("license") = "Dual MIT/GPL";
