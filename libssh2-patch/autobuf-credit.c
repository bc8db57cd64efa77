/* SPDX-License-Identifier: MIT */
/* Between libssh2 and libautobuf: the size of a window, by what it carried. */
#ifdef HAVE_AUTOBUF

#include <autobuf/autobuf.h>

#include "autobuf-credit.h"

/* What sftp_read() of libssh2 asks for at most, whatever its caller's buffer: 671 Mbit/s over 100 ms. */
#define MOST_BYTES (8 * 1024 * 1024)

uint32_t
autobuf_credit_window(struct autobuf_rightsize **credit, uint32_t least_bytes)
{
    struct autobuf_rightsize_state state = AUTOBUF_RIGHTSIZE_STATE_INIT;

    if(!*credit && !autobuf_is_off()) {
        struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;

        options.window_bytes = least_bytes;
        options.cap_bytes = least_bytes > MOST_BYTES ? least_bytes : MOST_BYTES;
        if(autobuf_rightsize_open(credit, &options) < 0)
            *credit = NULL;
    }
    if(!*credit || autobuf_rightsize_state(*credit, &state) < 0 || state.window_bytes < least_bytes)
        return least_bytes;
    return (uint32_t)state.window_bytes;
}

void
autobuf_credit_answered(struct autobuf_rightsize *credit, uint64_t sent_ns, uint32_t bytes)
{
    uint64_t now = autobuf_now_ns();

    if(!credit)
        return;
    autobuf_rightsize_rtt(credit, now - sent_ns);
    (void)autobuf_rightsize_consumed(credit, now, bytes);
}

void
autobuf_credit_read(struct autobuf_rightsize *credit, int fd, uint64_t bytes)
{
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;

    if(!credit)
        return;
    /* Of a socket that is not TCP no round-trip time is known, and the window stays. */
    if(autobuf_socket_state(fd, &socket) == 0)
        autobuf_rightsize_rtt(credit, socket.rtt_min_ns);
    (void)autobuf_rightsize_consumed(credit, autobuf_now_ns(), bytes);
}

#endif
