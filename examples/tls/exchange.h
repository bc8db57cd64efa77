/* SPDX-License-Identifier: MIT */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <autobuf/autobuf.h>

#include "link.h"

/*
 * Carries an exchange over a link until it is over. A responder's first line is there already, at
 * link->begin. 1: the link is the line protocol's again, and what is left in it too; below 0: it
 * has to be closed.
 */
int exchange_run(struct link *link, struct autobuf_inband *inband);

#endif
