/* The list of this process's recorded threads, for THREADCPU records at the
 * process's end: a lock-free list of blocks of slots that are never freed. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/record/own_table.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"

#define THREADS_FIRST 16u
#define THREADS_PER_BLOCK 1024u

struct thread_block {
    struct thread_block *_Atomic next;
    _Atomic uint32_t *tid;
    uint32_t count;
};
static _Atomic uint32_t first_tids[THREADS_FIRST];
static struct thread_block first_block = {NULL, first_tids, THREADS_FIRST};

/* The threads that ended last. A thread is in /proc for a while after its END,
 * even after it was joined. This list keeps it from being taken for a thread
 * that never recorded. */
#define ENDED 256u
static _Atomic uint32_t ended[ENDED] IPS_TABLE;
static _Atomic uint32_t next_ended;

static bool is_thread_in_list(uint32_t tid)
{
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < b->count; i++)
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed) == tid)
                return true;
    return false;
}

/* May be called several times for a thread, if the thread cannot make its first
 * segment. */
void ips_threads_add(uint32_t tid)
{
    struct thread_block *b = &first_block;
    if (is_thread_in_list(tid))
        return;
    for (;;) {
        for (unsigned i = 0; i < b->count; i++) {
            uint32_t none = 0;
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(&b->tid[i], &none, tid))
                return;
        }
        struct thread_block *next = atomic_load(&b->next);
        if (!next) {
            const size_t bytes =
                sizeof(*next) + THREADS_PER_BLOCK * sizeof(next->tid[0]);
            uint64_t fresh = ips_sys_mmap(0, bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1);
            if (ips_sys_is_error(fresh))
                /* The thread has no entry then, and its CPU time is known only
                 * up to its last record. */
                return;
            struct thread_block *made = (struct thread_block *)fresh;
            made->tid = (_Atomic uint32_t *)(made + 1);
            made->count = THREADS_PER_BLOCK;
            if (atomic_compare_exchange_strong(&b->next, &next, made))
                next = made;
            else
                ips_sys_munmap(fresh, bytes);
        }
        b = next;
    }
}

static bool has_thread_ended_recently(uint32_t tid)
{
    for (unsigned i = 0; i < ENDED; i++)
        if (atomic_load_explicit(&ended[i], memory_order_relaxed) == tid)
            return true;
    return false;
}

void ips_threads_move_to_ended(uint32_t tid)
{
    /* The thread enters `ended` before it leaves the list, so that at any time
     * one of the two contains it. */
    atomic_store(&ended[atomic_fetch_add(&next_ended, 1) % ENDED], tid);
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < b->count; i++)
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed) == tid) {
                atomic_store(&b->tid[i], 0);
                return;
            }
}

void ips_threads_clear_lists_after_fork(void)
{
    ips_own_fd_table_reset_after_fork();
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < b->count; i++)
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed))
                atomic_store(&b->tid[i], 0);
    if (!atomic_load_explicit(&next_ended, memory_order_relaxed))
        /* No thread has ended, so `ended` is empty. Do not touch its pages. */
        return;
    /* Store only where needed, since a store copies a page that is shared with
     * the parent. */
    for (unsigned i = 0; i < ENDED; i++)
        if (atomic_load_explicit(&ended[i], memory_order_relaxed))
            atomic_store(&ended[i], 0);
}

/* Returns the id of the CPU clock of a thread of this process, by the kernel's
 * formula (CPUCLOCK_PERTHREAD, CPUCLOCK_SCHED). */
static int thread_cpu_clock_id(uint32_t tid)
{
    return (int)(~tid << 3 | 6u);
}

static void write_thread_cpu_record(uint32_t tid, uint64_t cpu)
{
    struct ips_rec_cpu *rec =
        cpu ? ips_rec_begin(IPS_REC_THREADCPU, sizeof(*rec)) : NULL;
    if (!rec)
        return;
    rec->h.a = tid;
    rec->cpu = cpu;
    ips_rec_publish(rec);
}

