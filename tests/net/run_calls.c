/* SPDX-License-Identifier: MIT */
/*
 * run_calls SCENE: makes calls on loopback connections as programs make them, and prints what came of each. Under
 * `autobuf run` it prints the same as without. Ports, descriptors and times are not printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

#define MB 1000000U
#define LOCK_BYTES 65536

extern char **environ;

/* What a failed call leaves is the scene's to print; this one has to work. */
static int must(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(99);
    }
    return result;
}

static void say(const char *what, long result)
{
    int error = errno;

    printf("%s: %ld", what, result);
    if (result < 0)
        printf(", %s", strerrorname_np(error));
    putchar('\n');
    fflush(stdout);
}

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t length = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &length) < 0 ? -1 : value;
}

static void set_sizes(int fd, int bytes)
{
    say("SO_SNDBUF", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes));
    say("SO_RCVBUF", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes));
}

static void say_sizes(const char *what, int fd)
{
    printf("%s: %d %d\n", what, option_of(fd, SO_SNDBUF), option_of(fd, SO_RCVBUF));
    fflush(stdout);
}

static int bound(int fd, struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;

    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    must(bind(fd, (struct sockaddr *)address, length), "bind");
    must(getsockname(fd, (struct sockaddr *)address, &length), "getsockname");
    return fd;
}

static int listener_of(struct sockaddr_in *address)
{
    return bound(must(socket(AF_INET, SOCK_STREAM, 0), "socket"), address);
}

static int connected(const struct sockaddr_in *address)
{
    int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket");

    must(connect(fd, (const struct sockaddr *)address, sizeof *address), "connect");
    return fd;
}

/* Two ends of a connection. */
static void make_pair(int ends[2])
{
    struct sockaddr_in address;
    int listener = listener_of(&address);

    must(listen(listener, 8), "listen");
    ends[0] = connected(&address);
    ends[1] = must(accept4(listener, NULL, NULL, SOCK_CLOEXEC), "accept4");
    close(listener);
}

/* ------------------------------------------------------------------------------------- reader */

struct reader {
    pthread_t thread;
    int fd;
    size_t bytes;
    uint32_t sum;
};

static void *read_all(void *context)
{
    unsigned char data[65536];
    struct reader *reader = context;
    ssize_t got;

    while ((got = read(reader->fd, data, sizeof data)) > 0 || (got < 0 && errno == EINTR))
        for (ssize_t i = 0; i < got; i++, reader->bytes++)
            reader->sum = reader->sum * 31 + data[i];
    return NULL;
}

static void begin_reader(struct reader *reader, int fd)
{
    *reader = (struct reader){.fd = fd};
    must(-pthread_create(&reader->thread, NULL, read_all, reader), "pthread_create");
}

static void end_reader(struct reader *reader)
{
    pthread_join(reader->thread, NULL);
    printf("read: %zu bytes, %08x\n", reader->bytes, (unsigned)reader->sum);
    close(reader->fd);
}

static unsigned char *pattern(size_t bytes)
{
    unsigned char *data = malloc(bytes);

    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 11));
    return data;
}

/* A file of this pattern that has no name. */
static int file_of(size_t bytes)
{
    unsigned char *data = pattern(bytes);
    int fd = must(memfd_create("data", 0), "memfd_create");

    for (size_t done = 0; done < bytes;)
        done += (size_t)must((int)write(fd, data + done, bytes - done), "write");
    must((int)lseek(fd, 0, SEEK_SET), "lseek");
    free(data);
    return fd;
}

/* ------------------------------------------------------------------------------------- scenes */

static void sizes(void)
{
    struct sockaddr_in address;
    int listener = listener_of(&address), out, in, bytes = LOCK_BYTES;
    static const int others[] = {0, 1, -1, 2304, 5000, 1 << 30};

    set_sizes(listener, bytes);
    must(listen(listener, 8), "listen");
    out = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    set_sizes(out, bytes);
    say_sizes("before connect", out);
    must(connect(out, (struct sockaddr *)&address, sizeof address), "connect");
    in = must(accept(listener, NULL, NULL), "accept");
    say_sizes("listener", listener);
    say_sizes("connected", out);
    say_sizes("accepted", in);
    close(out);
    close(in);
    out = connected(&address);
    set_sizes(out, bytes);
    say_sizes("after connect", out);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        set_sizes(out, others[i]);
        say_sizes("another", out);
    }
}

/* What is locked is what this scene is for: it differs. */
static void locks(void)
{
    struct sockaddr_in address;
    int listener = listener_of(&address), out = must(socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP), "socket");
    int large = 1 << 30, bytes = LOCK_BYTES, ends[2];

    set_sizes(out, bytes);
    printf("before connect: %d\n", option_of(out, SO_BUF_LOCK));
    set_sizes(listener, bytes);
    must(listen(listener, 8), "listen");
    ends[0] = connected(&address);
    ends[1] = must(accept(listener, NULL, NULL), "accept");
    printf("accepted: %d\n", option_of(ends[1], SO_BUF_LOCK));
    set_sizes(ends[0], bytes);
    printf("after connect: %d\n", option_of(ends[0], SO_BUF_LOCK));
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
    printf("forced: %d\n", option_of(ends[0], SO_BUF_LOCK));
}

