/* SPDX-License-Identifier: MIT */
/* Which descriptors of this process are TCP sockets. */
#ifndef RUN_DESCRIPTORS_H
#define RUN_DESCRIPTORS_H

#include <sys/socket.h>

#include "places.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

/* The place of a TCP socket; NULL: fd is something else, or this object does not act. */
struct place *descriptor_tcp(int fd);

/* SO_BUF_LOCK, as AUTOBUF_LOCK_* bits; 0 before Linux 5.15. Changes errno. */
uint32_t descriptor_locks(int fd);

/* Asks the kernel whether it is a TCP socket. Changes errno. */
bool descriptor_is_tcp(int fd);

#endif
