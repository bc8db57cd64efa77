/* SPDX-License-Identifier: MIT */
/*
 * The functions that OpenSSH calls; the file is the same for each version of OpenSSH. They do nothing if AutoBuffer
 * is off, that is, as long as autobuf_ssh_open() was not called with on set.
 */
#ifndef AUTOBUF_SSH_H
#define AUTOBUF_SSH_H

#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

struct autobuf_host;
struct Channel;
struct passwd;
struct ssh;

/* Default of AutoBufferMax, and the most that it may be. */
#define AUTOBUF_SSH_MOST_BYTES (64 * 1024 * 1024)
#define AUTOBUF_SSH_LIMIT_BYTES (1024 * 1024 * 1024)

/* The global request by which a patched peer makes itself known; want_reply is false, no data. A name has a
   domain of its maker (RFC 4251, section 6): this is one that nobody can own. */
#define AUTOBUF_SSH_REQUEST "autobuf@libautobuf.invalid"

/* ------------------------------------------------------------------------------------- options */

/* AutoBufferMax: 1 byte to AUTOBUF_SSH_LIMIT_BYTES, K, M and G being known. -1: not that. */
int autobuf_ssh_size(const char *text, long long *bytes);

/* --------------------------------------------------------------------------------- connection */

#define AUTOBUF_SSH_SCAVENGER 2 /* on, and it takes only what other connections leave of the path */

/*
 * After authentication: manages the transport's socket from now on (where it is one of TCP), and lets
 * channel windows grow, up to most_bytes for all together. on: 0, 1, or AUTOBUF_SSH_SCAVENGER. A second call does
 * nothing. Limits are read in /proc, so call it before a chroot, but with the privilege that will be there afterwards.
 */
void autobuf_ssh_open(struct ssh *ssh, int on, int64_t most_bytes);

/*
 * Call it before each poll(), with its timeout. A connection that yields is sampled in time, also while nothing of it
 * can be read or written: the timeout becomes no longer than until the next sample. Others do without.
 */
void autobuf_ssh_wait(struct ssh *ssh, struct timespec *timeout);

/*
 * For a server, after autobuf_ssh_open(): windows grow only as far as this host's memory has room for the windows of
 * all connections. NULL: they do not grow. The connection closes it.
 */
void autobuf_ssh_bound(struct ssh *ssh, struct autobuf_host *host);

/* The connection ends. Channels may still be freed afterwards. */
void autobuf_ssh_close(struct ssh *ssh);

/* Makes itself known to an OpenSSH peer, once. */
void autobuf_ssh_announce(struct ssh *ssh);

/* Says whether a global request is the one by which a peer makes itself known. */
int autobuf_ssh_request(struct ssh *ssh, const char *type);

/*
 * For a server that still has its privilege: makes room in the transport's send buffer for what the path might hold
 * (10 Gbit/s times its RTT) if net.core.wmem_max does not; at most a quarter of most_bytes, as
 * setsockopt() takes it.
 */
void autobuf_ssh_force(struct ssh *ssh, int64_t most_bytes);

/* ---------------------------------------------------------------------------------------- sshd */

/*
 * sshd calls it after authentication, in the user's process: as root and before a chroot, for the settings and the
 * file of the host are root's, and limits are in /proc. The connection is opened with the privilege of pw. NULL: with
 * that of the process, for a release that leaves root's out. A second call does nothing.
 */
void autobuf_sshd_open(struct passwd *pw);

/* ------------------------------------------------------------------------------------ channels */

/*
 * Call it before the window is checked: it takes account of what came, and adds to (or withholds from)
 * local_consumed and local_window_max.
 */
void autobuf_channel_check(struct ssh *ssh, struct Channel *c);

/* local_consumed has just been granted. */
void autobuf_channel_granted(struct ssh *ssh, struct Channel *c);

/*
 * Returns those events that a channel wants (SSH_CHAN_IO_*) which have to wait, because as much is queued for the
 * peer already as the connection can take soon.
 */
u_int autobuf_channel_waits(struct ssh *ssh, struct Channel *c);

void autobuf_channel_free(struct ssh *ssh, struct Channel *c);

#endif
