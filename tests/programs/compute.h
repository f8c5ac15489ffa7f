/* Work for programs of the tests. */
#ifndef IPS_TESTS_COMPUTE_H
#define IPS_TESTS_COMPUTE_H

#include <stdint.h>
#include <time.h>

/* `count` turns of a loop, in the procedure that holds it. It touches no
 * memory: how fast a core reads back what it just stored depends on where the
 * code lies, so equal loops over a variable in memory differ by up to ten
 * times. */
#define COMPUTE_TURNS(count)                                                   \
    do {                                                                       \
        uint64_t x_ = 1;                                                       \
        for (uint64_t left_ = (uint64_t)(count); left_ > 0; left_--) {         \
            x_ = x_ * 6364136223846793005u + 1;                                \
            __asm__ volatile("" : "+r"(x_));                                   \
        }                                                                      \
    } while (0)

/* So much CPU time of the calling thread. */
static inline void compute(long ms)
{
    struct timespec t, first;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &first);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((t.tv_sec - first.tv_sec) * 1000 +
               (t.tv_nsec - first.tv_nsec) / 1000000 <
           ms);
}

#endif
