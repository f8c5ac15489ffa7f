/* System calls by their numbers, which syscall() hands to the wrapper of the
 * function: each with arguments that differ from one another, and what it
 * returned or wrote compared here with what the kernel's call means. */
#include "failures.h"

#include <asm/socket.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "old_numbers.h"

static int out[2], twin[2]; /* a pipe that waits, a pair that waits */
static char text[] = "the bytes of a file, or of a message";
static struct iovec two[2] = {{text, 5}, {text + 10, 7}};
static char in_a[5], in_b[40];
static struct iovec into[2] = {{in_a, 5}, {in_b, 40}};
static long got;

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }
/* The result, and whether what is to be true after the call is so. */
#define AND(name, call, good)                                                  \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(got = (call));                                                    \
        must(good);                                                            \
    }
static bool same(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

/* --- bytes --- */

static void case_write(void)
{
    must(pipe(out) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, twin) == 0);
    name_end("out.r", out[0], "read");
    name_end("out.w", out[1], "write");
    name_end("twin.0", twin[0], "both");
    name_end("twin.1", twin[1], "both");
    CALL(syscall(SYS_write, out[1], text, 11));
}
AND(read, syscall(SYS_read, out[0], buf, 20), same(buf, text, 11))
ONE(writev, syscall(SYS_writev, out[1], two, 2))
AND(readv, syscall(SYS_readv, out[0], into, 2),
    same(in_a, text, 5) && same(in_b, text + 10, 7))
ONE(pwritev2, syscall(SYS_pwritev2, out[1], two, 1, -1l, -1l, 0))
AND(preadv2, syscall(SYS_preadv2, out[0], into, 2, -1l, -1l, 0),
    same(in_a, text, 5))
ONE(preadv2_flags, syscall(SYS_preadv2, empty[0], into, 1, -1l, -1l, 0x7000))
ONE(pwritev2_flags, syscall(SYS_pwritev2, empty[1], into, 1, -1l, -1l, 0x7000))
ONE(sendto, syscall(SYS_sendto, twin[0], text, 9, MSG_NOSIGNAL, NULL, 0))
AND(recvfrom, syscall(SYS_recvfrom, twin[1], buf, 20, MSG_TRUNC, NULL, NULL),
    got == 9)
static struct msghdr gather = {.msg_iov = two, .msg_iovlen = 2},
                     scatter = {.msg_iov = into, .msg_iovlen = 2};
ONE(sendmsg, syscall(SYS_sendmsg, twin[1], &gather, MSG_NOSIGNAL))
AND(recvmsg, syscall(SYS_recvmsg, twin[0], &scatter, MSG_CMSG_CLOEXEC),
    same(in_b, text + 10, 7))
static struct mmsghdr many[2] = {
    {.msg_hdr = {.msg_iov = two, .msg_iovlen = 1}},
    {.msg_hdr = {.msg_iov = two + 1, .msg_iovlen = 1}}};
AND(sendmmsg, syscall(SYS_sendmmsg, twin[0], many, 2, MSG_NOSIGNAL),
    many[0].msg_len == 5 && many[1].msg_len == 7)
static struct mmsghdr answers[2] = {
    {.msg_hdr = {.msg_iov = into, .msg_iovlen = 1}},
    {.msg_hdr = {.msg_iov = into + 1, .msg_iovlen = 1}}};
AND(recvmmsg, syscall(SYS_recvmmsg, twin[1], answers, 2, MSG_DONTWAIT, NULL),
    same(in_a, text, 5) && same(in_b, text + 10, 7))

/* --- between descriptors; files --- */
static int file = -1, file2 = -1;
static char name[] = "/tmp/i_failures-XXXXXX",
            name2[] = "/tmp/i_failures-XXXXXX";
static off_t at = 4;
static off64_t at2 = 6;

static void case_pwrite64(void)
{
    file = mkstemp(name);
    file2 = mkstemp(name2);
    must(file >= 0 && file2 >= 0 && unlink(name2) == 0);
    CALL(syscall(SYS_pwrite64, file, text, sizeof(text), 0l));
}
AND(pread64, syscall(SYS_pread64, file, buf, 6, 3l), same(buf, text + 3, 6))
ONE(pwritev, syscall(SYS_pwritev, file2, two, 2, 20l, 0l))
AND(preadv, syscall(SYS_preadv, file2, into, 2, 20l, 0l),
    same(in_a, text, 5) && same(in_b, text + 10, 7))
