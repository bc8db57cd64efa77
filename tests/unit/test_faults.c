/* SPDX-License-Identifier: MIT */
/*
 * Makes each call of the library for memory or a kernel's service fail, one after the other. The library must
 * return a documented error before its deadline, leak nothing, and leave the socket as it was.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

#include "faults.h"
#include "paths/store.h"
#include "sockets.h"

#define MOST_CALLS 4U  /* of one kind that fail one by one: later ones come from the same places; with
                          AUTOBUF_TESTS_ALL each time an eighth more */
#define PATIENCE_NS 2500000000ULL /* the deadline of 2 s, and what a busy machine adds to it */
#define LOCK_BOTH (AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV)

static const int errors[CALLS][6] = {
    [CALL_CALLOC] = {ENOMEM},
    [CALL_REALLOC] = {ENOMEM},
    [CALL_SOCKET] = {EMFILE, ENOBUFS, EACCES, EPERM},
    [CALL_SETSOCKOPT] = {EPERM, ENOPROTOOPT, ENOMEM},
    [CALL_GETSOCKOPT] = {ENOPROTOOPT, ENOBUFS},
    [CALL_BIND] = {EADDRNOTAVAIL, EACCES},
    [CALL_CONNECT] = {ENETUNREACH, EACCES},
    [CALL_GETSOCKNAME] = {ENOBUFS},
    [CALL_GETPEERNAME] = {ENOTCONN},
    [CALL_SEND] = {EINTR, EAGAIN, EPIPE, ECONNRESET},
    [CALL_SENDMMSG] = {EINTR, EAGAIN, ENOBUFS, EMSGSIZE, EHOSTUNREACH, EPERM},
    [CALL_RECVMMSG] = {EINTR, EAGAIN, ENOMEM, ECONNREFUSED},
    [CALL_RECVMSG] = {EINTR, EAGAIN, ENOMEM},
    [CALL_PPOLL] = {EINTR, ENOMEM},
    [CALL_OPEN] = {EMFILE, ENOENT},
    [CALL_READ] = {EINTR, EIO},
    [CALL_GETRANDOM] = {EINTR, ENOSYS},
    [CALL_GETADDRINFO] = {0},
};

static struct sockaddr_in loopback(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* ---------------------------------------------------------------------------- what is tried */

static int64_t try_bwdelay(int fd)
{
    struct sockaddr_in peer = loopback();

    (void)fd;
    return bwdelay_addr((struct sockaddr *)&peer, sizeof peer);
}

static int64_t try_bwdelay_name(int fd)
{
    (void)fd;
    return bwdelay("127.0.0.1");
}

static int64_t try_limits(int fd)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    int error = autobuf_limits_host(&limits);

    return error < 0 ? error : autobuf_socket_state(fd, &state);
}

static int64_t try_bwdelay_apply(int fd)
{
    return bwdelay_apply(fd, 100000000);
}

static int64_t try_apply(int fd)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.snd_request_bytes = 100000;
    plan.rcv_request_bytes = 150000;
    plan.rcv_clamp_bytes = 120000;
    plan.snd_pacing_bit_per_s = 94600000;
    plan.snd_reason = plan.rcv_reason = AUTOBUF_REASON_SET;
    return autobuf_apply(fd, &plan);
}

static int64_t try_apply_unlocking(int fd)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.flags = AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK;
    plan.rcv_clamp_bytes = 1000000;
    return autobuf_apply(fd, &plan);
}

static int64_t try_unlock(int fd)
{
    return autobuf_unlock(fd, LOCK_BOTH);
}

/* limits: NULL: the host's. */
static int64_t tune(int fd, const struct autobuf_limits *limits)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct sockaddr_in peer = loopback();

    options.limits = limits;
    return autobuf_tune(fd, (struct sockaddr *)&peer, sizeof peer, &options, NULL);
}

static int64_t try_tune(int fd)
{
    return tune(fd, NULL);
}

