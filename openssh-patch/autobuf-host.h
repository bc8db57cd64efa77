/* SPDX-License-Identifier: MIT */
/*
 * How much memory all processes of a host may take together. The memory is counted in units. Each unit is a byte of
 * one file, and a process that has the unit has a lock on that byte. So the kernel does the counting: it gives a
 * unit to one process only, and takes it back when that process ends, however it ends. The file stays empty.
 */
#ifndef AUTOBUF_HOST_H
#define AUTOBUF_HOST_H

#include <stdint.h>

#define AUTOBUF_HOST_UNIT_BYTES (4 * 1024 * 1024)

struct autobuf_host;

/*
 * Opens the file, or makes it. It must belong to this user, and nobody else may open it: whoever can lock it decides
 * how much others have. Processes may have different values of most_bytes. A process opens a file once, and no other
 * descriptor of that file: closing it would unlock everything. A child that is forked has nothing of it. Returns 0;
 * negative errno: -EPERM: the file belongs to somebody else, is no plain file, or is open to others.
 */
int autobuf_host_open(struct autobuf_host **host, const char *file, uint64_t most_bytes);

/*
 * Takes units until it has wanted_bytes, or as many as are free. Returns how many bytes it has. If too few were
 * free, it tries again after a second at the earliest. Never blocks.
 */
uint64_t autobuf_host_have(struct autobuf_host *host, uint64_t wanted_bytes, uint64_t now_ns);

/* Gives back what is beyond needed_bytes, but for a unit that the next call might want again. */
void autobuf_host_keep(struct autobuf_host *host, uint64_t needed_bytes);

/* Gives back all. NULL is allowed. */
void autobuf_host_close(struct autobuf_host *host);

#endif
