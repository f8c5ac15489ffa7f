/*
 * Where the rseq area of a thread is, and the signature that a mark in it needs
 * (agent/record/cpu.h). Used by the agent and by ipsrun's test of the kernel.
 */
#ifndef IPS_AGENT_RECORD_CPU_MARK_H
#define IPS_AGENT_RECORD_CPU_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* glibc 2.35 and later define these; elsewhere they stay undefined. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The signature that glibc registers. The kernel requires it before the abort
 * handler, even if there is nothing to abort, and kills a program that lacks
 * it. */
#if defined(__aarch64__)
#define IPS_RSEQ_SIGNATURE 0xd428bc00u
#else
#define IPS_RSEQ_SIGNATURE 0x53053053u
#endif

#define IPS_RSEQ_CPU_ID 4  /* int32: negative = not registered */
#define IPS_RSEQ_POINTER 8 /* u64: rseq_cs */

static inline bool ips_rseq_there(void)
{
    return &__rseq_offset && &__rseq_size && __rseq_size >= 16;
}

/* Did this thread's registration succeed? `mark` is the address of
 * IPS_RSEQ_POINTER in its area. */
static inline bool ips_rseq_registered(volatile uint64_t *mark)
{
    char *area = (char *)(uintptr_t)mark - IPS_RSEQ_POINTER;
    return *(volatile int32_t *)(void *)(area + IPS_RSEQ_CPU_ID) >= 0;
}

#endif
