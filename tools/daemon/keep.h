/* SPDX-License-Identifier: MIT */
/* Where what was learned goes: the path store. Callers hand it over, and it is written a little later, many at once. */
#ifndef KEEP_H
#define KEEP_H

#include "report.h"

#define KEEP_MOST 64U /* entries that wait to be written */
#define KEEP_REPORTED (KEEP_MOST / 2) /* if programs hand them over: the rest stays for others, however many come */

/* Hears of what this host has learned. */
typedef void keep_offer_fn(void *user, const struct autobuf_paths_entry *entry);

/* All zero: nothing is kept. */
struct keep {
    keep_offer_fn *offer; /* NULL: nobody else hears of it */
    void *offer_to;
    struct report_learning counts;
    char file[FILE_BYTES]; /* "": nothing is kept */
    struct autobuf_paths_entry waiting[KEEP_MOST]; /* in the store's order, each key once */
    size_t count;
    uint64_t write_ns; /* not written before */
    bool said;         /* that it cannot be written */
};

/* From now on it goes into this file, "" for none. What waits for another one is written there first. */
void keep_in(struct keep *keep, const char *file);

/*
 * Takes an entry over. Nothing is opened, written or waited for here; beyond room entries that wait it is lost, and
 * counted. What is known better already, as by a measurement or from the administrator, stays.
 */
void keep_learned(struct keep *keep, const struct autobuf_paths_entry *entry, size_t room);

/*
 * The same for what another host has learned of one host, unless this one has learned of it at that time or later, or
 * of its network later. Whether it was taken over.
 */
bool keep_foreign(struct keep *keep, const struct autobuf_paths_entry *entry);

/* Writes what waits, if that is due. */
void keep_step(struct keep *keep, uint64_t now_ns);

/* When to call keep_step() next; UINT64_MAX: nothing waits. */
uint64_t keep_deadline_ns(const struct keep *keep);

/* Writes what waits, at once. */
void keep_close(struct keep *keep);

/* ------------------------------------------------------------------ what programs hand over: reported.c */

/* What programs that use the library have learned: one datagram, one entry. The kernel says who sent it. */
#define REPORTED_MOST 64U    /* datagrams that one step reads */
#define REPORTED_PER_S 100U  /* entries of one user that are taken in a second */
#define REPORTED_HOLDS_S 86400U

struct reported;

/*
 * Takes what comes at a socket of this name, which is made, and gives it to *keep, which must live as long. Root and
 * this process's user are believed, and those of *believed, who get permission to write there. 0; 1: these get none,
 * for the file system knows no access control lists; -ENOMEM; errors of socket_file_open().
 */
int reported_open(struct reported **reported, const char *file, const struct believed *believed, struct keep *keep);

/*
 * Whether a program may say so; if it may, for at most a day from now on: of one host, measured or seen, and no setting
 * of an administrator's.
 */
bool reported_check(struct autobuf_paths_entry *entry, uint64_t now_s);

/* As status_poll(): at most one. NULL is allowed here and below. */
size_t reported_poll(const struct reported *reported, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns);

/* Takes what has come, within its part of the processor's time. */
void reported_step(struct reported *reported, uint64_t now_ns);

void reported_close(struct reported *reported);

#endif
