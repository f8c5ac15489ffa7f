/* Shared by the wrappers of this folder: checks of object layouts, names of
 * objects in shared memory, ACQUIRE and RELEASE records, and spinning. */
#include "agent/preload/sync.h"
#include "agent/preload/tries.h"

#include <sys/sysmacros.h>

#include "agent/preload/sample/sample.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"

struct ips_sync_known ips_sync_known;
bool ips_sync_ready, ips_sync_attempts;
bool ips_sync_all;
IPS_TLS const volatile void *ips_try_at;
_Atomic uint64_t ips_tried[IPS_TRIED] IPS_TABLE;
_Atomic uint32_t ips_spinning[IPS_TRIED] IPS_TABLE;

/* --- layouts of the C library's objects ----------------------------------- */

/* Each of the next functions checks the layout of one type of object: if any
 * word is unexpected, the layout counts as unknown. Each object is destroyed
 * after use, because checkers such as helgrind identify an object by its
 * address, and the next one may have the same. */
static void check_mutex_layout(void)
{
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutexattr_t attr;
    bool good = SREAL(pthread_mutex_lock)(&m) == 0 && m.__data.__lock == 1;
    good = SREAL(pthread_mutex_unlock)(&m) == 0 && m.__data.__lock == 0 && good;
    good = pthread_mutex_destroy(&m) == 0 && good;
    if (!good || pthread_mutexattr_init(&attr))
        return;
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    good = pthread_mutex_init(&m, &attr) == 0 &&
           m.__data.__kind == (IPS_MUTEX_SHARED | PTHREAD_MUTEX_RECURSIVE) &&
           SREAL(pthread_mutex_lock)(&m) == 0 &&
           SREAL(pthread_mutex_lock)(&m) == 0 && m.__data.__count == 2 &&
           SREAL(pthread_mutex_unlock)(&m) == 0 &&
           SREAL(pthread_mutex_unlock)(&m) == 0;
    ips_sync_known.mutex = pthread_mutex_destroy(&m) == 0 && good;
}

static void check_cond_layout(void)
{
    pthread_cond_t c;
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) ||
        pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED))
        return;
    memset(&c, 0, sizeof(c));
    bool good = pthread_cond_init(&c, &attr) == 0 && c.__data.__wrefs == 1;
    ips_sync_known.cond = pthread_cond_destroy(&c) == 0 && good;
}

static void check_rwlock_layout(void)
{
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlockattr_t attr;
    bool good = SREAL(pthread_rwlock_rdlock)(&l) == 0 &&
                l.__data.__readers == 1u << 3 &&
                SREAL(pthread_rwlock_unlock)(&l) == 0 &&
                SREAL(pthread_rwlock_wrlock)(&l) == 0 &&
                (l.__data.__readers & 3) == 3 && l.__data.__writers == 0 &&
                SREAL(pthread_rwlock_unlock)(&l) == 0 &&
                pthread_rwlock_destroy(&l) == 0 &&
                pthread_rwlockattr_init(&attr) == 0;
    if (!good)
        return;
    pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    good = pthread_rwlock_init(&l, &attr) == 0 && l.__data.__shared != 0;
    ips_sync_known.rwlock = pthread_rwlock_destroy(&l) == 0 && good;
}

static void check_sem_layout(void)
{
    sem_t s;
    uint64_t word;
    uint32_t shared[2];
    memset(&s, 0, sizeof(s));
    if (sem_init(&s, 0, 5))
        return;
    memcpy(&word, &s, sizeof(word));
    memcpy(&shared[0], (const char *)&s + 8, 4);
    bool good = word == 5 && sem_destroy(&s) == 0 && sem_init(&s, 1, 7) == 0;
    memcpy(&word, &s, sizeof(word));
    memcpy(&shared[1], (const char *)&s + 8, 4);
    good = sem_destroy(&s) == 0 && good;
    ips_sync_known.sem = good && word == 7 && shared[0] == 0 && shared[1] != 0;
}

static void check_barrier_layout(void)
{
    pthread_barrier_t b;
    pthread_barrierattr_t attr;
    uint32_t word[2][5];
    memset(&b, 0, sizeof(b));
    if (pthread_barrier_init(&b, NULL, 3) || pthread_barrierattr_init(&attr))
        return;
    memcpy(word[0], &b, sizeof(word[0]));
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    bool good = pthread_barrier_destroy(&b) == 0;
    memset(&b, 0, sizeof(b));
    if (pthread_barrier_init(&b, &attr, 3))
        return;
    memcpy(word[1], &b, sizeof(word[1]));
    good = pthread_barrier_destroy(&b) == 0 && good;
    ips_sync_known.barrier =
        good && word[0][2] == 3 && word[0][3] == 0 && word[1][3] != 0;
}

