/* SPDX-License-Identifier: MIT */
/* Requests of scp and sftp before their turn, and replies that are waited for late. */
#include "includes.h"

#include <sys/types.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "openbsd-compat/sys-queue.h"

#include "autobuf-requests.h"
#include "log.h"
#include "misc.h"
#include "sftp.h"
#include "sftp-common.h"
#include "sftp-client.h"
#include "sshbuf.h"
#include "ssherr.h"
#include "xmalloc.h"

#define EARLY_BYTES (2 * 1024 * 1024) /* a channel's window, at first */
#define OWN_IDS 0x80000000U /* scp and sftp count from 1 */
#define MOST_FILES 64 /* 100 Mbit/s x 50 ms hold 73 of 8.5 KB */
#define FEW_FILES 16 /* the server does not tell how many it may have open */
#define SMALL_BYTES (64 * 1024)
#define MOST_KEPT_BYTES (8 * 1024 * 1024) /* of answers; half of it may rightly come */
#define MOST_READDIRS 8
#define MOST_LATE 64 /* replies that are waited for late */
#define MOST_HANDLE_BYTES 256 /* draft-ietf-secsh-filexfer-02, section 6.2 */
#define HEAD_BYTES 5 /* type and id, of a request and of its answer */
#define MOST_HINTS 3

/* A file that is read before its turn. */
struct file {
	TAILQ_ENTRY(file) next;
	struct SFTP_DIRENT **entry;
	uint64_t size;
	u_int request_bytes;
	struct sshbuf *handle;	/* NULL: not open yet */
	int small, came, ended, closed;
};

/* A request and its answer, with our id; or, with what, a status that is waited for late. */
struct ask {
	TAILQ_ENTRY(ask) next;
	struct sshbuf *question, *answer;
	struct file *file;
	struct ask *behind;	/* its question is kept back until this one is answered */
	char *what, *from, *to;
	u_int id, as;		/* as: the caller's, once it is wanted */
	int wanted, dropped, hint, closes;
	int probes;		/* a READ where the file should end: one byte tells whether it does */
};

struct autobuf_ahead {
	struct autobuf_ahead *next;
	struct sftp_conn *conn;
	void (*send)(struct sftp_conn *, struct sshbuf *);
	void (*receive)(struct sftp_conn *, struct sshbuf *, int);
	TAILQ_HEAD(, ask) asks;	/* in the order in which they were sent */
	TAILQ_HEAD(file_list, file) files;	/* in the order of their turns */
	const char *from, *to;	/* of the upload, or NULL */
	struct ask *last_write, *last_close;	/* of it, waited for late; or NULL */
	struct sshbuf *kept_back;	/* of it, until its reply is waited for late */
	struct sshbuf *end;	/* of the download: the request for its end, or NULL */
	struct ask *end_ask;	/* it was sent */
	uint64_t end_bytes;
	size_t kept_bytes;
	u_int ids, most_files, readdirs, late, writes, write_id;
	u_int reads, read_bytes; /* of the download */
	int fd, own_server, sending, folder_ended, failed;
};

/* Of all connections. One that ends does not tell us. */
static struct autobuf_ahead *aheads;

/* What the next connection begins with. The last may create a file. */
static struct sshbuf *hints[MOST_HINTS];
static u_int hint_count;
static char *creates_for; /* the last one creates a file for this local one; NULL: none does */

static struct sshbuf *
new_message(void)
{
	struct sshbuf *m = sshbuf_new();

	if (m == NULL)
		fatal_f("sshbuf_new failed");
	return m;
}

/* What a function of sshbuf returned that puts something into a message. */
static void
need(int r)
{
	if (r != 0)
		fatal_fr(r, "compose");
}

static struct sshbuf *
message(u_char type, const void *string, size_t len)
{
	struct sshbuf *m = new_message();

	need(sshbuf_put_u8(m, type));
	need(sshbuf_put_u32(m, 0));
	need(sshbuf_put_string(m, string, len));
	return m;
}

static struct sshbuf *
read_message(const void *handle, size_t len, uint64_t offset, u_int bytes)
{
	struct sshbuf *m = message(SSH2_FXP_READ, handle, len);

	need(sshbuf_put_u64(m, offset));
	need(sshbuf_put_u32(m, bytes));
	return m;
}

