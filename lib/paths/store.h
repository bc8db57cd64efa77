/* SPDX-License-Identifier: MIT */
/* The files of the path store: which ones, and which are to be trusted. */
#ifndef AB_STORE_H
#define AB_STORE_H

#include <stdbool.h>
#include <stdint.h>

/* The user's own store, or the one that AUTOBUF_PATHS names; NULL: there is none. */
const char *ab_store_own(void);

/* Acts as if these environment variables had these values when the library was loaded; NULL: not set. For tests. */
void ab_store_environment(const char *paths, const char *cache_home, const char *home);

#endif
