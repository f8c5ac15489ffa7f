/* long ips_own_table_clone(void (*run)(void *), void *work, uint32_t *gone,
 * uint32_t *tid, unsigned flags, void *stack): a thread, or a process with the same
 * memory. `stack` is the upper end of its stack, a multiple of 16. NULL: its stack begins
 * GAP below the caller's, who does nothing but wait. The kernel stores its
 * tid into *tid before it runs, and 0 into *gone when it has ended, and wakes who waits
 * there. Without CLONE_SETTLS it has its maker's thread-local variables. */
#include <asm/unistd.h>

#define GAP 1024

    .text
    .globl ips_own_table_clone
    .hidden ips_own_table_clone
    .type ips_own_table_clone, %function
    .p2align 4
ips_own_table_clone:
    .cfi_startproc
#if defined(__x86_64__)
    testq %r9, %r9
    jnz 0f
    leaq -GAP(%rsp), %r9
    andq $-16, %r9
0:
    movq %rsi, -8(%r9) /* r8 is an argument: the thread-local variables' */
    leaq -16(%r9), %rsi
    movq %rdi, %r9 /* no argument that the kernel looks at */
    movq %rdx, %r10
    movq %rcx, %rdx
    movl %r8d, %edi
    xorl %r8d, %r8d
    movl $__NR_clone, %eax
    syscall
    testq %rax, %rax
    jz 1f
    ret
1:
    .cfi_undefined rip
    xorl %ebp, %ebp
    movq 8(%rsp), %rdi
    call *%r9
    xorl %edi, %edi
    movl $__NR_exit, %eax
    syscall
    hlt
#elif defined(__aarch64__)
    mov x9, x0
    mov x10, x1
    mov w0, w4
    mov x4, x2
    mov x2, x3
    sub x1, sp, #GAP
    cmp x5, xzr
    csel x1, x1, x5, eq
    mov x3, xzr
    mov x8, #__NR_clone
    svc 0
    cbz x0, 1f
    ret
1:
    .cfi_undefined x30
    mov x29, xzr
    mov x0, x10
    blr x9
    mov x0, xzr
    mov x8, #__NR_exit
    svc 0
    brk 1
#else
#error "own_table_clone.S: no clone for this architecture yet"
#endif
    .cfi_endproc
    .size ips_own_table_clone, . - ips_own_table_clone

    .section .note.GNU-stack, "", %progbits
