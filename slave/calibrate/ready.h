/*
 * What is asked of a machine before its message times are measured (ReadyAsk):
 * how busy it is, and what waking costs.
 *
 * Waking: two threads and a socket pair. The sender sleeps, so that the other
 * sleeps too, and sends a byte; counted is the CPU time of the send alone, the
 * receiver on the sender's processor or on another that this process may use.
 * A kind's rounds come in batches, one of each in turn.
 *
 * It blocks for about 0.1 s: for the worker, which can be told to stop.
 */
#ifndef IPS_SLAVE_CALIBRATE_READY_H
#define IPS_SLAVE_CALIBRATE_READY_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/err.h"

#define SLAVE_READY_ROUNDS_MAX 10000u

struct slave_ready {
    uint64_t wake_ns;    /* IPS_UNMEASURED: one processor, or told to stop */
    uint32_t load_milli; /* UINT32_MAX: not known */
    uint32_t processors; /* of the machine */
};

/* rounds: 1 to SLAVE_READY_ROUNDS_MAX. */
int slave_ready_measure(uint32_t rounds, const atomic_bool *stop,
                        struct slave_ready *out,
                        struct ips_err *err) IPS_MUST_USE;

#endif
