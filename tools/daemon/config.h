/* SPDX-License-Identifier: MIT */
/* The daemon's file, autobufd.conf(5), and which connections the daemon manages by it, and how. */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stdio.h>

#include <autobuf/autobuf.h>

#define RUN_FOLDER "/run/autobufd"
#define STATUS_FILE RUN_FOLDER "/status.sock"
#define STATE_FILE RUN_FOLDER "/state"
#define LEARNED_FILE RUN_FOLDER "/learned.sock"
#define STORE_FILE "/var/lib/autobuf/paths"
#define BELIEVED_MOST 8U
#define SITE_KEY "autobuf"
#define FILE_BYTES 90U /* a socket's address has 108, and it is made beside its place */

#define RULE_NAME_BYTES 50U /* of what stands in the brackets, with its NUL */
#define RULE_WORD_BYTES 64U
#define RULE_PORTS 8U

enum mode {
    MODE_AUTO,  /* gives a buffer that was set too small back to autotuning, then manages the connection */
    MODE_PATH,  /* the same, and sets at once what the path store says */
    MODE_FIXED, /* sets these sizes, and nothing later */
    MODE_OFF,
    MODES,
};

/* As a rule names them. */
extern const char *const rule_modes[MODES];

struct port_range {
    uint16_t first, last;
};

struct ports {
    struct port_range ranges[RULE_PORTS];
    size_t count; /* 0: all ports */
};

/* One section of the file. All its conditions must hold. */
struct rule {
    char name[RULE_NAME_BYTES];
    unsigned line;
    struct autobuf_prefix remote, local; /* version 0: all */
    struct ports remote_port, local_port;
    char unit[RULE_WORD_BYTES], program[RULE_WORD_BYTES]; /* "": all */
    bool by_user;
    uint32_t user;
    enum mode mode;
    uint64_t snd_bytes, rcv_bytes; /* as setsockopt() takes them; 0: left alone */
    uint64_t most_bytes;           /* 0: what the host allows */
    uint64_t divide_bytes;         /* of window, for all its connections together; 0: not divided */
    uint64_t pace_bit_per_s;       /* payload; 0: left alone */
    char congestion_control[16];   /* "": left alone */
    uint32_t intent;
    bool dry_run;
};

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
    uint64_t interval_ms;
    uint64_t budget_percent; /* of net.ipv4.tcp_mem, for all that is forced */
    uint64_t raise_bytes; /* tcp_wmem and tcp_rmem are raised so far; 0: never */
    bool bpf; /* may withhold small sizes */
    bool dry_run; /* and so has each rule */
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

/* Nothing is set by any rule. */
void config_set_dry(struct config *config);

void config_free(struct config *config);

/* ------------------------------------------------------------------------ who has which rule: rules.c */

struct endpoint {
    uint8_t address[16]; /* IPv4 in the first four, also where the kernel says ::ffff:192.0.2.1 */
    uint32_t version;    /* 4 or 6 */
    uint16_t port;
};

/* What decides which rule a socket has. */
struct subject {
    struct endpoint local, remote; /* remote.version 0: it listens, and every remote condition holds */
    uint32_t user;
    const char *program; /* NULL: not known yet */
    const char *unit;    /* NULL: not known yet; "": in none */
};

/* The rule of a socket, of which all must be known; NULL: none, so it is left alone. */
const struct rule *rules_find(const struct config *config, const struct subject *subject);

/* Whether the owner is worth looking for: as far as it is known, a rule might act on this socket. */
bool rules_may_act(const struct config *config, const struct subject *subject);

/* Whether it matches every socket. */
bool rule_covers_all(const struct rule *rule);

#endif
