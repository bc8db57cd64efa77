/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <kernel_object.h> /* of the build */

#define LOG_BYTES (16U << 20) /* more than the verifier says; libbpf takes no more */
#define PROGRAMS 3U

static bool is_privileged(void)
{
    uint64_t bpf = KERNEL_PRIVILEGES | PRIVILEGE(CAP_NET_ADMIN), held = privilege_held();

    return held & PRIVILEGE(CAP_SYS_ADMIN) || (held & bpf) == bpf;
}

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

/* The programs, not yet attached; NULL: why says what is wrong. */
static struct bpf_object *load(char why[BROKER_WHY_BYTES])
{
    char *log = calloc(1, LOG_BYTES);
    struct bpf_object_open_opts options = {.sz = sizeof options, .object_name = "withhold", .kernel_log_buf = log,
                                           .kernel_log_size = log ? LOG_BYTES : 0};
    struct bpf_object *object = bpf_object__open_mem(kernel_object, kernel_object_bytes, &options);
    int error = object ? bpf_object__load(object) : -errno;

    if (error < 0) {
        snprintf(why, BROKER_WHY_BYTES, "the kernel does not take the programs: %s%s%s", strerror(-error),
                 log && log[0] ? ": " : "", log ? last_line(log) : "");
        bpf_object__close(object);
        object = NULL;
    }
    free(log);
    return object;
}

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

/* All or none. Their descriptors stay open. Says why not. */
static bool attach(const struct bpf_object *object, char why[BROKER_WHY_BYTES])
{
    char place[128] = "";
    struct bpf_program *program = NULL;
    struct bpf_link *links[PROGRAMS] = {NULL};
    int fd = open_control_groups(place);
    bool done = fd >= 0;

    if (fd < 0)
        snprintf(why, BROKER_WHY_BYTES, "control groups of version 2: %s%s%s", place, place[0] ? ": " : "",
                 fd == -ENOENT ? "not mounted" : strerror(-fd));
    for (size_t i = 0; done && i < PROGRAMS; i++) {
        program = bpf_object__next_program(object, program);
        links[i] = bpf_program__attach_cgroup(program, fd);
        done = links[i];
        if (!done)
            snprintf(why, BROKER_WHY_BYTES, "the programs cannot be attached to %s: %s", place, strerror(errno));
    }
    for (size_t i = 0; i < PROGRAMS && links[i]; i++) {
        if (done)
            bpf_link__disconnect(links[i]);
        bpf_link__destroy(links[i]);
    }
    if (fd >= 0)
        close(fd);
    return done;
}

/* A map that outlives the object. -errno. */
static int map_of(const struct bpf_object *object, const char *name)
{
    int fd = fcntl(bpf_object__find_map_fd_by_name(object, name), F_DUPFD_CLOEXEC, 3);

    return fd < 0 ? -errno : fd;
}

/* "": nothing. */
static const char *what_is_missing(uint64_t network)
{
    return !network                                      ? "it takes Linux 5.15"
           : access("/sys/kernel/btf/vmlinux", R_OK) < 0 ? "it takes a kernel with BTF (CONFIG_DEBUG_INFO_BTF)"
           : !is_privileged()                            ? "it takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
                                                         : "";
}

void kernel_load(struct broker_maps *maps)
{
    static const char *const names[BROKER_MAPS] = {"table", "rules", "events"};
    uint64_t network = broker_network();
    struct bpf_object *object = NULL;
    uint32_t first = 0;
    bool there = true;

    maps->ready = false;
    libbpf_set_print(say_nothing);
    snprintf(maps->why, sizeof maps->why, "%s", what_is_missing(network));
    if (!maps->why[0])
        object = load(maps->why);
    if (!object)
        return;
    for (unsigned i = 0; i < BROKER_MAPS; i++) {
        maps->fds[i] = map_of(object, names[i]);
        there = there && maps->fds[i] >= 0;
    }
    if (!there ||
        bpf_map_update_elem(bpf_object__find_map_fd_by_name(object, "network"), &first, &network, BPF_ANY) < 0)
        snprintf(maps->why, sizeof maps->why, "their memory: %s", strerror(errno));
    else
        maps->ready = attach(object, maps->why);
    bpf_object__close(object);
}
