/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/error.h>: errors, the version, the clock, and what all other headers share.
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
#define AUTOBUF_VERSION_MINOR 9
#define AUTOBUF_VERSION_PATCH 0

/* Errors that errno has no name for. All are below -4095. */
#define AUTOBUF_E_NOREPLY (-4096) /* nothing answered before the deadline */
#define AUTOBUF_E_FEW (-4097)     /* too few replies came, or agree, to compute a rate */
#define AUTOBUF_E_RESOLVE (-4098) /* the name has no address */
#define AUTOBUF_E_FORKED (-4099)  /* the handle belongs to the parent process */
#define AUTOBUF_E_OFF (-4100)     /* AUTOBUF=off is in the environment */
#define AUTOBUF_E_CLAMPED (-4101) /* the kernel granted a smaller buffer than was asked for */
#define AUTOBUF_E_UNSUPPORTED (-4102) /* the peer does not know the in-band exchange */
#define AUTOBUF_E_PROTOCOL (-4103)    /* the peer broke the exchange's rules: close the connection */
#define AUTOBUF_E_RELAYED (-4106) /* the TCP connection ends at a proxy, so it says nothing of the path to the peer */

#define AUTOBUF_E_DAMAGED (-4104)     /* the path store's file is damaged, or is none */
#define AUTOBUF_E_NEWER (-4105)       /* a later version of the library wrote the path store */

/*
 * What each AUTOBUF_..._INIT macro does: it sets a struct's size, and all else to 0, which is the default, or unknown.
 * A language without macros zeroes the struct and sets its size.
 */
#ifdef __cplusplus
extern "C++" template <typename type> inline type autobuf_init()
{
    type fresh = type();

    fresh.size = sizeof fresh;
    return fresh;
}
#define AUTOBUF_INIT(name) autobuf_init<struct name>()
#else
#define AUTOBUF_INIT(name) {.size = sizeof(struct name)}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A static English text for any value that a call of this library returns. It is not NULL for any number. */
AUTOBUF_API const char *autobuf_strerror(int error);

/* The version of the library that is linked, such as "1.2.3". AUTOBUF_VERSION_* are that of this header. */
AUTOBUF_API const char *autobuf_version(void);

/* No time, or a time that is not known. */
#define AUTOBUF_NS_UNSET UINT64_MAX

/* Reads CLOCK_MONOTONIC in nanoseconds: the clock of every now_ns and deadline_ns of this library. */
AUTOBUF_API uint64_t autobuf_now_ns(void);

/* 1: AUTOBUF=off is in the environment, so the library changes nothing; 0: it is not. Setuid programs ignore it. */
AUTOBUF_API int autobuf_is_off(void);

/*
 * For a program that itself prints what the log callbacks of its handles are told: with AUTOBUF=log the library no
 * longer prints that to standard error. Returns 1: AUTOBUF=log is in the environment; 0: it is not, or it names a
 * file, to which the library still appends. Call it before the first handle, and before there are other threads.
 */
AUTOBUF_API int autobuf_log_own(void);

/*
 * Writes a line, without a line feed, to where AUTOBUF=log or AUTOBUF=log=FILE says, as the library does with its own:
 * for what a program itself decides about buffers. Without either it does nothing.
 */
AUTOBUF_API void autobuf_log_line(const char *line);

/*
 * What the library has seen, decided or done. Of LEFT, SET and GIVEN_BACK, which are of a plan, before_bytes and
 * after_bytes are the side's window without the plan and with it.
 */
#define AUTOBUF_EVENT_NOTE 0U       /* "note": how a measurement or an exchange goes; only text says it */
#define AUTOBUF_EVENT_KNOWN 1U      /* "known": the path store knows the path: after_bit_per_s, rtt_ns */
#define AUTOBUF_EVENT_MEASURED 2U   /* "measured": the path: the same; or error says why it was not */
#define AUTOBUF_EVENT_LEFT 3U       /* "left": the side is left as it is */
#define AUTOBUF_EVENT_SET 4U        /* "set": a buffer of the side, or for low delay a pace */
#define AUTOBUF_EVENT_GIVEN_BACK 5U /* "given-back": the side's buffer, to autotuning */
#define AUTOBUF_EVENT_RESIZED 6U    /* "resized": the side's buffer, of an open connection, as getsockopt() shows it */
#define AUTOBUF_EVENT_PACED 7U      /* "paced": an open connection: before_bit_per_s, after_bit_per_s; 0: not at all */
#define AUTOBUF_EVENT_UNSENT 8U     /* "unsent": how much may wait unsent in the send buffer */
#define AUTOBUF_EVENT_WINDOW 9U     /* "window": of <autobuf/rightsize.h>, or to which a scavenger holds its peer */

struct autobuf_event {
    uint32_t size;
    uint32_t what;             /* AUTOBUF_EVENT_* */
    uint32_t side;             /* AUTOBUF_LOCK_SND or AUTOBUF_LOCK_RCV; of a path: whose rate it is; 0: neither */
    uint32_t reason;           /* AUTOBUF_REASON_* of a plan; else 0 */
    uint32_t bottleneck;       /* AUTOBUF_BOTTLENECK_*: the bottleneck of an open connection; else 0 */
    int32_t error;             /* why something failed; 0: nothing did */
    uint64_t before_bytes;
    uint64_t after_bytes;
    uint64_t before_bit_per_s;
    uint64_t after_bit_per_s;
    uint64_t rtt_ns;           /* 0 or AUTOBUF_NS_UNSET: unknown */
    const char *why;           /* in English; NULL: text says it */
    const char *text;          /* all of it as one line of English, without a line feed; not for programs to parse */
};

/*
 * The type of a log callback. event and its texts are valid during the call. user is the pointer that the caller has
 * put into the options beside the callback.
 */
typedef void autobuf_log_fn(void *user, const struct autobuf_event *event);

#ifdef __cplusplus
}
#endif

#endif
