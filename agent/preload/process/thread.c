/*
 * Records how POSIX and C11 threads are created, end (return, pthread_exit,
 * cancellation) and are joined. A new thread starts in a function of ours,
 * which gets the program's function and argument from a fixed table. The
 * destructor of a thread-specific value records the end of the thread, however
 * it ends. Nothing is allocated, and thread attributes are not changed.
 */
#include "agent/preload/wrap.h"

#include "agent/preload/sample/sample.h"
#include "agent/record/sys.h"

/* --- passing arguments to a new thread ------------------------------------ */

struct start {
    _Atomic uint32_t claimed;
    uint32_t ptid;
    uint64_t seq;
    union {
        void *(*posix)(void *);
        thrd_start_t c11;
    } fn;
    void *arg;
    uint64_t stack; /* stack size in bytes */
};
/* largest number of threads that can be created but not yet started */
#define STARTS 1024u
static struct start starts[STARTS] IPS_TABLE;
static _Atomic uint32_t next_start;
static pthread_key_t end_key;
static bool have_key;

static void register_thread_end_once(void);

static struct start *claim_thread_start_slot(void)
{
    register_thread_end_once();
    for (unsigned i = 0; i < STARTS; i++) {
        struct start *s = &starts[atomic_fetch_add(&next_start, 1) % STARTS];
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&s->claimed, &none, 1))
            return s;
    }
    return NULL; /* none free: the new thread's stream of records starts at its
                    first record */
}

static void free_thread_start_slot(struct start *s)
{
    atomic_store_explicit(&s->claimed, 0, memory_order_release);
}

static bool clear_own_entry_and_test_cancelled(void);
static void clear_own_cancelled_mark(void);
static void store_own_fork_seq(uint64_t seq);

/* The destructor of the thread-specific value `end_key`. The C library calls
 * all destructors up to PTHREAD_DESTRUCTOR_ITERATIONS times. Ours asks to be
 * called again until the last time, so that calls in other destructors are
 * still recorded for this thread. */
static void at_thread_end(void *round)
{
    uintptr_t n = (uintptr_t)round;
    /* records the wait in which the thread was cancelled, if it was */
    ips_record_abandoned_call_if_blocked();
    if (n < PTHREAD_DESTRUCTOR_ITERATIONS &&
        pthread_setspecific(end_key, (void *)(n + 1)) == 0)
        return;
    if (clear_own_entry_and_test_cancelled()) {
        struct ips_moment now = {.t = ips_core_stamp_now(),
                                 .cpu = ips_core_thread_cpu_ns()};
        ips_record_signal_taken(IPS_SIGNAL_CANCELLED, (int)IPS_CANCEL, SI_TKILL,
                                (int32_t)ips_sys_getpid(), 0, now);
    }
    ips_core_end_thread_stream();
}

/* Runs when the first thread is created. The creating thread (nearly always the
 * main thread) may end by pthread_exit, too, so the destructor is set for it as
 * well. */
static void register_thread_end_once(void)
{
    static _Atomic bool begun;
    if (atomic_exchange(&begun, true))
        return;
    have_key = pthread_key_create(&end_key, at_thread_end) == 0;
    if (have_key)
        pthread_setspecific(end_key, (void *)1);
}

static struct start start_recording_in_new_thread(void *p)
{
    struct start *s = (struct start *)p;
    struct start copy;
    copy.ptid = s->ptid;
    copy.seq = s->seq;
    copy.fn = s->fn;
    copy.arg = s->arg;
    copy.stack = s->stack;
    free_thread_start_slot(s);
    ips_sample_store_own_stack_bound(copy.stack);
    ips_core_begin_thread_stream(copy.seq, copy.ptid);
    if (have_key)
        pthread_setspecific(end_key, (void *)1);
    store_own_fork_seq(copy.seq);
    ips_thread_store_own_tid();
    /* the measured probe cost of a thread contains its start, so the overhead
     * counted so far is dropped */
    ips_reset_overhead_counts();
    return copy;
}

static void *run_posix_thread(void *p)
{
    struct start s = start_recording_in_new_thread(p);
    void *result = s.fn.posix(s.arg);
    clear_own_cancelled_mark();
    return result;
}

