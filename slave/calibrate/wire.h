/*
 * Functions for both ends of a measuring connection: complete sends and
 * receives that poll `stop`, numbers of fixed width, clocks. The protocol:
 *
 *     key (16 bytes)                     ->
 *                                        <-  1 byte YES
 *     rounds (u32), bytes (u64)          ->      a batch; low byte first
 *                                        <-  1 byte YES
 *     bytes ->, <- bytes, `rounds` times
 *                                        <-  CPU ns of each round (u64), then
 *                                            slave_wire_run_delay_ns() of all
 *                                            rounds (u64)
 *
 * and so on, until the connection is closed.
 */
#ifndef IPS_SLAVE_CALIBRATE_WIRE_H
#define IPS_SLAVE_CALIBRATE_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define SLAVE_WIRE_YES 'k'
#define SLAVE_WIRE_HEAD 12u
/* maximum time without progress; after that the connection counts as broken */
#define SLAVE_WIRE_SILENCE_NS 30000000000ULL

/* Sets TCP_NODELAY, and short timeouts for send and receive, so that
 * slave_wire_send() and slave_wire_recv() can poll `stop`. */
void slave_wire_set_socket_options(int fd);
/* Sends or receives all `len` bytes. IPS_E_REFUSED: stopped; IPS_E_UNREACHABLE:
 * closed, or no progress for SLAVE_WIRE_SILENCE_NS. */
int slave_wire_send(int fd, const void *data, size_t len,
                    const atomic_bool *stop, struct ips_err *err) IPS_MUST_USE;
int slave_wire_recv(int fd, void *data, size_t len, const atomic_bool *stop,
                    struct ips_err *err) IPS_MUST_USE;

/* Write or read a number of `bytes` bytes (at most 8), low byte first. */
void slave_wire_encode_number(uint8_t *to, uint64_t n, unsigned bytes);
uint64_t slave_wire_decode_number(const uint8_t *from, unsigned bytes);

/* Returns the time in ns for which this thread was runnable but not running
 * since its start; 0 if the kernel does not report it. */
uint64_t slave_wire_run_delay_ns(void);
uint64_t slave_wire_now_ns(void); /* current CLOCK_MONOTONIC_RAW time */
uint64_t slave_wire_calling_thread_cpu_ns(void); /* CPU time of this thread */
/* Measures the cost of reading the clocks, in ns: the CPU time between two
 * slave_wire_calling_thread_cpu_ns() calls, with the same clock reads between
 * them as in a round. */
uint64_t slave_wire_measure_clock_cost(void);

#endif
