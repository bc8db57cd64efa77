/* SPDX-License-Identifier: MIT */
#include "broker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include "../../lib/base/option.h"
#include "../../lib/kernel/proc.h"
#include "../../lib/kernel/socket.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* of the memory at which TCP's pressure begins: a forced size is stored twice, and at most an eighth of it */
#define FORCED_PART 16U
#define KEPT_FD 3 /* after standard input, output and error */

/* The daemon's, or the broker's own end. */
static struct {
    pid_t pid; /* of the other; 0: there is none */
    int talk;
    clockid_t clock;
    struct owners owners;
    struct raised raised[RAISE_SIDES]; /* by this process */
    uint64_t share_bytes;              /* the most that it forces, and raises a limit to; 0: not known yet */
} broker = {.talk = -1};

/* ------------------------------------------------------------------------------ borrowing */

static bool is_tcp(int fd)
{
    int domain, type, protocol;

    return ab_get_int(fd, SOL_SOCKET, SO_DOMAIN, &domain) == 0 && (domain == AF_INET || domain == AF_INET6) &&
           ab_get_int(fd, SOL_SOCKET, SO_TYPE, &type) == 0 && type == SOCK_STREAM &&
           ab_get_int(fd, SOL_SOCKET, SO_PROTOCOL, &protocol) == 0 && protocol == IPPROTO_TCP;
}

/* 0: unknown. */
static uint64_t network_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;

    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) < 0 ? 0 : cookie;
}

uint64_t broker_network(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t cookie = network_of(fd);

    if (fd >= 0)
        close(fd);
    return cookie;
}

/* For broker_borrow(), by whoever may. */
static int borrow(pid_t pid, int fd, uint64_t cookie)
{
    int pidfd = process_find(pid), copy;

    if (pidfd < 0)
        return pidfd;
    copy = process_borrow(pid, pidfd, fd);
    close(pidfd);
    if (copy < 0)
        return copy == -ENOTSOCK ? -ESTALE : copy;
    if (ab_socket_check(copy, cookie) == 0 && is_tcp(copy))
        return copy;
    process_give_back(copy);
    return -ESTALE;
}

/* ---------------------------------------------------------------------- limits of autotuning */

const char *const raise_names[RAISE_SIDES] = {"net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"};
static const char *const limit_files[RAISE_SIDES] = {"/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"};

int limit_read(unsigned side, uint64_t values[static 3])
{
    return ab_proc_read(limit_files[side], values, 3) == 3 ? 0 : -EIO;
}

static int write_limit(unsigned side, const uint64_t values[static 3])
{
    char text[64];
    int length = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", values[0], values[1], values[2]);
    int fd = open(limit_files[side], O_WRONLY | O_CLOEXEC), error;

    if (fd < 0)
        return -errno;
    error = write(fd, text, (size_t)length) < 0 ? -errno : 0;
    close(fd);
    return error;
}

int raise_to(struct raised *raised, unsigned side, uint64_t bytes, uint64_t most_bytes)
{
    uint64_t values[3], now_bytes;
    bool raises = bytes;
    int error;

    if (limit_read(side, values) < 0)
        return -EIO;
    now_bytes = values[2];
    if (raised->ours_bytes && now_bytes != raised->ours_bytes)
        return -EBUSY;
    if (!bytes && !raised->ours_bytes)
        return 0;
    if (bytes > 2 * now_bytes)
        return -EINVAL;
    bytes = ab_min(bytes, most_bytes);
    if (raises && bytes <= now_bytes)
        return -EINVAL;
    values[2] = bytes ? bytes : raised->was_bytes;
    if (values[2] < values[1]) /* no kernel's, nor an administrator's */
        return -EINVAL;
    error = write_limit(side, values);
    if (error < 0)
        return error;
    *raised = (struct raised){raised->ours_bytes ? raised->was_bytes : now_bytes, bytes};
    return 0;
}

