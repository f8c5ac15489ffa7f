/* Calls that few programs make, and that succeed: locks on files, children and
 * threads. */
#include "failures.h"

#include <aio.h>
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <wordexp.h>

#include "../asleep.h"

static long got;
static const struct timespec ms = {0, 1000000};

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }
/* The result, and whether what is to be true after the call is so. */
#define AND(name, call, good)                                                  \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(got = (long)(call));                                              \
        must(good);                                                            \
    }

/* --- a second thread, which does something once the first one sleeps --- */
static pid_t main_tid;
static pthread_t helper;
static void (*its_part)(void);

static void *second(void *arg)
{
    until_asleep(main_tid);
    its_part();
    return arg;
}
static void start_thread(pthread_t *t, void *(*body)(void *))
{
    sigset_t all, before;
    main_tid = (pid_t)syscall(SYS_gettid);
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0 &&
         pthread_create(t, NULL, body, NULL) == 0 &&
         pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}
/* `part` is done while `call` waits. */
#define WHILE(name, part, call)                                                \
    static void case_##name(void)                                              \
    {                                                                          \
        its_part = part;                                                       \
        start_thread(&helper, second);                                         \
        CALL(call);                                                            \
        must(pthread_join(helper, NULL) == 0);                                 \
    }

/* --- locks on files --- */
static int file = -1, twin = -1; /* two descriptors of one file of 100 bytes */

static int set_lock(int fd, int command, short type, short whence, long start,
                    long length)
{
    struct flock l = {
        .l_type = type, .l_whence = whence, .l_start = start, .l_len = length};
    return fcntl(fd, command, &l);
}
#define LOCK(name, ...)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        struct flock l = {__VA_ARGS__};                                        \
        CALL(fcntl(file, F_SETLK, &l));                                        \
    }
static void unlock_twin(void)
{
    must(flock(twin, LOCK_UN) == 0);
}
static void unlock_part_of_twin(void)
{
    must(set_lock(twin, F_OFD_SETLK, F_UNLCK, SEEK_SET, 40, 5) == 0);
}

static void case_flock_free(void)
{
    char name[] = "/tmp/i_failures-XXXXXX";
    file = mkstemp(name);
    twin = open(name, O_RDWR);
    must(file >= 0 && twin >= 0 && unlink(name) == 0 &&
         ftruncate(file, 100) == 0 && lseek(file, 30, SEEK_SET) == 30);
    name_end("file", file, "both");
    CALL(flock(file, LOCK_EX));
}
ONE(flock_let_go, flock(file, LOCK_UN))
ONE(flock_try, flock(file, LOCK_SH | LOCK_NB))
ONE(flock_un_nb, flock(file, LOCK_UN | LOCK_NB))
ONE(flock_inval, flock(file, 77))
static void case_flock_busy(void)
{
    must(flock(twin, LOCK_EX) == 0);
    CALL(flock(file, LOCK_EX | LOCK_NB));
}
static void case_flock_tried(void) /* with a nap between the tries */
{
    must(nanosleep(&ms, NULL) == 0);
    must(flock(file, LOCK_EX | LOCK_NB) == -1);
    must(flock(twin, LOCK_UN) == 0);
    CALL(flock(file, LOCK_EX | LOCK_NB));
    must(flock(file, LOCK_UN) == 0);
}
static void case_flock_tried_at_once(void)
{
    must(flock(twin, LOCK_EX) == 0);
    must(flock(file, LOCK_EX | LOCK_NB) == -1);
    must(flock(twin, LOCK_UN) == 0);
    CALL(flock(file, LOCK_EX | LOCK_NB));
    must(flock(file, LOCK_UN) == 0 && flock(twin, LOCK_EX) == 0);
}
WHILE(flock_waits, unlock_twin, flock(file, LOCK_SH))
static void case_flock_interrupted(void)
{
    must(flock(file, LOCK_UN) == 0 && flock(twin, LOCK_EX) == 0);
    alarms_begin();
    CALL(flock(file, LOCK_EX));
    alarms_end();
    must(flock(twin, LOCK_UN) == 0);
}
ONE(setlk_free, set_lock(file, F_SETLK, F_WRLCK, SEEK_SET, 0, 0))
LOCK(unlock_set, .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 20,
     .l_len = 1)
