/* SPDX-License-Identifier: MIT */
/* What the daemon says of itself and of the connections that it manages. It prints what it is given. */
#ifndef REPORT_H
#define REPORT_H

#include "config.h"
#include "owners.h"
#include "status.h"

#define REPORT_FLOWS_MOST 2000U /* in one answer: about 2.5 MB */
#define REPORT_TEXT_BYTES 512U

enum report_kind {
    REPORT_GIVEN_BACK, /* a buffer, to autotuning */
    REPORT_BUFFERS,
    REPORT_PACE,
    REPORT_CONTROL, /* the congestion control */
    REPORT_OTHER,
    REPORT_KINDS,
};

enum report_refusal {
    REPORT_NOT_PERMITTED,
    REPORT_GONE,     /* closed, or handed on, before it could be borrowed */
    REPORT_NO_OWNER, /* that can be seen from here */
    REPORT_NEAR,     /* so near that autotuning reaches any rate */
    REPORT_FULL,     /* as many of its user's are managed as may be */
    REPORT_REFUSALS,
};

/* Since the daemon began. */
struct report_counts {
    uint64_t sweeps, sockets; /* from sockets to full_forced: of the newest sweep */
    uint64_t managed_most, forced_bytes, forced_most_bytes;
    uint64_t full_connections, full_forced; /* users who have the share of one user */
    uint64_t sweeps_cpu_ns, sampling_cpu_ns, searches_cpu_ns;
    uint64_t taken_up;
    uint64_t actions[REPORT_KINDS];
    uint64_t refused[REPORT_REFUSALS];
    uint64_t failed_sweeps, failed_actions;
    bool withhold;     /* small sizes of programs are withheld from the kernel */
    uint64_t withheld; /* so many */
};

enum report_rejected {
    REPORT_NOT_BELIEVED, /* its sender is none of those who are */
    REPORT_MALFORMED,    /* it is no message, or one of a later version */
    REPORT_NOT_VALID,    /* it says what a program may not say */
    REPORT_TOO_MANY,     /* of one sender */
    REPORT_UNTAKEN,
};

/* What was exchanged with the other hosts of a site since the daemon began. */
struct report_site {
    bool used, up; /* used: there is a server; up: the newest round with it succeeded */
    uint64_t sent, taken, rejected, lost; /* entries. rejected: not valid. lost: too many waited to be sent */
    uint64_t failed; /* rounds */
    uint64_t cpu_ns;
};

/* What was learned since the daemon began. */
struct report_learning {
    uint64_t connections, programs; /* entries, by whom they came */
    uint64_t rejected[REPORT_UNTAKEN]; /* datagrams of programs, by reason */
    uint64_t lost;   /* entries for which there was no room */
    uint64_t failed; /* writings of the store */
    uint64_t cpu_ns;
    struct report_site site;
};

/* One connection that is managed. Its texts are what others have chosen: any bytes. */
struct report_flow {
    const struct owner *owner;
    uint32_t user;
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES];
    const struct rule *rule;
    struct autobuf_live_state live;
    struct autobuf_available available;
    const char *action; /* the newest one, with its reason; "": none yet */
    uint64_t action_ns; /* when that was */
};

/* Fills in the flow of this number, from 0 on. */
typedef void report_flow_fn(const void *user, size_t at, struct report_flow *flow);

struct report {
    const struct report_counts *counts;
    const struct report_learning *learning;
    uint64_t now_ns;
    struct status_counts clients;
    uint64_t rejected;          /* new rules that were wrong */
    uint64_t memory_bytes;      /* resident; 0: unknown */
    uint32_t generation;        /* of the rules, from 1 on */
    size_t rules, managed;
    report_flow_fn *flow;
    const void *user;
};

/* In Prometheus' text format 0.0.4. */
void report_metrics(FILE *out, const struct report *r);

/* One JSON object on one line: docs/autobuf.schema.json, flows. */
void report_flows(FILE *out, const struct report *r);

#endif
