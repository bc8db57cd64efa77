/* SPDX-License-Identifier: MIT */
/* An FTP session on a real control connection. */
#ifndef SESSION_H
#define SESSION_H

#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

static inline struct autobuf_ftp *session(uint32_t role, int fd, const struct autobuf_ftp_options *options)
{
    struct autobuf_ftp *ftp;

    assert_int_equal(autobuf_ftp_open(&ftp, role, fd, options), 0);
    return ftp;
}

static inline int answer(struct autobuf_ftp *ftp, const char *line)
{
    return autobuf_ftp_answer(ftp, line, strlen(line));
}

static inline bool nothing_to_receive(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

#endif
