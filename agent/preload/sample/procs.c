/* Counters and events of instrumented procedures; see procs.h. */
#include "agent/preload/sample/procs.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "agent/record/core.h"
#include "agent/record/cpu.h"
#include "agent/record/proc_event.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"

#define HOOK __attribute__((visibility("default"), no_instrument_function, hot))
#define TLS static __thread __attribute__((tls_model("initial-exec")))
#define COLD static __attribute__((noinline, cold))

#define FIRST_SLOTS 64u
#define FLUSH_NS 100000000u
#define BUDGET_EVERY 64u
#define HOT_SHARE 16u

enum mode {
    COUNTED,  /* COUNT records: calls are counted */
    RECORDED, /* ENTER and EXIT records for each call */
    LEAVING,  /* counted now, but calls with an ENTER have not returned yet */
};

struct slot {
    uint64_t counted;  /* copy of `procedure` if its mode is COUNTED, else 0 */
    uint64_t recorded; /* copy of `procedure` if its mode is RECORDED, else 0 */
    uint64_t procedure; /* address of the procedure; 0: the slot is free */
    uint64_t calls;     /* calls without an ENTER so far */
    uint64_t written;   /* calls that are in COUNT records so far */
    uint64_t pairs;     /* calls with an ENTER so far */
    uint32_t open;      /* calls with an ENTER but no EXIT yet */
    /* in mode LEAVING: depth of counted calls inside calls with an ENTER */
    uint32_t counted_depth;
    enum mode mode;
    uint32_t pad;
};
_Static_assert(sizeof(struct slot) == 64, "a shift finds a slot");

struct table {
    struct table *next;
    _Atomic uint32_t claimed; /* 1: belongs to a running thread */
    _Atomic uint32_t busy; /* 1: a thread adds slots or writes COUNT records */
    uint32_t tid;
    uint32_t used, capacity, shift;
    struct slot *slots;
    /* sum of the `pairs` of all slots; the newest pairs of each slot (at most
     * 63) are not added yet */
    uint64_t pairs;
    uint64_t flushed; /* stamp of the last COUNT records */
};

/* Copy of the fields of this thread's table that the fast path needs; slots
 * NULL: no table. */
TLS struct {
    struct slot *slots;
    uint32_t shift, last; /* index of the last slot */
    bool ended;
    struct table *table;
} here;

static struct table *_Atomic tables;
static enum mode first_mode;
static bool on, exact;
/* pair_ps: cost (ps) of an ENTER and its EXIT. budget_q32: ps that these may
 * cost per ns of CPU time (fixed point, 32 fraction bits). flush_stamps:
 * FLUSH_NS in stamps */
static uint64_t pair_ps, budget_q32, flush_stamps;

/* Increments in one instruction, so this thread's own signal handlers cannot
 * split it. */
