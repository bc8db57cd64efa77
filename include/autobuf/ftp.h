/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/ftp.h>: FTP: a control connection and its data connections. <autobuf/autobuf.h> does not include it.
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
 * For FTP clients and servers. The path is measured over the control connection, or by ICMP. What was found is set
 * on the data connections between the same two hosts: on the receive side before listen() or connect(), on the send
 * side once the peer is known. Each data connection is then managed as <autobuf/live.h> describes. Any other
 * protocol with one connection for control and others for data can use it too.
 *
 * There is one handle for a session. It reads this host's limits when it is opened; open it before the program
 * calls chroot(2) or gives privilege up. It sends nothing except on the control connection, and echoes to that
 * one's peer.
 */
struct autobuf_ftp;

#define AUTOBUF_FTP_CLIENT 1U
#define AUTOBUF_FTP_SERVER 2U

/*
 * If TLS wraps the control connection, the program gives the library these two functions. Each moves up to len
 * bytes before deadline_ns, and returns how many it moved, 0 at the end of the connection, or a negative errno
 * (-ETIMEDOUT). read() also stores the monotonic time at which the last byte arrived. write() may put each
 * segment_bytes into a TLS record of its own.
 */
typedef int64_t autobuf_ftp_read_fn(void *user, void *buf, size_t len, uint64_t deadline_ns, uint64_t *stamp_ns);
typedef int64_t autobuf_ftp_write_fn(void *user, const void *buf, size_t len, size_t segment_bytes,
                                     uint64_t deadline_ns);

struct autobuf_ftp_options {
    uint32_t size;
    uint32_t record_bytes;      /* what a TLS record takes besides its payload; 0: no TLS */
    uint64_t most_bytes;        /* largest buffer to set, as setsockopt() takes it; 0: what the host
                                   allows for a client, 16,000,000 for a server, because there the
                                   clients say what they want */
    autobuf_log_fn *log;        /* is told what was measured, decided and set; NULL: none */
    void *log_user;
    autobuf_ftp_read_fn *read;  /* set both or none; NULL: the library reads and writes the socket */
    autobuf_ftp_write_fn *write;
    void *io_user;              /* handed to both */
    uint32_t intent;            /* of data connections: AUTOBUF_INTENT_LOW_DELAY, AUTOBUF_INTENT_SCAVENGER, or 0 */
    uint32_t reserved;          /* 0 */
};

#define AUTOBUF_FTP_OPTIONS_INIT AUTOBUF_INIT(autobuf_ftp_options)

/*
 * Opens a handle for a session. role: AUTOBUF_FTP_CLIENT or AUTOBUF_FTP_SERVER. control_fd: the connected control
 * connection. options may be NULL. Returns 0; -EINVAL: the role, an option, or NULL; -EOPNOTSUPP: not a TCP socket;
 * -ENOTCONN, -ENOMEM, -EBADF, -ENOTSOCK; AUTOBUF_E_OFF: AUTOBUF=off is in the environment.
 */
AUTOBUF_API int autobuf_ftp_open(struct autobuf_ftp **ftp, uint32_t role, int control_fd,
                                 const struct autobuf_ftp_options *options);

/* Closes the handle, but no connection. NULL is allowed. */
AUTOBUF_API void autobuf_ftp_close(struct autobuf_ftp *ftp);

#define AUTOBUF_FTP_BY_INBAND 1U /* the server lists SITE AUTOBUF in FEAT or HELP SITE */
#define AUTOBUF_FTP_BY_ICMP 2U   /* echoes to the control connection's peer */
#define AUTOBUF_FTP_PEER_SETS 4U  /* the client will tell the server by another command what to set */

