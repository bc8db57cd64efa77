# SPDX-License-Identifier: MIT
"""libgit2_clone.py URL KEY FOLDER: clones a bare repository over SSH with libgit2, whoever the server says that it is.

Prints the seconds since libgit2 asked for the key.
"""
from __future__ import annotations

import sys
import time

import pygit2

URL, KEY, FOLDER = sys.argv[1:]


class Callbacks(pygit2.RemoteCallbacks):
    asked_s = 0.0

    def credentials(self, url, username_from_url, allowed_types):
        self.asked_s = time.monotonic()
        return pygit2.Keypair(username_from_url, f"{KEY}.pub", KEY, "")

    def certificate_check(self, certificate, valid, host):
        return True


callbacks = Callbacks()
pygit2.clone_repository(URL, FOLDER, bare=True, callbacks=callbacks)
print(time.monotonic() - callbacks.asked_s)
