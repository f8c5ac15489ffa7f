/* Two of something at once: a handler that does things inside a call that is
 * under way, a second thread or process at the same end. */
#include "failures.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../asleep.h"

static int own[2];
static pid_t main_tid;
static pthread_t main_thread;
static void (*in_handler)(void), (*in_thread)(void);

static void on_signal(int sig)
{
    int saved = errno;
    (void)sig;
    in_handler();
    errno = saved;
}

/* Does in_thread() once the main thread sleeps in its call. */
static void *second(void *arg)
{
    until_asleep(main_tid);
    in_thread();
    return arg;
}

static pthread_t begin(void (*thread)(void), void (*handler)(void))
{
    struct sigaction act = {.sa_handler = on_signal};
    sigset_t set, before;
    pthread_t t;
    main_tid = (pid_t)syscall(SYS_gettid);
    main_thread = pthread_self();
    in_thread = thread;
    in_handler = handler;
    sigfillset(&set);
    must(sigaction(SIGUSR1, &act, NULL) == 0 && pipe(own) == 0);
    name_end("own.r", own[0], "read");
    name_end("own.w", own[1], "write");
    must(pthread_sigmask(SIG_SETMASK, &set, &before) == 0 &&
         pthread_create(&t, NULL, second, NULL) == 0 &&
         pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return t;
}

static void end(pthread_t t)
{
    must(pthread_join(t, NULL) == 0);
    close(own[0]);
    close(own[1]);
}

static void signals(void)
{
    must(pthread_kill(main_thread, SIGUSR1) == 0);
}
static void writes(void)
{
    must(write(own[1], buf, 9) == 9);
}
static void writes_beside(void)
{
    must(send(pair[0], buf, 3, 0) == 3);
}
static void reads_same(void)
{
    must(write(own[1], buf, 4) == 4 && read(own[0], buf, 2) == 2);
}
static void closes_same(void)
{
    close(own[0]);
}
static void polls(void)
{
    struct pollfd f = {.fd = own[1], .events = POLLOUT};
    must(poll(&f, 1, -1) == 1);
}

#define INSIDE(name, handler, call)                                            \
    static void case_##name(void)                                              \
    {                                                                          \
        pthread_t t = begin(signals, handler);                                 \
        CALL(call);                                                            \
        end(t);                                                                \
    }

INSIDE(handler_sends, writes_beside, read(own[0], buf, 10))
INSIDE(handler_reads_same, reads_same, read(own[0], buf, 10))
INSIDE(handler_closes_same, closes_same, read(own[0], buf, 10))
INSIDE(handler_polls, polls, read(own[0], buf, 10))
INSIDE(handler_in_poll, writes_beside, poll(NULL, 0, -1))
INSIDE(handler_in_pause, writes_beside, pause())

/* The other thread's bytes come through the end that both know by one name. */
static void case_thread_writes(void)
{
    pthread_t t = begin(writes, NULL);
    CALL(read(own[0], buf, 100));
    end(t);
}
/* A number is another end's while this thread is in a call: what it does with
 * that number next is that end's. */
static int number;
static void replaces(void)
{
    must(dup2(full[0], number) == number && write(own[1], buf, 9) == 9);
}
static void case_replaced_beside(void)
{
    number = dup(empty[0]);
    pthread_t t = begin(replaces, NULL);
    must(read(own[0], buf, 100) == 9);
    CALL(read(number, buf, 7));
    end(t);
    close(number);
}

/* A process that has the same end closes it: ours goes on. */
static void case_child_closes(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        close(empty[0]);
        close(empty[1]);
        _exit(0);
    }
    must(waitpid(pid, NULL, 0) == pid);
    must(write(empty[1], buf, 6) == 6);
    CALL(read(empty[0], buf, 100));
}
/* Both write to it: each end has one name in each process. */
static void case_child_writes(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(write(empty[1], buf, 5) == 5 ? 0 : 1);
    must(waitpid(pid, NULL, 0) == pid && write(empty[1], buf, 6) == 6);
    CALL(read(empty[0], buf, 100));
}

const struct one_case together_cases[] = {CASE(handler_sends),
                                          CASE(handler_reads_same),
                                          CASE(handler_closes_same),
                                          CASE(handler_polls),
                                          CASE(handler_in_poll),
                                          CASE(handler_in_pause),
                                          CASE(thread_writes),
                                          CASE(replaced_beside),
                                          CASE(child_closes),
                                          CASE(child_writes),
                                          {NULL, NULL}};
