/* Recording: reserve, fill, publish; processes, forks and threads.
 *
 * There is no recursion guard, since the fast path calls nothing, and the slow
 * path runs with all signals blocked and makes raw system calls only. */
#include "agent/record/core.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/pool/counter.h"
#include "agent/record/cpu.h"
#include "agent/record/extra.h"
#include "agent/record/fast.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"
#include "common/types.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static const uint64_t not_alive;

struct ips_core ips_core = {.alive = &not_alive, .long_call = ~(uint64_t)0};
__thread struct ips_thread ips_me IPS_IE;

/* --- stamps -------------------------------------------------------- */

/* Test option: returns a wrong stamp, with an offset, a drift and one step
 * added. */
static __attribute__((noinline)) uint64_t
distort_stamp_by_test_clock(uint64_t stamp)
{
    const struct ips_control *c = ips_core.control;
    uint64_t mult = c->clock.mult_q32 ? c->clock.mult_q32 : 1;
    int64_t since0 = (int64_t)(stamp - c->clock.counter0);
    ips_i128 t = (ips_i128)since0 * (int64_t)mult / ((ips_i128)1 << 32) +
                 (ips_i128)c->clock.raw0_ns - (ips_i128)c->created_raw_ns;
    ips_i128 add = c->test_offset_ns + t * c->test_drift_ppm / 1000000;
    if (c->test_step_ns && t >= (ips_i128)c->test_step_at_ns)
        add += c->test_step_ns;
    return stamp +
           (uint64_t)(int64_t)(add * ((ips_i128)1 << 32) / (ips_i128)mult);
}

static inline uint64_t read_raw_stamp(void)
{
#if IPS_HAVE_COUNTER
    if (likely(ips_core.clock_kind == IPS_CLOCK_TSC))
        return ips_counter_read();
#endif
    return ips_sys_clock_ns(CLOCK_MONOTONIC_RAW);
}

uint64_t ips_core_stamp_now(void)
{
    uint64_t stamp = read_raw_stamp();
    return unlikely(ips_core.test_clock) ? distort_stamp_by_test_clock(stamp)
                                         : stamp;
}

/* --- reserve and publish: the slow path (fast path: fast.h) ------------ */

static void count_lost_records(struct ips_stream *s, enum ips_lost_cause cause,
                               uint64_t count)
{
    struct ips_control *control = NULL;
    if (s->seg.base && !s->parked)
        atomic_fetch_add_explicit(
            &((struct ips_segment_header *)s->seg.base)->lost[cause], count,
            memory_order_relaxed);
    else if ((control = ips_get_or_map_shared_control()))
        atomic_fetch_add_explicit(&control->lost[cause], count,
                                  memory_order_relaxed);
    s->lost[cause] += (uint32_t)count;
}

static void write_lost_records(struct ips_stream *s, uint64_t stamp)
{
    for (uint32_t cause = 0; cause < IPS_LOST_COUNT; cause++) {
        uint32_t count = s->lost[cause];
        if (!count)
            continue;
        struct ips_rec_lost *rec =
            ips_stream_begin_record(s, IPS_REC_LOST, sizeof(*rec), stamp);
        if (!rec)
            return;
        s->lost[cause] -= count;
        rec->h.a = cause;
        rec->count = count;
        ips_rec_publish(rec);
    }
}

/* Makes space for the reservation [*at, *at + bytes): extends the segment, or
 * continues in the next segment and changes *at. Returns 0, or the cause of
 * failure by ips_encode_lost_cause(). */
static int make_space_for_record(struct ips_stream *s, uint64_t *at,
                                 uint64_t bytes)
{
    IPS_APART;
    if (*at >= s->lo && s->lo && *at + bytes <= s->seg.end) {
        int rc = ips_stream_populate_segment_up_to(s, *at + bytes);
        if (rc < 0 && s->cur == *at + bytes)
            s->cur = *at;
        else if (rc == 0)
            ips_write_missing_heads(s, *at);
        if (rc == 0 || !ips_ring_on())
            return rc;
    }
    /* A signal handler that ran after the xadd may have changed to a new
     * segment. Our reservation in the old segment is still valid. */
    if (ips_segment_is_range_in_closed(s, *at, bytes))
        return 0;
    if (s->cur == *at + bytes)
        s->cur = *at; /* the reservation does not fit: give it back */
    int rc = ips_segment_change_to_next(s);
    if (rc == 0) {
        *at = s->cur;
        s->cur += bytes;
    }
    return rc;
}

