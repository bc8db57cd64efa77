/* SPDX-License-Identifier: MIT */
#include "socket_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 16

/* 0: the place is free, or holds what nobody listens on any more; else why it must not be touched. */
static int check_place(const struct sockaddr_un *address, int type)
{
    struct stat found;
    int fd, error;

    if (lstat(address->sun_path, &found) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(found.st_mode))
        return -EEXIST;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    error = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? errno : 0;
    close(fd);
    return error == ECONNREFUSED ? 0 : -EADDRINUSE;
}

/* Binds beside the place, with the right permissions from the beginning, and moves there. */
static int bind_beside(int fd, struct socket_file *file, int type, mode_t mode)
{
    struct sockaddr_un beside = {.sun_family = AF_UNIX};
    struct stat made;
    mode_t mask;
    int error = 0;

    if ((size_t)snprintf(beside.sun_path, sizeof beside.sun_path, "%s.%ld", file->name, (long)getpid()) >=
        sizeof beside.sun_path)
        return -ENAMETOOLONG;
    mask = umask(0777 & ~mode);
    if (bind(fd, (const struct sockaddr *)&beside, sizeof beside) < 0)
        error = -errno;
    umask(mask);
    if (error < 0)
        return error;
    if (lstat(beside.sun_path, &made) < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0) ||
        rename(beside.sun_path, file->name) < 0) {
        error = -errno;
        unlink(beside.sun_path);
        return error;
    }
    file->device = made.st_dev;
    file->inode = made.st_ino;
    return 0;
}

int socket_file_open(struct socket_file *file, const char *name, int type, mode_t mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error, fd;

    if (strlen(name) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, name);
    strcpy(file->name, name);
    error = check_place(&address, type);
    if (error < 0)
        return error;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    error = bind_beside(fd, file, type, mode);
    if (error == 0)
        return fd;
    close(fd);
    return error;
}

void socket_file_remove(const struct socket_file *file)
{
    struct stat found;

    if (lstat(file->name, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode)
        unlink(file->name);
}
