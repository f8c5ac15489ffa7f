/*
 * i_ipc: System V semaphores and message queues, POSIX message queues. In each
 * case the main process waits until a child, which sees it asleep, lets it go;
 * then once more where it need not wait. Prints what the calls returned.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asleep.h"

static int sems, queue;
static mqd_t posix;
static struct message {
    long type;
    char text[8];
} message = {1, "message"};

static void said(const char *what, long r)
{
    printf("%s %ld %s\n", what, r, r < 0 ? strerror(errno) : "");
}

static int operate(unsigned short number, short op)
{
    struct sembuf b = {number, op, 0};
    return semop(sems, &b, 1);
}

static int exchange(void) /* from 2 to 0, at once */
{
    struct sembuf b[2] = {{2, -2, 0}, {0, 1, 0}};
    return semop(sems, b, 2);
}

static long long_ahead(struct timespec *t)
{
    clock_gettime(CLOCK_REALTIME, t);
    t->tv_sec += 1000;
    return 0;
}

static void sem_post_1(void)
{
    said("post", operate(1, 1));
}
static void sem_wait_1(void)
{
    said("wait", operate(1, -1));
}
static void sem_timed(void)
{
    struct sembuf b = {1, -1, SEM_UNDO};
    struct timespec t = {1000, 0};
    said("timed", semtimedop(sems, &b, 1, &t));
}
static void sem_by_number(void)
{
    struct sembuf b = {1, -1, 0};
    said("raw", syscall(SYS_semtimedop, sems, &b, 1L, NULL));
}
static void sem_post_2(void)
{
    said("post 2", operate(2, 2));
}
static void sem_exchange(void)
{
    said("exchange", exchange());
}
static void sem_down(void)
{
    said("down", operate(0, -1));
}
static void sem_zero(void)
{
    said("zero", operate(0, 0));
}
static void put(void)
{
    said("put", msgsnd(queue, &message, sizeof(message.text), 0));
}
static void take(void)
{
    struct message m;
    said("take", msgrcv(queue, &m, sizeof(m.text), 0, 0));
}
static void posix_put(void)
{
    said("mq put", mq_send(posix, message.text, sizeof(message.text), 1));
}
static void posix_take(void)
{
    char text[8];
    unsigned priority;
    said("mq take", mq_receive(posix, text, sizeof(text), &priority));
}
static void posix_take_timed(void)
{
    char text[8];
    struct timespec t;
    long_ahead(&t);
    said("mq timed take", mq_timedreceive(posix, text, sizeof(text), NULL, &t));
}
static void posix_put_timed(void)
{
    struct timespec t;
    long_ahead(&t);
    said("mq timed put", mq_timedsend(posix, message.text, 8, 1, &t));
}

/* The waiting call here, the other in a child once we sleep. */
static void together(void (*waits)(void), void (*lets)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        until_asleep(getppid());
        lets();
        _exit(0); /* what it said is not to come in between */
    }
    waits();
    waitpid(child, NULL, 0);
}

/* What the program would notice: the errors, in their order. */
static void errors(void)
{
    struct timespec bad = {0, -1};
    struct sembuf no = {1, -1, IPC_NOWAIT}, more = {9, -1, 0};
    void *nowhere = (void *)8;
    errno = 0;
    said("nothing there", semop(sems, &no, 1));
    said("bad number", semop(sems, &more, 1));
    said("bad place", semop(sems, nowhere, 1));
    said("bad id", semop(-1, &no, 1));
    operate(1, 1);
    said("bad time", semtimedop(sems, &no, 1, &bad));
    operate(1, -1);
    said("no message", msgrcv(queue, &message, 8, 0, IPC_NOWAIT));
    said("too long", msgsnd(queue, &message, 1 << 20, 0));
    said("bad type", msgsnd(queue, &(struct message){0, ""}, 8, 0));
    said("short buffer", mq_receive(posix, message.text, 1, NULL));
    posix_put();
    said("bad time", mq_timedreceive(posix, message.text, 8, NULL, &bad));
    posix_take();
    said("not a queue", mq_send(0, message.text, 8, 1));
    struct timespec soon = {1, 0};
    said("late", mq_timedreceive(posix, message.text, 8, NULL, &soon));
    errno = 77;
    posix_put();
    posix_take();
    said("errno kept", errno == 77 ? 0 : errno);
}

/* Behind a filter that ends who calls semtimedop with a time, which semop does
 * not. */
static void filtered(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_semtimedop, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
        _exit(operate(1, 1) == 0 && operate(1, -1) == 0 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    printf("filtered %d\n", status);
}

int main(void)
{
    char name[64];
    snprintf(name, sizeof(name), "/ips-test-%d", (int)getpid());
    struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 8};
    posix = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &one);
    mq_unlink(name);
    sems = semget(IPC_PRIVATE, 3, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    if (posix < 0 || sems < 0 || queue < 0)
        return 1;
    struct msqid_ds room;
    msgctl(queue, IPC_STAT, &room);
    room.msg_qbytes = 8;
    msgctl(queue, IPC_SET, &room);
    together(sem_wait_1, sem_post_1);
    together(sem_timed, sem_post_1);
    together(sem_by_number, sem_post_1);
    together(sem_exchange, sem_post_2);
    together(sem_zero, sem_down);
    together(take, put);
    put();
    together(put, take); /* waits for room */
    take();
    together(posix_take, posix_put);
    together(posix_take_timed, posix_put);
    posix_put();
    together(posix_put, posix_take); /* waits for room */
    together(posix_put_timed, posix_take);
    posix_take();
    sem_post_1();
    sem_wait_1(); /* nobody waits */
    errors();
    filtered();
    semctl(sems, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    mq_close(posix);
    return 0;
}
