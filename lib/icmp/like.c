/* SPDX-License-Identifier: MIT */
#include "like.h"

#include "../base/address.h"

static void take_source(int fd, struct autobuf_probe_options *probe, struct sockaddr_storage *source)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof local;
    socklen_t device_len = sizeof probe->device - 1, mark_len = sizeof probe->mark;

    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0 && len <= sizeof local) {
        int copied = ab_address_copy((struct sockaddr *)&local, len, source);

        if (copied > 0 && !ab_address_is_any(source)) {
            probe->source = (struct sockaddr *)source;
            probe->source_len = (uint32_t)copied;
        }
    }
    if (getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, probe->device, &device_len) < 0)
        probe->device[0] = '\0';
    if (!probe->mark)
        (void)getsockopt(fd, SOL_SOCKET, SO_MARK, &probe->mark, &mark_len);
}

int ab_probe_like(int fd, const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path)
{
    struct autobuf_probe_options probe = *options;
    struct sockaddr_storage source;
    int result;

    take_source(fd, &probe, &source);
    result = autobuf_probe(peer, peer_len, &probe, path);
    return result == AUTOBUF_E_FEW ? 0 : result;
}
