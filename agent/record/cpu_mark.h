/*
 * Location of a thread's rseq area, and the signature that a mark in it needs
 * (agent/record/cpu.h). Used by the agent and by ipsrun's test of the kernel.
 */
#ifndef IPS_AGENT_RECORD_CPU_MARK_H
#define IPS_AGENT_RECORD_CPU_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* glibc 2.35 and later define these; with other C libraries their addresses are
 * NULL. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The signature that glibc registers with the kernel. The kernel kills a
 * program whose abort handler is not preceded by this signature, even if there
 * is nothing to abort. */
#if defined(__aarch64__)
#define IPS_RSEQ_SIGNATURE 0xd428bc00u
#else
#define IPS_RSEQ_SIGNATURE 0x53053053u
#endif

#define IPS_RSEQ_CPU_ID 4  /* offset; int32, negative: not registered */
#define IPS_RSEQ_POINTER 8 /* offset of rseq_cs, a u64 */

static inline bool ips_rseq_is_available(void)
{
    return &__rseq_offset && &__rseq_size && __rseq_size >= 16;
}

/* Is this thread's rseq area registered with the kernel? `mark` is the address
 * of the area's rseq_cs pointer. */
static inline bool ips_rseq_is_registered(volatile uint64_t *mark)
{
    char *area = (char *)(uintptr_t)mark - IPS_RSEQ_POINTER;
    return *(volatile int32_t *)(void *)(area + IPS_RSEQ_CPU_ID) >= 0;
}

#endif
