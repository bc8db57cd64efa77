/* SPDX-License-Identifier: MIT */
/* Between OpenSSH and libautobuf. */
#include "includes.h"

#include <sys/types.h>
#include <sys/socket.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "openbsd-compat/sys-queue.h"

#include "autobuf-host.h"
#include "autobuf-log.h"
#include "autobuf-ssh.h"
#include "channels.h"
#include "compat.h"
#include "log.h"
#include "misc.h"
#include "packet.h"
#include "ssh2.h"
#include "sshbuf.h"
#include "ssherr.h"

#define MB (1024 * 1024)

/*
 * How much a channel holds in c->input for the peer, and the transport's socket holds unsent: enough to keep the
 * connection busy, and little enough that a keystroke need not wait long.
 */
#define QUEUED_BYTES MB
#define NOTSENT_BYTES (128 * 1024)

/*
 * A sender that has not made itself known queues all its credit, in a buffer of at most 16 MB that it moves at every
 * read once more than some MB wait in it. What its own send buffer holds is in flight; only what the window has beyond
 * that waits. Tried on 400 and 1000 Mbit/s x 100 ms: with the kernel's own 4 MB of tcp_wmem, windows of 6 to 16 MB cost
 * the sender twice the processor time of 4 MB, and are no faster. With a larger tcp_wmem 12 MB are as good as 16.
 */
#define STOCK_LEAST_BYTES (4 * MB)
#define STOCK_MOST_BYTES (12 * MB)

/* c->output has to hold a window: below what an sshbuf can. */
#define WINDOW_MOST_BYTES (96 * MB)

/*
 * Memory blocks of this size or more go back to the kernel when they are freed. Otherwise malloc would keep up to
 * 64 MB of a large buffer.
 */
#define MMAP_BYTES MB

#define RATE_MOST_BIT_PER_S 10000000000ULL

/*
 * The share of AutoBufferMax that is forced for a login: 16 MB by default, as setsockopt() takes it. The
 * kernel makes 32 MB of it, of which 2/3 can be data: a window of 1.7 Gbit/s over 100 ms.
 */
#define FORCED_PART 4

struct autobuf_ssh {
	struct autobuf_flow *flow; /* NULL: the transport is no TCP socket */
	uint32_t intent;           /* AUTOBUF_INTENT_* */
	uint64_t rtt_ns;           /* AUTOBUF_NS_UNSET: unknown */
	uint64_t rtt_min_ns;
	uint64_t most_bytes;
	uint64_t held_bytes; /* of all channels, beyond the windows that they began with */
	uint64_t reserved_bytes; /* the same, with the room in their buffers */
	struct autobuf_host *host; /* what of reserved_bytes comes from */
	int is_bounded;            /* if there is no host, nothing comes */
	int announced;
	int peer_is_patched;
};

struct autobuf_channel {
	struct autobuf_rightsize *rightsize;
	u_int stock_bytes;    /* the window that it began with */
	u_int window_bytes;   /* of local_window, */
	u_int consumed_bytes; /* and of local_consumed: what they were at the last check */
	uint64_t target_bytes; /* the window as it should be */
	uint64_t held_bytes;   /* its part of the connection's */
	uint64_t reserved_bytes;
	char why[64];
	const char *limit; /* that was logged */
	int rekeying;
};

/* --------------------------------------------------------------------------------- connection */

static void
log_flow(void *user, const struct autobuf_event *event)
{
	autobuf_ssh_log("transport: %s", event->text);
}

static int
open_flow(struct autobuf_ssh *a, struct ssh *ssh)
{
	struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
	int fd = ssh_packet_get_connection_out(ssh);

	if (ssh_packet_get_connection_in(ssh) != fd)
		return -EOPNOTSUPP;
	options.flags = AUTOBUF_FLOW_SILENT;
	options.intent = a->intent;
	options.log = log_flow;
	options.most_bytes = MAXIMUM(a->most_bytes / 2, 1); /* of which the kernel makes twice as much */
	return autobuf_flow_open(&a->flow, fd, NULL, 0, &options);
}

