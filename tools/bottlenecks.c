/* SPDX-License-Identifier: MIT */
#include "findings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/base/base.h"
#include "print.h"

#define SSH_CHANNEL_BYTES 2097152.0 /* OpenSSH: CHAN_SES_WINDOW_DEFAULT, 64 packets of 32 KB */
#define SFTP_REQUESTS 64.0          /* and as many requests, of 32 KB without limits@openssh.com, */
#define SFTP_REQUEST_BYTES 261120.0 /* and of 255 KB with it */
#define LIBSSH2_BYTES 409600.0      /* curl: four times its buffer of 102,400 bytes; up, one of 64 KB */
#define LIBSSH2_UP_BYTES 65536.0
#define PACKET_BYTES 1448.0
#define SIZE_ROUNDED_BYTES 65536 /* smaller numbers are no sizes of buffers that matter */
#define TCP_MEM_SHARE 128 /* of a host's memory, net.ipv4.tcp_[rw]mem are this part at most, by default */

#define PLENTY_BYTES 16000000U /* as in lib/plan/plan.c: few senders fill a larger window */
#define OFFLOAD_BIT_PER_S 1e9 /* below it, a processor does without */
#define WINDOW_FIELD_MOST 65535ULL /* of TCP's header; RFC 7323 shifts it by at most 14 */
#define SCALE_MOST 14
#define BYTES(value) SCALED((uint64_t)(value))
#define VERSION(major, minor, patch) ((unsigned)(major) << 16 | (unsigned)(minor) << 8 | (unsigned)(patch))

static const char *const ways_names[WAYS] = {"sysctl", "autobufd", "run", "link"};

/* Linux chooses the scale in the SYN so that either limit fits (tcp_select_initial_window()). */
static uint64_t scaled_window(const struct autobuf_limits *limits)
{
    uint64_t most = ab_max(limits->tcp_rmem_max_bytes, limits->rcv_settable_bytes), window = WINDOW_FIELD_MOST;

    if (!(limits->flags & AUTOBUF_LIMITS_WINDOW_SCALING))
        return window;
    for (int i = 0; i < SCALE_MOST && window < most; i++)
        window *= 2;
    return window;
}

static uint64_t window_of(const struct autobuf_plan *plan, bool sends)
{
    return sends ? plan->snd_window_bytes : plan->rcv_window_bytes;
}

/* The window that autobufd gives a connection, whose buffers it may force. */
static uint64_t daemon_window(const struct findings *f, bool sends)
{
    struct autobuf_limits limits = f->limits;
    struct autobuf_socket socket = f->socket;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    limits.flags |= AUTOBUF_LIMITS_FORCE;
    socket.stage = AUTOBUF_STAGE_CONNECTED;
    socket.rtt_min_ns = f->share.rtt_min_ns;
    socket.rcv_window_max_bytes = scaled_window(&limits);
    socket.snd_window_max_bytes = limits.flags & AUTOBUF_LIMITS_WINDOW_SCALING ? 0 : WINDOW_FIELD_MOST;
    return autobuf_plan_make(&f->share, &limits, &socket, AUTOBUF_INTENT_THROUGHPUT, 0, &plan) < 0
               ? 0
               : window_of(&plan, sends);
}

static enum help help_of(uint64_t window, uint64_t limited, uint64_t wanted)
{
    return window <= limited ? HELP_NO : window < wanted ? HELP_PART : HELP_ALL;
}

void ways_find(const struct findings *f, bool sends, uint64_t window_bytes, enum help ways[WAYS])
{
    uint64_t wanted = findings_wanted(f, sends);
    enum help mine = help_of(window_of(&f->plan, sends), window_bytes, wanted);

    if (f->plan.snd_reason == AUTOBUF_REASON_OFF)
        mine = HELP_NO;
    else if (mine == HELP_NO && window_of(&f->root, sends) > window_bytes)
        mine = HELP_ROOT;
    ways[WAY_SYSCTL] = findings_fillable(f, sends) ? HELP_ALL : HELP_PART;
    ways[WAY_AUTOBUFD] = help_of(daemon_window(f, sends), window_bytes, wanted);
    ways[WAY_RUN] = ways[WAY_LINK] = mine;
}

