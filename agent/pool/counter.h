/*
 * The processor's counter: what stamps of kind IPS_CLOCK_TSC are. x86-64: the
 * time stamp counter; aarch64: the virtual counter, which user programs may
 * read on Linux. Elsewhere there is none, and stamps are CLOCK_MONOTONIC_RAW.
 * Whether it is fit for stamps (one rate, on every core, in every sleep state)
 * is for pool/clock.c to find out: it is where the kernel's own clock runs on
 * it.
 */
#ifndef IPS_AGENT_POOL_COUNTER_H
#define IPS_AGENT_POOL_COUNTER_H

#include <stdint.h>

#if defined(__x86_64__)
#define IPS_HAVE_COUNTER 1
#define IPS_COUNTER_CLOCKSOURCE "tsc\n"
static inline uint64_t ips_counter(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define IPS_HAVE_COUNTER 1
#define IPS_COUNTER_CLOCKSOURCE "arch_sys_counter\n"
static inline uint64_t ips_counter(void)
{
    uint64_t value;
    /* volatile: two readings are two; the asm memory clobber keeps them in
     * place against the stores of a record. */
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value) : : "memory");
    return value;
}
/* Its rate in Hz, as the firmware stated it: exact. */
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
