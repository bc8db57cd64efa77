/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/flow.h>: one handle for the life of a connection.
 */
#ifndef AUTOBUF_FLOW_H
#define AUTOBUF_FLOW_H

#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/live.h>
#include <autobuf/tune.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A flow manages one TCP connection for its whole life. Open it for a socket, call step() from the loop that
 * moves the data, close it. No call blocks, and no transfer waits for a measurement.
 *
 *   1. open() does at once what the limits of this host decide without knowing the path: a buffer that was set
 *      smaller than autotuning would make it is given back to autotuning. If the path is known, from the options or
 *      from the path store, open() plans and sets.
 *   2. Once the socket is connected, step() manages the connection, as <autobuf/live.h> describes.
 *   3. If the connection moves, in a round trip, a quarter of the largest window that autotuning gives, and this host
 *      allows a larger one, step() measures the path by ICMP while the transfer goes on, and sets what the path needs.
 *      With AUTOBUF_INTENT_SCAVENGER or AUTOBUF_FLOW_SILENT it never measures.
 *
 * A connection has one flow: a second one would take the first one's pace for the program's.
 *
 * Most transfers end before point 3, and most hosts allow no larger window: then nothing is ever sent.
 *
 *     struct autobuf_flow *flow;
 *     autobuf_flow_open(&flow, fd, addr, addr_len, NULL);
 *     connect(fd, addr, addr_len);
 *     while (there_is_data()) {
 *         poll(..., until(autobuf_flow_deadline_ns(flow)));
 *         write(fd, ...);
 *         autobuf_flow_step(flow, autobuf_now_ns());
 *     }
 *     autobuf_flow_close(flow);
 */
struct autobuf_flow;

/*
 * Opens a flow for the TCP socket fd, which is new, listening or connected. peer: the address that it will connect
 * to; NULL: not known, or the socket is connected. options may be NULL. On a listening socket the flow gives
 * buffers back to autotuning, and later connections inherit that; each accepted connection may have a flow of its
 * own.
 *
 * Returns 0. With AUTOBUF=off too; the flow then does nothing, or with AUTOBUF_FLOW_OBSERVE observes. On failure the
 * socket is as it was: -EINVAL: an option is out of range, peer is no address, or NULL; -ENOMEM; -EOPNOTSUPP: not a TCP
 * socket; -EBADF, -ENOTSOCK; errors of autobuf_limits_host() and autobuf_apply().
 */
AUTOBUF_API int autobuf_flow_open(struct autobuf_flow **flow, int fd, const struct sockaddr *peer,
                                  socklen_t peer_len, const struct autobuf_options *options);

/* The time at which to call step() next. AUTOBUF_NS_UNSET: there is nothing to do, and never will be. */
AUTOBUF_API uint64_t autobuf_flow_deadline_ns(const struct autobuf_flow *flow);

/*
 * Does what is due at now_ns (autobuf_now_ns()). Before deadline_ns() it returns 0 at once, without a system call.
 *
 * Returns 1: it set something; 0: it did not. -ENOTCONN: the connection has ended; -EBADF, -ENOTSOCK, -ESTALE: the
 * descriptor was closed, or belongs to another socket now. After these four the flow can only be closed: it has no
 * deadline any more, and each call returns the same. AUTOBUF_E_FORKED: the parent process opened the flow. Other
 * errors of autobuf_apply(): the socket is as it was before the call, and the flow can be used further.
 */
AUTOBUF_API int autobuf_flow_step(struct autobuf_flow *flow, uint64_t now_ns);

/*
 * Says that the same socket has another descriptor from now on, for callers that hold it only during a call: a
 * duplicate from another process (pidfd_getfd(2)) keeps the connection open as long as it is held. Returns 0; -ESTALE:
 * fd is another socket; -EBADF, -ENOTSOCK, -EINVAL (NULL); AUTOBUF_E_FORKED.
 */
AUTOBUF_API int autobuf_flow_move(struct autobuf_flow *flow, int fd);

/*
 * Hands in a path that became known elsewhere: from another flow's state, autobuf_inband() or a file. The flow
 * plans and sets, and measures no more. Returns 1: it set something; 0: it did not; -EINVAL: path->size, or NULL;
 * -ESTALE: the descriptor is another socket by now; -EBADF, -ENOTSOCK; AUTOBUF_E_FORKED; errors of autobuf_apply(),
 * after which the socket is as it was before the call.
 */
AUTOBUF_API int autobuf_flow_tell(struct autobuf_flow *flow, const struct autobuf_path *path);

/* Fills *applied with what is known and was done so far. Returns 0; -EINVAL: a struct size, or NULL. */
AUTOBUF_API int autobuf_flow_state(const struct autobuf_flow *flow, struct autobuf_applied *applied);

/*
 * Closes the flow, not the connection. Buffers keep their sizes; a pacing rate is put back, and the window clamp of a
 * scavenger. What the flow has measured is handed to autobufd(8), or else kept in the user's path store
 * (<autobuf/paths.h>). NULL is allowed.
 */
AUTOBUF_API void autobuf_flow_close(struct autobuf_flow *flow);

#ifdef __cplusplus
}
#endif

#endif
