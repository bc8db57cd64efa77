/* SPDX-License-Identifier: MIT */
/* autobufd(8): tunes the TCP connections of programs that nobody can change. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../../lib/base/base.h"
#include "../../lib/base/clock.h"
#include "../../lib/kernel/proc.h"
#include "../print.h"
#include "kernel.h"
#include "log.h"
#include "managed.h"
#include "site.h"

#define CONFIG_FILE "/etc/autobuf/autobufd.conf"
#define CONVERTER "autobuf-import-wad"

#define LINE_NS (5 * AB_NS_PER_S) /* between two lines for `systemctl status` */

enum { DONE = 0, FAILED = 1, USAGE = 2 };

struct wishes {
    const char *file; /* NULL: the usual one, if it is there */
    const char *wad;  /* rules of WAD, to be converted; NULL: none */
    const char *broker;    /* where it listens; NULL: one of its own */
    const char *broker_of; /* a unit; NULL: it is none */
    int check, dry_run, undo, advise;
};

/* ------------------------------------------------------------------------------ the rules */

static void say_wrong(void *user, unsigned line, const char *text)
{
    log_line("%s:%u: %s", (const char *)user, line, text);
}

static int say_no_file(const char *name, int error)
{
    log_line("%s: %s", name, strerror(-error));
    return error;
}

/* Says what is wrong. 0, -errno. */
static int read_rules(const struct wishes *want, struct config *config)
{
    const char *name = want->file ? want->file : CONFIG_FILE;
    FILE *file = fopen(name, "re");
    int error = -errno;

    if (!file && (error != -ENOENT || want->file))
        return say_no_file(name, error);
    error = file ? config_read(file, config, say_wrong, (void *)(uintptr_t)name) : config_without_file(config);
    if (file)
        fclose(file);
    if (error == -ENOMEM)
        log_line("there is no memory for so many rules");
    if (error < 0 || !want->dry_run)
        return error;
    config_set_dry(config);
    if (want->advise && !config->raise_bytes)
        config->raise_bytes = UINT64_MAX;
    /* Before the unit was ever started there is no folder for its socket. A dry run is for then. */
    if (strcmp(config->status_file, STATUS_FILE) == 0 && access(RUN_FOLDER, W_OK) < 0)
        config->status_file[0] = '\0';
    return 0;
}

/* The exit status, if the program cannot be run that does it. */
static int convert(const char *name)
{
    execlp(CONVERTER, CONVERTER, "--", name, (char *)NULL);
    log_line("" CONVERTER ": %s: the Python package has it (python3-autobuf, or python/ of the sources, in PATH)",
             strerror(errno));
    return FAILED;
}

/* All of the daemon. */
struct daemon {
    const struct wishes *want;
    struct config *config;
    struct manager manager;
    struct keep keep;
    struct reported *reported; /* NULL: nothing is taken */
    struct site *site;     /* NULL: there is none */
    struct status *status; /* NULL: there is none */
    char status_file[FILE_BYTES];
    const char *notify; /* NOTIFY_SOCKET; NULL: nobody asks */
    uint64_t rejected;  /* new rules that were wrong */
    uint64_t line_ns;   /* when systemd is told again how many connections there are */
    size_t told;        /* so many were told last */
    uint32_t generation; /* of the rules */
    int signals;
};

/* ---------------------------------------------------------------------- what others are told */

