/* SPDX-License-Identifier: MIT */
#include "privilege.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/paths/store.h"

#define NOBODY_ID 65534

/* capget() or capset() of this process. The C library has neither. */
static int capabilities(long call, struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(call, &header, words) < 0 ? -errno : 0;
}

uint64_t privilege_held(void)
{
    struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return capabilities(SYS_capget, words) < 0 ? 0 : (uint64_t)words[1].permitted << 32 | words[0].permitted;
}

int privilege_keep(uint64_t kept)
{
    struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3] = {{0}};

    kept &= privilege_held();
    words[0].permitted = words[0].effective = (uint32_t)kept;
    words[1].permitted = words[1].effective = (uint32_t)(kept >> 32);
    return capabilities(SYS_capset, words);
}

/* The environment of a privileged program is not heeded. Afterwards it is its user's own. */
static void heed_environment(void)
{
    if (!getauxval(AT_SECURE))
        return;
    ab_environment_read(getenv("AUTOBUF"));
    ab_store_environment(getenv("AUTOBUF_PATHS"), getenv("XDG_CACHE_HOME"), getenv("HOME"));
}

int drop_privileges(void)
{
    uid_t uid = getuid();
    gid_t gid = getgid();
    int error;

    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    error = privilege_keep(0);
    if (error == 0)
        heed_environment();
    return error;
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
