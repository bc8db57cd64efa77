# SPDX-License-Identifier: MIT
"""SSH programs that are not OpenSSH's, for test_clients.py: how each gets and puts a file, and servers to log in to.

    client = Plink(ssh)                             # ssh: a Client of openssh.py, whose server it is to use
    done = client.copy("get", "name", local_file)   # the name is below the user's home on the server
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

from openssh import PORT, USER, Client, Place

from path import NOBODY, Path, build_folder, wait_listening  # the folder is on the path by now
from place import ALONE

HERE = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"
"""With the modules of Debian's packages."""
WINDOW = 4 << 20
"""Dropbear's window, with which it is told to begin; its own 24 kB would take minutes."""
COPY_S = 120


class Missing(Exception):
    """What a test needs is not on this machine."""


def find(*names: str) -> list[str]:
    """Where programs are, Debian's before others."""
    found = [shutil.which(name, path=f"/usr/bin:/usr/sbin:{os.environ.get('PATH', '')}") for name in names]
    if absent := [name for name, file in zip(names, found) if file is None]:
        raise Missing(f"not installed: {', '.join(absent)}")
    return found


def quietly(argv: Sequence[object], **kw) -> None:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, stdin=subprocess.DEVNULL, **kw)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stdout}{done.stderr}")


def built_program(source: str, command: Sequence[object], libraries: Sequence[str] = (), **kw) -> pathlib.Path:
    """A program of one source file, built if that has changed. The command ends with -o."""
    file, folder = HERE / source, build_folder() / "strangers"
    program = folder / file.stem
    folder.mkdir(exist_ok=True, parents=True)
    if not (program.is_file() and program.stat().st_mtime > file.stat().st_mtime):
        quietly([*command, program, file, *libraries], **kw)
    return program


def libssh_program() -> pathlib.Path:
    (cc,) = find("cc")
    if not pathlib.Path("/usr/include/libssh/libssh.h").is_file():
        raise Missing("not installed: libssh-dev")
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations"]
    return built_program("libssh_copy.c", [cc, "-O2", *warnings, "-o"], ["-lssh"])


def go_environment() -> dict[str, str]:
    """To build of what Debian packages, without any network."""
    sources = pathlib.Path("/usr/share/gocode")
    for package in ("golang.org/x/crypto/ssh", "github.com/pkg/sftp"):
        if not (sources / "src" / package).is_dir():
            raise Missing(f"no {package} below {sources} (golang-golang-x-crypto-dev, golang-github-pkg-sftp-dev)")
    return os.environ | {"GO111MODULE": "off", "GOPATH": str(sources), "GOPROXY": "off", "GOTOOLCHAIN": "local",
                         "GOFLAGS": "", "CGO_ENABLED": "0", "GOCACHE": str(build_folder() / "strangers" / "go-cache")}


def go_program() -> pathlib.Path:
    (go,) = find("go")
    return built_program("go_peer.go", [go, "build", "-o"], env=go_environment())


def asyncssh_program() -> list[str]:
    if subprocess.run([PYTHON, "-c", "import asyncssh"], capture_output=True).returncode:
        raise Missing("not installed: python3-asyncssh")
    return [PYTHON, str(HERE / "asyncssh_peer.py")]


# ---- clients ----


class Stranger:
    """rekey: exchange keys again each time that so many bytes went one way; None: when the client likes."""

    rekeys = False
    """Whether it can be told to."""
    size = 24 << 20
    fills = True
    """Whether it sends as much as it may, so that the window grows."""

    def __init__(self, ssh: Client, rekey: int | None = None) -> None:
        self.ssh, self.rekey = ssh, rekey
        self.host, self.key = ssh.path.addr[ssh.server.side], ssh.place.folder / "key"
        self.home = ssh.place.folder / "home"
        self.home.mkdir(exist_ok=True)
        self.prepare()

    def prepare(self) -> None:
        """Keys and settings in the form that it wants."""

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        raise NotImplementedError

    def copy(self, way: str, name: str, file: pathlib.Path) -> subprocess.CompletedProcess:
        return self.ssh.path.run("a", list(map(str, self.argv(way, name, file))), timeout=COPY_S,
                                 env=os.environ | {"HOME": str(self.home)})


