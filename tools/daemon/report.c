/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <inttypes.h>

#include "../../lib/base/base.h"
#include "../print.h"

/* --------------------------------------------------------------------------------- metrics */

static void metric(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP autobufd_%s %s\n# TYPE autobufd_%s %s\n", name, help, name, type);
}

static void single(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
    metric(out, name, type, help);
    fprintf(out, "autobufd_%s %" PRIu64 "\n", name, value);
}

static void labelled(FILE *out, const char *name, const char *label, const char *value, uint64_t number)
{
    fprintf(out, "autobufd_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, number);
}

static void seconds(FILE *out, const char *part, uint64_t ns)
{
    fprintf(out, "autobufd_cpu_seconds_total{part=\"%s\"} %llu.%09llu\n", part, ns / AB_NS_PER_S, ns % AB_NS_PER_S);
}

static void metrics_of_acts(FILE *out, const struct report_counts *c)
{
    static const char *const kinds[] = {[REPORT_GIVEN_BACK] = "given_back", [REPORT_BUFFERS] = "buffers",
                                        [REPORT_PACE] = "pace", [REPORT_CONTROL] = "congestion_control",
                                        [REPORT_OTHER] = "other"};
    static const char *const refusals[] = {[REPORT_NOT_PERMITTED] = "not_permitted", [REPORT_GONE] = "gone",
                                           [REPORT_NO_OWNER] = "no_owner", [REPORT_NEAR] = "near",
                                           [REPORT_FULL] = "full"};

    metric(out, "actions_total", "counter", "What was set on sockets, by kind.");
    for (size_t i = 0; i < REPORT_KINDS; i++)
        labelled(out, "actions_total", "kind", kinds[i], c->actions[i]);
    metric(out, "refused_total", "counter", "Sockets that a rule wants and that were left alone, by reason.");
    for (size_t i = 0; i < REPORT_REFUSALS; i++)
        labelled(out, "refused_total", "reason", refusals[i], c->refused[i]);
}

static void metrics_of_learning(FILE *out, const struct report_learning *l)
{
    static const char *const reasons[] = {[REPORT_NOT_BELIEVED] = "not_believed", [REPORT_MALFORMED] = "malformed",
                                          [REPORT_NOT_VALID] = "not_valid", [REPORT_TOO_MANY] = "too_many"};

    metric(out, "learned_total", "counter", "Paths learned of, by who saw them.");
    labelled(out, "learned_total", "from", "connections", l->connections);
    labelled(out, "learned_total", "from", "programs", l->programs);
    metric(out, "rejected_total", "counter", "Messages of programs that were not taken, by reason.");
    for (size_t i = 0; i < REPORT_UNTAKEN; i++)
        labelled(out, "rejected_total", "reason", reasons[i], l->rejected[i]);
    single(out, "learned_lost_total", "counter", "What was learned and there was no room for.", l->lost);
}

static void metrics_of_site(FILE *out, const struct report_site *s)
{
    single(out, "site_up", "gauge", "Whether the newest exchange with the site's server succeeded.", s->up);
    metric(out, "site_entries_total", "counter", "Paths exchanged with other hosts, by what became of them.");
    labelled(out, "site_entries_total", "end", "sent", s->sent);
    labelled(out, "site_entries_total", "end", "taken", s->taken);
    labelled(out, "site_entries_total", "end", "rejected", s->rejected);
    labelled(out, "site_entries_total", "end", "lost", s->lost);
    single(out, "site_failures_total", "counter", "Exchanges with the site's server that failed.", s->failed);
}

void report_metrics(FILE *out, const struct report *r)
{
    const struct report_counts *c = r->counts;

    metric(out, "info", "gauge", "The version that runs.");
    fprintf(out, "autobufd_info{version=\"%s\"} 1\n", autobuf_version());
    single(out, "sweeps_total", "counter", "Sweeps over all TCP sockets of this network namespace.", c->sweeps);
    metric(out, "cpu_seconds_total", "counter", "Processor time, by what it was spent on.");
    seconds(out, "sweeps", c->sweeps_cpu_ns);
    seconds(out, "samples", c->sampling_cpu_ns);
    seconds(out, "searches", c->searches_cpu_ns);
    seconds(out, "learning", r->learning->cpu_ns);
    seconds(out, "site", r->learning->site.cpu_ns);
    seconds(out, "answers", r->clients.cpu_ns);
    single(out, "sockets", "gauge", "Sockets that the newest sweep saw.", c->sockets);
    single(out, "managed", "gauge", "Managed connections.", r->managed);
    single(out, "managed_most", "gauge", "Connections that can be managed at once.", c->managed_most);
    single(out, "forced_bytes", "gauge", "What all forced buffers hold if they are full.", c->forced_bytes);
    single(out, "forced_most_bytes", "gauge",
           "The most that they may hold, with what TCP holds anyway; 0: nothing is forced.", c->forced_most_bytes);
    metric(out, "full_users", "gauge", "Users who have the share of one user, by what.");
    labelled(out, "full_users", "of", "connections", c->full_connections);
    labelled(out, "full_users", "of", "forced_bytes", c->full_forced);
    single(out, "managed_total", "counter", "Connections that were taken up to be managed.", c->taken_up);
    metrics_of_acts(out, c);
    if (c->withhold)
        single(out, "withheld_sizes_total", "counter",
               "Small sizes that programs set, and that were withheld from the kernel.", c->withheld);
    metric(out, "errors_total", "counter", "What failed: a sweep, an action on a socket, new rules, the store.");
    labelled(out, "errors_total", "what", "sweep", c->failed_sweeps);
    labelled(out, "errors_total", "what", "action", c->failed_actions);
    labelled(out, "errors_total", "what", "rules", r->rejected);
    labelled(out, "errors_total", "what", "store", r->learning->failed);
    metrics_of_learning(out, r->learning);
    if (r->learning->site.used)
        metrics_of_site(out, &r->learning->site);
    single(out, "rules", "gauge", "Rules that hold.", r->rules);
    single(out, "config_generation", "gauge", "How often rules were taken in.", r->generation);
    metric(out, "clients_total", "counter", "Clients of this socket, by how they ended.");
    labelled(out, "clients_total", "end", "answered", r->clients.answered);
    labelled(out, "clients_total", "end", "dropped", r->clients.dropped);
    if (r->memory_bytes)
        single(out, "resident_memory_bytes", "gauge", "Memory of the daemon.", r->memory_bytes);
}

/* ----------------------------------------------------------------------------------- flows */

static size_t shown(const struct report *r)
{
    return ab_min_size(r->managed, REPORT_FLOWS_MOST);
}

static void json_flow(FILE *out, const struct report *r, const struct report_flow *f)
{
    fputc('{', out);
    json_number(out, "pid", (uint64_t)f->owner->pid, false);
    json_number(out, "fd", (uint64_t)f->owner->fd, false);
    json_string(out, "program", f->owner->program);
    json_number(out, "user", f->user, false);
    json_string(out, "unit", f->owner->unit[0] ? f->owner->unit : NULL);
    json_string(out, "local", f->local);
    json_string(out, "peer", f->peer);
    json_string(out, "mode", rule_modes[f->rule->mode]);
    json_string(out, "rule", f->rule->name);
    json_number(out, "rule_line", f->rule->line, !f->rule->line);
    json_bool(out, "dry_run", f->rule->dry_run);
    json_available(out, &f->available);
    json_state(out, &f->live);
    fputc(',', out);
    json_string(out, "action", f->action[0] ? f->action : NULL);
    fputs("\"action_age_ns\":", out);
    if (f->action[0])
        fprintf(out, "%" PRIu64 "}", r->now_ns - f->action_ns);
    else
        fputs("null}", out);
}

static uint64_t rejected(const struct report_learning *l)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < REPORT_UNTAKEN; i++)
        sum += l->rejected[i];
    return sum;
}

