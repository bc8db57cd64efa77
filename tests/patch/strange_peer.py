# SPDX-License-Identifier: MIT
"""SSH peers that do not behave, for test_openssh.py: strange_peer.py SCENE HOST USER KEY [NAME], or serve KEY.

NAME is the identification that it sends. Tells on standard output what came, a line each. Runs with Debian's python3-paramiko.
"""
import hashlib
import os
import signal
import socket
import sys
import threading

import paramiko
from paramiko.channel import Channel

HUGE = 2 ** 32 - 1
REQUEST = "autobuf@libautobuf.invalid"


def say(*words: object) -> None:
    print(*words, flush=True)


def connect(host: str, user: str, key: str, name: str = "SSH-2.0-OpenSSH_9.9") -> paramiko.Transport:
    transport = paramiko.Transport(socket.create_connection((host, 22)))
    transport.local_version = name
    transport.connect(username=user, pkey=paramiko.Ed25519Key.from_private_key_file(key))
    return transport


def run(transport: paramiko.Transport, command: str, window: int) -> Channel:
    channel = transport.open_session(window_size=window)
    channel.exec_command(command)
    return channel


def alive(transport: paramiko.Transport) -> None:
    say("alive", run(transport, "echo yes", 1 << 21).makefile().read().strip().decode())


def read(channel: Channel, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def huge(transport: paramiko.Transport) -> None:
    """A window that no memory holds, and then nothing is read any more."""
    run(transport, "cat /dev/zero", HUGE).recv(1)
    say("stopped")
    os.kill(os.getpid(), signal.SIGSTOP)


def never(transport: paramiko.Transport) -> None:
    """One window is all that it ever gives."""
    Channel._check_add_window = lambda self, n: 0
    channel = run(transport, "head -c 50000000 /dev/zero", 1 << 21)
    say("got", len(read(channel, 1 << 21)))
    alive(transport)


def bytewise(transport: paramiko.Transport) -> None:
    """A byte of credit at a time."""
    channel = run(transport, "cat numbers", 1 << 15)
    data = read(channel, 1 << 15)
    Channel._check_add_window = lambda self, n: 1
    data += read(channel, 500)
    say("got", len(data), hashlib.sha256(data).hexdigest())
    alive(transport)


def announces(transport: paramiko.Transport) -> None:
    """Says again and again, with and without data and reply, that it is a patched one."""
    for i in range(300):
        transport.global_request(REQUEST, ("x" * i,) if i % 2 else None, wait=i % 3 == 0)
    alive(transport)


def sends(transport: paramiko.Transport) -> None:
    """As much as it may, for some round trips."""
    channel = run(transport, "cat >/dev/null", 1 << 21)
    for _ in range(48):
        channel.sendall(bytes(1 << 20))
    channel.shutdown_write()
    channel.recv_exit_status()
    alive(transport)


class Server(paramiko.ServerInterface):
    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Channel, command: bytes) -> bool:
        threading.Thread(target=self.stop, args=(channel,), daemon=True).start()
        return True

    def stop(self, channel: Channel) -> None:
        channel.recv(1)
        say("stopped")
        os.kill(os.getpid(), signal.SIGSTOP)


def serve(key: str) -> None:
    """A server with a window that no memory holds; it reads a byte, and then nothing any more."""
    with socket.create_server(("0.0.0.0", 2200)) as listener:
        say("listening")
        connection, _ = listener.accept()
    transport = paramiko.Transport(connection, default_window_size=HUGE)
    transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(key))
    transport.start_server(server=Server())
    transport.join()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        peer = connect(*sys.argv[2:6])
        {"huge": huge, "never": never, "bytewise": bytewise, "announces": announces, "sends": sends}[sys.argv[1]](peer)
        peer.close()
