/* SPDX-License-Identifier: MIT */
#ifndef AB_PROBE_H
#define AB_PROBE_H

#include "schedule.h"

/* Steps a probe until it is finished. 1, or an error of autobuf_probe_step() or ppoll(2). */
int ab_probe_finish(struct autobuf_probe *probe);

/*
 * Opens a handle without a socket, of which the schedule tells what to send: for simulations. family: AF_INET or AF_INET6;
 * now_ns: on a clock of the caller's choice. deadline_ns(), result(), progress(), rates() and close() take this handle, too.
 * 0; -EINVAL: an option; -ENOMEM.
 */
int ab_probe_open_pure(struct autobuf_probe **probe, int family, uint16_t ident, const uint8_t token[16], uint64_t now_ns,
                       const struct autobuf_probe_options *options);
struct ab_schedule *ab_probe_schedule(struct autobuf_probe *probe);

#endif
