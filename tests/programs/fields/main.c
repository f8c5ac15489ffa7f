#include "fields.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

unsigned next_chan;

void must(bool good)
{
    if (!good) {
        perror("i_fields");
        exit(1);
    }
}

pid_t tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

void want(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("want %d %d ", (int)getpid(), (int)tid());
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
}

uint64_t fnv(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t ns(clockid_t clock)
{
    struct timespec ts;
    must(clock_gettime(clock, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void say_times(const char *what)
{
    uint64_t cpu = ns(CLOCK_THREAD_CPUTIME_ID);
    printf("%s %d %d %lu %lu\n", what, (int)getpid(), (int)tid(),
           (unsigned long)ns(CLOCK_MONOTONIC_RAW), (unsigned long)cpu);
    fflush(stdout);
}

void want_chan(int fd, unsigned kind, unsigned side, unsigned flags,
               const char *rest)
{
    struct stat st;
    must(fstat(fd, &st) == 0);
    want("CHAN a=%u fd=%d kind=%u side=%u flags=%u reserved=0 dev=%lu ino=%lu "
         "reserved2=0 %s",
         ++next_chan, fd, kind, side, flags, (unsigned long)st.st_dev,
         (unsigned long)st.st_ino, rest);
}

void want_io(const char *type, unsigned chan, long result, unsigned op,
             const char *in)
{
    want("%s a=%u result=%ld op=%u err=0 ready=0 in=%s", type, chan, result, op,
         in);
}

void want_close(int fd, unsigned chan, unsigned how, const char *totals,
                const char *in)
{
    want("CLOSE a=%u fd=%d how=%u %s in=%s", chan, fd, how, totals, in);
}

int main(int argc, char **argv)
{
    char name[512] = "";
    if (argc == 2) /* what use_spawn() starts */
        _exit(9);
    say_times("begin");
    for (int i = 0; i < argc; i++) {
        strcat(name, i ? " " : "");
        strcat(name, argv[i]);
    }
    want("START a=3 fork_seq=0 ppid=%d ptid=0 parent_image=0 parent_t=0",
         (int)getppid());
    want("NAME a=%zu text=\"%s\"", strlen(name), name);
    want_chan(2, 1, 2, 8, PIPE); /* standard error is a pipe */
    use_pipe();
    use_pair();
    use_tcp();
    use_udp();
    use_dgrams();
    use_names();
    use_poll();
    use_fork();
    use_spawn();
    use_waits();
    use_exec();
    use_signals();
    use_thread();
    use_queue();
    use_locks();
    leave_thread();
    want("END a=2 status=0"); /* what exit() is given is not known */
    say_times("end");
    exit(7);
}
