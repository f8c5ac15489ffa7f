/* i_answers FILE: what calls give back beside their result - lengths, flags,
 * errno - where the result alone says that all is well; prints all of it.
 * i_answers COUNT open|pass: opens a file so often; writes so often to what
 * leaves no record. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* No call of this program's blocks a signal for longer than it takes. */
static int blocked(void)
{
    sigset_t now;
    int count = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int sig = 1; sig < NSIG; sig++)
        count += sigismember(&now, sig) == 1;
    return count;
}

/* A call that succeeds leaves errno alone. */
#define SAY(call)                                                              \
    do {                                                                       \
        errno = 4711;                                                          \
        long result_ = (long)(call);                                           \
        int after_ = errno;                                                    \
        printf("%d: %s %d %d\n", __LINE__, result_ < 0 ? "failed" : "done",    \
               after_, blocked());                                             \
    } while (0)

static int bound_udp(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    memset(at, 0, sizeof(*at));
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) ||
        bind(fd, (struct sockaddr *)at, sizeof(*at)) ||
        getsockname(fd, (struct sockaddr *)at, &len))
        exit(9);
    return fd;
}

/* The kernel writes lengths and flags into the header: of a message whose
 * sender the program wants to know, or not, cut off or not. */
static void headers(int from, int to, const struct sockaddr_in *at)
{
    for (int k = 0; k < 4; k++) {
        char text[16] = "", control[100];
        struct sockaddr_storage name;
        struct iovec iov = {text, k & 1 ? 3 : sizeof(text)};
        struct msghdr m = {.msg_name = k & 2 ? &name : NULL,
                           .msg_namelen = k & 2 ? sizeof(name) : 77,
                           .msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof(control),
                           .msg_flags = 0x5a5a};
        sendto(from, "message", 7, 0, (const struct sockaddr *)at, sizeof(*at));
        ssize_t n = recvmsg(to, &m, 0);
        printf("%zd name %u control %zu flags %x\n", n,
               k & 2 ? m.msg_namelen : 0, m.msg_controllen,
               (unsigned)m.msg_flags);
    }
}

#define MANY 4

static void many_headers(int from, int to, const struct sockaddr_in *at,
                         int names)
{
    struct mmsghdr in[MANY];
    struct iovec iov[MANY];
    char text[MANY][8], control[MANY][100];
    struct sockaddr_storage name[MANY];
    memset(in, 0, sizeof(in));
    for (int i = 0; i < MANY; i++) {
        sendto(from, "message", (size_t)i + 2, 0, (const struct sockaddr *)at,
               sizeof(*at));
        iov[i] = (struct iovec){text[i], 4};
        in[i].msg_hdr.msg_iov = &iov[i];
        in[i].msg_hdr.msg_iovlen = 1;
        in[i].msg_hdr.msg_control = control[i];
        in[i].msg_hdr.msg_controllen = i == 2 ? 0 : sizeof(control[i]);
        in[i].msg_hdr.msg_flags = 0x5a5a;
        if (names && i != 1) {
            in[i].msg_hdr.msg_name = &name[i];
            in[i].msg_hdr.msg_namelen = sizeof(name[i]);
        }
    }
    int n = recvmmsg(to, in, MANY, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++)
        printf("%d: %u name %u control %zu flags %x\n", i, in[i].msg_len,
               in[i].msg_hdr.msg_name ? in[i].msg_hdr.msg_namelen : 0,
               in[i].msg_hdr.msg_controllen, (unsigned)in[i].msg_hdr.msg_flags);
}

