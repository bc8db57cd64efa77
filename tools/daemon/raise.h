/* SPDX-License-Identifier: MIT */
/*
 * The third values of net.ipv4.tcp_wmem and tcp_rmem, up to which autotuning goes, in the network namespace of this
 * process. To write them takes CAP_NET_ADMIN there: the broker does it.
 */
#ifndef RAISE_H
#define RAISE_H

#include <stdbool.h>
#include <stdint.h>

#define RAISE_SIDES 2U /* 0: tcp_wmem, 1: tcp_rmem */

/* As messages name it. */
extern const char *const raise_names[RAISE_SIDES];

/* A limit that is raised. */
struct raised {
    uint64_t was_bytes;
    uint64_t ours_bytes; /* 0: it is not raised */
};

/*
 * Raises it to bytes, which are at most twice what it is, or to most_bytes if these are fewer. Or puts it back, with
 * bytes 0. 0; -EBUSY: somebody else has changed it since, and it is left to them; -EINVAL: that would not raise it, or
 * by more; errors of open(2) and write(2).
 */
int raise_to(struct raised *raised, unsigned side, uint64_t bytes, uint64_t most_bytes);

#endif