void ways_text(const enum help ways[WAYS], char *text, size_t cap)
{
    static const struct {
        enum help help;
        const char *words;
    } groups[] = {{HELP_ALL, "helps: "},
                  {HELP_PART, "helps in part: "},
                  {HELP_ROOT, "helps as root: "},
                  {HELP_NO, "does not help: "}};
    struct ab_text out = {text, cap, 0};

    text[0] = '\0';
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        const char *before = groups[g].words;

        for (size_t i = 0; i < WAYS; i++) {
            if (ways[i] != groups[g].help)
                continue;
            ab_add(&out, "%s%s%s", before == groups[g].words && out.len ? "; " : "", before, ways_names[i]);
            before = ", ";
        }
    }
}

void ways_json(FILE *out, const enum help ways[WAYS])
{
    static const char *const tokens[] = {
        [HELP_NO] = "no", [HELP_ROOT] = "root", [HELP_PART] = "part", [HELP_ALL] = "all"};

    if (ways[0] == HELP_UNSAID) {
        fputs("null", out);
        return;
    }
    for (size_t i = 0; i < WAYS; i++)
        fprintf(out, "%c\"%s\":\"%s\"", i ? ',' : '{', ways_names[i], tokens[ways[i]]);
    fputc('}', out);
}

/* What is known of the path, in the terms of one transfer; 0: unknown. */
struct path_terms {
    double rate_bit_per_s; /* payload, of the faster direction */
    double rtt_s;
    double bdp_bytes;      /* or the whole transfer, if that is less */
};

struct list {
    struct bottleneck *out;
    size_t count;
    size_t limits; /* of these: sysctls of buffers */
};

void bottleneck_say(struct bottleneck *o, const char *format, va_list args)
{
    char text[sizeof o->what + sizeof o->line];
    size_t length;

    vsnprintf(text, sizeof text, format, args);
    length = strcspn(text, "\n");
    snprintf(o->what, sizeof o->what, "%.*s", (int)length, text);
    snprintf(o->line, sizeof o->line, "%s", text + length + (text[length] == '\n'));
}

/* format: of bottleneck_say(). */
static __attribute__((format(printf, 3, 4)))
struct bottleneck *add(struct list *list, double lost, const char *format, ...)
{
    struct bottleneck *o = &list->out[list->count < BOTTLENECKS_MOST ? list->count++ : list->count - 1];
    va_list args;

    *o = (struct bottleneck){.lost = lost < 0 ? 0 : lost > 1 ? 1 : lost}; /* of its ways: HELP_UNSAID */
    va_start(args, format);
    bottleneck_say(o, format, args);
    va_end(args);
    return o;
}

static struct path_terms terms_of(const struct findings *f)
{
    uint64_t tx = findings_rate(f, true, UINT64_MAX), rx = findings_rate(f, false, UINT64_MAX);
    struct path_terms t = {0};

    if (!tx && !rx)
        return t;
    t.rate_bit_per_s = (double)ab_max(tx, rx);
    t.rtt_s = (double)f->share.rtt_min_ns / 1e9;
    t.bdp_bytes = t.rate_bit_per_s * t.rtt_s / 8;
    if (f->expected_bytes && (double)f->expected_bytes < t.bdp_bytes)
        t.bdp_bytes = (double)f->expected_bytes;
    return t;
}

/* What a window leaves unused. */
static double lost_by(double window, double wanted)
{
    return wanted > 0 ? 1 - window / wanted : 0;
}

/* So many windows hold what the path does. */
static double at_once(const struct path_terms *t, double window)
{
    return (double)(uint64_t)(t->bdp_bytes / window) + 1;
}

static bool begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Which window a sysctl limits; line: its name, and what may follow. */
static const char *side_of(const char *line)
{
    if (begins_with(line, "net.ipv4.tcp_window_scaling"))
        return "largest";
    return begins_with(line, "net.ipv4.tcp_rmem") || begins_with(line, "net.ipv4.tcp_moderate_rcvbuf") ? "receive"
                                                                                                        : "send";
}

static bool limits_ours(const struct findings *f, const char *name)
{
    char line[128];

    for (unsigned i = 0; autobuf_plan_sysctl(&f->plan, &f->limits, i, line, sizeof line) > 0; i++)
        if (begins_with(line, name))
            return true;
    return false;
}