static int64_t try_tune_measuring(int fd)
{
    return tune(fd, &little_limits);
}

static int64_t try_tune_connected(int fd)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.limits = &little_limits;
    return autobuf_tune(fd, NULL, 0, &options, NULL);
}

static char store[] = "/tmp/test_faults.XXXXXX"; /* a path store, which later is one, or empty */

/* What was measured is kept: into an empty store, and into one that has this path. */
static int64_t try_tune_and_keep(int fd)
{
    int64_t result;

    ab_store_environment(truncate(store, 0) == 0 ? store : "off", NULL, NULL);
    result = tune(fd, &little_limits);
    ab_store_environment("off", NULL, NULL);
    return result;
}

static int64_t try_tune_by_store(int fd)
{
    int64_t result;

    ab_store_environment(store, NULL, NULL);
    result = tune(fd, &little_limits);
    ab_store_environment("off", NULL, NULL);
    return result;
}

static int64_t look_live(int fd, uint32_t intent)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_flow *flow;
    int64_t result;

    options.intent = intent;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    result = autobuf_flow_open(&flow, fd, NULL, 0, &options);
    for (uint64_t now_s = 1; result >= 0 && now_s < 5; now_s++)
        result = autobuf_flow_step(flow, now_s * 1000000000);
    autobuf_flow_close(flow);
    return result;
}

static int64_t try_live(int fd)
{
    return look_live(fd, AUTOBUF_INTENT_THROUGHPUT);
}

static int64_t try_live_low_delay(int fd)
{
    return look_live(fd, AUTOBUF_INTENT_LOW_DELAY);
}

static int peer_of_trial; /* the other end of a connected socket */

/* Both ends of the exchange, each when it may. */
static int64_t try_inband(int fd)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ends[2] = {NULL, NULL};
    int64_t result, other = 0;

    options.timeout_ns = 1;
    result = autobuf_inband_open(&ends[0], AUTOBUF_INBAND_INITIATOR, fd, &options);
    if (result >= 0)
        result =
            autobuf_inband_open(&ends[1], AUTOBUF_INBAND_RESPONDER, peer_of_trial, &options);
    while (result == 0 && other >= 0) {
        result = autobuf_inband_step(ends[0], autobuf_now_ns());
        other = autobuf_inband_step(ends[1], autobuf_now_ns());
    }
    autobuf_inband_close(ends[0]);
    autobuf_inband_close(ends[1]);
    return result < 0 || other >= 0 ? result : other;
}

/* A server's session; the control connection is the data connection, too. */
static int64_t try_ftp(int fd)
{
    static const char *const commands[] = {"SITE AUTOBUF", "SITE AUTOBUF SET 900000000 900000000"};
    struct autobuf_ftp *ftp;
    int64_t result = autobuf_ftp_open(&ftp, AUTOBUF_FTP_SERVER, fd, NULL);

    for (size_t i = 0; i < COUNT(commands) && result >= 0; i++)
        result = autobuf_ftp_answer(ftp, commands[i], strlen(commands[i]));
    if (result >= 0)
        result = autobuf_ftp_data_connected(ftp, fd, AUTOBUF_INTENT_SENDS, 0);
    if (result >= 0)
        result = autobuf_ftp_data_step(ftp);
    autobuf_ftp_close(ftp);
    return result;
}

