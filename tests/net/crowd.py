# SPDX-License-Identifier: MIT
"""Many hostile clients of `autobuf serve`, run inside a namespace.

    crowd.py ADDRESS PORT garbage N     N clients, 100 at a time; each sends bytes that are no line of the exchange
    crowd.py ADDRESS PORT hold N WHAT   N clients at once that say WHAT and read nothing; prints "held", and keeps
                                        the connections open until its standard input ends
    crowd.py ADDRESS PORT half 1 WHAT   a client with a small receive buffer that says WHAT, closes its side, and
                                        reads nothing; prints "dropped" when the server resets the connection
    crowd.py ADDRESS PORT read N WHAT   a client that says WHAT N times, each time after all earlier lines were
                                        answered, and reads until the server closes; prints how many lines came,
                                        and how many seconds that took
    crowd.py ADDRESS PORT take N WHAT   20 clients at once that say WHAT and read; prints how many seconds N bytes
                                        took for all of them
    crowd.py ADDRESS PORT ask N WHAT    N clients, each says WHAT and waits for an answer or a reset: prints + or -
                                        for each, and holds them as hold does

SEGMENT_BYTES in the environment is the segment size of each client.
"""
from __future__ import annotations

import os
import random
import resource
import select
import socket
import sys
import time

LINES = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"AUTOBUF " + b"x" * 2000,
    b"AUTOBUF SINK 99999999999999999999\r\n",
    b"AUTOBUF HELLO 1\r\nAUTOBUF SINK 480001\r\n",
    b"AUTOBUF HELLO 1\r\nAUTOBUF TRAIN 480000\r\n",
    b"AUTOBUF HELLO 1\r\nAUTOBUF SINK 480000\r\n half of it",
    b"AUTOBUF HELLO 1\r\n" * 50,
    b"AUTOBUF RESULT rate=1\r\n",
    b"A",
    b"",
)


def connect(address: str, port: int, receive_bytes: int = 0) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = socket.socket(family, socket.SOCK_STREAM)
    if "SEGMENT_BYTES" in os.environ:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(os.environ["SEGMENT_BYTES"]))
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(20)
    client.connect((address, port))
    return client


def say(client: socket.socket, what: bytes) -> None:
    try:
        client.sendall(what)
    except OSError:  # it has had enough of this client
        pass


def garbage(address: str, port: int, count: int) -> None:
    chance = random.Random(count)
    clients: list[socket.socket] = []
    for i in range(count):
        clients.append(connect(address, port))
        binary = bytes(chance.randrange(256) for _ in range(chance.randrange(300)))
        say(clients[-1], chance.choice((*LINES, binary)))
        if len(clients) == 100:
            clients.pop(chance.randrange(100)).close()
    for client in clients:
        client.close()


def hold(address: str, port: int, count: int, what: bytes) -> None:
    clients = []
    for _ in range(count):
        clients.append(connect(address, port))
        say(clients[-1], what)
    print("held", flush=True)
    sys.stdin.read()


def half(address: str, port: int, what: bytes) -> None:
    client = connect(address, port, 4096)
    say(client, what)
    client.shutdown(socket.SHUT_WR)
    poll = select.poll()
    poll.register(client, 0)  # POLLERR and POLLHUP are always told
    if poll.poll(20_000):
        print("dropped", flush=True)


def read(address: str, port: int, count: int, what: bytes) -> None:
    start = time.monotonic()
    client = connect(address, port)
    said = lines = 0
    try:
        while True:
            if said < count and lines == said * what.count(b"\n"):
                say(client, what)
                said += 1
            data = client.recv(65536)
            lines += data.count(b"\n")
            if not data:
                break
    except ConnectionResetError:
        pass
    print(lines, time.monotonic() - start, flush=True)


def take(address: str, port: int, count: int, what: bytes) -> None:
    start = time.monotonic()
    clients = [connect(address, port) for _ in range(20)]
    for client in clients:
        say(client, what)
    got = 0
    while got < count:
        ready = select.select(clients, [], [], 20)[0]
        for client in ready:
            data = client.recv(65536)
            got += len(data)
            if not data:
                clients.remove(client)
        if not ready:
            break
    print(time.monotonic() - start if got >= count else "too few", flush=True)


def ask(address: str, port: int, count: int, what: bytes) -> None:
    clients = []
    verdicts = ""
    for _ in range(count):
        try:
            clients.append(connect(address, port))
            say(clients[-1], what)
            verdicts += "+" if clients[-1].recv(1000) else "-"
        except ConnectionResetError:
            verdicts += "-"
    print(verdicts, flush=True)
    sys.stdin.read()


def main() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    address, port, how, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    what = os.fsencode("".join(sys.argv[5:])).replace(b"\\r\\n", b"\r\n")
    if how == "garbage":
        garbage(address, port, count)
    elif how == "half":
        half(address, port, what)
    elif how == "read":
        read(address, port, count, what)
    elif how == "take":
        take(address, port, count, what)
    elif how == "ask":
        ask(address, port, count, what)
    else:
        hold(address, port, count, what)


if __name__ == "__main__":
    main()
