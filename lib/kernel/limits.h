/* SPDX-License-Identifier: MIT */
/* This host's limits, of which some change while a process runs. */
#ifndef AB_LIMITS_H
#define AB_LIMITS_H

#include "../base/base.h"

/* Looks once more at what a process may set, which changes with its privilege; the rest stays. 0, -errno. */
int ab_limits_refresh(struct autobuf_limits *limits);

/* Looks once more at what TCP and all forced send buffers hold, if this process may force one. */
void ab_limits_forced(struct autobuf_limits *limits);

#endif
