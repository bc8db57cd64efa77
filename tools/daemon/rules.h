/* SPDX-License-Identifier: MIT */
/* Which connections the daemon manages, and how. Pure: opens nothing, reads no clock. */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

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

struct config;

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
