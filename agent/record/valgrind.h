/*
 * Does valgrind run this program? Valgrind would report our samples as errors
 * on the program's standard error. So the agent takes no samples under
 * valgrind, where CPU time says little about the program anyway. A request to
 * valgrind (valgrind.h) is a few rotate instructions that have no effect on a
 * real processor and take a few ns.
 */
#ifndef IPS_AGENT_RECORD_VALGRIND_H
#define IPS_AGENT_RECORD_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

#define IPS_VALGRIND_RUNS 0x1001u /* RUNNING_ON_VALGRIND */
/* Requests not to check memory for data races: VALGRIND_HG_DISABLE_CHECKING of
 * helgrind, ANNOTATE_BENIGN_RACE_SIZED of drd. */
#define IPS_VALGRIND_HELGRIND_IGNORES 0x48470127u
#define IPS_VALGRIND_DRD_IGNORES 0x44520002u

static inline bool ips_valgrind_request(uint64_t what, uint64_t at,
                                        uint64_t bytes)
{
    const volatile uint64_t request[6] = {what, at, bytes};
    uint64_t answer = 0;
#if defined(__x86_64__)
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(&request[0])
                     : "cc", "memory");
#elif defined(__aarch64__)
    __asm__ volatile("mov x3, %0\n\tmov x4, %1\n\t"
                     "ror x12, x12, #3\n\tror x12, x12, #13\n\t"
                     "ror x12, x12, #51\n\tror x12, x12, #61\n\t"
                     "orr x10, x10, x10\n\tmov %0, x3"
                     : "+r"(answer)
                     : "r"(&request[0])
                     : "cc", "memory", "x3", "x4");
#else
    (void)request;
#endif
    return answer != 0;
}

static inline bool ips_in_valgrind(void)
{
    return ips_valgrind_request(IPS_VALGRIND_RUNS, 0, 0);
}

/* Excludes our own memory from checks for data races: threads share it without
 * locks, and the checkers would report that as a fault of the program. */
static inline void ips_valgrind_ignore(uint64_t at, uint64_t bytes)
{
    ips_valgrind_request(IPS_VALGRIND_HELGRIND_IGNORES, at, bytes);
    ips_valgrind_request(IPS_VALGRIND_DRD_IGNORES, at, bytes);
}

#endif
