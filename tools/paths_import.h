/* SPDX-License-Identifier: MIT */
/* `autobuf paths import`: what the Python package's autobuf-paths-import makes of a file. */
#ifndef PATHS_IMPORT_H
#define PATHS_IMPORT_H

#include <stddef.h>

#include <autobuf/autobuf.h>

#include "arguments.h"

struct imported {
    struct autobuf_paths_entry *entries; /* in the store's order, each key once */
    size_t count;
};

/*
 * Has want->operand read. Returns 0, or 1 once it was said what is wrong. The caller frees
 * into->entries, also then.
 */
int paths_import_read(const struct arguments *want, struct imported *into);

#endif
