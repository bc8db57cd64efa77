/* SPDX-License-Identifier: MIT */
#ifndef AB_PROBE_H
#define AB_PROBE_H

#include "../base/base.h"

/* Steps a probe until it is finished. 1, or an error of autobuf_probe_step() or ppoll(2). */
int ab_probe_finish(struct autobuf_probe *probe);

#endif
