/* SPDX-License-Identifier: MIT */
/*
 * mod_autobuf: libautobuf in ProFTPD. It answers SITE AUTOBUF of clients that measure, sets buffers of data connections
 * before listen(), connect() and the first byte, and manages each while it carries data.
 *
 *     AutobufEngine on|off          server config, <VirtualHost>, <Global>; default on
 *     AutobufMax size [B|KB|MB|GB]  the same; default: 16,000,000 bytes
 */
#include "conf.h"
#include "privs.h"

#include <poll.h>
#include <time.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

#define MOD_AUTOBUF_VERSION "mod_autobuf/" AUTOBUF_MODULE_VERSION
#define FEATURE "SITE AUTOBUF"
#define AGAIN_NS 100000000    /* after which the timer's signal is repeated: it may have come before sendfile() began */
#define SHORTEST_NS 10000000  /* between two samples by signal */
#define LONGEST_NS 1000000000 /* the same if no data moved: a signal may have ended the read of a slow disk */
#define SINK_S 10
#define TLS_RECORD_BYTES 29 /* header and tag: TLS 1.2 with an AEAD; 1.3 takes 22 */
#define BOTH (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)

extern int (*cmd_auth_chk)(cmd_rec *);

module autobuf_module;

static int engine_on;
static uint64_t most_bytes;
static struct autobuf_ftp *ftp;
static char record[16384]; /* of TLS; poll() does not report what is left of it */
static size_t record_begin, record_end;
static int managed_fd = -1; /* the managed data connection */
static timer_t sample_timer;
static int has_timer, timer_runs;
static off_t moved_bytes; /* at the last sample by signal */
static pr_netio_t our_netio;      /* a copy of used_netio with two functions replaced */
static pr_netio_t *used_netio;    /* another module's, or default_netio */
static pr_netio_t *default_netio; /* ProFTPD's, which is not registered */
static off_t restart_pos; /* of the RETR that is under way */

static void log_line(void *user, const struct autobuf_event *event)
{
    (void)user;
    pr_trace_msg("autobuf", 5, "%s", event->text);
    pr_log_debug(DEBUG3, MOD_AUTOBUF_VERSION ": %s", event->text);
}

/* ---------------------------------------------------------------------- the control connection */

static int has_tls(void)
{
    return session.rfc2228_mech != NULL;
}

static int64_t wait_for(int fd, int events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = (short)events};

    for (;;) {
        uint64_t now = autobuf_now_ns();
        int ready;

        if (now >= deadline_ns)
            return -ETIMEDOUT;
        ready = poll(&p, 1, (int)((deadline_ns - now) / 1000000 % 60000) + 1);
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -errno;
        pr_signals_handle();
    }
}

/* Reads a whole record, because only the socket can be polled. A timer of answer_site() keeps the deadline. */
static int64_t read_tls(char *buf, size_t len, uint64_t *stamp_ns)
{
    static uint64_t record_ns;
    size_t part;

    if (record_begin == record_end) {
        int got = pr_netio_read(session.c->instrm, record, sizeof record, 1);

        if (got <= 0)
            return got < 0 ? -EIO : 0;
        record_ns = autobuf_now_ns();
        record_begin = 0;
        record_end = (size_t)got;
    }
    *stamp_ns = record_ns;
    part = record_end - record_begin < len ? record_end - record_begin : len;
    memcpy(buf, record + record_begin, part);
    record_begin += part;
    return (int64_t)part;
}

static int64_t read_control(void *user, void *buf, size_t len, uint64_t deadline_ns,
                            uint64_t *stamp_ns)
{
    int fd = PR_NETIO_FD(session.c->instrm);
    int64_t result;

    (void)user;
    if (has_tls())
        return read_tls(buf, len, stamp_ns);
    do {
        result = wait_for(fd, POLLIN, deadline_ns);
        if (result > 0)
            result = autobuf_inband_receive(fd, buf, len, stamp_ns);
    } while (result == -EAGAIN || result == -EINTR);
    if (result > 0)
        session.total_raw_in += result;
    return result;
}

static int64_t write_tls(const char *buf, size_t len, size_t record_bytes)
{
    size_t done = 0;

    while (done < len) {
        size_t part = len - done < record_bytes ? len - done : record_bytes;

        if (pr_netio_write(session.c->outstrm, (char *)(uintptr_t)buf + done, part) < 0)
            return -EIO;
        done += part;
    }
    return (int64_t)done;
}

