# SPDX-License-Identifier: MIT
"""FTP: ncFTP stock, with the best fixed buffer, and patched; curl; lftp; against three servers.

Times are of the whole program, from its start to its end, with login and measuring. Each run has a path and
a server of its own, the variants run in turn, and medians are compared. Linux 6.18's limits, and no program may
set buffers larger than net.core.[rw]mem_max.
"""
from __future__ import annotations

import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "patch"))

import ncftp  # noqa: E402
import path  # noqa: E402
import report  # noqa: E402
from transfer import LIMITS  # noqa: E402

LIMITED = LIMITS["6.18"]
MB = 1_000_000
SIZES = ("1000000", "4000000", "16000000")
"""Of the sweep for the best fixed buffer."""
PATHS = (
    # name, emulator parameters, bytes, and of stock's, which is too slow for as many
    ("400 Mbit/s x 100 ms", "rate=400M,delay=50ms,queue=10M", 400 * MB, 20 * MB),
    ("1000 Mbit/s x 0.5 ms", "rate=1000M,delay=0.25ms,queue=1M", 200 * MB, 200 * MB),
    ("10 Mbit/s x 20 ms", "rate=10M,delay=10ms,queue=100K", 5 * MB, 5 * MB),
)
SHORT_PATHS = ((PATHS[0][0], PATHS[0][1], 100), (PATHS[2][0], PATHS[2][1], 20))
SHORT_SIZES = (100_000, MB, 5 * MB, 20 * MB, 100 * MB)
PAGE_PATH = "rate=3.5M,delay=70ms,queue=200K"
PAGE_KB = (8, 16, 32, 48, 64, 128, 256)
PAGE_BYTES = 20 * MB
REPORTED = {8: 583, 16: 224, 32: 55, 48: 17, 64: 0}
"""Enhancement in percent, as the Autobuf page tells it."""
PATIENCE_S = 400


def command(client: ncftp.Client, variant: str, put: bool) -> list[str]:
    """One transfer of the file f, by ncFTP ("stock", "stock SIZE", "patched"), curl or lftp."""
    server, place = client.server, client.server.place
    host, (user, password) = client.path.addr[server.side], server.login
    here = str(place.here / "f")
    url = f"ftp://{user}:{password.replace('@', '%40')}@{host}/pub/f"
    if variant == "curl":
        return [*ncftp.drop(False), "curl", "-s", *(["-T", here] if put else ["-o", here]), url]
    if variant == "lftp":
        what = f"put {here} -o pub/f" if put else f"get pub/f -o {here}"
        return [*ncftp.drop(False), "lftp", "-u", f"{user},{password}", host, "-e",
                f"set ftp:ssl-allow no; {what}; quit"]
    options = ["-B", variant.split()[1]] if " " in variant else []
    if put:
        return client.argv("ncftpput", "-v", *options, host, "/pub", here)
    return client.argv("ncftpget", "-v", *options, host, str(place.here), "pub/f")


def transfer(both: str, kind: str, variant: str, put: bool, size: int, cc: str = "cubic") -> tuple[float, str]:
    """Seconds, and what it printed."""
    with path.Path(both=both) as p, ncftp.Place() as place:
        LIMITED.of_ends(p)
        for side in "ab":
            p.route(side, congctl=cc)
        file = place.make("f", size)
        if put:
            file.replace(place.here / "f")
        with ncftp.Server(p, "b", kind, place) as server:
            client = ncftp.Client(p, "a", server, stock=variant.startswith("stock"), force=False)
            argv = command(client, variant, put)
            begin = time.monotonic()
            done = p.run("a", argv, timeout=PATIENCE_S, env=client.env)
            elapsed = time.monotonic() - begin
        arrived = (place.there if put else place.here) / "f"
        if done.returncode or arrived.stat().st_size != size:
            raise RuntimeError(f"{kind}, {variant}: {done.stdout}{done.stderr}")
    return elapsed, done.stdout + done.stderr


def rates(both: str, kind: str, variants: dict[str, int], put: bool, runs: int) -> dict[str, float]:
    """Median Mbit/s of each variant, which transfers so many bytes; they take turns."""
    found: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(runs):
        for name, size in variants.items():
            found[name].append(8 * size / transfer(both, kind, name, put, size)[0] / 1e6)
    return {name: statistics.median(values) for name, values in found.items()}


