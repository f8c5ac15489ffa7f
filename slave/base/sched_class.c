/* Scheduling class of the event loop; see base/sched_class.h. */
#include "slave/base/sched_class.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/log.h"

enum slave_sched_class
slave_sched_class_choose_by_pool_fill(enum slave_sched_class now, unsigned fill,
                                      bool waited_for)
{
    static const unsigned enter_nice = 250, enter_normal = 500;
    unsigned down = 50;
    if (waited_for)
        return SLAVE_SCHED_NORMAL;
    if (fill >= enter_normal - (now == SLAVE_SCHED_NORMAL ? down : 0))
        return SLAVE_SCHED_NORMAL;
    if (fill >= enter_nice - (now >= SLAVE_SCHED_NICE ? down : 0))
        return SLAVE_SCHED_NICE;
    return SLAVE_SCHED_IDLE;
}

struct loop {
    struct event_base *base;
    enum slave_sched_class sched_class;
};

static void *lower_thread_priority_and_run_loop(void *arg)
{
    const struct loop *l = arg;
    const struct sched_param none = {0};
    /* On Linux these calls change the priority of the calling thread only. */
    if (l->sched_class == SLAVE_SCHED_IDLE &&
        sched_setscheduler(0, SCHED_IDLE, &none) < 0)
        ips_log_debug("SCHED_IDLE: %s", strerror(errno));
    if (l->sched_class == SLAVE_SCHED_NICE &&
        setpriority(PRIO_PROCESS, (id_t)gettid(), 10) < 0)
        ips_log_debug("nice 10: %s", strerror(errno));
    (void)event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

void slave_sched_class_run_loop(struct event_base *base,
                                enum slave_sched_class level)
{
    struct loop l = {base, level};
    pthread_t thread;
    if (level == SLAVE_SCHED_NORMAL ||
        pthread_create(&thread, NULL, lower_thread_priority_and_run_loop, &l) !=
            0) {
        l.sched_class = SLAVE_SCHED_NORMAL;
        (void)lower_thread_priority_and_run_loop(&l);
        return;
    }
    pthread_join(thread, NULL);
}
