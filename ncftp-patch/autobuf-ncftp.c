/* SPDX-License-Identifier: MIT */
/* Between LibNcFTP and libautobuf. */
#include "syshdrs.h"

#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include <linux/sockios.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

#include "autobuf-ncftp.h"

#define UNSENT_BYTES 65536 /* at 250 Mbit/s they last for UNSENT_MS */
#define UNSENT_MS 2
#define WAIT_NS 1000000000ULL
#define BOTH (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)

/* The commands that a server has for buffer sizes, besides SITE AUTOBUF. */
enum { kNoSizes, kSBUF, kSITE_SBUF, kSITE_BUFSIZE };

static const char *const size_commands[] = {NULL, "SBUF %lu", "SITE SBUF %lu", "SITE BUFSIZE %lu"};

struct autobuf_ncftp {
    struct autobuf_ftp *session; /* NULL: AUTOBUF=off, or it could not be opened */
    int is_off;                  /* AUTOBUF=off: NcFTP does as upstream's */
    uint32_t direction;
    uint64_t expected_bytes; /* of the next data connection; 0: unknown */
};

static void log_line(void *user, const struct autobuf_event *event)
{
    PrintF((FTPCIPtr)user, "autobuf: %s\n", event->text);
}

static struct autobuf_ncftp *state_of(const FTPCIPtr cip)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ncftp *a = cip->autobuf;
    int result;

    if (a != NULL || cip->ctrlSocketR == kClosedFileDescriptor)
        return a;
    a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    options.log = log_line;
    options.log_user = cip;
    options.intent = cip->autobufScavenges ? AUTOBUF_INTENT_SCAVENGER : 0;
    result = autobuf_ftp_open(&a->session, AUTOBUF_FTP_CLIENT, cip->ctrlSocketR, &options);
    a->is_off = result == AUTOBUF_E_OFF;
    if (result < 0)
        PrintF(cip, "autobuf: not used: %s\n", autobuf_strerror(result));
    cip->autobuf = a;
    return a;
}

int FTPAutobufIsOn(const FTPCIPtr cip)
{
    struct autobuf_ncftp *a;

    if (cip->noAutobuf != 0 || cip->dataSocketRBufSize != 0 || cip->dataSocketSBufSize != 0)
        return 0;
    a = state_of(cip);
    return a != NULL && !a->is_off;
}

void FTPAutobufOption(const FTPCIPtr cip, int isOn, const char *word)
{
    cip->autobufScavenges = word != NULL && strcmp(word, "scavenger") == 0;
    cip->noAutobuf = !isOn && !cip->autobufScavenges;
}

/* Whether a word stands in a line by itself. */
static int has_word(const char *line, const char *word)
{
    size_t len = strlen(word);
    const char *at = line;

    while ((at = strstr(at, word)) != NULL) {
        int begins = at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        int ends = !(isalnum((unsigned char)at[len]) || at[len] == '_');

        if (begins && ends)
            return 1;
        at += len;
    }
    return 0;
}

void FTPAutobufFeature(const FTPCIPtr cip, const char *line, int isHelpSite)
{
    int sizes = kNoSizes;

    if (has_word(line, "AUTOBUF"))
        cip->hasSITE_AUTOBUF = kCommandAvailable;
    if (has_word(line, "SBUF"))
        sizes = isHelpSite || strstr(line, "SITE") != NULL ? kSITE_SBUF : kSBUF;
    else if (isHelpSite && has_word(line, "BUFSIZE"))
        sizes = kSITE_BUFSIZE;
    if (sizes != kNoSizes && (cip->sizesCommand == kNoSizes || sizes < cip->sizesCommand))
        cip->sizesCommand = sizes;
}

static uint32_t direction_of(int netMode)
{
    return netMode == kNetReading ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS;
}

/* Asks a server that has another command for the buffer that a host like this one would set. */
static void send_sizes(const FTPCIPtr cip, uint32_t direction)
{
    uint64_t bytes = autobuf_ftp_peer_bytes(cip->autobuf->session, direction);

    if (bytes == 0 || cip->sizesCommand == kNoSizes)
        return;
    PrintF(cip, "autobuf: asking the server for a buffer of %lu bytes\n", (unsigned long)bytes);
    (void)FTPCmd(cip, size_commands[cip->sizesCommand], (unsigned long)bytes);
}

/* Whether replies are unread: the next line would then not be the answer to a new command. */
static int has_unread(const FTPCIPtr cip)
{
#if USE_SIO
    return cip->ctrlSrl.bufPtr < cip->ctrlSrl.bufLim;
#else
    return 1;
#endif
}

