# SPDX-License-Identifier: MIT
"""A client and a server by asyncssh, for test_clients.py. Runs with Debian's python3-asyncssh.

asyncssh_peer.py sftp|scp HOST PORT USER KEY get|put NAME FILE REKEY_BYTES copies a file; 0: keys are exchanged again
when asyncssh likes. asyncssh_peer.py serve PORT HOST_KEY: whoever comes may do everything, in this folder.
"""
import asyncio
import subprocess
import sys

import asyncssh


async def copy(protocol: str, host: str, port: str, user: str, key: str, way: str, name: str, file: str,
               rekey_bytes: str) -> None:
    limit = {"rekey_bytes": int(rekey_bytes)} if int(rekey_bytes) else {}
    async with asyncssh.connect(host, int(port), username=user, client_keys=[key], known_hosts=None, config=None,
                                agent_path=None, **limit) as connection:
        if protocol == "scp":
            await asyncssh.scp(*([(connection, name), file] if way == "get" else [file, (connection, name)]))
        else:
            async with connection.start_sftp_client() as sftp:
                await (sftp.get(name, file) if way == "get" else sftp.put(file, name))


class Open(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return False


async def run(process: asyncssh.SSHServerProcess) -> None:
    """The command of a session. What it printed has to be sent before the session ends: what asyncssh still holds then,
    it drops. Its pipes are files, for of a StreamReader asyncssh may read twice at once, and then ends the connection."""
    child = subprocess.Popen(process.command, shell=True, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    await process.stdout.drain()
    await process.stderr.drain()
    process.exit(await asyncio.to_thread(child.wait))


async def serve(port: str, host_key: str) -> None:
    server = await asyncssh.create_server(Open, "", int(port), server_host_keys=[host_key], process_factory=run,
                                          encoding=None, sftp_factory=True, allow_scp=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[2:]) if sys.argv[1] == "serve" else copy(*sys.argv[1:]))