static void wrong_calls(void)
{
    static const int options[] = {SO_SNDBUF, SO_RCVBUF};
    static const socklen_t lengths[] = {0, 1, 3, 4, 5, 64, INT_MAX, 1U + INT_MAX, UINT_MAX};
    int tcp = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), udp = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    int closed = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), pipes[2];
    struct epoll_event event;
    int fds[] = {-1, 123456, 2000000, closed, tcp, udp, 0, 0};

    must(pipe(pipes), "pipe");
    close(closed);
    fds[6] = pipes[0];
    fds[7] = must(open("/dev/null", O_RDWR), "open");
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        for (size_t o = 0; o < 2; o++) {
            char value[64] = {1, 0, 1};
            socklen_t length;

            printf("descriptor %zu, option %zu\n", i, o);
            say("NULL", setsockopt(fds[i], SOL_SOCKET, options[o], NULL, sizeof(int)));
            say("no memory", setsockopt(fds[i], SOL_SOCKET, options[o], (void *)8, sizeof(int)));
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                say("set", setsockopt(fds[i], SOL_SOCKET, options[o], value, lengths[l]));
                length = lengths[l];
                memset(value, 0, sizeof value);
                say("get", getsockopt(fds[i], SOL_SOCKET, options[o], value, &length));
                printf("%u: %02x %02x %02x %02x %02x\n", length, value[0] & 0xff, value[1] & 0xff, value[2] & 0xff,
                       value[3] & 0xff, value[4] & 0xff);
                value[0] = 1;
                value[2] = 1;
            }
            length = (socklen_t)-1;
            say("negative length", getsockopt(fds[i], SOL_SOCKET, options[o], value, &length));
            say("NULL to", getsockopt(fds[i], SOL_SOCKET, options[o], value, NULL));
        }
    say("close twice", close(closed));
    say("accept", accept(tcp, NULL, NULL));
    say("connect", connect(-1, NULL, 0));
    say("dup", dup(-1));
    say("dup2", dup2(-1, 7));
    say("dup3", dup3(tcp, tcp, 0));
    say("fcntl", fcntl(-1, F_DUPFD, 0));
    say("read", read(tcp, &closed, sizeof closed));
    signal(SIGPIPE, SIG_IGN);
    say("write", write(tcp, &closed, sizeof closed));
    say("send", send(udp, &closed, sizeof closed, 0));
    say("poll", poll(NULL, 0, 0));
    say("epoll_wait", epoll_wait(-1, &event, 1, 0));
    say("epoll_pwait2", epoll_pwait2(-1, &event, 1, NULL, NULL));
    say("select", select(-1, NULL, NULL, NULL, NULL));
    say("close_range", close_range(9, 8, 0));
    say("close_range", close_range(9, 8, -1));
    say("prctl", prctl(PR_SET_SECCOMP, 77, 0, 0, 0));
    say("syscall", syscall(-1));
}

static void pass(int over, int fd)
{
    char data = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&data, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    must((int)sendmsg(over, &message, 0), "sendmsg");
}

static int passed(int over)
{
    int fd;
    char data, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&data, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

    must((int)recvmsg(over, &message, MSG_CMSG_CLOEXEC), "recvmsg");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void descriptors(void)
{
    int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), copy, unix_ends[2], bytes = LOCK_BYTES;

    set_sizes(fd, bytes);
    copy = dup(fd);
    say_sizes("dup", copy);
    say("dup2", dup2(fd, copy) == copy ? 0 : -1);
    say_sizes("dup2", copy);
    say("dup2 onto itself", dup2(fd, fd) == fd ? 0 : -1);
    say_sizes("itself", fd);
    say("dup3", dup3(fd, 77, O_CLOEXEC));
    say_sizes("dup3", 77);
    say("F_DUPFD", fcntl(fd, F_DUPFD, 200));
    say_sizes("F_DUPFD", 200);
    say("F_DUPFD_CLOEXEC", fcntl(fd, F_DUPFD_CLOEXEC, 300));
    say_sizes("F_DUPFD_CLOEXEC", 300);
    say("F_GETFD", fcntl(300, F_GETFD));
    say("F_SETFL", fcntl(fd, F_SETFL, O_NONBLOCK));
    say("F_GETFL", fcntl(300, F_GETFL));
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_ends), "socketpair");
    pass(unix_ends[0], fd);
    say("passed", fcntl(copy = passed(unix_ends[1]), F_GETFD));
    say_sizes("passed", copy == fd ? -1 : 77);
    /* The number of a socket that was closed is that of a file, of a pipe, of another socket. */
    close(fd);
    say("reused for a file", dup2(must(open("/dev/null", O_RDWR), "open"), fd) == fd ? 0 : -1);
    say_sizes("file", fd);
    say("write", write(fd, unix_ends, sizeof unix_ends));
    say("reused for a UDP socket", dup2(must(socket(AF_INET, SOCK_DGRAM, 0), "socket"), fd) == fd ? 0 : -1);
    set_sizes(fd, bytes);
    say_sizes("UDP", fd);
    say("close_range", close_range(200, 300, 0));
    say_sizes("closed", 200);
    closefrom(77);
    say_sizes("closed", 77);
    for (int i = 3; i < 2048; i++)
        close(i);
    fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    set_sizes(fd, bytes);
    say_sizes("after all were closed", fd);
}

