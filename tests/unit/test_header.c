/* SPDX-License-Identifier: MIT */
/*
 * The public headers alone, in the order that HEADER_ORDER says: built as C99, C11 and C++11 with
 * all warnings as errors, -Wpadded among them, and linked to the shared library.
 */
#ifdef HEADER_TOPIC /* one topic first, which brings what it needs itself */
#include HEADER_TOPIC
#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>
#elif HEADER_ORDER == 0
#include <autobuf/autobuf.h>
#include <autobuf/autobuf.h>
#elif HEADER_ORDER == 1
#include <autobuf/bwdelay.h>
#include <autobuf/bwdelay.h>
#elif HEADER_ORDER == 2
#include <autobuf/bwdelay.h>
#include <autobuf/autobuf.h>
#include <autobuf/bwdelay.h>
#else
#include <autobuf/autobuf.h>
#include <autobuf/bwdelay.h>
#include <autobuf/autobuf.h>
#endif

/* Before any other header: what the public ones need they bring themselves. */
typedef int64_t first_call(const char *host);
typedef int64_t second_call(const struct sockaddr *addr, socklen_t addr_len);
typedef int third_call(int fd, int64_t bytes);

/* volatile: the linker has to find them. */
static first_call *volatile call1 = bwdelay;
static second_call *volatile call2 = bwdelay_addr;
static third_call *volatile call3 = bwdelay_apply;

#include <errno.h>
#include <stdio.h>

#ifdef AUTOBUF_AUTOBUF_H
#include <stddef.h>
#include <string.h>

/* A struct as its macro sets it up: its size first and right, all else 0. */
#define CHECK_INIT(type, init)                                                                     \
    do {                                                                                           \
        struct type fresh = init, zeroed;                                                          \
        memset(&zeroed, 0, sizeof zeroed);                                                         \
        zeroed.size = sizeof zeroed;                                                               \
        if (memcmp(&fresh, &zeroed, sizeof fresh) != 0 || offsetof(struct type, size) != 0) {      \
            fprintf(stderr, "%s: size\n", #type);                                                  \
            failed++;                                                                              \
        }                                                                                          \
    } while (0)

static int check_structs(void)
{
    int failed = 0;

    CHECK_INIT(autobuf_available, AUTOBUF_AVAILABLE_INIT);
    CHECK_INIT(autobuf_path, AUTOBUF_PATH_INIT);
    CHECK_INIT(autobuf_probe_options, AUTOBUF_PROBE_OPTIONS_INIT);
    CHECK_INIT(autobuf_probe_progress, AUTOBUF_PROBE_PROGRESS_INIT);
    CHECK_INIT(autobuf_limits, AUTOBUF_LIMITS_INIT);
    CHECK_INIT(autobuf_socket, AUTOBUF_SOCKET_INIT);
    CHECK_INIT(autobuf_plan, AUTOBUF_PLAN_INIT);
    CHECK_INIT(autobuf_inband_options, AUTOBUF_INBAND_OPTIONS_INIT);
    CHECK_INIT(autobuf_inband_facts, AUTOBUF_INBAND_FACTS_INIT);
    CHECK_INIT(autobuf_live_state, AUTOBUF_LIVE_STATE_INIT);
    CHECK_INIT(autobuf_rightsize_options, AUTOBUF_RIGHTSIZE_OPTIONS_INIT);
    CHECK_INIT(autobuf_rightsize_state, AUTOBUF_RIGHTSIZE_STATE_INIT);
    CHECK_INIT(autobuf_options, AUTOBUF_OPTIONS_INIT);
    CHECK_INIT(autobuf_applied, AUTOBUF_APPLIED_INIT);
    CHECK_INIT(autobuf_settings, AUTOBUF_SETTINGS_INIT);
    CHECK_INIT(autobuf_paths_query, AUTOBUF_PATHS_QUERY_INIT);
    return failed;
}

static int check_calls(void)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    char expected[64];
    int failed = autobuf_path_given(&path, 800000000, 100000000) != 0;

    sprintf(expected, "%d.%d.%d", AUTOBUF_VERSION_MAJOR, AUTOBUF_VERSION_MINOR,
            AUTOBUF_VERSION_PATCH);
    for (int i = 0; expected[i] || autobuf_version()[i]; i++) {
        if (expected[i] != autobuf_version()[i]) {
            fprintf(stderr, "version %s, not %s\n", autobuf_version(), expected);
            return failed + 1;
        }
    }
    return failed;
}
#else
static int check_structs(void)
{
    return 0;
}

static int check_calls(void)
{
    return 0;
}
#endif

int main(void)
{
    int failed = check_structs() + check_calls();

    if (!call1 || !call2 || call3(-1, 0) != -EINVAL || call3(-1, 1) != -EBADF) {
        fprintf(stderr, "bwdelay_apply: not the documented errors\n");
        failed++;
    }
    return failed != 0;
}
