# SPDX-License-Identifier: MIT
"""What the command prints as JSON, held against docs/autobuf.schema.json by Debian's python3-jsonschema."""
from __future__ import annotations

import functools
import json
import pathlib
import subprocess
import unittest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "autobuf.schema.json"
CHECKER = """
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
for line in sys.stdin:
    name, value = json.loads(line)
    found = jsonschema.Draft7Validator({**schema, "$ref": "#/definitions/" + name}).iter_errors(value)
    print(json.dumps([f"{list(error.path)}: {error.message}" for error in found]), flush=True)
"""


@functools.cache
def checker() -> subprocess.Popen:
    """One process for all: it ends with its input. The system's Python has the system's packages."""
    return subprocess.Popen(["/usr/bin/python3", "-c", CHECKER, str(SCHEMA)], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)


def check(test: unittest.TestCase, value: object, name: str) -> None:
    """name: one of the schema's definitions."""
    process = checker()
    process.stdin.write(json.dumps([name, value]) + "\n")
    process.stdin.flush()
    test.assertEqual(json.loads(process.stdout.readline()), [], value)