static int64_t write_control(void *user, const void *buf, size_t len, size_t segment_bytes,
                             uint64_t deadline_ns)
{
    int fd = PR_NETIO_FD(session.c->outstrm);
    int64_t result;

    (void)user;
    if (has_tls())
        return write_tls(buf, len, segment_bytes);
    do {
        result = wait_for(fd, POLLOUT, deadline_ns);
        if (result > 0)
            result = send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (result < 0 && result != -ETIMEDOUT)
            result = -errno;
    } while (result == -EAGAIN || result == -EINTR);
    if (result > 0)
        session.total_raw_out += result;
    return result;
}

/* Called before a login changes root and user: afterwards this host's limits cannot be read. */
static void open_session(void)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    int result;

    if (ftp != NULL || session.c == NULL)
        return;
    options.most_bytes = most_bytes;
    options.record_bytes = has_tls() ? TLS_RECORD_BYTES : 0;
    options.log = log_line;
    options.read = read_control;
    options.write = write_control;
    result = autobuf_ftp_open(&ftp, AUTOBUF_FTP_SERVER, PR_NETIO_FD(session.c->instrm), &options);
    if (result < 0) {
        pr_log_debug(DEBUG1, MOD_AUTOBUF_VERSION ": not used: %s", autobuf_strerror(result));
        pr_feat_remove(FEATURE);
    }
}

/* Whether a reply can be sent at once. The server would wait without an end for a client that does not read. */
static int takes_reply(void)
{
    struct pollfd now = {PR_NETIO_FD(session.c->outstrm), POLLOUT, 0};

    return poll(&now, 1, 0) > 0 && (now.revents & POLLOUT) != 0;
}

static void hang_up(const char *why)
{
    pr_log_pri(PR_LOG_NOTICE, MOD_AUTOBUF_VERSION ": SITE AUTOBUF: %s", why);
    if (takes_reply())
        pr_response_send(R_421, "SITE AUTOBUF: %s, closing", why);
    pr_session_disconnect(&autobuf_module, PR_SESS_DISCONNECT_BY_APPLICATION, why);
}

static int hang_up_cb(CALLBACK_FRAME)
{
    (void)p1, (void)p2, (void)p3, (void)data;
    hang_up("incomplete");
    return 0;
}

/* Further commands have arrived already. They would be read as the payload of SINK. */
static int has_pipelined(void)
{
    pr_buffer_t *b = session.c->instrm->strm_buf;

    return b != NULL && b->current != NULL && b->remaining < b->buflen;
}

static modret_t *refuse(cmd_rec *cmd, const char *code, const char *text, int error)
{
    pr_response_add_err(code, "%s", text);
    pr_cmd_set_errno(cmd, error);
    errno = error;
    return PR_ERROR(cmd);
}

static int is_permitted(cmd_rec *cmd)
{
    const char *name = cmd->argv[0];
    int permitted;

    pr_cmd_set_name(cmd, "SITE_AUTOBUF");
    permitted = dir_check(cmd->tmp_pool, cmd, cmd->group, session.vwd, NULL);
    pr_cmd_set_name(cmd, name);
    return permitted;
}

MODRET answer_site(cmd_rec *cmd)
{
    const char *line;
    int result, timer = -1;

    if (!engine_on || cmd->argc < 2 || strcasecmp(cmd->argv[1], "AUTOBUF") != 0)
        return PR_DECLINED(cmd);
    if (cmd_auth_chk != NULL && !cmd_auth_chk(cmd)) /* which has said 530 */
        return PR_ERROR(cmd);
    if (!is_permitted(cmd))
        return refuse(cmd, R_550, "SITE AUTOBUF: Permission denied", EACCES);
    if (session.sf_flags & SF_XFER)
        return refuse(cmd, R_450, "SITE AUTOBUF: data transfer in progress", EBUSY);
    if (has_pipelined())
        return refuse(cmd, R_503, "SITE AUTOBUF: one command at a time", EINVAL);
    open_session();
    if (ftp == NULL)
        return PR_DECLINED(cmd);
    if (has_tls())
        timer = pr_timer_add(SINK_S, -1, &autobuf_module, hang_up_cb, "SITE AUTOBUF");
    line = pstrcat(cmd->tmp_pool, "SITE ", cmd->arg, NULL);
    result = autobuf_ftp_answer(ftp, line, strlen(line));
    if (timer >= 0)
        pr_timer_remove(timer, &autobuf_module);
    if (result < 0)
        hang_up(autobuf_strerror(result));
    if (record_begin < record_end)
        hang_up("more than was asked for");
    return result > 0 ? PR_HANDLED(cmd) : PR_DECLINED(cmd);
}

MODRET before_login(cmd_rec *cmd)
{
    (void)cmd;
    if (engine_on)
        open_session();
    return PR_DECLINED(cmd);
}