static struct sshbuf *
open_message(const char *path, u_int flags, const Attrib *a)
{
	struct sshbuf *m = message(SSH2_FXP_OPEN, path, strlen(path));

	need(sshbuf_put_u32(m, flags));
	need(encode_attrib(m, a));
	return m;
}

static struct sshbuf *
copy(const struct sshbuf *m)
{
	struct sshbuf *to = new_message();

	need(sshbuf_putb(to, m));
	return to;
}

static u_char
type_of(const struct sshbuf *m)
{
	return *sshbuf_ptr(m);
}

static u_int
id_of(const struct sshbuf *m)
{
	return PEEK_U32(sshbuf_ptr(m) + 1);
}

static void
set_id(struct sshbuf *m, u_int id)
{
	POKE_U32(sshbuf_mutable_ptr(m) + 1, id);
}

static int
same_but_id(const struct sshbuf *a, const struct sshbuf *b)
{
	size_t len = sshbuf_len(a);

	return len == sshbuf_len(b) && type_of(a) == type_of(b) &&
	    memcmp(sshbuf_ptr(a) + HEAD_BYTES, sshbuf_ptr(b) + HEAD_BYTES,
	    len - HEAD_BYTES) == 0;
}

/* The string behind the head; NULL: there is none. */
static const u_char *
string_of(const struct sshbuf *m, size_t *len)
{
	uint32_t n;

	if (sshbuf_peek_u32(m, HEAD_BYTES, &n) != 0 ||
	    n > sshbuf_len(m) - HEAD_BYTES - 4)
		return NULL;
	*len = n;
	return sshbuf_ptr(m) + HEAD_BYTES + 4;
}

static int
status_is(const struct sshbuf *m, u_int status)
{
	uint32_t got;

	return type_of(m) == SSH2_FXP_STATUS &&
	    sshbuf_peek_u32(m, HEAD_BYTES, &got) == 0 && got == status;
}

static struct ask *
ask_new(struct autobuf_ahead *q)
{
	struct ask *a = xcalloc(1, sizeof *a);

	TAILQ_INSERT_TAIL(&q->asks, a, next);
	return a;
}

static void
ask_send(struct autobuf_ahead *q, struct ask *a)
{
	struct sshbuf *m;

	a->id = OWN_IDS | q->ids++;
	set_id(a->question, a->id);
	debug3("autobuf: sent with an id of its own: T:%u I:%u",
	    type_of(a->question), a->id);
	m = copy(a->question);
	if (a->probes)
		POKE_U32(sshbuf_mutable_ptr(m) + sshbuf_len(m) - 4, 1);
	q->sending = 1;
	q->send(q->conn, m);
	q->sending = 0;
	sshbuf_free(m);
}

/* Sends the question, and owns it. */
static struct ask *
ask(struct autobuf_ahead *q, struct sshbuf *question, struct file *file,
    int probes)
{
	struct ask *a = ask_new(q);

	a->question = question;
	a->file = file;
	a->probes = probes;
	ask_send(q, a);
	return a;
}

static void
ask_free(struct autobuf_ahead *q, struct ask *a)
{
	TAILQ_REMOVE(&q->asks, a, next);
	if (q->last_close == a)
		q->last_close = NULL;
	if (q->last_write == a)
		q->last_write = NULL;
	if (q->end_ask == a)
		q->end_ask = NULL;
	if (a->answer != NULL)
		q->kept_bytes -= sshbuf_len(a->answer);
	if (a->what != NULL)
		q->late--;
	sshbuf_free(a->question);
	sshbuf_free(a->answer);
	free(a->what);
	free(a->from);
	free(a->to);
	free(a);
}

static void
close_handle(struct autobuf_ahead *q, const void *handle, size_t len)
{
	ask(q, message(SSH2_FXP_CLOSE, handle, len), NULL, 0)->dropped = 1;
}

/* The file has grown since it was listed. What it holds now is asked for once it is wanted. */
static void
probe_failed(struct autobuf_ahead *q, struct ask *a)
{
	a->probes = 0;
	if (a->wanted)
		ask_send(q, a);
	else
		ask_free(q, a);
}

/* Nobody will want it. What it opened is closed, at once or when its answer comes. */
static void
ask_drop(struct autobuf_ahead *q, struct ask *a)
{
	const u_char *handle;
	size_t len;

	a->dropped = 1;
	a->file = NULL;
	if (a->answer == NULL)
		return;
	if (type_of(a->question) == SSH2_FXP_OPEN &&
	    type_of(a->answer) == SSH2_FXP_HANDLE &&
	    (handle = string_of(a->answer, &len)) != NULL)
		close_handle(q, handle, len);
	ask_free(q, a);
}

