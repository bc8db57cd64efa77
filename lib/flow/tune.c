/* SPDX-License-Identifier: MIT */
/* autobuf_tune(): measure, plan and apply, in one call. */
#include <errno.h>
#include <stdlib.h>

#include "../icmp/probe.h"
#include "../plan/plan.h"
#include "flow.h"

/*
 * Measures the path if that can gain more than it costs, and waits for the result. A failure is no error of the call,
 * also -EINVAL, which the kernel returns for a blackhole route.
 */
static void measure(struct ab_decision *d, int fd)
{
    struct autobuf_probe_options probe;

    if (!ab_decide_worth(d, &probe)) {
        if (d->peer_len && !d->measured)
            ab_log(&d->log, "not measured: it would change nothing, or cost more time than it could save");
        return;
    }
    ab_decide_record_route(d, fd);
    ab_decide_measured(d, ab_probe_like(fd, (struct sockaddr *)&d->peer, d->peer_len, &probe, &d->path));
}

static bool wants_limits(const struct autobuf_applied *theirs)
{
    struct autobuf_applied applied;

    return theirs && ab_struct_in(&applied, sizeof applied, theirs) && applied.limits;
}

static int decide(struct ab_decision *d, int fd, bool skip_short)
{
    int error;

    if (skip_short && ab_decide_is_short(d) && !autobuf_is_off()) {
        ab_log(&d->log, "not measured: the transfer is too short to gain from it");
        ab_plan_nothing(AUTOBUF_REASON_KERNEL, d->options.intent, &d->plan);
        return 0;
    }
    error = ab_decide_within(d);
    if (error < 0)
        return error;
    if (autobuf_is_off()) {
        d->measured = AUTOBUF_E_OFF;
        ab_plan_nothing(AUTOBUF_REASON_OFF, d->options.intent, &d->plan);
        return 0;
    }
    ab_decide_recall(d, fd);
    measure(d, fd);
    return ab_decide_plan(d, fd);
}

static int apply_decision(struct ab_decision *d, int fd)
{
    int result;

    if (d->options.flags & AUTOBUF_FLOW_OBSERVE)
        return 0;
    result = autobuf_apply(fd, &d->plan);
    return ab_decide_without_privilege(d, fd, result) ? autobuf_apply(fd, &d->plan) : result;
}

int autobuf_tune(int fd, const struct sockaddr *peer, socklen_t peer_len,
                 const struct autobuf_options *options, struct autobuf_applied *applied)
{
    struct ab_decision *d;
    int error;

    if (applied && ab_decide_reports(applied) < 0)
        return -EINVAL;
    d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    error = ab_decide_begin(d, fd, peer, peer_len, options);
    if (error == 0)
        error = decide(d, fd, !wants_limits(applied));
    if (error == 0)
        error = apply_decision(d, fd);
    if (error >= 0) {
        ab_plan_log(&d->plan, &d->log);
        ab_decide_keep(d);
        if (applied)
            ab_decide_report(d, applied);
    }
    free(d);
    return error;
}