/* ------------------------------------------------------------------------------ the broker */

/*
 * Of the memory of all TCP sockets at which the kernel's pressure begins, what one buffer may have. 0: unknown. The
 * first call is before the broker is confined; the others read one file, for an administrator may have changed it.
 */
static uint64_t share_bytes(void)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    uint64_t pages[3];

    if (!broker.share_bytes && autobuf_limits_host(&limits) == 0)
        broker.share_bytes = limits.tcp_mem_bytes / FORCED_PART;
    else if (ab_proc_read("/proc/sys/net/ipv4/tcp_mem", pages, 3) == 3)
        broker.share_bytes = ab_mul_div(pages[1], (uint64_t)sysconf(_SC_PAGESIZE), FORCED_PART);
    return broker.share_bytes;
}

/* Whether it is there: the kernel would load a module for whoever may administrate the network. */
static bool is_available(const char *control)
{
    char text[1024] = " ", word[BROKER_CONTROL_BYTES + 2];

    ab_proc_text("/proc/sys/net/ipv4/tcp_available_congestion_control", text + 1, sizeof text - 2);
    text[strcspn(text, "\n")] = ' ';
    snprintf(word, sizeof word, " %s ", control);
    return control[0] && !strchr(control, ' ') && strstr(text, word);
}

struct serving {
    const char *unit;     /* of the process, or it is not served; NULL: any, for it is the parent */
    int listener, daemon; /* a descriptor of the process */
    int ends;             /* readable once a signal ends it; -1: none does */
    uint64_t network; /* its number */
    struct seccomp_notif *asked;
    struct seccomp_notif_resp *answer;
    struct seccomp_notif_sizes sizes;
};

/* Puts the socket where the daemon expects it. The number there, or -errno. */
static int lend(const struct serving *s)
{
    const __u64 *args = s->asked->data.args;
    struct seccomp_notif_addfd loan = {.id = s->asked->id, .flags = SECCOMP_ADDFD_FLAG_SETFD, .newfd = LOAN_FD,
                                       .newfd_flags = O_CLOEXEC};
    int copy = borrow((pid_t)args[0], (int)args[1], (uint64_t)(uint32_t)args[3] << 32 | (uint32_t)args[2]),
        result = copy;

    if (copy < 0)
        return copy;
    loan.srcfd = (__u32)copy;
    if (network_of(copy) != s->network) /* of a namespace that is not seen here */
        result = -ESTALE;
    else if ((result = ioctl(s->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &loan)) < 0)
        result = -errno;
    process_give_back(copy);
    return result;
}

/* What the daemon wants an option to be. -EFAULT, -EINVAL. */
static int read_value(const struct serving *s, void *value, size_t least, size_t most)
{
    size_t length = (size_t)s->asked->data.args[4];
    struct iovec here = {value, length}, there = {(void *)(uintptr_t)s->asked->data.args[3], length};

    if (length < least || length > most)
        return -EINVAL;
    return process_vm_readv((pid_t)s->asked->pid, &here, 1, &there, 1, 0) == (ssize_t)length ? 0 : -EFAULT;
}

/*
 * A size beyond what anybody may set, which the daemon tries on a socket of its own first, or the congestion control.
 */
static int set_option(const struct serving *s, int copy)
{
    int level = (int)s->asked->data.args[1], option = (int)s->asked->data.args[2], bytes, error;
    char control[BROKER_CONTROL_BYTES] = "";

    if (!is_tcp(copy))
        return -EPERM;
    if (level == IPPROTO_TCP) {
        error = read_value(s, control, 1, sizeof control - 1);
        if (error == 0 && !is_available(control))
            error = -ENOENT;
        if (error == 0 && setsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) < 0)
            error = -errno;
        return error;
    }
    error = read_value(s, &bytes, sizeof bytes, sizeof bytes);
    if (error == 0 && (bytes < 0 || (uint64_t)bytes > share_bytes()))
        error = -EPERM;
    if (error == 0 && setsockopt(copy, SOL_SOCKET, option, &bytes, sizeof bytes) < 0)
        error = -errno;
    return error;
}

