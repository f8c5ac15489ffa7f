/*
 * Scheduling priority of the slave's event loop. The measured program comes
 * first: the loop runs as SCHED_IDLE until the pool is a quarter full, then at
 * nice 10, and from half full at nice 0. It also runs at nice 0 while a client
 * waits for an answer.
 *
 * Without privilege a thread may lower its priority but not raise it again. So
 * the main thread keeps its normal priority. At nice 0 it runs the loop itself;
 * else a second thread, which lowers its own priority, runs the loop while the
 * main thread waits. To change the class, the loop's thread leaves the loop.
 */
#ifndef IPS_SLAVE_BASE_SCHED_CLASS_H
#define IPS_SLAVE_BASE_SCHED_CLASS_H

#include <stdbool.h>

struct event_base;

enum slave_sched_class {
    SLAVE_SCHED_IDLE,
    SLAVE_SCHED_NICE,
    SLAVE_SCHED_NORMAL
};

/* Chooses the scheduling class; has no side effects. `now`: the current class.
 * `fill`: used part of the pool, in 1/1000. `waited_for`: a client waits for an
 * answer. A class is left only when `fill` is 50 below the value at which it
 * was entered (hysteresis). */
enum slave_sched_class
slave_sched_class_choose_by_pool_fill(enum slave_sched_class now, unsigned fill,
                                      bool waited_for);

/* Runs the event loop, in a thread of scheduling class `level`, until
 * event_base_loopbreak(). */
void slave_sched_class_run_loop(struct event_base *base,
                                enum slave_sched_class level);

#endif