AND(sendfile, syscall(SYS_sendfile, out[1], file, &at, 8ul), at == 12)
AND(splice, syscall(SYS_splice, out[0], NULL, twin[0], NULL, 6ul, 0),
    read(twin[1], buf, 20) == 6 && same(buf, text + 4, 6))
ONE(splice_flags, syscall(SYS_splice, empty[0], NULL, empty[1], NULL, 6ul, 77))
AND(splice_to_file, syscall(SYS_splice, out[0], NULL, file2, &at2, 50ul, 0),
    at2 == 8 && pread(file2, buf, 2, 6) == 2 && same(buf, text + 10, 2))
ONE(vmsplice, syscall(SYS_vmsplice, out[1], two, 2ul, 0))
AND(tee, syscall(SYS_tee, out[0], empty[1], 9ul, 0),
    read(empty[0], buf, 90) == 9 && read(out[0], buf, 90) == 12)
ONE(vmsplice_flags, syscall(SYS_vmsplice, out[1], two, 2ul, 0x100))
ONE(tee_flags, syscall(SYS_tee, out[0], empty[1], 9ul, 0x100))
AND(copy_file_range,
    syscall(SYS_copy_file_range, file, &at, file2, &at2, 5ul, 0),
    at == 17 && at2 == 13 && pread(file2, buf, 5, 8) == 5 &&
        same(buf, text + 12, 5))
ONE(copy_flags, syscall(SYS_copy_file_range, file, &at, file2, &at2, 5ul, 9))
ONE(fsync, syscall(SYS_fsync, file))
ONE(fdatasync, syscall(SYS_fdatasync, file))
ONE(syncfs_badf, syscall(SYS_syncfs, CLOSED))
ONE(sync_file_range, syscall(SYS_sync_file_range, file, 0l, 4096l, 2))
ONE(sync_range_inval, syscall(SYS_sync_file_range, file, -1l, 4096l, 2))
ONE(sync_range_flags, syscall(SYS_sync_file_range, file, 0l, 4096l, 64))
static char *map;
static void case_msync(void)
{
    map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file2, 0);
    must(map != MAP_FAILED);
    CALL(syscall(SYS_msync, map, 4096ul, MS_SYNC));
}
ONE(msync_nomem, syscall(SYS_msync, map + 8192 * 1024, 4096ul, MS_SYNC))
ONE(msync_flags, syscall(SYS_msync, map, 4096ul, 64))

/* --- locks and queues: nobody waits --- */
ONE(flock, syscall(SYS_flock, file, LOCK_EX))
static void case_flock_un(void)
{
    name_end("file", file, "both");
    CALL(syscall(SYS_flock, file, LOCK_UN));
}
static struct flock part = {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4};
ONE(setlk, syscall(SYS_fcntl, file, F_SETLK, &part))
static void case_setlk_un(void)
{
    part.l_type = F_UNLCK;
    CALL(syscall(SYS_fcntl, file, F_SETLK, &part));
}
static int sems = -1, queue = -1;
static mqd_t mq = -1;
static struct sembuf ups[2] = {{1, 3, 0}, {0, 2, 0}}, down = {1, -1, 0};
static const struct timespec ms30 = {0, 30000000};
static struct message {
    long type;
    char text[8];
} message = {5, "eightxx"}, received;
static void case_semop(void)
{
    sems = semget(IPC_PRIVATE, 2, 0600);
    must(sems >= 0 && semctl(sems, 0, SETVAL, 0) == 0 &&
         semctl(sems, 1, SETVAL, 0) == 0);
    printf("[sems %d] ", sems);
    CALL(syscall(SYS_semop, sems, ups, 2ul));
    must(semctl(sems, 0, GETVAL) == 2 && semctl(sems, 1, GETVAL) == 3);
}
AND(semtimedop, syscall(SYS_semtimedop, sems, &down, 1ul, &ms30),
    semctl(sems, 1, GETVAL) == 2 && semctl(sems, 1, SETVAL, 0) == 0)
AND(semtimedop_again, syscall(SYS_semtimedop, sems, &down, 1ul, &ms30),
    semctl(sems, 0, IPC_RMID) == 0)
