/*
 * The measuring of message times: two threads with one connection between them
 * that carries nothing but bytes to be counted (docs/protocol.md).
 *
 *   echo    listens; the connection that begins with the key gets back what it
 *           sends, and after every batch the CPU time each round took here. A
 *           thread of its own, that ends with the connection, or where nobody
 *           comes or speaks any more.
 *   trip    one length: rounds in batches until they are enough, each the time
 *           of the round trip and the CPU of both ends. It blocks: for the
 *           worker, which can be told to stop. A key has SLAVE_ECHO_KEY_BYTES.
 *
 * CPU is taken out of a round trip because the chains of the graph carry it
 * (ALGORITHMS 1). A round's is that of this thread from before its send (its
 * receive, at the echo) to behind the other, less what reading the clock takes.
 *
 * Whoever knows the key may have bytes echoed, and nothing else. Source: DPM-3.
 */
#ifndef IPS_SLAVE_CALIBRATE_NET_H
#define IPS_SLAVE_CALIBRATE_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/graph/mtime.h"

#define SLAVE_ECHO_KEY_BYTES 16u
#define SLAVE_ECHO_ADDRESSES 16u
#define SLAVE_ECHO_ADDRESS_BYTES 128u
#define SLAVE_ECHO_MOST 8u /* at once */
#define SLAVE_TRIP_BYTES_MAX (16u << 20)
#define SLAVE_TRIP_ROUNDS_MAX 100000u

struct slave_echo_at {
    char address[SLAVE_ECHO_ADDRESSES][SLAVE_ECHO_ADDRESS_BYTES];
    uint32_t count;
};
/* Begins to listen, for so many seconds; *at are where, "tcp:HOST:PORT" or
 * "unix:@NAME" (abstract), best first. `inside`: on this machine alone. */
int slave_echo_start(const uint8_t *key, bool by_unix, bool inside,
                     uint32_t seconds, struct slave_echo_at *at,
                     struct ips_err *err) IPS_MUST_USE;

struct slave_trip {
    int fd; /* -1: not connected */
    const atomic_bool *stopping;
    uint8_t *buffer;
    size_t capacity;
};
/* Tries the addresses in order. */
int slave_trip_open(struct slave_trip *t, const uint8_t *key,
                    const char *const *addresses, size_t count,
                    const atomic_bool *stop, struct ips_err *err) IPS_MUST_USE;
void slave_trip_close(struct slave_trip *t);
struct slave_trip_result {
    struct ips_half_trips half;
    uint64_t trip_ns;          /* median of the round trips as they were */
    uint64_t cpu_ns;           /* median CPU of both ends, half of a round's:
                                  what sending and receiving a message cost */
    uint64_t delay_ns, all_ns; /* of all together: both ends were runnable and
                                  not running, beyond the CPU that they took
                                  (they may share a processor); how long */
};
/* At least 3 rounds, at most `rounds`; none is begun after length_ns beyond the
 * first 3. */
int slave_trip_measure(struct slave_trip *t, uint64_t bytes, uint32_t rounds,
                       uint64_t length_ns, struct slave_trip_result *out,
                       struct ips_err *err) IPS_MUST_USE;

#endif