/*
 * A client calls this before PASV or PORT, when no reply is outstanding. It measures once per direction, if a
 * transfer of expected_bytes (0: unknown) is large enough to gain from it, and tells a server that has SITE AUTOBUF
 * what to set. direction: AUTOBUF_INTENT_SENDS or AUTOBUF_INTENT_RECEIVES. ways: AUTOBUF_FTP_BY_* bits, and
 * AUTOBUF_FTP_PEER_SETS. If the server gives a wrong answer, it is not asked again. The call blocks: in band
 * usually for 3 to 8 round trips, by ICMP for one.
 *
 * What must be known before a data connection is measured: the server's buffers, and a receive window that this
 * host's kernel would not make large enough. For an upload that is rare: as a rule the call returns 0 at once, and
 * data_step() measures beside the data, by echoes if AUTOBUF_FTP_BY_ICMP allows them.
 *
 * Returns 1: it measured; 0: it did not, and the log says why. -ECONNRESET, -ETIMEDOUT, AUTOBUF_E_PROTOCOL: the
 * control connection cannot be used any more; close it. -EINVAL: the ways, the direction, a server's handle, or
 * NULL. -ENOMEM. AUTOBUF_E_FORKED: the parent process opened the session.
 */
AUTOBUF_API int autobuf_ftp_measure(struct autobuf_ftp *ftp, uint32_t ways, uint32_t direction,
                                    uint64_t expected_bytes);

/*
 * Says whether measure() would measure now; it sends nothing. A client that would have to ask the server for a
 * file's size can ask this first, with expected_bytes 0. Returns 1, 0, or -EINVAL as measure().
 */
AUTOBUF_API int autobuf_ftp_worth(const struct autobuf_ftp *ftp, uint32_t ways, uint32_t direction,
                                  uint64_t expected_bytes);

/*
 * After measure() by ICMP: the buffer for which a client should ask a server that has another command for that,
 * such as SITE BUFSIZE or SBUF. The number supposes that the server's host is like this one. 0: ask for none.
 */
AUTOBUF_API uint64_t autobuf_ftp_peer_bytes(const struct autobuf_ftp *ftp, uint32_t direction);

/*
 * A server hands each command to this call after login: the line of len bytes, without CRLF. If it is SITE AUTOBUF,
 * the call carries the command out and sends the reply itself. Returns 1: done; 0: it is another command, or nothing
 * can be measured over this connection, and nothing was sent. Below 0: the control connection cannot be used any more:
 * send 421 and close it (but nothing after AUTOBUF_E_FORKED: it is the parent's).
 */
AUTOBUF_API int autobuf_ftp_answer(struct autobuf_ftp *ftp, const char *line, size_t len);

/*
 * Prepares the socket of a new data connection. Call it before connect(), with the address in peer, or before
 * listen(), with peer NULL. At most one data connection is looked after at a time. What was measured is used only
 * if the peer is the control connection's peer. Returns 1: it set something; 0: it left the socket alone; -EINVAL;
 * AUTOBUF_E_FORKED; errors of autobuf_socket_state() and autobuf_apply(), after which the socket is as it was.
 */
AUTOBUF_API int autobuf_ftp_data_begin(struct autobuf_ftp *ftp, int fd, const struct sockaddr *peer,
                                       socklen_t peer_len, uint32_t direction,
                                       uint64_t expected_bytes);

/*
 * Call it once for each transfer, when the data connection is connected or was accepted. Returns as data_begin().
 */
AUTOBUF_API int autobuf_ftp_data_connected(struct autobuf_ftp *ftp, int fd, uint32_t direction,
                                           uint64_t expected_bytes);

/*
 * Call it in every turn of the loop that moves the data. When it is due, it manages the data connection.
 * Returns 1: it changed something; 0: it did not.
 */
AUTOBUF_API int autobuf_ftp_data_step(struct autobuf_ftp *ftp);

/* The time at which data_step() is due; AUTOBUF_NS_UNSET: there is nothing to look after. */
AUTOBUF_API uint64_t autobuf_ftp_data_deadline_ns(const struct autobuf_ftp *ftp);

/* Says that the data connection will be closed or is closed. It may be called when there is none. */
AUTOBUF_API void autobuf_ftp_data_end(struct autobuf_ftp *ftp);

#ifdef __cplusplus
}
#endif

#endif
