/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/error.h>: errors, the version, and what every topic shares.
 */
#ifndef AUTOBUF_ERROR_H
#define AUTOBUF_ERROR_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define AUTOBUF_API __attribute__((visibility("default")))
#else
#define AUTOBUF_API
#endif

#define AUTOBUF_VERSION_MAJOR 0
#define AUTOBUF_VERSION_MINOR 1
#define AUTOBUF_VERSION_PATCH 0

/* Errors beyond errno's: below -4095. */
#define AUTOBUF_E_NOREPLY (-4096) /* nothing answered before the deadline */
#define AUTOBUF_E_FEW (-4097)     /* too few answers for what was asked */
#define AUTOBUF_E_RESOLVE (-4098) /* the name has no address */
#define AUTOBUF_E_FORKED (-4099)  /* the handle belongs to the parent process */
#define AUTOBUF_E_OFF (-4100)     /* AUTOBUF=off is in the environment */
#define AUTOBUF_E_CLAMPED (-4101) /* the kernel clamped the size that was asked for */
#define AUTOBUF_E_UNSUPPORTED (-4102) /* the peer does not know the exchange */
#define AUTOBUF_E_PROTOCOL (-4103)    /* the peer is out of step: close the connection */

#ifdef __cplusplus
extern "C" {
#endif

/* A static English text for any value that a call of this library returns; never NULL. */
AUTOBUF_API const char *autobuf_strerror(int error);

/* "0.1.0": the version of the library that is linked, to compare with AUTOBUF_VERSION_*. */
AUTOBUF_API const char *autobuf_version(void);

/* No time, or a time that is not known. */
#define AUTOBUF_NS_UNSET UINT64_MAX

/* CLOCK_MONOTONIC in nanoseconds: the clock of every now_ns and deadline_ns here. */
AUTOBUF_API uint64_t autobuf_now_ns(void);

/* 1: AUTOBUF=off is in the environment (setuid programs ignore it), and nothing will be done; 0. */
AUTOBUF_API int autobuf_is_off(void);

/* What a handle has to tell, one line at a time, without a line feed. user is the caller's own. */
typedef void autobuf_log_fn(void *user, const char *line);

#ifdef __cplusplus
}
#endif

#endif
