/*
 * ReadyAsk, EchoAsk and TripAsk: the slave's part in measuring message times
 * (calibrate/net.h). All are jobs about no run; a trip is one step a length,
 * so that other questions have their turn between, and it ends when the asker
 * says so or is gone.
 *
 * Thread: the loop's.
 */
#ifndef IPS_SLAVE_SERVE_CALIBRATE_H
#define IPS_SLAVE_SERVE_CALIBRATE_H

#include "slave/base/work.h"
#include "slave/serve/private.h"

/* The job for such a request; NULL: out of memory. */
struct slave_job *slave_calibrate_job(const Ips__Request *q);

static inline bool slave_calibrate_asked(const Ips__Request *q)
{
    return q->ask_case == IPS__REQUEST__ASK_ECHO ||
           q->ask_case == IPS__REQUEST__ASK_TRIP ||
           q->ask_case == IPS__REQUEST__ASK_READY;
}

#endif