/* ------------------------------------------------------------------------ the data connection */

/* Without the sides that the administrator has set by SocketOptions. */
static uint32_t ours(uint32_t sides)
{
    if (main_server->tcp_sndbuf_override)
        sides &= ~AUTOBUF_INTENT_SENDS;
    if (main_server->tcp_rcvbuf_override)
        sides &= ~AUTOBUF_INTENT_RECEIVES;
    return sides;
}

static void stop_timer(void)
{
    struct itimerspec never = {{0, 0}, {0, 0}};

    if (timer_runs)
        timer_settime(sample_timer, 0, &never, NULL);
    timer_runs = 0;
}

static int is_ours_in_use(void)
{
    return pr_get_netio(PR_NETIO_STRM_DATA) == &our_netio;
}

static void put_netio_back(void)
{
    if (is_ours_in_use() && used_netio != default_netio)
        pr_register_netio(used_netio, PR_NETIO_STRM_DATA);
    else if (is_ours_in_use())
        pr_unregister_netio(PR_NETIO_STRM_DATA);
}

static void end_sampling(void)
{
    stop_timer();
    put_netio_back();
    managed_fd = -1;
    if (ftp != NULL)
        autobuf_ftp_data_end(ftp);
}

static int data_fd(void)
{
    if (session.d == NULL)
        return -1;
    return session.d->outstrm != NULL ? PR_NETIO_FD(session.d->outstrm) : -1;
}

/* What is still to be sent; 0: unknown. The client does not say how long an upload is. */
static uint64_t left_bytes(void)
{
    if (session.xfer.direction == PR_NETIO_IO_RD || session.xfer.file_size <= restart_pos)
        return 0;
    return (uint64_t)(session.xfer.file_size - restart_pos);
}

static void sample(void)
{
    int fd = data_fd();
    uint32_t sides = ours(session.xfer.direction == PR_NETIO_IO_RD ? AUTOBUF_INTENT_RECEIVES
                                                                   : AUTOBUF_INTENT_SENDS);

    if (ftp == NULL || session.xfer.p == NULL || fd < 0 || sides == 0)
        return;
    if (fd != managed_fd) {
        managed_fd = fd;
        autobuf_ftp_data_connected(ftp, fd, sides, left_bytes());
    }
    autobuf_ftp_data_step(ftp);
}

static void set_timer(void)
{
    uint64_t due_ns = autobuf_ftp_data_deadline_ns(ftp);
    uint64_t first_ns = autobuf_now_ns() + (session.xfer.total_bytes != moved_bytes ? SHORTEST_NS : LONGEST_NS);
    struct itimerspec when = {.it_interval = {0, AGAIN_NS}};

    stop_timer();
    if (due_ns == AUTOBUF_NS_UNSET)
        return;
    due_ns = due_ns < first_ns ? first_ns : due_ns;
    when.it_value = (struct timespec){(time_t)(due_ns / 1000000000), (long)(due_ns % 1000000000)};
    timer_runs = timer_settime(sample_timer, TIMER_ABSTIME, &when, NULL) == 0;
}

/*
 * sendfile() moves a whole file in one call, which only a signal ends early, and ProFTPD's timers count whole seconds.
 * SIGUSR2 is ProFTPD's signal for events: it handles it between two calls, and repeats a call that has moved nothing.
 */
static void begin_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};

    if (!has_timer)
        has_timer = timer_create(CLOCK_MONOTONIC, &event, &sample_timer) == 0;
    moved_bytes = -1; /* bytes of a call are counted after the sample that ends it: the first sample finds 0 */
    if (has_timer)
        set_timer();
    else
        pr_log_debug(DEBUG1, MOD_AUTOBUF_VERSION ": transfers by sendfile() are not sampled: %s", strerror(errno));
}

static void event_signal_ev(const void *event_data, void *user_data)
{
    (void)event_data, (void)user_data;
    if (!timer_runs)
        return;
    sample();
    if (session.d != NULL && session.xfer.p != NULL)
        set_timer();
    else
        stop_timer();
    moved_bytes = session.xfer.total_bytes;
}

/* Both streams of the connection are open, and TLS too. Data flow from now on. */
static int postopen_cb(pr_netio_stream_t *stream)
{
    int result = used_netio->postopen(stream);

    if (result < 0 || session.d == NULL || stream != session.d->outstrm)
        return result;
    sample();
    if (managed_fd >= 0 && session.xfer.direction == PR_NETIO_IO_WR && left_bytes() > 0)
        begin_timer();
    return result;
}

