/* SPDX-License-Identifier: MIT */
/* tools/daemon/wad.c: rules of WAD as rules of autobufd. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/wad.h"

static void wrong(void *user, unsigned line, const char *text)
{
    size_t used = strlen(user);

    snprintf((char *)user + used, 1024 - used, "%u: %s\n", line, text);
}

/* What is written and said of it; free() what is written. */
static int convert(const char *text, char **written, char said[1024])
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r"), *out;
    size_t bytes = 0;
    int error;

    *written = NULL;
    said[0] = '\0';
    out = open_memstream(written, &bytes);
    error = wad_convert(in, out, wrong, said);
    fclose(in);
    fclose(out);
    return error;
}

static void what_becomes_of_a_section(void **state)
{
    static const struct {
        const char *name, *in, *out;
    } rows[] = {
        {"that of WAD's own page",
         "[net100.lbl.gov]\nsrc_addr: 0.0.0.0\nsrc_port: 0\ndst_addr: 131.243.2.93\ndst_port: 0\nmode: 1\nsndbuf: 4000000\n"
         "rcvbuf: 4052159\nwadai: 6\nwadmd: .3\nmaxssth: 100\ndivide: 0\nfloyd: 1\n",
         "[net100.lbl.gov]\nremote=131.243.2.93\nmode=fixed\nsndbuf=4000000\nrcvbuf=4052159\ncc=highspeed\n"
         "# floyd 1: HighSpeed TCP (RFC 3649), module tcp_highspeed\n"
         "# wadai 6: Linux has no additive increase for one socket; cc= names a congestion control that grows faster\n"
         "# wadmd .3: Linux has no multiplicative decrease for one socket; cc= names a congestion control that falls less\n"
         "# maxssth 100: limited slow start is no longer in Linux; cubic leaves slow start before it loses (HyStart)\n"},
        {"ports, and the other end", "[a]\nsrc_addr: 192.0.2.1\nsrc_port: 2811\ndst_addr: 2001:db8::1\ndst_port: 5001\nmode: 2\n",
         "[a]\nlocal=192.0.2.1\nlocal_port=2811\nremote=2001:db8::1\nremote_port=5001\nmode=path\n"},
        {"only what a program has not set", "[a]\nmode: 0\nsndbuf: 64000\nrcvbuf: 65000\n",
         "[a]\nmode=auto\n# sndbuf 64000: the kernel tunes now; what limits is enlarged as far as it pays\n"
         "# rcvbuf 65000: the same\n"},
        {"one size", "[a]\nmode: 1\nrcvbuf: 1000000\nsndbuf: 0\n", "[a]\nmode=fixed\nrcvbuf=1000000\n"},
        {"nothing to set", "[a]\nmode: 1\n", "[a]\nmode=auto\n"},
        {"a total for all", "[a]\ndivide: 1\nmode: 1\nsndbuf: 4000000\nrcvbuf: 4000000\n", "[a]\nmode=auto\ndivide=4000000\n"},
        {"one for each direction", "[a]\ndivide: 1\nmode: 2\nsndbuf: 4000000\nrcvbuf: 4052159\n",
         "[a]\nmode=auto\ndivide=4000000\n# rcvbuf 4052159: one total for what is sent and for what is received\n"},
        {"one direction's", "[a]\nrcvbuf: 5000\ndivide: 1\n", "[a]\nmode=auto\ndivide=5000\n"},
        {"a total of nothing", "[a]\ndivide: 1\n[b]\nfloyd: 2\n", "[a]\nmode=auto\n# divide 1: there is no size to share\n\n"
         "[b]\nmode=auto\ncc=highspeed\n# floyd 2: HighSpeed TCP (RFC 3649), module tcp_highspeed\n"},
        {"no section", "# nothing\n", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *written, said[1024];

        CHECK_EQUAL(rows[i].name, convert(rows[i].in, &written, said), 0);
        CHECK(rows[i].name, said[0] == '\0');
        if (strcmp(written, rows[i].out) != 0)
            fail_msg("%s: %s", rows[i].name, written);
        free(written);
    }
}

static void what_is_wrong_is_said_and_nothing_is_written(void **state)
{
    static const struct {
        const char *in, *said;
    } rows[] = {
        {"mode: 1\n", "1: mode: belongs into a section\n"},
        {"[a]\nbuffer: 1\n", "2: buffer: WAD has no such setting\n"},
        {"[a]\nmode: 3\n", "2: mode: 3: it takes 0, 1 or 2\n"},
        {"[a]\n\nsrc_addr: host\n[b]\n", "3: src_addr: host: it takes an address\n"},
        {"[a]\ndst_port: 65536\n", "2: dst_port: 65536: it takes a port\n"},
        {"[a]\nsndbuf: -1\nrcvbuf: 2000000000\n",
         "2: sndbuf: -1: it takes bytes, at most 1073741823\n3: rcvbuf: 2000000000: it takes bytes, at most 1073741823\n"},
        {"[a]\ndivide: 2\n", "2: divide: 2: it takes 0 or 1\n"},
        {"[a]\nfloyd: x\n", "2: floyd: x: it takes 0, 1 or 2\n"},
        {"[a]\nwadai: 6 x\n", "2: wadai: a value is a word of at most 63 characters\n"},
        {"[a]\nnonsense\n", "2: this is neither [name] nor name=value\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *written, said[1024];

        CHECK_EQUAL(rows[i].in, convert(rows[i].in, &written, said), -EINVAL);
        if (strcmp(said, rows[i].said) != 0)
            fail_msg("%s: said %s", rows[i].in, said);
        assert_string_equal(written, "");
        free(written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_becomes_of_a_section),
        cmocka_unit_test(what_is_wrong_is_said_and_nothing_is_written),
    };

    return cmocka_run_group_tests_name("wad", tests, NULL, NULL);
}
