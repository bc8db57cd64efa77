# SPDX-License-Identifier: MIT
"""An SFTP server that takes 64 bytes a request, for test_openssh.py: strange_sftp.py COUNT_FILE SIZE, by sftp -D.

Any path is a file of SIZE zeros. It answers once nothing more is asked, and writes into COUNT_FILE how many
reads or writes were outstanding at most.
"""
import pathlib
import queue
import struct
import sys
import threading

SMALL = 64
QUIET_S = 0.02
"""It plays a round trip; whatever comes late is counted with the next one."""

INIT, VERSION, OPEN, CLOSE, READ, WRITE = 1, 2, 3, 4, 5, 6
LSTAT, FSTAT, FSETSTAT, REALPATH, STAT, EXTENDED = 7, 8, 10, 16, 17, 200
STATUS, HANDLE, DATA, NAME, ATTRS, EXTENDED_REPLY = 101, 102, 103, 104, 105, 201


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def status(code: int) -> tuple[int, bytes]:
    return STATUS, struct.pack(">I", code) + string(b"") + string(b"")


def answer(kind: int, body: bytes, size: int) -> tuple[int, bytes]:
    """Type and text of a reply; body begins behind the request's number."""
    attrs = struct.pack(">IQI", 5, size, 0o100644)
    if kind in (LSTAT, FSTAT, STAT):
        return ATTRS, attrs
    if kind == REALPATH:
        return NAME, struct.pack(">I", 1) + string(b"/x") + string(b"/x") + attrs
    if kind == OPEN:
        return HANDLE, string(b"h")
    if kind == READ:
        at, wanted = struct.unpack(">QI", body[5:17])
        return (DATA, string(bytes(min(wanted, SMALL, size - at)))) if at < size else status(1)
    if kind == EXTENDED:
        return EXTENDED_REPLY, struct.pack(">QQQQ", 1 << 18, SMALL, SMALL, 0)
    return status(0)


def requests(into: queue.Queue) -> None:
    stream = sys.stdin.buffer
    while head := stream.read(4):
        into.put(stream.read(struct.unpack(">I", head)[0]))
    into.put(b"")


def main() -> None:
    count, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    came: queue.Queue = queue.Queue()
    threading.Thread(target=requests, args=(came,), daemon=True).start()
    most = 0
    while True:
        batch = [came.get()]
        try:
            while batch[-1]:
                batch.append(came.get(timeout=QUIET_S))
        except queue.Empty:
            pass
        most = max(most, sum(packet[:1] in (bytes([READ]), bytes([WRITE])) for packet in batch))
        for packet in batch:
            if not packet:
                count.write_text(str(most))
                return
            if packet[0] == INIT:
                reply = bytes([VERSION]) + struct.pack(">I", 3) + string(b"limits@openssh.com") + string(b"1")
            else:
                kind, text = answer(packet[0], packet[5:], size)
                reply = bytes([kind]) + packet[1:5] + text
            sys.stdout.buffer.write(string(reply))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
