# SPDX-License-Identifier: MIT
"""What the tests of the Python binding share: where it is, and the library of the build below it."""
from __future__ import annotations

import os
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = TOP / "python"

sys.path[:0] = [str(PACKAGE), str(TOP / "tests" / "net")]

from path import built  # noqa: E402

LIBRARY = built("lib/libautobuf.so.0")

os.environ["AUTOBUF_LIBRARY"] = LIBRARY
os.environ["PYTHONPATH"] = str(PACKAGE)
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
os.environ.pop("AUTOBUF", None)
sys.dont_write_bytecode = True