/* What a program sets beside sizes is as it was after a transfer, but low delay may lower a pacing rate. */
static void own_options(void)
{
    unsigned char *data = pattern(MB);
    struct reader reader;
    int ends[2], yes = 1;
    unsigned pace = 500 * MB;
    char control[16] = "";
    socklen_t length = sizeof control;

    make_pair(ends);
    say("pace", setsockopt(ends[0], SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof pace));
    say("control", setsockopt(ends[0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    say("no delay", setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    begin_reader(&reader, ends[1]);
    for (int i = 0; i < 40; i++)
        must((int)write(ends[0], data, MB), "write");
    printf("pace: %s\n", (unsigned)option_of(ends[0], SO_MAX_PACING_RATE) <= pace ? "not higher" : "higher");
    say("control", getsockopt(ends[0], IPPROTO_TCP, TCP_CONGESTION, control, &length));
    length = sizeof yes;
    say("no delay", getsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &yes, &length));
    printf("%s, %d\n", control, yes);
    shutdown(ends[0], SHUT_WR);
    end_reader(&reader);
    close(ends[0]);
    free(data);
}

static void transfers(void)
{
    static const size_t bytes = 40 * MB;
    unsigned char *data = pattern(bytes);
    struct reader reader;
    int ends[2], file = file_of(bytes);
    struct iovec parts[3] = {{data, 1}, {data + 1, bytes - 2}, {data + bytes - 1, 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};

    for (int i = 0; i < 9; i++) {
        off_t offset = i == 5 ? 10 : 5 * MB;
        ssize_t done = -1;

        make_pair(ends);
        begin_reader(&reader, ends[1]);
        lseek(file, 0, SEEK_SET);
        switch (i) {
        case 0: done = write(ends[0], data, bytes); break;
        case 1: done = send(ends[0], data, bytes, MSG_NOSIGNAL); break;
        case 2: done = writev(ends[0], parts, 3); break;
        case 3: done = sendmsg(ends[0], &message, 0); break;
        case 4: done = sendfile(ends[0], file, NULL, bytes); break;
        case 5: done = sendfile(ends[0], file, &offset, bytes - 20); break;
        case 6: done = sendfile(ends[0], file, &offset, 2 * bytes); break;
        case 7: done = sendto(ends[0], data, bytes, 0, NULL, 0); break;
        default: /* as a server with a loop of its own */
            must(fcntl(ends[0], F_SETFL, O_NONBLOCK), "fcntl");
            for (done = 0; done < (ssize_t)bytes;) {
                struct pollfd p = {ends[0], POLLOUT, 0};
                ssize_t sent = send(ends[0], data + done, bytes - (size_t)done, 0);

                if (sent > 0)
                    done += sent;
                else if (errno == EAGAIN)
                    poll(&p, 1, -1);
            }
        }
        printf("transfer %d\n", i);
        say("sent", done);
        say("file at", (long)lseek(file, 0, SEEK_CUR));
        say("offset", (long)offset);
        shutdown(ends[0], SHUT_WR);
        end_reader(&reader);
        close(ends[0]);
    }
    make_pair(ends);
    lseek(file, 0, SEEK_END);
    say("sendfile at the end", sendfile(ends[0], file, NULL, bytes));
    free(data);
}

/* So much has come. */
static void await_bytes(int fd, int bytes)
{
    for (int now = 0; now < bytes;)
        must(ioctl(fd, FIONREAD, &now), "FIONREAD");
}

/* Calls that are made seldom. Lengths are not constant, so that _FORTIFY_SOURCE makes them calls of _chk functions. */
static void other_calls(void)
{
    volatile unsigned long one = 1, each = 1000;
    unsigned char *data = pattern(4000);
    char to[2][1000];
    struct iovec whole = {data, 2000}, parts[2] = {{to[0], 1000}, {to[1], 1000}};
    struct mmsghdr out[2] = {{.msg_hdr = {.msg_iov = &whole, .msg_iovlen = 1}},
                             {.msg_hdr = {.msg_iov = &whole, .msg_iovlen = 1}}};
    struct mmsghdr in[2] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}},
                            {.msg_hdr = {.msg_iov = &parts[1], .msg_iovlen = 1}}};
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    struct epoll_event event = {.events = EPOLLIN};
    int ends[2], pipes[2], epoll = must(epoll_create1(0), "epoll_create1");
    fd_set set;

    make_pair(ends);
    must(pipe(pipes), "pipe");
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &event), "epoll_ctl");
    say("sendmmsg", sendmmsg(ends[0], out, 2, 0)); /* 4,000 bytes */
    await_bytes(ends[1], 4000);
    say("poll", poll(&(struct pollfd){ends[1], POLLIN, 0}, one, -1));
    say("ppoll", ppoll(&(struct pollfd){ends[1], POLLIN, 0}, one, NULL, NULL));
    FD_ZERO(&set);
    FD_SET(ends[1], &set);
    say("pselect", pselect(ends[1] + 1, &set, NULL, NULL, NULL, NULL));
    say("epoll_pwait", epoll_pwait(epoll, &event, 1, -1, NULL));
    say("recvmmsg, a look", recvmmsg(ends[1], in, 2, MSG_PEEK, NULL));
    say("recvmmsg", recvmmsg(ends[1], in, 2, 0, NULL)); /* 2,000 of them */
    say("recvfrom", recvfrom(ends[1], to[0], each, 0, (struct sockaddr *)&from, &length));
    say("recv", recv(ends[1], to[0], each / 2, 0));
    say("read", read(ends[1], to[0], each / 2));
    say("writev", writev(ends[0], &whole, 1));
    await_bytes(ends[1], 2000);
    say("readv", readv(ends[1], parts, 2));
    say("send", send(ends[0], data, each, 0));
    await_bytes(ends[1], 1000);
    say("splice", splice(ends[1], NULL, pipes[1], NULL, 1000, 0));
    say("splice back", splice(pipes[0], NULL, ends[1], NULL, 1000, 0));
    await_bytes(ends[0], 1000);
    say("the same came", read(ends[0], to[0], each) == 1000 && memcmp(to[0], data, 1000) == 0);
    close(ends[0]);
    close(ends[1]);
    free(data);
}

static void on_signal(int number)
{
    (void)number;
}

/* Calls that end early, as the kernel has it. */
static void early_ends(void)
{
    static const size_t bytes = 200 * MB;
    unsigned char *data = calloc(1, bytes);
    struct timeval soon = {0, 100000};
    struct itimerval alarm_soon = {.it_value = soon, .it_interval = soon};
    struct sigaction action = {.sa_handler = on_signal};
    int ends[2], file = file_of(1 * MB);
    ssize_t sent;

    make_pair(ends);
    must(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon), "SO_SNDTIMEO");
    sent = send(ends[0], data, bytes, 0);
    printf("nobody reads: part of it: %d\n", sent > 0 && sent < (ssize_t)bytes);
    say("again", send(ends[0], data, bytes, 0));
    say("sendfile", sendfile(ends[0], file, NULL, 1 * MB));
    make_pair(ends);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &alarm_soon, NULL);
    sent = write(ends[0], data, bytes);
    printf("interrupted: part of it: %d\n", sent > 0 && sent < (ssize_t)bytes);
    say("again", write(ends[0], data, bytes));
    alarm_soon = (struct itimerval){0};
    setitimer(ITIMER_REAL, &alarm_soon, NULL);
    make_pair(ends);
    must(fcntl(ends[0], F_SETFL, O_NONBLOCK), "fcntl");
    sent = write(ends[0], data, bytes);
    printf("not blocking: part of it: %d\n", sent > 0 && sent < (ssize_t)bytes);
    while (write(ends[0], data, bytes) > 0)
        ;
    say("full", write(ends[0], data, bytes));
    make_pair(ends);
    signal(SIGPIPE, SIG_IGN);
    close(ends[1]);
    while (send(ends[0], data, 1000, 0) >= 0)
        ;
    say("nobody there", send(ends[0], data, bytes, MSG_NOSIGNAL));
    say("write", write(ends[0], data, bytes));
    say("sendfile", sendfile(ends[0], file, NULL, 1 * MB));
    free(data);
}

/* What a peer sends, and what it does once all of it was read; a reader waits for more then. */
struct sender {
    const char *name;
    size_t bytes;
    enum { ENDS, RESETS, SIGNALS, URGENT } then;
    int fd, other;
    pthread_t thread, reader;
    _Atomic bool over;
};

static void *send_and_more(void *context)
{
    struct linger reset = {1, 0};
    struct sender *sender = context;
    unsigned char *data = pattern(sender->bytes);
    int unread = 1, unacked = 1;

    for (size_t done = 0; done < sender->bytes;)
        done += (size_t)must((int)send(sender->fd, data + done, sender->bytes - done, 0), "send");
    while (sender->then == RESETS && (unread || unacked)) {
        must(ioctl(sender->fd, SIOCOUTQ, &unacked), "SIOCOUTQ");
        must(ioctl(sender->other, SIOCINQ, &unread), "SIOCINQ");
    }
    while (sender->then == SIGNALS && !sender->over) {
        must(ioctl(sender->fd, SIOCOUTQ, &unacked), "SIOCOUTQ");
        must(ioctl(sender->other, SIOCINQ, &unread), "SIOCINQ");
        if (!unread && !unacked)
            pthread_kill(sender->reader, SIGALRM);
        usleep(1000);
    }
    if (sender->then == URGENT) {
        must((int)send(sender->fd, "!", 1, MSG_OOB), "MSG_OOB");
        must((int)send(sender->fd, data, 1000, 0), "send");
    }
    free(data);
    if (sender->then == RESETS)
        must(setsockopt(sender->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), "SO_LINGER");
    close(sender->fd);
    return NULL;
}