static inline void increment_counter(uint64_t *counter)
{
#if defined(__x86_64__)
    __asm__ volatile("addq $1, %0" : "+m"(*counter) : : "memory", "cc");
#else
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static inline uint32_t home_slot_index(uint64_t procedure, uint32_t shift)
{
    return (uint32_t)(procedure * 0x9e3779b97f4a7c15ull >> shift);
}

/* --- tables of counters --------------------------------------------------- */

static struct slot *find_procedure_or_free_slot(const struct table *t,
                                                uint64_t procedure)
{
    uint32_t i = home_slot_index(procedure, t->shift);
    while (t->slots[i].procedure && t->slots[i].procedure != procedure)
        i = (i + 1) & (t->capacity - 1);
    return &t->slots[i];
}

static struct slot *map_slots(uint32_t room)
{
    uint64_t at =
        ips_sys_mmap(0, room * sizeof(struct slot), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return ips_sys_is_error(at) ? NULL : (struct slot *)at;
}

static void set_current_table(struct table *t)
{
    here.table = t;
    here.shift = t->shift;
    here.last = t->capacity - 1;
    here.slots = t->slots;
}

static void set_table_slots_and_capacity(struct table *t, struct slot *slots,
                                         uint32_t room)
{
    t->slots = slots;
    t->capacity = room;
    t->shift = 64 - (uint32_t)__builtin_ctz(room);
}

/* Returns a table for this thread: that of a thread that has ended, or a new
 * one; NULL: no memory. To be called with all signals blocked. */
static struct table *claim_thread_table(void)
{
    struct table *t = atomic_load(&tables);
    for (; t; t = t->next) {
        uint32_t no = 0;
        if (atomic_load_explicit(&t->claimed, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&t->claimed, &no, 1))
            break;
    }
    if (!t) {
        uint64_t at = ips_sys_mmap(0, sizeof(*t), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1);
        struct slot *slots = map_slots(FIRST_SLOTS);
        if (ips_sys_is_error(at) || !slots)
            return NULL;
        t = (struct table *)at;
        set_table_slots_and_capacity(t, slots, FIRST_SLOTS);
        atomic_store(&t->claimed, 1);
        t->next = atomic_load(&tables);
        while (!atomic_compare_exchange_weak(&tables, &t->next, t))
            ;
    }
    t->tid = ips_sys_gettid();
    t->flushed = ips_core_stamp_now();
    set_current_table(t);
    return t;
}

/* Makes the table four times as large; false: no memory. If this happens in a
 * signal handler that interrupted a hook, the hook counts on in the old slots,
 * then notices the move and adds its counts to the new slots
 * (move_counts_to_new_slot). */
static bool grow_procedure_table(struct table *t)
{
    struct slot *old = t->slots, *slots = map_slots(t->capacity * 4);
    uint32_t room = t->capacity;
    if (!slots)
        return false;
    set_table_slots_and_capacity(t, slots, room * 4);
    for (uint32_t i = 0; i < room; i++) {
        if (!old[i].procedure)
            continue;
        *find_procedure_or_free_slot(t, old[i].procedure) = old[i];
        old[i].calls = 0;
    }
    set_current_table(t);
    return true;
}

/* Returns the slot of a procedure; adds one if there is none yet. NULL: no
 * memory, or the thread or process is ending. */
COLD struct slot *find_or_add_procedure_slot(uint64_t procedure)
{
    struct slot *s = NULL;
    if (!on || here.ended || !procedure)
        return NULL;
    uint64_t signals = ips_sys_block_signals();
    struct table *t = here.table ? here.table : claim_thread_table();
    uint32_t no = 0;
    if (!t || !atomic_compare_exchange_strong(&t->busy, &no, 1))
        /* the process is ending, and another thread is writing our counters */
        goto out;
    s = find_procedure_or_free_slot(t, procedure);
    if (!s->procedure && (t->used + 1) * 2 > t->capacity) {
        if (grow_procedure_table(t))
            s = find_procedure_or_free_slot(t, procedure);
        else if (t->used + 1 == t->capacity)
            s = NULL;
    }
    if (s && !s->procedure) {
        t->used++;
        s->mode = first_mode;
        s->procedure = procedure;
        s->counted = exact ? 0 : procedure;
        s->recorded = exact ? procedure : 0;
    }
    atomic_store(&t->busy, 0);
out:
    ips_sys_restore_signals(signals);
    if (s)
        ips_module_record_once(procedure);
    else
        ips_core_count_and_write_lost(IPS_LOST_NO_SEGMENT, 1);
    return s;
}

/* --- COUNT records -------------------------------------------------------- */

static bool write_count_record(const struct table *t, uint64_t procedure,
                               uint64_t calls, uint64_t stamp)
{
    struct ips_rec_count *rec = (struct ips_rec_count *)ips_rec_begin_at(
        IPS_REC_COUNT, sizeof(*rec), stamp);
    if (!rec)
        return false;
    rec->h.a = t == here.table ? 0 : t->tid;
    rec->procedure = procedure;
    rec->calls = calls;
    ips_rec_publish(rec);
    return true;
}

/* Writes the COUNT records of the table. To be called with all signals blocked.
 */
static void write_count_records_of_table(struct table *t)
{
    uint32_t no = 0;
    if (!ips_core_is_recording())
        return;
    uint64_t now = ips_core_stamp_now();
    if (!atomic_compare_exchange_strong(&t->busy, &no, 1))
        return;
    t->flushed = now;
    for (uint32_t i = 0; i < t->capacity; i++) {
        struct slot *s = &t->slots[i];
        uint64_t calls = __atomic_load_n(&s->calls, __ATOMIC_RELAXED);
        if (calls != s->written &&
            write_count_record(t, s->procedure, calls - s->written, now))
            s->written = calls;
    }
    atomic_store(&t->busy, 0);
}

void ips_procs_flush_all(void)
{
    if (!atomic_load(&tables))
        return; /* most programs have no instrumented procedures */
    uint64_t signals = ips_sys_block_signals();
    for (struct table *t = atomic_load(&tables); t; t = t->next)
        if (atomic_load(&t->claimed))
            write_count_records_of_table(t);
    ips_sys_restore_signals(signals);
}

void ips_procs_flush_if_old(uint64_t t)
{
    if (here.table && t - here.table->flushed >= flush_stamps)
        write_count_records_of_table(here.table);
}

/* --- start and end of threads and images ---------------------------------- */

static void clear_and_release_table(struct table *t)
{
    for (uint32_t i = 0; i < t->capacity; i++)
        t->slots[i] = (struct slot){0};
    t->used = 0;
    t->pairs = 0;
    atomic_store(&t->busy, 0);
    atomic_store(&t->claimed, 0);
}

/* Returns the cost (ps) of an ENTER and its EXIT: the two readings of the CPU
 * clock as measured here (1 us and more if they are system calls) and the two
 * records; plus the cost of memory in the pool, about 0.4 ns per byte, which
 * the measured probe cost does not contain. */
static uint64_t measure_enter_exit_pair_ps(const struct ips_control *c)
{
    uint64_t least = ~(uint64_t)0;
    for (int i = 0; i < 8; i++) {
        uint64_t start = ips_core_stamp_now();
        (void)ips_moment_now();
        (void)ips_moment_now();
        least = ips_min_u64(least, ips_core_stamp_now() - start);
    }
    return ips_max_u64(ips_stamps_to_ns(least) * 1000 + 10000,
                       c->probe_cost_ps[IPS_PROBE_PROC]) +
           2 * sizeof(struct ips_rec_head) * 400;
}

static void read_procedure_options(void)
{
    const struct ips_control *c = ips_core_control();
    exact = c->procedures == IPS_PROCEDURES_EXACT;
    first_mode = exact ? RECORDED : COUNTED;
    budget_q32 = ((uint64_t)c->budget_ppm << 32) / 1000;
    flush_stamps = ((uint64_t)FLUSH_NS << 32) / ips_core.mult;
    if (exact)
        pair_ps = measure_enter_exit_pair_ps(c);
    on = c->procedures != IPS_PROCEDURES_OFF;
}

void ips_procs_read_options_or_reset_at_start(enum ips_start_kind kind)
{
    here.ended = false;
    if (kind == IPS_START_IMAGE)
        read_procedure_options();
    if (kind != IPS_START_FORK)
        return;
    /* In a fork child the tables still hold the counts and open calls of the
     * parent. */
    here.slots = NULL;
    here.table = NULL;
    for (struct table *t = atomic_load(&tables); t; t = t->next)
        clear_and_release_table(t);
}

void ips_procs_flush_and_release_own_table(void)
{
    struct table *t = here.table;
    uint32_t no = 0;
    here.ended = true;
    if (!t)
        return;
    uint64_t signals = ips_sys_block_signals();
    write_count_records_of_table(t);
    here.slots = NULL;
    here.table = NULL;
    /* If busy, another thread is writing this table's COUNT records; the table
     * then stays claimed and is not reused. */
    if (atomic_compare_exchange_strong(&t->busy, &no, 1))
        clear_and_release_table(t);
    ips_sys_restore_signals(signals);
}

/* --- hooks that the compiler calls ---------------------------------------- */

/* A signal handler moved the table after the hook found `s`: adds the calls
 * that were counted in the old slot since then to the new one. */
COLD void move_counts_to_new_slot(struct slot *s)
{
    uint64_t left = __atomic_exchange_n(&s->calls, 0, __ATOMIC_RELAXED);
    struct slot *now = left ? find_or_add_procedure_slot(s->procedure) : NULL;
    if (now)
        __atomic_fetch_add(&now->calls, left, __ATOMIC_RELAXED);
}

static inline void count_call(struct slot *s, const struct slot *slots)
{
    increment_counter(&s->calls);
    if (unlikely(here.slots != slots))
        move_counts_to_new_slot(s);
}

/* Checks the budget. To be called at every 64th ENTER of a procedure. If the
 * budget is exceeded, calls of the procedure are only counted from now on. */
COLD void stop_recording_if_over_budget(struct slot *s)
{
    struct table *t = here.table;
    struct ips_moment m = ips_moment_now();
    uint64_t allowed = ips_mul_q32(m.cpu, budget_q32);
    t->pairs += BUDGET_EVERY;
    bool alone = (ips_u128)s->pairs * pair_ps > allowed;
    bool all = (ips_u128)t->pairs * pair_ps > allowed &&
               s->pairs * HOT_SHARE >= t->pairs;
    if (!alone && !all)
        return;
    /* not COUNTED yet: the call being entered needs an EXIT */
    s->mode = LEAVING;
    s->recorded = 0;
    (void)write_count_record(t, s->procedure, 0, m.t);
}

COLD void count_written_enter_in_moved_table(uint64_t procedure)
{
    struct slot *s = find_or_add_procedure_slot(procedure);
    if (!s)
        return;
    s->open++;
    if (++s->pairs % BUDGET_EVERY == 0)
        stop_recording_if_over_budget(s);
}

/* Counts an ENTER that was written for a call of the procedure. Must be the
 * last action of a hook. */
static inline void count_enter_and_stop_if_over_budget(struct slot *s,
                                                       const struct slot *slots)
{
    if (unlikely(here.slots != slots)) {
        count_written_enter_in_moved_table(s->procedure);
        return;
    }
    s->open++;
    if (unlikely(++s->pairs % BUDGET_EVERY == 0))
        stop_recording_if_over_budget(s);
}

static void record_or_count_enter(struct slot *s, const struct slot *slots)
{
    struct ips_moment m;
    if (ips_write_long_procedure_event(IPS_REC_ENTER, s->procedure, &m))
        count_enter_and_stop_if_over_budget(s, slots);
    else
        count_call(s, slots);
}

static __attribute__((noinline)) void
record_or_count_enter_slow(uint64_t procedure, uint64_t left)
{
    ips_short_record_give_back_if_reserved(left, sizeof(struct ips_rec_head));
    struct slot *slots = here.slots, *s = NULL;
    if (!ips_core.main_stream || ips_me.in_vfork)
        return;
    if (slots)
        s = find_procedure_or_free_slot(here.table, procedure);
    if (!s || !s->procedure) {
        s = find_or_add_procedure_slot(procedure);
        slots = here.slots;
    }
    if (!s)
        return;
    if (s->mode == RECORDED) {
        record_or_count_enter(s, slots);
        return;
    }
    s->counted_depth += s->mode == LEAVING;
    count_call(s, slots);
}

static __attribute__((noinline)) void record_exit_slow(uint64_t procedure,
                                                       uint64_t left)
{
    ips_short_record_give_back_if_reserved(left, sizeof(struct ips_rec_head));
    struct slot *slots = here.slots;
    if (!slots || !ips_core.main_stream || ips_me.in_vfork)
        return;
    struct slot *s = find_procedure_or_free_slot(here.table, procedure);
    if (!s->procedure || s->mode == COUNTED)
        return;
    if (s->counted_depth) {
        s->counted_depth--;
        return;
    }
    if (s->open == 0)
        return;
    struct ips_moment m;
    (void)ips_write_long_procedure_event(IPS_REC_EXIT, procedure, &m);
    if (unlikely(here.slots != slots)) {
        if (!here.slots ||
            !(s = find_procedure_or_free_slot(here.table, procedure))->open)
            return;
    }
    if (--s->open == 0 && s->mode == LEAVING) {
        s->mode = COUNTED;
        s->counted = procedure;
    }
}

/* Returns the slot of `procedure` if its mode is RECORDED, else NULL. */
static inline struct slot *find_slot_of_recorded_procedure(struct slot *slots,
                                                           uint64_t procedure)
{
    if (unlikely(!slots || ips_me.in_vfork))
        return NULL;
    for (uint32_t i = home_slot_index(procedure, here.shift);;
         i = (i + 1) & here.last) {
        struct slot *s = &slots[i];
        if (likely(s->recorded == procedure))
            return s;
        if (s->procedure == 0 || s->procedure == procedure)
            return NULL;
    }
}

COLD void decrement_open_calls_in_moved_table(uint64_t procedure)
{
    if (here.slots)
        find_procedure_or_free_slot(here.table, procedure)->open--;
}

HOOK void __cyg_profile_func_enter(void *procedure, void *site);
HOOK void __cyg_profile_func_exit(void *procedure, void *site);

static inline void record_or_count_enter_fast(uint64_t procedure)
{
    struct slot *slots = here.slots,
                *s = find_slot_of_recorded_procedure(slots, procedure);
    uint64_t left = IPS_SHORT_NOT;
    if (likely(s))
        left =
            ips_try_write_short_procedure_event(IPS_REC_ENTER_SHORT, procedure);
    if (likely(!left))
        count_enter_and_stop_if_over_budget(s, slots);
    else
        record_or_count_enter_slow(procedure, left);
}

/* Fast path: if the procedure is only counted, and is in the slot that its hash
 * selects, counts the call at once. */
void __cyg_profile_func_enter(void *procedure, void *site)
{
    (void)site;
    struct slot *slots = here.slots;
    if (likely(slots != NULL)) {
        struct slot *s =
            &slots[home_slot_index((uint64_t)procedure, here.shift)];
        if (likely(s->counted == (uint64_t)procedure && !ips_me.in_vfork)) {
            count_call(s, slots);
            return;
        }
    }
    if (exact)
        record_or_count_enter_fast((uint64_t)procedure);
    else if (on)
        record_or_count_enter_slow((uint64_t)procedure, IPS_SHORT_NOT);
}

void __cyg_profile_func_exit(void *procedure, void *site)
{
    (void)site;
    if (!exact)
        return;
    struct slot *slots = here.slots, *s = NULL;
    if (likely(slots != NULL)) {
        s = &slots[home_slot_index((uint64_t)procedure, here.shift)];
        if (s->counted == (uint64_t)procedure)
            return; /* no call of a counted procedure needs an EXIT */
        s = find_slot_of_recorded_procedure(slots, (uint64_t)procedure);
    }
    uint64_t left = IPS_SHORT_NOT;
    if (likely(s && s->open))
        left = ips_try_write_short_procedure_event(IPS_REC_EXIT_SHORT,
                                                   (uint64_t)procedure);
    if (unlikely(left)) {
        record_exit_slow((uint64_t)procedure, left);
        return;
    }
    if (unlikely(here.slots != slots))
        decrement_open_calls_in_moved_table((uint64_t)procedure);
    else
        s->open--;
}
