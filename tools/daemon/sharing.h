/* SPDX-License-Identifier: MIT */
/* Rules with divide=: their totals, shared among the connections that are managed. */
#ifndef SHARING_H
#define SHARING_H

#include "tended.h"

/* Divides the total of each such rule anew. */
void sharing_divide(struct tending *tending);

/* Puts back what was set because a total is divided. A pace that is not what was left is the program's. */
void sharing_put_back(struct tended *t, int copy);

#endif
