/* SPDX-License-Identifier: MIT */
#include "fake_ssh2.h"

#include "../../../preload/ssh2.h"

uint64_t fake_now_ns = 1, fake_rtt_ns = 100000000, fake_bdp_bytes = 1 << 20;
struct fake_file *fake_next_file;
void *fake_abstract;

FAKE_EXPORT void **libssh2_session_abstract(void *session);

int libssh2_session_handshake(void *session, int fd)
{
    return session ? 0 : fd;
}

int libssh2_session_startup(void *session, int fd)
{
    return libssh2_session_handshake(session, fd);
}

int libssh2_session_free(void *session)
{
    (void)session;
    return 0;
}

void *libssh2_sftp_init(void *session)
{
    return session;
}

int libssh2_sftp_shutdown(void *sftp)
{
    (void)sftp;
    return 0;
}

void *libssh2_sftp_open_ex(void *sftp, const char *path, unsigned length, unsigned long flags, long mode, int type)
{
    (void)sftp, (void)path, (void)length, (void)flags, (void)mode, (void)type;
    return fake_next_file;
}

void *libssh2_sftp_open_ex_r(void *sftp, const char *path, size_t length, unsigned long flags, long mode, int type,
                             void *attributes)
{
    (void)attributes;
    return libssh2_sftp_open_ex(sftp, path, (unsigned)length, flags, mode, type);
}

int libssh2_sftp_close_handle(void *handle)
{
    ((struct fake_file *)handle)->closed++;
    return 0;
}

/* As fast as libssh2 is, which has four buffers in flight. */
static void pass_time(size_t got, size_t asked)
{
    uint64_t window = 4 * asked < fake_bdp_bytes ? 4 * asked : fake_bdp_bytes;

    __atomic_add_fetch(&fake_now_ns, got * fake_rtt_ns / window, __ATOMIC_RELAXED);
}

ssize_t libssh2_sftp_read(void *handle, char *data, size_t bytes)
{
    struct fake_file *file = handle;
    uint64_t left = file->size_bytes - file->at_bytes, got = bytes;
    int error = file->error;

    file->calls++;
    file->asked_bytes = bytes;
    file->asked_most_bytes = bytes > file->asked_most_bytes ? bytes : file->asked_most_bytes;
    file->error = 0;
    if (error)
        return error;
    if (file->bad_at && file->at_bytes + bytes > file->bad_at) {
        file->at_bytes = file->bad_at;
        return -31;
    }
    if (file->ends_above && bytes > file->ends_above)
        return 0;
    got = file->most_bytes && file->most_bytes < got ? file->most_bytes : got;
    got = left < got ? left : got;
    for (uint64_t i = 0; i < got; i++)
        data[i] = (char)fake_byte(file->at_bytes + i);
    file->at_bytes += got;
    if (got)
        pass_time(got, bytes);
    return (ssize_t)got;
}

void libssh2_sftp_seek64(void *handle, uint64_t offset)
{
    ((struct fake_file *)handle)->at_bytes = offset;
}

void libssh2_sftp_seek(void *handle, size_t offset)
{
    libssh2_sftp_seek64(handle, offset);
}

uint64_t libssh2_sftp_tell64(void *handle)
{
    return ((struct fake_file *)handle)->at_bytes;
}

size_t libssh2_sftp_tell(void *handle)
{
    return (size_t)libssh2_sftp_tell64(handle);
}

void **libssh2_session_abstract(void *session)
{
    (void)session;
    return &fake_abstract;
}
