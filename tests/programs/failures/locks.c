/* Locks, semaphores and queues that are not to be had. */
#include "failures.h"

#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static const struct timespec wrong = {0, -1}, ms30 = {0, 30000000};
static sem_t sem;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, checked;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static int sems = -1, queue = -1;
static mqd_t mq = -1;

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

static void case_sem_try_again(void)
{
    must(sem_init(&sem, 0, 0) == 0);
    printf("[sem %p] ", (void *)&sem);
    CALL(sem_trywait(&sem));
}
static void case_sem_timeout(void)
{
    struct timespec until = from_now(CLOCK_REALTIME, 30);
    CALL(sem_timedwait(&sem, &until));
}
static void case_sem_clock_timeout(void)
{
    struct timespec until = from_now(CLOCK_MONOTONIC, 30);
    CALL(sem_clockwait(&sem, CLOCK_MONOTONIC, &until));
}
ONE(sem_inval, sem_timedwait(&sem, &wrong))
static void case_sem_interrupted(void)
{
    alarms_begin();
    CALL(sem_wait(&sem));
    alarms_end();
}

/* Where there is no second thread, the C library's locks are not looked at. */
static void *sleeper(void *arg)
{
    pause();
    return arg;
}
static void case_mutex_busy(void)
{
    pthread_t t;
    sigset_t all, before;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0 &&
         pthread_create(&t, NULL, sleeper, NULL) == 0 &&
         pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    printf("[mutex %p] ", (void *)&mutex);
    must(pthread_mutex_lock(&mutex) == 0);
    CALL(pthread_mutex_trylock(&mutex));
}
static void case_mutex_timeout(void) /* by who has it already */
{
    struct timespec until = from_now(CLOCK_REALTIME, 30);
    CALL(pthread_mutex_timedlock(&mutex, &until));
}
static void case_mutex_clock_timeout(void)
{
    struct timespec until = from_now(CLOCK_MONOTONIC, 30);
    CALL(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until));
}
static void case_mutex_inval(void)
{
    CALL(pthread_mutex_timedlock(&mutex, &wrong));
}
static void case_mutex_deadlock(void)
{
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0 &&
         pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK) == 0 &&
         pthread_mutex_init(&checked, &attr) == 0);
    must(pthread_mutex_lock(&checked) == 0);
    CALL(pthread_mutex_lock(&checked));
}
static void case_mutex_perm(void)
{
    must(pthread_mutex_unlock(&checked) == 0);
    CALL(pthread_mutex_unlock(&checked));
}
static void case_cond_timeout(void)
{
    struct timespec until = from_now(CLOCK_REALTIME, 30);
    printf("[cond %p] ", (void *)&cond);
    CALL(pthread_cond_timedwait(&cond, &mutex, &until));
}
static void case_cond_inval(void)
{
    CALL(pthread_cond_timedwait(&cond, &mutex, &wrong));
    must(pthread_mutex_unlock(&mutex) == 0);
}
static void case_rwlock_busy(void)
{
    printf("[rwlock %p] ", (void *)&rwlock);
    must(pthread_rwlock_wrlock(&rwlock) == 0);
    CALL(pthread_rwlock_tryrdlock(&rwlock));
}
ONE(rwlock_deadlock, pthread_rwlock_rdlock(&rwlock))
static void case_rwlock_read_timeout(void)
{
    must(pthread_rwlock_unlock(&rwlock) == 0 &&
         pthread_rwlock_rdlock(&rwlock) == 0);
    struct timespec until = from_now(CLOCK_REALTIME, 30);
    CALL(pthread_rwlock_timedwrlock(&rwlock, &until));
}
static void case_rwlock_inval(void)
{
    CALL(pthread_rwlock_clockwrlock(&rwlock, 99, &wrong));
    must(pthread_rwlock_unlock(&rwlock) == 0);
}
static void case_spin_busy(void)
{
    must(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0 &&
         pthread_spin_lock(&spin) == 0);
    CALL(pthread_spin_trylock(&spin));
}

