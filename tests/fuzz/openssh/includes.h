/* SPDX-License-Identifier: MIT */
/* In place of OpenSSH's, for what of openssh-patch/ is fuzzed: so is what is below. */
#include <strings.h>
