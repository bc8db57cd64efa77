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

const char *autobuf_strerror(int error)
{
    const char *text;

    switch (error) {
    case AUTOBUF_E_NOREPLY:
        return "nothing answered in time: the host is down, or ICMP echo is filtered";
    case AUTOBUF_E_FEW:
        return "too few replies came to compute a rate";
    case AUTOBUF_E_RESOLVE:
        return "the name has no address";
    case AUTOBUF_E_FORKED:
        return "the parent process opened this handle";
    case AUTOBUF_E_OFF:
        return "switched off by AUTOBUF=off in the environment";
    case AUTOBUF_E_CLAMPED:
        return "the kernel granted a smaller buffer than was asked for";
    case AUTOBUF_E_UNSUPPORTED:
        return "the peer does not know the in-band exchange";
    case AUTOBUF_E_PROTOCOL:
        return "the peer broke the rules of the in-band exchange";
    case AUTOBUF_E_DAMAGED:
        return "the path store is damaged, or the file is none";
    case AUTOBUF_E_NEWER:
        return "a later version of libautobuf wrote the path store";
    default:
        break;
    }
    if (error >= 0)
        return "success";
    text = error > -4096 ? text_of_errno(-error) : NULL;
    return text ? text : "unknown error";
}