def best_size(both: str, kind: str, put: bool, size: int) -> str:
    """The fixed buffer that is fastest, of one run each."""
    found = rates(both, kind, {f"stock {n}": size for n in SIZES}, put, 1)
    return max(found, key=lambda name: found[name])


def speed(runs: int) -> str:
    head = ["path", "server", "", "stock", "best -B", "curl", "lftp", "patched", "/ stock", "/ best -B", "/ curl"]
    body = []
    for name, both, size, stock_size in PATHS:
        slow = stock_size < size
        for kind in ("module", "proftpd", "inetutils") if slow else ("module", "proftpd"):
            for put in (False, True):
                variants = {"stock": stock_size, "curl": size, "patched": size}
                by_hand = best_size(both, kind, put, size) if kind == "module" and slow else ""
                if by_hand:
                    variants |= {"lftp": size, by_hand: size}
                found = rates(both, kind, variants, put, runs)
                best = found.get(by_hand)
                body.append([name, {"module": "ProFTPD, module", "proftpd": "ProFTPD"}.get(kind, kind),
                             "put" if put else "get", f"{found['stock']:.1f}", f"{best:.1f}" if best else "",
                             f"{found['curl']:.1f}", f"{found['lftp']:.1f}" if "lftp" in found else "",
                             f"{found['patched']:.1f}", f"{found['patched'] / found['stock']:.2f}",
                             f"{found['patched'] / best:.2f}" if best else "",
                             f"{found['patched'] / found['curl']:.2f}"])
                print(" | ".join(body[-1]), flush=True)
    return report.table(head, body)


def short(runs: int) -> str:
    """The first transfer of a session: how much longer than stock's, in round trips."""
    head = ["path", "bytes", "", "stock, s", "patched, s", "longer by, round trips"]
    body = []
    for name, both, rtt_ms in SHORT_PATHS:
        for size in SHORT_SIZES:
            if size == 100 * MB and rtt_ms < 100:
                continue  # 80 s, and the same as of 20 MB
            for put in (False, True) if size < 100 * MB else (False, ):
                times: dict[str, list[float]] = {"stock": [], "patched": []}
                for _ in range(runs if size <= 5 * MB else 1):
                    for variant, values in times.items():
                        values.append(transfer(both, "module", variant, put, size)[0])
                stock, patched = (statistics.median(times[v]) for v in ("stock", "patched"))
                body.append([name, f"{size:,}", "put" if put else "get", f"{stock:.2f}", f"{patched:.2f}",
                             f"{(patched - stock) * 1000 / rtt_ms:+.1f}"])
                print(" | ".join(body[-1]), flush=True)
    return report.table(head, body)


def own_rate(text: str) -> float:
    """KB/s as NcFTP tells it, of the data alone."""
    value, unit = re.findall(r"([\d.]+) ([kM])B/s", text)[-1]
    return float(value) * (1048.576 if unit == "M" else 1.024)


def page(runs: int) -> str:
    """The table of the Autobuf page: a fixed buffer against one chosen, by NcFTP's own figure."""
    head = ["default socket buffer", "stock, KB/s", "patched, KB/s", "enhanced", "the page"]
    body = []
    for kb in PAGE_KB:
        found: dict[str, list[float]] = {f"stock {kb * 1024}": [], "patched": []}
        for _ in range(runs if kb > 48 else 1):
            for variant, values in found.items():
                values.append(own_rate(transfer(PAGE_PATH, "proftpd", variant, False, PAGE_BYTES)[1]))
        stock, patched = (statistics.median(values) for values in found.values())
        body.append([f"{kb} KB", f"{stock:.0f}", f"{patched:.0f}", f"{100 * (patched / stock - 1):.0f}%",
                     f"{REPORTED[kb]}%" if kb in REPORTED else ""])
        print(" | ".join(body[-1]), flush=True)
    return report.table(head, body)


def run(quick: bool, out: pathlib.Path) -> None:
    runs = 1 if quick else 3
    with LIMITED.of_machine():
        text = (f"{report.machine()}, cubic, Linux 6.18's limits\n\n## Rates, Mbit/s\n\n{speed(runs)}\n"
                f"## Short transfers\n\n{short(runs)}\n## The Autobuf page\n\n{page(runs)}")
    (out / "ftp.md").write_text(text)
    print(text)
