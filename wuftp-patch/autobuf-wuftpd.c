/* SPDX-License-Identifier: MIT */
/* Between wu-ftpd and libautobuf. */
#include "config.h"

#include <sys/types.h>
#include <sys/socket.h>

#include <netinet/in.h>

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <unistd.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

#include "autobuf-wuftpd.h"

/* wu-ftpd's. */
extern void reply(int code, char *format, ...);
extern void dologout(int status);
extern int debug;
extern int log_commands;
extern int TCPwindowsize; /* ftpaccess: tcpwindow; 0: not set */
extern off_t restart_point;

#define CONTROL 0         /* descriptors 0 and 1 are one socket */
#define COMMAND_BYTES 600 /* wu-ftpd reads lines of at most 511 */
#define BOTH (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)

static struct autobuf_ftp *session;

static void log_line(void *user, const struct autobuf_event *event)
{
	(void)user;
	syslog(LOG_DEBUG, "autobuf: %s", event->text);
}

void autobuf_wu_open(void)
{
	struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
	int error;

	if (session)
		return;
	if (debug)
		options.log = log_line;
	error = autobuf_ftp_open(&session, AUTOBUF_FTP_SERVER, CONTROL, &options);
	if (error < 0 && debug)
		syslog(LOG_DEBUG, "autobuf: %s", autobuf_strerror(error));
}

static int is_on(void)
{
	return session && TCPwindowsize == 0;
}

/* -------------------------------------------------------------------------------- SITE AUTOBUF */

/* Bytes of the control connection that stdio has read and wu-ftpd has not. */
static size_t unread_bytes(FILE *in)
{
#ifdef __GLIBC__
	return (size_t)(in->_IO_read_end - in->_IO_read_ptr);
#else
	return __freadahead(in); /* musl's */
#endif
}

/* The client did not wait for 350: its bytes are not payload. */
static int is_early_sink(const char *arg)
{
	arg += strspn(arg, " ");
	return strncasecmp(arg, "SINK", 4) == 0 && unread_bytes(stdin) > 0;
}

/* Ends the session, and does not wait for a client that reads nothing. */
static void hang_up(int error)
{
	struct pollfd control = {CONTROL, POLLOUT, 0};

	syslog(LOG_INFO, "SITE AUTOBUF: %s", autobuf_strerror(error));
	if (poll(&control, 1, 0) == 1 && control.revents == POLLOUT)
		reply(421, "SITE AUTOBUF: out of step, closing control connection.");
	dologout(1);
}

static void answer(const char *arg)
{
	char command[COMMAND_BYTES];
	int len = snprintf(command, sizeof command, "SITE AUTOBUF%s%s", *arg ? " " : "", arg);
	unsigned left = alarm(0);
	int result = 0;

	fflush(stdout);
	if (len < (int)sizeof command)
		result = autobuf_ftp_answer(session, command, (size_t)len);
	if (result < 0)
		hang_up(result);
	if (result == 0)
		reply(501, "SITE AUTOBUF: not an argument of it.");
	alarm(left);
}

void autobuf_wu_site(const char *arg)
{
	if (!arg)
		arg = "";
	if (log_commands)
		syslog(LOG_INFO, "SITE AUTOBUF %s", arg);
	if (!is_on())
		reply(502, "SITE AUTOBUF: not here.");
	else if (is_early_sink(arg))
		reply(503, "SITE AUTOBUF SINK: send nothing before reply 350.");
	else
		answer(arg);
}

/* ------------------------------------------------------------------------- the data connection */

static uint32_t direction_of(const char *mode)
{
	return *mode == 'w' ? AUTOBUF_INTENT_SENDS : AUTOBUF_INTENT_RECEIVES;
}

/* What is still to be sent of a file; 0: unknown. */
static uint64_t left_of(off_t bytes)
{
	return bytes > restart_point && restart_point >= 0 ? (uint64_t)(bytes - restart_point) : 0;
}

void autobuf_wu_listen(int fd)
{
	if (is_on())
		autobuf_ftp_data_begin(session, fd, NULL, 0, BOTH, 0);
}

void autobuf_wu_connect(int fd, const struct sockaddr_in *peer, const char *mode, off_t bytes)
{
	if (is_on())
		autobuf_ftp_data_begin(session, fd, (const struct sockaddr *)peer, sizeof *peer,
				       direction_of(mode), left_of(bytes));
}

void autobuf_wu_connected(int fd, const char *mode, off_t bytes)
{
	if (is_on())
		autobuf_ftp_data_connected(session, fd, direction_of(mode), left_of(bytes));
}

static int is_due(void)
{
	uint64_t deadline_ns = autobuf_ftp_data_deadline_ns(session);

	return deadline_ns != AUTOBUF_NS_UNSET && autobuf_now_ns() >= deadline_ns;
}

void autobuf_wu_step(void)
{
	sigset_t all, before;

	if (!is_on() || !is_due())
		return;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	autobuf_ftp_data_step(session);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

void autobuf_wu_end(void)
{
	if (session)
		autobuf_ftp_data_end(session);
}
