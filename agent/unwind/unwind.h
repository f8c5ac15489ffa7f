/*
 * Walks the call stack of interrupted or calling code.
 *
 * Usable inside a recorded program, in a signal handler at any instruction: no
 * allocation, no lock, and no libc call but _dl_find_object (lock-free, glibc
 * 2.35 and later; without it only frame pointers are followed). The walk reads
 * only two kinds of memory. One is the stack within [low, end), so wrong tables
 * or a wild register end the walk but cannot cause a fault. The other is the
 * unwind table of a module whose code is running, which the loader reports as
 * mapped.
 *
 * Tables come before frame pointers: the value of rbp does not show whether it
 * is a frame pointer or a variable, but the table does. So each frame is
 * unwound by the FDE of its pc, found by the binary search table of
 * PT_GNU_EH_FRAME; an interpreter runs the CFI instructions that compilers and
 * the C library emit. Without an FDE (code generated at run time, hand-written
 * assembly) the frame pointer is used, which must point up the stack. In a
 * signal frame (augmentation `S`) the ucontext gives the registers. On
 * architectures other than x86-64 only frame pointers are followed.
 *
 * Why not libgcc's _Unwind_Backtrace: its first use loads libgcc_s with dlopen
 * and malloc, older versions take the loader's lock, it aborts on tables that
 * it does not know, and it reads memory wherever a register points.
 *
 * Bounds: IPS_FRAMES_MAX frames, 512 CFI instructions a frame, 32 steps of
 * search. Cost: about 0.1 us a frame, 5 ns if the rule of its pc is cached
 * (unwind/cache.h).
 */
#ifndef IPS_AGENT_UNWIND_UNWIND_H
#define IPS_AGENT_UNWIND_UNWIND_H

#include <stdint.h>
#include <ucontext.h>

/* DWARF register numbers of x86-64; 16 is the return address column. */
enum { IPS_REG_BX = 3, IPS_REG_FP = 6, IPS_REG_SP = 7, IPS_REG_PC = 16 };
#define IPS_REGS 17u

struct ips_unwind_stack {
    uint64_t reg[IPS_REGS];
    uint32_t known; /* bit i: reg[i] is known */
    /* Readable part of the stack, set by the caller. If SP is not within it, no
     * frame is read. */
    uint64_t low, end;
};

/* Fills *u with the registers of a signal's context; sets low = end = 0. */
void ips_unwind_load_context(struct ips_unwind_stack *u, const ucontext_t *uc);

/* Fills *u with the current registers of the calling function; sets low = end =
 * 0. */
#if defined(__x86_64__)
#define IPS_UNWIND_HERE(u)                                                     \
    do {                                                                       \
        (u)->known = 1u << IPS_REG_PC | 1u << IPS_REG_SP | 1u << IPS_REG_FP |  \
                     1u << IPS_REG_BX | 0xfu << 12;                            \
        (u)->low = (u)->end = 0;                                               \
        __asm__ volatile("leaq 0(%%rip), %%rax\n\t"                            \
                         "movq %%rax, 128(%0)\n\t"                             \
                         "movq %%rbx, 24(%0)\n\t"                              \
                         "movq %%rbp, 48(%0)\n\t"                              \
                         "movq %%rsp, 56(%0)\n\t"                              \
                         "movq %%r12, 96(%0)\n\t"                              \
                         "movq %%r13, 104(%0)\n\t"                             \
                         "movq %%r14, 112(%0)\n\t"                             \
                         "movq %%r15, 120(%0)"                                 \
                         :                                                     \
                         : "r"((u)->reg)                                       \
                         : "rax", "memory");                                   \
    } while (0)
#elif defined(__aarch64__)
#define IPS_UNWIND_HERE(u)                                                     \
    do {                                                                       \
        (u)->known = 1u << IPS_REG_PC | 1u << IPS_REG_SP | 1u << IPS_REG_FP;   \
        (u)->low = (u)->end = 0;                                               \
        __asm__ volatile("adr x9, .\n\tstr x9, [%0, 128]\n\t"                  \
                         "str x29, [%0, 48]\n\t"                               \
                         "mov x9, sp\n\tstr x9, [%0, 56]"                      \
                         :                                                     \
                         : "r"((u)->reg)                                       \
                         : "x9", "memory");                                    \
    } while (0)
#endif

/* Returns the stack pointer of the function into which this is inlined. */
static inline __attribute__((always_inline)) uint64_t ips_stack_pointer(void)
{
    uint64_t sp;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %0" : "=r"(sp));
#elif defined(__aarch64__)
    __asm__ volatile("mov %0, sp" : "=r"(sp));
#endif
    return sp;
}

/* Fills `frames`: the program counter first, then return addresses, outwards.
 * Returns their number, at most `max`; at least 1 if max > 0. Changes `u`. */
uint32_t ips_unwind_stack(struct ips_unwind_stack *u, uint64_t *frames,
                          uint32_t max);

/* Clears the cached rules. Call it after a module was unloaded. */
void ips_unwind_clear_rules(void);

#endif