/* What holds back programs that leave their buffers to the kernel: nearly all. */
static void add_untuned(struct list *list, const struct findings *f)
{
    const struct autobuf_plan *p = &f->user;
    struct sysctl_line lines[SYSCTLS_MOST];
    size_t count = findings_sysctls(f, lines);

    for (size_t i = 0; i < count; i++) {
        bool receives = strcmp(lines[i].name, "net.ipv4.tcp_wmem") != 0;
        uint64_t kernel_bytes = receives ? p->rcv_kernel_bytes : p->snd_kernel_bytes;
        double window = (double)kernel_bytes, wanted = (double)findings_wanted(f, !receives);
        struct bottleneck *o =
            add(list, lost_by(window, wanted), "%s: %s limits the %s window to %sB of %sB\nsysctl -w \"%s=%s\"",
                limits_ours(f, lines[i].name) ? "all programs" : "programs without libautobuf", lines[i].name,
                side_of(lines[i].name), BYTES(window), BYTES(wanted), lines[i].name, lines[i].value);

        ways_find(f, !receives, kernel_bytes, o->ways);
    }
}

static bool is_among(const struct sysctl_line *lines, size_t count, const char *line)
{
    for (size_t i = 0; i < count; i++)
        if (begins_with(line, lines[i].name))
            return true;
    return false;
}

/*
 * The value, or the third of three, rounded up to what an administrator would write: a power of two, or 3/2 of one, up
 * to most.
 */
static void round_line(char *line, size_t cap, uint64_t most)
{
    char *last = strrchr(line, ' ') ? strrchr(line, ' ') : strrchr(line, '=');
    uint64_t size = last ? strtoull(last + 1, NULL, 10) : 0;

    if (size < SIZE_ROUNDED_BYTES)
        return;
    last[1] = '\0';
    most = ab_max(size, most); /* what is set may be larger */
    size = ab_max(ab_min(findings_sensible(size), most), size);
    snprintf(last + 1, cap - strlen(line), "%llu", (unsigned long long)size);
}

/* "net.ipv4.tcp_mem=LOW PRESSURE HIGH", in pages. */
bool bottlenecks_settable(const char *line, const struct findings *f, const struct host_facts *h)
{
    uint64_t pages[3];

    if (!begins_with(line, "net.ipv4.tcp_mem="))
        return true;
    if (h->memory_bytes == UNKNOWN || h->tcp_mem_bytes == UNKNOWN ||
        sscanf(strchr(line, '=') + 1, "%" SCNu64 " %" SCNu64 " %" SCNu64, &pages[0], &pages[1], &pages[2]) != 3)
        return false;
    for (size_t i = 0; i < 3; i++)
        if (pages[i] < h->tcp_mem_pages[i])
            return false;
    return (double)pages[2] * (double)f->limits.page_bytes <= (double)h->memory_bytes / 2;
}

/* What autotuning would limit if the path had more in a direction of which only a lower bound is known. */
static void add_unmeasured(struct list *list, const struct findings *f, const struct host_facts *h)
{
    const struct {
        const char *what;
        uint64_t window;
        bool sends;
    } sides[] = {{"net.ipv4.tcp_rmem limits receiving", f->user.rcv_kernel_bytes, false},
                 {"net.ipv4.tcp_wmem limits sending", f->user.snd_kernel_bytes, true}};
    char words[sizeof list->out->what] = "";
    struct ab_text text = {words, sizeof words, 0};

    for (size_t i = 0; i < 2; i++) {
        uint64_t rate = findings_window_rate(f, sides[i].window);

        if (findings_or_more(f, sides[i].sends, sides[i].window) && rate < AB_PLAUSIBLE_BIT_PER_S &&
            sides[i].window < PLENTY_BYTES && (!f->expected_bytes || sides[i].window < f->expected_bytes))
            ab_add(&text, "%s%s to %sbit/s", text.len ? ", " : "", sides[i].what, SCALED(rate));
    }
    if (text.len && !(f->limits.flags & AUTOBUF_LIMITS_ASSUMED))
        add(list, 0, "if the path has more in one direction than echoes show: %.180s\nautobuf measure %s", words,
            h->peer[0] ? h->peer : "HOST");
}

/*
 * Adds the limits that the plan met and that do not hold back all programs: what limits those that use the library,
 * for this user. If a limit concerns both sides, the side that loses more counts.
 */
