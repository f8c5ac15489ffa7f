/* Calls that are given memory that cannot be read or written, and calls on
 * small stacks, below which there is other memory of the program. */
#include "failures.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

static char self[] = "/bin/true", word[] = "x", setting[] = "A=1";
static char *words[] = {self, NULL}, *good[] = {setting, NULL}, *bad[3];
static char text[16], length[] = "16";
static struct iovec iov = {text, sizeof(text)};
static struct sockaddr_in from;
static socklen_t from_len = sizeof(from);
static int udp;

/* An address that is in no mapping, which the compiler does not know. */
static void *nowhere(void)
{
    return (void *)(uintptr_t)strtoul(length, NULL, 10);
}

/* Copies `bytes` bytes to the end of a page that can only be read, and that no
 * page follows. */
static void *read_only(const void *what, size_t bytes)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED);
    memcpy(pages + 4096 - bytes, what, bytes);
    must(mprotect(pages, 4096, PROT_READ) == 0 &&
         mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    return pages + 4096 - bytes;
}

/* A text without an end, in memory that has one. */
static char *endless(void)
{
    return read_only("PATH=x", 6);
}

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

/* --- exec --- */
static char **with(char *text_of)
{
    bad[0] = word;
    bad[1] = text_of;
    return bad;
}
ONE(execve_path, execve(nowhere(), words, good))
ONE(execve_endless, execve(endless(), words, good))
ONE(execve_list, execve(self, words, nowhere()))
ONE(execve_short_list, execve(self, words, read_only(good, sizeof(*good))))
ONE(execve_text, execve(self, words, with(nowhere())))
ONE(execve_endless_text, execve(self, words, with(endless())))
ONE(execv_path, execv(nowhere(), words))
ONE(execveat_path, execveat(AT_FDCWD, nowhere(), words, good, 0))
ONE(execveat_list, execveat(AT_FDCWD, self, words, nowhere(), 0))
ONE(number_path, syscall(SYS_execve, nowhere(), words, good))
ONE(number_list, syscall(SYS_execve, self, words, nowhere()))
ONE(number_at_path, syscall(SYS_execveat, AT_FDCWD, nowhere(), words, good, 0))
static void case_execv_list(void)
{
    char **before = environ;
    environ = nowhere();
    call_begins();
    errno = UNTOUCHED;
    int r = execv(self, words), e = errno;
    environ = before;
    call_ends(r, e);
}
static void case_fexecve_list(void)
{
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    CALL(fexecve(fd, words, nowhere()));
    close(fd);
}
static void case_fexecve_null(void)
{
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    CALL(fexecve(fd, words, NULL));
    close(fd);
}
static pid_t pid;
ONE(spawn_path, posix_spawn(&pid, nowhere(), NULL, NULL, words, good))
ONE(spawn_list, posix_spawn(&pid, self, NULL, NULL, words, nowhere()))
ONE(spawn_text, posix_spawn(&pid, self, NULL, NULL, words, with(nowhere())))
ONE(spawnp_list, posix_spawnp(&pid, "true", NULL, NULL, words, nowhere()))

/* --- datagrams: the kernel takes one before it finds that it cannot store the
 * header --- */
static void refill(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(to);
    if (!udp) {
        udp = socket(AF_INET, SOCK_DGRAM, 0);
        must(bind(udp, (struct sockaddr *)&to, n) == 0);
        name_end("udp", udp, "both");
    }
    while (recv(udp, text, sizeof(text), MSG_DONTWAIT) >= 0)
        continue;
    must(getsockname(udp, (struct sockaddr *)&to, &n) == 0);
    for (int i = 0; i < 4; i++)
        must(sendto(udp, "x", 1, 0, (struct sockaddr *)&to, n) == 1);
}
#define DATAGRAM(name, call)                                                   \
    static void case_##name(void)                                              \
    {                                                                          \
        refill();                                                              \
        CALL(call);                                                            \
    }
#define FROM (struct sockaddr *)&from
static struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
static struct mmsghdr many[2] = {
    {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}},
    {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}}};
DATAGRAM(recvfrom_length, recvfrom(udp, text, 9, 0, FROM, nowhere()))
DATAGRAM(recvfrom_fixed,
         recvfrom(udp, text, 9, 0, FROM, read_only(&from_len, 4)))
DATAGRAM(recvmsg_header, recvmsg(udp, nowhere(), 0))
DATAGRAM(recvmsg_fixed, recvmsg(udp, read_only(&msg, sizeof(msg)), 0))
DATAGRAM(recvmmsg_headers, recvmmsg(udp, nowhere(), 2, 0, NULL))
DATAGRAM(recvmmsg_fixed,
         recvmmsg(udp, read_only(many, sizeof(many)), 2, 0, NULL))
DATAGRAM(recvmmsg_short,
         recvmmsg(udp, (struct mmsghdr *)read_only(many, sizeof(*many)) - 1, 2,
                  MSG_DONTWAIT, NULL))
/* A descriptor that is refused before the kernel looks at the message. */
static void case_fastopen_header(void)
{
    CALL(sendmsg(-1, nowhere(), MSG_FASTOPEN));
}
DATAGRAM(number_recvfrom,
         syscall(SYS_recvfrom, udp, text, 9, 0, FROM, nowhere()))