static void case_msgsnd(void)
{
    queue = msgget(IPC_PRIVATE, 0600);
    must(queue >= 0);
    printf("[queue %d] ", queue);
    CALL(syscall(SYS_msgsnd, queue, &message, 6ul, 0));
}
ONE(msgrcv_nomsg, syscall(SYS_msgrcv, queue, &received, 8ul, 7l, IPC_NOWAIT))
AND(msgrcv, syscall(SYS_msgrcv, queue, &received, 8ul, 5l, 0),
    received.type == 5 && same(received.text, "eightx", 6) &&
        msgctl(queue, IPC_RMID, NULL) == 0)
static unsigned priority;
static void case_mq_timedsend(void)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
    char path[40];
    snprintf(path, sizeof(path), "/ips-numbers-%d", (int)getpid());
    mq = mq_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
    must(mq >= 0 && mq_unlink(path) == 0);
    name_end("mq", mq, "both");
    CALL(syscall(SYS_mq_timedsend, mq, text, 7ul, 4u, NULL));
}
AND(mq_timedsend_full, syscall(SYS_mq_timedsend, mq, text, 7ul, 4u, &ms30),
    got == -1)
AND(mq_timedreceive,
    syscall(SYS_mq_timedreceive, mq, buf, 8ul, &priority, NULL),
    priority == 4 && same(buf, text, 7))
AND(mq_timedreceive_none,
    syscall(SYS_mq_timedreceive, mq, buf, 8ul, &priority, &ms30), got == -1)
static int word = 5;
ONE(futex_wake, syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1))
ONE(futex_wait, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &ms30))
static void case_futex_pi(void)
{
    word = 0;
    CALL(syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL));
    must(word == (int)syscall(SYS_gettid));
    printf("[word %p]\n", (void *)&word);
}
#ifdef SYS_futex_waitv
static void case_futex_waitv(void)
{
    struct futex_waitv one = {.val = (uint32_t)word,
                              .uaddr = (uint64_t)(uintptr_t)&word,
                              .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
    struct timespec end = from_now(CLOCK_MONOTONIC, 30);
    CALL(syscall(SYS_futex_waitv, &one, 1, 0, &end, CLOCK_MONOTONIC));
}
#endif
ONE(futex_unlock_pi, syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE))

/* --- descriptors --- */
static int fd = -1, peer = -1, listening = -1, p[2];
static struct sockaddr_in here = {.sin_family = AF_INET};
static socklen_t here_len = sizeof(here);

ONE(openat, (fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR, 0)) >= 0)
AND(close, syscall(SYS_close, fd), read(fd, buf, 1) == -1)
AND(open, fd = (int)OLD_OPEN(name, O_WRONLY),
    fcntl(fd, F_GETFL) & O_WRONLY && close(fd) == 0 && unlink(name) == 0)
static void case_pipe2(void)
{
    CALL(syscall(SYS_pipe2, p, O_CLOEXEC));
    name_end("made.r", p[0], "read");
    name_end("made.w", p[1], "write");
    must(fcntl(p[0], F_GETFD) == FD_CLOEXEC);
}
ONE(dup_end, (fd = (int)syscall(SYS_dup, p[0])) >= 0)
AND(dup3_end, syscall(SYS_dup3, p[1], fd, O_CLOEXEC) - fd,
    fcntl(fd, F_GETFD) == FD_CLOEXEC)
AND(dup2_end, OLD_DUP2(p[0], fd) - fd, fcntl(fd, F_GETFD) == 0)
AND(fcntl_end, syscall(SYS_fcntl, p[0], F_DUPFD, 700l), got == 700)
AND(close_range_one, syscall(SYS_close_range, 700, 701, 0),
    read(700, buf, 1) == -1)
