/* Timers, the handler, stacks of waits. */
#include "agent/preload/sample/sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "agent/preload/sample/procs.h"
#include "agent/preload/stdio_slots.h"
#include "agent/preload/wrap.h"
#include "agent/record/core.h"
#include "agent/record/sys.h"
#include "agent/record/valgrind.h"
#include "agent/unwind/modules.h"
#include "agent/unwind/unwind.h"
#include "common/types.h"

#define SMALL_STACK (64u << 10)
/* The kernel keeps more free than this below the main thread's stack. */
#define MAIN_STACK (64u << 20)
#define STACK_BLOCK_NS 50000u

extern void *__libc_stack_end __attribute__((weak));

static IPS_TLS struct {
    uint64_t low, end; /* of the thread's stack; 0 unknown */
    bool armed;
    int timer;
} sampling;

/* The C library's handler, once known. */
static _Atomic uintptr_t their_handler;
static bool on, stopped;

/* --- the timer -------------------------------------------------------------
 */

/* The kernel's own structures. */
struct kernel_sigaction {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};
struct kernel_sigevent {
    uint64_t value;
    int32_t signo, notify;
    int32_t tid;
    int32_t pad[11];
};
struct kernel_itimer {
    int64_t interval_s, interval_ns, value_s, value_ns;
};

/* Anywhere in (0, period]. */
static uint64_t phase(uint64_t period)
{
    uint64_t x = ips_core_now() ^ (uint64_t)ips_me.stream.tid << 40;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 32) % period + 1;
}

static void arm(void)
{
    uint64_t period = ips_core_control()->sample_us * (uint64_t)1000;
    struct kernel_sigevent event = {.value = IPS_SAMPLE_COOKIE,
                                    .signo = IPS_SAMPLE_SIGNAL,
                                    .notify = SIGEV_THREAD_ID,
                                    .tid = (int32_t)ips_me.stream.tid};
    sampling.armed = false;
    if (stopped || !period || ips_in_valgrind())
        return;
    if (ips_sys3(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, (long)&event,
                 (long)&sampling.timer) < 0)
        return; /* RLIMIT_SIGPENDING: this thread has no samples */
    uint64_t first = phase(period);
    const struct kernel_itimer when = {
        (int64_t)(period / 1000000000u), (int64_t)(period % 1000000000u),
        (int64_t)(first / 1000000000u), (int64_t)(first % 1000000000u)};
    sampling.armed = true;
    ips_sys6(SYS_timer_settime, sampling.timer, 0, (long)&when, 0, 0, 0);
}

static void disarm(void)
{
    if (!sampling.armed)
        return;
    sampling.armed = false; /* what is pending finds that */
    ips_sys3(SYS_timer_delete, sampling.timer, 0, 0);
}

/* --- interrupted calls ------------------------------------------------------
 */

/* Does `uc` stand behind a system call that ended with EINTR? */
static bool behind_eintr(const ucontext_t *uc)
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

static void note_eintr(const ucontext_t *uc)
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

/* --- a sample ---------------------------------------------------------------
 */

/* A thread that is using up its stack may have moved sp to where no page can
 * be, and not have touched it yet; the fault is to be its own. Nothing is
 * changed by a `how` that is none: EFAULT where it cannot be read. */
static bool readable(uint64_t at)
{
    return ips_sys6(SYS_rt_sigprocmask, -1, (long)(at & ~(uint64_t)7), 0, 8, 0,
                    0) != -EFAULT;
}

/* Which stack sp is on. `alternate` NULL: it is our own frame's. */
static void set_bounds(struct ips_unwind *u, const stack_t *alternate)
{
    uint64_t sp = u->reg[IPS_REG_SP];
    if (sp >= sampling.low && sp < sampling.end) {
        if (alternate && !readable(sp))
            return;
        u->low = sp;
        u->end = sampling.end;
        return;
    }
    uint64_t at = alternate ? (uint64_t)alternate->ss_sp : 0;
    if (at && !(alternate->ss_flags & SS_DISABLE) && sp >= at &&
        sp - at < alternate->ss_size) {
        u->low = sp;
        u->end = at + alternate->ss_size;
    }
}

static uint64_t price(enum ips_probe probe)
{
    return ips_probe_ps(ips_core_control(), probe);
}

static void write_sample(const ucontext_t *uc)
{
    uint64_t frames[IPS_FRAMES_MAX];
    struct ips_unwind u;
    uint64_t t = ips_core_now(), cpu = ips_core_cpu();
    const struct ips_apart apart = ips_apart_begin();
    ips_unwind_context(&u, uc);
    set_bounds(&u, &uc->uc_stack);
    uint32_t n = ips_unwind(&u, frames, IPS_FRAMES_MAX);
    ips_procs_sampled(t);
    for (uint32_t i = 0; i < n; i++)
        ips_module_note(frames[i]);
    ips_apart_end(&apart, price(IPS_PROBE_SAMPLE));
    struct ips_rec_sample *rec = (struct ips_rec_sample *)ips_rec_begin_at(
        IPS_REC_SAMPLE, sizeof(*rec) + n * sizeof(frames[0]), t);
    if (!rec)
        return;
    rec->h.a = n;
    rec->cpu = cpu;
    rec->period_ns = ips_core_control()->sample_us * (uint64_t)1000;
    memcpy(rec->frames, frames, n * sizeof(frames[0]));
    ips_rec_publish(rec);
    if (ips_beyond_due() >= IPS_BEYOND_DUE_NS)
        ips_calls_due(0);
}