static void add_limits(struct list *list, const struct findings *f, const struct host_facts *h)
{
    const struct autobuf_plan *p = &f->plan;
    double snd = lost_by((double)p->snd_window_bytes, (double)findings_wanted(f, true));
    double rcv = lost_by((double)p->rcv_window_bytes, (double)findings_wanted(f, false));
    struct sysctl_line lines[SYSCTLS_MOST];
    size_t count = findings_sysctls(f, lines);
    char line[128];

    for (unsigned i = 0; autobuf_plan_sysctl(p, &f->limits, i, line, sizeof line) > 0; i++) {
        bool both = strcmp(side_of(line), "largest") == 0, receives = strcmp(side_of(line), "receive") == 0;
        double lost = both ? (snd > rcv ? snd : rcv) : receives ? rcv : snd;
        uint64_t window = receives ? p->rcv_window_bytes : p->snd_window_bytes;
        int name = (int)strcspn(line, "=");
        struct bottleneck *o;

        if (is_among(lines, count, line) || !bottlenecks_settable(line, f, h))
            continue;
        if (!begins_with(line, "net.ipv4.tcp_mem=")) /* which is just below its bound */
            round_line(line, sizeof line, findings_size_most(&f->limits));
        o = add(list, lost,
                "programs with libautobuf: %.*s limits the %s window to %sB of %sB\nsysctl -w \"%s\"", name, line,
                side_of(line), SCALED(window), SCALED(findings_wanted(f, !receives)), line);
        ways_find(f, !receives, window, o->ways);
    }
}

/* What the path does to TCP, and what no window of this host changes. */
static void add_path(struct list *list, const struct findings *f, const struct path_terms *t,
                     const struct host_facts *h)
{
    uint64_t set = ab_max(f->limits.tcp_wmem_max_bytes, f->limits.tcp_rmem_max_bytes);
    double most = (double)ab_max(findings_size_most(&f->limits), set) / 2; /* that one connection can hold */
    double requests = SFTP_REQUESTS * SFTP_REQUEST_BYTES, wanted = at_once(t, SFTP_REQUEST_BYTES);

    /* TCP sends full packets first. It is not concerned if only large echoes are filtered; that cannot be told here. */
    if (f->path.flags & AUTOBUF_PATH_BLACK_HOLE)
        add(list, 1,
            "packets above %u bytes are lost, and no ICMP error says so (a PMTU black hole): TCP stalls, unless the "
            "path drops only echoes%s\n%sip route change the route to %s with advmss %u, here and there",
            f->path.packet_bytes, h->mtu_probing > 0 ? ", or net.ipv4.tcp_mtu_probing gets it going" : "",
            h->mtu_probing > 0 ? "" : "sysctl -w \"net.ipv4.tcp_mtu_probing=1\", or ", h->peer,
            f->path.packet_bytes - (strchr(h->peer, ':') ? 60 : 40));
    if (f->socket.flags & AUTOBUF_SOCKET_UNSCALED) /* TCP's option was lost on the way */
        add(list, lost_by((double)f->socket.snd_window_max_bytes, t->bdp_bytes), UNSCALED_WORDS "\n" UNSCALED_CHANGE);
    if (t->bdp_bytes > most && !(findings_fillable(f, true) && findings_fillable(f, false)))
        add(list, lost_by(most, t->bdp_bytes),
            "one connection: %s allows a window of %sB of %sB\nuse %.0f connections at once",
            findings_size_most(&f->limits) < TCP_WINDOW_BYTES ? "the memory of this host" : "TCP", BYTES(most),
            BYTES(t->bdp_bytes), at_once(t, most));
    if (t->bdp_bytes > SSH_CHANNEL_BYTES)
        add(list, lost_by(SSH_CHANNEL_BYTES, t->bdp_bytes),
            "ssh, scp, sftp, rsync over ssh: OpenSSH's channel window of 2 MB allows %sbit/s\n"
            "OpenSSH with larger windows at both ends (rsync -e autobuf-ssh), or %.0f transfers at once",
            BYTES(SSH_CHANNEL_BYTES * 8 / t->rtt_s), at_once(t, SSH_CHANNEL_BYTES));
    if (t->bdp_bytes > LIBSSH2_BYTES)
        add(list, lost_by(LIBSSH2_BYTES, t->bdp_bytes),
            "curl sftp://: libssh2 keeps %sB in flight, which allows %sbit/s; up, %sbit/s\n"
            "autobuf run curl, or libssh2 and curl with larger windows (docs/SFTP.md)",
            BYTES(LIBSSH2_BYTES), BYTES(LIBSSH2_BYTES * 8 / t->rtt_s), BYTES(LIBSSH2_UP_BYTES * 8 / t->rtt_s));
    if (t->bdp_bytes > requests)
        add(list, lost_by(requests, t->bdp_bytes),
            "scp, sftp: 64 requests of 255 KB at once allow %sbit/s\nsftp -R %.0f, scp -X nrequests=%.0f",
            BYTES(requests * 8 / t->rtt_s), wanted, wanted);
}

