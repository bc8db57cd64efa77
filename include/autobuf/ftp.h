/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/ftp.h>: FTP, a control connection and its data connections. Not part of <autobuf/autobuf.h>.
 */
#ifndef AUTOBUF_FTP_H
#define AUTOBUF_FTP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/flow.h>
#include <autobuf/live.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What FTP's clients and servers share: the path is measured over the control connection, or by ICMP, and
 * what was found is set on the data connections between the same two hosts: the receive side before listen()
 * or connect(), the send side once the peer is known. Each is then looked after as autobuf_live_step() does.
 * Any protocol with a connection for control and others for data can do the same.
 *
 * One handle a session. Opened before a program calls chroot(2) or gives privilege up, it knows this host's
 * limits for good. Nothing is ever sent but on the control connection, and to its peer.
 */
struct autobuf_ftp;

#define AUTOBUF_FTP_CLIENT 1U
#define AUTOBUF_FTP_SERVER 2U

/*
 * Where the control connection is more than its socket (TLS): both move up to len bytes before
 * deadline_ns, and return how many, 0 at the end of the connection, or -errno (-ETIMEDOUT). read() also tells when
 * the last of them arrived, of the monotonic clock; write() may put each segment_bytes into a record of its own.
 */
typedef int64_t autobuf_ftp_read_fn(void *user, void *buf, size_t len, uint64_t deadline_ns,
                                    uint64_t *stamp_ns);
typedef int64_t autobuf_ftp_write_fn(void *user, const void *buf, size_t len, size_t segment_bytes,
                                     uint64_t deadline_ns);

struct autobuf_ftp_options {
    uint32_t size;
    uint32_t record_bytes;      /* that a record of TLS takes besides its payload; 0: none */
    uint64_t most_bytes;        /* no buffer is set larger, as setsockopt() takes it; 0: what the host
                                   allows, and for a server, whose clients say what they want,
                                   16,000,000 */
    autobuf_log_fn *log;        /* told what was measured, decided and set; NULL: none */
    void *log_user;
    autobuf_ftp_read_fn *read;  /* both, or NULL: the socket is read and written */
    autobuf_ftp_write_fn *write;
    void *io_user;
};

#define AUTOBUF_FTP_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(struct autobuf_ftp_options), 0, 0, NULL, NULL, NULL, NULL, NULL                     \
    }
/* As AUTOBUF_FTP_OPTIONS_INIT; size: sizeof(struct autobuf_ftp_options). */
AUTOBUF_API void autobuf_ftp_options_init(struct autobuf_ftp_options *options, uint32_t size);

/*
 * Begins with a connected control connection. options may be NULL. -EINVAL: role, an option; -EOPNOTSUPP:
 * not a TCP socket; -ENOTCONN, -ENOMEM, -EBADF, -ENOTSOCK. AUTOBUF_E_OFF: AUTOBUF=off.
 */
AUTOBUF_API int autobuf_ftp_open(struct autobuf_ftp **ftp, uint32_t role, int control_fd,
                                 const struct autobuf_ftp_options *options);

/* Closes the handle, no connection. NULL is allowed. */
AUTOBUF_API void autobuf_ftp_close(struct autobuf_ftp *ftp);

#define AUTOBUF_FTP_BY_INBAND 1U /* the server says, in FEAT or HELP SITE, that it has SITE AUTOBUF */
#define AUTOBUF_FTP_BY_ICMP 2U
#define AUTOBUF_FTP_PEER_SETS 4U  /* the server has another command for its buffers, and will be told */

/*
 * A client, before PASV or PORT, with no reply outstanding: measures if that can pay for a transfer of
 * expected_bytes (0: unknown) in a direction, AUTOBUF_INTENT_SENDS or AUTOBUF_INTENT_RECEIVES, and was not done
 * yet, and tells a server with SITE AUTOBUF what to set. A server that does not answer as it should is
 * asked no more. Blocks, as a rule for 3 to 8 round trips in band, for one by ICMP.
 *
 * 1: measured; 0: not, and the log says why. -ECONNRESET, -ETIMEDOUT, AUTOBUF_E_PROTOCOL: the control connection
 * is gone or out of step: close it. -EINVAL: ways, direction, or a server's handle.
 */
AUTOBUF_API int autobuf_ftp_measure(struct autobuf_ftp *ftp, uint32_t ways, uint32_t direction,
                                    uint64_t expected_bytes);

/*
 * After measure() by ICMP: the buffer that a server with another command for it (SITE BUFSIZE, SBUF) is to
 * set, if it is a host like this one; 0: none, leave it to its kernel.
 */
AUTOBUF_API uint64_t autobuf_ftp_peer_bytes(const struct autobuf_ftp *ftp, uint32_t direction);

/*
 * A server, after login: answers a command, the line of len bytes without its CRLF, and all that belongs to it;
 * the reply is sent from here. 1: done; 0: it is not SITE AUTOBUF, nothing was sent. Below 0: the control
 * connection is out of step or gone: say 421 and close it.
 */
AUTOBUF_API int autobuf_ftp_answer(struct autobuf_ftp *ftp, const char *line, size_t len);

/*
 * A new data connection, before connect() to peer, or with peer NULL before listen(); at most one is looked
 * after at a time. 1: something was set; 0: left alone. What was measured counts for the control
 * connection's peer alone. Errors of autobuf_socket_state() and autobuf_apply(): it is as it was.
 */
AUTOBUF_API int autobuf_ftp_data_begin(struct autobuf_ftp *ftp, int fd, const struct sockaddr *peer,
                                       socklen_t peer_len, uint32_t direction,
                                       uint64_t expected_bytes);

/* It is connected, or was accepted from a listener: once for each transfer. As data_begin(). */
AUTOBUF_API int autobuf_ftp_data_connected(struct autobuf_ftp *ftp, int fd, uint32_t direction,
                                           uint64_t expected_bytes);

/* To be called at every turn of the loop that moves the data: looks after it when it is time. 1: something
   was changed; 0. */
AUTOBUF_API int autobuf_ftp_data_step(struct autobuf_ftp *ftp);

/* When it is time; AUTOBUF_NS_UNSET: there is nothing to look after. */
AUTOBUF_API uint64_t autobuf_ftp_data_deadline_ns(const struct autobuf_ftp *ftp);

/* The data connection is about to be closed, or is closed. Also when there is none. */
AUTOBUF_API void autobuf_ftp_data_end(struct autobuf_ftp *ftp);

#ifdef __cplusplus
}
#endif

#endif
