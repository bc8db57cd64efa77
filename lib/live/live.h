/* SPDX-License-Identifier: MIT */
#ifndef AB_LIVE_H
#define AB_LIVE_H

#include "../base/base.h"

/* autobuf_live_open(), within limits that are known. */
int ab_live_open(struct autobuf_live **live, int fd, const struct autobuf_live_options *options,
                 const struct autobuf_limits *limits);

#endif