static void case_close_all(void)
{
    close(p[0]);
    close(p[1]);
    CALL(syscall(SYS_close, fd));
}
static void case_pipe(void)
{
    CALL(OLD_PIPE(p));
    name_end("made2.r", p[0], "read");
    name_end("made2.w", p[1], "write");
    close(p[0]);
    close(p[1]);
}
static void case_socketpair(void)
{
    CALL(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, p));
    name_end("made.0", p[0], "both");
    name_end("made.1", p[1], "both");
}
AND(shutdown_one, syscall(SYS_shutdown, p[0], SHUT_WR), read(p[1], buf, 1) == 0)
static void case_listen(void)
{
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    must(bind(listening, (struct sockaddr *)&here, here_len) == 0);
    name_end("listening", listening, "both");
    CALL(syscall(SYS_listen, listening, 5));
    must(getsockname(listening, (struct sockaddr *)&here, &here_len) == 0);
    uint64_t net = 0;
    socklen_t n = sizeof(net);
    must(getsockopt(listening, SOL_SOCKET, SO_NETNS_COOKIE, &net, &n) == 0);
    printf("[net %lu] [port %d]\n", (unsigned long)net, ntohs(here.sin_port));
}
static void case_connect(void)
{
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CALL(syscall(SYS_connect, fd, &here, here_len));
    name_end("asks", fd, "both");
}
static void case_accept(void)
{
    struct sockaddr_in from, mine;
    socklen_t n = sizeof(from), m = sizeof(mine);
    CALL((peer = (int)syscall(SYS_accept, listening, &from, &n)) >= 0);
    must(getsockname(fd, (struct sockaddr *)&mine, &m) == 0 &&
         from.sin_port == mine.sin_port && n == sizeof(from));
    name_end("answers", peer, "both");
}
static void case_setsockopt(void)
{
    int one = 1, is = 0;
    socklen_t n = sizeof(is);
    CALL(syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_KEEPALIVE, &one,
                 sizeof(one)));
    must(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is, &n) == 0 && is == 1);
}
static void case_accept4(void)
{
    must(close(fd) == 0 && close(peer) == 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&here, here_len) == 0);
    CALL((peer = (int)syscall(SYS_accept4, listening, NULL, NULL,
                              SOCK_CLOEXEC)) >= 0);
    must(fcntl(peer, F_GETFD) == FD_CLOEXEC);
    name_end("answers2", peer, "both");
}

/* --- waits --- */
static struct pollfd ready(void)
{
    return (struct pollfd){.fd = empty[1], .events = POLLOUT};
}
static void case_poll(void)
{
    struct pollfd f = ready();
    CALL(OLD_POLL(&f, 1, 100000));
    must(f.revents == POLLOUT);
}
static void case_ppoll(void)
{
    struct pollfd f = ready();
    struct timespec ts = ms30;
    CALL(syscall(SYS_ppoll, &f, 1, &ts, NULL, 8));
    must(f.revents == POLLOUT);
}
static void case_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(empty[1], &set);
    CALL(OLD_SELECT(empty[1] + 1, NULL, &set));
}
static void case_pselect6(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(empty[1], &set);
    CALL(syscall(SYS_pselect6, empty[1] + 1, NULL, &set, NULL, NULL, NULL));
}
static struct epoll_event event = {.events = EPOLLOUT};
static int ep = -1;
static void case_epoll_wait(void)
{
    ep = epoll_create1(0);
    must(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, empty[1], &event) == 0);
    CALL(OLD_EPOLL_WAIT(ep, &event));
}
ONE(epoll_pwait, syscall(SYS_epoll_pwait, ep, &event, 1, -1, NULL, 8))
ONE(epoll_pwait2, syscall(SYS_epoll_pwait2, ep, &event, 1, &ms30, NULL, 8))
ONE(nanosleep, syscall(SYS_nanosleep, &ms30, NULL))
ONE(clock_nanosleep,
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ms30, NULL))
static sigset_t usr1;
static void case_rt_sigtimedwait(void)
{
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    must(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0 && raise(SIGUSR1) == 0);
    CALL(syscall(SYS_rt_sigtimedwait, &usr1, NULL, NULL, 8));
}
static void case_rt_sigsuspend(void)
{
    alarms_begin();
    CALL(syscall(SYS_rt_sigsuspend, &usr1, 8));
    alarms_end();
}
static void case_pause_number(void)
{
    alarms_begin();
    CALL(OLD_PAUSE(&usr1));
    alarms_end();
}

/* --- signals, taken one after the other: SIGUSR1 is blocked --- */
#define SENT(name, call)                                                       \
    static void case_##name(void)                                              \
    {                                                                          \
        siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGUSR1};           \
        int pid = getpid(), tid = (int)syscall(SYS_gettid);                    \
        (void)tid, (void)pid;                                                  \
        CALL(call);                                                            \
        must(sigwaitinfo(&usr1, &info) == SIGUSR1);                            \
    }
