/* SPDX-License-Identifier: MIT */
/* site.h where libhiredis is missing. */
#include "site.h"

#include <errno.h>

int site_open(struct site **site, const struct config *config, struct keep *keep)
{
    (void)keep;
    *site = NULL;
    return config->site.address_bytes ? -ENOTSUP : 0;
}

size_t site_poll(const struct site *site, struct pollfd *fds, uint64_t now_ns)
{
    (void)site;
    (void)fds;
    (void)now_ns;
    return 0;
}

uint64_t site_deadline_ns(const struct site *site, uint64_t now_ns)
{
    (void)site;
    (void)now_ns;
    return UINT64_MAX;
}

void site_step(struct site *site, uint64_t now_ns)
{
    (void)site;
    (void)now_ns;
}

void site_close(struct site *site)
{
    (void)site;
}
