/* SPDX-License-Identifier: MIT */
/* The transfers of autobuf serve. */
#ifndef SERVE_TRANSFER_H
#define SERVE_TRANSFER_H

#include "serve_client.h"

/* Answers a client whose first line asks for a transfer: begins it, or ends the client. May end another transfer. */
void transfers_answer(struct server *s, struct client *c);

/* Steps each transfer. Returns when to do it again at the latest. */
uint64_t transfers_step(struct server *s, uint64_t now_ns);

#endif
