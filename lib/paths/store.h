/* SPDX-License-Identifier: MIT */
/* Which files the path store is. */
#ifndef AB_STORE_H
#define AB_STORE_H

/* Acts as if these environment variables had these values when the library was loaded; NULL: not set. For tests. */
void ab_store_environment(const char *paths, const char *cache_home, const char *home);

#endif
