/* SPDX-License-Identifier: MIT */
/* What sshd calls. */
#include "includes.h"

#include <sys/types.h>

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "autobuf-host.h"
#include "autobuf-log.h"
#include "autobuf-settings.h"
#include "log.h"
#include "packet.h"
#include "pathnames.h"

#define SETTINGS_FILE SSHDIR "/autobuf.conf"
#define HOST_FILE _PATH_SSH_PIDDIR "/autobuf-windows.lock"

extern struct ssh *the_active_state; /* of sshd, or sshd-session */

static struct autobuf_host *
open_host(uint64_t bytes)
{
	struct autobuf_host *host = NULL;
	int r;

	if ((r = autobuf_host_open(&host, HOST_FILE, bytes)) < 0)
		logit("autobuf: windows do not grow, because %s cannot be used: %s",
		    HOST_FILE, strerror(-r));
	return host;
}

void
autobuf_sshd_open(struct passwd *pw)
{
	static int called;
	struct ssh *ssh = the_active_state;
	struct autobuf_sshd_config settings;
	struct autobuf_host *host;
	uid_t euid = geteuid();

	if (called)
		return;
	called = 1;
	autobuf_ssh_log_open();
	if (autobuf_is_off())
		return;
	autobuf_sshd_read(&settings, SETTINGS_FILE);
	if (!settings.on)
		return;
	autobuf_ssh_log("settings: AutoBufferMax %lld, AutoBufferHost %llu",
	    (long long)settings.most_bytes,
	    (unsigned long long)settings.host_bytes);
	host = open_host(settings.host_bytes);
	if (pw != NULL) {
		autobuf_ssh_force(ssh, settings.most_bytes);
		/* Only capabilities matter, so no groups are looked up. */
		if (seteuid(pw->pw_uid) < 0) {
			autobuf_host_close(host);
			return;
		}
	}
	autobuf_ssh_open(ssh, 1, settings.most_bytes);
	if (pw != NULL && seteuid(euid) < 0)
		fatal("autobuf: seteuid: %s", strerror(errno));
	autobuf_ssh_bound(ssh, host);
}
