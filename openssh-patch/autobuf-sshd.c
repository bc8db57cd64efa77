/* SPDX-License-Identifier: MIT */
/* What sshd calls. */
#include "includes.h"

#include <sys/types.h>

#include <stdarg.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "autobuf-host.h"
#include "autobuf-log.h"
#include "autobuf-settings.h"
#include "autobuf-ssh.h"
#include "log.h"
#include "packet.h"
#include "pathnames.h"

#define SETTINGS_FILE SSHDIR "/autobuf.conf"
#define HOST_FILE _PATH_SSH_PIDDIR "/autobuf-windows.lock"

static struct autobuf_sshd_config settings;
static int settings_are_known, host_is_known;
static struct autobuf_host *host;

void
autobuf_sshd_settings(void)
{
	if (settings_are_known)
		return;
	settings_are_known = 1;
	autobuf_ssh_log_open();
	if (!autobuf_is_off())
		autobuf_sshd_read(&settings, SETTINGS_FILE);
	if (settings.on)
		autobuf_ssh_log("settings: AutoBufferMax %lld, AutoBufferHost %llu",
		    (long long)settings.most_bytes,
		    (unsigned long long)settings.host_bytes);
}

void
autobuf_sshd_host(void)
{
	int r;

	autobuf_sshd_settings();
	if (host_is_known)
		return;
	host_is_known = 1;
	if (settings.on &&
	    (r = autobuf_host_open(&host, HOST_FILE, settings.host_bytes)) < 0)
		logit("autobuf: windows do not grow, because %s cannot be used: %s",
		    HOST_FILE, strerror(-r));
}

void
autobuf_sshd_open(struct ssh *ssh)
{
	if (ssh->autobuf != NULL)
		return;
	autobuf_sshd_host();
	autobuf_ssh_open(ssh, settings.on, settings.most_bytes);
	autobuf_ssh_bound(ssh, host);
}

void
autobuf_sshd_force(struct ssh *ssh)
{
	autobuf_sshd_settings();
	autobuf_ssh_force(ssh, settings.on, settings.most_bytes);
}