/* What is not ours is the C library's. Without a handler of its own (no thread
 * yet) the signal would have ended the program. */
static void pass_on(int sig, siginfo_t *info, void *context)
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

static void on_signal(int sig, siginfo_t *info, void *context)
{
    const ucontext_t *uc = (const ucontext_t *)context;
    if (info->si_code != SI_TIMER ||
        (uintptr_t)info->si_value.sival_ptr != IPS_SAMPLE_COOKIE) {
        pass_on(sig, info, context);
        return;
    }
    if (unlikely(behind_eintr(uc)))
        note_eintr(uc);
    if (sampling.armed && !ips_me.in_vfork)
        write_sample(uc);
}

/* --- the handler's installation ---------------------------------------------
 */

#if defined(__x86_64__)
#define SA_RESTORER_ 0x04000000ul
/* The very bytes by which debuggers know a signal's frame. */
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

static void install(bool first)
{
    struct kernel_sigaction old = {0},
                            own = {
                                .handler = (uintptr_t)on_signal,
                                .flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK,
                                .mask = ~(uint64_t)0,
                            };
#if defined(__x86_64__)
    own.flags |= SA_RESTORER_;
    own.restorer = (uintptr_t)ips_sample_return;
#endif
    /* Theirs before ours is called, which may have to pass on at once; when an
     * image begins there is nobody who would send. */
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

/* Called with all signals blocked. */
static void on_begin(enum ips_start_kind kind)
{
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
        sampling.end = &__libc_stack_end ? (uint64_t)__libc_stack_end : 0;
        sampling.low = sampling.end > MAIN_STACK ? sampling.end - MAIN_STACK
                                                 : sampling.end;
        install(true);
        ips_modules_begin();
    }
    ips_procs_begin(kind);
    if (ips_me.extra) /* a fork child's */
        memset(ips_me.extra->stacks, 0, sizeof(ips_me.extra->stacks));
    if (sampling.end)
        arm();
}

static void on_end(void)
{
    disarm();
    ips_procs_end();
}

void ips_sample_init(void)
{
    ips_core_on_stream(on_begin, on_end, ips_procs_flush_all);
}

void ips_sample_threads(void)
{
    if (on && unlikely(atomic_load(&their_handler) == 0))
        install(false);
}

void ips_sample_stack(uint64_t bytes)
{
    uint64_t top = (uint64_t)(uintptr_t)__builtin_thread_pointer();
    sampling.end = bytes >= SMALL_STACK ? top : 0;
    /* The control block and static TLS are part of the stack's size. */
    sampling.low = top - bytes + 16384;
}

void ips_sample_off(void)
{
    disarm();
}

void ips_sample_stop(void)
{
    stopped = true;
    disarm();
}

/* Is `pc` in this library? */
static bool here(uint64_t pc)
{
    extern const char __ehdr_start[] IPS_HIDDEN;
    extern const char _etext[] IPS_HIDDEN;
    return pc >= (uint64_t)(uintptr_t)__ehdr_start &&
           pc < (uint64_t)(uintptr_t)_etext;
}

/* --- stacks of waits ---------------------------------------------------------
 */

void ips_stack_write(uint64_t t, uint64_t site, uint64_t sp)
{
    uint64_t frames[IPS_FRAMES_MAX + 8];
    struct ips_unwind u;
    IPS_UNWIND_HERE(&u);
    if (!on || ips_me.in_vfork)
        return;
    const struct ips_apart apart = ips_apart_begin();
    set_bounds(&u, NULL);
    uint32_t n = ips_unwind(&u, frames, IPS_FRAMES_MAX + 8), first = 0;
    while (first < n && (site ? frames[first] != site : here(frames[first])))
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
    struct ips_extra *extra = ips_extra();
    if (extra)
        *ips_stack_recent(extra, site) = (struct ips_stack_recent){site, sp};
    for (uint32_t i = 0; i < n; i++)
        ips_module_note(frames[first + i]);
    ips_apart_end(&apart, price(IPS_PROBE_STACK));
}

/* --- places behind the C library -------------------------------------------
 */

#define LIBC_FRAMES 16u /* more are not looked at */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* Is `pc` in the C library? */
static bool in_libc(uint64_t pc)
{
    static _Atomic uint64_t low, high; /* 0 not asked yet */
    uint64_t end = atomic_load_explicit(&high, memory_order_acquire);
    if (unlikely(!end)) {
        struct dl_find_object found;
        uint64_t from = 1;
        end = 1;
        if (&_dl_find_object &&
            _dl_find_object(ips_stdio_code(), &found) == 0) {
            from = (uint64_t)(uintptr_t)found.dlfo_map_start;
            end = (uint64_t)(uintptr_t)found.dlfo_map_end;
        }
        atomic_store_explicit(&low, from, memory_order_relaxed);
        atomic_store_explicit(&high, end, memory_order_release);
    }
    return pc >= atomic_load_explicit(&low, memory_order_relaxed) && pc < end;
}

uint64_t ips_site_behind_libc(void)
{
    uint64_t frames[LIBC_FRAMES];
    struct ips_unwind u;
    if (!on || ips_me.in_vfork)
        return 0;
    IPS_UNWIND_HERE(&u);
    IPS_APART;
    set_bounds(&u, NULL);
    uint32_t n = ips_unwind(&u, frames, LIBC_FRAMES);
    for (uint32_t i = 1; i < n; i++)
        if (!here(frames[i]) && !in_libc(frames[i]))
            return frames[i];
    return 0;
}