/* The file is sent. ProFTPD waits in select() next, and would sleep for 0.2 s after a signal there. */
static int shutdown_cb(pr_netio_stream_t *stream, int how)
{
    stop_timer();
    return used_netio->shutdown(stream, how);
}

/* The reply that announces data. Streams of an active connection are not open yet, so postopen() samples first. */
static void control_write_ev(const void *event_data, void *user_data)
{
    (void)event_data, (void)user_data;
    if (ftp == NULL || session.d == NULL || session.xfer.p == NULL || managed_fd >= 0 || is_ours_in_use())
        return;
    if (default_netio == NULL)
        default_netio = pr_alloc_netio2(session.pool, &autobuf_module, NULL);
    used_netio = pr_get_netio(PR_NETIO_STRM_DATA);
    if (used_netio == NULL)
        used_netio = default_netio;
    our_netio = *used_netio;
    our_netio.postopen = postopen_cb;
    our_netio.shutdown = shutdown_cb;
    pr_register_netio(&our_netio, PR_NETIO_STRM_DATA);
}

/* A command during a transfer: sendfile() does not wait for it. MODE Z changes the netio in use. */
static void control_read_ev(const void *event_data, void *user_data)
{
    (void)event_data, (void)user_data;
    stop_timer();
    put_netio_back();
}

static void data_moves_ev(const void *event_data, void *user_data)
{
    (void)event_data, (void)user_data;
    stop_timer();
    if (ftp != NULL && session.d != NULL)
        sample();
}

static void data_listen_ev(const void *event_data, void *user_data)
{
    const struct socket_ctx *sc = event_data;
    uint32_t sides = ours(BOTH);

    (void)user_data;
    end_sampling();
    if (ftp != NULL && sides != 0)
        autobuf_ftp_data_begin(ftp, sc->sockfd, NULL, 0, sides, 0);
}

static void data_connect_ev(const void *event_data, void *user_data)
{
    const struct socket_ctx *sc = event_data;
    uint32_t sides = ours(session.xfer.direction == PR_NETIO_IO_RD ? AUTOBUF_INTENT_RECEIVES
                                                                   : AUTOBUF_INTENT_SENDS);

    (void)user_data;
    end_sampling();
    if (ftp != NULL && sides != 0)
        autobuf_ftp_data_begin(ftp, sc->sockfd, pr_netaddr_get_sockaddr(&session.data_addr),
                               (socklen_t)pr_netaddr_get_sockaddr_len(&session.data_addr), sides, left_bytes());
}

/* Keeps the offset of REST: the server forgets it before data flow. */
MODRET before_transfer(cmd_rec *cmd)
{
    (void)cmd;
    restart_pos = session.restart_pos;
    return PR_DECLINED(cmd);
}

MODRET after_transfer(cmd_rec *cmd)
{
    (void)cmd;
    end_sampling();
    return PR_DECLINED(cmd);
}

/* ------------------------------------------------------------------------------ configuration */

/* usage: AutobufEngine on|off */
MODRET set_engine(cmd_rec *cmd)
{
    config_rec *c;
    int on;

    CHECK_ARGS(cmd, 1);
    CHECK_CONF(cmd, CONF_ROOT | CONF_VIRTUAL | CONF_GLOBAL);
    on = get_boolean(cmd, 1);
    if (on == -1)
        CONF_ERROR(cmd, "expected Boolean parameter");
    c = add_config_param(cmd->argv[0], 1, NULL);
    c->argv[0] = palloc(c->pool, sizeof(int));
    *(int *)c->argv[0] = on;
    return PR_HANDLED(cmd);
}

/* usage: AutobufMax size [units] */
MODRET set_max(cmd_rec *cmd)
{
    config_rec *c;
    off_t bytes;

    if (cmd->argc != 2 && cmd->argc != 3)
        CONF_ERROR(cmd, "expected a size, optionally with B, KB, MB or GB");
    CHECK_CONF(cmd, CONF_ROOT | CONF_VIRTUAL | CONF_GLOBAL);
    if (pr_str_get_nbytes(cmd->argv[1], cmd->argc == 3 ? cmd->argv[2] : NULL, &bytes) < 0 ||
        bytes < 4096)
        CONF_ERROR(cmd, "expected a size of 4 KB or more, optionally with B, KB, MB or GB");
    c = add_config_param(cmd->argv[0], 1, NULL);
    c->argv[0] = palloc(c->pool, sizeof(off_t));
    *(off_t *)c->argv[0] = bytes;
    return PR_HANDLED(cmd);
}

