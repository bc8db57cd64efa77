/* SPDX-License-Identifier: MIT */
#include "raise.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "../../lib/base/base.h"
#include "../../lib/kernel/proc.h"

const char *const raise_names[RAISE_SIDES] = {"net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"};
static const char *const files[RAISE_SIDES] = {"/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"};

static int set(unsigned side, const uint64_t values[static 3])
{
    char text[64];
    int length = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", values[0], values[1], values[2]);
    int fd = open(files[side], O_WRONLY | O_CLOEXEC), error;

    if (fd < 0)
        return -errno;
    error = write(fd, text, (size_t)length) < 0 ? -errno : 0;
    close(fd);
    return error;
}

int raise_to(struct raised *raised, unsigned side, uint64_t bytes, uint64_t most_bytes)
{
    uint64_t values[3], now_bytes;
    bool raises = bytes;
    int error;

    if (ab_proc_read(files[side], values, 3) != 3)
        return -EIO;
    now_bytes = values[2];
    if (raised->ours_bytes && now_bytes != raised->ours_bytes)
        return -EBUSY;
    if (!bytes && !raised->ours_bytes)
        return 0;
    if (bytes > 2 * now_bytes)
        return -EINVAL;
    bytes = ab_min(bytes, most_bytes);
    if (raises && bytes <= now_bytes)
        return -EINVAL;
    values[2] = bytes ? bytes : raised->was_bytes;
    error = set(side, values);
    if (error < 0)
        return error;
    *raised = (struct raised){raised->ours_bytes ? raised->was_bytes : now_bytes, bytes};
    return 0;
}