static bool reset_state_if_unannounced_fork(void);

/* Test option probe_extra_ns: burns that much CPU time (not elapsed time) in
 * each record. */
static __attribute__((noinline, cold)) void burn_extra_probe_cpu(void)
{
    uint64_t from = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    while (ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from <
           ips_core.control->probe_extra_ns)
        continue;
    ips_me.said_ns += ips_core.control->probe_extra_ns;
}

static __attribute__((noinline, cold)) void *
reserve_record_or_count_as_lost(struct ips_stream *s, uint64_t at,
                                uint64_t bytes, uint32_t type, uint64_t stamp)
{
    void *rec = NULL;
    uint64_t signals = ips_sys_block_signals();
    ips_me.recs_open--; /* counted again when there is space for the record */
    if (!ips_core.control || ips_core.stopped)
        goto out;
    if (*ips_core.alive == 0 && reset_state_if_unannounced_fork()) {
        /* This is a fork child: `at` is an address in the parent's segment. */
        at = s->cur;
        s->cur += bytes;
    }
    if (s->generation != ips_core.generation && s->state != IPS_STREAM_NEW)
        goto out; /* `s` is a task of the parent process */
    enum ips_lost_cause cause = IPS_LOST_NO_SEGMENT;
    if (s->state == IPS_STREAM_ENDED) {
        /* A signal handler may still run after the thread's END. Its SIGNAL
         * record is dropped silently; all other records count as lost. */
        cause = IPS_LOST_ENDED;
        if (type == IPS_REC_SIGNAL)
            goto passed_over;
        goto lost;
    }
    if (s->state == IPS_STREAM_NEW)
        ips_fill_stream_and_register_thread(s, stamp);
    if (ips_sys_quiet && (at < s->lo || !s->lo || at + bytes > s->limit))
        goto lost;
    if (s->retry_at && ips_core_stamp_now() < s->retry_at) {
        cause = (enum ips_lost_cause)s->retry_cause;
        goto lost;
    }
    uint32_t generation = ips_core.generation;
    uint64_t since_ns = 0;
    int rc;
    while ((rc = make_space_for_record(s, &at, bytes)) < 0) {
        cause = (enum ips_lost_cause)(-1 - rc);
        if (ips_quota_wait_one_step(s, cause, &since_ns, &signals)) {
            if (ips_core.generation != generation)
                goto out; /* in a child that a signal handler forked: the parent
                             writes this record */
            if (s->state == IPS_STREAM_ENDED) {
                cause = IPS_LOST_ENDED;
                goto lost;
            }
            at = s->cur;
            s->cur += bytes;
            continue;
        }
        s->retry_at = ips_core_stamp_now() + ips_core.retry_ticks;
        s->retry_cause = (uint8_t)cause;
        goto lost;
    }
    s->retry_at = 0;
    s->gave_up = false;
    if (s->state == IPS_STREAM_NEW) {
        /* START must come first, so START gets the space that this record
         * reserved. */
        s->cur = at;
        ips_write_start_records_and_call_hook(s);
        rec = ips_stream_begin_record(s, (enum ips_rec_type)type, bytes, stamp);
    } else {
        ips_me.recs_open++;
        rec = ips_write_reserved_head(s, at, bytes, type, stamp);
    }
    if (type != IPS_REC_LOST) /* otherwise write_lost_records would recurse */
        write_lost_records(s, stamp);
    goto out;
lost:
    /* A LOST record that is itself lost is not counted: the next LOST record
     * contains its count. */
    if (type != IPS_REC_LOST)
        count_lost_records(s, cause, 1);
passed_over:
    if (s->cur == at + bytes)
        s->cur = at;
out:
    ips_sys_restore_signals(signals);
    return rec;
}