static int run_c11_thread(void *p)
{
    struct start s = start_recording_in_new_thread(p);
    int result = s.fn.c11(s.arg);
    clear_own_cancelled_mark();
    return result;
}

/* --- map from thread handles to FORK numbers ------------------------------ */

/* `known` maps thread handles to FORK numbers: a hash table with open
 * addressing. A later thread gets the same handle only after the earlier one
 * was joined or, if detached, has ended; its entry is then overwritten. */
#define KNOWN 8192u
#define PROBES 64u
static struct known_threads {
    /* handle of the thread; 0: the entry was never used */
    _Atomic uint64_t thread;
    _Atomic uint64_t seq;
    _Atomic uint32_t tid; /* thread id; 0: not running yet, or ended */
    /* the expected_cancel_mark() of the thread for which pthread_cancel was
     * called. It shows whether that was the present thread, or an earlier one
     * with the same handle */
    _Atomic uint32_t cancelled;
} known[KNOWN] IPS_TABLE,
    first_known; /* first_known: an extra entry that is tried first, mostly used
                    by the main thread */

static struct known_threads *find_or_add_known_thread(uint64_t thread, bool add)
{
    uint64_t at = (thread >> 6) * 0x9e3779b97f4a7c15ull >> 51;
    for (unsigned i = 0; i < PROBES; i++) {
        struct known_threads *k = i ? &known[(at + i) % KNOWN] : &first_known;
        uint64_t has = atomic_load(&k->thread);
        if (has == thread)
            return k;
        if (has == 0) {
            if (!add)
                return NULL;
            if (atomic_compare_exchange_strong(&k->thread, &has, thread) ||
                has == thread)
                return k;
        }
    }
    return NULL;
}

void ips_thread_store_own_tid(void)
{
    struct known_threads *k =
        find_or_add_known_thread((uint64_t)pthread_self(), true);
    if (k)
        atomic_store(&k->tid, ips_sys_gettid());
}

/* Returns the value that k->cancelled has if the present thread of the entry
 * was cancelled. */
static uint32_t expected_cancel_mark(const struct known_threads *k)
{
    return (uint32_t)atomic_load(&k->seq) + 1;
}

static void store_own_fork_seq(uint64_t seq)
{
    struct known_threads *k =
        find_or_add_known_thread((uint64_t)pthread_self(), true);
    if (k)
        atomic_store(&k->seq, seq);
}

void ips_thread_mark_cancelled(pthread_t thread)
{
    struct known_threads *k = find_or_add_known_thread((uint64_t)thread, false);
    if (k)
        atomic_store(&k->cancelled, expected_cancel_mark(k));
}

/* Clears the mark that the calling thread was cancelled: it returned by itself
 * before a cancellation took effect. */
static void clear_own_cancelled_mark(void)
{
    struct known_threads *k =
        find_or_add_known_thread((uint64_t)pthread_self(), false);
    if (k)
        atomic_store(&k->cancelled, 0);
}

/* Clears the calling thread's entry. True: the thread was cancelled. */
static bool clear_own_entry_and_test_cancelled(void)
{
    struct known_threads *k =
        find_or_add_known_thread((uint64_t)pthread_self(), false);
    if (!k)
        return false;
    atomic_store(&k->tid, 0);
    return atomic_exchange(&k->cancelled, 0) == expected_cancel_mark(k);
}

uint32_t ips_thread_tid(pthread_t thread)
{
    struct known_threads *k = find_or_add_known_thread((uint64_t)thread, false);
    return k ? atomic_load(&k->tid) : 0;
}

/* --- creating threads ----------------------------------------------------- */

/* Records the creation of a thread as FORK number `seq`, and stores that number
 * under the thread's handle, or frees `s` if the call failed. `err` is 0 on
 * success, for pthread_create and thrd_create (thrd_success) alike. */
static void record_thread_creation_and_store_fork_seq(uint64_t thread, int err,
                                                      uint64_t seq,
                                                      struct ips_moment call,
                                                      struct start *s,
                                                      uint64_t site)
{
    int saved = errno;
    ips_record_fork(IPS_FORK_THREAD, 0, seq, call, err, site);
    ips_sample_reinstall_handler_once();
    if (err) {
        free_thread_start_slot(s);
    } else {
        struct known_threads *k = find_or_add_known_thread(thread, true);
        if (k)
            atomic_store(&k->seq, seq);
    }
    errno = saved;
}

