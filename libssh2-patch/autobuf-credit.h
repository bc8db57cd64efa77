/* SPDX-License-Identifier: MIT */
/* Between libssh2 and libautobuf: the size of a window, by what it carried. */
#ifndef AUTOBUF_CREDIT_H
#define AUTOBUF_CREDIT_H

#include <stdint.h>

struct autobuf_rightsize;

/*
 * How many bytes a window should have: at least so many. *credit is NULL at first. With AUTOBUF=off, or without memory,
 * it is least_bytes.
 */
uint32_t autobuf_credit_window(struct autobuf_rightsize **credit, uint32_t least_bytes);

/* A reply to what was sent at that time has come, for so many bytes. */
void autobuf_credit_answered(struct autobuf_rightsize *credit, uint64_t sent_ns, uint32_t bytes);

/* The application has read so many bytes that came over a socket, since it was told last. */
void autobuf_credit_read(struct autobuf_rightsize *credit, int fd, uint64_t bytes);

#endif