/* Sent early, and not asked for yet. */
static int
is_ahead(const struct ask *a)
{
	return a->what == NULL && !a->wanted && !a->dropped;
}

/* What the connection began with; or, when the caller closes a folder or a file, the reads of it. */
static void
drop(struct autobuf_ahead *q, int hints)
{
	struct ask *a, *next;

	TAILQ_FOREACH_SAFE(a, &q->asks, next, next) {
		if (is_ahead(a) && (hints ? a->hint : a == q->end_ask ||
		    type_of(a->question) == SSH2_FXP_READDIR))
			ask_drop(q, a);
	}
}

static void
drop_reads(struct autobuf_ahead *q)
{
	drop(q, 0);
	sshbuf_free(q->end);
	q->end = NULL;
	q->end_ask = NULL;
}

/* ---- what a connection begins with ---- */

static void
hint(u_char type, const char *path)
{
	if (hint_count < MOST_HINTS)
		hints[hint_count++] = message(type, path, strlen(path));
}

static void
forget_hints(void)
{
	while (hint_count > 0)
		sshbuf_free(hints[--hint_count]);
	free(creates_for);
	creates_for = NULL;
}

/* As scp makes one of what it is given; NULL: it will ask the server. */
static const char *
remote_path(const char *path)
{
	if (*path == '~') {
		if (path[1] != '/' && path[1] != '\0')
			return NULL;
		path++;
		path += strspn(path, "/");
	}
	return *path == '\0' ? "." : path;
}

void
autobuf_ahead_get(const char *path, int recursive)
{
	char *folder;

	forget_hints();
	if ((path = remote_path(path)) == NULL ||
	    strpbrk(path, "*?[\\") != NULL)
		return;
	hint(SSH2_FXP_LSTAT, path);
	hint(SSH2_FXP_STAT, path);
	if (recursive && path[strlen(path) - 1] != '/') {
		xasprintf(&folder, "%s/", path);
		hint(SSH2_FXP_REALPATH, folder);
		free(folder);
	}
}

/* The request with which scp will open a remote file for a local one; NULL: it will not. */
static struct sshbuf *
open_for(const char *path, const char *local, int preserve)
{
	struct stat st;
	Attrib a;
	int fd;

	if (stat(local, &st) == -1 || !S_ISREG(st.st_mode) ||
	    (fd = open(local, O_RDONLY)) == -1)
		return NULL;
	close(fd);
	stat_to_attrib(&st, &a);
	a.flags &= ~(SSH2_FILEXFER_ATTR_SIZE | SSH2_FILEXFER_ATTR_UIDGID);
	a.perm &= 0777;
	if (!preserve)
		a.flags &= ~SSH2_FILEXFER_ATTR_ACMODTIME;
	return open_message(path, SSH2_FXF_WRITE | SSH2_FXF_CREAT, &a);
}

void
autobuf_ahead_put(const char *path, const char *local, int preserve)
{
	struct sshbuf *m;

	forget_hints();
	if ((path = remote_path(path)) == NULL)
		return;
	hint(SSH2_FXP_STAT, path);
	if (local == NULL || strcmp(path, ".") == 0 ||
	    path[strlen(path) - 1] == '/' ||
	    (m = open_for(path, local, preserve)) == NULL)
		return;
	hints[hint_count++] = m;
	creates_for = xstrdup(local);
}

void
autobuf_ahead_pwd(void)
{
	forget_hints();
	hint(SSH2_FXP_REALPATH, ".");
}

/* A new connection has this descriptor, so the one that had it before has ended. */
static void
ahead_forget(int fd)
{
	struct autobuf_ahead **link = &aheads, *q;
	struct file *f;

	while ((q = *link) != NULL && q->fd != fd)
		link = &q->next;
	if (q == NULL)
		return;
	*link = q->next;
	while (!TAILQ_EMPTY(&q->asks))
		ask_free(q, TAILQ_FIRST(&q->asks));
	sshbuf_free(q->end);
	sshbuf_free(q->kept_back);
	while ((f = TAILQ_FIRST(&q->files)) != NULL) {
		TAILQ_REMOVE(&q->files, f, next);
		sshbuf_free(f->handle);
		free(f);
	}
	free(q);
}

