/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base.h"

#define AB_STRING(x) #x
#define AB_VERSION(major, minor, patch) AB_STRING(major) "." AB_STRING(minor) "." AB_STRING(patch)

const char *autobuf_version(void)
{
    return AB_VERSION(AUTOBUF_VERSION_MAJOR, AUTOBUF_VERSION_MINOR, AUTOBUF_VERSION_PATCH);
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
    default:
        break;
    }
    if (error >= 0)
        return "success";
    text = error > -4096 ? strerrordesc_np(-error) : NULL;
    return text ? text : "unknown error";
}
