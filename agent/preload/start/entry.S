/*
 * vfork and syscall. The child of a vfork runs on its parent's stack and
 * returns through it, so no frame may lie between the caller and the system
 * call: the return address is kept in a register over it, as libc does.
 *
 * long syscall(long n, ...): vfork goes to ours; a clone that shares memory is
 * made here, as libc would, and not recorded; everything else is ips_syscall in
 * C, which takes the same registers.
 */
#include <asm/unistd.h>

#define CLONE_VM 0x100

#if defined(__x86_64__)

    .text
    .globl vfork
    .type vfork, @function
    .globl __vfork
    .type __vfork, @function
    .p2align 4
vfork:
__vfork:
    .cfi_startproc
    endbr64
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq 8(%rsp), %rdi /* the call's place */
    call ips_vfork_prepare_record
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdi
    movl $__NR_vfork, %eax
    syscall
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rip, -8
    testq %rax, %rax
    jz 1f /* the child */
    movq %rax, %rdi
    jmp ips_vfork_record_in_parent
1:
    ret
    .cfi_endproc
    .size vfork, . - vfork
    .size __vfork, . - __vfork

    .globl syscall
    .type syscall, @function
    .p2align 4
syscall:
    .cfi_startproc
    endbr64
    cmpq $__NR_vfork, %rdi
    je vfork
    cmpq $__NR_clone3, %rdi
    je 2f
    cmpq $__NR_clone, %rdi
    jne ips_syscall
    testq $CLONE_VM, %rsi
    jz ips_syscall
2:  /* as libc's syscall: the child finds its return address in place */
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    movq %r9, %r8
    movq 8(%rsp), %r9
    syscall
    cmpq $-4095, %rax
    jae 3f
    ret
3:
    movq %rax, %rdi
    jmp ips_syscall_set_errno
    .cfi_endproc
    .size syscall, . - syscall

#elif defined(__aarch64__)

    .text
    .globl vfork
    .type vfork, %function
    .globl __vfork
    .type __vfork, %function
    .p2align 4
vfork:
__vfork:
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x0, x30 /* the call's place */
    bl ips_vfork_prepare_record
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    mov x0, #0x4111 /* CLONE_VM | CLONE_VFORK | SIGCHLD */
    mov x1, xzr
    mov x2, xzr
    mov x3, xzr
    mov x4, xzr
    mov x8, #__NR_clone
    svc 0
    cbz x0, 1f /* the child */
    b ips_vfork_record_in_parent
1:
    ret
    .cfi_endproc
    .size vfork, . - vfork
    .size __vfork, . - __vfork

    .globl syscall
    .type syscall, %function
    .p2align 4
syscall:
    .cfi_startproc
    cmp x0, #__NR_clone3
    b.eq 2f
    cmp x0, #__NR_clone
    b.ne 3f
    tbz x1, #8, 3f /* CLONE_VM */
2:  /* as libc's syscall */
    mov x8, x0
    mov x0, x1
    mov x1, x2
    mov x2, x3
    mov x3, x4
    mov x4, x5
    mov x5, x6
    svc 0
    cmn x0, #4095
    b.cs 4f
    ret
3:  b ips_syscall /* a conditional branch does not reach far enough */
4:  b ips_syscall_set_errno
    .cfi_endproc
    .size syscall, . - syscall

#else
#error "preload/start/entry.S: no vfork for this architecture yet"
#endif

    .hidden ips_vfork_prepare_record
    .hidden ips_vfork_record_in_parent
    .hidden ips_syscall
    .hidden ips_syscall_set_errno
    .section .note.GNU-stack, "", %progbits
