/*
 * Measures message times: two threads with one connection between them that
 * carries only test messages (docs/protocol.md).
 *
 *   echo    listens. If a connection begins with the key, the echo sends back
 *           all that it receives and, after every batch, the CPU time that it
 *           used in each round. The echo is a thread of its own, which ends
 *           with the connection, or at its time limit.
 *   trip    measures one message length, in batches of rounds: for each round,
 *           the time of the round trip and the CPU time of both ends. It
 *           blocks, so it runs on the worker, and `stop` ends it.
 *
 *
 * CPU time is subtracted from a round trip because the chains of the graph
 * contain it (ALGORITHMS 1). A round's CPU time is that of the thread from
 * before its send to after its receive (at the echo: from receive to send),
 * minus the cost of reading the clock.
 *
 * A key has SLAVE_ECHO_KEY_BYTES bytes. A client with the key can have bytes
 * echoed, and nothing else. Source: DPM-3.
 */
#ifndef IPS_SLAVE_CALIBRATE_NET_H
#define IPS_SLAVE_CALIBRATE_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/graph/message_time.h"

#define SLAVE_ECHO_KEY_BYTES 16u
#define SLAVE_ECHO_ADDRESSES 16u
#define SLAVE_ECHO_ADDRESS_BYTES 128u
#define SLAVE_ECHO_MOST 8u /* maximum number of echo threads at once */
#define SLAVE_TRIP_BYTES_MAX (16u << 20)
#define SLAVE_TRIP_ROUNDS_MAX 100000u

struct slave_echo_at {
    char address[SLAVE_ECHO_ADDRESSES][SLAVE_ECHO_ADDRESS_BYTES];
    uint32_t count;
};
/* Starts an echo thread, which listens for `seconds`. Sets *at to its
 * addresses, the best first: "tcp:HOST:PORT" or, if `by_unix`, "unix:@NAME"
 * (abstract). `inside`: only this machine can reach the address. IPS_E_BUSY:
 * there are SLAVE_ECHO_MOST echo threads. */
int slave_echo_start(const uint8_t *key, bool by_unix, bool inside,
                     uint32_t seconds, struct slave_echo_at *at,
                     struct ips_err *err) IPS_MUST_USE;

struct slave_trip {
    int fd; /* socket connected to the echo; -1: not connected */
    const atomic_bool *stopping;
    uint8_t *buffer;
    size_t capacity;
};
/* Connects to the first of the addresses that answers, and sends the key. If
 * another thread sets *stop, this call and later ones for `t` end early; `stop`
 * must outlive `t`. */
int slave_trip_connect(struct slave_trip *t, const uint8_t *key,
                       const char *const *addresses, size_t count,
                       const atomic_bool *stop,
                       struct ips_err *err) IPS_MUST_USE;
void slave_trip_close(struct slave_trip *t);
struct slave_trip_result {
    struct ips_compute_half_round_trip_statistics half;
    uint64_t trip_ns; /* median of the round trips, CPU included */
    /* median over the rounds of half the CPU of both ends: the cost of sending
     * and receiving one message */
    uint64_t cpu_ns;
    /* Sums over all rounds. delay_ns: the time that the threads of both ends
     * waited for a CPU, minus their CPU time (at least 0), because two ends
     * that share a processor delay each other by that time. all_ns: elapsed
     * time of the round trips. */
    uint64_t delay_ns, all_ns;
};
/* Measures round trips of messages of `bytes` bytes, in batches: after a
 * warm-up first 3, then more, up to `rounds` in all. No batch after the first 3
 * rounds starts once length_ns has passed. */
int slave_trip_measure(struct slave_trip *t, uint64_t bytes, uint32_t rounds,
                       uint64_t length_ns, struct slave_trip_result *out,
                       struct ips_err *err) IPS_MUST_USE;

#endif
