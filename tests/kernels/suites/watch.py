# SPDX-License-Identifier: MIT
"""autobuf watch --tune, on a program that knows nothing of it."""
from __future__ import annotations

from collections.abc import Iterator

from case import PORT, Case, objects, plain_path
from packages import Kernel

WMEM = "4096 16384 1000000"


def cases(_: Kernel, quick: bool) -> Iterator[Case]:
    def check(said: str) -> None:
        told = objects(said)
        changes = [line for line in told if "change" in line]
        most = max(line.get("snd_buf_bytes", 0) for line in told)
        if not changes or most <= 1000000:
            raise AssertionError(f"{len(changes)} changes, at most {most} bytes")

    if quick:
        return
    yield Case("a sender that tcp_wmem holds back", plain_path(400, 100) + f"""
for ns in a b; do on $ns sysctl -qw net.ipv4.tcp_congestion_control=cubic; done
on a sysctl -qw net.ipv4.tcp_wmem="{WMEM}"
on b bulk recv --port {PORT} >/dev/null 2>&1 &
recv=$!
listening b {PORT}
on a bulk send --seconds 4 --tune none --port {PORT} 10.0.2.1 >/dev/null &
send=$!
until ss_pid=$(on a ss -Htnp state established "dport = :{PORT}" | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p') &&
    [ -n "$ss_pid" ]; do usleep 1000; done
on a autobuf watch --json --tune "$ss_pid"
wait $send
kill $recv
wait
""", check)
