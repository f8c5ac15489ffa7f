/* Installs the signal handler, takes samples, and writes the stacks of
 * waits. */
#include "agent/preload/sample/sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "agent/preload/sample/pace.h"
#include "agent/preload/sample/procs.h"
#include "agent/preload/stdio_slots.h"
#include "agent/preload/wrap.h"
#include "agent/record/core.h"
#include "agent/record/readable.h"
#include "agent/record/sys.h"
#include "agent/record/valgrind.h"
#include "agent/unwind/modules.h"
#include "agent/unwind/spin_loop.h"
#include "agent/unwind/unwind.h"
#include "common/types.h"

#define SMALL_STACK (64u << 10)
/* Assumed size of the main thread's stack. The kernel reserves more address
 * space than this for it. */
#define MAIN_STACK (64u << 20)
#define STACK_BLOCK_NS 50000u

extern void *__libc_stack_end __attribute__((weak));

/* Kept small because static TLS is scarce (agent/record/thread.h). */
static IPS_TLS struct {
    uint64_t low; /* lower end of the thread's stack; 0: unknown or too small */
} sampling;

/* The C library's handler of signal 33; 0 until it is installed. */
static _Atomic uintptr_t their_handler;
static bool on, stopped;

/* The kernel's layout of struct sigaction. */
struct kernel_sigaction {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

/* Returns the upper end of the thread's stack. The control block of a thread is
 * at the top of its stack. */
static uint64_t thread_stack_end(void)
{
    uint64_t main_end = &__libc_stack_end ? (uint64_t)__libc_stack_end : 0;
    uint64_t own = (uint64_t)(uintptr_t)__builtin_thread_pointer();
    return sampling.low + MAIN_STACK == main_end ? main_end : own;
}

/* --- interrupted calls ---------------------------------------------------- */

/* Whether `uc` is just after a system call that ended with EINTR. */
static bool is_after_eintr_syscall(const ucontext_t *uc)
{
#if defined(__x86_64__)
    uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
    return uc->uc_mcontext.gregs[REG_RAX] == -EINTR && pc % 4096 >= 2 &&
           memcmp((const void *)(pc - 2), "\x0f\x05", 2) == 0;
#elif defined(__aarch64__)
    uint64_t pc = uc->uc_mcontext.pc;
    return (int64_t)uc->uc_mcontext.regs[0] == -EINTR && pc % 4096 >= 4 &&
           memcmp((const void *)(pc - 4), "\x01\x00\x00\xd4", 4) == 0;
#endif
}

static void store_eintr_sp_if_no_other_signal_pending(const ucontext_t *uc)
{
#if defined(__x86_64__)
    uint64_t sp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    uint64_t sp = uc->uc_mcontext.sp;
#endif
    uint64_t pending = 0, mask;
    memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
    ips_sys3(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0);
    if ((pending & ~mask & ~((uint64_t)1 << (IPS_SAMPLE_SIGNAL - 1))) == 0)
        ips_me.sample_eintr = sp;
}

/* Whether `pc` is in this library. */
static bool is_in_this_library(uint64_t pc)
{
    extern const char __ehdr_start[] IPS_HIDDEN;
    extern const char _etext[] IPS_HIDDEN;
    return pc >= (uint64_t)(uintptr_t)__ehdr_start &&
           pc < (uint64_t)(uintptr_t)_etext;
}

#define LIBC_FRAMES                                                            \
    16u /* most stack frames examined to find a caller outside libc */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* Whether `pc` is in the C library. Always false until our constructor has
 * found that library's functions. */
static bool is_in_libc(uint64_t pc)
{
    /* address range of the C library; 0: not looked up yet */
    static _Atomic uint64_t low, high;
    uint64_t end = atomic_load_explicit(&high, memory_order_acquire);
    if (unlikely(!end)) {
        struct dl_find_object found;
        void *const inside = ips_stdio_libc_file_write_address();
        uint64_t from = 1;
        if (!inside)
            return false;
        end = 1;
        if (&_dl_find_object && _dl_find_object(inside, &found) == 0) {
            from = (uint64_t)(uintptr_t)found.dlfo_map_start;
            end = (uint64_t)(uintptr_t)found.dlfo_map_end;
        }
        atomic_store_explicit(&low, from, memory_order_relaxed);
        atomic_store_explicit(&high, end, memory_order_release);
    }
    return pc >= atomic_load_explicit(&low, memory_order_relaxed) && pc < end;
}

/* --- taking a sample ------------------------------------------------------ */

static bool is_address_readable(uint64_t at)
{
    return ips_is_word_readable((const void *)(uintptr_t)at);
}

/* Whether `sp` is on the thread's own stack. */
static bool is_on_thread_stack(uint64_t sp)
{
    return sampling.low && sp >= sampling.low && sp < thread_stack_end();
}

bool ips_sample_is_in_used_stack(const void *at, size_t bytes)
{
    const uint64_t first = (uint64_t)(uintptr_t)at;
    const uint64_t sp = ips_stack_pointer(), end = thread_stack_end();
    return is_on_thread_stack(sp) && first >= sp && first <= end &&
           bytes <= end - first;
}

/* Whether the current stack is large enough to write a sample. `alternate`: the
 * alternate signal stack; NULL: not called in a signal handler. A record that
 * needs a new segment takes 4 KB of stack, which the stack of a coroutine may
 * not have. On such a stack a sample is written only if it fits the present
 * segment, or if that can be extended, which takes little stack. */
static bool ensure_stack_suffices_for_sample(const stack_t *alternate)
{
    struct ips_stream *s = &ips_me.stream;
    const uint64_t sp = ips_stack_pointer(), most = 2 * IPS_REC_MAX_BYTES;
    const uint64_t at = alternate ? (uint64_t)alternate->ss_sp : 0;
    const bool is_alternate = at && !(alternate->ss_flags & SS_DISABLE) &&
                              sp >= at && sp - at < alternate->ss_size;
    if (is_on_thread_stack(sp) || (is_alternate && sp - at >= 8192))
        return true;
    if (s->cur != s->tail || !s->lo || *ips_core.alive != IPS_ALIVE ||
        s->state != IPS_STREAM_BEGUN || s->cur + most > s->seg.end)
        return false;
    if (s->cur + most <= s->limit)
        return true;
    uint64_t signals = ips_sys_block_signals_small_stack();
    int rc = ips_stream_populate_segment_up_to(s, s->cur + most);
    ips_sys_restore_signals(signals);
    return rc == 0;
}

static void set_unwind_stack_bounds(struct ips_unwind_stack *u,
                                    const stack_t *alternate)
{
    uint64_t sp = u->reg[IPS_REG_SP];
    if (is_on_thread_stack(sp)) {
        /* A thread that overflows its stack may have moved sp to an unmapped
         * page without accessing it. The fault must then occur in the program,
         * not in our handler. */
        if (alternate && !is_address_readable(sp))
            return;
        u->low = sp;
        u->end = thread_stack_end();
        return;
    }
    uint64_t at = alternate ? (uint64_t)alternate->ss_sp : 0;
    if (at && !(alternate->ss_flags & SS_DISABLE) && sp >= at &&
        sp - at < alternate->ss_size) {
        u->low = sp;
        u->end = at + alternate->ss_size;
    }
}

static uint64_t cost_of_probe_ps(enum ips_probe probe)
{
    return ips_probe_cost_ps(ips_core_control(), probe);
}

static void write_sample_record(uint64_t t, uint64_t cpu,
                                const uint64_t *frames, uint32_t n,
                                uint32_t flags)
{
    struct ips_rec_sample *rec = (struct ips_rec_sample *)ips_rec_begin_at(
        IPS_REC_SAMPLE, sizeof(*rec) + n * sizeof(frames[0]), t);
    if (!rec)
        return;
    rec->h.a = n;
    rec->cpu = cpu;
    rec->period_ns = ips_core_control()->sample_us * (uint64_t)1000;
    if (flags)
        ips_rec_add_flags(rec, flags);
    if (n)
        memcpy(rec->frames, frames, n * sizeof(frames[0]));
    ips_rec_publish(rec);
    if (n && ips_unreported_agent_ns() >= IPS_BEYOND_DUE_NS &&
        is_on_thread_stack(ips_stack_pointer()))
        ips_write_calls_record_if_enough(0);
}

static void record_modules_and_counts(uint64_t t, const uint64_t *frames,
                                      uint32_t n)
{
    ips_procs_flush_if_old(t);
    for (uint32_t i = 0; i < n; i++)
        ips_module_record_once(frames[i]);
}

#define PAGE 4096u

/* Whether the instruction at `pc` is in a spin loop. Only code of a known
 * module is read, since other code may be unmapped meanwhile, and only if its
 * page is readable: some systems map code that can be executed but not read. */
static bool is_in_spin_loop(uint64_t pc)
{
    const uint64_t page = pc & ~(uint64_t)(PAGE - 1);
    ips_module_record_once(pc);
    return ips_me.site_page == ips_module_page_key(pc) && !ips_sys_quiet &&
           is_address_readable(page) &&
           ips_is_code_in_spin_loop((const uint8_t *)(uintptr_t)page, PAGE,
                                    (size_t)(pc - page));
}

/* Whether the thread is in a wrapper, or in a C library function that a wrapper
 * called. */
static bool is_in_wrapper(const ucontext_t *uc)
{
    uint64_t frames[LIBC_FRAMES];
    struct ips_unwind_stack u;
    ips_unwind_load_context(&u, uc);
    if (!is_in_this_library(u.reg[IPS_REG_PC]) &&
        !is_in_libc(u.reg[IPS_REG_PC]))
        return false;
    set_unwind_stack_bounds(&u, &uc->uc_stack);
    uint32_t n = ips_unwind_stack(&u, frames, LIBC_FRAMES);
    for (uint32_t i = 0; i < n; i++)
        if (!is_in_libc(frames[i]))
            return is_in_this_library(frames[i]);
    return true;
}

void ips_sample_write(const ucontext_t *uc, uint64_t cpu, bool late)
{
    uint64_t frames[IPS_FRAMES_MAX];
    struct ips_unwind_stack u;
    uint64_t t = ips_core_stamp_now();
    if (!ensure_stack_suffices_for_sample(&uc->uc_stack))
        return;
    const struct ips_agent_work apart = ips_agent_work_begin();
    ips_unwind_load_context(&u, uc);
    set_unwind_stack_bounds(&u, &uc->uc_stack);
    uint32_t n = ips_unwind_stack(&u, frames, IPS_FRAMES_MAX);
    record_modules_and_counts(t, frames, n);
    uint32_t flags = late ? IPS_REC_F_LATE : 0;
    if (n && is_in_spin_loop(frames[0]))
        flags |= IPS_REC_F_SPINS;
    /* outside of calls only: a sleep within a call may not be due to page
     * faults */
    if (ips_me.open_depth == 0 && !is_in_wrapper(uc))
        ips_page_faults_write_if_any(t, cpu);
    ips_agent_work_add_to_overhead(&apart, cost_of_probe_ps(IPS_PROBE_SAMPLE));
    write_sample_record(t, cpu, frames, n, flags);
}

void ips_sample_write_at_return(uint64_t real, bool late)
{
    uint64_t all[IPS_FRAMES_MAX + 8];
    uint64_t *frames = all;
    struct ips_unwind_stack u;
    IPS_UNWIND_HERE(&u);
    uint64_t t = ips_core_stamp_now(), cpu = ips_me.cpu_last;
    if (!ensure_stack_suffices_for_sample(NULL))
        return;
    const struct ips_agent_work apart = ips_agent_work_begin();
    set_unwind_stack_bounds(&u, NULL);
    uint32_t n = ips_unwind_stack(&u, all, IPS_FRAMES_MAX + 8);
    while (n && is_in_this_library(*frames)) {
        frames++;
        n--;
    }
    /* Put the real function before its caller, as if the sample had been taken
     * in the real function. */
    if (n && real && !is_in_this_library(real) && frames > all) {
        *--frames = real;
        n++;
    }
    n = (uint32_t)ips_min_u64(n, IPS_FRAMES_MAX);
    record_modules_and_counts(t, frames, n);
    ips_agent_work_add_to_overhead(&apart, cost_of_probe_ps(IPS_PROBE_SAMPLE));
    if (n)
        write_sample_record(t, cpu, frames, n, late ? IPS_REC_F_LATE : 0);
}

void ips_sample_write_empty_start_sample(uint64_t cpu)
{
    write_sample_record(ips_core_stamp_now(), cpu, NULL, 0, 0);
}

/* Handles a signal that does not come from our timers and so belongs to the C
 * library: calls its handler. If it has installed none yet (no thread was
 * created), takes the default action, which ends the program, as it would
 * without us. */
static void pass_signal_to_libc(int sig, siginfo_t *info, void *context)
{
    uintptr_t theirs = atomic_load(&their_handler);
    if (theirs > 1) {
        ((void (*)(int, siginfo_t *, void *))theirs)(sig, info, context);
    } else if (info->si_code <= 0 && info->si_code != SI_TIMER) {
        struct kernel_sigaction none = {0};
        ips_sys6(SYS_rt_sigaction, sig, (long)&none, 0, 8, 0, 0);
        ips_sys3(SYS_tgkill, ips_sys_getpid(), ips_sys_gettid(), sig);
    }
}

static void dispatch_sampling_signal(int sig, siginfo_t *info, void *context)
{
    const ucontext_t *uc = (const ucontext_t *)context;
    const uint64_t cookie = (uintptr_t)info->si_value.sival_ptr;
    if (info->si_code != SI_TIMER ||
        (cookie != IPS_PACE_WATCH && cookie != IPS_PACE_EXACT)) {
        pass_signal_to_libc(sig, info, context);
        return;
    }
    if (unlikely(is_after_eintr_syscall(uc)))
        store_eintr_sp_if_no_other_signal_pending(uc);
    if (!ips_me.in_vfork)
        ips_pace_sample_or_rearm_on_signal((uint32_t)cookie, uc, is_in_wrapper);
}

/* --- installing the signal handler ---------------------------------------- */

#if defined(__x86_64__)
#define SA_RESTORER_ 0x04000000ul
/* The code to which our signal handler returns (rt_sigreturn). Debuggers
 * recognise a signal frame by exactly these bytes. */
void ips_sample_return(void) IPS_HIDDEN;
__asm__(".text\n"
        ".p2align 4\n"
        "    nop\n"
        ".globl ips_sample_return\n"
        ".hidden ips_sample_return\n"
        ".type ips_sample_return, @function\n"
        "ips_sample_return:\n"
        "    movq $15, %rax\n"
        "    syscall\n"
        ".size ips_sample_return, . - ips_sample_return\n");
#endif

static void install_sampling_handler(bool first)
{
    struct kernel_sigaction old = {0},
                            own = {
                                .handler = (uintptr_t)dispatch_sampling_signal,
                                .flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK,
                                .mask = ~(uint64_t)0,
                            };
#if defined(__x86_64__)
    own.flags |= SA_RESTORER_;
    own.restorer = (uintptr_t)ips_sample_return;
#endif
    /* Store the C library's handler before ours can be called, because ours may
     * have to call it at once. At the start of an image no thread exists that
     * could send the signal. */
    if (!first) {
        ips_sys6(SYS_rt_sigaction, IPS_SAMPLE_SIGNAL, 0, (long)&old, 8, 0, 0);
        if (old.handler > 1 && old.handler != own.handler)
            atomic_store(&their_handler, old.handler);
    }
    ips_sys6(SYS_rt_sigaction, IPS_SAMPLE_SIGNAL, (long)&own, (long)&old, 8, 0,
             0);
    if (first && old.handler > 1)
        atomic_store(&their_handler, old.handler);
}

/* Returns the lower end of the main thread's stack; 0: unknown or too small. */
static uint64_t main_stack_low(void)
{
    const uint64_t end = &__libc_stack_end ? (uint64_t)__libc_stack_end : 0;
    struct rlimit limit = {0};
    if (ips_sys6(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit, 0, 0) == 0 &&
        limit.rlim_cur < SMALL_STACK)
        return 0;
    return end > MAIN_STACK ? end - MAIN_STACK : end;
}

/* Called at the start of a thread's stream of records, with all signals
 * blocked: starts the sampling of the thread. At the start of an image,
 * prepares the process first. */
static void start_sampling_of_stream(enum ips_start_kind kind)
{
    if (kind == IPS_START_IMAGE)
        sampling.low = main_stack_low();
    if (ips_core_control()->procedures == IPS_PROCEDURES_OFF)
        return;
    if (kind == IPS_START_IMAGE) {
        const struct ips_clock *clock = &ips_core_control()->clock;
        uint64_t least =
            clock->kind == IPS_CLOCK_TSC && clock->mult_q32
                ? ((uint64_t)STACK_BLOCK_NS << 32) / clock->mult_q32
                : STACK_BLOCK_NS;
        ips_core.long_call = ips_min_u64(least, ips_core.cpu_limit);
        on = true;
        install_sampling_handler(true);
        ips_pace_set_tick_and_period();
        ips_modules_record_at_start_if_old_glibc();
    }
    ips_procs_read_options_or_reset_at_start(kind);
    /* in a fork child these describe STACK records of the parent */
    if (ips_me.extra)
        memset(ips_me.extra->stacks, 0, sizeof(ips_me.extra->stacks));
    /* the creating thread may not have reinstalled the handler yet */
    if (kind == IPS_START_THREAD)
        ips_sample_reinstall_handler_once();
    if (sampling.low && !stopped)
        ips_pace_create_and_start_timers();
}

static void stop_sampling_and_flush_procedures(void)
{
    ips_pace_delete_timers();
    ips_procs_flush_and_release_own_table();
}

void ips_sample_register_stream_hooks(void)
{
    ips_core_register_hooks(start_sampling_of_stream,
                            stop_sampling_and_flush_procedures,
                            ips_procs_flush_all);
}

void ips_sample_reinstall_handler_once(void)
{
    if (on && unlikely(atomic_load(&their_handler) == 0))
        install_sampling_handler(false);
}

void ips_sample_store_own_stack_bound(uint64_t bytes)
{
    uint64_t top = (uint64_t)(uintptr_t)__builtin_thread_pointer();
    /* The thread pointer is below the top of the stack, at the control block:
     * 16 KiB is a safe margin. */
    sampling.low = bytes >= SMALL_STACK ? top - bytes + 16384 : 0;
}

void ips_sample_stop_own_thread(void)
{
    ips_pace_delete_timers();
}

void ips_sample_stop_for_good(void)
{
    stopped = true;
    ips_pace_delete_timers();
}

/* --- call stacks of waits ------------------------------------------------- */

/* Writes a STACK record of the calling thread with the stamp `t`. Leaves out
 * the frames inside the call from `site`; 0: those in this library. */
static void write_stack_record(uint64_t t, uint64_t site, uint64_t sp)
{
    uint64_t frames[IPS_FRAMES_MAX + 8];
    struct ips_unwind_stack u;
    IPS_UNWIND_HERE(&u);
    set_unwind_stack_bounds(&u, NULL);
    uint32_t n = ips_unwind_stack(&u, frames, IPS_FRAMES_MAX + 8), first = 0;
    while (first < n &&
           (site ? frames[first] != site : is_in_this_library(frames[first])))
        first++;
    n = first < n ? n - first : 0;
    if (n > IPS_FRAMES_MAX)
        n = IPS_FRAMES_MAX;
    if (!n)
        return;
    struct ips_rec_stack *rec = (struct ips_rec_stack *)ips_rec_begin_at(
        IPS_REC_STACK, sizeof(*rec) + n * sizeof(frames[0]), t);
    if (!rec)
        return;
    rec->h.a = n;
    memcpy(rec->frames, frames + first, n * sizeof(frames[0]));
    ips_rec_publish(rec);
    struct ips_extra *extra = ips_extra_get_or_map();
    if (extra)
        *ips_recent_stack_slot_of_site(extra, site) =
            (struct ips_recent_stack_slot_of_site){site, sp};
    for (uint32_t i = 0; i < n; i++)
        ips_module_record_once(frames[first + i]);
}

void ips_stack_write_current(uint64_t t, uint64_t site, uint64_t sp)
{
    if (!on || ips_me.in_vfork)
        return;
    const struct ips_agent_work apart = ips_agent_work_begin();
    write_stack_record(t, site, sp);
    ips_agent_work_add_to_overhead(&apart, cost_of_probe_ps(IPS_PROBE_STACK));
}

/* --- call sites outside the C library ------------------------------------- */

uint64_t ips_call_site_outside_libc(void)
{
    uint64_t frames[LIBC_FRAMES];
    struct ips_unwind_stack u;
    if (!on || ips_me.in_vfork)
        return 0;
    IPS_UNWIND_HERE(&u);
    IPS_APART;
    set_unwind_stack_bounds(&u, NULL);
    uint32_t n = ips_unwind_stack(&u, frames, LIBC_FRAMES);
    for (uint32_t i = 1; i < n; i++)
        if (!is_in_this_library(frames[i]) && !is_in_libc(frames[i]))
            return frames[i];
    return 0;
}
