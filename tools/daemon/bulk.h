/* SPDX-License-Identifier: MIT */
/* Connections that begin to move bulk data, as the daemon's part in the kernel tells of them at once. */
#ifndef BULK_H
#define BULK_H

#include "broker.h"
#include "table.h"

struct bulk;

/* Takes what kernel_load() has loaded, here or in the broker. NULL: nothing is; if maps->ready, maps->why says why. */
struct bulk *bulk_open(struct broker_maps *maps);

/* Is readable while the kernel has something to tell. NULL: -1. */
int bulk_fd(const struct bulk *bulk);

/*
 * Hands over the connections that were told of since the last call, at most so many. Whether bulk_fd() was readable, as
 * it also is while the kernel is writing. NULL: false.
 */
bool bulk_read(struct bulk *bulk, size_t most, sweep_fn *take, void *user);

/* NULL is allowed. */
void bulk_close(struct bulk *bulk);

#endif
