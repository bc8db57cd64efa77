/* SPDX-License-Identifier: MIT */
#include "site.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../lib/paths/record.h"
#include "broker.h"
#include "learn.h"
#include "log.h"

#define SLACK_BYTES 65536.0 /* packets that a path of hardly any product holds */
#define PASSWORD_BYTES 512U
#define READ_BYTES 4096U
#define READS_MOST 4U /* in one step */
#define REST_NS 50000000U /* after a part of an answer: who sends it byte by byte does not wake the daemon by each */

/* ---------------------------------------------------------------------------- what is believed */

static bool is_within(uint64_t value, uint64_t least, uint64_t most)
{
    return value >= least && value <= most;
}

/*
 * What a path holds may be twice the product: the round-trip time of a measurement is not the least one all the time.
 */
static bool may_be(const struct autobuf_paths_entry *e, uint64_t rate, uint64_t low, uint64_t high, uint64_t bdp_bytes)
{
    uint64_t rtt_ns = e->rtt_median_ns == AUTOBUF_NS_UNSET ? e->rtt_min_ns : e->rtt_median_ns;

    if (!rate)
        return !low && !high && !bdp_bytes;
    return is_within(rate, SITE_RATE_LEAST, SITE_RATE_MOST) && low <= rate && high <= SITE_RATE_MOST &&
           (!high || high >= rate) && bdp_bytes <= SITE_BDP_MOST &&
           (double)bdp_bytes <= (double)rate / 8e9 * (double)rtt_ns * 2 + SLACK_BYTES;
}

static bool is_a_path(const struct autobuf_paths_entry *e)
{
    if (!is_within(e->rtt_min_ns, SITE_RTT_LEAST_NS, SITE_RTT_MOST_NS))
        return false;
    if (e->rtt_median_ns != AUTOBUF_NS_UNSET && !is_within(e->rtt_median_ns, e->rtt_min_ns, SITE_RTT_MOST_NS))
        return false;
    return (e->tx_rate_bit_per_s || e->rx_rate_bit_per_s) &&
           may_be(e, e->tx_rate_bit_per_s, e->tx_rate_low_bit_per_s, e->tx_rate_high_bit_per_s, e->tx_bdp_bytes) &&
           may_be(e, e->rx_rate_bit_per_s, e->rx_rate_low_bit_per_s, e->rx_rate_high_bit_per_s, e->rx_bdp_bytes);
}

bool site_check(struct autobuf_paths_entry *e, uint64_t now_s)
{
    if (!learn_is_of_host(e) || !is_a_path(e) || e->learned_s > now_s + SITE_AHEAD_S || ab_paths_check(e) < 0)
        return false;
    if (e->learned_s > now_s)
        e->learned_s = now_s;
    if (e->expires_s > e->learned_s + SITE_HOLDS_S)
        e->expires_s = e->learned_s + SITE_HOLDS_S;
    return e->expires_s > now_s;
}

struct site {
    struct keep *keep;
    struct report_site *counts;
    struct site_place place;
    char key[RULE_WORD_BYTES], password[PASSWORD_BYTES], who[SITE_WHO_BYTES];
    char file[FILE_BYTES];   /* the store that has what was read */
    struct site_talk talk;
    struct autobuf_paths_entry waiting[SITE_WAITING];
    size_t count, under_way; /* of them; under_way: the first, which this round sends */
    char *out;               /* what this round says; NULL: no round */
    size_t out_bytes, sent;
    size_t asked;            /* messages that this round reads at most */
    bool more;               /* the last round did not come to the end of the stream */
    bool said;               /* that something was left out */
    int64_t booted_s;        /* when this host began, by its clock when the stream was first read */
    uint64_t due_ns;         /* the next round; of a round: when it ends at the latest */
    uint64_t backoff_ns;     /* 0: no round has failed since the end of the stream was seen */
    uint64_t rest_until_ns;  /* nothing is read before */
    int fd;                  /* -1: not connected */
};

/* A half to one and a half of it, so that hosts do not come all at once. */
static uint64_t about(uint64_t ns)
{
    uint32_t draw = 0;

    (void)!getrandom(&draw, sizeof draw, GRND_NONBLOCK);
    return ns / 2 + (uint64_t)((double)ns * draw / UINT32_MAX);
}

/* ----------------------------------------------------------------------------------- failing */

