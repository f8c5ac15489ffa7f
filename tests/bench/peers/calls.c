/*
 * calls COUNT: ns of this thread's CPU time for calling a procedure that does
 * next to nothing and returning from it; eight of them take turns.
 * tests/bench/run peers compiles it without instrumentation, with
 * -finstrument-functions and with -pg, and runs these bare, under ipsrun and
 * under uftrace.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BARE __attribute__((noinline, no_instrument_function))
#define STEP(name, n)                                                          \
    __attribute__((noinline)) static uint64_t name(uint64_t x)                 \
    {                                                                          \
        __asm__ volatile("" : "+r"(x));                                        \
        return x + (n);                                                        \
    }
STEP(one, 1)
STEP(two, 2)
STEP(three, 3)
STEP(four, 4)
STEP(five, 5)
STEP(six, 6)
STEP(seven, 7)
STEP(eight, 8)

BARE static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

BARE static uint64_t loop(uint64_t count)
{
    uint64_t x = 0;
    for (uint64_t i = 0; i < count; i += 8)
        x += one(x) + two(x) + three(x) + four(x) + five(x) + six(x) +
             seven(x) + eight(x);
    return x;
}

BARE int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 300000;
    uint64_t x = loop(800); /* what is set up once */
    uint64_t start = now_ns();
    x += loop(count);
    printf("ns %.2f\n", (double)(now_ns() - start) / (double)count);
    return x == 12345;
}
