/*
 * delay.so: a preload library that delays chosen calls of an unmodified
 * program, and says exactly what it did. Stands before IPS's own (ipsrun puts
 * that behind the user's LD_PRELOAD), so a delay is the program's own time
 * before the call.
 *
 * DELAY="program=sort,call=write,first=3,count=5,us=1000": see `keys` below.
 * Without `us` nothing is delayed, the calls are noted; without `call` the
 * first MOST calls of every function in each thread are. DELAY_LOG=FILE, which
 * exists and is as long as it shall become: entries of all processes, in a
 * mapping that they share, so that none is lost however a process ends.
 * tests/bench/inject/delay.py reads it; the layout is `struct log`.
 *
 * Counts begin anew in each image and each forked child. errno is kept; in a
 * vfork child nothing is delayed or noted (it has the parent's memory).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* One call, delayed or noted. Times in ns;
 * `at` is CLOCK_MONOTONIC_RAW before the delay. */
struct entry {
    int32_t pid, tid;
    uint32_t call; /* index in calls.h */
    int32_t forks; /* since the image began */
    uint64_t number, at, elapsed, cpu, site;
    uint64_t arg; /* which of the alternatives of `arg`, from 1; 0 none */
    char program[16];
};

struct log {
    _Atomic uint64_t used; /* may be more than there is room for */
    struct entry entry[];
};

#define CALL(name) #name,
static const char *const names[] = {
#include "calls.h"
};
#undef CALL
#define CALLS (sizeof(names) / sizeof(names[0]))

#define MOST 4000u
#define LOOKS 2000 /* calls after which a process gets no title */

static void *real[CALLS];
static struct log *notes;
static uint64_t room;
static bool chosen; /* this program */
static int call_wanted = -1, forks_wanted = -1;
static long thread_wanted = -1;
static uint64_t first = 1, count = MOST, delay_ns, site_wanted, arg_found;
static char titled[256]; /* `arg`, where a forked process may earn it later */
static bool sleeps;
static char program[16];

/* Of this process. */
static pid_t *owner; /* on a page that fork() wipes and vfork() does not */
static int forks, looks;
static _Atomic long threads;
static _Thread_local long thread_number = -1;
static _Thread_local uint64_t thread_calls[CALLS];
static _Thread_local bool busy;

void *delay_before(unsigned call, uintptr_t caller);

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const char *value_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (; text && *text;
         text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL)
        if (strncmp(text, key, n) == 0 && text[n] == '=')
            return text + n + 1;
    return NULL;
}

static bool is(const char *value, const char *word)
{
    size_t n = strlen(word);
    return strncmp(value, word, n) == 0 && (value[n] == ',' || !value[n]);
}

static uint64_t number(const char *text, const char *key, uint64_t otherwise)
{
    const char *value = value_of(text, key);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

static bool has(const char *word, size_t n, const char *wanted, size_t want)
{
    if (want && *wanted == '*')
        return memmem(word, n, wanted + 1, want - 1) != NULL;
    return n >= want && memcmp(word + n - want, wanted, want) == 0;
}

/* Which of the alternatives (a|b|c) a word of the command line ends with (*a:
 * has in it), from 1; 0 none. */
static uint64_t argument_found(const char *wanted)
{
    static char line[65536];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline",
                          O_RDONLY | O_CLOEXEC);
    long got = fd < 0 ? 0 : syscall(SYS_read, fd, line, sizeof(line) - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    for (uint64_t which = 1;; which++) {
        size_t want = strcspn(wanted, ",|");
        for (long at = 0; at < got; at += (long)strlen(line + at) + 1) {
            size_t n = strlen(line + at);
            if (has(line + at, n, wanted, want))
                return which;
        }
        if (wanted[want] != '|')
            return 0;
        wanted += want + 1;
    }
}

static void map_log(const char *path)
{
    struct stat s;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0 &&
        (size_t)s.st_size > sizeof(struct log)) {
        void *at = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            room =
                ((size_t)s.st_size - sizeof(struct log)) / sizeof(struct entry);
            notes = at;
        }
    }
    syscall(SYS_close, fd);
}

/* keys:
 *
 *   program  the basename (required)
 *   arg      how a word of the command line ends; *TEXT: what one has in it,
 *            also the title that a forked process gives itself, as servers do
 *            (then its calls count from there)
 *   call     a name of calls.h
 *   forks    so many forks since the image began
 *   thread   by first call in the process
 *   first, count  of the thread's such calls
 *   us       the delay
 *   how      `busy` (default: CPU time) or `sleep`
 *   site     of the call, an offset in the program's own module
 */