class Shell(Stranger):
    """Runs a command at the server, as ssh does."""

    def shell(self, command: str) -> list[object]:
        raise NotImplementedError

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        redirection, command = (">", f"cat {name}") if way == "get" else ("<", f"cat >{name}")
        return ["sh", "-c", f'file=$1; shift; exec "$@" {redirection}"$file"', "sh", file, *self.shell(command)]


class Plink(Shell):
    rekeys = True

    def prepare(self) -> None:
        find("plink", "pscp", "psftp", "puttygen")
        self.own_key = self.home / "key.ppk"
        quietly(["puttygen", self.key, "-O", "private", "-o", self.own_key])
        said = subprocess.run([self.ssh.where / "bin" / "ssh-keygen", "-lf",
                               self.ssh.server.where / "etc" / "ssh_host_ed25519_key.pub"],
                              check=True, capture_output=True, text=True).stdout
        sessions = self.home / ".putty" / "sessions"
        sessions.mkdir(parents=True, exist_ok=True)
        sessions.joinpath("here").write_text(f"HostName={self.host}\nPortNumber={PORT}\nProtocol=ssh\nUserName={USER}\n"
                                             f"SSHManualHostKeys={said.split()[1]}\nPublicKeyFile={self.own_key}\n"
                                             f"RekeyBytes={self.rekey or '1G'}\n")

    def shell(self, command: str) -> list[object]:
        return ["plink", "-batch", "-load", "here", command]


class Pscp(Plink):
    protocol = "-sftp"

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        remote = f"here:{name}"
        return ["pscp", "-q", "-batch", self.protocol, *((remote, file) if way == "get" else (file, remote))]


class PscpOld(Pscp):
    """The protocol of the first scp."""
    protocol = "-scp"


class Psftp(Plink):
    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        batch = self.home / "batch"
        batch.write_text(f"get {name} {file}\n" if way == "get" else f"put {file} {name}\n")
        return ["psftp", "-batch", "-b", batch, "here"]


class Dbclient(Shell):
    def prepare(self) -> None:
        find("dbclient", "dropbearconvert")
        self.own_key = self.home / "key.dropbear"
        quietly(["dropbearconvert", "openssh", "dropbear", self.key, self.own_key])

    def options(self) -> list[object]:
        return ["-y", "-y", "-i", self.own_key, "-W", WINDOW, "-p", PORT]

    def shell(self, command: str) -> list[object]:
        return ["dbclient", *self.options(), f"{USER}@{self.host}", command]


class ScpOverDbclient(Dbclient):
    """scp with -S: the patched program, through Dropbear's."""

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        script = self.home / "over-dbclient"
        script.write_text("#!/bin/sh\n"
                          "while [ $# -gt 0 ]; do\n"
                          "    case $1 in\n"
                          "    -l) user=$2 && shift ;;\n"
                          "    -o | -c | -F | -p) shift ;;\n"
                          "    -s) subsystem=-s ;;\n"
                          "    --) shift && break ;;\n"
                          "    -*) ;;\n"
                          "    *) break ;;\n"
                          "    esac\n"
                          "    shift\n"
                          "done\n"
                          "host=$1 && shift\n"
                          f'exec dbclient {" ".join(map(str, self.options()))} $subsystem "$user@$host" "$@"\n')
        script.chmod(0o755)
        remote = f"{USER}@{self.host}:{name}"
        return [self.ssh.where / "bin" / "scp", "-S", script, *((remote, file) if way == "get" else (file, remote))]


class Curl(Stranger):
    """libssh2. Of a file that is put, curl hands it 64 kB at a time and waits."""
    scheme = "scp"

    def prepare(self) -> None:
        find("curl")
        said = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout
        if f" {self.scheme} " not in said or "libssh2" not in said:
            raise Missing(f"curl knows no {self.scheme} by libssh2")

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        url = f"{self.scheme}://{self.host}:{PORT}{self.ssh.place.folder}/there/{name}"
        return ["curl", "-q", "-sS", "--insecure", "--user", f"{USER}:", "--key", self.key, "--pubkey", f"{self.key}.pub",
                "-o" if way == "get" else "-T", file, url]


class CurlSftp(Curl):
    scheme = "sftp"
    size = 4 << 20
    fills = False