static uint32_t sum_of(const unsigned char *data, ssize_t bytes)
{
    uint32_t sum = 0;

    for (ssize_t i = 0; i < bytes; i++)
        sum = sum * 31 + data[i];
    return sum;
}

/* One call, of what comes bit by bit. */
static void reads_all(void)
{
    unsigned char *data = pattern(4 * MB);
    int ends[2], status;
    pid_t child;

    make_pair(ends);
    child = must(fork(), "fork");
    if (child == 0) {
        close(ends[1]);
        _exit(write(ends[0], data, 4 * MB) != 4 * MB);
    }
    close(ends[0]);
    memset(data, 0, 4 * MB);
    say("all", recv(ends[1], data, 4 * MB, MSG_WAITALL));
    say("the end", recv(ends[1], data, 4 * MB, MSG_WAITALL));
    must(waitpid(child, &status, 0), "waitpid");
    say("child", status);
    close(ends[1]);
    free(data);
}

/* Large reads that wait for all they ask for, and end early. Under autobuf run they are made in parts of 512 KB. */
static void whole_reads(void)
{
    static const size_t part = 512 * 1024, room = 4 * MB;
    struct sender senders[] = {
        {.name = "all", .bytes = 4 * MB, .then = ENDS},
        {.name = "end after parts", .bytes = 2 * part, .then = ENDS},
        {.name = "end in a part", .bytes = 600000, .then = ENDS},
        {.name = "reset after parts", .bytes = 2 * part, .then = RESETS},
        {.name = "reset in a part", .bytes = 600000, .then = RESETS},
        {.name = "signal after parts", .bytes = 2 * part, .then = SIGNALS},
        {.name = "signal in a part", .bytes = 600000, .then = SIGNALS},
        {.name = "urgent after a part", .bytes = part, .then = URGENT},
        {.name = "urgent in a part", .bytes = 600000, .then = URGENT},
    };
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    unsigned char *data = malloc(room);

    sigaction(SIGALRM, &action, NULL);
    for (size_t i = 0; i < sizeof senders / sizeof *senders; i++) {
        struct sender *sender = &senders[i];
        int ends[2];
        ssize_t got;

        make_pair(ends);
        sender->fd = ends[0];
        sender->other = ends[1];
        sender->reader = pthread_self();
        must(-pthread_create(&sender->thread, NULL, send_and_more, sender), "pthread_create");
        got = recv(ends[1], data, room, MSG_WAITALL);
        sender->over = true;
        say(sender->name, got);
        printf("%08x\n", (unsigned)sum_of(data, got));
        say("again", recv(ends[1], data, room, MSG_WAITALL));
        say("and again", recv(ends[1], data, room, MSG_WAITALL));
        pthread_join(sender->thread, NULL);
        close(ends[1]);
    }
    free(data);
}

/* Large reads that do not wait for all, or not for ever. */
static void whole_reads_with_bounds(void)
{
    static const size_t room = 4 * MB;
    struct timeval soon = {0, 100000};
    unsigned char *data = calloc(1, room);
    int ends[2];

    make_pair(ends);
    must(setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), "SO_RCVTIMEO");
    must((int)send(ends[0], data, 1000, 0), "send");
    say("in time", recv(ends[1], data, room, MSG_WAITALL));
    say("nothing", recv(ends[1], data, room, MSG_WAITALL));
    must((int)send(ends[0], data, 1000, 0), "send");
    say("peek", recv(ends[1], data, 1000, MSG_WAITALL | MSG_PEEK));
    say("not waiting", recv(ends[1], data, room, MSG_WAITALL | MSG_DONTWAIT));
    say("again", recv(ends[1], data, room, MSG_WAITALL | MSG_DONTWAIT));
    must(fcntl(ends[1], F_SETFL, O_NONBLOCK), "fcntl");
    say("not blocking", recv(ends[1], data, room, MSG_WAITALL));
    free(data);
}

/* Whoever reads nothing, and resets the connection once the other end waits, or is about to. */
static void *wait_and_reset(void *context)
{
    const int *ends = context;
    struct linger reset = {1, 0};
    int before = -1, unacked = 0;

    while (unacked != before || !unacked) {
        before = unacked;
        usleep(2000);
        must(ioctl(ends[0], SIOCOUTQ, &unacked), "SIOCOUTQ");
    }
    must(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), "SO_LINGER");
    close(ends[1]);
    return NULL;
}

static _Atomic int broken;

static void count_broken(int number)
{
    (void)number;
    broken++;
}

static ssize_t send_by(unsigned how, int fd, const unsigned char *data, size_t bytes, int file)
{
    switch (how % 3) {
    case 0: return write(fd, data, bytes);
    case 1: return send(fd, data, bytes, MSG_NOSIGNAL);
    default: lseek(file, 0, SEEK_SET); return sendfile(fd, file, NULL, bytes);
    }
}

/*
 * Large calls whose peer resets the connection: one has sent a part, the next has the reset, and the one after it finds
 * nobody. sendfile() is one that has lost the reset to itself.
 */
static void whole_writes(void)
{
    static const size_t bytes = 64 * MB;
    struct sigaction action = {.sa_handler = count_broken};
    unsigned char *data = calloc(1, bytes);
    int file = file_of(bytes);

    sigaction(SIGPIPE, &action, NULL);
    for (unsigned i = 0; i < 6; i++) {
        int ends[2];
        pthread_t peer;
        ssize_t sent;

        make_pair(ends);
        must(-pthread_create(&peer, NULL, wait_and_reset, ends), "pthread_create");
        sent = send_by(i, ends[0], data, bytes, file);
        printf("a part of it: %d\n", sent > 0 && sent < (ssize_t)bytes);
        pthread_join(peer, NULL);
        say("the next", send_by(i, ends[0], data, bytes, file));
        say("the one after it", send_by(i, ends[0], data, bytes, file));
        printf("SIGPIPE: %d\n", broken);
        close(ends[0]);
    }
    close(file);
    free(data);
}

