/*
 * What stands in the place of a real function until it is called first
 * (preload/start/find.c): finds it and goes on there, with every register as it was.
 * Stub number n lies 8 * n behind ips_stubs.
 */
#define STUBS 256 /* IPS_STUBS in wrap.h */

#if defined(__x86_64__)

    .section .text.stubs, "ax", %progbits
    .globl ips_stubs
    .hidden ips_stubs
    .type ips_stubs, @function
    .p2align 4
ips_stubs:
    .cfi_startproc
    .cfi_def_cfa_offset 16 /* past the calls below */
    .rept STUBS
    .p2align 3
    call 1f /* its return address says which */
    .endr
    .p2align 3
1:
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -24
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
    movq 8(%rbp), %rdi
    leaq ips_stubs(%rip), %rax
    subq %rax, %rdi
    shrq $3, %rdi
    call ips_find_and_store_real_of_stub
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
    .cfi_def_cfa %rsp, 16
    addq $8, %rsp
    .cfi_def_cfa_offset 8
    jmp *%r11
    .cfi_endproc
    .size ips_stubs, . - ips_stubs

#elif defined(__aarch64__)

    .section .text.stubs, "ax", %progbits
    .globl ips_stubs
    .hidden ips_stubs
    .type ips_stubs, %function
    .p2align 4
ips_stubs:
    .cfi_startproc
    .set number, 0
    .rept STUBS
    mov w16, #number
    b 1f
    .set number, number + 1
    .endr
1:
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov w0, w16
    bl ips_find_and_store_real_of_stub
    mov x16, x0
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldr x8, [sp, #80]
    ldp x6, x7, [sp, #64]
    ldp x4, x5, [sp, #48]
    ldp x2, x3, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #224
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size ips_stubs, . - ips_stubs

#endif

    .section .note.GNU-stack, "", %progbits