/* Checks the layouts of the C library's objects at the first call of a wrapper,
 * which may be in a signal handler (sem_post). False: nothing can be recorded
 * now. Two threads at once do no harm: both store the same values,
 * ips_sync_ready last. */
bool ips_sync_init_and_check_layouts(void)
{
    ips_install_real_function_stubs();
    if (ips_core.wrap_state != IPS_WRAP_ON || ips_me.in_vfork)
        return false;
    int saved = errno;
    bool checked = ips_in_valgrind();
    ips_sync_attempts = !checked && ips_resolves_to_libc("pthread_mutex_lock");
    if (!checked) {
        check_mutex_layout();
        check_cond_layout();
        check_rwlock_layout();
        check_sem_layout();
        check_barrier_layout();
    }
    const struct ips_control *control = ips_core_control();
    ips_sync_all = control && control->locks == IPS_LOCKS_ALL;
    __atomic_store_n(&ips_sync_ready, true, __ATOMIC_RELEASE);
    errno = saved;
    return true;
}

/* --- objects in shared memory --------------------------------------------- */

/* A cache of shared mappings, by page of address space. One thread at a time
 * writes an entry; `turn` is odd meanwhile. A read is valid if `turn` is even
 * and is the same before and after. Entries expire, because the program may map
 * something else at the page. */
struct map_entry {
    _Atomic uint32_t turn;
    /* until: stamp at which the entry expires; offset: that of the page in the
     * mapped file */
    _Atomic uint64_t page, until, dev, ino, offset;
};
#define PLACES 64u
#define PAGE_BITS 12
static struct map_entry map_cache[PLACES] IPS_TABLE;

static bool read_map_cache_entry(struct map_entry *p, uint64_t page,
                                 struct ips_sync_object *out)
{
    uint32_t turn = atomic_load_explicit(&p->turn, memory_order_acquire);
    if ((turn & 1) || p->page != page || p->until < ips_core_stamp_now())
        return false;
    struct ips_sync_object t = {p->dev, p->ino, p->offset};
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&p->turn, memory_order_relaxed) != turn)
        return false;
    *out = t;
    return true;
}

static void write_map_cache_entry(struct map_entry *p, uint64_t page,
                                  const struct ips_sync_object *in)
{
    uint32_t turn = atomic_load(&p->turn);
    if ((turn & 1) ||
        !atomic_compare_exchange_strong(&p->turn, &turn, turn + 1))
        return; /* another thread writes this entry */
    p->page = page;
    /* an entry expires after 100 ms */
    p->until = ips_core_stamp_now() + ips_wrap_blocked * 50000;
    p->dev = in->dev;
    p->ino = in->ino;
    p->offset = in->object;
    atomic_store_explicit(&p->turn, turn + 2, memory_order_release);
}

struct map_line {
    uint64_t start, end, offset, major, minor, ino;
    bool shared;
};

static const char *parse_hex(const char *p, uint64_t *v)
{
    for (*v = 0;; p++) {
        unsigned digit = (unsigned char)*p;
        if (digit >= '0' && digit <= '9')
            digit -= '0';
        else if (digit >= 'a' && digit <= 'f')
            digit -= 'a' - 10;
        else
            return p;
        *v = *v << 4 | digit;
    }
}

/* Parses a line of /proc/self/maps: "start-end rwxs offset major:minor inode
 * path". */
static bool parse_map_line(const char *p, struct map_line *m)
{
    p = parse_hex(p, &m->start);
    if (*p++ != '-')
        return false;
    p = parse_hex(p, &m->end);
    if (*p++ != ' ' || !p[0] || !p[1] || !p[2] || !p[3])
        return false;
    m->shared = p[3] == 's';
    p = parse_hex(p + 5, &m->offset);
    if (*p++ != ' ')
        return false;
    p = parse_hex(p, &m->major);
    if (*p++ != ':')
        return false;
    p = parse_hex(p, &m->minor);
    if (*p++ != ' ')
        return false;
    for (m->ino = 0; *p >= '0' && *p <= '9'; p++)
        m->ino = m->ino * 10 + (uint64_t)(*p - '0');
    return true;
}

/* Searches the complete lines in buf[0..have) for the mapping of address `at`,
 * sets *found and stores it in *m. Returns the number of bytes in the lines
 * that it has parsed. */
static size_t search_map_lines(char *buf, size_t have, uint64_t at,
                               struct map_line *m, bool *found)
{
    char *line = buf, *end;
    while (!*found && (end = memchr(line, '\n', have - (size_t)(line - buf)))) {
        *end = '\0';
        *found = parse_map_line(line, m) && at >= m->start && at < m->end;
        line = end + 1;
    }
    return (size_t)(line - buf);
}

struct mapping_search {
    uint64_t at;
    struct map_line *m;
};

