/* SPDX-License-Identifier: MIT */
/* Which files the path store is. */
#ifndef AB_STORE_H
#define AB_STORE_H

#include <stdbool.h>
#include <sys/types.h>

/* Acts as if these environment variables had these values when the library was loaded; NULL: not set. For tests. */
void ab_store_environment(const char *paths, const char *cache_home, const char *home);

/* Whether AUTOBUF_PATHS names a store, or says that there is none. */
bool ab_store_is_named(void);

/*
 * Who may own a store besides this user: root; of the host's store whoever owns its folder, and could put any file there.
 * That folder is in /var/lib, where only root can have made it. A folder that others may write to says nothing.
 */
uid_t ab_store_keeper(const char *file);

#endif
