/*
 * Answers ReadyAsk, EchoAsk and TripAsk: the slave's part in measuring message
 * times (calibrate/net.h). These jobs need no run. A TripAsk job measures one
 * message length in each step, so that the worker can run other jobs in
 * between. The job also ends when the client cancels it or disconnects.
 *
 * The event loop's thread makes the jobs; the worker's thread runs their steps.
 */
#ifndef IPS_SLAVE_SERVE_CALIBRATE_H
#define IPS_SLAVE_SERVE_CALIBRATE_H

#include "slave/base/work.h"
#include "slave/serve/private.h"

/* Makes the job for a ReadyAsk, EchoAsk or TripAsk request. NULL: out of
 * memory. */
struct slave_job *slave_calibrate_make_job(const Ips__Request *q);

static inline bool slave_calibrate_handles_request(const Ips__Request *q)
{
    return q->ask_case == IPS__REQUEST__ASK_ECHO ||
           q->ask_case == IPS__REQUEST__ASK_TRIP ||
           q->ask_case == IPS__REQUEST__ASK_READY;
}

#endif
