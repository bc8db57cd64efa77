/* SPDX-License-Identifier: MIT */
#include "daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store.h"

#define DAEMON "/run/autobufd/learned.sock"

static const char *daemon_at = DAEMON;

void ab_paths_report_to(const char *file)
{
    daemon_at = file ? file : DAEMON;
}

int ab_paths_report(const struct autobuf_paths_entry *entry)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    int bytes = autobuf_paths_entry_encode(entry, message, sizeof message), fd, error = 0;

    if (bytes < 0 || strlen(daemon_at) >= sizeof to.sun_path)
        return -EINVAL;
    if (ab_store_is_named())
        return -ENOENT;
    memcpy(to.sun_path, daemon_at, strlen(daemon_at) + 1);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (sendto(fd, message, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to) < 0)
        error = -errno;
    close(fd);
    return error;
}