static void json_site(FILE *out, const struct report_site *s)
{
    if (!s->used) {
        fputs("\"site\":null,", out);
        return;
    }
    fputs("\"site\":{", out);
    json_number(out, "sent", s->sent, false);
    json_number(out, "taken", s->taken, false);
    json_number(out, "rejected", s->rejected, false);
    json_number(out, "lost", s->lost, false);
    json_number(out, "failures", s->failed, false);
    fprintf(out, "\"up\":%s},", s->up ? "true" : "false");
}

void report_flows(FILE *out, const struct report *r)
{
    fputc('{', out);
    json_string(out, "version", autobuf_version());
    json_number(out, "generation", r->generation, false);
    json_number(out, "sweeps", r->counts->sweeps, false);
    json_number(out, "sockets", r->counts->sockets, false);
    json_number(out, "managed", r->managed, false);
    json_number(out, "left_out", r->managed - shown(r), false);
    json_number(out, "learned", r->learning->connections, false);
    json_number(out, "reported", r->learning->programs, false);
    json_number(out, "rejected", rejected(r->learning), false);
    json_number(out, "withheld_sizes", r->counts->withheld, !r->counts->withhold);
    json_site(out, &r->learning->site);
    fputs("\"flows\":[", out);
    for (size_t i = 0; i < shown(r); i++) {
        struct report_flow flow = {.live = AUTOBUF_LIVE_STATE_INIT};

        r->flow(r->user, i, &flow);
        if (i)
            fputc(',', out);
        json_flow(out, r, &flow);
    }
    fputs("]}\n", out);
}
