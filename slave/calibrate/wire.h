/*
 * What both ends of a measuring connection do: whole sends and receives that
 * look up now and then whether they shall stop, numbers of fixed width, clocks.
 *
 *     key (16 bytes)                     ->
 *                                        <-  1 byte YES
 *     rounds (u32), bytes (u64)          ->      a batch; low byte first
 *                                        <-  1 byte YES
 *     bytes ->, <- bytes, `rounds` times
 *                                        <-  CPU ns of each round (u64), then
 *                                            slave_wire_delay_ns() of all
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
#define SLAVE_WIRE_SILENCE_NS 30000000000ULL /* then it is given up */

/* No delay, and short sleeps in the kernel, so that `stop` is seen. */
void slave_wire_tune(int fd);
/* All of it. IPS_E_REFUSED: told to stop; IPS_E_UNREACHABLE: closed, or
 * nothing moved for SLAVE_WIRE_SILENCE_NS. */
int slave_wire_send(int fd, const void *data, size_t len,
                    const atomic_bool *stop, struct ips_err *err) IPS_MUST_USE;
int slave_wire_recv(int fd, void *data, size_t len, const atomic_bool *stop,
                    struct ips_err *err) IPS_MUST_USE;

void slave_wire_put(uint8_t *to, uint64_t n, unsigned bytes);
uint64_t slave_wire_get(const uint8_t *from, unsigned bytes);

/* That this thread was runnable and not running, since it began; 0 where the
 * kernel does not say. */
uint64_t slave_wire_delay_ns(void);
uint64_t slave_wire_now_ns(void); /* CLOCK_MONOTONIC_RAW */
uint64_t slave_wire_cpu_ns(void); /* of this thread */
/* CPU that a pair of slave_wire_cpu_ns() shows with nothing between. */
uint64_t slave_wire_clock_ns(void);

#endif
