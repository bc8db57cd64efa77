/* SPDX-License-Identifier: MIT */
#include "before_syn.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <before_syn_object.h> /* of the build */

#include "before_syn_table.h"
#include "broker.h"

#define LOG_BYTES (16U << 20) /* more than the verifier says; libbpf takes no more */
#define RULES_BYTES (BEFORE_SYN_RULES * sizeof(struct before_syn_rule))

struct before_syn {
    struct bpf_link *link;
    struct before_syn_table *table; /* both are the kernel's, mapped */
    struct before_syn_rule *rules;
};

static bool is_privileged(void)
{
    uint64_t bpf = BEFORE_SYN_PRIVILEGES | PRIVILEGE(CAP_NET_ADMIN), held = privilege_held();

    return held & PRIVILEGE(CAP_SYS_ADMIN) || (held & bpf) == bpf;
}

/* --------------------------------------------------------------------------------- loading */

static int say_nothing(enum libbpf_print_level level, const char *format, va_list words)
{
    (void)level;
    (void)format;
    (void)words;
    return 0;
}

/* The last line but the verifier's summary; "": it said nothing. */
static const char *last_line(char *log)
{
    const char *last = "";

    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "processed ", 10) != 0)
            last = line;
    return last;
}

/* The program, not yet attached; NULL: why says what is wrong. */
static struct bpf_object *load(char why[BEFORE_SYN_WHY_BYTES])
{
    struct bpf_object_open_opts options = {.sz = sizeof options, .object_name = "before_syn"};
    struct bpf_object *object = bpf_object__open_mem(before_syn_object, before_syn_object_bytes, &options);
    char *log = calloc(1, LOG_BYTES);
    int error =
        object && log ? bpf_program__set_log_buf(bpf_object__next_program(object, NULL), log, LOG_BYTES) : -errno;

    if (error == 0)
        error = bpf_object__load(object);
    if (error < 0) {
        snprintf(why, BEFORE_SYN_WHY_BYTES, "the kernel does not take the program: %s%s%s", strerror(-error),
                 log && log[0] ? ": " : "", log ? last_line(log) : "");
        bpf_object__close(object);
        object = NULL;
    }
    free(log);
    return object;
}

/* MAP_FAILED: errno. */
static void *map_of(const struct bpf_object *object, const char *name, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_object__find_map_fd_by_name(object, name), 0);
}

/* ------------------------------------------------------------------------------- attaching */

/* Of version 2. A descriptor, and its place; -ENOENT: there is none; -errno. */
static int open_control_groups(char place[static 128])
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    const struct mntent *entry;
    int fd = -ENOENT;

    while (mounts && fd == -ENOENT && (entry = getmntent(mounts)) != NULL) {
        if (strcmp(entry->mnt_type, "cgroup2") != 0)
            continue;
        snprintf(place, 128, "%s", entry->mnt_dir);
        fd = open(entry->mnt_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    if (mounts)
        endmntent(mounts);
    return fd;
}

/* Says why not. */
static struct bpf_link *attach(const struct bpf_object *object, char why[BEFORE_SYN_WHY_BYTES])
{
    char place[128] = "";
    int fd = open_control_groups(place);
    struct bpf_link *link;

    if (fd < 0) {
        snprintf(why, BEFORE_SYN_WHY_BYTES, "control groups of version 2: %s%s%s", place, place[0] ? ": " : "",
                 fd == -ENOENT ? "not mounted" : strerror(-fd));
        return NULL;
    }
    link = bpf_program__attach_cgroup(bpf_object__next_program(object, NULL), fd);
    if (!link)
        snprintf(why, BEFORE_SYN_WHY_BYTES, "the program cannot be attached to %s: %s", place, strerror(errno));
    close(fd);
    return link;
}

/* Loads and attaches it. The object is of no more use then. */
static bool begin(struct before_syn *b, uint64_t cookie, char why[BEFORE_SYN_WHY_BYTES])
{
    struct bpf_object *object = load(why);

    if (!object)
        return false;
    b->table = map_of(object, "table", sizeof *b->table);
    b->rules = map_of(object, "rules", RULES_BYTES);
    if (b->table == MAP_FAILED || b->rules == MAP_FAILED) {
        snprintf(why, BEFORE_SYN_WHY_BYTES, "its memory: %s", strerror(errno));
    } else {
        b->table->namespace_cookie = cookie;
        b->link = attach(object, why);
    }
    bpf_object__close(object);
    return b->link;
}

/* ------------------------------------------------------------------------------- the whole */

struct before_syn *before_syn_open(char why[BEFORE_SYN_WHY_BYTES])
{
    uint64_t cookie = broker_network();
    struct before_syn *made = NULL;

    libbpf_set_print(say_nothing);
    if (!cookie) {
        snprintf(why, BEFORE_SYN_WHY_BYTES, "it takes Linux 5.15");
    } else if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
        snprintf(why, BEFORE_SYN_WHY_BYTES, "it takes a kernel with BTF (CONFIG_DEBUG_INFO_BTF)");
    } else if (!is_privileged()) {
        snprintf(why, BEFORE_SYN_WHY_BYTES, "it takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN");
    } else {
        made = malloc(sizeof *made);
        if (made)
            *made = (struct before_syn){.table = MAP_FAILED, .rules = MAP_FAILED};
        else
            snprintf(why, BEFORE_SYN_WHY_BYTES, "%s", strerror(ENOMEM));
    }
    if (made && !begin(made, cookie, why)) {
        before_syn_close(made);
        made = NULL;
    }
    return made;
}

void before_syn_rules(struct before_syn *b, const struct config *config, bool dry_run)
{
    if (!b)
        return;
    __atomic_add_fetch(&b->table->generation, 1, __ATOMIC_SEQ_CST); /* odd: nothing is done meanwhile */
    before_syn_fill(config, dry_run, b->table, b->rules);
    __atomic_add_fetch(&b->table->generation, 1, __ATOMIC_SEQ_CST);
}

uint64_t before_syn_count(const struct before_syn *b)
{
    return b ? __atomic_load_n(&b->table->raised, __ATOMIC_RELAXED) : 0;
}

void before_syn_close(struct before_syn *b)
{
    if (!b)
        return;
    bpf_link__destroy(b->link);
    if (b->table != MAP_FAILED)
        munmap(b->table, sizeof *b->table);
    if (b->rules != MAP_FAILED)
        munmap(b->rules, RULES_BYTES);
    free(b);
}
