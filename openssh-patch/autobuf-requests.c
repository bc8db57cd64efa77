/* SPDX-License-Identifier: MIT */
/* Between scp and sftp, and libautobuf. */
#include "includes.h"

#include <sys/types.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <autobuf/autobuf.h>

#include "autobuf-log.h"
#include "autobuf-requests.h"
#include "misc.h"
#include "sftp.h"
#include "sshbuf.h"

#define FIRST_BYTES (2 * 1024 * 1024) /* a channel's window, at first */
#define MOST_BYTES (64 * 1024 * 1024)
#define MOST_REQUESTS 2048 /* with the 32 KB that most servers take: MOST_BYTES */

static int option_is_no, option_is_set;

/* A word, perhaps in quotes, and nothing behind it. */
static int
says(const char *text, const char *word)
{
	size_t len = strlen(word), quotes = *text == '"';

	return strncasecmp(text + quotes, word, len) == 0 &&
	    strspn(text + quotes + len, quotes ? "\" \t" : " \t") == strlen(text + quotes + len);
}

void
autobuf_requests_option(const char *text)
{
	static const char name[] = "autobuffer";

	text += strspn(text, " \t");
	if (strncasecmp(text, name, sizeof name - 1) != 0)
		return;
	text += sizeof name - 1;
	if (*text == '\0' || strchr(" \t=", *text) == NULL) /* another option */
		return;
	text += strspn(text, " \t=");
	if (!option_is_set) /* as ssh takes it: the first one counts */
		option_is_no = says(text, "no") || says(text, "false");
	option_is_set = 1;
}

int
autobuf_requests_off(void)
{
	return autobuf_is_off() || option_is_no;
}

struct autobuf_requests {
	struct autobuf_requests *next;
	struct autobuf_rightsize *rightsize;
	uint64_t asked_ns;
	int fd;
	u_int fewest;
};

/* The reply that was got last is one to a request that was sent early. */
static int early;

/* Of all connections. One that ends does not tell us: releases of OpenSSH free it in different places. */
static struct autobuf_requests *all;

static void
log_requests(void *user, const struct autobuf_event *event)
{
	autobuf_ssh_log("outstanding requests: %s", event->text);
}

/* A new connection has this descriptor, so the one that had it before has ended. */
static void
forget(int fd)
{
	struct autobuf_requests **link = &all, *q;

	while ((q = *link) != NULL && q->fd != fd)
		link = &q->next;
	if (q == NULL)
		return;
	*link = q->next;
	autobuf_rightsize_close(q->rightsize);
	free(q);
}

struct autobuf_requests *
autobuf_requests_open(int fd, u_int requests, u_int bytes)
{
	struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
	struct autobuf_requests *q;

	forget(fd);
	if (autobuf_requests_off() || (q = calloc(1, sizeof *q)) == NULL)
		return NULL;
	autobuf_ssh_log_open();
	q->fd = fd;
	q->fewest = requests;
	options.window_bytes = (uint64_t)requests * bytes;
	options.cap_bytes = MAXIMUM(options.window_bytes, MOST_BYTES);
	options.log = log_requests;
	if (autobuf_rightsize_open(&q->rightsize, &options) < 0) {
		free(q);
		return NULL;
	}
	q->next = all;
	all = q;
	return q;
}

u_int
autobuf_requests_first(const struct autobuf_requests *q, uint64_t offset,
    uint64_t size, u_int request_bytes)
{
	uint64_t wanted, first;

	if (q == NULL || size <= offset)
		return 1;
	wanted = (size - offset - 1) / request_bytes + 2; /* and its end */
	first = MINIMUM(MAXIMUM(FIRST_BYTES / request_bytes, 1), q->fewest);
	return (u_int)MINIMUM(wanted, first);
}

uint64_t
autobuf_requests_end(const struct autobuf_requests *q, uint64_t offset,
    uint64_t size, size_t *bytes)
{
	if (q != NULL && size > offset && size - offset < *bytes)
		*bytes = size - offset;
	return offset + *bytes;
}

void
autobuf_requests_status(u_int *status, u_char type, struct sshbuf *msg)
{
	uint32_t code;

	if (type != SSH2_FXP_STATUS || sshbuf_peek_u32(msg, 0, &code) != 0)
		return;
	if (code != SSH2_FX_EOF)
		*status = code;
	else if (*status != SSH2_FX_OK)
		POKE_U32(sshbuf_mutable_ptr(msg), *status);
}

void
autobuf_requests_early(int is_early)
{
	early = is_early;
}

void
autobuf_requests_asked(struct autobuf_requests *q)
{
	if (q != NULL)
		q->asked_ns = autobuf_now_ns();
}

void
autobuf_requests_answered(struct autobuf_requests *q)
{
	if (q != NULL && !early)
		autobuf_rightsize_rtt(q->rightsize, autobuf_now_ns() - q->asked_ns);
}

void
autobuf_requests_done(struct autobuf_requests *q, uint64_t *sent_ns,
    size_t bytes, u_int request_bytes, u_int *requests)
{
	uint64_t now = autobuf_now_ns(), window;

	if (q == NULL || early)
		return;
	autobuf_rightsize_rtt(q->rightsize, now - *sent_ns);
	*sent_ns = now;
	window = autobuf_rightsize_consumed(q->rightsize, now, bytes);
	*requests = (u_int)MAXIMUM(MINIMUM(window / request_bytes, MOST_REQUESTS),
	    q->fewest);
}