struct large_send {
    int fd;
    const unsigned char *data; /* NULL: of the file */
    int file;
    size_t bytes;
    ssize_t sent;
    _Atomic bool ended;
};

static void *send_large(void *context)
{
    struct large_send *large = context;

    if (large->data)
        large->sent = send(large->fd, large->data, large->bytes, MSG_NOSIGNAL);
    else
        large->sent = sendfile(large->fd, large->file, NULL, large->bytes);
    large->ended = true;
    return NULL;
}

/* Until a call that nobody reads waits. */
static void await_full(int fd)
{
    int unacked = 0, before = -1;

    while (unacked != before || !unacked) {
        before = unacked;
        usleep(2000);
        must(ioctl(fd, SIOCOUTQ, &unacked), "SIOCOUTQ");
    }
}

/* While a large call waits, another thread closes its descriptor and opens a connection, which gets the number. */
static void numbers_reused(void)
{
    struct large_send large = {.data = calloc(1, 64 * MB), .bytes = 64 * MB};
    int first[2], second[2];
    struct reader reader, other;
    pthread_t thread;

    make_pair(first);
    large.fd = first[0];
    must(-pthread_create(&thread, NULL, send_large, &large), "pthread_create");
    await_full(first[0]);
    close(first[0]);
    make_pair(second);
    printf("the same number: %d\n", second[0] == first[0] || second[1] == first[0]);
    begin_reader(&reader, first[1]);
    begin_reader(&other, second[0] == first[0] ? second[1] : second[0]);
    pthread_join(thread, NULL);
    must(shutdown(second[0] == first[0] ? second[0] : second[1], SHUT_WR), "shutdown");
    pthread_join(other.thread, NULL);
    printf("the second connection: %zu bytes of the first one's\n", other.bytes);
    pthread_join(reader.thread, NULL);
    free((void *)(uintptr_t)large.data);
}

struct messages {
    int fd;
    ssize_t first, second;
};

static void *read_messages(void *context)
{
    struct messages *messages = context;
    char *data = malloc(MB);

    messages->first = recv(messages->fd, data, MB, MSG_WAITALL);
    messages->second = recv(messages->fd, data, MB, MSG_WAITALL | MSG_DONTWAIT);
    free(data);
    return NULL;
}

/* A stream closes its descriptor by no call that can be seen, and its number becomes one of messages. */
static void number_of_a_stream(void)
{
    int tcp = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), pair[2], bytes = 4 * MB;
    char *data = calloc(1, MB);
    struct messages messages;
    pthread_t reader;

    fclose(fdopen(tcp, "r+"));
    must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "socketpair");
    printf("the same number: %d\n", pair[0] == tcp);
    must(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes), "SO_SNDBUFFORCE");
    messages.fd = pair[1];
    must(-pthread_create(&reader, NULL, read_messages, &messages), "pthread_create");
    say("send", send(pair[0], data, MB, 0));
    pthread_join(reader, NULL);
    printf("received: %zd, %zd\n", messages.first, messages.second);
    free(data);
}

/* What is sent is of the file that the call was given, whatever its number is of by then. */
static void file_replaced(void)
{
    struct large_send large = {.file = must(memfd_create("zeros", 0), "memfd_create"), .bytes = 64 * MB};
    int ends[2], other = file_of(64 * MB);
    struct reader reader;
    pthread_t thread;

    must(ftruncate(large.file, 64 * MB), "ftruncate");
    make_pair(ends);
    large.fd = ends[0];
    must(-pthread_create(&thread, NULL, send_large, &large), "pthread_create");
    await_full(ends[0]);
    must(dup2(other, large.file), "dup2");
    begin_reader(&reader, ends[1]);
    pthread_join(thread, NULL);
    shutdown(ends[0], SHUT_WR);
    pthread_join(reader.thread, NULL);
    printf("something came: %d; of the other file: %d\n", reader.bytes > 0, reader.sum != 0);
}

/* Sizes that the kernel refuses, or bounds, and a failed read()'s. */
static void impossible_sizes(void)
{
    unsigned char *data = calloc(1, 2 * MB);
    struct reader reader;
    int ends[2], file = file_of(1000);
    struct linger reset = {1, 0};
    volatile size_t much = SIZE_MAX; /* the compiler would not allow it */

    make_pair(ends);
    begin_reader(&reader, ends[1]);
    say("write", write(ends[0], data, much));
    say("sendfile", sendfile(ends[0], file, NULL, much));
    say("recv", recv(ends[0], data, much, MSG_WAITALL | MSG_DONTWAIT));
    must(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), "SO_LINGER");
    shutdown(ends[0], SHUT_WR);
    pthread_join(reader.thread, NULL);
    printf("came: %zu\n", reader.bytes);
    free(data);
}

/* All that a file holds, as a program asks for that need not know how much it is. */
static void whole_files(void)
{
    static const size_t bytes = 40 * MB;
    volatile size_t much = SSIZE_MAX; /* the compiler would not allow it */
    off_t offset = 0, *volatile nowhere = (off_t *)1;
    int ends[2], file = file_of(bytes);
    struct reader reader;

    make_pair(ends);
    begin_reader(&reader, ends[1]);
    errno = 77;
    say("from the beginning", sendfile(ends[0], file, &offset, much));
    printf("errno %d\n", errno);
    say("from its end, which no offset can tell then", sendfile(ends[0], file, &offset, much));
    say("offset", (long)offset);
    say("more than a call moves, from there", sendfile(ends[0], file, &offset, much - bytes));
    say("from where it is", sendfile(ends[0], file, NULL, much));
    say("file at", (long)lseek(file, 0, SEEK_CUR));
    say("from there", sendfile(ends[0], file, NULL, much));
    offset = -1;
    say("from before it", sendfile(ends[0], file, &offset, much));
    say("more than any", sendfile(ends[0], file, NULL, much + 1));
    say("an offset that cannot be read", sendfile(ends[0], file, nowhere, much));
    say("a file that cannot", sendfile(ends[0], ends[0], NULL, much));
    shutdown(ends[0], SHUT_WR);
    end_reader(&reader);
    close(ends[0]);
    must(pipe(ends), "pipe");
    close(ends[0]);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = count_broken}, NULL);
    broken = 0;
    offset = 0;
    say("a pipe that nobody reads", sendfile(ends[1], file, &offset, much));
    printf("SIGPIPE: %d\n", broken);
}

