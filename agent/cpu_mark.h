/*
 * What a mark in the rseq area needs (agent/cpu.h): where the area is, and a
 * critical section that is never executed. Shared by the agent and by the test
 * ipsrun makes of the kernel. Include it in one file of a library.
 */
#ifndef IPS_AGENT_CPU_MARK_H
#define IPS_AGENT_CPU_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* glibc 2.35 and later; others leave them undefined. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

#if defined(__x86_64__)
#define IPS_RSEQ_TRAP "ud2\n"
#define IPS_RSEQ_SIGNATURE ".long 0x53053053\n"
#elif defined(__aarch64__)
#define IPS_RSEQ_TRAP "brk #0\n"
#define IPS_RSEQ_SIGNATURE ".inst 0xd428bc00\n"
#endif

/* The kernel wants the signature before the abort handler, also where it has
 * nothing to abort, and kills a program that has it not. */
__asm__(".pushsection .text, \"ax\"\n"
        ".balign 8\n"
        ".local ips_rseq_start\n"
        "ips_rseq_start:\n" IPS_RSEQ_TRAP IPS_RSEQ_SIGNATURE
        ".local ips_rseq_abort\n"
        "ips_rseq_abort:\n" IPS_RSEQ_TRAP ".popsection\n");
extern const char ips_rseq_start[] __attribute__((visibility("hidden")));
extern const char ips_rseq_abort[] __attribute__((visibility("hidden")));

#define IPS_RSEQ_CPU_ID 4  /* int32: below 0 = not registered */
#define IPS_RSEQ_POINTER 8 /* u64: rseq_cs */

static inline bool ips_rseq_there(void)
{
    return &__rseq_offset && &__rseq_size && __rseq_size >= 16;
}

static inline char *ips_rseq_area(void)
{
    return (char *)__builtin_thread_pointer() + __rseq_offset;
}

/* Did this thread's registration succeed? */
static inline bool ips_rseq_registered(void)
{
    return *(volatile int32_t *)(void *)(ips_rseq_area() + IPS_RSEQ_CPU_ID) >=
           0;
}

#endif