/* 0: /proc does not say. */
static uint64_t resident_bytes(void)
{
    uint64_t pages[2]; /* all, resident */

    return ab_proc_read("/proc/self/statm", pages, 2) == 2 ? pages[1] * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void print_page(void *user, enum status_page page, FILE *out)
{
    const struct daemon *d = user;
    struct report report = {
        .counts = &d->manager.counts,
        .learning = &d->keep.counts,
        .now_ns = autobuf_now_ns(),
        .clients = status_counts(d->status),
        .rejected = d->rejected,
        .memory_bytes = resident_bytes(),
        .generation = d->generation,
        .rules = d->config->count,
        .managed = d->manager.count,
        .flow = manager_flow,
        .user = &d->manager,
    };

    (page == STATUS_FLOWS ? report_flows : report_metrics)(out, &report);
}

/* state: "READY=1\n" or none. */
static void tell_systemd(struct daemon *d, const char *state)
{
    char lines[160];

    d->told = d->manager.count;
    d->line_ns = autobuf_now_ns() + LINE_NS;
    snprintf(lines, sizeof lines, "%sSTATUS=Looks after %zu connection%s by %zu rule%s.", state, d->told,
             d->told == 1 ? "" : "s", d->config->count, d->config->count == 1 ? "" : "s");
    (void)notify_say(d->notify, lines);
}

/* New rules hold: opens, moves or closes the socket as they say, and tells systemd that the daemon is ready. */
static void tell_rules(struct daemon *d)
{
    const char *file = d->config->status_file;
    int error = 0;

    d->generation++;
    if (!d->status || strcmp(d->status_file, file) != 0) {
        status_close(d->status);
        d->status = NULL;
        strcpy(d->status_file, file);
        error = file[0] ? status_open(&d->status, file, print_page, d) : 0;
    }
    if (error < 0)
        log_line("nobody can ask for its state: %s: %s", file, strerror(-error));
    tell_systemd(d, "READY=1\n");
}

/* ------------------------------------------------------------------------- what rules change */

/* Where what was learned goes, and where it comes in from programs. In a dry run nothing is written. */
static void learn_as_told(struct daemon *d)
{
    bool learns = d->config->store_file[0] && !d->config->dry_run;
    int error = 0;

    keep_in(&d->keep, learns ? d->config->store_file : "");
    reported_step(d->reported, UINT64_MAX);
    reported_close(d->reported);
    d->reported = NULL;
    if (learns && d->config->learned_file[0])
        error = reported_open(&d->reported, d->config->learned_file, &d->config->believed, &d->keep);
    if (error)
        log_line("%s: %s", d->config->learned_file,
                 error < 0 ? strerror(-error) : "takes no access control list, so only root can say what was learned");
}

static const char *why_no_site(int error)
{
    return error == -EPERM    ? "its password is in no file that only its owner may read"
           : error == -EINVAL ? "there is no password in its file"
                              : strerror(-error);
}

static void share_as_told(struct daemon *d)
{
    int error = 0;

    if (d->keep.file[0]) {
        error = site_open(&d->site, d->config, &d->keep);
    } else {
        site_close(d->site);
        d->site = NULL;
    }
    if (error < 0)
        log_line("goes on without the site's server: %s", why_no_site(error));
}

/* What is wrong with the new rules was said; then the old ones stay. */
static void read_again(struct daemon *d)
{
    struct config fresh;
    int error;

    (void)notify_reloading(d->notify, autobuf_now_ns());
    error = read_rules(d->want, &fresh);
    if (error == 0 && fresh.without_file && !d->config->without_file) { /* or is not there just now */
        config_free(&fresh);
        error = say_no_file(CONFIG_FILE, -ENOENT);
    }
    if (error < 0) {
        log_line("the rules stay as they were");
        d->rejected++;
        d->line_ns = autobuf_now_ns() + LINE_NS;
        (void)notify_say(d->notify, "READY=1\nSTATUS=The new rules are wrong, and the old ones stay.");
        return;
    }
    care_forget(&d->manager); /* it points into the old rules */
    config_free(d->config);
    *d->config = fresh;
    (void)care_rules(&d->manager, d->config); /* without new limits the old ones hold */
    learn_as_told(d);
    share_as_told(d);
    tell_rules(d);
    log_line("reads the rules again");
}

/* ------------------------------------------------------------------------------------- loop */

static int block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN); /* whoever read the log may be gone: what was set is put back all the same */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The signal that has come; 0: none. */
static uint32_t next_signal(int signals)
{
    struct signalfd_siginfo info;

    return read(signals, &info, sizeof info) == (ssize_t)sizeof info ? info.ssi_signo : 0;
}

