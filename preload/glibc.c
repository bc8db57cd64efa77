/* SPDX-License-Identifier: MIT */
#undef _FORTIFY_SOURCE /* or what is made below would call itself */
#include "next.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The linker of another C library, as musl's, loads this object for a child that uses it, and ends the child if a
 * function is missing there. So the object defines itself what CMSG_NXTHDR(), pthread_atfork(), autobuf_strerror() and
 * calls that check their buffers (_FORTIFY_SOURCE) would take from glibc alone.
 */
void *__memcpy_chk(void *to, const void *from, size_t count, size_t room);
int __snprintf_chk(char *to, size_t count, int flag, size_t room, const char *format, ...);
int __vsnprintf_chk(char *to, size_t count, int flag, size_t room, const char *format, va_list list);
struct cmsghdr *__cmsg_nxthdr(struct msghdr *message, struct cmsghdr *header);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
const char *strerrordesc_np(int error);

static int (*next_register)(void (*)(void), void (*)(void), void (*)(void), void *);
static const char *(*next_text)(int);

static void *find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

bool run_is_glibc(void)
{
    void *function = find("__register_atfork");

    memcpy(&next_register, &function, sizeof function);
    function = find("strerrordesc_np");
    memcpy(&next_text, &function, sizeof function);
    return next_register && next_text;
}

struct cmsghdr *__cmsg_nxthdr(struct msghdr *message, struct cmsghdr *header)
{
    size_t left = message->msg_controllen - (size_t)((char *)header - (char *)message->msg_control);

    if (header->cmsg_len < sizeof *header || left < sizeof *header ||
        CMSG_ALIGN(header->cmsg_len) > left - sizeof *header)
        return NULL;
    return (struct cmsghdr *)(void *)((char *)header + CMSG_ALIGN(header->cmsg_len));
}

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
    return next_register(prepare, parent, child, object);
}

const char *strerrordesc_np(int error)
{
    return next_text(error);
}

void *__memcpy_chk(void *to, const void *from, size_t count, size_t room)
{
    if (count > room)
        abort();
    return memcpy(to, from, count);
}

int __vsnprintf_chk(char *to, size_t count, int flag, size_t room, const char *format, va_list list)
{
    (void)flag;
    if (count > room)
        abort();
    return vsnprintf(to, count, format, list);
}

int __snprintf_chk(char *to, size_t count, int flag, size_t room, const char *format, ...)
{
    va_list list;
    int length;

    va_start(list, format);
    length = __vsnprintf_chk(to, count, flag, room, format, list);
    va_end(list);
    return length;
}