static int set(const struct serving *s)
{
    int copy = process_borrow((pid_t)s->asked->pid, s->daemon, (int)s->asked->data.args[0]), error;

    if (copy < 0)
        return copy;
    error = set_option(s, copy);
    process_give_back(copy);
    return error;
}

/* One that was interrupted needs no answer. false: what is no listener has none. */
static bool serve_call(const struct serving *s)
{
    int result = 0;

    memset(s->asked, 0, s->sizes.seccomp_notif);
    memset(s->answer, 0, s->sizes.seccomp_notif_resp);
    if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_RECV, s->asked) < 0)
        return errno == EINTR || errno == ENOENT;
    switch (s->asked->data.nr) {
    case ASKS_FOR_LOAN:
        result = lend(s);
        break;
    case SYS_setsockopt:
        result = set(s);
        break;
    default:
        result = -EPERM;
    }
    s->answer->id = s->asked->id;
    s->answer->error = result < 0 ? result : 0;
    s->answer->val = result < 0 ? 0 : result;
    (void)ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SEND, s->answer);
    return true;
}

/* All of it. false: the other end is gone. */
static bool talk(void *data, size_t bytes, ssize_t (*pass)(int fd, void *data, size_t bytes))
{
    for (size_t done = 0; done < bytes;) {
        ssize_t now = pass(broker.talk, (char *)data + done, bytes - done);

        if (now <= 0 && !(now < 0 && errno == EINTR))
            return false;
        done += now > 0 ? (size_t)now : 0;
    }
    return true;
}

static ssize_t pass_out(int fd, void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL);
}

enum what {
    SEARCH,
    RAISE,
};

struct question {
    uint64_t most;  /* of descriptors; or bytes to raise a limit to */
    uint32_t count; /* of struct wanted that follow, and come back; or the side */
    uint32_t what;  /* enum what */
};

struct raise_answer {
    struct raised raised;
    int error;
};

/* By whoever may. */
static struct raise_answer raise_here(unsigned side, uint64_t bytes)
{
    struct raised *raised = &broker.raised[side];
    int error = raise_to(raised, side, bytes, share_bytes());

    return (struct raise_answer){*raised, error};
}

/* false: it is the last one. */
static bool serve_search(struct question question)
{
    struct wanted *wanted;
    bool served;

    if (question.count > WANTED_MOST)
        return false;
    wanted = calloc(question.count + 1, sizeof *wanted);
    served = wanted && talk(wanted, question.count * sizeof *wanted, read);
    for (size_t i = 0; served && i < question.count; i++)
        wanted[i].owner = (struct owner){.cookie = wanted[i].owner.cookie};
    if (served) {
        owners_find(&broker.owners, wanted, question.count, question.most);
        served = talk(&broker.owners.wholes, sizeof broker.owners.wholes, pass_out) &&
                 talk(wanted, question.count * sizeof *wanted, pass_out);
    }
    free(wanted);
    return served;
}

static bool serve_question(void)
{
    struct question question;
    struct raise_answer answer;

    if (!talk(&question, sizeof question, read))
        return false;
    if (question.what == SEARCH)
        return serve_search(question);
    if (question.what != RAISE || question.count >= RAISE_SIDES)
        return false;
    answer = raise_here(question.count, question.most);
    return talk(&answer, sizeof answer, pass_out);
}

static void serve(const struct serving *s)
{
    struct pollfd asked[] = {{s->listener, POLLIN, 0}, {broker.talk, POLLIN, 0}, {s->ends, POLLIN, 0}};

    do {
        if (poll(asked, 3, -1) < 0)
            continue;
        if (asked[2].revents)
            return;
        if (asked[0].revents & POLLIN && !serve_call(s))
            return;
        if (asked[1].revents && !serve_question())
            return;
    } while (!(asked[0].revents & (POLLHUP | POLLERR)));
}

