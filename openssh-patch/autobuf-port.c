/* SPDX-License-Identifier: MIT */
/* The port of a client beside the system's OpenSSH. */
#include "includes.h"

#include <sys/types.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xmalloc.h"
#include "ssh.h"
#include "sshkey.h"
#include "log.h"
#include "misc.h"
#include "readconf.h"
#include "sshconnect.h"
#include "autobuf-log.h"
#include "autobuf-port.h"

#ifndef AUTOBUF_PORT
#define AUTOBUF_PORT 0
#endif
#if AUTOBUF_PORT >= 1024
#error "any user of a server can open such a port, and pass for its sshd"
#endif
#define ANSWER_MS 1000 /* of all addresses; RFC 6298: then a SYN is sent again */

extern Options options;
static int chosen;

void
autobuf_port_choose(void)
{
	if (options.port != 0 || (options.proxy_command != NULL &&
	    strcmp(options.proxy_command, "none") != 0))
		return;
	options.port = chosen = AUTOBUF_PORT;
}

static void
set_port(struct addrinfo *addrs)
{
	for (; addrs != NULL; addrs = addrs->ai_next) {
		if (addrs->ai_family == AF_INET)
			((struct sockaddr_in *)addrs->ai_addr)->sin_port =
			    htons(options.port);
		else if (addrs->ai_family == AF_INET6)
			((struct sockaddr_in6 *)addrs->ai_addr)->sin6_port =
			    htons(options.port);
	}
}

/* That nobody answers is no error, and is logged at LogLevel DEBUG only. */
static int
connect_first(struct ssh *ssh, const char *host, const struct addrinfo *addrs,
    struct sockaddr_storage *hostaddr)
{
	LogLevel level = log_level_get();
	int left_ms = ANSWER_MS, connected = 0;

	if (level < SYSLOG_LEVEL_DEBUG1)
		log_change_level(SYSLOG_LEVEL_QUIET);
	for (; addrs != NULL && !connected && left_ms > 0; addrs = addrs->ai_next) {
		struct addrinfo one = *addrs;

		one.ai_next = NULL;
		connected = ssh_connect(ssh, host, options.host_arg, &one,
		    hostaddr, options.port, 1, &left_ms,
		    options.tcp_keep_alive) == 0;
	}
	log_change_level(level);
	return connected;
}

int
autobuf_port_connect(struct ssh *ssh, const char *host, struct addrinfo *addrs,
    struct sockaddr_storage *hostaddr, struct ssh_conn_info *cinfo)
{
	int tried = chosen;

	if (chosen == 0 || addrs == NULL)
		return 0;
	chosen = 0;
	set_port(addrs);
	if (connect_first(ssh, host, addrs, hostaddr))
		return 1;
	options.port = default_ssh_port();
	set_port(addrs);
	free(cinfo->portstr);
	xasprintf(&cinfo->portstr, "%d", options.port);
	autobuf_ssh_log_open();
	autobuf_ssh_log("nobody answers at port %d: port %d", tried,
	    options.port);
	return 0;
}