/* Slow start's doublings from the initial window to the BDP. */
static unsigned doublings(double bdp_bytes)
{
    unsigned rounds = 0;

    for (double window = INITIAL_WINDOW_BYTES; window < bdp_bytes; window *= 2)
        rounds++;
    return rounds;
}

static void add_tcp(struct list *list, const struct path_terms *t, const struct host_facts *h)
{
    unsigned rounds = doublings(t->bdp_bytes);
    double threshold = (double)h->ssthresh_packets * PACKET_BYTES;

    if (h->ssthresh_packets > 0 && t->bdp_bytes > threshold)
        add(list, lost_by(threshold, t->bdp_bytes),
            "the kernel remembers an earlier loss (tcp_metrics): slow start ends at %sB of %sB\n"
            "ip tcp_metrics flush %s; sysctl -w net.ipv4.tcp_no_ssthresh_metrics_save=1",
            BYTES(threshold), BYTES(t->bdp_bytes), h->peer);
    if (h->tcp_mem_bytes != UNKNOWN && h->tcp_used_bytes > h->tcp_mem_bytes)
        add(list, 0.5,
            "TCP is under memory pressure: %sB of %sB (net.ipv4.tcp_mem) in use\n"
            "use fewer or smaller buffers, or raise net.ipv4.tcp_mem",
            BYTES(h->tcp_used_bytes), BYTES(h->tcp_mem_bytes));
    if (h->sack == 0)
        add(list, 0, "selective acknowledgements are off: each lost packet costs a round trip\n"
            "sysctl -w \"net.ipv4.tcp_sack=1\"");
    if (h->slow_start_after_idle == 1 && rounds > 1)
        add(list, 0,
            "after each pause a connection repeats slow start: %u round trips, %.1f s\n"
            "sysctl -w \"net.ipv4.tcp_slow_start_after_idle=0\"",
            rounds, rounds * t->rtt_s);
}

static double root(double square)
{
    double found = 0;

    for (double step = 1024; step > 0.001; step /= 2)
        if ((found + step) * (found + step) <= square)
            found += step;
    return found;
}

/* The rate in bit/s, if so many of the packets that were sent are lost on the way of the data. */
static double rate_with_loss(const char *cc, double lost, double sent, const struct autobuf_path *path)
{
    double ppm = 1e6 * lost / sent;

    ppm = ppm < 1 ? 1 : ppm > 1e6 ? 1e6 : ppm;
    return (double)autobuf_loss_rate(cc, (uint32_t)ppm, path->rtt_min_ns, path->packet_bytes);
}

/* A count of n stands for any between (sqrt(n) - 0.82)^2 and (sqrt(n + 1) + 0.82)^2 (90% of a Poisson distribution). */
void bottlenecks_loss(const char *cc, double lost, double sent, double part, const struct autobuf_path *path,
                      double *least, double *most)
{
    double few = root(lost) - 0.82, many = root(lost + 1) + 0.82;

    *least = rate_with_loss(cc, many * many, sent, path);
    *most = rate_with_loss(cc, few > 0 ? few * few * part : 0, sent, path);
}

/*
 * The data's way lost half of the echoes if both ways are alike, and all of them at most. What limits echoes alone
 * cannot be told apart from loss.
 */