/* Calls that fail leave what is known of a socket, and one with force is what counts. */
static void sizes_after_failures(void)
{
    int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), bytes = 4 * LOCK_BYTES;

    set_sizes(fd, LOCK_BYTES);
    say("dup2", dup2(999, fd));
    say("dup3", dup3(0, fd, 7));
    say("close_range", close_range((unsigned)fd, (unsigned)fd, 1 << 20));
    say_sizes("after them", fd);
    say("SO_SNDBUFFORCE", setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes));
    say_sizes("then", fd);
    say("SO_RCVBUFFORCE", setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes));
    say_sizes("at last", fd);
}

/* Descriptors that are closed past the C library's close(). */
static void closed_elsewhere(void)
{
    for (int i = 0; i < 3; i++) {
        int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), pair[2], bytes = LOCK_BYTES;

        set_sizes(fd, LOCK_BYTES);
        if (i == 0)
            say("SYS_close", syscall(SYS_close, fd));
        else if (i == 1)
            say("SYS_close_range", syscall(SYS_close_range, fd, fd, 0));
        else
            say("fclose", fclose(fdopen(fd, "r")));
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
        printf("the same number: %d\n", pair[0] == fd);
        must(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), "SO_SNDBUF");
        say_sizes("of the pair", pair[0]);
        close(pair[0]);
        close(pair[1]);
    }
}

/* A queue of errors that has something in it ends no call, and urgent data in line do. */
static void told_beside(void)
{
    int stamps = 1 << 1 | 1 << 4 | 1 << 7, yes = 1, ends[2]; /* SOF_TIMESTAMPING_TX_SOFTWARE, SOFTWARE, OPT_ID */
    unsigned char *data = calloc(1, 16 * MB);
    struct reader reader;

    make_pair(ends);
    must(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps), "SO_TIMESTAMPING");
    begin_reader(&reader, ends[1]);
    say("write", write(ends[0], data, 16 * MB));
    close(ends[0]);
    pthread_join(reader.thread, NULL);
    make_pair(ends);
    must(setsockopt(ends[1], SOL_SOCKET, SO_OOBINLINE, &yes, sizeof yes), "SO_OOBINLINE");
    for (size_t sent = 0; sent < 524288; sent += 65536)
        must((int)send(ends[0], data, 65536, 0), "send");
    must((int)send(ends[0], data, 1, MSG_OOB), "send");
    must((int)send(ends[0], data, 1000, 0), "send");
    close(ends[0]);
    say("recv", recv(ends[1], data, MB, MSG_WAITALL));
    say("the rest", recv(ends[1], data, MB, MSG_WAITALL));
    free(data);
}

static void *open_and_close(void *context)
{
    while (!*(_Atomic bool *)context)
        close(socket(AF_INET, SOCK_STREAM, 0));
    return NULL;
}

/* Children that are made while another thread is anywhere in a call. */
static void forks_beside(void)
{
    _Atomic bool ended = false;
    pthread_t thread;
    int failed = 0;

    must(-pthread_create(&thread, NULL, open_and_close, &ended), "pthread_create");
    for (int i = 0; i < 1000; i++) {
        pid_t child = must(fork(), "fork");
        int status = 0;

        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int k = 0; k < 8; k++)
                (void)!socket(AF_INET, SOCK_STREAM, 0);
            _exit(0);
        }
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    ended = true;
    pthread_join(thread, NULL);
    printf("failed: %d\n", failed);
}

/* On a connection that the child has of its parent. */
static void large_calls_of_a_child(void)
{
    int file = file_of(4 * MB);

    for (unsigned how = 0; how < 3; how++) {
        unsigned char *data = calloc(1, 4 * MB);
        struct reader reader;
        int ends[2];

        make_pair(ends);
        begin_reader(&reader, ends[1]);
        fflush(stdout);
        if (must(fork(), "fork") == 0) {
            say("moved", send_by(how, ends[0], data, 4 * MB, file));
            _exit(0);
        }
        wait(NULL);
        close(ends[0]);
        pthread_join(reader.thread, NULL);
        printf("came: %zu\n", reader.bytes);
        free(data);
    }
    close(file);
}

static void dies_of_sigpipe(void)
{
    static char data[MB];
    int ends[2];

    make_pair(ends);
    close(ends[1]);
    for (;;)
        send(ends[0], data, sizeof data, 0);
}

static int handler_fd;
static _Atomic int handled;
static _Atomic bool storms;

/* One alarm at a time: however slow a handler is, as under valgrind, the program goes on between two of them. */
static void set_alarm(void)
{
    static const struct itimerval soon = {{0, 0}, {0, 300}};

    setitimer(ITIMER_REAL, &soon, NULL);
}

static void write_in_handler(int number)
{
    int error = errno;

    (void)number;
    handled += (int)write(handler_fd, "0123456789", 10);
    if (storms)
        set_alarm();
    errno = error;
}

/*
 * Handlers that write while the program is inside malloc(), and inside calls on other connections. They run in the
 * thread that writes and in the first reader: none of them is left when what they write on is shut down.
 */
static void storm(void)
{
    struct sigaction action = {.sa_handler = write_in_handler, .sa_flags = SA_RESTART};
    struct reader first, second;
    unsigned char *data = pattern(MB);
    int ends[2], others[2];
    sigset_t alarms;

    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    make_pair(ends);
    make_pair(others);
    begin_reader(&first, ends[1]);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    begin_reader(&second, others[1]);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    handler_fd = others[0];
    sigaction(SIGALRM, &action, NULL);
    storms = true;
    set_alarm();
    for (int i = 0; i < 100; i++) {
        for (size_t done = 0; done < MB;) {
            ssize_t sent = write(ends[0], data + done, MB - done);

            done += sent > 0 ? (size_t)sent : 0;
        }
        for (size_t k = 0; k < 200; k++)
            free(malloc(k * 997));
    }
    storms = false;
    shutdown(ends[0], SHUT_WR);
    end_reader(&first);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    shutdown(others[0], SHUT_WR);
    pthread_join(second.thread, NULL);
    printf("handlers wrote: %d, all of it read: %d\n", handled > 0, second.bytes == (size_t)handled);
    free(data);
}

static void *send_for_ever(void *context)
{
    static char data[8 * MB];

    for (;;)
        send(*(int *)context, data, sizeof data, 0);
    return NULL;
}

static void cancelled(void)
{
    int ends[2], bytes = 0;
    pthread_t thread;
    void *result;

    make_pair(ends);
    must(-pthread_create(&thread, NULL, send_for_ever, &ends[0]), "pthread_create");
    while (bytes < 100000) /* it has begun */
        bytes += must((int)read(ends[1], (char[4096]){0}, 4096), "read");
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled: %d\n", result == PTHREAD_CANCELED);
}