static const struct trial {
    const char *name;
    int64_t (*try)(int fd);
    uint32_t locks;  /* put on the socket before */
    bool connected;
    bool repeated;   /* a call that fails forever is tried too: it is the only one that takes long */
    bool enlarges;   /* a buffer, as a window opens, and leaves it */
} trials[] = {
    {"bwdelay_addr", try_bwdelay, 0, false, true, false},
    {"bwdelay", try_bwdelay_name, 0, false, false, false},
    {"limits", try_limits, 0, true, true, false},
    {"bwdelay_apply", try_bwdelay_apply, 0, false, true, false},
    {"bwdelay_apply, locked", try_bwdelay_apply, LOCK_BOTH, false, false, false},
    {"bwdelay_apply, locked and connected", try_bwdelay_apply, LOCK_BOTH, true, false, false},
    {"apply", try_apply, 0, false, true, false},
    {"apply, locked", try_apply, LOCK_BOTH, false, false, false},
    {"apply, taking locks off", try_apply_unlocking, LOCK_BOTH, false, false, false},
    {"apply, taking locks off, connected", try_apply_unlocking, LOCK_BOTH, true, false, false},
    {"unlock", try_unlock, LOCK_BOTH, false, true, false},
    {"unlock, connected", try_unlock, LOCK_BOTH, true, true, false},
    {"tune", try_tune, 0, false, true, false},
    {"tune, locked", try_tune, LOCK_BOTH, false, false, false},
    {"tune that measures", try_tune_measuring, 0, false, false, false},
    {"tune a connection", try_tune_connected, 0, true, false, false},
    {"tune and keep", try_tune_and_keep, 0, false, false, false},
    {"tune by the path store", try_tune_by_store, 0, false, true, false},
    {"live", try_live, 0, true, true, false},
    {"live, locked, low delay", try_live_low_delay, LOCK_BOTH, true, true, false},
    {"in band", try_inband, 0, true, true, true},
    {"in band, locked", try_inband, LOCK_BOTH, true, false, true},
    {"a session of FTP", try_ftp, 0, true, false, true},
};

/* ---------------------------------------------------------------------- and what must come of it */

struct outcome {
    int64_t result;
    uint64_t elapsed_ns; /* but for the time in which this process waited for a processor */
    bool same;
    int held;
};

static void begin_socket(const struct trial *trial, struct connection *c, int *fd)
{
    *c = (struct connection){-1, -1, -1};
    if (trial->connected)
        *c = tcp_connection();
    *fd = trial->connected ? c->client : tcp_socket();
    peer_of_trial = c->accepted;
    if (trial->locks & AUTOBUF_LOCK_SND)
        set_option(*fd, SO_SNDBUF, 20000);
    if (trial->locks & AUTOBUF_LOCK_RCV)
        set_option(*fd, SO_RCVBUF, 30000);
}

static bool interrupted; /* by signals, all along */
static const struct itimerval storm = {{0, 200}, {0, 200}}, calm;

/* For how long this process has waited for a processor so far. 0: the kernel does not say. */
static uint64_t waited_ns(void)
{
    unsigned long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");

    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    fclose(file);
    return waited;
}

/* The trial on a fresh socket; the interposed calls are set up by the caller, and end here. */
static struct outcome run(const struct trial *trial, enum call call, unsigned at, bool forever,
                          int error, unsigned *count)
{
    struct outcome o;
    struct connection c;
    struct socket_state before, after;
    uint64_t begin_ns, waited;
    int fd;

    begin_socket(trial, &c, &fd);
    before = state_of(fd);
    waited = waited_ns();
    begin_ns = autobuf_now_ns();
    if (at)
        faults_begin(call, at, forever, error);
    else
        faults_count();
    if (interrupted)
        setitimer(ITIMER_REAL, &storm, NULL);
    o.result = trial->try(fd);
    setitimer(ITIMER_REAL, &calm, NULL);
    for (unsigned i = 0; count && i < CALLS; i++)
        count[i] = faults_end(i);
    faults_end(call);
    o.held = faults_held();
    o.elapsed_ns = autobuf_now_ns() - begin_ns;
    waited = waited_ns() - waited;
    o.elapsed_ns -= waited < o.elapsed_ns ? waited : o.elapsed_ns;
    after = state_of(fd);
    o.same = same_state(&before, &after);
    if (trial->connected)
        close_connection(&c);
    else
        close(fd);
    return o;
}

/* What this host, or this kernel, does not allow. */
static bool not_permitted(int64_t result)
{
    return result == -EACCES || (result == -ENOPROTOOPT && !locks_are_known());
}