class Libgit2(Stranger):
    """libssh2. Clones a repository."""

    def prepare(self) -> None:
        find("git")
        if subprocess.run([PYTHON, "-c", "import pygit2"], capture_output=True).returncode:
            raise Missing("not installed: python3-pygit2")

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        url = f"ssh://{USER}@{self.host}:{PORT}{self.ssh.place.folder}/there/{name}"
        return [PYTHON, HERE / "libgit2_clone.py", url, self.key, file]


class Libssh(Stranger):
    rekeys = True

    def prepare(self) -> None:
        self.program = libssh_program()

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        return [self.program, self.host, PORT, USER, self.key, way, name, file, self.rekey or 0]


class Asyncssh(Stranger):
    rekeys = True
    protocol = "sftp"

    def prepare(self) -> None:
        self.program = asyncssh_program()

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        return [*self.program, self.protocol, self.host, PORT, USER, self.key, way, name, file, self.rekey or 0]


class AsyncsshScp(Asyncssh):
    protocol = "scp"


class Go(Stranger):
    rekeys = True
    protocol = "sftp"

    def prepare(self) -> None:
        self.program = go_program()

    def argv(self, way: str, name: str, file: pathlib.Path) -> list[object]:
        return [self.program, self.protocol, self.host, PORT, USER, self.key, way, name, file, self.rekey or 0]


class GoCat(Go):
    protocol = "cat"


# ---- servers ----


class StrangeServer:
    """A server that is not OpenSSH's on one side of a path, with the files of openssh.py's Server."""

    status = 0
    """What OpenSSH's scp ends with, stock or patched: 1 if the server does not say how sftp-server ended."""

    def __init__(self, p: Path, side: str, where: pathlib.Path, place: Place) -> None:
        self.path, self.side, self.where, self.place = p, side, where, place
        self.home = place.folder / "there"
        self.log = place.folder / "log-of-a-stranger"
        self.prepare()
        script = f'{place.etc_with_user(self.home)} && cd "{self.home}" && {self.before()} && exec "$@"'
        with self.log.open("w") as log_file:
            self.process = p.popen(side, [*ALONE, "sh", "-c", script, "sh", *map(str, self.argv())], stderr=log_file)
        wait_listening(p, side, PORT, self.process, self.log)

    def prepare(self) -> None:
        pass

    def before(self) -> str:
        return "true"

    def argv(self) -> list[object]:
        raise NotImplementedError

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class Dropbear(StrangeServer):
    """With the sftp-server of the build that it serves, where Dropbear looks for one."""

    def prepare(self) -> None:
        find("dropbear", "dropbearconvert")
        if not pathlib.Path("/usr/lib/sftp-server").is_file():
            raise Missing("not installed: openssh-sftp-server")
        self.host_key = self.place.folder / "host.dropbear"
        quietly(["dropbearconvert", "openssh", "dropbear", self.where / "etc" / "ssh_host_ed25519_key", self.host_key])
        # It takes keys from a home that only its owner can write to.
        self.home.chmod(0o755)
        folder = self.home / ".ssh"
        folder.mkdir()
        shutil.copy(self.place.folder / "key.pub", folder / "authorized_keys")
        for file in (self.home, folder, folder / "authorized_keys"):
            os.chown(file, NOBODY, NOBODY)

    def before(self) -> str:
        return f'mount --bind "{self.where}/libexec/sftp-server" /usr/lib/sftp-server'

    def argv(self) -> list[object]:
        return ["dropbear", "-F", "-E", "-s", "-m", "-r", self.host_key, "-p", PORT, "-W", WINDOW, "-P", "/dev/null"]


class AsyncsshServer(StrangeServer):
    status = 1

    def argv(self) -> list[object]:
        return [*asyncssh_program(), "serve", PORT, self.where / "etc" / "ssh_host_ed25519_key"]


class GoServer(StrangeServer):
    def argv(self) -> list[object]:
        return [go_program(), "serve", PORT, self.where / "etc" / "ssh_host_ed25519_key"]


class ParamikoServer(StrangeServer):
    status = 1

    def argv(self) -> list[object]:
        return [PYTHON, HERE / "paramiko_server.py", PORT, self.where / "etc" / "ssh_host_ed25519_key"]
