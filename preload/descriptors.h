/* SPDX-License-Identifier: MIT */
/* Which descriptors of this process are TCP sockets. */
#ifndef RUN_DESCRIPTORS_H
#define RUN_DESCRIPTORS_H

#include "places.h"

/* The place of a TCP socket; NULL: fd is something else, or the process is left alone. */
struct place *descriptor_tcp(int fd);

/* Asks the kernel whether it is a TCP socket. Changes errno. */
bool descriptor_is_tcp(int fd);

#endif