/* Of each child: its end. */
static void await(const char *what, pid_t child)
{
    int status;

    must(waitpid(child, &status, 0), "waitpid");
    if (WIFSIGNALED(status))
        printf("%s: signal %d\n", what, WTERMSIG(status));
    else
        printf("%s: status %d\n", what, WEXITSTATUS(status));
    fflush(stdout);
}

static int send_megabytes(int fd, unsigned megabytes)
{
    static char data[MB];

    for (unsigned i = 0; i < megabytes; i++)
        for (size_t done = 0; done < MB;) {
            ssize_t sent = send(fd, data + done, MB - done, 0);

            if (sent < 0)
                return 1;
            done += (size_t)sent;
        }
    return 0;
}

static void children(void)
{
    char number[16], *const again[] = {"run_calls", "inherited", number, NULL}, *const nothing[] = {"true", NULL};
    int ends[2], bytes = LOCK_BYTES;
    struct reader reader;
    pid_t child;

    make_pair(ends);
    begin_reader(&reader, ends[1]);
    set_sizes(ends[0], bytes);
    send_megabytes(ends[0], 5);
    child = must(fork(), "fork");
    if (child == 0) {
        say_sizes("child", ends[0]);
        _exit(send_megabytes(ends[0], 5));
    }
    await("fork", child);
    child = must(vfork(), "vfork");
    if (child == 0) {
        dup2(2, 1);
        close(ends[0]);
        closefrom(3);
        _exit(7);
    }
    await("vfork", child);
    say_sizes("after vfork", ends[0]);
    must(-posix_spawnp(&child, "true", NULL, NULL, nothing, environ), "posix_spawnp");
    await("posix_spawn", child);
    snprintf(number, sizeof number, "%d", ends[0]);
    child = must(vfork(), "vfork");
    if (child == 0) {
        execv("/proc/self/exe", again);
        _exit(8);
    }
    await("exec", child);
    say("send", send_megabytes(ends[0], 5));
    shutdown(ends[0], SHUT_WR);
    end_reader(&reader);
}

/* After exec(): a connection that somebody else has opened. */
static void inherited(int fd)
{
    int bytes = 2 * LOCK_BYTES;

    set_sizes(fd, bytes);
    say_sizes("inherited", fd);
    exit(send_megabytes(fd, 5));
}

/* by_prctl: by a call that the C library has no name for. */
static void forbid_everything_else(bool by_prctl)
{
    static const long allowed[] = {SYS_write, SYS_sendto, SYS_exit, SYS_exit_group, SYS_rt_sigreturn};
    struct sock_filter code[2 + 2 * sizeof allowed / sizeof *allowed] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_fprog program = {.filter = code};
    size_t used = 1;

    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        code[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program.len = (unsigned short)used;
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    if (by_prctl)
        must((int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "prctl");
    else
        must((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
}

/* A thread that sets a filter for itself leaves alone what others do. */
static void filter_beside(void)
{
    struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &code};
    struct large_send large = {.data = calloc(1, 16 * MB), .bytes = 16 * MB};
    struct reader reader;
    pthread_t thread;
    int ends[2];

    make_pair(ends);
    large.fd = ends[0];
    must(-pthread_create(&thread, NULL, send_large, &large), "pthread_create");
    await_full(ends[0]);
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "prctl");
    begin_reader(&reader, ends[1]);
    pthread_join(thread, NULL);
    say("sent", large.sent);
    shutdown(ends[0], SHUT_WR);
    end_reader(&reader);
    free((void *)(uintptr_t)large.data);
}

static _Noreturn void confined_child(int fd, bool strict, bool by_prctl)
{
    send_megabytes(fd, 5);
    if (strict && by_prctl)
        must((int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0), "strict");
    else if (strict)
        must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), "strict");
    else
        forbid_everything_else(by_prctl);
    for (int i = 0; i < 5000; i++)
        if (write(fd, "0123456789", 10) < 0)
            syscall(SYS_exit, 3);
    if (!strict)
        _exit(send_megabytes(fd, 20));
    syscall(SYS_exit, 0);
    abort();
}

static void confined(void)
{
    struct reader reader;
    char name[32];
    int ends[2];
    pid_t child;

    make_pair(ends);
    begin_reader(&reader, ends[1]);
    say("send", send_megabytes(ends[0], 5)); /* it is managed by now */
    for (int i = 0; i < 6; i++) {
        bool strict = i & 1, alone = i & 2, by_prctl = i & 4;

        /* Of clone() the C library knows nothing. */
        child = must(alone ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork(), "fork");
        if (child == 0)
            confined_child(ends[0], strict, by_prctl);
        snprintf(name, sizeof name, "%s, %s%s", alone ? "clone" : "fork", strict ? "strict" : "filter",
                 by_prctl ? ", prctl" : "");
        await(name, child);
    }
    say("send", send_megabytes(ends[0], 5));
    shutdown(ends[0], SHUT_WR);
    end_reader(&reader);
}

static void *connect_often(void *context)
{
    const struct sockaddr_in *address = context;

    for (int i = 0; i < 100; i++) {
        int fd = connected(address), bytes = LOCK_BYTES;
        char data[1000];

        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        while (read(fd, data, sizeof data) > 0)
            ;
        close(fd);
    }
    return NULL;
}

/* Connections that come and go in several threads, so that their numbers are used again and again. */
static void threads(void)
{
    static char data[300000];
    struct sockaddr_in address;
    int listener = listener_of(&address), served = 0, epoll = must(epoll_create1(0), "epoll_create1");
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t clients[4];

    must(listen(listener, 128), "listen");
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event), "epoll_ctl");
    for (int i = 0; i < 4; i++)
        must(-pthread_create(&clients[i], NULL, connect_often, &address), "pthread_create");
    for (; served < 400; served++) {
        int fd;

        must(epoll_wait(epoll, &event, 1, -1), "epoll_wait");
        fd = must(accept(listener, NULL, NULL), "accept");
        must((int)send(fd, data, sizeof data, 0), "send");
        close(fd);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(clients[i], NULL);
    printf("served: %d\n", served);
}

