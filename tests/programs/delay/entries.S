/*
 * The entries of delay.so: asks delay_before() for the real function, with the
 * number of the function and the caller's address, and goes on there with every
 * argument register as it was. The return address stays the caller's, so that
 * the place that called is still seen behind us.
 */
#if defined(__x86_64__)
    .text
    .set number, 0
#define CALL(name) \
    .globl name; .type name, @function; .p2align 4; name: ; \
    endbr64; movl $number, %r11d; jmp common; .size name, . - name; \
    .set number, number + 1;
#include "calls.h"

    .p2align 4
common:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    pushq %r10
    subq $128, %rsp
    andq $-16, %rsp
    movups %xmm0, (%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    movl %r11d, %edi
    movq 8(%rbp), %rsi
    call delay_before
    movq %rax, %r11
    movups (%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    leaq -64(%rbp), %rsp
    popq %r10
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rbp
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc

#elif defined(__aarch64__)
    .text
    .set number, 0
#define CALL(name) \
    .globl name; .type name, %function; .p2align 4; name: ; \
    mov w16, number; b common; .size name, . - name; \
    .set number, number + 1;
#include "calls.h"

    .p2align 4
common:
    .cfi_startproc
    stp x29, x30, [sp, -224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    stp x0, x1, [sp, 16]
    stp x2, x3, [sp, 32]
    stp x4, x5, [sp, 48]
    stp x6, x7, [sp, 64]
    str x8, [sp, 80]
    stp q0, q1, [sp, 96]
    stp q2, q3, [sp, 128]
    stp q4, q5, [sp, 160]
    stp q6, q7, [sp, 192]
    mov w0, w16
    mov x1, x30
    bl delay_before
    mov x16, x0
    ldp q0, q1, [sp, 96]
    ldp q2, q3, [sp, 128]
    ldp q4, q5, [sp, 160]
    ldp q6, q7, [sp, 192]
    ldr x8, [sp, 80]
    ldp x6, x7, [sp, 64]
    ldp x4, x5, [sp, 48]
    ldp x2, x3, [sp, 32]
    ldp x0, x1, [sp, 16]
    ldp x29, x30, [sp], 224
    br x16
    .cfi_endproc
#endif

    .section .note.GNU-stack, "", %progbits