struct autobuf_ahead *
autobuf_ahead_open(struct sftp_conn *conn, int fd, u_int version,
    int own_server, void (*send)(struct sftp_conn *, struct sshbuf *),
    void (*receive)(struct sftp_conn *, struct sshbuf *, int))
{
	struct autobuf_ahead *q;
	u_int i;

	ahead_forget(fd);
	if (autobuf_requests_off() || version != SSH2_FILEXFER_VERSION) {
		forget_hints();
		return NULL;
	}
	q = xcalloc(1, sizeof *q);
	TAILQ_INIT(&q->asks);
	TAILQ_INIT(&q->files);
	q->conn = conn;
	q->fd = fd;
	q->send = send;
	q->receive = receive;
	q->own_server = own_server != 0;
	q->most_files = FEW_FILES;
	q->next = aheads;
	aheads = q;
	for (i = 0; i < hint_count; i++) {
		if (i + 1 < hint_count || creates_for == NULL ||
		    (own_server && access(creates_for, R_OK) == 0))
			ask(q, copy(hints[i]), NULL, 0)->hint = 1;
	}
	forget_hints();
	return q;
}

void
autobuf_ahead_handles(struct autobuf_ahead *q, uint64_t most)
{
	if (q != NULL && most != 0)
		q->most_files = MINIMUM(most / 4, MOST_FILES);
}

/* ---- files of a folder ---- */

/* An answer has come to one of the file's requests, which lead to others: as sftp_download() makes them. */
static void
file_step(struct autobuf_ahead *q, struct file *f, const struct ask *a,
    const struct sshbuf *answer)
{
	const u_char *string;
	size_t len;

	switch (type_of(a->question)) {
	case SSH2_FXP_OPEN:
		if (type_of(answer) != SSH2_FXP_HANDLE ||
		    (string = string_of(answer, &len)) == NULL ||
		    len > MOST_HANDLE_BYTES)
			return;
		f->handle = new_message();
		need(sshbuf_put(f->handle, string, len));
		if (!f->small)
			return;
		f->came = f->size == 0;
		if (f->size > 0)
			ask(q, read_message(string, len, 0, (u_int)f->size), f, 0);
		/* Many files that have grown would be more than is kept */
		ask(q, read_message(string, len, f->size, f->request_bytes), f, 1);
		return;
	case SSH2_FXP_READ:
		if (type_of(answer) == SSH2_FXP_DATA &&
		    string_of(answer, &len) != NULL && len == f->size)
			f->came = 1;
		if (status_is(answer, SSH2_FX_EOF))
			f->ended = 1;
		if (f->came && f->ended && !f->closed) {
			f->closed = 1;
			ask(q, message(SSH2_FXP_CLOSE, sshbuf_ptr(f->handle),
			    sshbuf_len(f->handle)), f, 0);
		}
		return;
	}
}

/* Its turn is over. */
static void
file_drop(struct autobuf_ahead *q)
{
	struct file *f = TAILQ_FIRST(&q->files);
	struct ask *a, *next;

	TAILQ_REMOVE(&q->files, f, next);
	TAILQ_FOREACH_SAFE(a, &q->asks, next, next) {
		if (a->file != f)
			continue;
		a->file = NULL;
		if (a->wanted)
			continue;
		/* Its handle is closed below */
		if (a->answer != NULL)
			ask_free(q, a);
		else
			a->dropped = 1;
	}
	if (f->handle != NULL && !f->closed)
		close_handle(q, sshbuf_ptr(f->handle), sshbuf_len(f->handle));
	sshbuf_free(f->handle);
	free(f);
}

static void
file_ask(struct autobuf_ahead *q, const char *folder,
    struct SFTP_DIRENT **entry, u_int request_bytes)
{
	struct file *f = xcalloc(1, sizeof *f);
	size_t len = strlen(folder);
	char *path;
	Attrib none;

	f->entry = entry;
	f->size = (*entry)->a.size;
	f->request_bytes = request_bytes;
	f->small = f->size <= MINIMUM(request_bytes, SMALL_BYTES);
	TAILQ_INSERT_TAIL(&q->files, f, next);
	xasprintf(&path, "%s%s%s", folder,
	    len > 0 && folder[len - 1] != '/' ? "/" : "", (*entry)->filename);
	attrib_clear(&none);
	ask(q, open_message(path, SSH2_FXF_READ, &none), f, 0);
	free(path);
}

