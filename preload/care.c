/* SPDX-License-Identifier: MIT */
#include "care.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include <autobuf/autobuf.h>

#include "descriptors.h"
#include "next.h"
#include "report.h"
#include "self.h"
#include "tend.h"

void care_moved(int fd, uint64_t bytes, bool sent)
{
    struct place *place = descriptor_tcp(fd);

    if (place && place_counts(place, bytes, sent))
        tend_reached(fd, place);
}

void care_ending(int fd)
{
    struct place *place = self_settings.report ? descriptor_tcp(fd) : NULL;

    care_waits();
    if (place)
        tend_ending(fd, place);
}

bool care_wants_parts(int fd)
{
    struct place *place;
    int error = errno, flags;

    place = descriptor_tcp(fd);
    if (!place || atomic_load_explicit(&place->mark_bytes, memory_order_relaxed) == UINT64_MAX)
        return false;
    flags = NEXT(fcntl)(fd, F_GETFL);
    errno = error;
    return flags >= 0 && !(flags & O_NONBLOCK);
}

static void forked(void)
{
    self_forked();
    run_report_forget();
    tend_forked();
}

void care_begin(const struct run_settings *settings)
{
    self_begin(settings);
    if (settings->report)
        run_report_begin();
    if (!autobuf_is_off() && pthread_atfork(NULL, NULL, forked) == 0)
        atomic_store(&self_on, true);
}

void care_end(void)
{
    struct stay stay;

    /* First whether there is anything to end: a filter of system calls may be there already. */
    if (!self_acts() || !self_is_owner() || !self_enter(&stay))
        return;
    tend_end();
    if (self_settings.report)
        run_report_write();
    atomic_store(&self_on, false);
    self_leave(&stay);
}
