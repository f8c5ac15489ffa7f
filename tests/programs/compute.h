/* Work for programs of the tests: so much CPU time of the calling thread. */
#ifndef IPS_TESTS_COMPUTE_H
#define IPS_TESTS_COMPUTE_H

#include <time.h>

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
