/*
 * What the distributed programs of these directories share: TCP between
 * processes whose addresses come from the command line, messages of a kind, a
 * number and bytes, work of a known amount, options. They are programs to be
 * measured and know nothing of IPS.
 *
 * A failure ends the program with status 1 and a line that says what failed,
 * for all of them are lost together. Integers cross in network order.
 */
#ifndef PROGRAM_NET_H
#define PROGRAM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_WAIT_S 30            /* for a peer that is not up yet */
#define NET_MAX_BYTES (1u << 26) /* of a message's body */

/* --- sockets --------------------------------------------------------------*/

/* "10.0.0.1:7000" -> a listening socket; port 0 takes a free one. */
int net_listen(const char *address);
/* Prints "listening ADDRESS:PORT" of a listening socket. */
void net_announce(int listener);
int net_accept(int listener);
int net_connect(const char *address);
/* As above, with the reason in *why and -1 for a failure; the first waits for
 * a peer that is not up yet. */
int net_try_connect(const char *address, unsigned wait_s, const char **why);
int net_try_listen(const char *address, const char **why);
/* Splits "A,B,C" in place; at most `max`, or it ends the program. */
unsigned net_addresses(char *list, const char *address[], unsigned max);

/* --- messages -------------------------------------------------------------*/

struct net_head {
    uint32_t kind, id, bytes;
};

/* 0, or -1 with errno (0: the peer closed). */
int net_send_all(int fd, const void *data, size_t len);
int net_recv_all(int fd, void *data, size_t len);
const char *net_reason(void); /* of the last that failed */

/* One message, in one write. */
void net_put(int fd, uint32_t kind, uint32_t id, const void *body,
             uint32_t bytes);
/* The next message, its body of at most `max` bytes in `body`; false where the
 * peer has closed instead. */
bool net_get(int fd, struct net_head *head, void *body, uint32_t max);
/* The same, of a kind that is expected. */
void net_want(int fd, uint32_t kind, struct net_head *head, void *body,
              uint32_t max);

uint8_t *net_put_u32(uint8_t *at, uint32_t value);
const uint8_t *net_get_u32(const uint8_t *at, uint32_t *value);
uint8_t *net_put_u64(uint8_t *at, uint64_t value);
const uint8_t *net_get_u64(const uint8_t *at, uint64_t *value);

/* --- work -----------------------------------------------------------------*/

/* 1000 dependent multiplications a unit, about a microsecond; the result
 * depends on all of them. */
uint64_t net_work(uint64_t seed, uint32_t units);
/* The next of a sequence of numbers; *state is its seed. */
uint32_t net_random(uint64_t *state);
/* FNV-1a; begin with NET_HASH. */
#define NET_HASH 14695981039346656037u
uint64_t net_hash(uint64_t hash, const void *data, size_t len);

/* --- the command line -----------------------------------------------------*/

/* "--name VALUE": a number, a text, or (both NULL) a flag without a value. */
struct net_option {
    const char *name;
    uint32_t *number, min, max;
    char **text;
    bool *flag;
};

/* Wrong usage ends the program with status 2, --help with 0. */
void net_options(const char *usage, const struct net_option *options, int argc,
                 char **argv);
bool net_number(const char *text, uint32_t min, uint32_t max, uint32_t *out);
void *net_memory(size_t bytes); /* zeroed */
_Noreturn void net_die(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
