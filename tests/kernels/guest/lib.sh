# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For jobs. A path is three network namespaces, a - r - b, whose router delays and shapes with the kernel's own qdiscs.

begin() { echo "@@ $1"; }

# What a program has not sent when it ends would hold memory for minutes, and a daemon forces no buffer then.
end_path()
{
    for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_orphan_retries=1 2>/dev/null; done
    for ns in a r b; do ip netns del $ns 2>/dev/null; done
    ip link del a0 2>/dev/null # of a host
    for i in $(seq 600); do
        grep -q 'orphan [1-9]' /proc/net/sockstat || break
        usleep 100000
    done
}

# path THERE BACK: tc's words for the root qdisc of the router's link towards b, and towards a. With a_is_host set, a is the
# namespace in which the machine began.
path()
{
    end_path
    for ns in a r b; do
        if [ $ns = a ] && [ "${a_is_host-}" ]; then
            ip netns attach a 1
        else
            ip netns add $ns
        fi
        ip -n $ns link set lo up
        # Addresses are there at once: neighbours are asked for from the first packet on.
        on $ns sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
    done
    ip link add a0 netns a type veth peer name ra netns r
    ip link add b0 netns b type veth peer name rb netns r
    ip -n a addr add 10.0.1.1/24 dev a0
    ip -n r addr add 10.0.1.2/24 dev ra
    ip -n r addr add 10.0.2.2/24 dev rb
    ip -n b addr add 10.0.2.1/24 dev b0
    ip -n a addr add fd00:1::1/64 dev a0 nodad
    ip -n r addr add fd00:1::2/64 dev ra nodad
    ip -n r addr add fd00:2::2/64 dev rb nodad
    ip -n b addr add fd00:2::1/64 dev b0 nodad
    # Packets on the wire, as a network card without segmentation offload sends them.
    on a ethtool -K a0 tso off
    on b ethtool -K b0 tso off
    ip -n a link set a0 up
    ip -n b link set b0 up
    ip -n r link set ra up
    ip -n r link set rb up
    ip -n a route add default via 10.0.1.2
    ip -n b route add default via 10.0.2.2
    ip -n a route add default via fd00:1::2
    ip -n b route add default via fd00:2::2
    on r sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    for ns in a b; do on $ns sysctl -qw net.ipv4.ping_group_range="0 2147483647"; done
    for end in 'a a0' 'r ra' 'r rb' 'b b0'; do link_is_up $end; done
    tc -n r qdisc add dev rb root $1
    tc -n r qdisc add dev ra root $2
}

# link_is_up NAMESPACE DEVICE: waits for its carrier, of which a kernel takes note once a second. To look is what takes the host's
# time, not to wait.
link_is_up()
{
    for i in $(seq 60); do
        ip -n "$1" link show "$2" | grep -q 'state UP' && return
        usleep 50000
    done
    echo "$2 does not come up"
}

# on NAMESPACE [as_nobody] COMMAND...; as_nobody: without any capability
on()
{
    ns=$1
    shift
    if [ "$1" = as_nobody ]; then
        shift
        set -- setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"
    fi
    ip netns exec "$ns" "$@"
}

# listening NAMESPACE PORT: waits until a server listens there
listening()
{
    for i in $(seq 1000); do
        on "$1" ss -Hltn "sport = :$2" | grep -q . && return
        usleep 1000
    done
    echo "nobody listens on port $2"
}
