/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "base.h"

#define AB_STRING(x) #x
#define AB_VERSION(major, minor, patch) AB_STRING(major) "." AB_STRING(minor) "." AB_STRING(patch)

const char *autobuf_version(void)
{
    return AB_VERSION(AUTOBUF_VERSION_MAJOR, AUTOBUF_VERSION_MINOR, AUTOBUF_VERSION_PATCH);
}

/* A constant text, in English; NULL if there is no such errno. */
static const char *text_of_errno(int error)
{
#ifdef __GLIBC__
    return strerrordesc_np(error);
#else
    /* musl: its C locale and its texts are constants. An errno that it does not know has the text of 0. */
    locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const char *text = strerror_l(error, english), *none = strerror_l(0, english);

    freelocale(english);
    return text == none ? NULL : text;
#endif
}

/* Errors of this library, from AUTOBUF_E_NOREPLY on. */
static const char *const own[] = {
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_NOREPLY] = "nothing answered in time: the host is down, or ICMP echo is filtered",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_FEW] = "too few replies came, or agree, to compute a rate",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_RESOLVE] = "the name has no address",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_FORKED] = "the parent process opened this handle",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_OFF] = "switched off by AUTOBUF=off in the environment",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_CLAMPED] = "the kernel granted a smaller buffer than was asked for",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_UNSUPPORTED] = "the peer does not know the in-band exchange",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_PROTOCOL] = "the peer broke the rules of the in-band exchange",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_DAMAGED] = "the path store is damaged, or the file is none",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_NEWER] = "a later version of libautobuf wrote the path store",
    [AUTOBUF_E_NOREPLY - AUTOBUF_E_RELAYED] =
        "a proxy or port forwarding ends the connection: the path to the peer is not measured",
};

const char *autobuf_strerror(int error)
{
    unsigned at = (unsigned)AUTOBUF_E_NOREPLY - (unsigned)error;
    const char *text;

    if (error >= 0)
        return "success";
    if (at < sizeof own / sizeof *own)
        return own[at];
    text = error > AUTOBUF_E_NOREPLY ? text_of_errno(-error) : NULL;
    return text ? text : "unknown error";
}
