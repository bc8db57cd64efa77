/* SPDX-License-Identifier: MIT */
/* `autobuf paths import`: the file. */
#ifndef PATHS_IMPORT_H
#define PATHS_IMPORT_H

#include "import.h"

/*
 * Reads a file, "-": stdin, of this host's measurements, or of entries that were exported. Returns 0, or an error, about which why may say more. The
 * caller frees into->entries, also then.
 */
int paths_import_read(const char *file, bool exported, uint64_t holds_s, uint64_t now_s, struct imported *into,
                      char why[IMPORT_WHY_BYTES]);

#endif
