/* SPDX-License-Identifier: MIT */
#include "like.h"

#include "../base/address.h"
#include "../kernel/socket.h"
#include "probe.h"

static void take_source(int fd, struct autobuf_probe_options *probe, struct sockaddr_storage *source)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof local;
    socklen_t mark_len = sizeof probe->mark;

    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0 && len <= sizeof local) {
        int copied = ab_address_copy((struct sockaddr *)&local, len, source);

        if (copied > 0 && !ab_address_is_any(source)) {
            probe->source = (struct sockaddr *)source;
            probe->source_len = (uint32_t)copied;
        }
    }
    ab_socket_device(fd, probe->device);
    if (!probe->mark)
        (void)getsockopt(fd, SOL_SOCKET, SO_MARK, &probe->mark, &mark_len);
}

int ab_probe_open_like(struct autobuf_probe **probe, int fd, const struct sockaddr *peer,
                       socklen_t peer_len, const struct autobuf_probe_options *options)
{
    struct autobuf_probe_options like = *options;
    struct sockaddr_storage source;

    take_source(fd, &like, &source);
    return autobuf_probe_open(probe, peer, peer_len, &like);
}

int ab_probe_conclude(struct autobuf_probe *probe, struct autobuf_path *path)
{
    int result = autobuf_probe_result(probe, path);

    autobuf_probe_close(probe);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

int ab_probe_like(int fd, const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path)
{
    struct autobuf_probe *probe;
    int result = ab_probe_open_like(&probe, fd, peer, peer_len, options);

    if (result < 0)
        return result;
    result = ab_probe_finish(probe);
    if (result > 0)
        return ab_probe_conclude(probe, path);
    autobuf_probe_close(probe);
    return result;
}