/* --- System V --- */
static struct sembuf op(short by, short flags)
{
    return (struct sembuf){.sem_num = 0, .sem_op = by, .sem_flg = flags};
}
static void case_semop_again(void)
{
    sems = semget(IPC_PRIVATE, 1, 0600);
    must(sems >= 0 && semctl(sems, 0, SETVAL, 0) == 0);
    printf("[sems %d] ", sems);
    struct sembuf o = op(-1, IPC_NOWAIT);
    CALL(semop(sems, &o, 1));
}
static void case_semop_timeout(void)
{
    struct sembuf o = op(-1, 0);
    CALL(semtimedop(sems, &o, 1, &ms30));
}
static void case_semop_interrupted(void)
{
    struct sembuf o = op(-1, 0);
    alarms_begin();
    CALL(semop(sems, &o, 1));
    alarms_end();
}
static void case_semop_inval(void)
{
    struct sembuf o = op(-1, 0);
    CALL(semop(-1, &o, 1));
}
static void case_semop_number(void)
{
    struct sembuf o = op(-1, 0);
    o.sem_num = 50;
    CALL(semop(sems, &o, 1));
}
static void case_semop_range(void)
{
    struct sembuf o = op(32767, 0);
    must(semop(sems, &o, 1) == 0);
    CALL(semop(sems, &o, 1));
    semctl(sems, 0, IPC_RMID);
}

struct message {
    long type;
    char text[8];
};
static void case_msgrcv_none(void)
{
    struct message m;
    queue = msgget(IPC_PRIVATE, 0600);
    must(queue >= 0);
    printf("[queue %d] ", queue);
    CALL(msgrcv(queue, &m, sizeof(m.text), 0, IPC_NOWAIT));
}
static void case_msgrcv_interrupted(void)
{
    struct message m;
    alarms_begin();
    CALL(msgrcv(queue, &m, sizeof(m.text), 0, 0));
    alarms_end();
}
static void case_msgsnd_inval(void)
{
    const struct message m = {.type = 0};
    CALL(msgsnd(queue, &m, sizeof(m.text), 0));
}
static void case_msgrcv_too_big(void)
{
    struct message m = {.type = 1};
    must(msgsnd(queue, &m, sizeof(m.text), 0) == 0);
    CALL(msgrcv(queue, &m, 4, 0, 0));
}
static void case_msgsnd_full(void)
{
    const struct message m = {.type = 1};
    while (msgsnd(queue, &m, sizeof(m.text), IPC_NOWAIT) == 0)
        continue;
    CALL(msgsnd(queue, &m, sizeof(m.text), IPC_NOWAIT));
}
static void case_msgsnd_interrupted(void)
{
    const struct message m = {.type = 1};
    alarms_begin();
    CALL(msgsnd(queue, &m, sizeof(m.text), 0));
    alarms_end();
    msgctl(queue, IPC_RMID, NULL);
}
static void case_msgsnd_gone(void)
{
    const struct message m = {.type = 1};
    CALL(msgsnd(queue, &m, sizeof(m.text), 0));
}

/* --- POSIX message queues --- */
static void case_mq_again(void)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
    char name[40];
    snprintf(name, sizeof(name), "/ips-failures-%d", (int)getpid());
    mq = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
    must(mq >= 0 && mq_unlink(name) == 0);
    name_end("mq", mq, "both");
    no_wait(mq);
    CALL(mq_receive(mq, buf, 8, NULL));
}
static void case_mq_size(void)
{
    CALL(mq_receive(mq, buf, 4, NULL));
}
static void case_mq_too_long(void)
{
    CALL(mq_send(mq, buf, 9, 0));
}
static void case_mq_full(void)
{
    must(mq_send(mq, buf, 8, 0) == 0);
    CALL(mq_send(mq, buf, 8, 0));
}
static void case_mq_timeout(void)
{
    struct timespec until = from_now(CLOCK_REALTIME, 30);
    must(fcntl(mq, F_SETFL, O_RDWR) == 0);
    CALL(mq_timedsend(mq, buf, 8, 0, &until));
}
static void case_mq_interrupted(void)
{
    must(mq_receive(mq, buf, 8, NULL) == 8);
    alarms_begin();
    CALL(mq_receive(mq, buf, 8, NULL));
    alarms_end();
}
ONE(mq_badf, mq_send(CLOSED, buf, 8, 0))

