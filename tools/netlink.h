/* SPDX-License-Identifier: MIT */
/* Questions to the kernel over netlink, one request at a time. */
#ifndef NETLINK_H
#define NETLINK_H

#include <stddef.h>
#include <stdint.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

struct request {
    struct nlmsghdr header;
    char body[128];
};

typedef void netlink_take_fn(const struct nlmsghdr *message, void *out);

/* Begins a request. Returns where its fixed part, of this many bytes, goes: all zero. */
void *netlink_begin(struct request *r, uint16_t type, uint16_t flags, size_t bytes);

/* Adds an attribute; the body has room for all that the callers add. */
void netlink_add(struct request *r, uint16_t type, const void *data, size_t bytes);

/* Sends the request, and hands over each message of the answer. Nothing answers: nothing is handed over. */
void netlink_ask(int protocol, const struct request *r, netlink_take_fn *take, void *out);

/* The attribute of a type in a message whose body begins with skip bytes of something else; NULL: none. */
const struct rtattr *netlink_attribute(const struct nlmsghdr *message, size_t skip, unsigned type);

/* The same among the attributes that an attribute holds. */
const struct rtattr *netlink_nested(const struct rtattr *nest, unsigned type);

/* Reads an attribute that is a number of 32 bits. Leaves *value alone if a is NULL or too short. */
void netlink_number(const struct rtattr *a, int64_t *value);

#endif
