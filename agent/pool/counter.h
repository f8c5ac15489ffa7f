/*
 * The processor's counter; stamps of kind IPS_CLOCK_TSC are its values. x86-64:
 * the time stamp counter; aarch64: the virtual counter, which user programs may
 * read on Linux. Other processors have none, and stamps are
 * CLOCK_MONOTONIC_RAW. pool/clock.c uses the counter for stamps if the kernel's
 * own clock does: then it runs at one rate on every core and in every sleep
 * state.
 */
#ifndef IPS_AGENT_POOL_COUNTER_H
#define IPS_AGENT_POOL_COUNTER_H

#include <stdint.h>

#if defined(__x86_64__)
#define IPS_HAVE_COUNTER 1
#define IPS_COUNTER_CLOCKSOURCE "tsc\n"
static inline uint64_t ips_counter_read(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define IPS_HAVE_COUNTER 1
#define IPS_COUNTER_CLOCKSOURCE "arch_sys_counter\n"
static inline uint64_t ips_counter_read(void)
{
    uint64_t value;
    /* `volatile` keeps the compiler from merging two readings. The memory
     * clobber keeps the order of a reading and the stores of a record. */
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value) : : "memory");
    return value;
}
/* Returns the counter's exact rate in Hz, as the firmware states it. */
static inline uint64_t ips_counter_hz(void)
{
    uint64_t value;
    __asm__("mrs %0, cntfrq_el0" : "=r"(value));
    return value;
}
#else
#define IPS_HAVE_COUNTER 0
#endif

#endif
