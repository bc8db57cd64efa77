# SPDX-License-Identifier: MIT
"""What a script of cases prints: TAP, and the line that counts."""
from __future__ import annotations


class Tap:
    def __init__(self) -> None:
        self.counts = {"ok": 0, "not ok": 0, "skipped": 0}

    def tell(self, name: str, failure: str = "", skip: str = "") -> None:
        verdict = "not ok" if failure else "ok"
        number = sum(self.counts.values()) + 1
        self.counts["skipped" if skip else verdict] += 1
        print(f"{verdict} {number} - {name}{f' # SKIP {skip}' if skip else ''}", flush=True)
        for line in failure.splitlines():
            print(f"# {line}", flush=True)

    def end(self) -> int:
        """Prints the last lines; returns the script's exit status."""
        print(f"1..{sum(self.counts.values())}")
        print(f"{self.counts['ok']} passed, {self.counts['not ok']} failed, {self.counts['skipped']} skipped")
        return 1 if self.counts["not ok"] else 0
