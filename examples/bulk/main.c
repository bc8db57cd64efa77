/* SPDX-License-Identifier: MIT */
/*
 * A bulk transfer over TCP, to see what tuning is worth:
 *
 *     bulk recv &
 *     bulk send --tune none HOST
 *     bulk send --tune autobuf HOST
 */
#include <stdio.h>
#include <string.h>

#include "stream.h"

static const char usage_text[] =
    "usage: bulk recv [--bind ADDRESS] [--port N]\n"
    "       bulk send [--tune none|naive:BYTES|autobuf|live] [--intent throughput|low-delay|scavenger]\n"
    "                 [--seconds S | --bytes N] [--streams K] [--cc NAME]\n"
    "                 [--reverse] [--rate BITS] [--port N] [--json] HOST\n";

int main(int argc, char **argv)
{
    int status = 2;

    if (argc > 1 && strcmp(argv[1], "send") == 0)
        status = run_send(argc - 1, argv + 1);
    else if (argc > 1 && strcmp(argv[1], "recv") == 0)
        status = run_recv(argc - 1, argv + 1);
    if (status == 2)
        fputs(usage_text, stderr);
    return status;
}