static __attribute__((constructor(101))) void begin(void)
{
    const char *text = getenv("DELAY"), *path = getenv("DELAY_LOG");
    for (unsigned i = 0; i < CALLS; i++)
        real[i] = dlsym(RTLD_NEXT, names[i]);
    strncpy(program, program_invocation_short_name, sizeof(program) - 1);
    const char *wanted = value_of(text, "program");
    const char *argument = value_of(text, "arg");
    arg_found = argument ? argument_found(argument) : 0;
    if (argument && !arg_found && strchr(argument, '*'))
        strncpy(titled, argument, sizeof(titled) - 1);
    bool notable = !argument || arg_found || *titled || !value_of(text, "call");
    if (!path || !wanted || (!is(wanted, program) && !is(wanted, "*")) ||
        !notable)
        return;
    const char *call = value_of(text, "call"), *how = value_of(text, "how");
    for (unsigned i = 0; call && i < CALLS; i++)
        if (is(call, names[i]))
            call_wanted = (int)i;
    if (call && call_wanted < 0)
        return;
    forks_wanted = (int)number(text, "forks", (uint64_t)-1);
    thread_wanted = (long)number(text, "thread", (uint64_t)-1);
    first = number(text, "first", 1);
    count = number(text, "count", MOST);
    delay_ns = number(text, "us", 0) * 1000;
    site_wanted = number(text, "site", 0);
    sleeps = how && is(how, "sleep");
    map_log(path);
    owner = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (owner == MAP_FAILED || madvise(owner, 4096, MADV_WIPEONFORK) < 0)
        return;
    *owner = (pid_t)syscall(SYS_getpid);
    chosen = notes != NULL;
}

static struct entry *claim(unsigned call, pid_t pid)
{
    uint64_t at = atomic_fetch_add(&notes->used, 1);
    if (at >= room)
        return NULL;
    struct entry *e = &notes->entry[at];
    e->pid = pid;
    e->tid = (int32_t)syscall(SYS_gettid);
    e->call = call;
    e->forks = forks;
    e->arg = arg_found;
    memcpy(e->program, program, sizeof(e->program));
    return e;
}

/* syscall() is interposed, and a sleep that is seen is another thing. */
static long sleep_unseen(struct timespec *t)
{
#if defined(__x86_64__)
    long result = SYS_nanosleep;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(t), "S"(t)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_nanosleep;
    register long first_and_result __asm__("x0") = (long)t;
    register long second __asm__("x1") = (long)t;
    __asm__ volatile("svc 0"
                     : "+r"(first_and_result)
                     : "r"(number), "r"(second)
                     : "memory");
    return first_and_result;
#endif
}

static void delay(struct entry *e)
{
    uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID);
    uint64_t at = now(CLOCK_MONOTONIC_RAW);
    if (e)
        e->at = at;
    if (delay_ns && sleeps) {
        struct timespec t = {(time_t)(delay_ns / 1000000000u),
                             (long)(delay_ns % 1000000000u)};
        while (sleep_unseen(&t) == -EINTR)
            ;
    } else if (delay_ns) {
        while (now(CLOCK_THREAD_CPUTIME_ID) - cpu < delay_ns)
            ;
    }
    if (e) {
        e->elapsed = now(CLOCK_MONOTONIC_RAW) - at;
        e->cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    }
}

/* A forked child counts from the beginning. */
static void become(pid_t pid)
{
    *owner = pid;
    forks++;
    looks = 0;
    arg_found = *titled ? 0 : arg_found;
    thread_number = -1;
    memset(thread_calls, 0, sizeof(thread_calls));
    atomic_store(&threads, 0);
}

static uint64_t offset_in_program(uintptr_t at)
{
    for (const struct link_map *l = _r_debug.r_map; l; l = l->l_next)
        if (!l->l_name[0])
            return at - l->l_addr;
    return 0;
}

/* Has it a title by now? */
static void look(void)
{
    if (++looks > LOOKS)
        return;
    arg_found = argument_found(titled);
    if (arg_found)
        memset(thread_calls, 0, sizeof(thread_calls));
}

static void chosen_call(unsigned call, uintptr_t caller)
{
    if (*owner == 0)
        become((pid_t)syscall(SYS_getpid));
    if (*titled && !arg_found && forks > 0)
        look();
    if (*titled && !arg_found && call_wanted >= 0)
        return;
    /* Nothing is to be asked of the kernel where no delay comes any more. */
    if ((call_wanted >= 0 && call != (unsigned)call_wanted) ||
        thread_calls[call] >= first - 1 + count)
        return;
    pid_t pid = (pid_t)syscall(SYS_getpid);
    if (*owner != pid)
        return; /* a vfork child: this is its parent's memory */
    if (forks_wanted >= 0 && forks != forks_wanted)
        return;
    uint64_t site = offset_in_program(caller);
    if (site_wanted && site != site_wanted)
        return;
    if (thread_number < 0)
        thread_number = atomic_fetch_add(&threads, 1);
    if (thread_wanted >= 0 && thread_number != thread_wanted)
        return;
    uint64_t n = ++thread_calls[call];
    if (n < first)
        return;
    struct entry *e = claim(call, pid);
    if (e) {
        e->number = n;
        e->site = site;
    }
    delay(e);
}

void *delay_before(unsigned call, uintptr_t caller)
{
    int saved = errno;
    if (!real[call])
        real[call] = dlsym(RTLD_NEXT, names[call]);
    if (chosen && !busy) {
        busy = true;
        chosen_call(call, caller);
        busy = false;
    }
    errno = saved;
    return real[call];
}
