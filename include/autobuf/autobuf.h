/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/autobuf.h>: the whole public surface of libautobuf, but for <autobuf/ftp.h>. One header a topic.
 *
 * Rules that hold for every call:
 *   - 0 or a positive value is success, a negative value is failure: a negative errno, or one of
 *     AUTOBUF_E_* (below -4095). autobuf_strerror() tells each in words.
 *   - Quantities carry their unit: _ns, _bytes, _bit_per_s. Times are CLOCK_MONOTONIC nanoseconds;
 *     AUTOBUF_NS_UNSET is "no time", or a time that is not known. In options a time of 0 is the default. A
 *     rate or size of 0 is "unknown".
 *   - Public structs begin with `size`: set them up with their _INIT macro, or, from a language without
 *     macros, with the function of the same name: autobuf_path_init(&path, sizeof path). They grow at the
 *     end only; what an older program's struct has no room for is not written.
 *   - NULL where a struct or a handle is needed is -EINVAL. A call that returns no errors does nothing then,
 *     and returns 0, or AUTOBUF_NS_UNSET for a time. close() takes NULL.
 *   - Handles are opaque, one thread at a time each, and dead in a forked child (AUTOBUF_E_FORKED).
 *   - The library never prints, exits, forks, starts a thread or touches a signal handler; only
 *     bwdelay(host) resolves names.
 *   - Names of directions: a path has tx (from here to the peer) and rx (from the peer to here); a socket has a
 *     snd and a rcv side, each with its buffer; a program SENDS or RECEIVES bulk data (its intent). What has
 *     moved was sent or received.
 *   - AUTOBUF in the environment, read when the library is loaded and ignored in setuid programs: "off" turns
 *     every act into "left alone": autobuf_tune() and autobuf_apply() change nothing and measure nothing.
 *     "log" says on standard error what a handle's log says, "log=FILE" appends it to a file.
 */
#ifndef AUTOBUF_AUTOBUF_H
#define AUTOBUF_AUTOBUF_H

#include <autobuf/bwdelay.h>
#include <autobuf/error.h>
#include <autobuf/flow.h>
#include <autobuf/inband.h>
#include <autobuf/live.h>
#include <autobuf/path.h>
#include <autobuf/plan.h>
#include <autobuf/probe.h>
#include <autobuf/rightsize.h>

#endif
