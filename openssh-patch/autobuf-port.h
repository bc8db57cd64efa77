/* SPDX-License-Identifier: MIT */
/* The port of a client beside the system's OpenSSH: AUTOBUF_PORT, and where nobody answers there, ssh's. */
#ifndef AUTOBUF_PORT_H
#define AUTOBUF_PORT_H

struct addrinfo;
struct sockaddr_storage;
struct ssh;
struct ssh_conn_info;

/* Chooses AUTOBUF_PORT, if this program was built with it, nobody has chosen a port and no proxy is used. */
void autobuf_port_choose(void);

/*
 * Connects to the chosen port. Returns whether it has; if not, the port is ssh's from here on, also in the addresses
 * and in tokens that are put in later (not those of ControlPath). Without a chosen port it does nothing.
 */
int autobuf_port_connect(struct ssh *ssh, const char *host, struct addrinfo *addrs,
    struct sockaddr_storage *hostaddr, struct ssh_conn_info *cinfo);

#endif