/* What the daemon says first, and what it is answered; the descriptors come with a byte that follows. */
struct hello {
    int listener; /* there */
    bool loads;
};

struct answer {
    pid_t pid;
    struct broker_maps maps;
};

/* Sends them, or takes them. */
static bool talk_maps(struct broker_maps *maps, bool sends)
{
    char control[CMSG_SPACE(sizeof maps->fds)] = "", byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    if (sends) {
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof maps->fds), .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), maps->fds, sizeof maps->fds);
        return sendmsg(broker.talk, &message, MSG_NOSIGNAL) == 1;
    }
    c = recvmsg(broker.talk, &message, MSG_CMSG_CLOEXEC) == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof maps->fds))
        return false;
    memcpy(maps->fds, CMSG_DATA(c), sizeof maps->fds);
    return true;
}

/* Takes over the daemon's listener, whose number there it is told. */
static int take_over(struct serving *s, broker_load_fn *load, struct broker_maps *maps)
{
    struct hello hello;
    char unit[UNIT_BYTES];

    s->network = broker_network();
    s->daemon = process_find(broker.pid);
    if (s->unit) /* borrowing from it succeeds afterwards: then it has been that process all the time */
        owners_unit(broker.pid, unit);
    if (!share_bytes() || s->daemon < 0 || (s->unit && strcmp(unit, s->unit) != 0) ||
        syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &s->sizes) < 0)
        return -1;
    s->asked = malloc(s->sizes.seccomp_notif);
    s->answer = malloc(s->sizes.seccomp_notif_resp);
    if (!s->asked || !s->answer || !talk(&hello, sizeof hello, read))
        return -1;
    s->listener = (int)syscall(SYS_pidfd_getfd, s->daemon, hello.listener, 0);
    if (s->listener < 0)
        return -1;
    if (hello.loads && load)
        load(maps);
    (void)ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP); /* since Linux 6.6 */
    return confine_broker();
}

/* Until it or the process has ended. */
static int be_broker(pid_t daemon, const char *unit, int end, broker_load_fn *load)
{
    struct serving serving = {.unit = unit, .ends = -1};
    struct answer answer = {.pid = getpid()};
    sigset_t ends;

    broker.pid = daemon;
    broker.talk = dup2(end, KEPT_FD);
    syscall(SYS_close_range, KEPT_FD + 1U, ~0U, 0U); /* a lock must not outlive the daemon */
    prctl(PR_SET_NAME, "autobufd-broker");
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    if (unit && sigprocmask(SIG_BLOCK, &ends, NULL) == 0) /* a child's are blocked: the daemon has them */
        serving.ends = signalfd(-1, &ends, SFD_CLOEXEC);
    if (take_over(&serving, load, &answer.maps) < 0 || !talk(&answer, sizeof answer, pass_out) ||
        (answer.maps.ready && !talk_maps(&answer.maps, true)))
        return -EIO;
    serve(&serving);
    for (unsigned side = 0; side < RAISE_SIDES; side++)
        (void)raise_here(side, 0);
    return 0;
}