static uint32_t ways_of(const FTPCIPtr cip)
{
    uint32_t ways = AUTOBUF_FTP_BY_ICMP;

    if (cip->hasSITE_AUTOBUF == kCommandAvailable)
        ways |= AUTOBUF_FTP_BY_INBAND;
    if (cip->sizesCommand != kNoSizes)
        ways |= AUTOBUF_FTP_PEER_SETS;
    return ways;
}

longest_int FTPAutobufLeft(const FTPCIPtr cip, const char *file, int type, longest_int size, longest_int startPoint)
{
    if (size == kSizeUnknown && file != NULL && FTPAutobufIsOn(cip) && cip->autobuf->session != NULL &&
        autobuf_ftp_worth(cip->autobuf->session, ways_of(cip), AUTOBUF_INTENT_RECEIVES, 0) == 1)
        (void)FTPFileSize(cip, file, &size, type);
    return size == kSizeUnknown ? size : size - startPoint;
}

int FTPAutobufMeasure(const FTPCIPtr cip, int netMode, longest_int size)
{
    int result;

    if (!FTPAutobufIsOn(cip) || cip->autobuf->session == NULL)
        return kNoErr;
    cip->autobuf->expected_bytes = size > 0 ? (uint64_t)size : 0;
    if ((size <= 0 && netMode == kNetReading) || has_unread(cip))
        return kNoErr;
    result = autobuf_ftp_measure(cip->autobuf->session, ways_of(cip), direction_of(netMode),
                                 cip->autobuf->expected_bytes);
    if (result < 0) {
        FTPLogError(cip, kDontPerror, "SITE AUTOBUF: %s.\n", autobuf_strerror(result));
        FTPShutdownHost(cip);
        cip->errNo = kErrRemoteHostClosedConnection;
        return cip->errNo;
    }
    if (result > 0)
        send_sizes(cip, direction_of(netMode));
    return kNoErr;
}

void FTPAutobufDirection(const FTPCIPtr cip, int netMode)
{
    if (FTPAutobufIsOn(cip))
        cip->autobuf->direction = direction_of(netMode);
}

void FTPAutobufSocket(const FTPCIPtr cip, int fd, const struct sockaddr_in *peer)
{
    const struct autobuf_ncftp *a;

    if (!FTPAutobufIsOn(cip) || cip->autobuf->session == NULL)
        return;
    a = cip->autobuf;
    (void)autobuf_ftp_data_begin(a->session, fd, (const struct sockaddr *)peer,
                                 peer != NULL ? sizeof *peer : 0,
                                 a->direction != 0 ? a->direction : BOTH, a->expected_bytes);
}

void FTPAutobufConnected(const FTPCIPtr cip)
{
    struct autobuf_ncftp *a;

    if (!FTPAutobufIsOn(cip) || cip->autobuf->session == NULL || cip->autobuf->direction == 0)
        return;
    a = cip->autobuf;
    (void)autobuf_ftp_data_connected(a->session, cip->dataSocket, a->direction, a->expected_bytes);
    a->expected_bytes = 0;
}

/* Whether another write would wait for what is there already. */
static int has_unsent(const FTPCIPtr cip)
{
    int bytes = 0;

    return cip->autobufScavenges && cip->autobuf->direction == AUTOBUF_INTENT_SENDS &&
           ioctl(cip->dataSocket, SIOCOUTQNSD, &bytes) == 0 && bytes >= UNSENT_BYTES;
}

/*
 * A write waits until there is room, and nothing is sampled meanwhile: a rate that was reduced would stay so. So what
 * waits is kept short; but not for long at once, for NcFTP looks itself at whether to go on.
 */
void FTPAutobufStep(const FTPCIPtr cip)
{
    uint64_t end_ns = autobuf_now_ns() + WAIT_NS;

    if (cip->autobuf == NULL || cip->autobuf->session == NULL)
        return;
    (void)autobuf_ftp_data_step(cip->autobuf->session);
    while (has_unsent(cip) && autobuf_now_ns() < end_ns) {
        (void)poll(NULL, 0, UNSENT_MS);
        (void)autobuf_ftp_data_step(cip->autobuf->session);
    }
}

void FTPAutobufEnd(const FTPCIPtr cip)
{
    if (cip->autobuf != NULL && cip->autobuf->session != NULL)
        autobuf_ftp_data_end(cip->autobuf->session);
}

void FTPAutobufClose(const FTPCIPtr cip)
{
    if (cip->autobuf == NULL)
        return;
    autobuf_ftp_close(cip->autobuf->session);
    free(cip->autobuf);
    cip->autobuf = NULL;
}