DATAGRAM(number_recvmsg, syscall(SYS_recvmsg, udp, nowhere(), 0))
DATAGRAM(number_recvmmsg, syscall(SYS_recvmmsg, udp, nowhere(), 2, 0, NULL))

/* The same with memory that is good, but not on a stack. */
DATAGRAM(recvfrom_static, recvfrom(udp, text, 9, 0, FROM, &from_len))
DATAGRAM(recvmsg_static, recvmsg(udp, &msg, 0))
DATAGRAM(recvmmsg_static, recvmmsg(udp, many, 2, 0, NULL))

static void case_epoll_pwait2_time(void)
{
    int fd = epoll_create1(0);
    struct epoll_event event;
    CALL(epoll_pwait2(fd, &event, 1, nowhere(), NULL));
    close(fd);
}

/* --- small stacks --- */

#define BELOW 65536u
#define SMALL 8192u
static ucontext_t outside, inside;
static void (*on_small_stack)(void);

static void run_on_small_stack(void)
{
    on_small_stack();
}

/* Runs `what` on a stack of SMALL bytes; returns how many bytes below it have
 * changed. No signal comes meanwhile, not even one of the C library's own: it
 * would need half of such a stack. */
static long bytes_changed_below(void (*what)(void))
{
    unsigned char *stack = malloc(BELOW + SMALL);
    uint64_t all = ~0ull, before;
    long n = 0;
    must(stack != NULL);
    memset(stack, 0xab, BELOW + SMALL);
    on_small_stack = what;
    must(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack + BELOW;
    inside.uc_stack.ss_size = SMALL;
    inside.uc_link = &outside;
    makecontext(&inside, run_on_small_stack, 0);
    must(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8) == 0);
    int r = swapcontext(&outside, &inside);
    must(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8) == 0 &&
         r == 0);
    for (unsigned i = 0; i < BELOW; i++)
        n += stack[i] != 0xab;
    free(stack);
    return n;
}
#define SMALL_STACK(name, what)                                                \
    static void case_##name(void)                                              \
    {                                                                          \
        refill();                                                              \
        long n = bytes_changed_below(what);                                    \
        CALL(n);                                                               \
    }
static void use_pipe(void)
{
    int p[2];
    must(pipe(p) == 0 && write(p[1], "x", 1) == 1 && read(p[0], text, 1) == 1);
    close(p[0]);
    close(p[1]);
}
/* More than half of the stack is in use already. */
static void __attribute__((noinline)) use_pipe_deep(void)
{
    volatile char own[4500];
    own[0] = 1;
    use_pipe();
    own[1] = own[0];
}
static void use_spawn(void)
{
    int status = -1;
    must(posix_spawn(&pid, self, NULL, NULL, words, environ) == 0 &&
         waitpid(pid, &status, 0) == pid && status == 0);
}
static void use_vfork(void)
{
    int status = -1;
    /* not the program of use_spawn, which the thread remembers */
    static char path[] = "/bin/sleep", zero[] = "0";
    static char *sleeps[] = {path, zero, NULL};
    pid = vfork();
    if (pid == 0) {
        execve(path, sleeps, environ);
        _exit(1);
    }
    must(waitpid(pid, &status, 0) == pid && status == 0);
}
static void use_recvmmsg(void)
{
    must(recvmmsg(udp, many, 2, 0, NULL) == 2);
}
SMALL_STACK(stack_pipe, use_pipe_deep)
SMALL_STACK(stack_spawn, use_spawn)
SMALL_STACK(stack_vfork, use_vfork)
SMALL_STACK(stack_recvmmsg, use_recvmmsg)

static void *in_thread(void *arg)
{
    use_recvmmsg();
    return arg;
}
static void case_thread_recvmmsg(void)
{
    pthread_attr_t attr;
    pthread_t t;
    refill();
    must(pthread_attr_init(&attr) == 0 &&
         pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN) == 0 &&
         pthread_create(&t, &attr, in_thread, NULL) == 0);
    int r = pthread_join(t, NULL);
    CALL(r);
}

const struct one_case memory_cases[] = {
    CASE(execve_path),     CASE(execve_endless),
    CASE(execve_list),     CASE(execve_short_list),
    CASE(execve_text),     CASE(execve_endless_text),
    CASE(execv_path),      CASE(execv_list),
    CASE(execveat_path),   CASE(execveat_list),
    CASE(number_path),     CASE(number_list),
    CASE(number_at_path),  CASE(fexecve_list),
    CASE(fexecve_null),    CASE(spawn_path),
    CASE(spawn_list),      CASE(spawn_text),
    CASE(spawnp_list),     CASE(recvfrom_length),
    CASE(recvfrom_fixed),  CASE(recvmsg_header),
    CASE(recvmsg_fixed),   CASE(recvmmsg_headers),
    CASE(recvmmsg_fixed),  CASE(recvmmsg_short),
    CASE(fastopen_header), CASE(number_recvfrom),
    CASE(number_recvmsg),  CASE(number_recvmmsg),
    CASE(recvfrom_static), CASE(recvmsg_static),
    CASE(recvmmsg_static), CASE(epoll_pwait2_time),
    CASE(stack_pipe),      CASE(stack_spawn),
    CASE(stack_vfork),     CASE(stack_recvmmsg),
    CASE(thread_recvmmsg), {NULL, NULL}};
