/* SPDX-License-Identifier: MIT */
/* A program that uses the library without being part of the project. Exits 0 if it works. */
#include <autobuf/autobuf.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    char version[32], text[512];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    snprintf(version, sizeof version, "%d.%d.%d", AUTOBUF_VERSION_MAJOR, AUTOBUF_VERSION_MINOR,
             AUTOBUF_VERSION_PATCH);
    if (strcmp(version, autobuf_version()) != 0)
        return 1;
    if (autobuf_path_given(&path, 400000000, 100000000) != 0 || path.tx_bdp_bytes != 5000000)
        return 2;
    if (autobuf_limits_host(&limits) != 0 || autobuf_socket_state(fd, &state) != 0)
        return 3;
    if (autobuf_plan_make(&path, &limits, &state, AUTOBUF_INTENT_THROUGHPUT, 0, &plan) != 0)
        return 4;
    if (autobuf_plan_explain(&plan, text, sizeof text) <= 0 || autobuf_apply(fd, &plan) < 0)
        return 5;
    if (bwdelay_apply(fd, 5000000) < 0)
        return 6;
    printf("%s\n%s", version, text);
    return 0;
}
