# SPDX-License-Identifier: MIT
"""The machines and C libraries that tests/cross/run builds for: compilers, libraries, meson's cross files.

Compilers are this system's. What the tests link is unpacked from Debian's archive into build/cross, or built there.
"""
from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(1, str(HERE.parent))

from archive import Archive, Missing  # noqa: E402

CROSS = pathlib.Path(os.environ.get("AUTOBUF_BUILD", TOP / "build")) / "cross"
LIBRARIES = ("libcmocka-dev", "libcmocka0", "libssl-dev")


class Target(NamedTuple):
    name: str
    compiler: str
    family: str
    """As meson calls it."""
    endian: str
    prepare: Callable[[Target], None]
    """Fills root; raises Missing."""
    libraries: str
    """Their folder below root."""
    wrapper: tuple[str, ...] = ()
    """What runs a program; () if this machine does."""
    arguments: tuple[str, ...] = ()
    """Of compiler and linker."""
    unemulated: dict[str, str] = {}
    """Tests that cannot work here as a whole, with the reason. The pair is only compiled then."""
    pure: dict[str, tuple[str, ...]] = {}
    """Cases among them that work all the same."""

    @property
    def folder(self) -> pathlib.Path:
        return CROSS / self.name

    @property
    def root(self) -> pathlib.Path:
        return self.folder / "root"

    def compile_arguments(self) -> list[str]:
        include = self.root / "usr/include"
        return [*self.arguments, "-isystem", str(include), "-isystem", str(include / pathlib.Path(self.libraries).name)]

    def link_arguments(self) -> list[str]:
        libraries = self.root / self.libraries
        return [*self.arguments, f"-L{libraries}", f"-Wl,-rpath,{libraries}"]

    def cross_file(self) -> str:
        tools = {"c": [self.compiler], "cpp": ["false"], "ar": ["ar"], "strip": ["strip"], "pkgconfig": ["pkg-config"]}
        prefix = self.compiler.removesuffix("gcc")
        for name in ("ar", "strip"):
            if shutil.which(prefix + name):
                tools[name] = [prefix + name]
        if self.wrapper:
            tools["exe_wrapper"] = list(self.wrapper)
        binaries = "".join(f"{name} = {words}\n" for name, words in tools.items())
        return (f"[binaries]\n{binaries}"
                f"[built-in options]\nc_args = {self.compile_arguments()}\nc_link_args = {self.link_arguments()}\n"
                f"[properties]\nneeds_exe_wrapper = {str(bool(self.wrapper)).lower()}\nsys_root = '{self.root}'\n"
                f"pkg_config_libdir = '{self.root / self.libraries / 'pkgconfig'}'\n"
                f"[host_machine]\nsystem = 'linux'\ncpu_family = '{self.family}'\ncpu = '{self.family}'\n"
                f"endian = '{self.endian}'\n")


def suite() -> str:
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian" or "VERSION_CODENAME" not in release:
        raise Missing("not a release of Debian")
    return release["VERSION_CODENAME"]


def need(*programs: str) -> None:
    lacking = [name for name in programs if not shutil.which(name)]
    if lacking:
        raise Missing(f"no {', '.join(lacking)}")


def once(target: Target, make: Callable[[], None]) -> None:
    """Fills root, unless an earlier run did so to the end."""
    stamp = target.folder / "root.whole"
    if not stamp.is_file():
        shutil.rmtree(target.root, ignore_errors=True)
        target.root.mkdir(parents=True)
        make()
        stamp.touch()


def from_archive(target: Target) -> None:
    """Libraries as packages of the architecture."""
    need(target.compiler, *target.wrapper[:1], "pkg-config")

    def make() -> None:
        shutil.rmtree(target.folder / "apt", ignore_errors=True)  # with older packages in it
        for package in Archive(target.folder, (suite(),), target.name).download(*LIBRARIES):
            subprocess.run(["dpkg-deb", "-x", package, target.root], check=True, capture_output=True)
    once(target, make)


CMOCKA_HAS = ("INTTYPES_H", "MALLOC_H", "STDINT_H", "SIGNAL_H", "STRING_H", "STRINGS_H", "STDLIB_H", "STDIO_H", "TIME_H",
              "UNISTD_H", "SETJMP_H", "STDARG_H", "STDDEF_H", "CLOCK_GETTIME", "CLOCK_REALTIME", "STRUCT_TIMESPEC",
              "STRSIGNAL", "SNPRINTF", "VSNPRINTF", "GCC_THREAD_LOCAL_STORAGE")