static void add_loss(struct list *list, const struct autobuf_path *path, const struct path_terms *t,
                     const struct host_facts *h)
{
    bool bbr = strcmp(h->congestion_control, "bbr") == 0;
    const char *cc = !bbr && autobuf_loss_rate(h->congestion_control, 1, 1, 0) ? h->congestion_control : "cubic";
    double part = path->loss_permille / 1e3, sent = path->samples / (1.001 - part), lost = sent * part;
    double least, most;

    if (!path->loss_permille || t->rate_bit_per_s <= 0)
        return;
    bottlenecks_loss(cc, lost, sent, 0.5, path, &least, &most);
    most = most < t->rate_bit_per_s ? most : t->rate_bit_per_s;
    if (least < most)
        add(list, bbr ? 0 : lost_by(most, t->rate_bit_per_s),
            "loss%s may limit one connection with %s to between %sbit/s and %sbit/s: %.1f%% of the echoes were "
            "lost, there or back, or something limits echoes alone\n"
            "to see: autobuf measure --transfer 10 %s; on the host that sends, "
            "sysctl -w \"net.ipv4.tcp_congestion_control=bbr\"",
            bbr ? " hardly slows bbr, but" : "", cc, BYTES(least), BYTES(most), 100 * part,
            h->peer[0] ? h->peer : "HOST");
}

/* One that nobody chose: mq has leaves of its own, and a shaper would be lost. */
static bool is_plain_queue(const char *qdisc)
{
    return strcmp(qdisc, "pfifo_fast") == 0 || strcmp(qdisc, "pfifo") == 0;
}

/* If a window is larger than the device's queue, one burst of it overflows the queue. */
static void add_queue(struct list *list, const struct path_terms *t, const struct host_facts *h)
{
    double queue = (double)h->queue_packets * PACKET_BYTES;
    double packets = t->bdp_bytes / PACKET_BYTES + 1;
    struct bottleneck *o;

    if (h->queue_drops <= 0 || !h->device[0])
        return;
    o = add(list, 0, "the queue of %s (%s) has dropped %lld packets%s\ntc -s qdisc show dev %s", h->device,
            h->qdisc[0] ? h->qdisc : "?", (long long)h->queue_drops,
            h->queue_packets > 0 && queue < t->bdp_bytes ? ", and is shorter than the path" : "", h->device);
    if (packets < (double)h->queue_packets)
        packets = 2.0 * (double)h->queue_packets;
    if (is_plain_queue(h->qdisc))
        snprintf(o->line, sizeof o->line, "tc qdisc replace dev %s root fq, or ip link set %s txqueuelen %.0f",
                 h->device, h->device, packets);
}

static unsigned version_of(const char *kernel)
{
    unsigned major = 0, minor = 0, patch = 0;

    if (sscanf(kernel, "%u.%u.%u", &major, &minor, &patch) < 2)
        return 0;
    return VERSION(major, minor, patch < 255 ? patch : 255);
}

/*
 * Known faults of releases, one range for each stable series. The version alone says "may": a distribution may have
 * mended them. Linux's commits dfa2f0483360, mended by 697a6c8cec03; 1d2fbaad7cd8, mended by 026dfef287c0.
 */
static void add_kernel(struct list *list, const struct host_facts *h)
{
    static const struct {
        unsigned from, to; /* to: the first that is mended */
        const char *what;
    } faults[] = {
        {VERSION(6, 6, 0), VERSION(6, 6, 33), "a program that sets SO_RCVBUF begins with a quarter of it, not half"},
        {VERSION(6, 7, 0), VERSION(6, 8, 12), "a program that sets SO_RCVBUF begins with a quarter of it, not half"},
        {VERSION(6, 9, 0), VERSION(6, 9, 3), "a program that sets SO_RCVBUF begins with a quarter of it, not half"},
        {VERSION(6, 17, 0), VERSION(6, 18, 17), "an autotuned receive buffer may shrink and stay small"},
        {VERSION(6, 19, 0), VERSION(6, 19, 7), "an autotuned receive buffer may shrink and stay small"},
    };
    unsigned version = version_of(h->kernel);

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (version >= faults[i].from && version < faults[i].to)
            add(list, 0, "Linux %s may have a fault: %s\nuse Linux %u.%u.%u or newer", h->kernel, faults[i].what,
                faults[i].to >> 16, faults[i].to >> 8 & 255, faults[i].to & 255);
}