void *ips_stream_begin_record_slow(struct ips_stream *s, uint64_t at,
                                   uint64_t bytes, enum ips_rec_type type,
                                   uint64_t stamp)
{
    if (*ips_core.alive == IPS_ALIVE_AND_BURNS) {
        burn_extra_probe_cpu();
        if (at == s->tail && at + bytes <= s->limit)
            return ips_write_reserved_head(s, at, bytes, type, stamp);
    }
    return reserve_record_or_count_as_lost(s, at, bytes, type, stamp);
}

void *ips_stream_begin_record(struct ips_stream *s, enum ips_rec_type type,
                              size_t size, uint64_t stamp)
{
    return ips_stream_begin_record_inline(s, type, size, stamp);
}

void *ips_rec_begin_at(enum ips_rec_type type, size_t bytes, uint64_t stamp)
{
    return ips_rec_begin_inline(type, bytes, stamp);
}

void ips_rec_publish(void *rec)
{
    ips_rec_publish_inline(rec);
}

void *ips_rec_begin(enum ips_rec_type type, size_t bytes)
{
    return ips_rec_begin_at(type, bytes, ips_core_stamp_now());
}

void ips_stream_count_and_write_lost(struct ips_stream *s,
                                     enum ips_lost_cause cause, uint64_t count)
{
    if (!ips_core.control || ips_me.in_vfork ||
        (unsigned)cause >= IPS_LOST_COUNT)
        return;
    count_lost_records(s, cause, count);
    if (s->seg.base)
        write_lost_records(s, ips_core_stamp_now());
}

void ips_core_count_and_write_lost(enum ips_lost_cause cause, uint64_t count)
{
    ips_stream_count_and_write_lost(&ips_me.stream, cause, count);
}

void ips_stream_close_segments_and_mark_ended(struct ips_stream *s)
{
    uint64_t signals = ips_sys_block_signals();
    if (s->generation == ips_core.generation)
        ips_segments_close_and_unmap_all(s);
    s->state = IPS_STREAM_ENDED;
    ips_sys_restore_signals(signals);
}

/* --- process ------------------------------------------------------- */

/* Returns the value of an environment variable; NULL: not set. Does not call
 * getenv, which bash and others replace. */
static const char *find_environment_variable(const char *name)
{
    size_t len = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (**e == *name && strncmp(*e, name, len) == 0 && (*e)[len] == '=')
            return *e + len + 1;
    return NULL;
}

static bool format_run_directory_from_env(char *out, size_t size)
{
    const char *pool = find_environment_variable("IPS_POOL"),
               *run = find_environment_variable("IPS_RUN");
    const char *is_off = find_environment_variable("IPS_OFF");
    if (!pool || !run || *pool != '/' || !*run || strchr(run, '/') ||
        *run == '.' || (is_off && strcmp(is_off, "1") == 0))
        return false;
    size_t a = strlen(pool), b = strlen(run);
    if (a + 1 + b + 1 > size)
        return false;
    memcpy(out, pool, a);
    out[a] = '/';
    memcpy(out + a + 1, run, b + 1);
    return true;
}

bool ips_control_is_valid(const struct ips_control *c)
{
    return c->magic == IPS_CONTROL_MAGIC && c->version == IPS_POOL_VERSION &&
           c->control_bytes == sizeof(*c) &&
           (c->clock.kind == IPS_CLOCK_RAW ||
            (c->clock.kind == IPS_CLOCK_TSC && c->clock.mult_q32)) &&
           c->segment_bytes >= 4 * IPS_GROW_FIRST_BYTES &&
           c->segment_bytes <= IPS_SEGMENT_MAX_BYTES &&
           c->segment_bytes % 65536 == 0;
}

static struct ips_control control_copy;

struct control_opening {
    const char *dir;
    struct ips_control *c, *mapped;
};