void
autobuf_ahead_files(struct autobuf_ahead *q, const char *folder,
    struct SFTP_DIRENT **entry, u_int request_bytes)
{
	const u_int wanted = SSH2_FILEXFER_ATTR_SIZE |
	    SSH2_FILEXFER_ATTR_PERMISSIONS;
	struct file *f;
	uint64_t bytes;
	u_int files;

	if (q == NULL || S_ISDIR((*entry)->a.perm))
		return;
	while ((f = TAILQ_FIRST(&q->files)) != NULL && f->entry != entry)
		file_drop(q);
	for (;;) {
		bytes = files = 0;
		TAILQ_FOREACH(f, &q->files, next) {
			entry = f->entry + 1;
			bytes += f->small ? f->size : 0;
			files++;
		}
		f = TAILQ_LAST(&q->files, file_list);
		/* Behind a large file, or another folder, they would be old when it is their turn */
		if ((f != NULL && !f->small) || files >= q->most_files ||
		    *entry == NULL || ((*entry)->a.flags & wanted) != wanted ||
		    !S_ISREG((*entry)->a.perm) ||
		    bytes + MINIMUM((*entry)->a.size, SMALL_BYTES) > EARLY_BYTES)
			return;
		file_ask(q, folder, entry, request_bytes);
	}
}

void
autobuf_ahead_end(struct autobuf_ahead *q)
{
	while (q != NULL && !TAILQ_EMPTY(&q->files))
		file_drop(q);
}

/* ---- the end of a large file ---- */

void
autobuf_ahead_download(struct autobuf_ahead *q, const u_char *handle,
    size_t handle_len, uint64_t size, u_int request_bytes)
{
	if (q == NULL || !q->own_server)
		return;
	sshbuf_free(q->end);
	q->end = read_message(handle, handle_len, size, request_bytes);
	q->end_bytes = size;
	q->read_bytes = request_bytes;
	q->reads = 0;
}

/* A request for data is sent. Once as much is outstanding as is left, the end is asked for, too: that is known when the
   last of the data are asked for, and a round trip before they are here. */
static void
end_ask(struct autobuf_ahead *q, const struct sshbuf *msg)
{
	uint64_t at, left;

	if (q->end == NULL || sshbuf_len(msg) != sshbuf_len(q->end) ||
	    sshbuf_peek_u64(msg, sshbuf_len(msg) - 12, &at) != 0)
		return;
	q->reads++;
	left = at < q->end_bytes ? q->end_bytes - at : 0;
	if (q->end_ask == NULL && left > q->read_bytes &&
	    left / q->read_bytes <= q->reads)
		q->end_ask = ask(q, copy(q->end), NULL, 0);
}

/* ---- the caller's requests ---- */

/* The list of a folder comes in parts. The next ones are asked for, twice as many each time, until it ends. Of other
   servers than OpenSSH's it is not known whether they go through a folder for two requests at a time. */
static void
readdirs(struct autobuf_ahead *q, const struct sshbuf *msg)
{
	const struct ask *a;
	u_int ahead = 0;

	TAILQ_FOREACH(a, &q->asks, next)
		ahead += is_ahead(a) &&
		    type_of(a->question) == SSH2_FXP_READDIR;
	for (; !q->folder_ended && ahead < q->readdirs; ahead++)
		ask(q, copy(msg), NULL, 0);
	q->readdirs = MINIMUM(2 * q->readdirs, MOST_READDIRS);
}

/* The caller closes the file whose turn it is. A later file may have the same handle already, if this one was closed
   before its turn. */
static void
note_close(struct autobuf_ahead *q, const struct sshbuf *msg)
{
	struct file *f = TAILQ_FIRST(&q->files);
	const u_char *handle;
	size_t len;

	if (f != NULL && f->handle != NULL &&
	    (handle = string_of(msg, &len)) != NULL &&
	    sshbuf_len(f->handle) == len &&
	    memcmp(sshbuf_ptr(f->handle), handle, len) == 0)
		f->closed = 1;
}

/* The request that the caller makes now, sent already; NULL: it was not. A handle is used again once it is closed, so
   of a file only requests of the one whose turn it is. */
