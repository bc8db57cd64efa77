/* SPDX-License-Identifier: MIT */
/* Real sockets on loopback, for the tests of the code that reads and sets their options. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

/* A TCP connection over loopback: all three descriptors are to be closed. */
struct connection {
    int listener;
    int client;   /* connect() */
    int accepted; /* accept() */
};

/* Each fails the test, with errno in words, if the kernel refuses. */
int tcp_socket(void);
int tcp_listener(void);
struct connection tcp_connection(void);
struct connection tcp_connection_of(int segment_bytes); /* 0: as large as loopback's */
void close_connection(struct connection *c);

/* Of a host whose autotuning ends at 4 KB and whose setsockopt() does not: it pays to measure any path. */
extern const struct autobuf_limits little_limits;

/* A descriptor that is surely not open. */
int closed_fd(void);

/* So many descriptors this process has open, and a few more: compare two of them. */
unsigned open_descriptors(void);

/* An option of SOL_SOCKET; -1 where the kernel does not know it. */
int option_of(int fd, int option);
void set_option(int fd, int option, int value);

/* Whether this kernel has SO_BUF_LOCK. */
bool locks_are_known(void);

/* Whether these of a socket's sides, and no others, are locked, as far as the kernel tells. */
bool locks_are(int fd, uint32_t locks);

/* What a plan can change of a socket. */
struct socket_state {
    int snd_buf, rcv_buf, locks, clamp;
    uint64_t pacing_byte_per_s;
};

struct socket_state state_of(int fd);
bool same_state(const struct socket_state *a, const struct socket_state *b);

/*
 * Runs a function in a child without privileges and returns what it returns (0 to 99), or -1 if
 * privileges could not be dropped. No cmocka in there: its jump would leave the child.
 */
int without_privileges(int (*run)(const void *arg), const void *arg);

#endif