/* What the headers say may come of it. */
static bool documented(int64_t result, int error)
{
    static const int others[] = {-ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -EIO, -EOPNOTSUPP, -ENOMEM};

    if (result >= 0 || result == -error || not_permitted(result) ||
        (result <= AUTOBUF_E_NOREPLY && result >= AUTOBUF_E_PROTOCOL))
        return true;
    for (size_t i = 0; i < COUNT(others); i++)
        if (result == others[i])
            return true;
    return false;
}

static void check(const struct trial *trial, enum call call, unsigned at, bool forever, int error)
{
    struct outcome o = run(trial, call, at, forever, error, NULL);
    bool ok = documented(o.result, error) && o.elapsed_ns < PATIENCE_NS && o.held == 0;

    /* What cannot be set cannot be put back either. */
    if (o.result < 0 && (!forever || at == 1 || call != CALL_SETSOCKOPT))
        ok = ok && (o.same || trial->enlarges);
    if (!ok)
        fail_msg("%s, %s() number %u%s: %s: result %lld, %llu ms, %d held, socket %s", trial->name,
                 fault_name(call), at, forever ? " and on" : "", strerror(error),
                 (long long)o.result, (unsigned long long)(o.elapsed_ns / 1000000), o.held,
                 o.same ? "as it was" : "changed");
}

static void nothing_fails_and_nothing_leaks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(trials); i++) {
        struct outcome o = run(&trials[i], 0, 0, false, 0, NULL);

        /* AUTOBUF_E_FEW: this host was late. test_probe measures. */
        if (o.result < 0 && o.result != AUTOBUF_E_FEW && !not_permitted(o.result))
            fail_msg("%s: %lld", trials[i].name, (long long)o.result);
        CHECK_EQUAL(trials[i].name, o.held, 0);
    }
}

static void each_call_fails_once(void **state)
{
    unsigned tried = 0, most = getenv("AUTOBUF_TESTS_ALL") ? UINT32_MAX : MOST_CALLS;

    (void)state;
    for (size_t i = 0; i < COUNT(trials); i++) {
        unsigned counts[CALLS];

        run(&trials[i], 0, 0, false, 0, counts);
        for (unsigned call = 0; call < CALLS; call++)
            for (unsigned at = 1; at <= counts[call] && at <= most; at += at < MOST_CALLS ? 1 : 1 + at / 8)
                for (unsigned e = 0; e < COUNT(*errors) && (errors[call][e] || !e); e++, tried++)
                    check(&trials[i], call, at, false, errors[call][e]);
    }
    assert_true(tried > 300); /* or nothing was interposed */
}

static void each_call_fails_forever(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(trials); i++) {
        unsigned counts[CALLS];

        if (!trials[i].repeated)
            continue;
        run(&trials[i], 0, 0, false, 0, counts);
        for (unsigned call = 0; call < CALLS; call++)
            for (unsigned e = 0; counts[call] && e < COUNT(*errors) && (errors[call][e] || !e); e++)
                check(&trials[i], call, 1, true, errors[call][e]);
    }
}

/* Lines that a responder is sent on its socket, each as soon as the one before is answered. */
static void send_lines(struct autobuf_inband *responder, int client, const char *line, unsigned count)
{
    char answer[1000];

    for (unsigned i = 0; i < count; i++) {
        const char *end = strchr(line, '\n') + 1; /* of two lines, one and then the other */
        const char *next = i % 2 && *end ? end : line;
        size_t len = next == line ? (size_t)(end - line) : strlen(end);

        assert_int_equal(send(client, next, len, 0), len);
        assert_true(autobuf_inband_step(responder, autobuf_now_ns()) >= 0);
        assert_true(recv(client, answer, sizeof answer, 0) > 0);
    }
}

