#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches a file by SFTP with paramiko. usage: paramiko_get.py USER HOST PORT REMOTE LOCAL

A flow manages the socket. paramiko's channel has a window of its own, of 2 MB, which limits a long and fast path
just as a socket's buffer does: RightSize tells how large it has to be.
"""
from __future__ import annotations

import socket
import sys

import paramiko

import autobuf


class Window:
    """The receive window of a channel, which grows with what the path brings. It is never smaller than paramiko's."""

    def __init__(self, channel: paramiko.Channel, flow: autobuf.Flow) -> None:
        self.channel, self.flow = channel, flow
        self.seen, self.size = 0, channel.in_window_size
        self.rightsize = autobuf.RightSize(window_bytes=self.size)

    def progress(self, seen: int, total: int) -> None:
        """paramiko calls this after each block of the file, in the thread that reads the channel."""
        self.flow.step()  # does nothing before it is due
        live = self.flow.state().live
        self.rightsize.rtt(live.rtt_ns if live else None)
        size = max(self.size, self.rightsize.consumed(seen - self.seen))  # credit cannot be recalled
        with self.channel.lock:
            self.channel.in_window_sofar += size - self.size  # the peer is told with the next block
        self.seen, self.size = seen, size


def fetch(client: paramiko.SSHClient, flow: autobuf.Flow, remote: str, local: str) -> Window:
    with client.open_sftp() as sftp:
        sftp.open(remote).close()  # get() empties the local file before it opens the remote one
        window = Window(sftp.get_channel(), flow)
        sftp.get(remote, local, callback=window.progress)
    return window


def main(user: str, host: str, port: str, remote: str, local: str) -> None:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family) as sock, paramiko.SSHClient() as client:
        with autobuf.Flow(sock, address, intent=autobuf.Intent.RECEIVES) as flow:
            sock.connect(address)
            client.load_system_host_keys()  # and no others: a host that is not known is refused
            client.connect(host, int(port), user, sock=sock)
            window = fetch(client, flow, remote, local)
            state = flow.state()
        print(f"{window.seen} bytes; the channel's window is {window.size} bytes; {state.changes} changes")
        print(state.plan.explain(), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
