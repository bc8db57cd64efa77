/*
 * A pair of anonymous network namespaces, each with a TUN device `path0`. They live as long as the
 * descriptors of this process, or a process inside, hold them: nothing is left to be removed.
 */
#ifndef EMU_NETNS_H
#define EMU_NETNS_H

#include <stddef.h>

struct emu_netns {
    int ns_fd;  /* for others to enter, through /proc */
    int tun_fd; /* non-blocking; whole IP packets, no header */
};

/*
 * Make sides a (10.77.0.1/24, fd77::1/64) and b (10.77.0.2/24, fd77::2/64), both up. The calling
 * process ends up in b's namespace; without privilege, in a user namespace of its own as well.
 * Returns 0, or -1 with one line in err.
 */
int emu_netns_pair(struct emu_netns side[2], int mtu, char *err, size_t err_size);

#endif