/* A call that works leaves errno as it was. */
static void errnos(void)
{
    static char data[8 * MB];
    struct sockaddr_in address;
    struct reader reader;
    int listener, out, in, copy, bytes = LOCK_BYTES;
    socklen_t length = sizeof bytes;

#define KEEPS(call) (errno = 77, (void)!(call), printf("%s: %d\n", #call, errno))
    listener = listener_of(&address);
    must(listen(listener, 8), "listen");
    KEEPS((out = socket(AF_INET, SOCK_STREAM, 0)));
    KEEPS(connect(out, (struct sockaddr *)&address, sizeof address));
    KEEPS((in = accept(listener, NULL, NULL)));
    KEEPS(setsockopt(out, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes));
    KEEPS(getsockopt(out, SOL_SOCKET, SO_SNDBUF, &bytes, &length));
    for (int i = 0; i < 20; i++) {
        KEEPS(send(out, data, 60000, 0));
        KEEPS(recv(in, data, sizeof data, 0));
    }
    begin_reader(&reader, in);
    for (int i = 0; i < 4; i++)
        KEEPS(send(out, data, sizeof data, 0));
    KEEPS((copy = dup(out)));
    KEEPS(poll(NULL, 0, 0));
    KEEPS(shutdown(copy, SHUT_RDWR));
    end_reader(&reader);
    KEEPS(close(copy));
    KEEPS(close(out));
}

/* --------------------------------------------------------------------------------- little stack */

static struct {
    struct sockaddr_in peer;
    long results[9];
    unsigned char *stack;
    size_t stack_bytes;
} little;

/* From a socket to its end, with a large call and with small ones. */
static void *use_little_stack(void *unused)
{
    static char data[MB];
    long *result = little.results;
    int fd = socket(AF_INET, SOCK_STREAM, 0), bytes = LOCK_BYTES;
    struct pollfd writable = {fd, POLLOUT, 0};

    *result++ = fd < 0;
    *result++ = setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    *result++ = connect(fd, (struct sockaddr *)&little.peer, sizeof little.peer);
    *result++ = send(fd, data, MB, 0);
    for (int i = 0; i < 300; i++)
        *result += write(fd, data, 30000);
    result++;
    *result++ = poll(&writable, 1, -1);
    *result++ = option_of(fd, SO_SNDBUF);
    *result++ = shutdown(fd, SHUT_WR);
    *result++ = close(fd);
    return unused;
}

/* As a thread that has some variables of its own. */
static void *use_stack_of_thread(void *unused)
{
    volatile char own[4096];

    own[0] = 1;
    use_little_stack(unused);
    own[sizeof own - 1] = 1;
    return unused;
}

static void use_alternate_stack(int number)
{
    (void)number;
    use_little_stack(NULL);
}

static void *accept_and_read(void *context)
{
    struct reader *reader = context;

    reader->fd = must(accept(reader->fd, NULL, NULL), "accept");
    return read_all(reader);
}

/* Painted, and above a page that nobody may touch. */
static void make_little_stack(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *start = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(start == MAP_FAILED ? -1 : mprotect(start, page, PROT_NONE), "mmap");
    little.stack = memset(start + page, 0xa5, bytes);
    little.stack_bytes = bytes;
}

/*
 * A listener that the preloaded object does not see: what it asks once about a descriptor it asks on the little stack.
 * Its sizes are set because what --probe measures on loopback must not slow the reader down: --keep-sizes obeys them.
 */
static int unseen_listener(void)
{
    int fd = must((int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), "socket"), bytes = MB;

    must((int)syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), "SO_SNDBUF");
    must((int)syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), "SO_RCVBUF");
    return fd;
}

static void run_on_little_stack(bool handler, size_t bytes)
{
    struct sigaction action = {.sa_handler = use_alternate_stack, .sa_flags = SA_ONSTACK};
    struct reader reader = {.fd = bound(unseen_listener(), &little.peer)};
    pthread_attr_t attributes;
    pthread_t thread;
    stack_t stack;

    must(listen(reader.fd, 1), "listen");
    make_little_stack(bytes);
    must(-pthread_create(&reader.thread, NULL, accept_and_read, &reader), "pthread_create");
    if (handler) {
        stack = (stack_t){.ss_sp = little.stack, .ss_size = bytes};
        must(sigaltstack(&stack, NULL), "sigaltstack");
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
    } else {
        pthread_attr_init(&attributes);
        must(-pthread_attr_setstack(&attributes, little.stack, bytes), "pthread_attr_setstack");
        must(-pthread_create(&thread, &attributes, use_stack_of_thread, NULL), "pthread_create");
        pthread_join(thread, NULL);
    }
    for (size_t i = 0; i < sizeof little.results / sizeof *little.results; i++)
        printf("call %zu: %ld\n", i, little.results[i]);
    end_reader(&reader);
}

static void little_thread(void)
{
    run_on_little_stack(false, (size_t)PTHREAD_STACK_MIN);
}

/* Of 8 KB. Where a processor has large registers, the kernel's own frame may take as much. */
static void little_handler(void)
{
    size_t most = getauxval(AT_MINSIGSTKSZ) + 5120;

    run_on_little_stack(true, most > 8192 ? most : 8192);
}

/* How deep the same calls go where there is room: what a test compares, so no scene. */
static void tell_depth(bool handler)
{
    size_t untouched = 0;

    run_on_little_stack(handler, 65536);
    while (little.stack[untouched] == 0xa5)
        untouched++;
    printf("depth: %zu\n", little.stack_bytes - untouched);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {
    {"sizes", sizes},           {"locks", locks},           {"wrong_calls", wrong_calls}, {"descriptors", descriptors},
    {"own_options", own_options}, {"reads_all", reads_all},
    {"transfers", transfers},   {"early_ends", early_ends}, {"sigpipe", dies_of_sigpipe}, {"storm", storm},
    {"cancelled", cancelled},   {"children", children},     {"confined", confined},       {"threads", threads},
    {"file_replaced", file_replaced}, {"number_of_a_stream", number_of_a_stream}, {"filter_beside", filter_beside},
    {"errnos", errnos},         {"whole_reads", whole_reads}, {"whole_reads_with_bounds", whole_reads_with_bounds},
    {"whole_writes", whole_writes}, {"numbers_reused", numbers_reused}, {"impossible_sizes", impossible_sizes},
    {"whole_files", whole_files}, {"sizes_after_failures", sizes_after_failures},
    {"closed_elsewhere", closed_elsewhere}, {"told_beside", told_beside},
    {"forks_beside", forks_beside}, {"large_calls_of_a_child", large_calls_of_a_child}, {"other_calls", other_calls},
    {"little_thread", little_thread}, {"little_handler", little_handler},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "inherited") == 0)
        inherited(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "depth") == 0) {
        tell_depth(strcmp(argv[2], "handler") == 0);
        return 0;
    }
    for (size_t i = 0; argc == 2 && i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].run();
            return 0;
        }
    for (size_t i = 0; argc == 1 && i < sizeof scenes / sizeof *scenes; i++)
        puts(scenes[i].name);
    return argc == 1 ? 0 : 2;
}