static long read_and_map_control_file(void *arg)
{
    struct control_opening *o = arg;
    struct ips_control *c = o->c;
    char path[sizeof(ips_core.dir) + 16];
    size_t n = strlen(o->dir);
    memcpy(path, o->dir, n);
    memcpy(path + n, "/control", sizeof("/control"));
    int fd =
        ips_sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    uint64_t at = (uint64_t)-1;
    if (ips_sys_read(fd, c, sizeof(*c)) == (long)sizeof(*c) &&
        ips_control_is_valid(c))
        at =
            ips_sys_mmap(0, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    ips_sys_close(fd);
    if (!ips_sys_is_error(at))
        o->mapped = (struct ips_control *)at;
    return 0;
}

/* Reads the run's control file into *c. Returns a shared mapping of the file,
 * or NULL. */
static struct ips_control *read_and_map_control(const char *dir,
                                                struct ips_control *c)
{
    struct control_opening o = {dir, c, NULL};
    (void)ips_run_with_own_fd_table(read_and_map_control_file, &o);
    return o.mapped;
}

struct ips_control *ips_core_get_or_map_counters(void)
{
    struct ips_control *mapped, *none = NULL, unused;
    if (!ips_core.share_later)
        return ips_core.shared;
    mapped = read_and_map_control(ips_core.dir, &unused);
    /* If two threads map the file at once, the first mapping is kept. */
    if (mapped &&
        !atomic_compare_exchange_strong(&ips_core.shared, &none, mapped))
        ips_sys_munmap((uint64_t)(uintptr_t)mapped, sizeof(*mapped));
    ips_core.share_later = false;
    return ips_core.shared;
}

static void set_alive_mark_in_page_wiped_on_fork(void)
{
    if (ips_core.alive == &not_alive) {
        const size_t bytes = 64 + IPS_WIPED_BYTES;
        uint64_t page = ips_sys_mmap(0, bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (ips_sys_is_error(page))
            return;
        /* If this fails (Linux before 4.14), a fork that the agent does not see
         * goes unnoticed. */
        if (ips_sys_madvise(page, bytes, MADV_WIPEONFORK) == 0)
            ips_core.wiped = (void *)(page + 64);
        ips_core.alive = (const volatile uint64_t *)page;
    }
    *(volatile uint64_t *)(uintptr_t)ips_core.alive =
        ips_core.control->probe_extra_ns ? IPS_ALIVE_AND_BURNS : IPS_ALIVE;
}

void *ips_core_get_memory_wiped_on_fork(void)
{
    return ips_core.wiped;
}

/* The first call attaches this process to the run that its environment names.
 * Every call returns whether the process is attached. `to_begin`: the caller
 * starts a stream next. */
static bool attach_process_to_run_once(bool to_begin)
{
    static bool tried;
    if (tried || ips_me.in_vfork)
        return ips_core.control != NULL;
    tried = true;
    if (!format_run_directory_from_env(ips_core.dir, sizeof(ips_core.dir)))
        return false;
    struct ips_control *c = &control_copy;
    ips_core.pid = ips_sys_getpid();
    if (to_begin &&
        ips_spare_segment_take(2 * ips_core.pid + 1, c, &ips_core.spare))
        ips_core.share_later = true;
    else if (!(ips_core.shared = read_and_map_control(ips_core.dir, c)))
        return false;
    uint64_t mult = c->clock.mult_q32 ? c->clock.mult_q32 : (uint64_t)1 << 32;
    /* After a failure, look for space again after one millisecond. */
    ips_core.retry_ticks = (uint64_t)(((ips_u128)1000000 << 32) / mult);
    ips_core.clock_kind = c->clock.kind;
    ips_core.test_clock =
        c->test_offset_ns || c->test_drift_ppm || c->test_step_ns;
    ips_core.control = c;
    ips_core.ring = c->on_full == IPS_ON_FULL_RING;
    ips_core.pidns = ips_pid_namespace_inode();
    ips_core.image_stamp = ips_core_stamp_now();
    ips_core.generation = 1;
    ips_core.mult = mult;
    set_alive_mark_in_page_wiped_on_fork();
    return true;
}

bool ips_core_attach_to_run_once(void)
{
    return attach_process_to_run_once(false);
}

/* The library's own ELF header, defined by the linker. */
extern const Elf64_Ehdr own_header __asm__("__ehdr_start")
    __attribute__((visibility("hidden")));

static void exclude_variables_from_valgrind(void)
{
    uint64_t base = (uint64_t)(uintptr_t)&own_header;
    const Elf64_Phdr *part =
        (const void *)(uintptr_t)(base + own_header.e_phoff);
    for (unsigned i = 0; i < own_header.e_phnum; i++)
        if (part[i].p_type == PT_LOAD && part[i].p_flags & PF_W)
            ips_valgrind_ignore(base + part[i].p_vaddr, part[i].p_memsz);
}

bool ips_core_init_and_start_main_stream(enum ips_start_kind image_kind)
{
    if (ips_core.main_stream)
        return ips_core.control != NULL;
    if (ips_in_valgrind())
        exclude_variables_from_valgrind();
    if (!attach_process_to_run_once(true))
        return false;
    uint64_t signals = ips_sys_block_signals();
    ips_core.main_stream = true;
    ips_cpu_init();
    struct ips_stream *s = &ips_me.stream;
    memset(s, 0, sizeof(*s));
    s->start_kind = (uint8_t)image_kind;
    s->ppid = ips_sys_getppid();
    s->stamp = s->start_t = ips_core.image_stamp;
    s->start_cpu = ips_core_thread_cpu_ns();
    ips_fill_stream_and_register_thread(s, s->stamp);
    if (ips_segment_change_to_next(s) == 0)
        ips_write_start_records_and_call_hook(s);
    ips_reset_overhead_counts(); /* ips_report_start_cost() reports the cost of
                                    the start */
    ips_sys_restore_signals(signals);
    return true;
}

bool ips_core_is_recording(void)
{
    return ips_core.control && !ips_core.stopped && !ips_me.in_vfork;
}

const struct ips_control *ips_core_control(void)
{
    return ips_core.control;
}

void ips_core_register_hooks(void (*begun)(enum ips_start_kind kind),
                             void (*ending)(void), void (*flush)(void))
{
    ips_core.begun = begun;
    ips_core.ending = ending;
    ips_core.flush = flush;
}

void ips_core_write_pending_counts(void)
{
    if (!ips_core_is_recording())
        return;
    if (ips_core.flush)
        ips_core.flush();
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
}

uint64_t ips_core_image_stamp(void)
{
    return ips_core.image_stamp;
}

/* --- fork ---------------------------------------------------------- */

uint64_t ips_core_prepare_fork_and_get_seq(void)
{
    /* If a signal handler that interrupted a record forks, the child's copy of
     * the interrupted frame will store into the segment. In this case the child
     * must have the segment mapped. */
    struct ips_stream *s = &ips_me.stream;
    if (ips_me.recs_open && s->seg.base)
        ips_sys_madvise(s->seg.base, s->seg.end - s->seg.base, MADV_DOFORK);
    return 1 + atomic_fetch_add_explicit(&ips_core.fork_seq, 1,
                                         memory_order_relaxed);
}

/* Makes this process a new image after a fork. Signals are blocked. */
static void reset_state_in_fork_child(uint64_t fork_seq, uint32_t ppid,
                                      uint32_t ptid, uint64_t parent_image)
{
    ips_core.pid = ips_sys_getpid();
    /* If getppid() returns the pid that the parent knows as its own, the child
     * is in the parent's pid namespace. Reading /proc instead would take 20 us.
     */
    if (!ppid || ips_sys_getppid() != ppid)
        ips_core.pidns = ips_pid_namespace_inode();
    ips_core.image_stamp = ips_core_stamp_now();
    ips_core.generation++;
    ips_threads_clear_lists_after_fork();
    ips_cpu_reset();
    ips_reset_overhead_counts();
    struct ips_stream *s = &ips_me.stream;
    ips_ring_unmap_state(s);
    ips_segment_free_kept_list(s);
    memset(s, 0, sizeof(*s));
    s->start_kind = IPS_START_FORK;
    s->stamp = s->start_t = ips_core.image_stamp;
    s->fork_seq = fork_seq;
    s->ppid = ppid;
    s->ptid = ptid;
    s->parent_image = parent_image;
    set_alive_mark_in_page_wiped_on_fork();
}

/* Call this if *ips_core.alive is 0. If the kernel zeroed that page, this
 * process is the child of a fork that the agent did not see: makes it a new
 * image and returns true. Returns false if there never was such a page. */
static bool reset_state_if_unannounced_fork(void)
{
    if (ips_core.alive == &not_alive)
        return false;
    reset_state_in_fork_child(0, ips_core.pid, ips_me.stream.tid,
                              ips_core.image_stamp);
    return true;
}

void ips_core_reset_and_start_in_fork_child(uint64_t fork_seq, uint32_t ppid,
                                            uint32_t ptid,
                                            uint64_t parent_image)
{
    if (!ips_core.control)
        return;
    uint64_t signals = ips_sys_block_signals();
    reset_state_in_fork_child(fork_seq, ppid, ptid, parent_image);
    struct ips_stream *s = &ips_me.stream;
    if (ips_core.main_stream) {
        ips_fill_stream_and_register_thread(s, s->stamp);
        if (ips_segment_change_to_next(s) == 0)
            ips_write_start_records_and_call_hook(s);
    }
    ips_sys_restore_signals(signals);
}

/* --- threads and the end ------------------------------------------- */

void ips_core_begin_thread_stream(uint64_t fork_seq, uint32_t ptid)
{
    if (!ips_core.main_stream || ips_me.in_vfork)
        return;
    struct ips_stream *s = &ips_me.stream;
    uint64_t signals = ips_sys_block_signals();
    bool known = s->fork_seq != 0;
    s->fork_seq = fork_seq;
    s->ppid = ips_core.pid;
    s->ptid = ptid;
    s->parent_image = ips_core.image_stamp;
    /* The handler of a pending signal may already have written a record, which
     * began the stream. */
    if (s->state == IPS_STREAM_BEGUN) {
        if (!known)
            ips_write_start_with_creator(s);
    } else if (s->state == IPS_STREAM_NEW) {
        s->start_kind = IPS_START_THREAD;
        s->stamp = s->start_t = ips_core_stamp_now();
        ips_fill_stream_and_register_thread(s, s->stamp);
        if (ips_segment_change_to_next(s) == 0)
            ips_write_start_records_and_call_hook(s);
    }
    ips_sys_restore_signals(signals);
}

static void write_last_counts_and_end_record(enum ips_end_kind kind, int status)
{
    uint64_t cpu = ips_cpu_read_clock_and_end_guesses();
    if (ips_me.open_depth == 0)
        ips_page_faults_write_if_any(ips_core_stamp_now(), cpu);
    ips_run_delay_write_last_if_due(cpu);
    ips_write_unreported_guessed_cpu();
    ips_write_calls_record_if_enough(IPS_CALLS_LEAST);
    struct ips_rec_end *rec = ips_rec_begin(IPS_REC_END, sizeof(*rec));
    if (!rec)
        return;
    rec->h.a = kind;
    rec->cpu = cpu;
    rec->status = (uint64_t)(int64_t)status;
    ips_rec_publish(rec);
}

void ips_core_end_thread_stream(void)
{
    struct ips_stream *s = &ips_me.stream;
    if (ips_me.in_vfork)
        return;
    if (ips_core.main_stream && s->state == IPS_STREAM_BEGUN) {
        if (ips_core.ending)
            ips_core.ending();
        write_last_counts_and_end_record(IPS_END_THREAD, 0);
        ips_threads_move_to_ended(s->tid);
        ips_stream_close_segments_and_mark_ended(s);
    }
    ips_extra_free();
}

void ips_core_record_process_end(enum ips_end_kind kind, int status)
{
    if (!ips_core.main_stream || ips_me.in_vfork)
        return;
    ips_core_write_pending_counts();
    /* If the main thread has called pthread_exit(), the last thread ends the
     * process after its own END was recorded. Its stream then continues. */
    struct ips_stream *s = &ips_me.stream;
    if (s->state == IPS_STREAM_ENDED && s->generation == ips_core.generation) {
        s->state = IPS_STREAM_BEGUN;
        ips_threads_add(s->tid);
    }
    ips_threads_record_cpu_of_others(s->tid);
    ips_threads_record_silent_threads_at_end();
    write_last_counts_and_end_record(kind, status);
}