/* Reads /proc/self/maps up to the line for the address in `arg` (struct
 * mapping_search). Returns 1 if there is such a line, 0 if not, or a negative
 * error number. The buffer is small, because a signal handler's stack may be
 * small; only the start of each line must fit. */
static long read_maps_for_address(void *arg)
{
    struct map_line *m = ((struct mapping_search *)arg)->m;
    uint64_t at = ((struct mapping_search *)arg)->at;
    char buf[768];
    size_t have = 0;
    bool found = false;
    int fd = ips_sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    long got;
    if (fd < 0)
        return fd;
    while (!found &&
           (got = ips_sys_read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
        have += (size_t)got;
        buf[have] = '\0';
        size_t used = search_map_lines(buf, have, at, m, &found);
        have -= used;
        memmove(buf, buf + used, have);
        if (have > sizeof(buf) / 2)
            have = sizeof(buf) / 2; /* a long path: its end is dropped */
    }
    ips_sys_close(fd);
    return found;
}

/* Stores in *m the line of /proc/self/maps for the mapping that contains `at`.
 * False: there is none. */
static bool find_mapping_of_address(uint64_t at, struct map_line *m)
{
    struct mapping_search finding = {at, m};
    return ips_run_with_own_fd_table(read_maps_for_address, &finding) == 1;
}

void ips_compute_name_of_shared_sync_object(const volatile void *at,
                                            struct ips_sync_object *out)
{
    uint64_t address = (uint64_t)(uintptr_t)at, page = address >> PAGE_BITS;
    uint64_t in_page = address & ((1u << PAGE_BITS) - 1);
    struct map_entry *p = &map_cache[(page * 0x9e3779b97f4a7c15ull) >> 58];
    struct map_line m;
    struct ips_sync_object t = {0, 0, page << PAGE_BITS};
    if (!read_map_cache_entry(p, page, &t)) {
        if (find_mapping_of_address(address, &m) && m.shared) {
            t.dev = makedev((unsigned)m.major, (unsigned)m.minor);
            t.ino = m.ino;
            t.object = (page << PAGE_BITS) - m.start + m.offset;
        }
        write_map_cache_entry(p, page, &t);
    }
    out->dev = t.dev;
    out->ino = t.ino;
    out->object = t.object + in_page;
}

/* --- ACQUIRE and RELEASE records ------------------------------------------ */

static void write_sync_record(enum ips_rec_type type, enum ips_sync kind,
                              const struct ips_sync_object *thing,
                              struct ips_moment call, struct ips_moment ret,
                              int value, int err, uint64_t site,
                              const uint64_t *length)
{
    ips_spin_drop_failure_series();
    struct ips_rec_sync *rec = (struct ips_rec_sync *)ips_rec_begin_at(
        type, sizeof(*rec) + (length ? IPS_REC_LENGTH_BYTES : 0), call.t);
    if (!rec)
        return;
    if (length)
        memcpy(rec + 1, length, sizeof(*length));
    rec->h.a = kind;
    rec->t_ret = ret.t;
    rec->cpu = call.cpu;
    rec->cpu_ret = ret.cpu;
    rec->dev = thing->dev;
    rec->ino = thing->ino;
    rec->object = thing->object;
    rec->site = site;
    rec->value = value;
    rec->err = (uint32_t)err;
    ips_rec_publish(rec);
}

void ips_record_acquire(enum ips_sync kind, const struct ips_sync_object *thing,
                        struct ips_moment call, struct ips_moment ret,
                        int value, int err, uint64_t site)
{
    write_sync_record(IPS_REC_ACQUIRE, kind, thing, call, ret, value, err, site,
                      NULL);
    ips_module_record_once(site);
    ips_stack_write_if_long_call(call.t, ret.t, site);
}

void ips_record_release(enum ips_sync kind, const struct ips_sync_object *thing,
                        struct ips_moment call, int value, uint64_t site)
{
    write_sync_record(IPS_REC_RELEASE, kind, thing, call,
                      ips_return_moment(&call), value, 0, site, NULL);
    ips_module_record_once(site);
}

void ips_record_range_acquire(const struct ips_sync_object *thing,
                              uint64_t length, struct ips_moment call,
                              struct ips_moment ret, int value, int err,
                              uint64_t site)
{
    write_sync_record(IPS_REC_ACQUIRE, IPS_SYNC_RECORD_LOCK, thing, call, ret,
                      value, err, site, &length);
    ips_module_record_once(site);
    ips_stack_write_if_long_call(call.t, ret.t, site);
}

void ips_record_range_release(const struct ips_sync_object *thing,
                              uint64_t length, struct ips_moment call,
                              uint64_t site)
{
    write_sync_record(IPS_REC_RELEASE, IPS_SYNC_RECORD_LOCK, thing, call,
                      ips_return_moment(&call), 1, 0, site, &length);
    ips_module_record_once(site);
}

static void write_short_lock_record(enum ips_rec_type type, enum ips_sync kind,
                                    const volatile void *at,
                                    struct ips_moment m)
{
    ips_spin_drop_failure_series();
    struct ips_rec_lock *rec =
        (struct ips_rec_lock *)ips_rec_begin_inline(type, sizeof(*rec), m.t);
    if (!rec)
        return;
    rec->h.a = kind;
    rec->cpu = m.cpu;
    rec->object = (uint64_t)(uintptr_t)at;
    ips_rec_publish_inline(rec);
}

void ips_record_uncontended_acquire(enum ips_sync kind, const volatile void *at,
                                    bool shared, struct ips_moment got)
{
    if (unlikely(shared)) {
        struct ips_sync_object thing = ips_compute_sync_object_name(at, true);
        write_sync_record(IPS_REC_ACQUIRE, kind, &thing, got, got, IPS_GOT_FREE,
                          0, 0, NULL);
    } else {
        write_short_lock_record(IPS_REC_ACQUIRE_SHORT, kind, at, got);
    }
}

void ips_record_uncontended_release(enum ips_sync kind, const volatile void *at,
                                    bool shared, struct ips_moment call)
{
    if (unlikely(shared)) {
        struct ips_sync_object thing = ips_compute_sync_object_name(at, true);
        write_sync_record(IPS_REC_RELEASE, kind, &thing, call, call, 1, 0, 0,
                          NULL);
    } else {
        write_short_lock_record(IPS_REC_RELEASE_SHORT, kind, at, call);
    }
}

/* --- repeated tries (spinning) -------------------------------------------- */

/* Returns the most CPU time, in stamps, that a thread may use between two tries
 * of one wait: 100 us, which is 50 times IPS_BLOCKED_NS. Time off the CPU
 * between tries counts as waiting. */
static uint64_t max_gap_between_tries(void)
{
    return ips_wrap_blocked * 50;
}

/* Whether a try at the stamp `now` belongs to the same loop as the last try.
 * Reads the CPU clock only if too much time has elapsed since. Between the
 * first and the last try, the thread is assumed to have run all the time. */
static bool is_same_try_loop(const struct ips_trylock_series *t, uint64_t now)
{
    if (now - t->last <= max_gap_between_tries())
        return true;
    uint64_t known = t->cpu + ips_wrap_stamps_to_ns(t->last - t->first);
    return ips_sub_sat(ips_core_thread_cpu_ns(), known) <=
           ips_wrap_stamps_to_ns(max_gap_between_tries());
}

/* Clears the mark of a failed try in the hash slot `slot`, and returns whether
 * the mark was recent. A thread that goes on trying sets it again, so each
 * failed try costs a releasing thread at most one record. */
bool ips_test_and_clear_tried_mark_slow(uint32_t slot)
{
    uint64_t last =
        atomic_exchange_explicit(&ips_tried[slot], 0, memory_order_relaxed);
    uint64_t now = ips_core_stamp_now();
    /* recent: less than 2 s ago, since a loop may sleep between tries */
    return last && (now < last || now - last < max_gap_between_tries() * 20000);
}

void ips_store_failed_try_of_lock(const volatile void *at)
{
    struct ips_extra *extra = ips_extra_get_or_map();
    uint64_t now = ips_core_stamp_now();
    atomic_store_explicit(&ips_tried[ips_tried_slot(at)], now,
                          memory_order_relaxed);
    if (!extra)
        return;
    struct ips_trylock_series *t = &extra->tries;
    if (ips_try_at != at || !is_same_try_loop(t, now)) {
        ips_try_at = at;
        t->first = now;
        t->cpu = ips_core_thread_cpu_ns();
        t->count = 0;
    }
    t->count++;
    t->last = now;
}

void ips_record_try_if_earlier_failed_slow(enum ips_sync kind,
                                           const volatile void *at, bool shared,
                                           uint64_t site)
{
    struct ips_trylock_series t = {.count = 0};
    uint64_t now = ips_core_stamp_now();
    if (ips_try_at == at && ips_me.extra)
        t = ips_me.extra->tries;
    bool tried = t.count >= 2 && now - t.first >= ips_wrap_blocked &&
                 is_same_try_loop(&t, now);
    if (ips_try_at == at)
        ips_try_at = NULL;
    if (!tried && ips_sync_all)
        ips_record_uncontended_acquire_now(kind, at, shared);
    if (!tried)
        return;
    struct ips_sync_object thing = ips_compute_sync_object_name(at, shared);
    struct ips_moment call = {.t = t.first, .cpu = t.cpu};
    struct ips_moment ret = {.t = now, .cpu = ips_core_thread_cpu_ns()};
    ips_record_acquire(kind, &thing, call, ret, IPS_GOT_SPUN, 0, site);
}
