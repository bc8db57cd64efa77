/* SPDX-License-Identifier: MIT */
#ifndef TLSLINE_H
#define TLSLINE_H

/* Both return 0, or an error for autobuf_strerror(). address NULL: any. */
int serve(const char *address, const char *port);
int measure(const char *host, const char *port);

#endif