static struct ask *
find(const struct autobuf_ahead *q, const struct sshbuf *msg)
{
	struct ask *a;

	TAILQ_FOREACH(a, &q->asks, next) {
		if (is_ahead(a) && (a->file == NULL ||
		    a->file == TAILQ_FIRST(&q->files)) &&
		    same_but_id(a->question, msg))
			break;
	}
	return a;
}

int
autobuf_ahead_asked(struct autobuf_ahead *q, const struct sshbuf *msg)
{
	struct ask *a;

	if (q == NULL || q->sending || sshbuf_len(msg) < HEAD_BYTES)
		return 0;
	if (q->last_write != NULL && (type_of(msg) == SSH2_FXP_FSETSTAT ||
	    type_of(msg) == SSH2_FXP_CLOSE)) {
		sshbuf_free(q->kept_back);
		q->kept_back = copy(msg);
		return 1;
	}
	a = find(q, msg);
	if (a == NULL && type_of(msg) == SSH2_FXP_READDIR && q->readdirs > 0)
		a = ask(q, copy(msg), NULL, 0); /* before those that follow it */
	if (a != NULL) {
		a->wanted = 1;
		a->as = id_of(msg);
	} else if (type_of(msg) != SSH2_FXP_EXTENDED)
		drop(q, 1);
	switch (type_of(msg)) {
	case SSH2_FXP_OPENDIR:
		q->readdirs = q->own_server;
		q->folder_ended = 0;
		break;
	case SSH2_FXP_READDIR:
		readdirs(q, msg);
		break;
	case SSH2_FXP_CLOSE:
		drop_reads(q);
		note_close(q, msg);
		break;
	case SSH2_FXP_READ:
		if (a == NULL)
			end_ask(q, msg);
		break;
	case SSH2_FXP_WRITE:
		q->writes++;
		q->write_id = id_of(msg);
		break;
	}
	return a != NULL;
}

/* ---- replies that are waited for late ---- */

void
autobuf_late_file(struct autobuf_ahead *q, const char *from, const char *to)
{
	if (q == NULL)
		return;
	q->last_close = q->last_write = NULL;
	q->writes = 0;
	q->from = from;
	q->to = to;
}

void
autobuf_late_told(struct autobuf_ahead *q)
{
	if (q == NULL || q->last_close == NULL)
		return;
	free(q->last_close->from);
	q->last_close->from = NULL;
}

static struct ask *
late(struct autobuf_ahead *q, u_int id, const char *what, int closes)
{
	struct ask *a = ask_new(q);

	a->id = id;
	a->what = xstrdup(what);
	a->closes = closes;
	if (closes) {
		a->from = xstrdup(q->from);
		a->to = xstrdup(q->to);
	}
	q->late++;
	return a;
}

/* A file of a folder that one request holds was sent. Its reply is waited for late, and so is what follows it: with
   whatever reply, stock sends the same. The caller gets one that is good. */
static int
late_write(struct autobuf_ahead *q, struct sshbuf *msg)
{
	char *what;

	if (q->from == NULL || q->writes != 1 || q->most_files == 0)
		return 0;
	xasprintf(&what, "write remote \"%s\"", q->to);
	q->last_write = late(q, q->write_id, what, 1);
	free(what);
	q->writes = 0;
	sshbuf_reset(msg);
	need(sshbuf_put_u8(msg, SSH2_FXP_STATUS));
	need(sshbuf_put_u32(msg, q->write_id));
	need(sshbuf_put_u32(msg, SSH2_FX_OK));
	return 1;
}

static void
late_came(struct autobuf_ahead *q, struct ask *a, const struct sshbuf *msg)
{
	uint32_t status = SSH2_FX_FAILURE;
	struct ask *b;

	if (type_of(msg) != SSH2_FXP_STATUS ||
	    sshbuf_peek_u32(msg, HEAD_BYTES, &status) != 0)
		fatal("Expected SSH2_FXP_STATUS(%u) packet, got %u",
		    SSH2_FXP_STATUS, type_of(msg));
	debug3("SSH2_FXP_STATUS %u", status);
	if (status != SSH2_FX_OK) {
		error("%s: %s", a->what, fx2txt(status));
		if (a->from != NULL)
			error("upload \"%s\" to \"%s\" failed", a->from,
			    a->to);
		q->failed |= a->closes;
	}
	TAILQ_FOREACH(b, &q->asks, next) {
		if (b->behind != a)
			continue;
		b->behind = NULL;
		ask_send(q, b);
		if (status != SSH2_FX_OK) {
			free(b->from); /* told above */
			b->from = NULL;
		}
	}
	ask_free(q, a);
}