/* Two messages in one call, each to another: 5 bytes to one, 9 to the other. */
static void two_receivers(int from, int a, const struct sockaddr_in *a_at,
                          int b, const struct sockaddr_in *b_at)
{
    struct sockaddr_in to[2] = {*a_at, *b_at};
    char five[] = "fiver", nine[] = "ninebytes", text[20];
    struct iovec iov[2] = {{five, 5}, {nine, 9}};
    struct mmsghdr out[2];
    memset(out, 0, sizeof(out));
    for (int i = 0; i < 2; i++) {
        out[i].msg_hdr.msg_iov = &iov[i];
        out[i].msg_hdr.msg_iovlen = 1;
        out[i].msg_hdr.msg_name = &to[i];
        out[i].msg_hdr.msg_namelen = sizeof(to[i]);
    }
    SAY(sendmmsg(from, out, 2, 0));
    SAY(recv(a, text, sizeof(text), 0));
    SAY(recv(b, text, sizeof(text), 0));
    SAY(recvmmsg(b, out, 2, MSG_DONTWAIT, NULL)); /* there is none */
    SAY(sendmmsg(-1, out, 2, 0));
}

static void datagrams(void)
{
    struct sockaddr_in a_at, b_at, c_at;
    int a = bound_udp(&a_at), b = bound_udp(&b_at), c = bound_udp(&c_at);
    headers(a, b, &b_at);
    many_headers(a, b, &b_at, 0);
    many_headers(a, b, &b_at, 1);
    two_receivers(a, b, &b_at, c, &c_at);
    close(a);
    close(b);
    close(c);
}

/* Packets in order over a connection: 11 and 6 bytes one way, 3 the other. */
static void packets(void)
{
    char text[20];
    int fds[2];
    SAY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
    SAY(send(fds[0], "eleven byte", 11, 0));
    SAY(write(fds[0], "packet", 6));
    SAY(recv(fds[1], text, sizeof(text), 0));
    SAY(read(fds[1], text, sizeof(text)));
    SAY(send(fds[1], "abc", 3, 0));
    SAY(recv(fds[0], text, sizeof(text), 0));
    SAY(close(fds[0]));
    SAY(close(fds[1]));
}

static void files(const char *path)
{
    char text[20];
    int fds[2], other;
    SAY(other = open(path, O_RDONLY | O_CLOEXEC));
    SAY(read(other, text, sizeof(text)));
    SAY(pread(other, text, sizeof(text), 1));
    SAY(lseek(other, 0, SEEK_SET));
    SAY(pipe2(fds, O_CLOEXEC));
    SAY(sendfile(fds[1], other, NULL, 10));
    SAY(read(fds[0], text, 10));
    SAY(dup2(fds[0], other));
    SAY(fcntl(other, F_GETFL));
    SAY(close(other));
    SAY(write(fds[1], "x", 1));
    SAY(read(fds[0], text, 1));
    SAY(close(fds[0]));
    SAY(close(fds[1]));
    SAY(open("/no/such/file", O_RDONLY | O_CLOEXEC));
    SAY(read(-1, text, 1));
    SAY(close(-1));
    FILE *f = NULL;
    SAY(f = fopen(path, "re"));
    SAY(fread(text, 1, 10, f));
    SAY(fclose(f));
}

static void waits(void)
{
    const struct timespec brief = {0, 1000};
    struct timeval brief_tv = {0, 1};
    struct epoll_event event = {.events = EPOLLIN};
    uint64_t one = 1;
    int e = eventfd(0, EFD_CLOEXEC), p = epoll_create1(EPOLL_CLOEXEC);
    struct pollfd f = {.fd = e, .events = POLLIN};
    SAY(epoll_ctl(p, EPOLL_CTL_ADD, e, &event));
    SAY(poll(&f, 1, 1));
    SAY(epoll_wait(p, &event, 1, 1));
    SAY(write(e, &one, sizeof(one)));
    SAY(poll(&f, 1, -1));
    SAY(epoll_wait(p, &event, 1, -1));
    SAY(read(e, &one, sizeof(one)));
    SAY(select(0, NULL, NULL, NULL, &brief_tv));
    SAY(nanosleep(&brief, NULL));
    SAY(usleep(1));
    SAY(close(p));
    SAY(close(e));
}

