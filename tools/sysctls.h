/* SPDX-License-Identifier: MIT */
/*
 * What files of sysctl.d(5) and tuned's profile set, and what the kernel has. root is the folder below which all of
 * that is read: "" for this host.
 */
#ifndef SYSCTLS_H
#define SYSCTLS_H

#include <stdbool.h>
#include <stdio.h>

#define SYSCTL_NAME_BYTES 64
#define SYSCTL_VALUE_BYTES 96

struct sysctl_setting {
    char name[SYSCTL_NAME_BYTES];   /* "net.ipv4.tcp_rmem" */
    char value[SYSCTL_VALUE_BYTES]; /* with single blanks */
    char file[128];                 /* that sets it, without root; "": none */
    unsigned line;                  /* in it, from 1 */
};

enum sysctl_parsed { SYSCTL_SET, SYSCTL_NOTHING, SYSCTL_WRONG };

/*
 * Takes the name and the value from one line. SYSCTL_NOTHING: it is empty or a comment. SYSCTL_WRONG: it sets nothing,
 * or the name is none that has a file of its own below /proc/sys.
 */
enum sysctl_parsed sysctls_parse(const char *line, struct sysctl_setting *setting);

/* Opens an ordinary file of at most 1 MB, without waiting; NULL: errno says why. */
FILE *sysctls_open(const char *path);

/* Reads its next line, cap bytes at most; a longer one becomes one that is wrong. false: the end. */
bool sysctls_next(FILE *file, char *line, size_t cap);

/* Finds the line that sets this name last, in the order of systemd-sysctl(8) and of sysctl(8) --system. */
bool sysctls_last(const char *root, const char *name, struct sysctl_setting *last);

/* Finds the line that sets it in the profile that tuned(8) uses. */
bool sysctls_tuned(const char *root, const char *name, struct sysctl_setting *found);

/* Reads what the kernel has. false: it does not show it here. */
bool sysctls_now(const char *root, const char *name, char value[SYSCTL_VALUE_BYTES]);

/* Whether nobody can change it here: /proc/sys is mounted read-only, or the file has no permission to write. */
bool sysctls_fixed(const char *root, const char *name);

#endif