LOCK(unlock_current, .l_type = F_UNLCK, .l_whence = SEEK_CUR, .l_start = 5,
     .l_len = 1)
LOCK(unlock_end, .l_type = F_UNLCK, .l_whence = SEEK_END, .l_start = -10,
     .l_len = 1)
LOCK(unlock_before, .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 20,
     .l_len = -8)
LOCK(lock_type, .l_type = 77)
static void case_getlk(void)
{
    struct flock l = {.l_type = F_WRLCK};
    CALL(fcntl(file, F_GETLK, &l));
    must(l.l_type == F_UNLCK);
}
static void case_ofd_busy(void)
{
    struct flock l = {.l_type = F_WRLCK, .l_start = 40, .l_len = 5};
    must(set_lock(file, F_SETLK, F_UNLCK, SEEK_SET, 0, 0) == 0 &&
         fcntl(twin, F_OFD_SETLK, &l) == 0);
    CALL(fcntl(file, F_OFD_SETLK, &l));
}
static void case_ofd_waits(void)
{
    struct flock l = {.l_type = F_RDLCK, .l_start = 40, .l_len = 5};
    its_part = unlock_part_of_twin;
    start_thread(&helper, second);
    CALL(fcntl(file, F_OFD_SETLKW, &l));
    must(pthread_join(helper, NULL) == 0);
    must(set_lock(file, F_OFD_SETLK, F_UNLCK, SEEK_SET, 40, 5) == 0);
}
ONE(lockf_lock, lockf(file, F_LOCK, 20))
ONE(lockf_test, lockf(file, F_TEST, 20))
ONE(lockf_try, lockf(file, F_TLOCK, 40))
ONE(lockf_unlock, lockf(file, F_ULOCK, 10))
ONE(lockf_unlock_back, lockf(file, F_ULOCK, -10))
static void case_lockf_unlock_all(void)
{
    must(lseek(file, 0, SEEK_SET) == 0);
    CALL(lockf(file, F_ULOCK, 0));
}
/* Who closes lets go of what was locked, if anything is. */
static void case_close_free(void)
{
    int fd = dup(file);
    CALL(close(fd));
}
static void case_close_locked(void)
{
    int fd = openat(AT_FDCWD, "/proc/self/fd/0", O_RDONLY);
    must(fd >= 0 && dup2(file, fd) == fd && flock(fd, LOCK_EX) == 0);
    CALL(close(fd));
    must(flock(file, LOCK_UN) == 0);
}
static void case_close_record_locked(void)
{
    must(set_lock(twin, F_SETLK, F_WRLCK, SEEK_SET, 0, 0) == 0);
    CALL(close(twin));
}

/* --- files, by functions --- */
static char text[] = "the bytes of a file", in[8];
static struct iovec from[2] = {{text, 4}, {text + 4, 3}},
                    to[2] = {{in, 2}, {in + 2, 6}};
AND(pwritev_at, pwritev(file, from, 2, 50),
    pread(file, in, 7, 50) == 7 && memcmp(in, text, 7) == 0)
AND(preadv_at, preadv(file, to, 2, 51), memcmp(in, text + 1, 6) == 0)
ONE(syncfs_closed, syncfs(CLOSED))
static void case_msync_part(void)
{
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    must(at != MAP_FAILED);
    CALL(msync(at, 4096, MS_ASYNC));
}
ONE(msync_inval, msync((void *)4096, 4096, 64))
ONE(sync_all, (sync(), 0))

/* --- children --- */
static pid_t pid;
static int status;
static siginfo_t info;
static struct rusage usage;
static char shell[] = "/bin/sh", minus_c[] = "-c", exit4[] = "exit 4";
static char *words[] = {shell, minus_c, exit4, NULL};
static FILE *stream;
static char program[] = "/nonexistent/program";
static char *no_words[] = {program, NULL}, *no_environment[] = {NULL};

