/* IP addresses and networks as plain data. */
#ifndef AB_BASE_ADDR_H
#define AB_BASE_ADDR_H

#include "base/base.h"

/* The address of a peer, in 20 bytes. family 0: unknown (a unix socket). */
typedef struct ab_addr {
  uint8_t bytes[16];
  uint16_t port;  /* host order */
  uint8_t family; /* 4, 6 or 0 */
} ab_addr;

#define AB_ADDR_TEXT_MAX 46
/* "127.0.0.1" or "::1"; an IPv4-mapped IPv6 address is written as IPv4; "" for a unix socket.
 * Returns the length; writes a NUL. */
size_t ab_addr_text(const ab_addr *addr, char dst[AB_ADDR_TEXT_MAX]);
#define AB_ADDR_PLACE_MAX (AB_ADDR_TEXT_MAX + 8)
/* The same with its port: "127.0.0.1:80", "[::1]:80"; the family is 4 or 6. */
size_t ab_addr_place(const ab_addr *addr, char dst[AB_ADDR_PLACE_MAX]);
/* Reads an IPv4 address of four decimal parts without leading zeros, or an IPv6 address without
 * brackets and zone. Returns false, and leaves *addr alone, for anything else. The port is 0. */
bool ab_addr_parse(const char *ptr, size_t len, ab_addr *addr) AB_WARN_UNUSED;

/* The addresses that share their first `bits` with `prefix`; IPv4 in its IPv4-mapped form. */
typedef struct ab_net {
  uint8_t prefix[16];
  uint8_t bits; /* 0 .. 128 */
} ab_net;

/* Reads "10.0.0.0/8", "2001:db8::/32" or a single address. Bits after the prefix are ignored.
 * Returns false, with *net undefined, for anything else. */
bool ab_net_parse(const char *ptr, size_t len, ab_net *net) AB_WARN_UNUSED;
/* True if one of the networks has the address; a unix socket's peer counts as 127.0.0.1. */
bool ab_nets_include(const ab_net *nets, size_t count, const ab_addr *addr);

#endif
