/* SPDX-License-Identifier: MIT */
/* The daemon's file: autobufd.conf(5). */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdio.h>
#include <sys/socket.h>

#include "rules.h"

#define RUN_FOLDER "/run/autobufd"
#define STATUS_FILE RUN_FOLDER "/status.sock"
#define STATE_FILE RUN_FOLDER "/state"
#define LEARNED_FILE RUN_FOLDER "/learned.sock"
#define STORE_FILE "/var/lib/autobuf/paths"
#define BELIEVED_MOST 8U
#define SITE_KEY "autobuf"
#define FILE_BYTES 90U /* a socket's address has 108, and it is made beside its place */

/* Users who may say what they have learned, besides root and the daemon's own. */
struct believed {
    uint32_t users[BELIEVED_MOST];
    size_t count;
};

/* Where a site's server is. */
struct site_place {
    struct sockaddr_storage address; /* of IPv4, IPv6 or a unix socket */
    socklen_t address_bytes;         /* 0: there is none */
    unsigned database;               /* of the server, from 0 on */
};

/*
 * Reads "redis://192.0.2.1:6379/0", "redis://[2001:db8::1]" or "unix:/run/redis/redis.sock"; host names are rejected.
 */
bool site_place_parse(const char *text, struct site_place *place);

struct config {
    struct rule *rules; /* in their order; the first that matches counts */
    size_t count;
    struct ports stop_ports; /* neither end of a connection has one of these; count 0: none */
    char status_file[FILE_BYTES]; /* "": none */
    char state_file[FILE_BYTES];  /* "": none */
    char store_file[FILE_BYTES];  /* "": nothing is learned */
    char learned_file[FILE_BYTES]; /* "": none */
    struct believed believed;
    struct site_place site;
    char site_key[RULE_WORD_BYTES];
    char site_password_file[FILE_BYTES]; /* "": none */
    uint32_t interval_ms;
    uint32_t budget_percent; /* of net.ipv4.tcp_mem, for all that is forced */
    uint64_t raise_bytes; /* tcp_wmem and tcp_rmem are raised so far; 0: never */
    bool bpf; /* may withhold small sizes */
    bool dry_run;
    bool without_file; /* there is none: one rule for all */
};

/* Is told what is wrong in a line, from 1 on. */
typedef void config_wrong_fn(void *user, unsigned line, const char *text);

/*
 * Reads a file to its end, whatever is wrong in it, and says all that is. Returns 0; -EINVAL: something was wrong;
 * -ENOMEM. Then *config is empty. Free it with config_free().
 */
int config_read(FILE *file, struct config *config, config_wrong_fn *wrong, void *user);

/* The rules of a host that has no file: every connection, mode auto. 0, -ENOMEM. */
int config_without_file(struct config *config);

void config_free(struct config *config);

#endif
