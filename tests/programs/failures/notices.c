/* Signals of every kind of sender, taken by a handler or by a wait; names that
 * a server of our own resolves. */
#include "failures.h"

#include <aio.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <nss.h>
#include <pthread.h>
#include <resolv.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>

#include "../asleep.h"

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

/* --- signals --- */
static sigset_t usr1;
static pid_t self;
static pthread_t self_thread;
static const union sigval value = {.sival_int = 4711};
static const struct timespec none = {0, 0};
static siginfo_t info;

static void handler(int sig, siginfo_t *given, void *context)
{
    (void)sig;
    (void)context;
    info = *given;
}
static void case_to_myself(void)
{
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    self = getpid();
    self_thread = pthread_self();
    must(sigaction(SIGUSR1, &act, NULL) == 0 &&
         sigaction(SIGUSR2, &act, NULL) == 0);
    CALL(kill(self, SIGUSR1));
}
ONE(to_group, killpg(getpgrp(), 0))
ONE(raised, raise(SIGUSR2))
ONE(queued, sigqueue(self, SIGUSR1, value))
ONE(to_thread, pthread_kill(self_thread, SIGUSR1))
ONE(to_thread_asks, pthread_kill(self_thread, 0))
ONE(to_tid, tgkill(self, self, SIGUSR2))
ONE(queued_to_thread, pthread_sigqueue(self_thread, SIGUSR1, value))
ONE(queued_inval, pthread_sigqueue(self_thread, 1234, value))
static void case_by_pidfd(void)
{
    int fd = pidfd_open(self, 0);
    must(fd >= 0);
    CALL(pidfd_send_signal(fd, SIGUSR1, NULL, 0));
    close(fd);
}
ONE(by_pidfd_badf, pidfd_send_signal(CLOSED, SIGUSR1, NULL, 0))
/* What signal() and its like set, and give back. */
static void plain(int sig)
{
    (void)sig;
}
static void case_by_signal(void)
{
    must(signal(SIGUSR2, plain) != SIG_ERR);
    CALL(raise(SIGUSR2));
    must(signal(SIGUSR2, SIG_IGN) == plain);
}
static void case_by_sysv_signal(void)
{
    must(sysv_signal(SIGUSR2, plain) == SIG_IGN);
    CALL(raise(SIGUSR2));
    must(signal(SIGUSR2, SIG_IGN) == SIG_DFL); /* for one signal */
}
ONE(ignored, raise(SIGUSR2))

/* Taken by a call: blocked until then. */
static void case_waited_for(void)
{
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    must(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0 && raise(SIGUSR1) == 0);
    CALL(sigwaitinfo(&usr1, &info));
    must(info.si_code == SI_USER); /* as the C library says it */
}
static void case_waited_without_info(void)
{
    must(sigqueue(self, SIGUSR1, value) == 0);
    CALL(sigwaitinfo(&usr1, NULL));
}
static void case_timed(void)
{
    must(kill(self, SIGUSR1) == 0);
    CALL(sigtimedwait(&usr1, &info, &none));
}
ONE(timed_none, sigtimedwait(&usr1, &info, &none))
static void case_sigwait_one(void)
{
    int sig = 0;
    must(kill(self, SIGUSR1) == 0);
    CALL(sigwait(&usr1, &sig));
    must(sig == SIGUSR1);
}
static void case_by_descriptor(void) /* two at once */
{
    struct signalfd_siginfo two[3];
    sigaddset(&usr1, SIGRTMIN);
    must(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0);
    int fd = signalfd(-1, &usr1, SFD_NONBLOCK);
    must(fd >= 0 && sigqueue(self, SIGRTMIN, value) == 0 &&
         raise(SIGUSR1) == 0);
    CALL(read(fd, two, sizeof(two)));
    must(two[0].ssi_signo == SIGUSR1 && two[1].ssi_int == 4711);
    close(fd);
}

/* --- what became ready --- */
static int watched[2];
static mqd_t mq = -1;

