/* SPDX-License-Identifier: MIT */
/* What ssh, scp, sftp and sshd say of windows and buffers. */
#include "includes.h"

#include <sys/types.h>

#include <stdarg.h>
#include <stdio.h>

#include <autobuf/autobuf.h>

#include "autobuf-log.h"
#include "log.h"

#define LINE_BYTES 320

static int wanted; /* AUTOBUF=log */

void
autobuf_ssh_log_open(void)
{
	wanted = autobuf_log_own();
}

void
autobuf_ssh_log(const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (wanted)
		logit("autobuf: %s", line);
	else
		debug("autobuf: %s", line);
}
