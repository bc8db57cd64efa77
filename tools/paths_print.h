/* SPDX-License-Identifier: MIT */
/* How `autobuf paths` prints an entry of the path store. */
#ifndef PATHS_PRINT_H
#define PATHS_PRINT_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

/* On stdout: a line, or with json an object without one. */
void paths_print(const struct autobuf_paths_entry *entry, bool json, uint64_t now_s);

#endif