static pid_t child_of(pid_t made)
{
    if (made == 0)
        _exit(6);
    return pid = made;
}
ONE(fork_one, child_of(fork()) > 0)
AND(waitpid_one, waitpid(pid, &status, 0) == pid, status == 6 << 8)
ONE(fork_two, child_of(_Fork()) > 0)
AND(wait_one, wait(&status) == pid, status == 6 << 8)
static int in_clone(void *arg)
{
    (void)arg;
    return 7;
}
static char stack[65536] __attribute__((aligned(16)));
ONE(clone_one,
    (pid = clone(in_clone, stack + sizeof(stack), SIGCHLD, NULL)) > 0)
AND(wait3_one, wait3(&status, 0, &usage) == pid, status == 7 << 8)
ONE(spawn_one, posix_spawn(&pid, shell, NULL, NULL, words, environ))
AND(wait4_one, wait4(pid, &status, 0, &usage) == pid, status == 4 << 8)
ONE(spawnp_one, posix_spawnp(&pid, "sh", NULL, NULL, words, environ))
AND(waitid_one, waitid(P_PID, (id_t)pid, &info, WEXITED),
    info.si_pid == pid && info.si_status == 4)
static void case_waitid_nowait(void) /* it stays to be waited for */
{
    must(child_of(fork()) > 0);
    printf("[child %d] ", (int)pid);
    must(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CALL(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
    must(waitpid(pid, &status, 0) == pid);
}
static void case_waitpid_polled(void) /* asked for with a nap between */
{
    int p[2];
    must(pipe(p) == 0);
    pid = fork();
    if (pid == 0) {
        close(p[1]);
        _exit(read(p[0], in, 1) == 0 ? 0 : 1);
    }
    must(waitpid(pid, &status, WNOHANG) == 0);
    must(nanosleep(&ms, NULL) == 0);
    must(waitpid(pid, &status, WNOHANG) == 0);
    close(p[0]);
    close(p[1]);
    while (state_of(pid) != 'Z')
        unseen_call(SYS_nanosleep, (long)&ms, 0, 0, 0);
    CALL(waitpid(pid, &status, WNOHANG) == pid);
}
ONE(system_one, system("exit 5"))
static void case_popen_one(void)
{
    CALL((stream = popen("exit 9", "r")) != NULL);
    name_end("popen.r", fileno(stream), "read");
}
ONE(pclose_one, pclose(stream))
static void case_forkpty_one(void)
{
    int master = -1, other = posix_openpt(O_RDWR | O_NOCTTY);
    if (other < 0) {
        printf("no terminals here: ");
        CALL(1);
        return;
    }
    CALL((pid = child_of(forkpty(&master, NULL, NULL, NULL))) > 0);
    must(waitpid(pid, &status, 0) == pid && close(master) == 0 &&
         close(other) == 0);
}
ONE(execlp_noent, execlp("no-such-program-here", "x", (char *)NULL))
ONE(execle_noent, execle(program, "x", (char *)NULL, no_environment))
ONE(execvpe_noent, execvpe("no-such-program-here", no_words, no_environment))

/* --- threads --- */
static pthread_t thread;
static thrd_t thrd;
static void *body(void *arg)
{
    return arg;
}
static void *ends_later(void *arg)
{
    until_asleep(main_tid);
    return arg;
}
static int thrd_body(void *arg)
{
    (void)arg;
    return 12;
}
ONE(create_one, pthread_create(&thread, NULL, body, &got))
static void case_join_one(void)
{
    void *result = NULL;
    CALL(pthread_join(thread, &result));
    must(result == &got);
}
static struct timespec later;
#define JOINED(name, call)                                                     \
    static void case_##name(void)                                              \
    {                                                                          \
        start_thread(&thread, ends_later);                                     \
        later = from_now(CLOCK_REALTIME, 100000);                              \
        CALL(call);                                                            \
    }
JOINED(join_waits, pthread_join(thread, NULL))
JOINED(timedjoin_one, pthread_timedjoin_np(thread, NULL, &later))
JOINED(clockjoin_one,
       pthread_clockjoin_np(thread, NULL, CLOCK_REALTIME, &later))
static _Atomic pid_t its_tid;
static void *says_its_tid(void *arg)
{
    its_tid = (pid_t)syscall(SYS_gettid);
    return arg;
}
static void case_tryjoin_one(void)
{
    start_thread(&thread, says_its_tid);
    while (!its_tid || state_of(its_tid))
        sched_yield();
    CALL(pthread_tryjoin_np(thread, NULL));
}
ONE(thrd_create_one, thrd_create(&thrd, thrd_body, NULL))
static void case_thrd_join_one(void)
{
    int result = 0;
    CALL(thrd_join(thrd, &result));
    must(result == 12);
}
static void *pauses(void *arg)
{
    its_tid = (pid_t)syscall(SYS_gettid);
    for (;;)
        pause();
    return arg;
}
static void case_cancel_one(void)
{
    void *result = NULL;
    its_tid = 0;
    start_thread(&thread, pauses);
    while (!its_tid)
        sched_yield();
    printf("[other %d]\n", (int)its_tid);
    CALL(pthread_cancel(thread));
    must(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

/* --- POSIX AIO, tee --- */
static int aio[2];
static char byte;
static struct aiocb request;
static void ask_for_byte(void)
{
    request = (struct aiocb){.aio_fildes = aio[0],
                             .aio_buf = &byte,
                             .aio_nbytes = 1,
                             .aio_lio_opcode = LIO_READ};
}
static void send_byte(void)
{
    must(unseen_call(SYS_write, aio[1], (long)"x", 1, 0) == 1);
}
static const struct aiocb *const requests[] = {&request};
static struct aiocb *const list[] = {&request};

static void case_aio_read_one(void)
{
    must(pipe(aio) == 0);
    name_end("aio.r", aio[0], "read");
    ask_for_byte();
    CALL(aio_read(&request));
}
ONE(aio_suspend_again, aio_suspend(requests, 1, &ms))
WHILE(aio_suspend_waits, send_byte, aio_suspend(requests, 1, NULL))
AND(aio_return_one, aio_return(&request), got == 1 && byte == 'x')
ONE(aio_return_two, aio_return(&request))
static void case_lio_listio_waits(void)
{
    ask_for_byte();
    its_part = send_byte;
    start_thread(&helper, second);
    CALL(lio_listio(LIO_WAIT, list, 1, NULL));
    must(pthread_join(helper, NULL) == 0);
}
ONE(aio_return_of_list, aio_return(&request)) /* it has been recorded */
static void case_aio_return_closed(void)      /* of what the descriptor was */
{
    ask_for_byte();
    must(aio_read(&request) == 0);
    send_byte();
    while (aio_error(&request) == EINPROGRESS)
        sched_yield();
    must(unseen_call(SYS_close, aio[0], 0, 0, 0) == 0);
    CALL(aio_return(&request));
}
static void case_lio_listio_end(void)
{
    must(pipe(aio) == 0 && close(aio[1]) == 0);
    name_end("aio2.r", aio[0], "read");
    ask_for_byte();
    CALL(lio_listio(LIO_WAIT, list, 1, NULL));
    must(close(aio[0]) == 0);
}
static void case_lio_listio_badf(void)
{
    ask_for_byte();
    CALL(lio_listio(LIO_NOWAIT, list, 1, NULL));
    while (aio_error(&request) == EINPROGRESS)
        sched_yield();
    must(aio_error(&request) == EBADF);
}
ONE(aio_return_badf, aio_return(&request))
static int source[2], copy[2];
static void fill_source(void)
{
    must(unseen_call(SYS_write, source[1], (long)"tee", 3, 0) == 3);
}
static void close_source(void)
{
    must(unseen_call(SYS_close, source[1], 0, 0, 0) == 0);
}
static void case_tee_waits(void)
{
    must(pipe(source) == 0 && pipe(copy) == 0);
    name_end("from.r", source[0], "read");
    name_end("to.w", copy[1], "write");
    its_part = fill_source;
    start_thread(&helper, second);
    CALL(tee(source[0], copy[1], 5, 0));
    must(pthread_join(helper, NULL) == 0 && read(source[0], buf, 5) == 3);
}
WHILE(tee_end, close_source, tee(source[0], copy[1], 5, 0))

/* --- the shell's expansion --- */
static wordexp_t expansion;
#define WORDS(name, text, flags, n)                                            \
    AND(name, wordexp(text, &expansion, flags),                                \
        got == 0 && expansion.we_wordc == (n))
WORDS(wordexp_none, "~ '$(exit)' \\$HOME $((1 + (2)))", 0, 4)
WORDS(wordexp_one, "$(echo ')'; (echo a))", 0, 2)
WORDS(wordexp_three, "\"it's $(echo $(echo a))\" `echo b` '$(c' $(echo d)", 0,
      4)
WORDS(wordexp_quotes, "$(echo \"it's\") $(echo \"that's\")", 0, 2)
ONE(wordexp_refused, wordexp("$(echo a)", &expansion, WRDE_NOCMD))

/* A wordexp that makes no child does not hide another thread's. */
static int gate[2];
static void refuse_and_open(void)
{
    wordexp_t none;
    must(wordexp("|$(echo a)", &none, 0) == WRDE_BADCHAR);
    must(unseen_call(SYS_write, gate[1], (long)"\n", 1, 0) == 1);
}
static void case_system_beside(void)
{
    char line[50];
    must(pipe(gate) == 0);
    snprintf(line, sizeof(line), "read word </proc/self/fd/%d", gate[0]);
    its_part = refuse_and_open;
    start_thread(&helper, second);
    CALL(system(line));
    must(pthread_join(helper, NULL) == 0);
}

const struct one_case rare_cases[] = {CASE(flock_free),
                                      CASE(flock_let_go),
                                      CASE(flock_try),
                                      CASE(flock_un_nb),
                                      CASE(flock_inval),
                                      CASE(flock_busy),
                                      CASE(flock_tried),
                                      CASE(flock_tried_at_once),
                                      CASE(flock_waits),
                                      CASE(flock_interrupted),
                                      CASE(setlk_free),
                                      CASE(unlock_set),
                                      CASE(unlock_current),
                                      CASE(unlock_end),
                                      CASE(unlock_before),
                                      CASE(lock_type),
                                      CASE(getlk),
                                      CASE(ofd_busy),
                                      CASE(ofd_waits),
                                      CASE(lockf_lock),
                                      CASE(lockf_test),
                                      CASE(lockf_try),
                                      CASE(lockf_unlock),
                                      CASE(lockf_unlock_back),
                                      CASE(lockf_unlock_all),
                                      CASE(close_free),
                                      CASE(close_locked),
                                      CASE(close_record_locked),
                                      CASE(pwritev_at),
                                      CASE(preadv_at),
                                      CASE(syncfs_closed),
                                      CASE(msync_part),
                                      CASE(msync_inval),
                                      CASE(sync_all),
                                      CASE(fork_one),
                                      CASE(waitpid_one),
                                      CASE(fork_two),
                                      CASE(wait_one),
                                      CASE(clone_one),
                                      CASE(wait3_one),
                                      CASE(spawn_one),
                                      CASE(wait4_one),
                                      CASE(spawnp_one),
                                      CASE(waitid_one),
                                      CASE(waitid_nowait),
                                      CASE(waitpid_polled),
                                      CASE(system_one),
                                      CASE(popen_one),
                                      CASE(pclose_one),
                                      CASE(forkpty_one),
                                      CASE(execlp_noent),
                                      CASE(execle_noent),
                                      CASE(execvpe_noent),
                                      CASE(create_one),
                                      CASE(join_one),
                                      CASE(join_waits),
                                      CASE(timedjoin_one),
                                      CASE(clockjoin_one),
                                      CASE(tryjoin_one),
                                      CASE(thrd_create_one),
                                      CASE(thrd_join_one),
                                      CASE(cancel_one),
                                      CASE(aio_read_one),
                                      CASE(aio_suspend_again),
                                      CASE(aio_suspend_waits),
                                      CASE(aio_return_one),
                                      CASE(aio_return_two),
                                      CASE(lio_listio_waits),
                                      CASE(aio_return_of_list),
                                      CASE(aio_return_closed),
                                      CASE(lio_listio_end),
                                      CASE(lio_listio_badf),
                                      CASE(aio_return_badf),
                                      CASE(tee_waits),
                                      CASE(tee_end),
                                      CASE(wordexp_none),
                                      CASE(wordexp_one),
                                      CASE(wordexp_three),
                                      CASE(wordexp_quotes),
                                      CASE(wordexp_refused),
                                      CASE(system_beside),
                                      {NULL, NULL}};