static void
sample(struct autobuf_ssh *a, struct ssh *ssh, uint64_t now)
{
	struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
	struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
	int r;

	if (a->flow == NULL || now < autobuf_flow_deadline_ns(a->flow))
		return;
	if ((r = autobuf_flow_step(a->flow, now)) < 0) {
		autobuf_flow_close(a->flow);
		a->flow = NULL;
		if (r == AUTOBUF_E_FORKED) /* ssh -f goes on in a child */
			r = open_flow(a, ssh);
		if (r < 0)
			autobuf_ssh_log("transport: %s", autobuf_strerror(r));
		return;
	}
	applied.live = &state;
	if (autobuf_flow_state(a->flow, &applied) == 0) {
		a->rtt_ns = state.rtt_ns;
		a->rtt_min_ns = state.rtt_min_ns;
	}
}

void
autobuf_ssh_open(struct ssh *ssh, int on, int64_t most_bytes)
{
	struct autobuf_ssh *a;
	int bytes = NOTSENT_BYTES;

	if (!on || autobuf_is_off() || ssh->autobuf != NULL)
		return;
	if ((a = calloc(1, sizeof *a)) == NULL)
		return;
	autobuf_ssh_log_open();
	ssh->autobuf = a;
	a->intent = on == AUTOBUF_SSH_SCAVENGER ? AUTOBUF_INTENT_SCAVENGER :
	    AUTOBUF_INTENT_THROUGHPUT;
	a->most_bytes = (uint64_t)most_bytes;
	a->rtt_ns = a->rtt_min_ns = AUTOBUF_NS_UNSET;
#ifdef M_MMAP_THRESHOLD
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
#endif
	if (open_flow(a, ssh) < 0) {
		autobuf_ssh_log("the transport is not a TCP socket: "
		    "RTTs are those of channel data");
		return;
	}
	(void)setsockopt(ssh_packet_get_connection_out(ssh), IPPROTO_TCP,
	    TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
	sample(a, ssh, autobuf_now_ns());
	autobuf_ssh_log("transport: RTT %.3f ms, "
	    "windows up to %llu bytes",
	    a->rtt_ns == AUTOBUF_NS_UNSET ? 0.0 : (double)a->rtt_ns / 1e6,
	    (unsigned long long)a->most_bytes);
}

void
autobuf_ssh_wait(struct ssh *ssh, struct timespec *timeout)
{
	struct autobuf_ssh *a = ssh->autobuf;
	uint64_t now, next;

	if (a == NULL || a->intent != AUTOBUF_INTENT_SCAVENGER)
		return;
	now = autobuf_now_ns();
	sample(a, ssh, now);
	if (a->flow == NULL ||
	    (next = autobuf_flow_deadline_ns(a->flow)) == AUTOBUF_NS_UNSET)
		return;
	ptimeout_deadline_ms(timeout,
	    next > now ? (long)((next - now + 999999) / 1000000) : 0);
}

void
autobuf_ssh_bound(struct ssh *ssh, struct autobuf_host *host)
{
	if (ssh->autobuf == NULL) {
		autobuf_host_close(host);
		return;
	}
	ssh->autobuf->host = host;
	ssh->autobuf->is_bounded = 1;
}

void
autobuf_ssh_close(struct ssh *ssh)
{
	if (ssh->autobuf == NULL)
		return;
	autobuf_host_close(ssh->autobuf->host);
	autobuf_flow_close(ssh->autobuf->flow);
	free(ssh->autobuf);
	ssh->autobuf = NULL;
}

void
autobuf_ssh_announce(struct ssh *ssh)
{
	struct autobuf_ssh *a = ssh->autobuf;
	int r;

	if (a == NULL || a->announced || (ssh->compat & SSH_NEW_OPENSSH) == 0 ||
	    ssh_packet_get_mux(ssh))
		return;
	a->announced = 1;
	if ((r = sshpkt_start(ssh, SSH2_MSG_GLOBAL_REQUEST)) != 0 ||
	    (r = sshpkt_put_cstring(ssh, AUTOBUF_SSH_REQUEST)) != 0 ||
	    (r = sshpkt_put_u8(ssh, 0)) != 0 ||
	    (r = sshpkt_send(ssh)) != 0)
		fatal_fr(r, "send");
}

int
autobuf_ssh_request(struct ssh *ssh, const char *type)
{
	if (strcmp(type, AUTOBUF_SSH_REQUEST) != 0)
		return 0;
	if (ssh->autobuf != NULL) {
		autobuf_ssh_log("the peer queues little whatever its window");
		ssh->autobuf->peer_is_patched = 1;
	}
	return 1;
}

void
autobuf_ssh_force(struct ssh *ssh, int64_t most_bytes)
{
	struct autobuf_path path = AUTOBUF_PATH_INIT;
	struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
	struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
	struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
	int fd = ssh_packet_get_connection_out(ssh), r;

	if (autobuf_limits_host(&limits) < 0 ||
	    autobuf_socket_state(fd, &socket) < 0 || socket.rtt_min_ns == AUTOBUF_NS_UNSET)
		return;
	limits.request_most_bytes = MAXIMUM((uint64_t)most_bytes / FORCED_PART, 1);
	path.rtt_min_ns = path.rtt_median_ns = socket.rtt_min_ns;
	path.tx_rate_bit_per_s = MINIMUM(RATE_MOST_BIT_PER_S,
	    (uint64_t)((double)most_bytes * 8e9 / (double)socket.rtt_min_ns));
	path.tx_bdp_bytes = (uint64_t)((double)path.tx_rate_bit_per_s / 8e9 *
	    (double)socket.rtt_min_ns);
	if (autobuf_plan_make(&path, &limits, &socket,
	    AUTOBUF_INTENT_THROUGHPUT | AUTOBUF_INTENT_SENDS, 0, &plan) < 0 ||
	    (plan.flags & AUTOBUF_PLAN_SND_FORCE) == 0)
		return;
	r = autobuf_apply(fd, &plan);
	autobuf_ssh_log("login: send buffer %llu: %s",
	    (unsigned long long)plan.snd_request_bytes,
	    r < 0 ? autobuf_strerror(r) : "a path as long as this may hold it");
}

/* ------------------------------------------------------------------------------------ channels */

/* The window that comes of it may be another one than the event's. */
static void
note_why(void *user, const struct autobuf_event *event)
{
	struct autobuf_channel *b = user;

	strlcpy(b->why, event->why, sizeof b->why);
}

static struct autobuf_channel *
open_channel(struct Channel *c, uint64_t most_bytes)
{
	struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
	struct autobuf_channel *b;

	if (c->local_window_max == 0 ||
	    (b = calloc(1, sizeof *b)) == NULL)
		return NULL;
	b->stock_bytes = b->target_bytes = c->local_window_max;
	b->window_bytes = c->local_window;
	b->consumed_bytes = c->local_consumed;
	options.window_bytes = b->stock_bytes;
	options.cap_bytes = MAXIMUM(b->stock_bytes,
	    MINIMUM(most_bytes + b->stock_bytes, WINDOW_MOST_BYTES));
	options.log = note_why;
	options.log_user = b;
	if (autobuf_rightsize_open(&b->rightsize, &options) < 0) {
		free(b);
		return NULL;
	}
	return b;
}

/*
 * The window for a peer that has not made itself known: one and a half of the path's BDP while the window is the
 * bottleneck, and five quarters once it is not.
 */
static uint64_t
stock_cap(const struct autobuf_channel *b)
{
	struct autobuf_rightsize_state state = AUTOBUF_RIGHTSIZE_STATE_INIT;
	uint64_t bdp, wanted;

	if (autobuf_rightsize_state(b->rightsize, &state) < 0)
		return STOCK_LEAST_BYTES;
	bdp = (uint64_t)((double)state.best_byte_per_s *
	    (double)state.rtt_min_ns / 1e9);
	if (bdp < STOCK_LEAST_BYTES / 8 * 7)
		return STOCK_LEAST_BYTES;
	wanted = bdp + bdp / (bdp >= b->target_bytes / 8 * 7 ? 2 : 4);
	return MINIMUM((wanted + MB - 1) / MB * MB, STOCK_MOST_BYTES);
}

/* What a buffer for a window may allocate: sshbuf_fit(). */
static uint64_t
with_room(uint64_t window)
{
	return window + window / 4;
}

/* The largest window, up to this one, for which this host's memory has room. */
static uint64_t
fit_to_host(struct autobuf_ssh *a, const struct autobuf_channel *b,
    uint64_t window, uint64_t now)
{
	uint64_t others = a->reserved_bytes - b->reserved_bytes, has = 0;
	uint64_t wanted = others + with_room(window) - b->stock_bytes;

	if (a->host != NULL)
		has = autobuf_host_have(a->host, wanted, now);
	if (has >= wanted)
		return window;
	return (has - MINIMUM(has, others) + b->stock_bytes) / 5 * 4;
}

/*
 * The window to use, from what the path needs: bounded by the connection's share, by what the peer can handle, and by
 * the host's memory.
 */
static uint64_t
target_of(struct ssh *ssh, const struct Channel *c, uint64_t window,
    uint64_t now, const char **why)
{
	struct autobuf_ssh *a = ssh->autobuf;
	const struct autobuf_channel *b = c->autobuf;
	uint64_t others = a->held_bytes - b->held_bytes;
	uint64_t share = a->most_bytes - MINIMUM(a->most_bytes, others), cap;

	share = MINIMUM(share + b->stock_bytes, WINDOW_MOST_BYTES);
	*why = b->why;
	if (window > share) {
		window = share;
		*why = "AutoBufferMax";
	}
	if (!a->peer_is_patched && window > (cap = stock_cap(b))) {
		window = cap;
		*why = "the peer would copy what it queues";
	}
	if (a->is_bounded && window > b->stock_bytes &&
	    window > (cap = fit_to_host(a, b, window, now))) {
		window = cap;
		*why = "AutoBufferHost";
	}
	return MAXIMUM(window, b->stock_bytes);
}

/* Credit cannot be recalled: a window shrinks when consumed credit is not granted again. */
static void
resize(struct Channel *c, uint64_t window)
{
	u_int change;

	if (window > c->local_window_max) {
		change = (u_int)(window - c->local_window_max);
		c->local_window_max += change;
		c->local_consumed += change;
	} else {
		change = (u_int)MINIMUM(c->local_window_max - window,
		    c->local_consumed);
		c->local_window_max -= change;
		c->local_consumed -= change;
	}
}

/*
 * What a channel counts for: its window, which the peer may fill at any time, or the memory of the data for its
 * local reader, whichever is more. That memory may outlast a window that shrinks.
 */
static void
count_held(struct autobuf_ssh *a, struct Channel *c)
{
	struct autobuf_channel *b = c->autobuf;
	uint64_t output = sshbuf_fit(c->output, c->local_window_max);
	uint64_t memory = output +
	    sshbuf_fit(c->extended, c->local_window_max);
	uint64_t room = with_room(MAXIMUM(b->target_bytes, c->local_window_max));

	a->held_bytes -= b->held_bytes;
	b->held_bytes = MAXIMUM(memory, c->local_window_max) - b->stock_bytes;
	a->held_bytes += b->held_bytes;

	a->reserved_bytes -= b->reserved_bytes;
	b->reserved_bytes = MAXIMUM(output, room) - b->stock_bytes;
	if (MAXIMUM(output, room) <= with_room(b->stock_bytes))
		b->reserved_bytes = 0; /* no more than it began with */
	a->reserved_bytes += b->reserved_bytes;
	if (a->host != NULL)
		autobuf_host_keep(a->host, a->reserved_bytes);
}

/* Tells a change of the window, and once what keeps it from growing. */
static void
log_target(const struct Channel *c, uint64_t target, const char *why)
{
	struct autobuf_channel *b = c->autobuf;
	const char *limit = why != b->why ? why : NULL;

	if (target != b->target_bytes)
		autobuf_ssh_log("channel %d: window %llu -> %llu: %s", c->self,
		    (unsigned long long)b->target_bytes,
		    (unsigned long long)target, why);
	else if (limit != NULL && limit != b->limit)
		autobuf_ssh_log("channel %d: window stays at %llu: %s", c->self,
		    (unsigned long long)target, why);
	if (limit != NULL)
		b->limit = limit;
}

void
autobuf_channel_check(struct ssh *ssh, struct Channel *c)
{
	struct autobuf_ssh *a = ssh->autobuf;
	struct autobuf_channel *b;
	uint64_t now, window, target;
	const char *why;

	if (a == NULL || c->type != SSH_CHANNEL_OPEN || c->datagram)
		return;
	now = autobuf_now_ns();
	sample(a, ssh, now);
	if (c->autobuf == NULL) {
		if ((c->autobuf = open_channel(c, a->most_bytes)) == NULL)
			return;
		autobuf_rightsize_rtt(c->autobuf->rightsize, a->rtt_min_ns);
	}
	b = c->autobuf;
	autobuf_rightsize_rtt(b->rightsize, a->rtt_ns);
	if (c->local_window < b->window_bytes)
		autobuf_rightsize_received(b->rightsize, now,
		    b->window_bytes - c->local_window);
	window = autobuf_rightsize_consumed(b->rightsize, now,
	    c->local_consumed - b->consumed_bytes);
	if (ssh_packet_is_rekeying(ssh) || b->rekeying)
		autobuf_rightsize_gap(b->rightsize, now);
	b->rekeying = ssh_packet_is_rekeying(ssh);
	target = target_of(ssh, c, window, now, &why);
	log_target(c, target, why);
	b->target_bytes = target;
	if (c->local_consumed > b->consumed_bytes)
		resize(c, target);
	count_held(a, c);
	b->window_bytes = c->local_window;
	b->consumed_bytes = c->local_consumed;
}

void
autobuf_channel_granted(struct ssh *ssh, struct Channel *c)
{
	struct autobuf_channel *b = c->autobuf;

	if (b == NULL)
		return;
	autobuf_rightsize_granted(b->rightsize, autobuf_now_ns(), b->consumed_bytes);
	b->window_bytes = c->local_window;
	b->consumed_bytes = c->local_consumed;
}

u_int
autobuf_channel_waits(struct ssh *ssh, struct Channel *c)
{
	u_int waits = 0;

	if (ssh->autobuf == NULL)
		return 0;
	if (sshbuf_len(c->input) >= QUEUED_BYTES)
		waits |= SSH_CHAN_IO_RFD;
	if (sshbuf_len(c->extended) >= QUEUED_BYTES)
		waits |= SSH_CHAN_IO_EFD_R;
	return waits;
}

void
autobuf_channel_free(struct ssh *ssh, struct Channel *c)
{
	struct autobuf_ssh *a = ssh->autobuf;
	struct autobuf_channel *b = c->autobuf;

	if (b == NULL)
		return;
	if (a != NULL) {
		a->held_bytes -= b->held_bytes;
		a->reserved_bytes -= b->reserved_bytes;
		if (a->host != NULL)
			autobuf_host_keep(a->host, a->reserved_bytes);
	}
	autobuf_rightsize_close(b->rightsize);
	free(b);
	c->autobuf = NULL;
}