/* What the kernel is asked of its queueing disciplines: not at all before HELLO, and then once. */
static void host_is_asked_once(void **state)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct connection c = tcp_connection_of(88); /* the smallest: a pace that can be, also after a round trip of 1 us */
    struct autobuf_inband *responder;

    (void)state;
    options.timeout_ns = UINT64_MAX; /* as long as may be: this machine may be busy */
    assert_int_equal(setsockopt(c.accepted, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
    faults_count();
    assert_int_equal(autobuf_inband_open(&responder, AUTOBUF_INBAND_RESPONDER, c.accepted, &options),
                     0);
    send_lines(responder, c.client, "AUTOBUF TRAIN 1000\r\n", 5);
    assert_int_equal(faults_asks(), 0);
    send_lines(responder, c.client, "AUTOBUF HELLO 1\r\nAUTOBUF RESULT\r\n", 100);
    faults_end(CALL_SOCKET);
    assert_int_equal(faults_asks(), 1);
    autobuf_inband_close(responder);
    close_connection(&c);
}

static int64_t read_control(void *fd, void *buf, size_t len, uint64_t deadline_ns, uint64_t *stamp_ns)
{
    (void)deadline_ns;
    *stamp_ns = autobuf_now_ns();
    return recv(*(int *)fd, buf, len, 0);
}

static int64_t write_control(void *fd, const void *buf, size_t len, size_t segment_bytes,
                             uint64_t deadline_ns)
{
    (void)deadline_ns;
    return segment_bytes ? send(*(int *)fd, buf, len, 0) : -EINVAL;
}

/* An FTP session; with bytes that the program carries, too. */
static void ask_by_ftp(bool carried)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct connection c = tcp_connection_of(88);
    struct autobuf_ftp *ftp;
    char answer[1000];

    options.read = carried ? read_control : NULL;
    options.write = carried ? write_control : NULL;
    options.io_user = &c.accepted;
    assert_int_equal(setsockopt(c.accepted, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_SERVER, c.accepted, &options), 0);
    faults_count();
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(autobuf_ftp_answer(ftp, "SITE AUTOBUF", 12), 1);
        assert_true(recv(c.client, answer, sizeof answer, 0) > 0);
    }
    faults_end(CALL_SOCKET);
    assert_int_equal(faults_asks(), 1);
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

static void host_is_asked_once_by_ftp(void **state)
{
    (void)state;
    ask_by_ftp(false);
    ask_by_ftp(true);
}

static void ignore_signal(int number)
{
    (void)number;
}

/* A timer that interrupts whatever may be interrupted, 5,000 times a second. */
static void signals_all_along(void **state)
{
    struct sigaction act = {.sa_handler = ignore_signal}, was; /* no SA_RESTART */

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &act, &was), 0);
    for (size_t i = 0; i < COUNT(trials); i++) {
        struct outcome o;

        interrupted = true;
        o = run(&trials[i], 0, 0, false, 0, NULL);
        interrupted = false;
        /* AUTOBUF_E_FEW: as above; the signals make it late. */
        if (o.result < 0 && o.result != AUTOBUF_E_FEW && !not_permitted(o.result))
            fail_msg("%s: %lld", trials[i].name, (long long)o.result);
        CHECK(trials[i].name, o.elapsed_ns < PATIENCE_NS && o.held == 0);
    }
    assert_int_equal(sigaction(SIGALRM, &was, NULL), 0);
}

/* What this machine has learned decides nothing here. */
static int make_store(void **state)
{
    int fd = mkstemp(store);

    (void)state;
    ab_store_environment("off", NULL, NULL);
    return fd < 0 ? -1 : close(fd);
}

static int remove_store(void **state)
{
    char lock[sizeof store + 8];

    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", store);
    unlink(lock);
    return unlink(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails_and_nothing_leaks),
        cmocka_unit_test(host_is_asked_once),
        cmocka_unit_test(host_is_asked_once_by_ftp),
        cmocka_unit_test(each_call_fails_once),
        cmocka_unit_test(each_call_fails_forever),
        cmocka_unit_test(signals_all_along),
    };

    return cmocka_run_group_tests_name("faults", tests, make_store, remove_store);
}
