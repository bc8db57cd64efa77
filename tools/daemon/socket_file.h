/* SPDX-License-Identifier: MIT */
/* A unix socket of the daemon's own in the file system. */
#ifndef SOCKET_FILE_H
#define SOCKET_FILE_H

#include <sys/types.h>
#include <sys/un.h>

struct socket_file {
    char name[sizeof((struct sockaddr_un *)NULL)->sun_path];
    dev_t device; /* to know it again */
    ino_t inode;
};

/*
 * Makes a socket of a type (SOCK_STREAM, which then listens, or SOCK_DGRAM), that those may use whom the mode allows to.
 * What another daemon has left there is replaced. A descriptor, which is not to block; -ENAMETOOLONG; -EEXIST: the place
 * holds something else; -EADDRINUSE: somebody listens there; errors of socket(2), bind(2) and rename(2).
 */
int socket_file_open(struct socket_file *file, const char *name, int type, mode_t mode);

/* Removes it, if it is still the one that was made. */
void socket_file_remove(const struct socket_file *file);

#endif
