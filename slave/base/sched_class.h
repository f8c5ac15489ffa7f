/*
 * Scheduling priority of the slave's loop. The measured program comes first:
 * the loop runs as SCHED_IDLE until the pool is a quarter full, then at nice
 * 10, and from half full at nice 0. It also runs at nice 0 while a client waits
 * for an answer.
 *
 * Without privilege a thread may lower its priority but not raise it again. So
 * the main thread keeps its own: it runs the event loop in a second thread,
 * which lowers its priority. To change the level, the second thread ends and
 * another one starts. The two threads never run at once.
 */
#ifndef IPS_SLAVE_BASE_SCHED_CLASS_H
#define IPS_SLAVE_BASE_SCHED_CLASS_H

#include <stdbool.h>

struct event_base;

enum slave_sched_class {
    SLAVE_LEVEL_IDLE,
    SLAVE_LEVEL_NICE,
    SLAVE_LEVEL_NORMAL
};

/* Chooses the scheduling class; has no side effects. `fill`: 1/1000 of the pool
 * in use. `waited_for`: a client waits for an answer. A class is left only when
 * `fill` is 50 below the value at which it was entered (hysteresis). */
enum slave_sched_class slave_sched_class_choose(enum slave_sched_class now,
                                                unsigned fill, bool waited_for);

/* Runs the event loop, in a thread of that class, until
 * event_base_loopbreak. */
void slave_sched_class_run_loop(struct event_base *base,
                                enum slave_sched_class level);

#endif