int broker_serve(const char *unit, broker_load_fn *load)
{
    int end = accept4(KEPT_FD, NULL, NULL, SOCK_CLOEXEC);
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (end < 0 || getsockopt(end, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return -errno;
    return be_broker(peer.pid, unit, end, load);
}

/* ------------------------------------------------------------------------------ the daemon */

/* Who answers is the broker. */
static int hand_over(bool loads, struct broker_maps *maps)
{
    struct hello hello = {.loads = loads};
    struct answer answer;
    int error = confine(&hello.listener);

    if (error < 0)
        return error;
    if (!talk(&hello, sizeof hello, pass_out) || !talk(&answer, sizeof answer, read) ||
        clock_getcpuclockid(answer.pid, &broker.clock) != 0 || (answer.maps.ready && !talk_maps(&answer.maps, false)))
        error = -EIO;
    close(hello.listener); /* or it could answer itself */
    if (error < 0)
        return error;
    broker.pid = answer.pid;
    *maps = answer.maps;
    maps->why[sizeof maps->why - 1] = '\0';
    return 0;
}

int broker_open(broker_load_fn *load, struct broker_maps *maps)
{
    pid_t daemon = getpid(), child;
    int ends[2], error;

    if (!confine_is_worth_it())
        return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    /* Signals that end the daemon are blocked there, too: it first puts back what it has set. */
    child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(be_broker(daemon, NULL, ends[1], load) < 0);
    }
    close(ends[1]);
    broker.talk = ends[0];
    error = child < 0 ? -errno : 0;
    if (error == 0) {
        prctl(PR_SET_PTRACER, child); /* for where only parents may look into processes */
        error = hand_over(load != NULL, maps);
    }
    if (error == 0)
        return 1;
    broker_close();
    if (error != -EIO)
        waitpid(-1, NULL, 0);
    return error;
}

int broker_join(const char *socket_file, bool loads, struct broker_maps *maps)
{
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    int error = 0;

    if (strlen(socket_file) >= sizeof there.sun_path)
        return -ENAMETOOLONG;
    strcpy(there.sun_path, socket_file);
    broker.talk = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Another process of this user could take what is lent out of this one. */
    if (broker.talk < 0 ||
        connect(broker.talk, (const struct sockaddr *)&there, sizeof there) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        error = -errno;
    if (error == 0)
        error = hand_over(loads, maps);
    if (error < 0)
        broker_close();
    return error;
}

int broker_fd(void)
{
    return broker.talk;
}

void broker_close(void)
{
    if (broker.talk >= 0)
        close(broker.talk);
    broker.talk = -1;
    broker.pid = 0;
}

int broker_borrow(const struct owner *owner)
{
    long fd;

    if (!broker.pid)
        return borrow(owner->pid, owner->fd, owner->cookie);
    fd = syscall(ASKS_FOR_LOAN, owner->pid, owner->fd, (uint32_t)owner->cookie, (uint32_t)(owner->cookie >> 32));
    return fd < 0 ? -errno : (int)fd;
}

uint32_t broker_find(struct wanted *wanted, size_t count, size_t most)
{
    struct question question = {.most = most, .count = (uint32_t)count};

    if (!broker.pid)
        owners_find(&broker.owners, wanted, count, most);
    else
        (void)(talk(&question, sizeof question, pass_out) && talk(wanted, question.count * sizeof *wanted, pass_out) &&
               talk(&broker.owners.wholes, sizeof broker.owners.wholes, read) &&
               talk(wanted, question.count * sizeof *wanted, read));
    return broker.owners.wholes;
}

int broker_raise(unsigned side, uint64_t bytes, struct raised *raised)
{
    struct question question = {.most = bytes, .count = side, .what = RAISE};
    struct raise_answer answer = {.error = -EIO};

    if (!broker.pid)
        answer = raise_here(side, bytes);
    else if (!talk(&question, sizeof question, pass_out) || !talk(&answer, sizeof answer, read))
        answer = (struct raise_answer){.error = -EIO};
    *raised = answer.raised;
    return answer.error;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t = {0, 0};

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t cost_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + (broker.pid ? clock_ns(broker.clock) : 0);
}

uint64_t cost_after(uint64_t now_ns, uint64_t began_cpu_ns, uint64_t least_ns, uint64_t *sum_ns)
{
    uint64_t took_ns = cost_cpu_ns() - began_cpu_ns;

    *sum_ns += took_ns;
    return now_ns + ab_max(took_ns * COST_PART, least_ns);
}
