/* SPDX-License-Identifier: MIT */
/* libautobuf in LibNcFTP: what its hooks call. */
#ifndef AUTOBUF_NCFTP_H
#define AUTOBUF_NCFTP_H

#include "ncftp.h"

/*
 * Says whether the library may set buffers: the user asked for no size, and gave neither -o noAUTOBUF nor
 * AUTOBUF=off.
 */
int FTPAutobufIsOn(const FTPCIPtr cip);

/* A line of the reply to FEAT, or to HELP SITE. */
void FTPAutobufFeature(const FTPCIPtr cip, const char *line, int isHelpSite);

/*
 * How much of a file on the server is to be received, from startPoint on; kSizeUnknown: that is unknown. If the size
 * is unknown, the server is asked, but only where a measurement could pay.
 */
longest_int FTPAutobufLeft(const FTPCIPtr cip, const char *file, int type, longest_int size, longest_int startPoint);

/*
 * Call it before a transfer of so many bytes (kSizeUnknown) in a direction (kNetReading, kNetWriting): it measures
 * if that pays, and tells the server. Returns kNoErr, or an error if the control connection cannot be used any
 * more.
 */
int FTPAutobufMeasure(const FTPCIPtr cip, int netMode, longest_int size);

/* The direction of the next data connection; its socket before connect() to peer, or NULL before listen(). */
void FTPAutobufDirection(const FTPCIPtr cip, int netMode);
void FTPAutobufSocket(const FTPCIPtr cip, int fd, const struct sockaddr_in *peer);

/* It is connected; it carries data; it is closed. */
void FTPAutobufConnected(const FTPCIPtr cip);
void FTPAutobufStep(const FTPCIPtr cip);
void FTPAutobufEnd(const FTPCIPtr cip);

/* The control connection is about to be closed. */
void FTPAutobufClose(const FTPCIPtr cip);

#endif