static void read_configuration(void)
{
    config_rec *c = find_config(main_server->conf, CONF_PARAM, "AutobufEngine", FALSE);

    engine_on = c == NULL || *(int *)c->argv[0];
    c = find_config(main_server->conf, CONF_PARAM, "AutobufMax", FALSE);
    most_bytes = c != NULL ? (uint64_t) * (off_t *)c->argv[0] : 0;
}

static int begin_session(void);

static void end_session(void)
{
    end_sampling();
    if (has_timer)
        timer_delete(sample_timer);
    has_timer = 0;
    autobuf_ftp_close(ftp);
    ftp = NULL;
    pr_feat_remove(FEATURE);
}

static void exit_ev(const void *event_data, void *user_data)
{
    (void)event_data, (void)user_data;
    if (is_ours_in_use()) /* the other module may be unloaded already */
        pr_unregister_netio(PR_NETIO_STRM_DATA);
    end_session();
}

/* HOST, or a virtual host by name: another configuration. */
static void session_reinit_ev(const void *event_data, void *user_data)
{
    (void)event_data, (void)user_data;
    pr_event_unregister(&autobuf_module, NULL, NULL);
    end_session();
    if (begin_session() < 0)
        pr_session_disconnect(&autobuf_module, PR_SESS_DISCONNECT_SESSION_INIT_FAILED, NULL);
}

static int begin_session(void)
{
    pr_event_register(&autobuf_module, "core.session-reinit", session_reinit_ev, NULL);
    read_configuration();
    if (!engine_on)
        return 0;
    pr_feat_add(FEATURE);
    pr_event_register(&autobuf_module, "core.exit", exit_ev, NULL);
    pr_event_register(&autobuf_module, "core.data-listen", data_listen_ev, NULL);
    pr_event_register(&autobuf_module, "core.data-connect", data_connect_ev, NULL);
    pr_event_register(&autobuf_module, "core.ctrl-write", control_write_ev, NULL);
    pr_event_register(&autobuf_module, "core.ctrl-read", control_read_ev, NULL);
    pr_event_register(&autobuf_module, "core.data-write", data_moves_ev, NULL);
    pr_event_register(&autobuf_module, "core.data-read", data_moves_ev, NULL);
    pr_event_register(&autobuf_module, "core.signal.USR2", event_signal_ev, NULL);
    return 0;
}

#ifdef PR_SHARED_MODULE
static void module_unload_ev(const void *event_data, void *user_data)
{
    (void)user_data;
    if (strcmp("mod_autobuf.c", event_data) == 0)
        pr_event_unregister(&autobuf_module, NULL, NULL);
}
#endif

static int begin_module(void)
{
#ifdef PR_SHARED_MODULE
    pr_event_register(&autobuf_module, "core.module-unload", module_unload_ev, NULL);
#endif
    return 0;
}

static conftable directives[] = {
    {"AutobufEngine", set_engine, NULL},
    {"AutobufMax", set_max, NULL},
    {NULL, NULL, NULL},
};

#define AT_END(type, command) {type, command, G_NONE, after_transfer, FALSE, FALSE, CL_NONE, NULL}

static cmdtable commands[] = {
    {PRE_CMD, C_PASS, G_NONE, before_login, FALSE, FALSE, CL_NONE, NULL},
    {PRE_CMD, C_RETR, G_NONE, before_transfer, FALSE, FALSE, CL_NONE, NULL},
    {CMD, C_SITE, G_NONE, answer_site, FALSE, FALSE, CL_MISC, NULL},
    AT_END(LOG_CMD, C_RETR),
    AT_END(LOG_CMD, C_STOR),
    AT_END(LOG_CMD, C_APPE),
    AT_END(LOG_CMD, C_STOU),
    AT_END(LOG_CMD, C_LIST),
    AT_END(LOG_CMD, C_NLST),
    AT_END(LOG_CMD, C_MLSD),
    AT_END(LOG_CMD_ERR, C_LIST),
    AT_END(LOG_CMD_ERR, C_NLST),
    AT_END(LOG_CMD_ERR, C_MLSD),
    AT_END(LOG_CMD_ERR, C_RETR),
    AT_END(LOG_CMD_ERR, C_STOR),
    AT_END(LOG_CMD_ERR, C_APPE),
    AT_END(LOG_CMD_ERR, C_STOU),
    {0, NULL, NULL, NULL, FALSE, FALSE, 0, NULL},
};

module autobuf_module = {
    NULL, NULL,
    0x20, /* version of the module API */
    "autobuf",
    directives,
    commands,
    NULL, /* authentication handlers */
    begin_module,
    begin_session,
    MOD_AUTOBUF_VERSION,
    NULL, 0,
};
