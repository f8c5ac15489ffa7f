/* Starts the preload library: finds the real functions, joins the run, hooks
 * stdio, and identifies descriptors. */
#include "agent/preload/wrap.h"

#include "agent/preload/find.h"
#include "agent/preload/sample/sample.h"
#include "agent/preload/stdio_slots.h"
#include "agent/record/own_table.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"
#include "agent/record/valgrind.h"

uint64_t ips_wrap_blocked, ips_wrap_mult;

static int quick_status;

void ips_wrap_identify_standard_fds(void)
{
    const struct ips_chan_hint hint = {.flags = IPS_CHAN_INHERITED};
    for (int fd = 0; fd <= 2; fd++)
        ips_chan_identify_and_record(fd, ips_fd_get(fd), &hint);
}

/* The kernel's layout of an entry of getdents64. */
struct entry {
    uint64_t ino, next;
    uint16_t bytes;
    unsigned char type;
    char name[];
};

static void identify_listed_descriptor(const struct entry *e, int list)
{
    const struct ips_chan_hint hint = {.flags = IPS_CHAN_INHERITED};
    int fd = 0;
    if (e->name[0] < '0' || e->name[0] > '9')
        return;
    for (const char *c = e->name; *c >= '0' && *c <= '9' && fd < 1 << 20; c++)
        fd = fd * 10 + (*c - '0');
    if (fd > 2 && fd != list)
        ips_chan_identify_and_record(fd, ips_fd_get(fd), &hint);
}

/* Whether the kernel's descriptor table for this process has space for at most
 * `upto` descriptors. (It has space for 64 at least, and after a fork it is as
 * small as the open descriptors allow.) select ignores descriptors beyond the
 * table and fails for closed ones within it. If the table is larger and all its
 * descriptors are open, select clears the set instead, which the set's last
 * word shows. */
static bool is_fd_table_at_most(int upto)
{
    enum { LARGE = 1024 };
    uint64_t bits[LARGE / 64];
    const struct timespec none = {0, 0};
    for (int i = 0; i < LARGE / 64; i++)
        bits[i] = i < upto / 64 ? 0 : ~(uint64_t)0;
    return ips_sys6(SYS_pselect6, LARGE, 0, 0, (long)bits, (long)&none, 0) ==
               0 &&
           ~bits[LARGE / 64 - 1] == 0;
}

/* Identifies the open ones among descriptors 3 to 63 (or 255), which one poll
 * finds: closed ones give POLLNVAL. Most programs inherit none of these, and
 * reading /proc costs ten times as much. (bash keeps descriptor 255 open, so
 * its children have a larger table.) False: there may be more descriptors. */
static bool identify_low_inherited_fds(void)
{
    enum { FIRST = 3, SMALL = 64, MIDDLE = 256 };
    const struct ips_chan_hint hint = {.flags = IPS_CHAN_INHERITED};
    struct pollfd at[MIDDLE - FIRST];
    const struct timespec none = {0, 0};
    int count = (is_fd_table_at_most(SMALL) ? SMALL : MIDDLE) - FIRST;
    if (count + FIRST > SMALL && !is_fd_table_at_most(MIDDLE))
        return false;
    for (int i = 0; i < count; i++)
        at[i] = (struct pollfd){.fd = FIRST + i};
    if (ips_sys6(SYS_ppoll, (long)at, count, (long)&none, 0, 0, 0) < 0)
        return false; /* RLIMIT_NOFILE is lower than the count */
    for (int i = 0; i < count; i++)
        if (!(at[i].revents & POLLNVAL))
            ips_chan_identify_and_record(at[i].fd, ips_fd_get(at[i].fd), &hint);
    return true;
}

/* Identifies all inherited descriptors but 0 to 2. A new image keeps them open
 * even if it never uses them, and a reader in another process gets its end of
 * file only when they are closed. */
static void identify_inherited_fds(void)
{
    if (identify_low_inherited_fds())
        return;
    _Alignas(struct entry) char buf[2048];
    long got;
    int list =
        ips_sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (list < 0)
        return;
    while ((got = ips_sys3(SYS_getdents64, list, (long)buf, sizeof(buf))) > 0)
        for (long at = 0; at < got;) {
            const struct entry *e = (const struct entry *)(buf + at);
            identify_listed_descriptor(e, list);
            at += e->bytes;
        }
    ips_sys_close(list);
}

void ips_close_calls_and_record_process_end(enum ips_end_kind kind, int status)
{
    ips_close_open_calls_and_count_lost();
    ips_record_file_locks_at_exit();
    ips_core_record_process_end(kind, status);
}

static void end_records_at_quick_exit(void *unused)
{
    (void)unused;
    if (ips_wrap_start_library_and_check_recording())
        ips_close_calls_and_record_process_end(IPS_END_EXIT, quick_status);
}

/* Registers end_records_at_quick_exit, before the program's first at_quick_exit
 * function, so that it runs after all of the program's. This is not done at the
 * start of an image, because hardly any program uses quick_exit. If it fails,
 * the END record will be missing. */
static void register_quick_exit_end(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&done))
        (void)REAL(__cxa_at_quick_exit)(end_records_at_quick_exit, NULL);
}