static void disconnect(struct site *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

static void end_round(struct site *s)
{
    free(s->out);
    s->out = NULL;
    s->under_way = 0;
}

static const char *why_not(const struct site *s, int error)
{
    return error == -EKEYREJECTED ? s->talk.refusal
           : error == -EPROTO     ? "it answers what it was not asked, or what is no answer"
           : error == -ECONNRESET ? "it closes the connection"
                                  : strerror(-error);
}

/* Said once, until it is back. */
static void fail(struct site *s, int error, uint64_t now_ns)
{
    if (!s->backoff_ns)
        log_line("the site's server: %s: goes on without it", why_not(s, error));
    s->counts->up = false;
    s->counts->failed++;
    disconnect(s);
    end_round(s);
    s->backoff_ns = s->backoff_ns ? ab_min(2 * s->backoff_ns, SITE_BACKOFF_NS) : SITE_SOON_NS;
    s->due_ns = now_ns + about(s->backoff_ns);
}

/* ------------------------------------------------------------------------------------ rounds */

static int connect_to(struct site *s)
{
    const struct sockaddr *to = (const struct sockaddr *)&s->place.address;

    s->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return -errno;
    return connect(s->fd, to, s->place.address_bytes) < 0 && errno != EINPROGRESS ? -errno : 0;
}

/* What came since the last round: nothing, or the end of the connection; then there will be another one. */
static int sample(struct site *s)
{
    char byte;
    ssize_t got = s->fd < 0 ? 0 : recv(s->fd, &byte, 1, MSG_DONTWAIT);

    if (got > 0)
        return -EPROTO;
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        disconnect(s);
    return 0;
}

/* The same second at each call, or the next one, unless somebody sets the clock. */
static int64_t booted_s(void)
{
    struct timespec up = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    return (int64_t)time(NULL) - up.tv_sec;
}

/* What seemed to be expired, or not yet learned, perhaps is not. */
static void sample_clock(struct site *s)
{
    int64_t now_s = booted_s();

    if (llabs(now_s - s->booted_s) <= (int64_t)SITE_AHEAD_S)
        return;
    s->booted_s = now_s;
    site_talk_read_anew(&s->talk);
}

/* Reads no more than there is room for. */
static int begin_round(struct site *s, uint64_t now_ns)
{
    struct site_round round = {.entries = s->waiting};
    size_t room = (KEEP_MOST - s->keep->count) / 2;
    int error = 0;

    if (!room) {
        s->due_ns = now_ns + SITE_SOON_NS;
        return 0;
    }
    if (s->fd < 0) {
        error = connect_to(s);
        round.password = s->password[0] ? s->password : NULL;
        round.database = s->place.database ? &s->place.database : NULL;
    }
    sample_clock(s);
    round.count = ab_min_size(s->count, SITE_ROUND);
    round.read = (unsigned)ab_min_size(room, SITE_ROUND);
    round.lookback = !s->more;
    if (error == 0)
        error = site_talk_ask(&s->talk, &round, &s->out, &s->out_bytes);
    if (error < 0)
        return error;
    s->asked = round.read;
    s->under_way = round.count;
    s->sent = 0;
    s->due_ns = now_ns + SITE_ROUND_NS;
    return 0;
}

/* A server is back once the end of the stream is seen: what comes before may end in the same failure each time. */
static void finish_round(struct site *s, size_t heard, uint64_t now_ns)
{
    s->more = heard == s->asked;
    if (s->backoff_ns && !s->more) {
        log_line("the site's server: is back");
        s->backoff_ns = 0;
    }
    s->counts->up = true;
    s->counts->sent += s->under_way;
    s->count -= s->under_way;
    memmove(s->waiting, s->waiting + s->under_way, s->count * sizeof *s->waiting);
    end_round(s);
    s->due_ns = now_ns + (s->count || s->more ? SITE_SOON_NS : about(SITE_ROUND_NS));
}

static int send_more(struct site *s)
{
    ssize_t sent;

    if (s->sent == s->out_bytes)
        return 0;
    sent = send(s->fd, s->out + s->sent, s->out_bytes - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    s->sent += (size_t)sent;
    return 0;
}

static void take(void *user, const struct autobuf_paths_entry *entry)
{
    struct site *s = user;
    struct autobuf_paths_entry checked = AUTOBUF_PATHS_ENTRY_INIT;

    if (entry) {
        checked = *entry;
    } else if (!s->said) {
        log_line("the site's server: has what is no entry: that is left out");
        s->said = true;
    }
    if (!site_check(&checked, (uint64_t)time(NULL)))
        s->counts->rejected++;
    else if (keep_foreign(s->keep, &checked))
        s->counts->taken++;
}

/* 1: the round is over; 0: more is to come. */
static int hear_more(struct site *s, uint64_t now_ns, size_t *heard)
{
    int result = 0;

    for (unsigned i = 0; i < READS_MOST && result == 0; i++) {
        char bytes[READ_BYTES];
        ssize_t got = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);

        if (got < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -errno;
        if (got == 0)
            return -ECONNRESET;
        result = site_talk_hear(&s->talk, bytes, (size_t)got, take, s, heard);
        s->rest_until_ns = result == 0 ? now_ns + REST_NS : 0;
    }
    return result;
}

static void go_on(struct site *s, uint64_t now_ns)
{
    size_t heard;
    int result = send_more(s);

    if (result == 0 && now_ns >= s->rest_until_ns)
        result = hear_more(s, now_ns, &heard);
    if (result == 0 && now_ns >= s->due_ns)
        result = -ETIMEDOUT;
    if (result < 0)
        fail(s, result, now_ns);
    else if (result > 0)
        finish_round(s, heard, now_ns);
}

void site_step(struct site *s, uint64_t now_ns)
{
    uint64_t began_ns = cost_cpu_ns();
    int error;

    if (!s)
        return;
    if (!s->out) {
        error = sample(s);
        if (error == 0 && now_ns >= s->due_ns)
            error = begin_round(s, now_ns);
        if (error < 0)
            fail(s, error, now_ns);
    }
    if (s->out)
        go_on(s, now_ns);
    s->counts->cpu_ns += cost_cpu_ns() - began_ns;
}

size_t site_poll(const struct site *s, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns)
{
    bool sends = s && s->out && s->sent < s->out_bytes, rests = s && now_ns < s->rest_until_ns;

    if (s)
        *until_ns = ab_min(*until_ns, rests ? ab_min(s->rest_until_ns, s->due_ns) : s->due_ns);
    if (!s || s->fd < 0 || (rests && !sends))
        return 0;
    fds[0] = (struct pollfd){s->fd, (short)((rests ? 0 : POLLIN) | (sends ? POLLOUT : 0)), 0};
    return 1;
}

void site_offer(void *site, const struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_entry checked = *entry;
    struct site *s = site;
    size_t at;

    if (!s || !site_check(&checked, (uint64_t)time(NULL)))
        return;
    for (at = s->under_way; at < s->count && ab_paths_compare(&s->waiting[at], &checked) != 0;)
        at++;
    if (at == SITE_WAITING) {
        at = SITE_WAITING - 1;
        memmove(s->waiting + s->under_way, s->waiting + s->under_way + 1, (at - s->under_way) * sizeof *s->waiting);
        s->counts->lost++;
    } else if (at == s->count) {
        s->count++;
    }
    s->waiting[at] = checked;
}

/* ----------------------------------------------------------------------------------- opening */

/* The first line of a file that its owner alone reads. No file is no error. */
static int read_password(const char *name, char password[PASSWORD_BYTES])
{
    int fd, error = 0;
    struct stat is;
    ssize_t got = 0;

    explicit_bzero(password, PASSWORD_BYTES);
    if (!name[0])
        return 0;
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &is) < 0)
        error = -errno;
    else if (!S_ISREG(is.st_mode) || is.st_mode & (S_IRWXG | S_IRWXO) || (is.st_uid != geteuid() && is.st_uid != 0))
        error = -EPERM;
    else if ((got = read(fd, password, PASSWORD_BYTES - 1)) < 0)
        error = -errno;
    close(fd);
    password[got > 0 ? got : 0] = '\0';
    password[strcspn(password, "\r\n")] = '\0';
    return error == 0 && !password[0] ? -EINVAL : error;
}

