/*
 * How much of the machine the slave takes. The measured program comes first:
 * SCHED_IDLE until the pool is a quarter full, then nice 10, then nice 0; and
 * nice 0 while somebody waits for an answer.
 *
 * Without privilege the kernel lets a thread go down but never up again. So
 * the main thread never goes down: it runs the event loop in a second thread
 * that does, and to change the level it ends that one and begins another. The
 * two never run at once.
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

/* Pure: `fill` in 1/1000 of the pool. A level is left downwards only well
 * below where it was entered, so that it does not flutter. */
enum slave_sched_class slave_sched_class_request(enum slave_sched_class now,
                                                 unsigned fill,
                                                 bool waited_for);

/* Runs the loop until it is broken, in a thread of that level. */
void slave_sched_class_apply(struct event_base *base,
                             enum slave_sched_class level);

#endif
