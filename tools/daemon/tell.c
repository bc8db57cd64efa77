/* SPDX-License-Identifier: MIT */
#include "tell.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/kernel/proc.h"
#include "log.h"
#include "report.h"

#define LINE_NS 5000000000ULL /* between two lines for `systemctl status` */

void notify_open(struct notify *notify, const char *where)
{
    size_t length = where ? strlen(where) : 0;

    *notify = (struct notify){.address = {.sun_family = AF_UNIX}};
    if (length < 2 || length >= sizeof notify->address.sun_path || (where[0] != '/' && where[0] != '@'))
        return;
    memcpy(notify->address.sun_path, where, length);
    if (where[0] == '@') /* an abstract name begins with a NUL, and ends where it ends */
        notify->address.sun_path[0] = '\0';
    notify->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (where[0] == '/'));
}

int notify_say(const struct notify *notify, const char *lines)
{
    ssize_t sent;
    int fd, error = 0;

    if (!notify->length)
        return 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address, notify->length);
    if (sent < 0)
        error = -errno;
    close(fd);
    return error;
}

int notify_reloading(const struct notify *notify, uint64_t now_ns)
{
    char lines[64];

    snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns / 1000U);
    return notify_say(notify, lines);
}

/* ------------------------------------------------------------------------------- the pages */

/* 0: /proc does not say. */
static uint64_t resident_bytes(void)
{
    uint64_t pages[2]; /* all, resident */

    return ab_proc_read("/proc/self/statm", pages, 2) == 2 ? pages[1] * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void print_page(void *user, enum status_page page, FILE *out)
{
    const struct tell *tell = user;
    struct status_counts clients = status_counts(tell->status);
    struct report report = {
        .counts = &tell->manager->counts,
        .learning = tell->learning,
        .now_ns = autobuf_now_ns(),
        .answers_cpu_ns = clients.cpu_ns,
        .answered = clients.answered,
        .dropped = clients.dropped,
        .rejected = tell->rejected,
        .memory_bytes = resident_bytes(),
        .generation = tell->generation,
        .rules = tell->config->count,
        .managed = tell->manager->count,
        .flow = manager_flow,
        .user = tell->manager,
    };

    if (page == STATUS_FLOWS)
        report_flows(out, &report);
    else
        report_metrics(out, &report);
}

/* --------------------------------------------------------------------------------- systemd */

/* state: "READY=1\n" or none. */
static void tell_line(struct tell *tell, const char *state, uint64_t now_ns)
{
    char lines[160];

    tell->told = tell->manager->count;
    tell->line_ns = now_ns + LINE_NS;
    snprintf(lines, sizeof lines, "%sSTATUS=Looks after %zu connection%s by %zu rule%s.", state, tell->told,
             tell->told == 1 ? "" : "s", tell->config->count, tell->config->count == 1 ? "" : "s");
    (void)notify_say(&tell->notify, lines);
}

/* ------------------------------------------------------------------------------- the whole */

void tell_open(struct tell *tell, const struct manager *manager, const struct report_learning *learning)
{
    *tell = (struct tell){.manager = manager, .learning = learning};
    notify_open(&tell->notify, getenv("NOTIFY_SOCKET"));
}

static void open_status(struct tell *tell)
{
    int error = tell->file[0] ? status_open(&tell->status, tell->file, print_page, tell) : 0;

    if (error < 0)
        log_line("nobody can ask for its state: %s: %s", tell->file, strerror(-error));
}

void tell_rules(struct tell *tell, const struct config *config)
{
    tell->config = config;
    tell->generation++;
    if (!tell->status || strcmp(tell->file, config->status_file) != 0) {
        status_close(tell->status);
        tell->status = NULL;
        strcpy(tell->file, config->status_file);
        open_status(tell);
    }
    tell_line(tell, "READY=1\n", autobuf_now_ns());
}

void tell_rejected(struct tell *tell)
{
    tell->rejected++;
    tell->line_ns = autobuf_now_ns() + LINE_NS;
    (void)notify_say(&tell->notify, "READY=1\nSTATUS=The new rules are wrong, and the old ones stay.");
}

void tell_step(struct tell *tell, uint64_t now_ns)
{
    status_step(tell->status, now_ns);
    if (tell->told != tell->manager->count && now_ns >= tell->line_ns)
        tell_line(tell, "", now_ns);
}

void tell_close(struct tell *tell)
{
    if (!tell->config)
        return;
    (void)notify_say(&tell->notify, "STOPPING=1\nSTATUS=Ends.");
    status_close(tell->status);
    tell->status = NULL;
}
