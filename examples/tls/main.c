/* SPDX-License-Identifier: MIT */
/*
 * A small line protocol over TLS, and the exchange in band on the same connection:
 *
 *     tlsline serve &
 *     tlsline measure localhost
 *
 * The protocol: "ECHO text" is answered by the same, "QUIT" by "BYE"; a line that begins with
 * "AUTOBUF " begins an exchange.
 *
 *   link.c      TLS, whose ciphertext this program carries: times of arrival, trains
 *   exchange.c  the exchange over a link
 *   context.c   certificate and ciphers
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <autobuf/autobuf.h>

#include "tlsline.h"

#define PORT "7412"

static const char usage_text[] = "usage: tlsline serve [--bind ADDRESS] [--port N]\n"
                                 "       tlsline measure HOST [PORT]\n";

/* 0, or an error; 2: wrong usage. */
static int run_serve(int argc, char **argv)
{
    static const struct option known[] = {
        {"bind", required_argument, NULL, 'b'}, {"port", required_argument, NULL, 'p'}, {0}};
    const char *address = NULL, *port = PORT;
    int letter;

    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (letter == 'b')
            address = optarg;
        else if (letter == 'p')
            port = optarg;
        else
            return 2;
    }
    return optind == argc ? serve(address, port) : 2;
}

int main(int argc, char **argv)
{
    int result = 2;

    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        result = run_serve(argc - 1, argv + 1);
    else if ((argc == 3 || argc == 4) && strcmp(argv[1], "measure") == 0)
        result = measure(argv[2], argc == 4 ? argv[3] : PORT);
    if (result == 2)
        fputs(usage_text, stderr);
    if (result < 0)
        fprintf(stderr, "tlsline: %s\n", autobuf_strerror(result));
    return result < 0 ? 1 : result;
}
