/* SPDX-License-Identifier: MIT */
/*
 * Threads that open, use and close connections at once, as the functions of preload/hooks.c tell the preloaded object
 * of them: for the thread sanitizer, which would itself interpose what the object does. Exits 0 if all were served.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "calls.h"

#define THREADS 4
#define CONNECTIONS 25
#define WRITE_BYTES 100000
#define WRITES 30

static struct sockaddr_in address;

static int must(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return (int)result;
}

static int opened(void)
{
    int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket"), bytes = 65536;
    uint32_t stored;

    on_socket(fd, AF_INET, SOCK_STREAM, 0);
    if (!withholds_size(setsockopt, fd, SO_SNDBUF, &bytes, sizeof bytes) || !withheld_size(fd, SO_SNDBUF, &stored) ||
        stored != 2U * 65536U)
        must(-1, "the size is not kept");
    before_connect(fd, (struct sockaddr *)&address, sizeof address);
    must(connect(fd, (struct sockaddr *)&address, sizeof address), "connect");
    return fd;
}

static void shut(int fd)
{
    on_close_range((unsigned)fd, (unsigned)fd);
    close(fd);
}

/* One connection, which two descriptors have. */
static void *send_all(void *nothing)
{
    static char data[WRITE_BYTES];

    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = opened(), copy = must(dup(fd), "dup");

        on_dup(fd, copy);
        for (int k = 0; k < WRITES; k++) {
            int to = k % 2 ? fd : copy;

            for (size_t done = 0; done < sizeof data;) {
                ssize_t sent = send(to, data + done, sizeof data - done, MSG_NOSIGNAL);

                must(sent, "send");
                moved(to, sent, true);
                done += (size_t)sent;
            }
            before_wait();
        }
        shut(copy);
        shut(fd);
    }
    return nothing;
}

/* Two threads read each connection. */
static void *read_all(void *descriptor)
{
    static _Thread_local char data[65536];
    int fd = *(int *)descriptor;
    ssize_t got;

    while ((got = recv(fd, data, sizeof data, 0)) > 0) {
        moved(fd, got, false);
        before_wait();
    }
    return descriptor;
}

static void serve(int listener)
{
    int fd = must(accept(listener, NULL, NULL), "accept");
    pthread_t second;

    on_accept(listener, fd);
    must(-pthread_create(&second, NULL, read_all, &fd), "pthread_create");
    read_all(&fd);
    pthread_join(second, NULL);
    shut(fd);
}

static void *serve_some(void *listener)
{
    for (int i = 0; i < CONNECTIONS; i++)
        serve(*(int *)listener);
    return listener;
}

int main(void)
{
    /* also near peers are looked after */
    struct run_settings settings = {.intent = AUTOBUF_INTENT_LOW_DELAY, .report = true};
    socklen_t length = sizeof address;
    int listener = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    pthread_t threads[2 * THREADS];

    run_begin(&settings);
    on_socket(listener, AF_INET, SOCK_STREAM, IPPROTO_TCP);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    must(bind(listener, (struct sockaddr *)&address, length), "bind");
    must(getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
    must(listen(listener, 128), "listen");
    for (int i = 0; i < 2 * THREADS; i++)
        must(-pthread_create(&threads[i], NULL, i % 2 ? send_all : serve_some, &listener), "pthread_create");
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(threads[i], NULL);
    run_end();
    puts("all were served");
    return 0;
}
