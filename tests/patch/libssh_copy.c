/* SPDX-License-Identifier: MIT */
/*
 * Copies a file by libssh, for test_clients.py: libssh_copy HOST PORT USER KEY get|put NAME FILE REKEY_BYTES.
 * "cat" at the server reads or writes NAME. REKEY_BYTES: exchange keys again each time; 0: when libssh likes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libssh/libssh.h>

#define PIECE_BYTES 65536

static ssh_session session;

static void need(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, session != NULL ? ssh_get_error(session) : "");
        exit(1);
    }
}

static void login(char *const argv[])
{
    unsigned int port = (unsigned int)atoi(argv[2]);
    uint64_t rekey_bytes = strtoull(argv[8], NULL, 10);
    int no = 0;
    ssh_key key;

    need((session = ssh_new()) != NULL, "ssh_new");
    ssh_options_set(session, SSH_OPTIONS_HOST, argv[1]);
    ssh_options_set(session, SSH_OPTIONS_PORT, &port);
    ssh_options_set(session, SSH_OPTIONS_USER, argv[3]);
    ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &no);
    if (rekey_bytes > 0)
        need(ssh_options_set(session, SSH_OPTIONS_REKEY_DATA, &rekey_bytes) == 0, "rekey");
    need(ssh_connect(session) == SSH_OK, "connect");
    need(ssh_pki_import_privkey_file(argv[4], NULL, NULL, NULL, &key) == SSH_OK, "key");
    need(ssh_userauth_publickey(session, NULL, key) == SSH_AUTH_SUCCESS, "login");
    ssh_key_free(key);
}

static void get(ssh_channel channel, int fd)
{
    static char piece[PIECE_BYTES];
    int got;

    while ((got = ssh_channel_read(channel, piece, sizeof piece, 0)) > 0)
        need(write(fd, piece, (size_t)got) == got, "write");
    need(got == 0, "read");
}

static void put(ssh_channel channel, int fd)
{
    static char piece[PIECE_BYTES];
    ssize_t got;

    while ((got = read(fd, piece, sizeof piece)) > 0)
        need(ssh_channel_write(channel, piece, (uint32_t)got) == got, "send");
    need(got == 0, "read");
    need(ssh_channel_send_eof(channel) == SSH_OK, "end");
    /* Whatever the other side still has to say. */
    while (ssh_channel_read(channel, piece, sizeof piece, 0) > 0)
        ;
}

int main(int argc, char *argv[])
{
    char command[256];
    ssh_channel channel;
    int getting, fd;

    need(argc == 9, "usage: libssh_copy HOST PORT USER KEY get|put NAME FILE REKEY_BYTES");
    getting = strcmp(argv[5], "get") == 0;
    fd = getting ? open(argv[7], O_WRONLY | O_CREAT | O_TRUNC, 0644) : open(argv[7], O_RDONLY);
    need(fd >= 0, argv[7]);
    login(argv);
    need((channel = ssh_channel_new(session)) != NULL, "channel");
    need(ssh_channel_open_session(channel) == SSH_OK, "open");
    snprintf(command, sizeof command, "cat %s%s", getting ? "" : ">", argv[6]);
    need(ssh_channel_request_exec(channel, command) == SSH_OK, "exec");
    if (getting)
        get(channel, fd);
    else
        put(channel, fd);
    need(ssh_channel_get_exit_status(channel) == 0, "status");
    ssh_channel_free(channel);
    ssh_disconnect(session);
    ssh_free(session);
    return close(fd) == 0 ? 0 : 1;
}