/*
 * Until a signal comes, something is to be done, or somebody asks for the state or says what was learned. 0; -EPIPE:
 * the broker has ended; -errno.
 */
static int wait_here(const struct daemon *d)
{
    uint64_t now_ns = autobuf_now_ns(), until_ns = ab_min(care_deadline_ns(&d->manager), keep_deadline_ns(&d->keep));
    struct pollfd fds[5 + STATUS_FDS] = {
        {d->signals, POLLIN, 0}, {broker_fd(), POLLIN, 0}, {care_fd(&d->manager, now_ns), POLLIN, 0}};
    size_t count = 3;
    int error;

    count += status_poll(d->status, fds + count, now_ns, &until_ns);
    count += reported_poll(d->reported, fds + count, now_ns, &until_ns);
    count += site_poll(d->site, fds + count, now_ns, &until_ns);
    error = ab_wait_any(fds, count, until_ns);
    return fds[1].revents ? -EPIPE : error;
}

/*
 * This kernel lists no sockets, or not for this process. All else may pass: memory or descriptors that are short, an
 * answer that was cut.
 */
static bool is_final(int error)
{
    return error == -EOPNOTSUPP || error == -EPROTONOSUPPORT || error == -EAFNOSUPPORT || error == -EPERM ||
           error == -EACCES;
}

static int run(struct daemon *d)
{
    int said = 0;

    for (;;) {
        int error = care_step(&d->manager, autobuf_now_ns());
        uint32_t number;

        if (error < 0 && error != said)
            log_line("sockets cannot be listed: %s", strerror(-error));
        if (is_final(error))
            return FAILED;
        said = error < 0 ? error : said;
        error = wait_here(d);
        if (error == -EPIPE)
            log_line("its broker has ended");
        else if (error < 0)
            log_line("cannot wait for what comes next: %s", strerror(-error));
        if (error < 0)
            return FAILED;
        status_step(d->status, autobuf_now_ns());
        if (d->told != d->manager.count && autobuf_now_ns() >= d->line_ns)
            tell_systemd(d, "");
        reported_step(d->reported, autobuf_now_ns());
        site_step(d->site, autobuf_now_ns());
        keep_step(&d->keep, autobuf_now_ns());
        number = next_signal(d->signals);
        if (number == SIGHUP)
            read_again(d);
        else if (number)
            return DONE;
    }
}

/* The exit status. */
static int say_no_state(const struct config *config, int error)
{
    log_line("%s: %s", config->state_file,
             error == -EWOULDBLOCK ? "an autobufd is running and has it open"
             : error == -EXDEV     ? "it is of an autobufd in another network namespace"
             : error == -EBADMSG   ? "it is not a state file of this version"
             : error == -EPERM     ? "it or its folder is another user's, or others may write to it"
                                   : strerror(-error));
    return FAILED;
}

static int undo_all(const struct wishes *want, const struct config *config)
{
    struct state state;
    int failed;

    if (!config->state_file[0] || (access(config->state_file, F_OK) < 0 && errno == ENOENT)) {
        log_line("nothing was kept, so there is nothing to put back");
        return config->state_file[0] ? DONE : FAILED;
    }
    failed = state_open(&state, config->state_file);
    if (failed < 0)
        return say_no_state(config, failed);
    failed = undo(&state, want->dry_run || config->dry_run);
    if (failed < 0)
        log_line("not all is put back: %s",
                 failed == -ECANCELED ? "AUTOBUF=off in its environment" : strerror(-failed));
    state_close(&state);
    return failed ? FAILED : DONE;
}

/* -------------------------------------------------------------------------------- the whole */