void ips_threads_record_cpu_of_others(uint32_t except)
{
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < b->count; i++) {
            uint32_t tid = atomic_load(&b->tid[i]);
            uint64_t cpu = 0;
            if (tid && tid != except)
                cpu = ips_sys_clock_ns(thread_cpu_clock_id(tid));
            write_thread_cpu_record(tid, cpu);
        }
}

/* --- threads that never recorded ----------------------------------------- */

/* Writes a stream for a thread that made no record. A library that looks
 * pthread_create up itself (jemalloc) creates threads that the agent does not
 * see. The agent notices such a thread at its first record. If it never
 * records, this stream shows that it existed and how much CPU time it used. */
static void write_stream_of_thread_without_records(uint32_t tid)
{
    uint64_t cpu = ips_sys_clock_ns(thread_cpu_clock_id(tid));
    struct ips_stream s = {.generation = ips_core.generation,
                           .tid = tid,
                           .stamp = ips_core_stamp_now(),
                           .start_kind = IPS_START_THREAD,
                           .ppid = ips_core.pid,
                           .parent_image = ips_core.image_stamp};
    s.start_t = s.stamp;
    struct ips_rec_end *rec =
        ips_stream_begin_record(&s, IPS_REC_END, sizeof(*rec), s.stamp);
    if (rec) {
        rec->h.a = IPS_END_THREAD;
        rec->cpu = cpu;
        ips_rec_publish(rec);
    }
    ips_stream_close_segments_and_mark_ended(&s);
}

struct dirent_head { /* as getdents64 returns it */
    uint64_t ino, off;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static uint32_t parse_tid(const char *name)
{
    uint32_t n = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        n = n * 10 + (uint32_t)(*name - '0');
    return *name ? 0 : n;
}

extern char __libc_single_threaded __attribute__((weak));

static bool does_thread_exist(uint32_t tid)
{
    return ips_sys3(SYS_tgkill, ips_core.pid, tid, 0) == 0;
}

#define SILENT_MAX 512u
struct silent_thread_list {
    char path[40];
    uint32_t count, tids[SILENT_MAX];
};

static long list_threads_that_never_recorded(void *arg)
{
    struct silent_thread_list *l = arg;
    int fd = ips_sys_open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    _Alignas(8) char buf[2048];
    long len;
    while ((len = ips_sys3(SYS_getdents64, fd, (long)buf, sizeof(buf))) > 0) {
        for (long at = 0; at < len;) {
            const struct dirent_head *d = (const void *)(buf + at);
            uint32_t tid = parse_tid(d->name);
            if (tid && tid != ips_core.pid && !is_thread_in_list(tid) &&
                !has_thread_ended_recently(tid) && l->count < SILENT_MAX)
                l->tids[l->count++] = tid;
            at += d->bytes;
        }
    }
    ips_sys_close(fd);
    return 0;
}

void ips_threads_record_silent_threads_at_end(void)
{
    struct stat st;
    struct silent_thread_list l = {.count = 0};
    /* The C library has never created a thread, so there is none that never
     * recorded. */
    if (&__libc_single_threaded && __libc_single_threaded)
        return;
    /* The link count of the directory is 2 plus the number of threads, so 3
     * means that there is only this one. Helper threads of
     * agent/record/own_table.h are in the directory, too; skip them below. */
    if (ips_sys_stat("/proc/self/task", &st) < 0 || st.st_nlink <= 3)
        return;
    if (ips_build_proc_path_resolving_link(l.path, sizeof(l.path), "self",
                                           "/task") &&
        ips_run_with_own_fd_table(list_threads_that_never_recorded, &l) == 0)
        for (uint32_t i = 0; i < l.count; i++)
            if (!ips_own_fd_table_is_helper_tid(l.tids[i]) &&
                does_thread_exist(l.tids[i]))
                write_stream_of_thread_without_records(l.tids[i]);
}