static void case_async_plain(void)
{
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    must(sigprocmask(SIG_UNBLOCK, &usr1, NULL) == 0 && pipe(watched) == 0 &&
         sigaction(SIGIO, &act, NULL) == 0);
    name_end("watched.r", watched[0], "read");
    name_end("watched.w", watched[1], "write");
    must(fcntl(watched[0], F_SETOWN, self) == 0 &&
         fcntl(watched[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
    CALL(write(watched[1], "x", 1));
}
static void case_async_other(void) /* which says what is ready */
{
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    must(read(watched[0], buf, 10) == 1 &&
         sigaction(SIGRTMIN + 1, &act, NULL) == 0 &&
         fcntl(watched[0], F_SETSIG, SIGRTMIN + 1) == 0);
    CALL(write(watched[1], "xy", 2));
    must(info.si_fd == watched[0]);
}
static void case_async_off(void)
{
    must(read(watched[0], buf, 10) == 2 &&
         fcntl(watched[0], F_SETSIG, 0) == 0 &&
         fcntl(watched[0], F_SETFL, O_NONBLOCK) == 0);
    CALL(raise(SIGIO));
}
static struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                                .sigev_signo = SIGUSR1};
static void case_notify_once(void)
{
    struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 8};
    char path[40];
    snprintf(path, sizeof(path), "/ips-notices-%d", (int)self);
    mq = mq_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
    must(mq >= 0 && mq_unlink(path) == 0);
    name_end("mq", mq, "both");
    must(mq_notify(mq, &event) == 0);
    CALL(mq_send(mq, "message", 7, 0));
}
static void case_notify_busy(void)
{
    must(mq_receive(mq, buf, 8, NULL) == 7 && mq_notify(mq, &event) == 0);
    CALL(mq_notify(mq, &event));
}
static void case_notify_off(void)
{
    must(mq_notify(mq, NULL) == 0);
    CALL(mq_send(mq, "message", 7, 0));
}
ONE(notify_badf, mq_notify(CLOSED, &event))
ONE(mq_close_one, mq_close(mq))
static void case_aio_one(void)
{
    struct aiocb a = {.aio_fildes = open("/proc/self/exe", O_RDONLY),
                      .aio_buf = buf,
                      .aio_nbytes = 10};
    const struct aiocb *const list[] = {&a};
    must(aio_read(&a) == 0);
    CALL(aio_suspend(list, 1, NULL));
    must(aio_error(&a) == 0 && aio_return(&a) == 10);
}
static void case_thrd_sleep_one(void)
{
    const struct timespec ms = {0, 1000000};
    CALL(thrd_sleep(&ms, NULL));
}
int __xpg_sigpause(int sig); /* what sigpause() is compiled to */
static void case_sigpause_one(void)
{
    alarms_begin();
    CALL(__xpg_sigpause(SIGUSR2));
    alarms_end();
}

/* --- names: the server answers once the main thread sleeps --- */
static int server = -1;
static pid_t main_tid;
static unsigned char answer[512], message[512];
static struct __res_state own;
static struct hostent host, *found;
static char room[1024];
static int error;

/* The question again, and one answer of the type that it asks for: an address,
 * or the question's own name. */
static void *serve(void *arg)
{
    static const unsigned char head[] = {0xc0, 0x0c, 0, 1,  0, 1,
                                         0,    0,    0, 60, 0};
    unsigned char m[512];
    struct sockaddr_in who;
    socklen_t len = sizeof(who);
    for (;;) {
        ssize_t n = recvfrom(server, m, 400, 0, (struct sockaddr *)&who, &len);
        if (n < 17)
            continue;
        unsigned char type = m[n - 3], bytes = type == ns_t_a ? 4 : 2;
        m[2] = 0x81;
        m[3] = 0x80;
        m[7] = 1;
        memcpy(m + n, head, sizeof(head));
        m[n + 3] = type;
        m[n + 11] = bytes;
        memcpy(m + n + 12, type == ns_t_a ? "\x0a\1\2\3" : "\xc0\x0c", bytes);
        until_asleep(main_tid);
        sendto(server, m, (size_t)n + 12 + bytes, 0, (struct sockaddr *)&who,
               len);
    }
    return arg;
}
static void use_server(struct __res_state *state, struct sockaddr_in at)
{
    state->nscount = 1;
    state->nsaddr_list[0] = at;
    state->options &= ~(unsigned long)(RES_DNSRCH | RES_DEFNAMES);
    state->retrans = 60;
}
static void case_query(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    sigset_t all, before;
    pthread_t t;
    sigfillset(&all);
    main_tid = (pid_t)syscall(SYS_gettid);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = socket(AF_INET, SOCK_DGRAM, 0);
    must(bind(server, (struct sockaddr *)&at, len) == 0 &&
         getsockname(server, (struct sockaddr *)&at, &len) == 0);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0 &&
         pthread_create(&t, NULL, serve, NULL) == 0 &&
         pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    must(res_init() == 0 && res_ninit(&own) == 0 &&
         __nss_configure_lookup("hosts", "dns") == 0);
    use_server(&_res, at);
    use_server(&own, at);
    CALL(res_query("a.test", ns_c_in, ns_t_a, answer, sizeof(answer)));
}
ONE(search, res_search("ab.test", ns_c_in, ns_t_a, answer, sizeof(answer)))
ONE(querydomain,
    res_querydomain("abc", "test", ns_c_in, ns_t_a, answer, sizeof(answer)))
static void case_send(void)
{
    int n = res_mkquery(ns_o_query, "abcd.test", ns_c_in, ns_t_a, NULL, 0, NULL,
                        message, sizeof(message));
    must(n > 0);
    CALL(res_send(message, n, answer, sizeof(answer)));
}
ONE(nquery, res_nquery(&own, "a.test", ns_c_in, ns_t_a, answer, 512))
ONE(nsearch, res_nsearch(&own, "ab.test", ns_c_in, ns_t_a, answer, 512))
ONE(nquerydomain,
    res_nquerydomain(&own, "abc", "test", ns_c_in, ns_t_a, answer, 512))
static void case_nsend(void)
{
    int n = res_nmkquery(&own, ns_o_query, "abcd.test", ns_c_in, ns_t_a, NULL,
                         0, NULL, message, sizeof(message));
    must(n > 0);
    CALL(res_nsend(&own, message, n, answer, sizeof(answer)));
}
ONE(byname, (found = gethostbyname("a.test")) != NULL)
ONE(byname2, (found = gethostbyname2("a.test", AF_INET)) != NULL)
ONE(byaddr, (found = gethostbyaddr("\x0a\1\2\3", 4, AF_INET)) != NULL)
ONE(byname_r,
    gethostbyname_r("a.test", &host, room, sizeof(room), &found, &error))
ONE(byname2_r, gethostbyname2_r("a.test", AF_INET, &host, room, sizeof(room),
                                &found, &error))
static void case_byaddr_r(void)
{
    must(host.h_length == 4 && memcmp(host.h_addr, "\x0a\1\2\3", 4) == 0);
    CALL(gethostbyaddr_r("\x0a\1\2\3", 4, AF_INET, &host, room, sizeof(room),
                         &found, &error));
    must(strcmp(host.h_name, "3.2.1.10.in-addr.arpa") == 0);
}
ONE(byname_erange, gethostbyname_r("a.test", &host, room, 1, &found, &error))
static void case_addrinfo(void)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM},
                    *list = NULL;
    CALL(getaddrinfo("a.test", "80", &hints, &list));
    must(list && !list->ai_next);
    must(((struct sockaddr_in *)(void *)list->ai_addr)->sin_port == htons(80));
    freeaddrinfo(list);
}
/* A thread of the C library's asks, which has other servers: only a number. */
static void case_addrinfo_a(void)
{
    struct gaicb one = {.ar_name = "10.1.2.3"}, *list[] = {&one};
    CALL(getaddrinfo_a(GAI_WAIT, list, 1, NULL));
    must(gai_error(&one) == 0);
    freeaddrinfo(one.ar_result);
}
static void case_nameinfo(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7)};
    char name[100] = "", port[20] = "";
    in.sin_addr.s_addr = htonl(0x0a010203);
    CALL(getnameinfo((struct sockaddr *)&in, sizeof(in), name, sizeof(name),
                     port, sizeof(port), NI_NAMEREQD | NI_NUMERICSERV));
    must(strcmp(name, "3.2.1.10.in-addr.arpa") == 0 && strcmp(port, "7") == 0);
}
ONE(nameinfo_family,
    getnameinfo((struct sockaddr *)buf, 16, room, sizeof(room), NULL, 0, 0))