/* Without a place for its state, which the unit gives it, it works too. unkept: why there is none. */
static int begin(struct daemon *d, int unkept)
{
    int status;

    log_line("begins with %zu rule%s%s", d->config->count, d->config->count == 1 ? "" : "s",
            autobuf_is_off() ? ", and leaves all alone: AUTOBUF=off in its environment" : "");
    if (unkept < 0) {
        (void)say_no_state(d->config, unkept);
        log_line("what is set from now on cannot be put back by autobufd --undo");
    }
    learn_as_told(d);
    share_as_told(d);
    d->notify = getenv("NOTIFY_SOCKET");
    tell_rules(d);
    status = run(d);
    (void)notify_say(d->notify, "STOPPING=1\nSTATUS=Ends.");
    status_close(d->status);
    return status;
}

static const char *unconfined_why(int error)
{
    return error == -ENOTSUP ? "there is no libseccomp, or no such thing in this kernel: see PRIVILEGE in autobufd(8)"
                             : strerror(-error);
}

/* One that is confined, or that was to have a broker, cannot go on without. 0, -errno. */
static int open_broker(const char *socket_file, broker_load_fn *load, struct broker_maps *maps)
{
    int error = socket_file ? broker_join(socket_file, load, maps) : broker_open(load, maps);

    if (error < 0 && socket_file)
        log_line("%s: %s", socket_file, error == -EIO ? "the broker does not serve it" : unconfined_why(error));
    else if (error < 0 && error != -EIO)
        log_line("keeps its capabilities to itself: %s", unconfined_why(error));
    if (error <= 0 && error != -EIO && !socket_file && load)
        load(maps);
    (void)privilege_keep(~KERNEL_PRIVILEGES);
    return error == -EIO || socket_file ? error : 0;
}

/* To whoever runs it without the privileges of its unit. */
static void say_unseen(void)
{
    uint64_t held = privilege_held();

    if (!(held & PRIVILEGE(CAP_SYS_PTRACE)) || !(held & PRIVILEGE(CAP_NET_ADMIN)))
        log_line(
            "without CAP_SYS_PTRACE it sees no program of another user, and without CAP_NET_ADMIN it sets no buffer "
            "above net.core.[rw]mem_max: root has both");
}

/* NULL: it does. */
static const char *why_it_withholds_nothing(const struct wishes *want, const struct config *config)
{
    if (autobuf_is_off())
        return "AUTOBUF=off in its environment";
    if (!config->bpf)
        return "bpf=no";
    return want->dry_run || config->dry_run ? "a dry run" : NULL;
}

/* Says whether sizes are withheld; the daemon works without, too. */
static int open_privileged(const struct wishes *want, const struct config *config, struct withhold **withhold,
                           struct bulk **bulk)
{
    const char *why = why_it_withholds_nothing(want, config);
    struct broker_maps maps = {0};
    int error = open_broker(want->broker, why ? NULL : kernel_load, &maps);

    if (error < 0)
        return error;
    *withhold = withhold_open(&maps);
    *bulk = bulk_open(&maps);
    log_line("withholds %ssmall sizes of programs%s%s", *withhold ? "" : "no ", *withhold ? "" : ": ",
             *withhold ? "" : why ? why : maps.why);
    return 0;
}

static int serve(const struct wishes *want, struct config *config)
{
    struct daemon d = {.want = want, .config = config, .signals = block_signals()};
    struct state state = {.fd = -1};
    struct withhold *withhold = NULL;
    struct bulk *bulk = NULL;
    int error = d.signals < 0 ? -errno : 0, unkept = 0, status = FAILED;

    if (!want->dry_run && config->state_file[0])
        unkept = state_open(&state, config->state_file);
    if (unkept == -EWOULDBLOCK || (unkept < 0 && strcmp(config->state_file, STATE_FILE) != 0))
        return say_no_state(config, unkept);
    if (error == 0 && !want->broker)
        say_unseen();
    if (error == 0)
        error = open_privileged(want, config, &withhold, &bulk);
    if (error == 0)
        error = care_open(&d.manager, &state, &d.keep, withhold, bulk);
    if (error == 0)
        error = care_rules(&d.manager, config);
    if (error < 0)
        log_line("cannot begin: %s", strerror(-error));
    else
        status = begin(&d, unkept);
    if (want->advise && status == DONE)
        raising_advise(&d.manager, stdout);
    site_close(d.site);
    reported_step(d.reported, UINT64_MAX); /* whoever told of it keeps nothing itself */
    reported_close(d.reported);
    care_close(&d.manager);
    bulk_close(bulk);
    withhold_close(withhold);
    keep_close(&d.keep);
    state_close(&state);
    broker_close();
    if (d.signals >= 0)
        close(d.signals);
    return status;
}

