/* SPDX-License-Identifier: MIT */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <autobuf/autobuf.h>

#include "link.h"

/*
 * Carries an exchange over a link until it is over. A responder's first line is at link->begin. Returns 1: the link
 * is the line protocol's again, with what is left in it; below 0: close it.
 */
int exchange_run(struct link *link, struct autobuf_inband *inband);

#endif
