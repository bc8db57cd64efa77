/* SPDX-License-Identifier: MIT */
/*
 * sshd's settings, and the memory that processes of a host share, for test_settings.py; linked with a built OpenSSH.
 *
 *   settings parse MEMORY      settings from standard input; MEMORY: bytes of the host
 *   settings read FILE
 *   settings host FILE BYTES   takes commands, one a line: "have BYTES SECONDS", "keep BYTES", "child"
 *
 * Tells results on standard output, a line each, and the log on standard error.
 */
#include "includes.h"

#include <sys/types.h>
#include <sys/wait.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "autobuf-host.h"
#include "autobuf-settings.h"
#include "log.h"

static void tell_settings(const struct autobuf_sshd_config *s)
{
    printf("%d %lld %llu\n", s->on, (long long)s->most_bytes, (unsigned long long)s->host_bytes);
}

/* What sshd does for a login's program: forks, and the child closes all. */
static void make_child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        closefrom(0);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    puts("0");
}

static int be_host(const char *file, const char *most)
{
    struct autobuf_host *host = NULL;
    unsigned long long bytes, seconds;
    char line[200];
    int r = autobuf_host_open(&host, file, strtoull(most, NULL, 10));

    printf("%d\n", r);
    fflush(stdout);
    if (r < 0)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "have %llu %llu", &bytes, &seconds) == 2) {
            printf("%llu\n", (unsigned long long)autobuf_host_have(host, bytes, seconds * 1000000000ULL));
        } else if (sscanf(line, "keep %llu", &bytes) == 1) {
            autobuf_host_keep(host, bytes);
            printf("%llu\n", (unsigned long long)autobuf_host_have(host, 0, 0));
        } else {
            make_child();
        }
        fflush(stdout);
    }
    autobuf_host_close(host);
    return 0;
}

int main(int argc, char **argv)
{
    struct autobuf_sshd_config settings = {-1, -1, 1};
    static char text[100000];

    log_init("settings", SYSLOG_LEVEL_INFO, SYSLOG_FACILITY_USER, 1);
    if (argc == 3 && strcmp(argv[1], "parse") == 0) {
        size_t bytes = fread(text, 1, sizeof text, stdin);

        autobuf_sshd_parse(&settings, "FILE", text, bytes, strtoull(argv[2], NULL, 10));
        tell_settings(&settings);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "read") == 0) {
        autobuf_sshd_read(&settings, argv[2]);
        tell_settings(&settings);
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "host") == 0)
        return be_host(argv[2], argv[3]);
    return 2;
}