/* A file that once raised a limit lowers it on a kernel whose own is larger. */
static void add_lowered(struct list *list, const struct host_facts *h)
{
    bool newer = version_of(h->kernel) >= VERSION(6, 16, 0);
    const struct {
        const char *name;
        const struct setting *setting;
        double own_bytes;
    } rows[] = {{"net.ipv4.tcp_wmem", &h->tcp_wmem, 4194304},
                {"net.ipv4.tcp_rmem", &h->tcp_rmem, newer ? 33554432 : 6291456}};

    for (size_t i = 0; i < 2; i++) {
        const struct setting *is = rows[i].setting;
        double own = rows[i].own_bytes, memory = (double)h->memory_bytes / TCP_MEM_SHARE;

        own = h->memory_bytes > 0 && memory < own ? memory : own;
        if (is->file[0] && h->kernel[0] && (double)is->third_bytes <= 0.9 * own)
            add(list, 0, "%s lowers %s to %sB; Linux %s would allow %sB\ntake the line out of %s", is->file,
                rows[i].name, BYTES(is->third_bytes), h->kernel, BYTES(own), is->file);
    }
}

static void add_route(struct list *list, const struct path_terms *t, const struct host_facts *h)
{
    double window = (double)h->route_window_bytes, cwnd = (double)h->route_cwnd_packets * PACKET_BYTES;

    if (h->route_window_bytes > 0 && t->bdp_bytes > window)
        add(list, lost_by(window, t->bdp_bytes),
            "the route to %s limits the receive window to %sB of %sB (window %lld)\n"
            "ip route change the route to %s without window",
            h->peer, BYTES(window), BYTES(t->bdp_bytes), (long long)h->route_window_bytes, h->peer);
    if (h->route_cwnd_packets > 0 && t->bdp_bytes > cwnd)
        add(list, lost_by(cwnd, t->bdp_bytes),
            "the route to %s may limit the congestion window to %sB of %sB (cwnd %lld)\n"
            "ip route change the route to %s without cwnd",
            h->peer, BYTES(cwnd), BYTES(t->bdp_bytes), (long long)h->route_cwnd_packets, h->peer);
}

static void add_device(struct list *list, const struct path_terms *t, const struct host_facts *h)
{
    if (t->rate_bit_per_s < OFFLOAD_BIT_PER_S || !h->device[0])
        return;
    if (h->segmentation_offload == 0)
        add(list, 0,
            "%s has neither TSO nor GSO: each packet of 1.5 kB costs processor time\nethtool -K %s gso on tso on",
            h->device, h->device);
    if (h->receive_offload == 0)
        add(list, 0, "%s has no GRO: each packet that arrives costs processor time\nethtool -K %s gro on", h->device,
            h->device);
}

static void add_host(struct list *list, const struct path_terms *t, const struct host_facts *h)
{
    add_kernel(list, h);
    add_lowered(list, h);
    add_route(list, t, h);
    add_device(list, t, h);
    if (strcmp(h->congestion_control, "bbr") == 0 && (is_plain_queue(h->qdisc) || strcmp(h->qdisc, "fq_codel") == 0))
        add(list, 0, "bbr paces by timers of its own, because %s has %s, not fq\ntc qdisc replace dev %s root fq",
            h->device, h->qdisc, h->device);
    if (h->inner_namespace && list->limits)
        add(list, 0,
            "these are the limits of a network namespace (a container): the host may have others\n"
            "change the settings for the container: docker run --sysctl, for instance");
}

static int dearer_first(const void *a, const void *b)
{
    double x = ((const struct bottleneck *)a)->lost, y = ((const struct bottleneck *)b)->lost;

    return (x < y) - (x > y);
}

size_t bottlenecks_find(const struct findings *found, const struct host_facts *host,
                      struct bottleneck out[BOTTLENECKS_MOST])
{
    struct path_terms t = terms_of(found);
    struct list list = {out, 0, 0};

    add_untuned(&list, found);
    add_limits(&list, found, host);
    list.limits = list.count;
    add_unmeasured(&list, found, host);
    add_path(&list, found, &t, host);
    add_tcp(&list, &t, host);
    add_loss(&list, &found->path, &t, host);
    add_queue(&list, &t, host);
    add_host(&list, &t, host);
    qsort(out, list.count, sizeof *out, dearer_first);
    return list.count;
}