/* The C library's at_quick_exit calls this function. */
int __cxa_at_quick_exit(void (*function)(void *), void *library);
IPS_EXPORT int __cxa_at_quick_exit(void (*function)(void *), void *library)
{
    if (ips_wrap_start_library_and_check_recording())
        register_quick_exit_end();
    return REAL(__cxa_at_quick_exit)(function, library);
}

/* CPU time (ns) of this image's start that a CALLS record has reported. */
static uint32_t begun_ns;

void ips_report_start_cost(uint64_t from)
{
    uint64_t took = from ? ips_sub_sat(ips_core_thread_cpu_ns(), from) : 0;
    /* the overhead counted so far is included in `took` */
    ips_reset_overhead_counts();
    begun_ns = ips_me.beyond_ns = (uint32_t)ips_min_u64(took, UINT32_MAX / 2);
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
    begun_ns -= ips_me.beyond_ns;
}

IPS_EXPORT uint32_t ips_reported_overhead_ns(void)
{
    uint64_t due = ips_wrap_start_library_and_check_recording()
                       ? ips_unreported_agent_ns()
                       : 0;
    return begun_ns + (uint32_t)ips_min_u64(due, UINT32_MAX / 2);
}

/* The linker defines where this library's zeroed data begins and ends. */
extern char __bss_start[] IPS_HIDDEN, _end[] IPS_HIDDEN;

/* Leaves the library's tables out of the program's core files. Mappings:
 * ips_sys_mmap(). */
static void hide_own_tables_from_cores(void)
{
    const uint64_t page = 65536; /* the largest of any machine */
    uint64_t from = ((uint64_t)(uintptr_t)__bss_start + page - 1) / page * page;
    uint64_t to = (uint64_t)(uintptr_t)_end / page * page;
    if (from < to)
        ips_sys_madvise(from, to - from, MADV_DONTDUMP);
}

/* Several threads can call this at once only if a constructor of another
 * library created threads before ours ran. It is harmless if two do the same
 * work. */
void ips_wrap_initialize_agent(void)
{
    int saved = errno;
    uint64_t from = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    ips_install_real_function_stubs();
    /* If we are called before the C library is initialised (.preinit_array,
     * where sanitizers start), there is no environment yet. The constructor
     * calls again later. */
    if (!environ)
        return;
    ips_sample_register_stream_hooks();
    if (ips_me.in_vfork ||
        !ips_core_init_and_start_main_stream(IPS_START_IMAGE)) {
        ips_core.wrap_state = IPS_WRAP_OFF;
        errno = saved;
        return;
    }
    const struct ips_control *control = ips_core_control();
    const uint64_t one = (uint64_t)1 << 32;
    const struct ips_clock *clock = &control->clock;
    bool tsc = clock->kind == IPS_CLOCK_TSC && clock->mult_q32 != 0;
    ips_wrap_mult = tsc ? clock->mult_q32 : one;
    ips_wrap_blocked = IPS_BLOCKED_NS * one / ips_wrap_mult;
    ips_env_save_run_variables();
    ips_thread_store_own_tid();
    ips_stdio_hook_file_tables();
    ips_core.wrap_state = IPS_WRAP_ON;
    ips_wrap_identify_standard_fds();
    identify_inherited_fds();
    ips_report_foreign_names_calling_libc();
    /* valgrind keeps descriptors of its own in the process's table, so work
     * with a table of our own is impossible */
    ips_own_table_on = !ips_in_valgrind();
    hide_own_tables_from_cores();
    ips_report_start_cost(from);
    errno = saved;
}

/* The constructor. The C library passes it the arguments of main(). */
static __attribute__((constructor(101))) void
start_library_unless_started(int argc, char **argv)
{
    ips_core_arguments = argc > 0 ? argv : NULL;
    if (ips_core.wrap_state == IPS_WRAP_NEW)
        ips_wrap_initialize_agent();
}

/* The destructor runs after the program's atexit functions. stdio flushes its
 * streams even later, so this END record is provisional. */
static __attribute__((destructor(101))) void end_records_at_exit(void)
{
    if (ips_wrap_start_library_and_check_recording())
        ips_close_calls_and_record_process_end(IPS_END_PROVISIONAL, 0);
}

IPS_EXPORT void _exit(int status)
{
    if (ips_wrap_start_library_and_check_recording())
        ips_close_calls_and_record_process_end(IPS_END_EXIT, status);
    REAL(_exit)(status);
    __builtin_unreachable();
}
IPS_EXPORT void _Exit(int status) __attribute__((alias("_exit")));

IPS_EXPORT void quick_exit(int status)
{
    bool on = ips_wrap_start_library_and_check_recording();
    if (!ips_me.in_vfork)
        quick_status = status;
    if (on)
        register_quick_exit_end();
    /* the C library calls end_records_at_quick_exit at the end of quick_exit */
    REAL(quick_exit)(status);
    __builtin_unreachable();
}

IPS_EXPORT void abort(void)
{
    if (ips_wrap_start_library_and_check_recording())
        ips_close_calls_and_record_process_end(IPS_END_ABORT, SIGABRT);
    REAL(abort)();
    __builtin_unreachable();
}