def make_cmocka(target: Target) -> None:
    """cmocka as a static library, from Debian's source package."""
    folder = target.folder / "cmocka"
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([TOP / "scripts" / "debian-source", "--newest", "cmocka", "", target.folder / "source"],
                          capture_output=True, text=True)
    if done.returncode:
        raise Missing(done.stderr.strip().splitlines()[-1])
    version, source = done.stdout.rstrip("\n").split(" ", 1)
    subprocess.run(["dpkg-source", "-x", source, folder], check=True, capture_output=True)
    include, libraries = target.root / "usr/include", target.root / target.libraries
    subprocess.run([target.compiler, "-O2", "-D_GNU_SOURCE", *(f"-DHAVE_{name}=1" for name in CMOCKA_HAS),
                    f"-I{folder / 'include'}", "-c", folder / "src" / "cmocka.c", "-o", folder / "cmocka.o"],
                   check=True, capture_output=True)
    (libraries / "pkgconfig").mkdir(parents=True)
    subprocess.run(["ar", "rcs", libraries / "libcmocka.a", folder / "cmocka.o"], check=True, capture_output=True)
    shutil.copy2(folder / "include" / "cmocka.h", include)
    (libraries / "pkgconfig" / "cmocka.pc").write_text(
        f"Name: cmocka\nDescription: cmocka\nVersion: {version.partition('-')[0]}\n"
        f"Libs: -L/{target.libraries} -lcmocka\nCflags: -I/usr/include\n")


def from_source(target: Target) -> None:
    """The kernel's headers, which musl does not bring, and cmocka."""
    need(target.compiler, "dpkg-source", "pkg-config")

    def make() -> None:
        include = target.root / "usr/include"
        include.mkdir(parents=True)
        of_machine = pathlib.Path("/usr/include") / f"{platform.machine()}-linux-gnu"
        for name, place in (("linux", "/usr/include"), ("asm-generic", "/usr/include"), ("asm", of_machine)):
            (include / name).symlink_to(pathlib.Path(place) / name)
        make_cmocka(target)
    once(target, make)


# What QEMU's user mode lacks: tests that need it work on real machines only.
TCP_INFO = "QEMU gives 4 bytes of TCP_INFO"
TIMESTAMPS = "QEMU knows no SO_TIMESTAMPNS"
UNEMULATED = {
    **dict.fromkeys(("apply", "client", "data", "flow", "inband_socket", "limits", "live", "null", "remember", "restore", "server",
                     "session", "tcpinfo", "transfer", "tune", "wuftpd", "pair"), TCP_INFO),
    **dict.fromkeys(("faults", "flood", "probe"), TIMESTAMPS),
    "rtnetlink": "QEMU knows no RTM_GETQDISC",
}
PURE = {
    "tcpinfo": ("every_field_is_where_the_kernel_puts_it", "any_length"),
    "rtnetlink": ("only_whole_answers_count", "test_kinds", "test_ends", "test_broken"),
    "limits": ("sums_what_is_above", "broken_answers", "settable_agrees_with_proc", "autotuning_agrees_with_proc", "memory_agrees_with_proc"),
}

I386_LIBC = "/usr/i686-linux-gnu/lib"

TARGETS = {target.name: target for target in (
    Target("s390x", "s390x-linux-gnu-gcc", "s390x", "big", from_archive, "usr/lib/s390x-linux-gnu",
           wrapper=("qemu-s390x-static", "-L", "/usr/s390x-linux-gnu"), unemulated=UNEMULATED, pure=PURE),
    Target("i386", "i686-linux-gnu-gcc", "x86", "little", from_archive, "usr/lib/i386-linux-gnu",
           # The C library of the compiler: the system need not have one for this architecture.
           arguments=(f"-Wl,--dynamic-linker={I386_LIBC}/ld-linux.so.2", f"-Wl,-rpath,{I386_LIBC}")),
    # CMSG_NXTHDR() and struct msghdr of musl mix signed and unsigned; the other builds have the warning.
    Target("musl", "musl-gcc", platform.machine(), "little", from_source, "usr/lib", arguments=("-Wno-sign-conversion",)),
)}
