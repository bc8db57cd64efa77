/* SPDX-License-Identifier: MIT */
#include "privilege.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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

/* A signal for the parent's death holds on: another user's id makes the kernel forget it. */
static int become(uid_t uid, gid_t gid)
{
    int death_signal = 0, result;

    prctl(PR_GET_PDEATHSIG, &death_signal);
    if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
                          setresuid(uid, uid, uid) < 0))
        return -errno;
    result = drop_privileges();
    prctl(PR_SET_PDEATHSIG, death_signal);
    return result;
}

int become_nobody(void)
{
    const struct passwd *nobody = getuid() == 0 ? getpwnam("nobody") : NULL;

    return become(nobody ? nobody->pw_uid : NOBODY_ID, nobody ? nobody->pw_gid : NOBODY_ID);
}

int become_owner(const char *folder)
{
    struct stat found;

    if (lstat(folder, &found) < 0)
        return -errno;
    return getuid() || !found.st_uid ? 0 : become(found.st_uid, found.st_gid);
}
