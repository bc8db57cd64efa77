/* SPDX-License-Identifier: MIT */
#include <stdarg.h>

#include "../../../preload/ssh2.h"
#include "fake_ssh2.h"

struct version {
    int age;
    const char *text;
    unsigned number;
};

void *fake_curl_handle;
long fake_curl_upload_bytes;
unsigned fake_curl_version = 0x075801;

FAKE_EXPORT int curl_easy_setopt(void *handle, int option, ...);
FAKE_EXPORT const struct version *curl_version_info(int now);

int curl_easy_setopt(void *handle, int option, ...)
{
    va_list list;

    va_start(list, option);
    fake_curl_handle = handle;
    fake_curl_upload_bytes = option == 280 ? va_arg(list, long) : -1;
    va_end(list);
    return 0;
}

const struct version *curl_version_info(int now)
{
    static struct version version;

    version = (struct version){now, "", fake_curl_version};
    return &version;
}

void *fake_curl_open(void *sftp, unsigned long flags)
{
    void *handle = libssh2_sftp_open_ex(sftp, "file", 4, flags, 0600, 0);

    __asm__ volatile("" ::: "memory"); /* no tail call: the caller is to be this library */
    return handle;
}
