/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls with which the library asks for memory and for the kernel's services (linker option --wrap,
 * see meson.build). A test can make each of them fail, once or from then on.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdbool.h>

enum call {
    CALL_CALLOC,
    CALL_REALLOC,
    CALL_SOCKET,
    CALL_SETSOCKOPT,
    CALL_GETSOCKOPT,
    CALL_BIND,
    CALL_CONNECT,
    CALL_GETSOCKNAME,
    CALL_GETPEERNAME,
    CALL_SEND,
    CALL_SENDMMSG,
    CALL_RECVMMSG,
    CALL_RECVMSG,
    CALL_PPOLL,
    CALL_OPEN,
    CALL_READ,
    CALL_GETRANDOM,
    CALL_GETADDRINFO,
    CALLS
};

const char *fault_name(enum call call);

/* From here on calls are counted, and none fails. */
void faults_count(void);

/* From here on the at-th (1, 2, ...) of these calls fails with errno, and so do later ones if forever. */
void faults_begin(enum call call, unsigned at, bool forever, int error);

/* No more. Returns how many of these calls there were since. */
unsigned faults_end(enum call call);

/* Sockets that were opened since to ask the kernel for routes, links and queueing disciplines. */
unsigned faults_asks(void);

/* Blocks that the library holds: allocated and not freed, descriptors opened and not closed. */
int faults_held(void);

#endif