const struct one_case notice_cases[] = {
    CASE(to_myself),      CASE(to_group),
    CASE(raised),         CASE(queued),
    CASE(to_thread),      CASE(to_thread_asks),
    CASE(to_tid),         CASE(queued_to_thread),
    CASE(queued_inval),   CASE(by_pidfd),
    CASE(by_pidfd_badf),  CASE(by_signal),
    CASE(by_sysv_signal), CASE(ignored),
    CASE(waited_for),     CASE(waited_without_info),
    CASE(timed),          CASE(timed_none),
    CASE(sigwait_one),    CASE(by_descriptor),
    CASE(async_plain),    CASE(async_other),
    CASE(async_off),      CASE(notify_once),
    CASE(notify_busy),    CASE(notify_off),
    CASE(notify_badf),    CASE(mq_close_one),
    CASE(aio_one),        CASE(thrd_sleep_one),
    CASE(sigpause_one),   CASE(query),
    CASE(search),         CASE(querydomain),
    CASE(send),           CASE(nquery),
    CASE(nsearch),        CASE(nquerydomain),
    CASE(nsend),          CASE(byname),
    CASE(byname2),        CASE(byaddr),
    CASE(byname_r),       CASE(byname2_r),
    CASE(byaddr_r),       CASE(byname_erange),
    CASE(addrinfo),       CASE(addrinfo_a),
    CASE(nameinfo),       CASE(nameinfo_family),
    {NULL, NULL}};
