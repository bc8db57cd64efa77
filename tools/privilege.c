/* SPDX-License-Identifier: MIT */
#include "privilege.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifdef AB_HAVE_LIBCAP
#include <sys/capability.h>
#endif

#define NOBODY_ID 65534

int drop_privileges(void)
{
    uid_t uid = getuid();
    gid_t gid = getgid();

    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
#ifdef AB_HAVE_LIBCAP
    cap_t none = cap_init();
    int result = none ? cap_set_proc(none) : -1;

    if (none)
        cap_free(none);
    if (result < 0)
        return -EPERM;
#endif
    return 0;
}

int become_nobody(void)
{
    const struct passwd *nobody = getuid() == 0 ? getpwnam("nobody") : NULL;
    uid_t uid = nobody ? nobody->pw_uid : NOBODY_ID;
    gid_t gid = nobody ? nobody->pw_gid : NOBODY_ID;
    int death_signal = 0, result;

    prctl(PR_GET_PDEATHSIG, &death_signal);
    if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
                          setresuid(uid, uid, uid) < 0))
        return -errno;
    result = drop_privileges();
    prctl(PR_SET_PDEATHSIG, death_signal); /* another user's id makes the kernel forget it */
    return result;
}