static void messages(void)
{
    struct {
        long type;
        char text[8];
    } m = {1, "message"};
    struct sembuf up = {0, 1, 0}, down = {0, -1, IPC_NOWAIT};
    int q = msgget(IPC_PRIVATE, 0600), s = semget(IPC_PRIVATE, 1, 0600);
    SAY(msgsnd(q, &m, sizeof(m.text), 0));
    SAY(msgrcv(q, &m, sizeof(m.text), 0, 0));
    SAY(msgrcv(q, &m, sizeof(m.text), 0, IPC_NOWAIT));
    SAY(msgsnd(-1, &m, sizeof(m.text), 0));
    SAY(semop(s, &up, 1));
    SAY(semop(s, &down, 1));
    SAY(semop(s, &down, 1));
    SAY(msgctl(q, IPC_RMID, NULL));
    SAY(semctl(s, 0, IPC_RMID));
    SAY(msgrcv(q, &m, sizeof(m.text), 0, 0));
}

static void queue(void)
{
    struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 8};
    const struct timespec past = {1, 0};
    char name[40], text[8] = "posix";
    unsigned priority = 0;
    mqd_t q;
    snprintf(name, sizeof(name), "/i_answers-%d", (int)getpid());
    SAY(q = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr));
    SAY(mq_send(q, text, 5, 3));
    SAY(mq_receive(q, text, sizeof(text), &priority));
    printf("priority %u\n", priority);
    SAY(mq_timedreceive(q, text, sizeof(text), &priority, &past));
    SAY(mq_send(q, text, 9, 3));
    SAY(mq_close(q));
    SAY(mq_unlink(name));
    SAY(mq_send(q, text, 5, 3));
}

static void *idle(void *arg)
{
    return arg;
}

static void threads(void)
{
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
    const struct timespec past = {1, 0};
    pthread_t t;
    sem_t s;
    SAY(pthread_mutex_lock(&m));
    SAY(pthread_mutex_trylock(&m));
    SAY(pthread_cond_timedwait(&c, &m, &past));
    SAY(pthread_mutex_unlock(&m));
    SAY(pthread_rwlock_wrlock(&l));
    SAY(pthread_rwlock_tryrdlock(&l));
    SAY(pthread_rwlock_unlock(&l));
    SAY(sem_init(&s, 0, 1));
    SAY(sem_wait(&s));
    SAY(sem_trywait(&s));
    SAY(sem_timedwait(&s, &past));
    SAY(sem_post(&s));
    SAY(pthread_create(&t, NULL, idle, NULL));
    SAY(pthread_join(t, NULL));
}

static void processes(void)
{
    int status;
    fflush(stdout);
    pid_t pid;
    SAY(pid = fork());
    if (pid == 0)
        _exit(0);
    SAY(waitpid(pid, &status, 0));
    SAY(waitpid(pid, &status, 0));
    SAY(kill(getpid(), 0));
    SAY(system("exit 3"));
    FILE *f = NULL;
    SAY(f = popen("exit 4", "r"));
    SAY(pclose(f));
    SAY(execl("/no/such/program", "x", (char *)NULL));
}

static int many(int count, bool opens)
{
    int to = open("/dev/null", O_WRONLY | O_CLOEXEC), wrong = 0;
    for (int i = 0; i < count; i++) {
        int fd = opens ? open("/etc/passwd", O_RDONLY | O_CLOEXEC) : to;
        wrong += opens ? close(fd) != 0 : write(fd, "x", 1) != 1;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return many(atoi(argv[1]), strcmp(argv[2], "open") == 0);
    static char out[1 << 16]; /* nothing of it is written in between */
    setvbuf(stdout, out, _IOFBF, sizeof(out));
    datagrams();
    packets();
    files(argv[argc - 1]);
    waits();
    messages();
    queue();
    threads();
    processes();
    return 0;
}
