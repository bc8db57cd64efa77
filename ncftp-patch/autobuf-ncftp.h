/* SPDX-License-Identifier: MIT */
/* libautobuf in LibNcFTP: what its hooks call. */
#ifndef AUTOBUF_NCFTP_H
#define AUTOBUF_NCFTP_H

#include "ncftp.h"

/* Whether the library may set buffers: the user gave no size, nor -o noAUTOBUF, nor AUTOBUF=off. */
int FTPAutobufIsOn(const FTPCIPtr cip);

/* -o AUTOBUF or noAUTOBUF: 1 or 0; AUTOBUF=scavenger: the word, or NULL. */
void FTPAutobufOption(const FTPCIPtr cip, int isOn, const char *word);

/* A line of the reply to FEAT, or to HELP SITE. */
void FTPAutobufFeature(const FTPCIPtr cip, const char *line, int isHelpSite);

/*
 * The bytes of a file on the server from startPoint on, or kSizeUnknown. If size is unknown, asks the server, but only
 * where a measurement could pay.
 */
longest_int FTPAutobufLeft(const FTPCIPtr cip, const char *file, int type, longest_int size, longest_int startPoint);

/*
 * Call it before a transfer of size bytes, or kSizeUnknown. netMode: kNetReading or kNetWriting. Measures if that pays,
 * and tells the server. Returns kNoErr, or an error if the control connection cannot be used any more.
 */
int FTPAutobufMeasure(const FTPCIPtr cip, int netMode, longest_int size);

/* The direction of the next data connection; its socket, before connect() to peer or, with peer NULL, before listen(). */
void FTPAutobufDirection(const FTPCIPtr cip, int netMode);
void FTPAutobufSocket(const FTPCIPtr cip, int fd, const struct sockaddr_in *peer);

/* The data connection is connected, carries data (call it in each turn of the loop), is closed. */
void FTPAutobufConnected(const FTPCIPtr cip);
void FTPAutobufStep(const FTPCIPtr cip);
void FTPAutobufEnd(const FTPCIPtr cip);

/* The control connection is about to be closed. */
void FTPAutobufClose(const FTPCIPtr cip);

#endif