SENT(kill_number, syscall(SYS_kill, pid, SIGUSR1))
SENT(tgkill_number, syscall(SYS_tgkill, pid, tid, SIGUSR1))
SENT(tkill_number, syscall(SYS_tkill, tid, SIGUSR1))
SENT(rt_sigqueueinfo, syscall(SYS_rt_sigqueueinfo, pid, SIGUSR1, &info))
SENT(rt_tgsigqueueinfo,
     syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGUSR1, &info))
static void case_pidfd_open(void)
{
    CALL((fd = (int)syscall(SYS_pidfd_open, getpid(), 0)) >= 0);
}
SENT(pidfd_send, syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0))
SENT(pidfd_queue, syscall(SYS_pidfd_send_signal, fd, SIGUSR1, &info, 0))
ONE(pidfd_asks, syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0))

/* A handler that signal() and sigaction() set is told to who asks by number. */
static void handler(int sig)
{
    (void)sig;
}
static void handler3(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    (void)context;
}
struct raw {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};
static void case_rt_sigaction(void)
{
    struct raw old = {0};
    signal(SIGUSR2, handler);
    CALL(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &old, 8));
    must(old.handler == (void *)(uintptr_t)handler);
    must(!(old.flags & SA_SIGINFO));
}
static void case_rt_sigaction_info(void)
{
    struct raw old = {0};
    struct sigaction act = {.sa_sigaction = handler3, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGUSR2, &act, NULL) == 0);
    CALL(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &old, 8));
    must(old.handler == (void *)(uintptr_t)handler3);
    must(old.flags & SA_SIGINFO);
}
static void case_rt_sigaction_sets(void)
{
    struct raw old = {0}, ignore = {.handler = (void *)1}; /* SIG_IGN */
    CALL(syscall(SYS_rt_sigaction, SIGUSR2, &ignore, &old, 8));
    must(old.handler == (void *)(uintptr_t)handler3);
    must(raise(SIGUSR2) == 0);
}

/* --- processes --- */
static pid_t forked;
static siginfo_t ended;
static int status;
static long as_fork(long r)
{
    if (r == 0)
        syscall(SYS_exit_group, 3);
    forked = (pid_t)r;
    return r > 0;
}
ONE(fork_number, as_fork(OLD_FORK()))
AND(wait4, syscall(SYS_wait4, forked, &status, 0, NULL) == forked,
    WEXITSTATUS(status) == 3)
ONE(clone_number, as_fork(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)))
AND(waitid_number, syscall(SYS_waitid, P_PID, forked, &ended, WEXITED, NULL),
    ended.si_pid == forked && ended.si_status == 3)
static struct rusage usage;
static void case_waitid_usage(void)
{
    must(as_fork(OLD_FORK()));
    CALL(syscall(SYS_waitid, P_PID, forked, &ended, WEXITED, &usage));
    must(ended.si_pid == forked && ended.si_status == 3 && usage.ru_minflt > 0);
}
static void case_waitid_no_info(void)
{
    must(as_fork(OLD_FORK()));
    CALL(syscall(SYS_waitid, P_PID, forked, NULL, WEXITED, &usage));
}
ONE(waitid_no_child, syscall(SYS_waitid, P_PID, forked, NULL, WEXITED, &usage))
static void case_waitid_fault(void) /* the child is gone nevertheless */
{
    must(as_fork(OLD_FORK()));
    CALL(syscall(SYS_waitid, P_PID, forked, (void *)8, WEXITED, NULL));
}
ONE(waitid_reaped, syscall(SYS_waitid, P_PID, forked, NULL, WEXITED, NULL))
static char no_program[] = "/nonexistent/program";
static char *words[] = {no_program, NULL}, *none[] = {NULL};
ONE(execve_number, syscall(SYS_execve, no_program, words, none))
ONE(execveat_number,
    syscall(SYS_execveat, AT_FDCWD, no_program, words, none, 0))
AND(prctl_number, syscall(SYS_prctl, PR_SET_DUMPABLE, 1l, 0l, 0l, 0l),
    prctl(PR_GET_DUMPABLE) == 1)
