/* SPDX-License-Identifier: MIT */
/* Sets the options that a connection needs during a measurement, and restores them. */
#include <errno.h>
#include <netinet/in.h>
#include <time.h>

#include <linux/net_tstamp.h>
#include <linux/tcp.h>

#include "../base/option.h"
#include "../kernel/socket.h"
#include "exchange.h"

#define WINDOW_BYTES 500000 /* somewhat more than the longest train */
#define STAMPING (SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define WAS_DELAYED (1 << 30) /* no SOF_TIMESTAMPING_* flag */

/*
 * SO_RCVLOWAT makes the kernel open the window so far, unless the buffer is locked (tcp_set_rcvlowat()). When the mark
 * is lowered again the window stays open.
 */
void ab_open_window(int fd)
{
    int before;

    if (autobuf_is_off() || ab_get_int(fd, SOL_SOCKET, SO_RCVLOWAT, &before) < 0)
        return;
    ab_set_option(fd, SOL_SOCKET, SO_RCVLOWAT, WINDOW_BYTES);
    ab_set_option(fd, SOL_SOCKET, SO_RCVLOWAT, before);
}

static int prepare(int fd)
{
    int stamping = 0, nodelay = 0, error = ab_get_int(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamping);

    if (error == 0)
        error = ab_get_int(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay);
    if (error == 0)
        error = ab_set_option(fd, SOL_SOCKET, SO_TIMESTAMPING, stamping | STAMPING);
    if (error < 0)
        return error;
    error = ab_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (error < 0) {
        ab_set_option(fd, SOL_SOCKET, SO_TIMESTAMPING, stamping);
        return error;
    }
    return stamping | (nodelay ? 0 : WAS_DELAYED);
}

int ab_prepare(int fd, struct ab_prepared *before)
{
    int error = ab_socket_cookie(fd, &before->cookie);

    if (error == 0)
        error = ab_get_int(fd, SOL_SOCKET, SO_RCVLOWAT, &before->low_water);
    before->options = error < 0 ? error : prepare(fd);
    if (before->options < 0)
        return before->options;
    if (before->low_water > 1)
        ab_set_option(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
    return 0;
}

void ab_restore_prepared(int fd, const struct ab_prepared *before)
{
    if (before->options < 0 || ab_socket_check(fd, before->cookie) < 0)
        return;
    autobuf_inband_restore(fd, before->options);
    if (before->low_water > 1)
        ab_set_option(fd, SOL_SOCKET, SO_RCVLOWAT, before->low_water);
}

int autobuf_inband_prepare(int fd)
{
    int prepared = prepare(fd);

    if (prepared >= 0)
        ab_open_window(fd);
    return prepared;
}

void autobuf_inband_restore(int fd, int prepared)
{
    if (prepared < 0)
        return;
    ab_set_option(fd, SOL_SOCKET, SO_TIMESTAMPING, prepared & ~WAS_DELAYED);
    if (prepared & WAS_DELAYED)
        ab_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 0);
}
