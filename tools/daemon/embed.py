#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a file as a C header with its bytes: embed.py FILE NAME"""
import pathlib
import sys

content = pathlib.Path(sys.argv[1]).read_bytes()
name = sys.argv[2]
print("#include <stddef.h>")
print(f"static const size_t {name}_bytes = {len(content)};")
print(f"static _Alignas(8) const unsigned char {name}[] = {{")
for at in range(0, len(content), 16):
    print("    " + " ".join(f"0x{byte:02x}," for byte in content[at:at + 16]))
print("};")
