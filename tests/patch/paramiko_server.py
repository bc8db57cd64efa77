# SPDX-License-Identifier: MIT
"""A server by paramiko, for test_clients.py: paramiko_server.py PORT HOST_KEY. Runs with Debian's python3-paramiko.

Whoever comes may do everything: files by SFTP, relative to this folder, and commands.
"""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import paramiko


class File(paramiko.SFTPHandle):
    def __init__(self, name: str, flags: int) -> None:
        super().__init__(flags)
        self.fd = os.open(name, flags, 0o644)

    def close(self) -> None:
        os.close(self.fd)

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self.fd, length, offset)

    def write(self, offset: int, data: bytes) -> int:
        os.pwrite(self.fd, data, offset)
        return paramiko.SFTP_OK

    def stat(self) -> paramiko.SFTPAttributes:
        return paramiko.SFTPAttributes.from_stat(os.fstat(self.fd))

    def chattr(self, attr: paramiko.SFTPAttributes) -> int:
        return paramiko.SFTP_OK


class Files(paramiko.SFTPServerInterface):
    def canonicalize(self, path: str) -> str:
        return os.path.abspath(path)

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(path))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    lstat = stat

    def chattr(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        return paramiko.SFTP_OK

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> File | int:
        try:
            return File(path, flags)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)


class Open(paramiko.ServerInterface):
    def get_allowed_auths(self, username: str) -> str:
        return "none,publickey"

    def check_auth_none(self, username: str) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=run, args=(channel, command), daemon=True).start()
        return True


def run(channel: paramiko.Channel, command: bytes) -> None:
    """The command of a session, between its pipes."""
    child = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    threading.Thread(target=feed, args=(channel, child), daemon=True).start()
    while data := child.stdout.read1(1 << 16):
        channel.sendall(data)
    channel.send_exit_status(child.wait())
    channel.close()


def feed(channel: paramiko.Channel, child: subprocess.Popen) -> None:
    while data := channel.recv(1 << 16):
        child.stdin.write(data)
    child.stdin.close()


def main(port: str, host_key: str) -> None:
    with socket.create_server(("0.0.0.0", int(port))) as listener:
        while True:
            connection, _ = listener.accept()
            transport = paramiko.Transport(connection)
            transport.add_server_key(paramiko.Ed25519Key.from_private_key_file(host_key))
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files)
            transport.start_server(threading.Event(), Open())


if __name__ == "__main__":
    main(*sys.argv[1:])