/* ---- replies ---- */

/* Returns 1 if the next reply is here already. It is in msg then. */
static int
is_known(struct autobuf_ahead *q, struct sshbuf *msg)
{
	struct ask *a;

	TAILQ_FOREACH(a, &q->asks, next) {
		if (a->wanted && a->answer != NULL)
			break;
	}
	if (a == NULL)
		return late_write(q, msg);
	sshbuf_reset(msg);
	need(sshbuf_putb(msg, a->answer));
	set_id(msg, a->as);
	ask_free(q, a);
	return 1;
}

/* An answer to a question of ours. Returns 1 if the caller does not wait for it. Else msg has the caller's id. */
static int
ask_answered(struct autobuf_ahead *q, struct ask *a, struct sshbuf *msg)
{
	if (a->probes && type_of(msg) == SSH2_FXP_DATA) {
		probe_failed(q, a);
		return 1;
	}
	if (type_of(a->question) == SSH2_FXP_READDIR &&
	    type_of(msg) != SSH2_FXP_NAME)
		q->folder_ended = 1;
	if (a->file != NULL)
		file_step(q, a->file, a, msg);
	if (a->wanted) {
		set_id(msg, a->as);
		ask_free(q, a);
		autobuf_requests_early(1);
		return 0;
	}
	/* Perhaps too many are open. It is asked again once it is wanted */
	if (a->file != NULL && type_of(a->question) == SSH2_FXP_OPEN &&
	    type_of(msg) != SSH2_FXP_HANDLE) {
		if (status_is(msg, SSH2_FX_FAILURE))
			q->most_files = 0;
		ask_free(q, a);
		return 1;
	}
	a->answer = copy(msg);
	q->kept_bytes += sshbuf_len(msg);
	if (q->kept_bytes > MOST_KEPT_BYTES)
		fatal("The server sent more than was asked for");
	if (a->dropped)
		ask_drop(q, a);
	return 1;
}

/* Waits for a reply. Returns 1 if it is not one that the caller waits for. */
static int
is_taken(struct autobuf_ahead *q, struct sshbuf *msg)
{
	struct ask *a;

	q->receive(q->conn, msg, 0);
	if (sshbuf_len(msg) < HEAD_BYTES)
		return 0;
	TAILQ_FOREACH(a, &q->asks, next) {
		if (a->id == id_of(msg) && a->answer == NULL &&
		    a->behind == NULL)
			break;
	}
	if (a != NULL && a->what == NULL)
		return ask_answered(q, a, msg);
	if (a != NULL)
		late_came(q, a, msg);
	else if (type_of(msg) == SSH2_FXP_DATA && q->reads > 0)
		q->reads--;
	return a != NULL;
}

int
autobuf_ahead_reply(struct autobuf_ahead *q, struct sshbuf *msg)
{
	int known = q != NULL && is_known(q, msg);

	autobuf_requests_early(known);
	while (q != NULL && !known && is_taken(q, msg))
		continue;
	return q != NULL;
}

/* Waits for those that are waited for late, but for so many. */
static void
late_replies(struct autobuf_ahead *q, u_int left)
{
	struct sshbuf *msg = new_message();

	while (q->late > left) {
		if (!is_taken(q, msg))
			fatal("Unexpected reply");
	}
	sshbuf_free(msg);
}

int
autobuf_late_status(struct autobuf_ahead *q, u_int id, const char *what,
    int closes)
{
	struct ask *a;

	if (q == NULL || (closes && q->from == NULL))
		return 0;
	a = late(q, id, what, closes);
	if (closes)
		q->last_close = a;
	if (q->kept_back != NULL) {
		a->question = q->kept_back;
		a->behind = q->last_write;
		q->kept_back = NULL;
	}
	if (closes)
		late_replies(q, MOST_LATE);
	return 1;
}

int
autobuf_late_wait(struct autobuf_ahead *q)
{
	int failed;

	if (q == NULL)
		return 0;
	late_replies(q, 0);
	autobuf_late_file(q, NULL, NULL);
	failed = q->failed;
	q->failed = 0;
	return failed ? -1 : 0;
}
