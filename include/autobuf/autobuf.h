/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/autobuf.h>: all public headers of libautobuf, except <autobuf/ftp.h>. Each topic has one header.
 *
 * Rules that hold for every call:
 *   - Success is 0 or a positive value. Failure is a negative errno, or one of AUTOBUF_E_* (below -4095).
 *     autobuf_strerror() puts each in words. errno is not a result.
 *   - Quantities carry their unit: _ns, _bytes, _bit_per_s. Times are CLOCK_MONOTONIC nanoseconds, which
 *     autobuf_now_ns() reads. AUTOBUF_NS_UNSET means "no time", or that the time is not known. A rate or size of 0 is
 *     unknown, and so is a time of 0 in what a program hands in; in options 0 selects the default.
 *   - Public structs begin with `size`. Set a struct up with its _INIT macro, which sets the size and zeroes the rest.
 *     Structs grow at the end only. The library does not write fields for which an older program's struct has no room.
 *   - A call returns -EINVAL if it needs a struct or a handle and gets NULL. A call that returns no errors does
 *     nothing then, and returns 0, or AUTOBUF_NS_UNSET for a time. The calls that close a handle accept NULL.
 *   - Handles are opaque. One thread at a time may use a handle. A forked child may only close it; other calls that
 *     act on it return AUTOBUF_E_FORKED.
 *   - The library never prints, exits, forks, starts a thread or changes a signal handler. Two exceptions are asked
 *     for by the user: AUTOBUF=log prints, and bwdelay(host) resolves a name.
 *   - Directions: a path has tx (from here to the peer) and rx (from the peer to here). A socket has a snd and a
 *     rcv side, each with its buffer. An intent says that a program SENDS or RECEIVES bulk data. Counters say what
 *     was sent and received.
 *   - The library reads the environment variable AUTOBUF when it is loaded, and ignores it in setuid programs.
 *     AUTOBUF=off: autobuf_tune() and autobuf_apply() measure nothing and change nothing. AUTOBUF=log: what a
 *     handle's log says also goes to standard error. AUTOBUF=log=FILE: it is appended to a file. Where the path store
 *     is: AUTOBUF_PATHS, XDG_CACHE_HOME, HOME (<autobuf/paths.h>).
 */
#ifndef AUTOBUF_AUTOBUF_H
#define AUTOBUF_AUTOBUF_H

#include <autobuf/available.h>
#include <autobuf/bwdelay.h>
#include <autobuf/error.h>
#include <autobuf/flow.h>
#include <autobuf/inband.h>
#include <autobuf/live.h>
#include <autobuf/path.h>
#include <autobuf/paths.h>
#include <autobuf/plan.h>
#include <autobuf/probe.h>
#include <autobuf/rightsize.h>
#include <autobuf/tune.h>

#endif
