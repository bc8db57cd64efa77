# SPDX-License-Identifier: MIT
"""A kernel in a machine whose clock is virtual: QEMU's software CPU, one instruction a nanosecond, idle time skipped.

Nothing that the host does shows in it, so one run is enough. The machine has no disk and no network card: all its
files are in the initramfs, all its paths in network namespaces.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import zlib
from collections.abc import Iterable, Iterator

from packages import HERE, Kernel

QEMU = "qemu-system-x86_64"
BUSYBOX = pathlib.Path("/bin/busybox")
PROGRAMS = ("dash", "ip", "tc", "ss", "setpriv", "nsenter", "unshare", "ethtool")
OWN = ("tools/autobuf", "examples/bulk")
CPU = "Westmere,+rdrand"
"""With instructions for AES, without which TLS takes all of a machine's time, and for random numbers, without which it has none in
its first seconds."""
KERNEL_OPTIONS = "console=ttyS0 rdinit=/init panic=-1 quiet loglevel=4 random.trust_cpu=on tsc=reliable mitigations=off"
"""No mitigations: a software CPU has not the flaws that they guard against, and to change page tables at each system call would take
up to two fifths of the host's time."""
MEMORY_MB = 5120
"""With less the kernel would allow TCP less than its usual limits. It is taken from the host only as it is used."""
PATIENCE_S = 1200
"""For a whole job, of the host's processors: a guest that hangs takes all of one, and is ended then."""
BUSY = 4
"""So many times that, of the host's clock: others may keep its processors busy, or it may sleep."""


class Failed(Exception):
    """A machine that could not be started or did not come to its end; says why."""


def missing() -> str:
    """What this host lacks, in words; "" if nothing."""
    lacking = [name for name in (QEMU, "cpio", "depmod", "xz", *PROGRAMS) if not shutil.which(name)]
    if not BUSYBOX.is_file():
        lacking.append(str(BUSYBOX))
    return f"no {', '.join(lacking)}" if lacking else ""


