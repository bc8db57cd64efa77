/* SPDX-License-Identifier: MIT */
/* The two ends of the exchange. */
#ifndef AB_ROLE_H
#define AB_ROLE_H

#include "exchange.h"

const struct ab_role *ab_role_initiator(void);
const struct ab_role *ab_role_responder(void);

#endif