/* Returns the stack size (bytes) of a thread created with `attr` (NULL: default
 * attributes); 0: unknown. */
static uint64_t stack_size_of_thread_attributes(const pthread_attr_t *attr)
{
    pthread_attr_t usual;
    size_t size = 0;
    if (!attr && pthread_attr_init(&usual) != 0)
        return 0;
    pthread_attr_getstacksize(attr ? attr : &usual, &size);
    if (!attr)
        pthread_attr_destroy(&usual);
    return size;
}

IPS_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                              void *(*fn)(void *), void *arg)
{
    struct start *s = ips_wrap_start_library_and_check_recording()
                          ? claim_thread_start_slot()
                          : NULL;
    if (!s)
        return REAL(pthread_create)(thread, attr, fn, arg);
    uint64_t seq = ips_core_prepare_fork_and_get_seq();
    s->ptid = ips_sys_gettid();
    s->seq = seq;
    s->fn.posix = fn;
    s->arg = arg;
    s->stack = stack_size_of_thread_attributes(attr);
    struct ips_moment call = ips_take_call_moment();
    int err = REAL(pthread_create)(thread, attr, run_posix_thread, s);
    record_thread_creation_and_store_fork_seq(err ? 0 : (uint64_t)*thread, err,
                                              seq, call, s, IPS_SITE);
    return err;
}

IPS_EXPORT int thrd_create(thrd_t *thread, thrd_start_t fn, void *arg)
{
    struct start *s = ips_wrap_start_library_and_check_recording()
                          ? claim_thread_start_slot()
                          : NULL;
    if (!s)
        return REAL(thrd_create)(thread, fn, arg);
    uint64_t seq = ips_core_prepare_fork_and_get_seq();
    s->ptid = ips_sys_gettid();
    s->seq = seq;
    s->fn.c11 = fn;
    s->arg = arg;
    s->stack = stack_size_of_thread_attributes(NULL);
    struct ips_moment call = ips_take_call_moment();
    int err = REAL(thrd_create)(thread, run_c11_thread, s);
    record_thread_creation_and_store_fork_seq(err ? 0 : (uint64_t)*thread, err,
                                              seq, call, s, IPS_SITE);
    return err;
}

/* --- joining threads ------------------------------------------------------ */

/* Body of a wrapper of a thread join. The thread's handle is looked up before
 * the real join, because afterwards a new thread may have the same handle. */
#define JOIN(real_call)                                                        \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct known_threads *k =                                              \
            find_or_add_known_thread((uint64_t)thread, false);                 \
        uint64_t seq = k ? atomic_load(&k->seq) : 0;                           \
        IPS_WAIT_MARK;                                                         \
        struct ips_moment call = ips_take_call_moment();                       \
        IPS_JOIN_BEGINS(0, seq, IPS_SITE, call);                               \
        int r = real_call;                                                     \
        if (r == 0) {                                                          \
            int saved = errno;                                                 \
            ips_record_join(IPS_JOIN_THREAD, 0, seq, call, ~0ull, 0,           \
                            IPS_SITE);                                         \
            errno = saved;                                                     \
        }                                                                      \
        return r;                                                              \
    } while (0)

IPS_EXPORT int pthread_join(pthread_t thread, void **value)
{
    JOIN(REAL(pthread_join)(thread, value));
}

IPS_EXPORT int pthread_tryjoin_np(pthread_t thread, void **value)
{
    JOIN(REAL(pthread_tryjoin_np)(thread, value));
}

IPS_EXPORT int pthread_timedjoin_np(pthread_t thread, void **value,
                                    const struct timespec *until)
{
    JOIN(REAL(pthread_timedjoin_np)(thread, value, until));
}

IPS_EXPORT int pthread_clockjoin_np(pthread_t thread, void **value,
                                    clockid_t clock,
                                    const struct timespec *until)
{
    JOIN(REAL(pthread_clockjoin_np)(thread, value, clock, until));
}

IPS_EXPORT int thrd_join(thrd_t thread, int *value)
{
    JOIN(REAL(thrd_join)(thread, value));
}