def libraries(program: pathlib.Path) -> set[pathlib.Path]:
    """Shared libraries that a program of this host needs, its loader included."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return {pathlib.Path(name) for name in re.findall(r"(/\S+) \(0x", said)}


def put(tree: pathlib.Path, source: pathlib.Path, target: str) -> None:
    place = tree / target.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, place)


def archive(tree: pathlib.Path, target: pathlib.Path) -> None:
    """A folder as an initramfs; several may be concatenated."""
    names = subprocess.run(["find", ".", "-mindepth", "1", "-print0"], cwd=tree, check=True, capture_output=True).stdout
    with target.open("wb") as out:
        subprocess.run(["cpio", "--quiet", "-0", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, input=names, stdout=out,
                       check=True)


def base(build: pathlib.Path, tree: pathlib.Path, more: Iterable[str]) -> None:
    """Programs of this host and of the build, with what they need, and init."""
    for name in ("bin", "sbin", "usr/bin", "usr/sbin", "proc", "sys", "dev", "run", "tmp", "job", "etc"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    put(tree, BUSYBOX, "/bin/busybox")
    put(tree, HERE / "guest" / "init", "/init")
    put(tree, HERE / "guest" / "lib.sh", "/lib.sh")
    (tree / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (tree / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    needed: set[pathlib.Path] = set()
    for name in PROGRAMS:
        found = pathlib.Path(shutil.which(name) or name)
        put(tree, found, f"/usr/bin/{name}")
        needed |= libraries(found)
    for program in (build / name for name in sorted({*OWN, *more})):
        if not program.is_file():
            raise Failed(f"no {program.name} in the build folder")
        put(tree, program, f"/usr/bin/{program.name}")
        needed |= libraries(program)
    for folder in ("/usr/lib/tc", f"/usr/lib/{os.uname().machine}-linux-gnu/tc"):  # where tc looks for them
        for table in pathlib.Path(folder).glob("*.dist"):
            put(tree, table, str(table))
    for library in needed:
        real = library.resolve()
        put(tree, real, f"/usr/lib/autobuf/{library.name}" if build in real.parents else str(library))


def job(text: str, tree: pathlib.Path) -> None:
    (tree / "job").mkdir(parents=True)
    (tree / "job" / "run").write_text(text)


@contextlib.contextmanager
def folder_for_a_job(place: pathlib.Path) -> Iterator[pathlib.Path]:
    """Goes at the end; one that was left behind by a killed process goes at the next beginning."""
    for old in place.glob("job-*"):
        if not pathlib.Path(f"/proc/{old.name.removeprefix('job-')}").exists():
            shutil.rmtree(old, ignore_errors=True)
    work = place / f"job-{os.getpid()}"
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def boot(kernel: Kernel, build: pathlib.Path, text: str, log: pathlib.Path, programs: Iterable[str] = (),
         archives: Iterable[pathlib.Path] = (), patience_s: float = PATIENCE_S) -> str:
    """Runs a shell script in a machine with this kernel; what it printed. The kernel's messages go to log.

    programs: of the build folder, for /usr/bin; archives: further parts of its initramfs; patience_s: how much time of
    this host's processors it may take.
    """
    with folder_for_a_job(build / "kernels") as work:
        base(build, work / "base", programs)
        job(text, work / "job")
        archive(work / "base", work / "base.cpio")
        archive(work / "job", work / "job.cpio")
        modules = work.parent / f"modules-{kernel.version}-{zlib.crc32(' '.join(MODULES).encode()):08x}.cpio"
        if not modules.is_file():
            wanted_modules(kernel, work / "modules")
            archive(work / "modules", work / "modules.cpio")
            os.replace(shutil.copy(work / "modules.cpio", f"{modules}.{os.getpid()}"), modules)
        with (work / "initrd").open("wb") as out:
            for part in (work / "base.cpio", modules, *archives, work / "job.cpio"):
                out.write(part.read_bytes())
        argv = ["setpriv", "--pdeathsig", "KILL", "prlimit", f"--cpu={patience_s:.0f}:", QEMU, "-cpu", CPU, "-smp", "1", "-m", str(MEMORY_MB),
                "-kernel", kernel.folder / "vmlinuz", "-initrd", work / "initrd", "-nographic", "-no-reboot",
                "-nodefaults", "-net", "none", "-icount", "shift=0,sleep=off", "-rtc", "clock=vm",
                "-serial", f"file:{log}", "-serial", f"file:{work}/said",
                "-append", KERNEL_OPTIONS]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True, timeout=BUSY * patience_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"{kernel.version}: not at its end after {BUSY * patience_s:.0f} s; last: {tail(log)}") from None
        if done.returncode == -signal.SIGXCPU:
            raise Failed(f"{kernel.version}: not at its end after {patience_s:.0f} s of a processor's time; last: {tail(log)}")
        if done.returncode:
            raise Failed(f"{kernel.version}: {QEMU}: {done.stderr.strip()[-200:]}")
        said = (work / "said").read_bytes().decode(errors="replace").replace("\r\n", "\n")
    if not said:
        raise Failed(f"{kernel.version}: did not start: {tail(log)}")
    return said


def tail(log: pathlib.Path) -> str:
    lines = log.read_bytes().decode(errors="replace").split("\n") if log.is_file() else []
    return " / ".join(line.strip() for line in lines[-4:] if line.strip())[-300:] or "nothing"


MODULES: Iterable[str] = ("veth", "sch_netem", "sch_fq", "sch_tbf", "sch_fq_codel", "sch_ingress", "act_police",
                          "cls_matchall", "tcp_bbr", "tcp_lp", "inet_diag", "tcp_diag", "tls", "gcm", "ctr", "ghash-generic", "aesni-intel")


def wanted_modules(kernel: Kernel, tree: pathlib.Path) -> None:
    """The few modules that jobs use, with what they stand on, and the index that modprobe reads."""
    folder = next((kernel.folder / "lib" / "modules").iterdir())
    index = dict(line.split(":", 1) for line in (folder / "modules.dep").read_text().splitlines())
    by_name = {pathlib.Path(path).name.partition(".ko")[0]: path for path in index}
    for name in MODULES:
        if name in by_name:
            for path in (by_name[name], *index[by_name[name]].split()):
                put(tree, folder / path, f"/lib/modules/{folder.name}/{path}")
    for file in folder.glob("modules.*"):
        put(tree, file, f"/lib/modules/{folder.name}/{file.name}")
