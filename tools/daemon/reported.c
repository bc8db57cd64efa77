/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include "../../lib/paths/record.h"
#include "broker.h"
#include "learn.h"

#define FILE_MODE 0600
#define SENDERS (BELIEVED_MOST + 2) /* with root and this process's user */

/* A user who is believed. */
struct sender {
    uint32_t user;
    uint32_t taken; /* since then: */
    uint64_t since_ns;
};

struct reported {
    int fd;
    struct socket_file file;
    struct keep *keep;
    struct sender senders[SENDERS];
    size_t count;
    uint64_t rest_until_ns;
};

/* ----------------------------------------------------------------------------------- trust */

bool reported_check(struct autobuf_paths_entry *e, uint64_t now_s)
{
    if (!learn_is_of_host(e) || e->expires_s <= now_s || e->rtt_min_ns == AUTOBUF_NS_UNSET ||
        (!e->tx_rate_bit_per_s && !e->rx_rate_bit_per_s))
        return false;
    if (e->learned_s > now_s)
        e->learned_s = now_s;
    if (e->expires_s > now_s + REPORTED_HOLDS_S)
        e->expires_s = now_s + REPORTED_HOLDS_S;
    return true;
}

static struct sender *sender_of(struct reported *reported, uint32_t user)
{
    for (size_t i = 0; i < reported->count; i++)
        if (reported->senders[i].user == user)
            return &reported->senders[i];
    return NULL;
}

static bool is_too_many(struct sender *sender, uint64_t now_ns)
{
    if (now_ns >= sender->since_ns + AB_NS_PER_S) {
        sender->since_ns = now_ns;
        sender->taken = 0;
    }
    return sender->taken++ >= REPORTED_PER_S;
}

/* ------------------------------------------------------------------------------- datagrams */

/* Takes the entry, or says why not. */
static enum report_rejected take(struct reported *reported, const void *bytes, size_t count, const struct ucred *from,
                                 uint64_t now_ns)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct sender *sender = from ? sender_of(reported, from->uid) : NULL;

    if (!sender)
        return REPORT_NOT_BELIEVED;
    if (is_too_many(sender, now_ns))
        return REPORT_TOO_MANY;
    if (ab_paths_entry_decode(bytes, (uint32_t)count, &entry) < 0)
        return REPORT_MALFORMED;
    if (!reported_check(&entry, (uint64_t)time(NULL)))
        return REPORT_NOT_VALID;
    reported->keep->counts.programs++;
    keep_learned(reported->keep, &entry, KEEP_REPORTED);
    return REPORT_UNTAKEN;
}

/* false: there is none. */
static bool next_datagram(struct reported *reported, uint64_t now_ns)
{
    union { /* room for the sender alone, who comes first: the kernel then closes descriptors that come along */
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    char bytes[AUTOBUF_PATHS_MESSAGE_BYTES];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(reported->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    const struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    enum report_rejected why;
    struct ucred from;
    bool known;

    if (got < 0)
        return errno == EINTR;
    known = first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_CREDENTIALS &&
            first->cmsg_len >= CMSG_LEN(sizeof from);
    if (known)
        memcpy(&from, CMSG_DATA(first), sizeof from);
    why = take(reported, bytes, (size_t)got, known ? &from : NULL, now_ns); /* one that is longer has its true length */
    if (why != REPORT_UNTAKEN)
        reported->keep->counts.rejected[why]++;
    return true;
}

/* It rests after what it has taken only: a rest after nothing would wake the daemon for the next one, and so on. */
void reported_step(struct reported *reported, uint64_t now_ns)
{
    uint64_t began_ns = cost_cpu_ns();
    unsigned taken = 0;

    if (!reported || now_ns < reported->rest_until_ns)
        return;
    while (taken < REPORTED_MOST && next_datagram(reported, now_ns))
        taken++;
    if (taken)
        reported->rest_until_ns = cost_after(now_ns, began_ns, 0, &reported->keep->counts.cpu_ns);
}

size_t reported_poll(const struct reported *reported, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns)
{
    if (!reported)
        return 0;
    if (now_ns < reported->rest_until_ns) {
        *until_ns = ab_min(*until_ns, reported->rest_until_ns);
        return 0;
    }
    fds[0] = (struct pollfd){reported->fd, POLLIN, 0};
    return 1;
}

/* ------------------------------------------------------------------------------- the whole */

/* The owner keeps what the mode says, and each of those who are believed may write: acl(5). 0, -errno. */
static int permit(const char *file, const struct believed *believed)
{
    struct {
        struct posix_acl_xattr_header header;
        struct posix_acl_xattr_entry entries[BELIEVED_MOST + 4];
    } list = {.header = {.a_version = htole32(POSIX_ACL_XATTR_VERSION)}};
    struct posix_acl_xattr_entry *next = list.entries;
    const struct {
        uint16_t tag, permission;
    } last[] = {{ACL_GROUP_OBJ, 0}, {ACL_MASK, ACL_WRITE}, {ACL_OTHER, 0}};

    *next++ = (struct posix_acl_xattr_entry){htole16(ACL_USER_OBJ), htole16(ACL_READ | ACL_WRITE), htole32(UINT32_MAX)};
    for (size_t i = 0; i < believed->count; i++)
        *next++ = (struct posix_acl_xattr_entry){htole16(ACL_USER), htole16(ACL_WRITE), htole32(believed->users[i])};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        *next++ =
            (struct posix_acl_xattr_entry){htole16(last[i].tag), htole16(last[i].permission), htole32(UINT32_MAX)};
    return setxattr(file, "system.posix_acl_access", &list, (size_t)((char *)next - (char *)&list), 0) < 0 ? -errno : 0;
}

int reported_open(struct reported **out, const char *file, const struct believed *believed, struct keep *keep)
{
    struct reported *reported = calloc(1, sizeof *reported);
    int on = 1, error;

    *out = NULL;
    if (!reported)
        return -ENOMEM;
    reported->keep = keep;
    reported->senders[reported->count++].user = 0;
    reported->senders[reported->count++].user = geteuid();
    for (size_t i = 0; i < believed->count; i++)
        reported->senders[reported->count++].user = believed->users[i];
    reported->fd = socket_file_open(&reported->file, file, SOCK_DGRAM, FILE_MODE);
    error = reported->fd < 0 ? reported->fd : 0;
    if (error == 0 && setsockopt(reported->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        error = -errno;
    if (error < 0) {
        reported_close(reported);
        return error;
    }
    *out = reported;
    return believed->count && permit(file, believed) < 0 ? 1 : 0;
}

void reported_close(struct reported *reported)
{
    if (!reported)
        return;
    if (reported->fd >= 0) {
        socket_file_remove(&reported->file);
        close(reported->fd);
    }
    free(reported);
}
