/* SPDX-License-Identifier: MIT */
/* Limits of well-known hosts, for the tests of plans. */
#ifndef HOSTS_H
#define HOSTS_H

#include <autobuf/autobuf.h>

#define HOST_FLAGS (AUTOBUF_LIMITS_RCV_AUTOTUNING | AUTOBUF_LIMITS_WINDOW_SCALING)

#define HOST_TCP_MEM_BYTES (1ULL << 40) /* plenty: no bound of what is not about memory */

#define HOST(core_max, wmem_max, rmem_max)                                                         \
    {                                                                                              \
        .size = sizeof(struct autobuf_limits), .flags = HOST_FLAGS,                                \
        .snd_settable_bytes = (core_max), .rcv_settable_bytes = (core_max),                        \
        .tcp_wmem_min_bytes = 4096, .tcp_wmem_default_bytes = 16384,                               \
        .tcp_wmem_max_bytes = (wmem_max), .tcp_rmem_min_bytes = 4096,                              \
        .tcp_rmem_default_bytes = 131072, .tcp_rmem_max_bytes = (rmem_max),                        \
        .tcp_mem_bytes = HOST_TCP_MEM_BYTES, .page_bytes = 4096,                                   \
    }

static const struct autobuf_limits host_6_18 = HOST(4194304, 4194304, 33554432);
static const struct autobuf_limits host_older = HOST(212992, 4194304, 6291456);
/* fasterdata.es.net, for paths up to 100 ms and above */
static const struct autobuf_limits host_esnet_32 = HOST(67108864, 33554432, 33554432);
static const struct autobuf_limits host_esnet_64 = HOST(67108864, 67108864, 67108864);
/* tcp_wmem raised, wmem_max not: autotuning can take more than anybody may set */
static const struct autobuf_limits host_wmem_16 = HOST(4194304, 16777216, 33554432);
/* 6.16 and 6.17 had the larger tcp_rmem already, and the small [rw]mem_max still */
static const struct autobuf_limits host_6_16 = HOST(212992, 4194304, 33554432);

/* [rw]mem_max raised, tcp_rmem not */
static const struct autobuf_limits host_rmem_16 = HOST(16777216, 4194304, 6291456);

/* A socket as socket(2) gives it. */
static inline struct autobuf_socket socket_new(void)
{
    struct autobuf_socket s = AUTOBUF_SOCKET_INIT;

    s.stage = AUTOBUF_STAGE_NEW;
    s.snd_buf_bytes = 16384;
    s.rcv_buf_bytes = 131072;
    return s;
}

#endif
