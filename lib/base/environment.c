/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "option.h"

#define STANDARD_ERROR 2
#define LINE_BYTES 320

/* Set before main(), or by autobuf_log_own() before there are threads: read without a lock. */
static struct {
    bool off;
    bool log;
    bool own; /* the program prints the lines for standard error */
    char file[PATH_MAX]; /* "": standard error */
    dev_t error_dev;     /* of standard error at loading; both 0: closed */
    ino_t error_ino;
} environment;

static void save_standard_error(void)
{
    struct stat now;

    if (fstat(STANDARD_ERROR, &now) < 0)
        now = (struct stat){.st_ino = 0};
    environment.error_dev = now.st_dev;
    environment.error_ino = now.st_ino;
}

/*
 * A program may close standard error, and the next file that it opens gets the number: lines would be among its data.
 * Under inetd standard error is a connection, which gets no line either.
 */
static __attribute__((noinline)) bool is_standard_error(void)
{
    struct stat now;
    int domain;

    if (fstat(STANDARD_ERROR, &now) < 0 || now.st_dev != environment.error_dev ||
        now.st_ino != environment.error_ino)
        return false;
    return !S_ISSOCK(now.st_mode) ||
           (ab_get_int(STANDARD_ERROR, SOL_SOCKET, SO_DOMAIN, &domain) == 0 && domain == AF_UNIX);
}

void ab_environment_read(const char *value)
{
    environment.off = value && strcmp(value, "off") == 0;
    environment.log = value && (strcmp(value, "log") == 0 || strncmp(value, "log=", 4) == 0);
    environment.own = false;
    environment.file[0] = '\0';
    if (!environment.log)
        return;
    save_standard_error();
    if (!value[3])
        return;
    environment.log = strlen(value + 4) < sizeof environment.file && value[4];
    if (environment.log)
        memcpy(environment.file, value + 4, strlen(value + 4) + 1);
}

/* Before other constructors, which may need it. */
__attribute__((constructor(101))) static void read_environment(void)
{
    ab_environment_read(secure_getenv("AUTOBUF"));
}

int autobuf_is_off(void)
{
    return environment.off;
}

int autobuf_log_own(void)
{
    if (environment.log && !environment.file[0]) {
        environment.log = false;
        environment.own = true;
    }
    return environment.own;
}

void autobuf_log_line(const char *line)
{
    if (environment.log && line)
        ab_environment_line(line);
}

bool ab_environment_logs(void)
{
    return environment.log;
}

/*
 * Opens the log file for each line, because a program may close all descriptors and reuse their numbers. Follows no
 * symbolic link, and does not wait for a reader of a pipe.
 */
static int open_log(void)
{
    if (!environment.file[0])
        return is_standard_error() ? STANDARD_ERROR : -1;
    return open(environment.file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
}

/* Not inlined: keeps a struct stat off the stack of the calls below. */
static __attribute__((noinline)) bool is_regular(int fd, uint64_t *bytes)
{
    struct stat file;

    if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode))
        return false;
    *bytes = (uint64_t)file.st_size;
    return true;
}

/* Whether write() neither waits nor raises SIGPIPE or SIGXFSZ. */
static bool can_write(int fd, size_t len)
{
    struct pollfd now = {.fd = fd, .events = POLLOUT};
    uint64_t bytes;

    if (is_regular(fd, &bytes))
        return ab_file_may_have(bytes + len);
    return poll(&now, 1, 0) > 0 && (now.revents & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT;
}

static void write_line(int fd, const char *line, size_t len)
{
    if (send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno != ENOTSOCK || !can_write(fd, len))
        return;
    if (write(fd, line, len) < 0) {
        /* the line is lost */
    }
}

/* Without printf(), which takes much stack: small stacks are deepest here. */
static char *add_process(char *end)
{
    char digits[3 * sizeof(pid_t)], *first = digits + sizeof digits;

    for (pid_t left = getpid(); left; left /= 10)
        *--first = (char)('0' + left % 10);
    end = stpcpy(end, "autobuf[");
    end = mempcpy(end, first, (size_t)(digits + sizeof digits - first));
    return stpcpy(end, "]: ");
}

void ab_environment_line(const char *text)
{
    char line[LINE_BYTES], *end = add_process(line);
    int fd = open_log();

    if (fd < 0)
        return;
    end = mempcpy(end, text, strnlen(text, (size_t)(line + sizeof line - 1 - end)));
    *end++ = '\n';
    write_line(fd, line, (size_t)(end - line));
    if (environment.file[0]) /* may be 2, if the program closed standard error */
        close(fd);
}
