/* Calls that wait: for descriptors, for time, for signals. */
#include "failures.h"

#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>

static struct pollfd asks(int fd, short events)
{
    return (struct pollfd){.fd = fd, .events = events};
}
static const struct timespec ms30 = {0, 30000000}, none = {0, 0},
                             wrong = {0, -1};
static int ep;

static void case_poll_none(void)
{
    struct pollfd f = asks(empty[0], POLLIN);
    CALL(poll(&f, 1, 0));
}
static void case_poll_timeout(void)
{
    struct pollfd f = asks(empty[0], POLLIN);
    CALL(poll(&f, 1, 30));
}
static void case_poll_inval(void)
{
    CALL(poll((struct pollfd *)(uintptr_t)strtoul("16", NULL, 10), 1, 0));
}
static void case_poll_closed(void) /* POLLNVAL is an answer */
{
    struct pollfd f = asks(CLOSED, POLLIN);
    CALL(poll(&f, 1, 100000));
}
static void case_poll_interrupted(void)
{
    struct pollfd f = asks(empty[0], POLLIN);
    alarms_begin();
    CALL(poll(&f, 1, 100000));
    alarms_end();
}
static void case_poll_second(void) /* the first that is ready */
{
    struct pollfd f[] = {asks(empty[0], POLLIN), asks(full[0], POLLIN),
                         asks(empty[1], POLLOUT)};
    CALL(poll(f, 3, 100000));
}
static void case_ppoll_timeout(void)
{
    struct pollfd f = asks(empty[0], POLLIN);
    CALL(ppoll(&f, 1, &ms30, NULL));
}
static void case_ppoll_inval(void)
{
    struct pollfd f = asks(empty[0], POLLIN);
    CALL(ppoll(&f, 1, &wrong, NULL));
}
static void case_select_none(void)
{
    struct timeval tv = {0, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(empty[0], &set);
    CALL(select(empty[0] + 1, &set, NULL, NULL, &tv));
}
static void case_select_timeout(void)
{
    struct timeval tv = {0, 30000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(empty[0], &set);
    CALL(select(empty[0] + 1, &set, NULL, NULL, &tv));
}
static void case_select_badf(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(60, &set); /* no descriptor, but below the table's size */
    CALL(select(61, &set, NULL, NULL, NULL));
}
static void case_select_write(void) /* the set of those to be written */
{
    fd_set rd, wr;
    FD_ZERO(&rd);
    FD_ZERO(&wr);
    FD_SET(empty[0], &rd);
    FD_SET(empty[1], &wr);
    CALL(select(empty[1] + 1, &rd, &wr, NULL, NULL));
}
/* More descriptors than the sets hold: the kernel looks at those that it can
 * have. The set of those to be read ends where the memory does. */
static void case_select_far(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fd_set wr, *rd = (fd_set *)(void *)(memory + page - sizeof(*rd));
    must(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
    FD_ZERO(&wr);
    FD_SET(empty[0], rd);
    FD_SET(empty[1], &wr);
    CALL(select(1 << 20, rd, &wr, NULL, NULL));
}
static void case_pselect_interrupted(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(empty[0], &set);
    alarms_begin();
    CALL(pselect(empty[0] + 1, &set, NULL, NULL, NULL, NULL));
    alarms_end();
}

/* --- epoll: what a descriptor was registered as --- */
static void case_epoll_timeout(void)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 5};
    ep = epoll_create1(0);
    must(epoll_ctl(ep, EPOLL_CTL_ADD, empty[0], &e) == 0);
    CALL(epoll_wait(ep, &e, 1, 30));
}
static void case_epoll_none(void)
{
    struct epoll_event e;
    CALL(epoll_pwait(ep, &e, 1, 0, NULL));
}
static void case_epoll_inval(void)
{
    struct epoll_event e;
    CALL(epoll_wait(ep, &e, 0, -1));
}
static void case_epoll_badf(void)
{
    struct epoll_event e;
    CALL(epoll_wait(CLOSED, &e, 1, -1));
}
static void case_epoll_ctl_exist(void) /* not under the new number */
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 6};
    CALL(epoll_ctl(ep, EPOLL_CTL_ADD, empty[0], &e));
}
static void case_epoll_ctl_badf(void) /* nor another under the old one */
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 5};
    CALL(epoll_ctl(ep, EPOLL_CTL_ADD, CLOSED, &e));
}
static void case_epoll_ctl_noent(void)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 5};
    CALL(epoll_ctl(ep, EPOLL_CTL_MOD, pair[0], &e));
}
static void case_epoll_ready(void)
{
    struct epoll_event e;
    must(write(empty[1], buf, 10) == 10);
    CALL(epoll_wait(ep, &e, 1, -1));
    must(read(empty[0], buf, 100) == 10);
}
static void case_epoll_interrupted(void)
{
    struct epoll_event e;
    alarms_begin();
    CALL(epoll_pwait2(ep, &e, 1, NULL, NULL));
    alarms_end();
}

