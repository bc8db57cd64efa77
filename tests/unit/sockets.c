/* SPDX-License-Identifier: MIT */
#include "sockets.h"

#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define NOT_DROPPED 100

static int must(const char *what, int result)
{
    if (result < 0)
        fail_msg("%s: %s", what, strerror(errno));
    return result;
}

const struct autobuf_limits little_limits = {
    .size = sizeof little_limits,
    .flags = AUTOBUF_LIMITS_RCV_AUTOTUNING | AUTOBUF_LIMITS_WINDOW_SCALING,
    .snd_settable_bytes = 4000000, .rcv_settable_bytes = 4000000,
    .tcp_wmem_max_bytes = 4096, .tcp_rmem_max_bytes = 4096,
    .tcp_mem_bytes = 1000000000,
};

int tcp_socket(void)
{
    return must("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

int tcp_listener(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = tcp_socket();

    must("bind", bind(fd, (struct sockaddr *)&any, sizeof any));
    must("listen", listen(fd, 1));
    return fd;
}

struct connection tcp_connection(void)
{
    return tcp_connection_of(0);
}

struct connection tcp_connection_of(int segment_bytes)
{
    struct connection c = {tcp_listener(), tcp_socket(), -1};
    struct sockaddr_in to;
    socklen_t len = sizeof to;

    for (int i = 0; segment_bytes && i < 2; i++)
        must("TCP_MAXSEG", setsockopt(i ? c.client : c.listener, IPPROTO_TCP, TCP_MAXSEG,
                                      &segment_bytes, sizeof segment_bytes));
    must("getsockname", getsockname(c.listener, (struct sockaddr *)&to, &len));
    must("connect", connect(c.client, (struct sockaddr *)&to, len));
    c.accepted = must("accept", accept(c.listener, NULL, NULL));
    return c;
}

void close_connection(struct connection *c)
{
    close(c->client);
    close(c->accepted);
    close(c->listener);
}

unsigned open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

int closed_fd(void)
{
    int fd = tcp_socket();

    close(fd);
    return fd;
}

int option_of(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

bool locks_are_known(void)
{
    int fd = tcp_socket(), locks = option_of(fd, SO_BUF_LOCK);

    close(fd);
    return locks >= 0; /* Linux 5.15 */
}

bool locks_are(int fd, uint32_t locks)
{
    int told = option_of(fd, SO_BUF_LOCK);

    return told < 0 || (uint32_t)told == locks;
}

void set_option(int fd, int option, int value)
{
    must("setsockopt", setsockopt(fd, SOL_SOCKET, option, &value, sizeof value));
}

struct socket_state state_of(int fd)
{
    struct socket_state s = {option_of(fd, SO_SNDBUF), option_of(fd, SO_RCVBUF),
                             option_of(fd, SO_BUF_LOCK), 0, 0};
    socklen_t len = sizeof s.pacing_byte_per_s, clamp_len = sizeof s.clamp;

    getsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &s.clamp, &clamp_len);
    getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &s.pacing_byte_per_s, &len);
    return s;
}

bool same_state(const struct socket_state *a, const struct socket_state *b)
{
    return a->snd_buf == b->snd_buf && a->rcv_buf == b->rcv_buf && a->locks == b->locks && a->clamp == b->clamp &&
           a->pacing_byte_per_s == b->pacing_byte_per_s;
}

/* Changing from root to another user clears all capabilities: capabilities(7). */
static bool drop_privileges(void)
{
    if (geteuid() != 0)
        return true;
    return setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
           setresuid(NOBODY, NOBODY, NOBODY) == 0;
}

int without_privileges(int (*run)(const void *arg), const void *arg)
{
    int status;
    pid_t child;

    fflush(NULL);
    child = must("fork", fork());
    if (child == 0)
        _exit(drop_privileges() ? run(arg) : NOT_DROPPED);
    while (waitpid(child, &status, 0) < 0)
        must("waitpid", errno == EINTR ? 0 : -1);
    if (!WIFEXITED(status))
        fail_msg("child ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status) == NOT_DROPPED ? -1 : WEXITSTATUS(status);
}