/* The exit status. */
static int be_broker(const char *unit)
{
    int error = broker_serve(unit, kernel_load);

    if (error < 0)
        log_line("cannot be the broker of %s: %s", unit, strerror(-error));
    return error < 0 ? FAILED : DONE;
}

/* --------------------------------------------------------------------------- command line */

static void help(FILE *out)
{
    fputs("usage: autobufd [OPTION]...\n"
          "Tunes the TCP connections of programs that nobody can change.\n\n"
          "  --config FILE  rules (default: " CONFIG_FILE "; without it: all connections, mode auto)\n"
          "  --check        only reads the rules, and says what is wrong with them\n"
          "  --dry-run      says what it would do, and does nothing\n"
          "  --advise       a dry run that prints at its end what is worth raising for autotuning, and why:\n"
          "                 lines for a file in /etc/sysctl.d\n"
          "  --undo         puts sockets back as they were before an autobufd changed them\n"
          "  --import-wad FILE\n"
          "                 prints the rules of a wad.conf as rules of its own\n"
          "  --broker SOCKET, --broker-of UNIT\n"
          "                 for its two units of systemd\n"
          "  --help, --version\n"
          "\nautobufd(8) says more.\n",
          out);
}

/* -1: run; else the exit status. */
static int parse(int argc, char **argv, struct wishes *want)
{
    const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                     {"check", no_argument, &want->check, 1},
                                     {"dry-run", no_argument, &want->dry_run, 1},
                                     {"advise", no_argument, &want->advise, 1},
                                     {"undo", no_argument, &want->undo, 1},
                                     {"broker", required_argument, NULL, 'b'},
                                     {"broker-of", required_argument, NULL, 'B'},
                                     {"import-wad", required_argument, NULL, 'w'},
                                     {"help", no_argument, NULL, 'h'},
                                     {"version", no_argument, NULL, 'V'},
                                     {NULL, 0, NULL, 0}};
    const char **const texts[] = {
        ['c'] = &want->file, ['b'] = &want->broker, ['B'] = &want->broker_of, ['w'] = &want->wad};
    int letter;

    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (letter) {
        case 'c':
        case 'b':
        case 'B':
        case 'w':
            *texts[letter] = optarg;
            break;
        case 0: /* one that sets its wish */
            break;
        case 'h':
            help(stdout);
            return DONE;
        case 'V':
            printf("autobufd %s\n", autobuf_version());
            return DONE;
        default:
            return USAGE;
        }
    }
    want->dry_run |= want->advise;
    if (optind == argc)
        return -1;
    log_line("%s: it takes options only", argv[optind]);
    return USAGE;
}

int main(int argc, char **argv)
{
    struct wishes want = {0};
    struct config config;
    int status;

    setvbuf(stderr, NULL, _IOLBF, 0);
    status = parse(argc, argv, &want);
    if (status >= 0)
        return output_end("autobufd", status);
    if (want.broker_of)
        return be_broker(want.broker_of);
    if (want.wad)
        return convert(want.wad);
    if (read_rules(&want, &config) < 0)
        return FAILED;
    if (want.check)
        status = DONE;
    else
        status = want.undo ? undo_all(&want, &config) : serve(&want, &config);
    config_free(&config);
    return output_end("autobufd", want.dry_run && ferror(stderr) ? FAILED : status); /* nobody read what it would do */
}