/* --- locks on files --- */
static void case_flock_again(void)
{
    char name[] = "/tmp/i_failures-XXXXXX";
    int a = mkstemp(name), b = open(name, O_RDWR);
    must(a >= 0 && b >= 0 && unlink(name) == 0);
    must(flock(a, LOCK_EX) == 0);
    CALL(flock(b, LOCK_EX | LOCK_NB));
    close(a);
    close(b);
}
ONE(flock_badf, flock(CLOSED, LOCK_EX))
static void case_setlk_badf(void)
{
    struct flock lock = {.l_type = F_WRLCK};
    CALL(fcntl(CLOSED, F_SETLKW, &lock));
}
ONE(lockf_inval, lockf(empty[0], 12345, 0))

/* --- free, but the time or the clock is none: refused all the same --- */
#define FREE_INVAL(name, call)                                                 \
    static void case_free_##name(void)                                         \
    {                                                                          \
        must(sem_post(&sem) == 0);                                             \
        CALL(call);                                                            \
        while (sem_trywait(&sem) == 0)                                         \
            continue;                                                          \
    }
FREE_INVAL(sem_timed, sem_timedwait(&sem, &wrong))
FREE_INVAL(sem_clock, sem_clockwait(&sem, CLOCK_MONOTONIC, &wrong))
FREE_INVAL(sem_no_clock, sem_clockwait(&sem, 99, &ms30))
FREE_INVAL(rwlock_timedrd, pthread_rwlock_timedrdlock(&rwlock, &wrong))
FREE_INVAL(rwlock_timedwr, pthread_rwlock_timedwrlock(&rwlock, &wrong))
FREE_INVAL(rwlock_clockrd,
           pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &wrong))
FREE_INVAL(rwlock_clockwr,
           pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &wrong))
FREE_INVAL(rwlock_no_clockrd, pthread_rwlock_clockrdlock(&rwlock, 99, &ms30))
FREE_INVAL(rwlock_no_clockwr, pthread_rwlock_clockwrlock(&rwlock, 99, &ms30))
FREE_INVAL(mutex_timed, pthread_mutex_timedlock(&mutex, &wrong))
FREE_INVAL(mutex_no_clock, pthread_mutex_clocklock(&checked, 99, &ms30))

const struct one_case lock_cases[] = {CASE(sem_try_again),
                                      CASE(sem_timeout),
                                      CASE(sem_clock_timeout),
                                      CASE(sem_inval),
                                      CASE(sem_interrupted),
                                      CASE(mutex_busy),
                                      CASE(mutex_timeout),
                                      CASE(mutex_clock_timeout),
                                      CASE(mutex_inval),
                                      CASE(mutex_deadlock),
                                      CASE(mutex_perm),
                                      CASE(cond_timeout),
                                      CASE(cond_inval),
                                      CASE(rwlock_busy),
                                      CASE(rwlock_deadlock),
                                      CASE(rwlock_read_timeout),
                                      CASE(rwlock_inval),
                                      CASE(spin_busy),
                                      CASE(free_sem_timed),
                                      CASE(free_sem_clock),
                                      CASE(free_sem_no_clock),
                                      CASE(free_rwlock_timedrd),
                                      CASE(free_rwlock_timedwr),
                                      CASE(free_rwlock_clockrd),
                                      CASE(free_rwlock_clockwr),
                                      CASE(free_rwlock_no_clockrd),
                                      CASE(free_rwlock_no_clockwr),
                                      CASE(free_mutex_timed),
                                      CASE(free_mutex_no_clock),
                                      CASE(semop_again),
                                      CASE(semop_timeout),
                                      CASE(semop_interrupted),
                                      CASE(semop_inval),
                                      CASE(semop_number),
                                      CASE(semop_range),
                                      CASE(msgrcv_none),
                                      CASE(msgrcv_interrupted),
                                      CASE(msgsnd_inval),
                                      CASE(msgrcv_too_big),
                                      CASE(msgsnd_full),
                                      CASE(msgsnd_interrupted),
                                      CASE(msgsnd_gone),
                                      CASE(mq_again),
                                      CASE(mq_size),
                                      CASE(mq_too_long),
                                      CASE(mq_full),
                                      CASE(mq_timeout),
                                      CASE(mq_interrupted),
                                      CASE(mq_badf),
                                      CASE(flock_again),
                                      CASE(flock_badf),
                                      CASE(setlk_badf),
                                      CASE(lockf_inval),
                                      {NULL, NULL}};