/* --- time --- */
static void case_nanosleep_inval(void)
{
    CALL(nanosleep(&wrong, NULL));
}
static void case_nanosleep_interrupted(void)
{
    const struct timespec long_time = {1000, 0};
    struct timespec left = {0, 0};
    alarms_begin();
    CALL(nanosleep(&long_time, &left));
    alarms_end();
    must(left.tv_sec > 0);
}
static void case_clock_nanosleep_inval(void)
{
    CALL(clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL));
}
static void case_clock_nanosleep_interrupted(void)
{
    struct timespec until = from_now(CLOCK_MONOTONIC, 0);
    until.tv_sec += 1000;
    alarms_begin();
    CALL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    alarms_end();
}
static void case_usleep_interrupted(void)
{
    alarms_begin();
    CALL(usleep(999999999));
    alarms_end();
}
static void case_usleep(void)
{
    CALL(usleep(30000));
}

/* --- signals --- */
static sigset_t just(int sig)
{
    sigset_t set;
    sigemptyset(&set);
    if (sig)
        sigaddset(&set, sig);
    return set;
}
static void case_sigtimedwait_timeout(void)
{
    sigset_t set = just(SIGUSR1);
    CALL(sigtimedwait(&set, NULL, &ms30));
}
static void case_sigtimedwait_none(void)
{
    sigset_t set = just(SIGUSR1);
    CALL(sigtimedwait(&set, NULL, &none));
}
static void case_sigtimedwait_inval(void)
{
    sigset_t set = just(SIGUSR1);
    CALL(sigtimedwait(&set, NULL, &wrong));
}
static void case_sigwaitinfo_interrupted(void)
{
    sigset_t set = just(SIGUSR1);
    alarms_begin();
    CALL(sigwaitinfo(&set, NULL));
    alarms_end();
}
static void case_sigsuspend_interrupted(void)
{
    sigset_t set = just(0);
    alarms_begin();
    CALL(sigsuspend(&set));
    alarms_end();
}
static void case_pause_interrupted(void)
{
    alarms_begin();
    CALL(pause());
    alarms_end();
}
static void case_sigaction_inval(void)
{
    struct sigaction act = {.sa_handler = SIG_IGN};
    CALL(sigaction(SIGKILL, &act, NULL));
}
static void handler(int sig)
{
    (void)sig;
}
static void case_signal_inval(void)
{
    CALL(signal(SIGSTOP, handler) == SIG_ERR);
}
static void case_signal_number(void)
{
    CALL(signal(12345, handler) == SIG_ERR);
}

const struct one_case wait_cases[] = {CASE(poll_none),
                                      CASE(poll_timeout),
                                      CASE(poll_inval),
                                      CASE(poll_closed),
                                      CASE(poll_interrupted),
                                      CASE(poll_second),
                                      CASE(ppoll_timeout),
                                      CASE(ppoll_inval),
                                      CASE(select_none),
                                      CASE(select_timeout),
                                      CASE(select_badf),
                                      CASE(select_write),
                                      CASE(select_far),
                                      CASE(pselect_interrupted),
                                      CASE(epoll_timeout),
                                      CASE(epoll_none),
                                      CASE(epoll_inval),
                                      CASE(epoll_badf),
                                      CASE(epoll_ctl_exist),
                                      CASE(epoll_ctl_badf),
                                      CASE(epoll_ctl_noent),
                                      CASE(epoll_ready),
                                      CASE(epoll_interrupted),
                                      CASE(nanosleep_inval),
                                      CASE(nanosleep_interrupted),
                                      CASE(clock_nanosleep_inval),
                                      CASE(clock_nanosleep_interrupted),
                                      CASE(usleep_interrupted),
                                      CASE(usleep),
                                      CASE(sigtimedwait_timeout),
                                      CASE(sigtimedwait_none),
                                      CASE(sigtimedwait_inval),
                                      CASE(sigwaitinfo_interrupted),
                                      CASE(sigsuspend_interrupted),
                                      CASE(pause_interrupted),
                                      CASE(sigaction_inval),
                                      CASE(signal_inval),
                                      CASE(signal_number),
                                      {NULL, NULL}};
