/* System calls that newer architectures have no number for: there the number of
 * the one that replaced it. */
#ifndef OLD_NUMBERS_H
#define OLD_NUMBERS_H

#include <sys/syscall.h>

#ifdef SYS_open
#define OLD_OPEN(path, flags) syscall(SYS_open, path, flags, 0600)
#define OLD_PIPE(ends) syscall(SYS_pipe, ends)
#define OLD_DUP2(from, to) syscall(SYS_dup2, from, to)
#define OLD_POLL(fds, n, ms) syscall(SYS_poll, fds, n, ms)
#define OLD_SELECT(n, rd, wr) syscall(SYS_select, n, rd, wr, NULL, NULL)
#define OLD_EPOLL_WAIT(ep, events) syscall(SYS_epoll_wait, ep, events, 1, -1)
#define OLD_PAUSE(set) syscall(SYS_pause)
#define OLD_FORK() syscall(SYS_fork)
#else
#define OLD_OPEN(path, flags) syscall(SYS_openat, AT_FDCWD, path, flags, 0600)
#define OLD_PIPE(ends) syscall(SYS_pipe2, ends, 0)
#define OLD_DUP2(from, to) syscall(SYS_dup3, from, to, 0)
#define OLD_POLL(fds, n, ms) syscall(SYS_ppoll, fds, n, NULL, NULL, 8)
#define OLD_SELECT(n, rd, wr) syscall(SYS_pselect6, n, rd, wr, NULL, NULL, NULL)
#define OLD_EPOLL_WAIT(ep, events)                                             \
    syscall(SYS_epoll_pwait, ep, events, 1, -1, NULL, 8)
#define OLD_PAUSE(set) syscall(SYS_rt_sigsuspend, set, 8)
#define OLD_FORK() syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)
#endif

#endif
