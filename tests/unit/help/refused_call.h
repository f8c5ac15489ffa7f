/*
 * Lets the kernel refuse a system call of this process and of those that it
 * starts, from now on (seccomp). Header only.
 */
#ifndef IPS_TESTS_UNIT_HELP_REFUSED_CALL_H
#define IPS_TESTS_UNIT_HELP_REFUSED_CALL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Call `number` is not made and fails with `error` (0: it returns 0) where the
 * lower half of its argument `arg`, from 0, is `value`; with arg < 0 each time.
 * false: this is not permitted here. */
static inline bool refuse_call(long number, int arg, uint32_t value, int error)
{
    const uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) +
                                   8 * (size_t)(arg < 0 ? 0 : arg));
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    if (arg < 0) /* whatever it is */
        code[3] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0, 0, 1);
    const struct sock_fprog filter = {.len = sizeof(code) / sizeof(*code),
                                      .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

#endif