AND(other_number, syscall(SYS_getpid) == getpid(), got == 1)
AND(six_words,
    syscall(SYS_mmap, NULL, 4096ul, PROT_READ, MAP_SHARED, file2, 0ul) > 0,
    got == 1)

const struct one_case number_cases[] = {CASE(write),
                                        CASE(read),
                                        CASE(writev),
                                        CASE(readv),
                                        CASE(pwritev2),
                                        CASE(preadv2),
                                        CASE(preadv2_flags),
                                        CASE(pwritev2_flags),
                                        CASE(sendto),
                                        CASE(recvfrom),
                                        CASE(sendmsg),
                                        CASE(recvmsg),
                                        CASE(sendmmsg),
                                        CASE(recvmmsg),
                                        CASE(pwrite64),
                                        CASE(pread64),
                                        CASE(pwritev),
                                        CASE(preadv),
                                        CASE(sendfile),
                                        CASE(splice),
                                        CASE(splice_flags),
                                        CASE(splice_to_file),
                                        CASE(vmsplice),
                                        CASE(tee),
                                        CASE(vmsplice_flags),
                                        CASE(tee_flags),
                                        CASE(copy_file_range),
                                        CASE(copy_flags),
                                        CASE(fsync),
                                        CASE(fdatasync),
                                        CASE(syncfs_badf),
                                        CASE(sync_file_range),
                                        CASE(sync_range_inval),
                                        CASE(sync_range_flags),
                                        CASE(msync),
                                        CASE(msync_nomem),
                                        CASE(msync_flags),
                                        CASE(flock),
                                        CASE(flock_un),
                                        CASE(setlk),
                                        CASE(setlk_un),
                                        CASE(semop),
                                        CASE(semtimedop),
                                        CASE(semtimedop_again),
                                        CASE(msgsnd),
                                        CASE(msgrcv_nomsg),
                                        CASE(msgrcv),
                                        CASE(mq_timedsend),
                                        CASE(mq_timedsend_full),
                                        CASE(mq_timedreceive),
                                        CASE(mq_timedreceive_none),
                                        CASE(futex_wake),
                                        CASE(futex_wait),
                                        CASE(futex_pi),
                                        CASE(futex_unlock_pi),
#ifdef SYS_futex_waitv
                                        CASE(futex_waitv),
#endif
                                        CASE(openat),
                                        CASE(close),
                                        CASE(open),
                                        CASE(pipe2),
                                        CASE(dup_end),
                                        CASE(dup3_end),
                                        CASE(dup2_end),
                                        CASE(fcntl_end),
                                        CASE(close_range_one),
                                        CASE(close_all),
                                        CASE(pipe),
                                        CASE(socketpair),
                                        CASE(shutdown_one),
                                        CASE(listen),
                                        CASE(connect),
                                        CASE(accept),
                                        CASE(setsockopt),
                                        CASE(accept4),
                                        CASE(poll),
                                        CASE(ppoll),
                                        CASE(select),
                                        CASE(pselect6),
                                        CASE(epoll_wait),
                                        CASE(epoll_pwait),
                                        CASE(epoll_pwait2),
                                        CASE(nanosleep),
                                        CASE(clock_nanosleep),
                                        CASE(rt_sigtimedwait),
                                        CASE(rt_sigsuspend),
                                        CASE(pause_number),
                                        CASE(kill_number),
                                        CASE(tgkill_number),
                                        CASE(tkill_number),
                                        CASE(rt_sigqueueinfo),
                                        CASE(rt_tgsigqueueinfo),
                                        CASE(pidfd_open),
                                        CASE(pidfd_send),
                                        CASE(pidfd_queue),
                                        CASE(pidfd_asks),
                                        CASE(rt_sigaction),
                                        CASE(rt_sigaction_info),
                                        CASE(rt_sigaction_sets),
                                        CASE(fork_number),
                                        CASE(wait4),
                                        CASE(clone_number),
                                        CASE(waitid_number),
                                        CASE(waitid_usage),
                                        CASE(waitid_no_info),
                                        CASE(waitid_no_child),
                                        CASE(waitid_fault),
                                        CASE(waitid_reaped),
                                        CASE(execve_number),
                                        CASE(execveat_number),
                                        CASE(prctl_number),
                                        CASE(other_number),
                                        CASE(six_words),
                                        {NULL, NULL}};
