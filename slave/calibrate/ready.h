/*
 * Answers ReadyAsk, which comes before message times are measured: how busy the
 * machine is, and how much CPU time it takes to wake a thread.
 *
 * Waking: two threads and a socket pair. The sender sleeps, so that the
 * receiver blocks, too; then it sends a byte. Only the CPU time of that send is
 * counted. The receiver is on the sender's processor or on another one that
 * this process may use; batches of the two kinds alternate.
 *
 * slave_ready_measure_load_and_wake_cost() blocks for about 0.1 s, so it runs
 * on the worker, and `stop` ends it.
 */
#ifndef IPS_SLAVE_CALIBRATE_READY_H
#define IPS_SLAVE_CALIBRATE_READY_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/err.h"

#define SLAVE_READY_ROUNDS_MAX 10000u

struct slave_ready {
    /* CPU time of a send that wakes a thread; IPS_UNMEASURED: there is only one
     * processor, or the measurement was stopped */
    uint64_t wake_ns;
    uint32_t load_milli; /* load average in thousandths; UINT32_MAX: unknown */
    uint32_t processors; /* number of processors of the machine */
};

/* Measures *out. `rounds`: number of wake-ups of each kind, 1 to
 * SLAVE_READY_ROUNDS_MAX. IPS_E_REFUSED: stopped. */
int slave_ready_measure_load_and_wake_cost(uint32_t rounds,
                                           const atomic_bool *stop,
                                           struct slave_ready *out,
                                           struct ips_err *err) IPS_MUST_USE;

#endif
