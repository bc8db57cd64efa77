#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records packet arrivals on an emulated path, for tests/unit/estimate/test_estimate.c. Root, by hand.

    AUTOBUF_BUILD=build tests/traces/record.py [NAME...]

Writes NAME.txt beside this script, for all names without any. A file begins with lines of "# key value":
the path, the rate that is to be found, and of a paced sender its pace. Then a line a packet, in the order of
sending: train (0: a small echo), time sent, time received by the kernel's stamp (-: never), IP bytes, and
whether several packets arrived as one. Times are nanoseconds since the first was sent. The sender is
Python, slower than the library: 10 to 30 us a packet.
"""
from __future__ import annotations

import os
import pathlib
import socket
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_MAX_PACING_RATE, TCP_CONGESTION = 35, 33, 47, 13
SEGMENT, SAME_STAMP_NS = 1448, 300

# Name: (kind, path, rate in Mbit/s, sizes of trains, pace in Mbit/s)
TRACES = {
    "clean-100": ("icmp", "rate=100M,delay=5ms,queue=1M", 100, (10, 32), 0),
    "clean-10": ("icmp", "rate=10M,delay=10ms,queue=1M", 10, (10, 32), 0),
    "clean-400": ("icmp", "rate=400M,delay=5ms,queue=4M", 400, (10, 32, 84, 84, 84), 0),
    "cross-50": ("icmp", "rate=50M,delay=5ms,queue=1M,cross=0.5", 50, (10, 32, 84), 0),
    "cross-100": ("icmp", "rate=100M,delay=5ms,queue=1M,cross=0.6", 100, (10, 32, 84, 84, 84), 0),
    "jitter-100": ("icmp", "rate=100M,delay=10ms,queue=4M,jitter=2ms", 100, (10, 32, 256), 0),
    "jitter-20": ("icmp", "rate=20M,delay=10ms,queue=4M,jitter=2ms", 20, (10, 32), 0),
    "loss-100": ("icmp", "rate=100M,delay=5ms,queue=1M,loss=0.05", 100, (10, 32, 84), 0),
    "short-queue-50": ("icmp", "rate=50M,delay=5ms,queue=30K", 50, (10, 60, 60), 0),
    "stream-100": ("tcp", "rate=100M,delay=5ms,queue=1M", 100, (10, 20, 40), 0),
    "stream-paced-50": ("tcp", "rate=50M,delay=5ms,queue=1M", 50, (10, 20, 40), 25),
    "stream-paced-over": ("tcp", "rate=10M,delay=5ms,queue=1M", 10, (10, 20, 40), 100),
}


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def stamp_of(ancillary: list) -> int:
    seconds, ns = struct.unpack("qq", ancillary[0][2][:16])
    return seconds * 10**9 + ns


def echo(ident: int, sequence: int, ip_bytes: int) -> bytes:
    payload = bytes(ip_bytes - 28)
    head = struct.pack("!BBHHH", 8, 0, 0, ident, sequence)
    return struct.pack("!BBHHH", 8, 0, checksum(head + payload), ident, sequence) + payload


def record_icmp(address: str, sizes: list[int]) -> list[list]:
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16_000_000)
    s.connect((address, 0))
    ident, packets = os.getpid() & 0xffff, []
    for train, size in enumerate([5, *sizes]):
        ip_bytes = 1500 if train else 64
        ready = [echo(ident, len(packets) + i, ip_bytes) for i in range(size)]
        for message in ready:
            packets.append([train, time.time_ns(), "-", ip_bytes, 0])
            s.send(message)
            if not train:
                time.sleep(0.002)
        s.settimeout(0.3)
        try:
            while True:
                data, ancillary, _, _ = s.recvmsg(2048, 256)
                kind, _, _, their_ident, sequence = struct.unpack("!BBHHH", data[20:28])
                if kind == 0 and their_ident == ident:
                    packets[sequence][2] = stamp_of(ancillary)
        except TimeoutError:
            pass
    return packets


def serve_stream() -> None:
    """Reads trains, and prints what came when; each ends with a pause."""
    listener = socket.create_server(("", 7000))
    listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    print("ready", flush=True)
    s, _ = listener.accept()
    for train in map(int, sys.argv[3].split(",")):
        time.sleep(0.1)
        left = train * SEGMENT
        while left:
            data, ancillary, _, _ = s.recvmsg(min(SEGMENT, left), 256)
            left -= len(data)
            print(train, stamp_of(ancillary), len(data))
        s.send(b"x")


def send_stream(address: str, sizes: list[int], pace: int) -> None:
    s = socket.create_connection((address, 7000))
    s.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"reno")
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if pace:
        s.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, pace * 125_000)
    for size in sizes:
        s.send(bytes(size * SEGMENT))
        s.recv(1)


def packets_of_stream(text: str) -> list[list]:
    """Arrivals of one stamp are one, as lib/inband/arrivals.c has them; nothing is known of their sending."""
    packets: list[list] = []
    trains: dict[str, int] = {}
    for line in text.splitlines():
        train, stamp, got = line.split()
        number, stamp_ns = trains.setdefault(train, len(trains) + 1), int(stamp)
        if packets and packets[-1][0] == number and stamp_ns - packets[-1][2] < SAME_STAMP_NS:
            packets[-1][3] += int(got) * 1500 // SEGMENT
            packets[-1][4] = 1
        else:
            packets.append([number, 0, stamp_ns, int(got) * 1500 // SEGMENT, 0])
    return packets


def write(name: str, packets: list[list]) -> None:
    kind, path, mbit, sizes, pace = TRACES[name]
    begin = packets[0][1] or packets[0][2]
    lines = [f"# made tests/traces/record.py {name}", f"# path {path}", f"# method {kind}",
             f"# rate_bit_per_s {mbit * 1_000_000}", f"# pace_bit_per_s {pace * 1_000_000}"]
    for train, sent, received, ip_bytes, merged in packets:
        received = received if received == "-" else received - begin
        lines.append(f"{train} {max(sent - begin, 0)} {received} {ip_bytes} {merged}")
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(packets)} packets")


def main() -> None:
    sys.path.insert(0, str(HERE.parent / "net"))
    from path import Path, machine_lock, wait_line
    me = [sys.executable, str(HERE / "record.py")]
    with machine_lock():
        for name in sys.argv[1:] or TRACES:
            kind, both, _, sizes, pace = TRACES[name]
            wanted = ",".join(map(str, sizes))
            with Path(both=both) as path:
                if kind == "icmp":
                    done = path.run("a", [*me, "--icmp", path.addr["b"], wanted])
                    packets = [[int(x) if x != "-" else x for x in line.split()]
                               for line in done.stdout.splitlines()]
                else:
                    server = path.popen("b", [*me, "--serve", "-", wanted])
                    wait_line(server, lambda line: "ready" in line)
                    path.run("a", [*me, "--send", path.addr["b"], wanted, str(pace)])
                    packets = packets_of_stream(server.communicate()[0])
            write(name, packets)


if __name__ == "__main__":
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role == "--icmp":
        for packet in record_icmp(sys.argv[2], [int(x) for x in sys.argv[3].split(",")]):
            print(*packet)
    elif role == "--serve":
        serve_stream()
    elif role == "--send":
        send_stream(sys.argv[2], [int(x) for x in sys.argv[3].split(",")], int(sys.argv[4]))
    else:
        main()
