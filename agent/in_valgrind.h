/*
 * Does valgrind run this program? It reports what it finds odd on the program's
 * standard error, and our samples do odd things: so there are none under it,
 * where CPU time is not the program's anyway. The request is that of
 * RUNNING_ON_VALGRIND (valgrind.h); to a processor it is some rotations that
 * change nothing. A few ns.
 */
#ifndef IPS_AGENT_IN_VALGRIND_H
#define IPS_AGENT_IN_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

static inline bool ips_in_valgrind(void)
{
    const volatile uint64_t request[6] = {0x1001};
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

#endif
