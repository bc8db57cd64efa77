/* SPDX-License-Identifier: MIT */
#include "transfers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/wait.h"
#include "measure.h"
#include "show_transfer.h"

#define CONNECT_NS (5 * AB_NS_PER_S)
#define SHOW_NS (AB_NS_PER_S / 5)

/* What a linked program does before connect(). */
static int open_flow(struct autobuf_flow **flow, int fd, const struct transferring *want, bool receives)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = want->intent | (receives ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS);
    options.flags = AUTOBUF_FLOW_SILENT; /* also where one direction of the path is unknown */
    options.path = want->path;
    return autobuf_flow_open(flow, fd, want->peer, want->peer_len, &options);
}

/* Steps until it is over, and shows how it goes on. */
static int run(struct transfer *t, const struct transferring *want)
{
    struct transfer_picture picture = {.begin_ns = autobuf_now_ns()};
    uint64_t show_ns = want->progress ? picture.begin_ns + SHOW_NS : AUTOBUF_NS_UNSET;
    int result;

    for (;;) {
        uint64_t now_ns = autobuf_now_ns(), until_ns;

        result = transfer_step(t, now_ns, TRANSFER_CHUNK_BYTES);
        if (result != 0)
            break;
        if (now_ns >= show_ns) {
            show_transfer_progress(stderr, &picture, t, now_ns);
            show_ns = now_ns + SHOW_NS;
        }
        until_ns = transfer_deadline_ns(t);
        result = ab_wait(t->fd, transfer_events(t, true, now_ns), show_ns < until_ns ? show_ns : until_ns);
        if (result < 0)
            break;
    }
    if (want->progress)
        fputs("\r\033[K", stderr);
    return result < 0 ? result : 0;
}

/* One transfer on a new socket. */
static int make(int fd, struct transferring *want, struct transfer_result *r)
{
    struct transfer_line ask = {.verb = TRANSFER_ASK, .number = want->seconds};
    struct autobuf_flow *flow = NULL;
    struct transfer t;
    const uint64_t *arrived;
    int error = want->source ? source_bind(fd, want->source) : 0;

    ask.values[TRANSFER_RECEIVE] = r->receives;
    ask.values[TRANSFER_TUNED] = r->tuned;
    if (error == 0 && r->tuned)
        error = open_flow(&flow, fd, want, r->receives);
    if (error == 0)
        error = connect_until(fd, want->peer, want->peer_len, autobuf_now_ns() + CONNECT_NS);
    if (error < 0) {
        autobuf_flow_close(flow);
        return error;
    }
    error = transfer_open(&t, fd, false, &ask, flow, autobuf_now_ns());
    if (error == 0)
        error = run(&t, want);
    r->code = t.code;
    want->seconds = t.seconds;
    r->sender = *transfer_senders(&t);
    arrived = (r->receives ? &t.own : &t.peers)->values;
    r->bytes = arrived[TRANSFER_BYTES];
    r->elapsed_ns = arrived[TRANSFER_NSEC];
    r->rate_bit_per_s = transfer_rate(&t);
    transfer_close(&t);
    return error == 0 && !r->rate_bit_per_s ? AUTOBUF_E_NOREPLY : error;
}

void transfers_run(struct transferring *want, struct transfer_result results[TRANSFERS])
{
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer_result *r = &results[i];
        int fd;

        if (i > 0 && results[i - 1].error == AUTOBUF_E_UNSUPPORTED) {
            r->error = results[i - 1].error;
            r->code = results[i - 1].code;
        }
        r->receives = i >= RECEIVING_DEFAULT;
        r->tuned = i % 2;
        if (r->error < 0)
            continue;
        fd = socket(want->peer->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r->error = fd < 0 ? -errno : make(fd, want, r);
        if (fd >= 0)
            close(fd);
    }
}