static int begin(struct site **site, const struct config *config, struct keep *keep)
{
    struct site *s = calloc(1, sizeof *s);
    uint64_t number; /* that no other daemon has */

    *site = s;
    if (!s)
        return -ENOMEM;
    s->keep = keep;
    s->counts = &keep->counts.site;
    s->fd = -1;
    s->place = config->site;
    strcpy(s->key, config->site_key);
    strcpy(s->file, keep->file);
    s->booted_s = booted_s();
    site_talk_begin(&s->talk, s->key, s->who);
    s->counts->used = true;
    keep->offer = site_offer;
    keep->offer_to = s;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return -errno;
    snprintf(s->who, sizeof s->who, "%016llx", (unsigned long long)number);
    return 0;
}

/* What was read from the same place went into the same store. */
static bool is_as_told(const struct site *s, const struct config *config)
{
    return memcmp(&s->place.address, &config->site.address, sizeof s->place.address) == 0 &&
           s->place.address_bytes == config->site.address_bytes && s->place.database == config->site.database &&
           strcmp(s->key, config->site_key) == 0 && strcmp(s->file, s->keep->file) == 0;
}

int site_open(struct site **site, const struct config *config, struct keep *keep)
{
    int error = 0;

    if (*site && is_as_told(*site, config)) {
        disconnect(*site);
        end_round(*site);
        (*site)->due_ns = (*site)->rest_until_ns = 0;
    } else {
        site_close(*site);
        *site = NULL;
        error = config->site.address_bytes ? begin(site, config, keep) : 0;
    }
    if (error == 0 && *site)
        error = read_password(config->site_password_file, (*site)->password);
    if (error < 0) {
        site_close(*site);
        *site = NULL;
    }
    return error;
}

void site_close(struct site *s)
{
    if (!s)
        return;
    if (s->keep->offer_to == s)
        s->keep->offer = NULL;
    s->counts->used = s->counts->up = false;
    disconnect(s);
    end_round(s);
    explicit_bzero(s->password, sizeof s->password);
    free(s);
}
