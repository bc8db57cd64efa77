/* SPDX-License-Identifier: MIT */
/* `autobuf paths import`: a file into the path store. */
#ifndef PATHS_IMPORT_H
#define PATHS_IMPORT_H

#include "import.h"

/*
 * Reads a file, "-": stdin, of this host's measurements. Returns 0, or an error, about which why may say more. The
 * caller frees into->entries, also then.
 */
int paths_import_read(const char *file, uint64_t holds_s, uint64_t now_s, struct imported *into,
                      char why[IMPORT_WHY_BYTES]);

/*
 * Puts the entries into a store, NULL: the user's own, which is made if there is none. An entry there that says more
 * stays: one set by hand, then one that was measured, then the newer one. Such are counted, and removed from *into.
 */
int paths_import_store(const char *store, struct imported *into, uint64_t now_s, uint64_t *better);

#endif
