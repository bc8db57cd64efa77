// SPDX-License-Identifier: MIT
// The same as C++11: the headers' linkage, initialisers and types.
#include "test_header.c"
