/*
 * Counts calls that are abandoned: by longjmp, or because the process ends in a
 * signal handler (wrap.h, "calls under way"). An abandoned call may or may not
 * have moved bytes, and leaves no record, so it counts as lost. If space for
 * its record was reserved already, the reader of the stream finds an unfinished
 * record and counts it as torn. A call that was only waiting has moved nothing:
 * it does not count as lost, and the outermost one is recorded as if a signal
 * had ended it.
 *
 * Only the thread's own table is read, never a frame: a stack that a coroutine
 * library switched away from may be unmapped.
 */
#include "agent/preload/wrap.h"

#include <ucontext.h>

#include "agent/preload/sample/pace.h"
#include "agent/preload/sync.h"
#include "agent/record/sys.h"

/* Returns the stack pointer that the jump restores; the calls whose frames are
 * below it are abandoned. The C library stores it in jmp_buf mangled by the
 * pointer guard. */
static uint64_t jump_stack_pointer(const struct __jmp_buf_tag *env)
{
#if defined(__x86_64__)
    uint64_t sp;
    memcpy(&sp, (const char *)env + 6 * sizeof(sp), sizeof(sp));
    __asm__("rorq $17, %0\n\txorq %%fs:0x30, %0" : "+r"(sp) : : "cc");
    return sp;
#else
    (void)env;
    return UINT64_MAX; /* as if the jump abandoned all calls */
#endif
}

struct range {
    uint64_t from, to;
};

/* Returns the alternate signal stack if this code runs on it, else an empty
 * range. */
static struct range current_alternate_stack(void)
{
    stack_t ss = {.ss_flags = SS_DISABLE};
    if (ips_sys3(SYS_sigaltstack, 0, (long)&ss, 0) < 0 ||
        !(ss.ss_flags & SS_ONSTACK))
        return (struct range){0, 0};
    uint64_t from = (uint64_t)(uintptr_t)ss.ss_sp;
    return (struct range){from, from + ss.ss_size};
}

static bool is_in_address_range(struct range r, uint64_t at)
{
    return at >= r.from && at < r.to;
}

/* Whether the abandoned call was only waiting, so that it certainly moved no
 * bytes. */
static bool was_only_waiting(const struct ips_open_call *open)
{
    return open->recs & (IPS_OPEN_WAIT | IPS_OPEN_IDLE);
}

void ips_record_abandoned_call_if_blocked(void)
{
    struct ips_current_call *begun = ips_current_call_note(&ips_me);
    const uint64_t t = begun ? atomic_load(&begun->t) : 0;
    if (!t)
        return;
    const struct ips_moment call = {.t = t, .cpu = begun->cpu};
    const struct ips_moment ret = ips_take_call_moment();
    const uint64_t what = begun->what;
    const uint32_t type = IPS_BEGUN_TYPE(what);
    const uint32_t number = IPS_BEGUN_NUMBER(what);
    const enum ips_op op = (enum ips_op)IPS_BEGUN_OP(what);
    atomic_store_explicit(&begun->t, 0, memory_order_relaxed);
    if (!ips_was_blocked(&call, &ret))
        return;
    if (type == IPS_REC_ACQUIRE) {
        const struct ips_sync_object thing = {0, 0, begun->object};
        ips_record_acquire((enum ips_sync)number, &thing, call, ret, 0, EINTR,
                           begun->site);
    } else if (type == IPS_REC_JOIN) {
        ips_record_io_call(IPS_REC_BLOCK, 0, IPS_OP_CHILD, call, ret, -1, EINTR,
                           begun->site, IPS_READY(IPS_READY_PIDFD, number));
    } else {
        ips_record_io_call(type == IPS_REC_RECV ? IPS_REC_RECVCALL
                                                : (enum ips_rec_type)type,
                           number, op, call, ret, -1, EINTR, begun->site, 0);
    }
}

static void close_and_count_abandoned_calls(const struct __jmp_buf_tag *env)
{
    if (likely(ips_me.open_depth == 0) ||
        !ips_wrap_start_library_and_check_recording())
        return;
    uint64_t sp = jump_stack_pointer(env), count = 0;
    struct range alt = current_alternate_stack();
    for (int i = 0; ips_me.open_depth && i < (int)IPS_OPEN_MAX; i++) {
        const struct ips_open_call *open =
            ips_entry_of_open_call(&ips_me, ips_me.open_depth - 1);
        uint64_t frame = open->frame;
        bool left =
            is_in_address_range(alt, frame) == is_in_address_range(alt, sp)
                ? frame < sp
                : is_in_address_range(alt, frame);
        if (!left)
            break;
        if (ips_me.recs_open > (uint32_t)open->recs)
            /* the call's record was begun: the reader counts it as torn */
            ips_me.recs_open = (uint32_t)open->recs;
        else if (!was_only_waiting(open))
            count++;
        else if (ips_me.open_depth == 1)
            ips_record_abandoned_call_if_blocked();
        ips_close_open_call(&ips_me, ips_me.open_depth - 1);
    }
    if (count)
        ips_core_count_and_write_lost(IPS_LOST_NESTED, count);
}

/* Whether the interrupted code is at a system call: just before one (not made
 * yet, or to be restarted), or just after one that failed. */
bool ips_context_is_at_syscall(const ucontext_t *uc)
{
#if defined(__x86_64__)
    static const char code[] = {0x0f, 0x05};
    uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
    int64_t result = uc->uc_mcontext.gregs[REG_RAX];
#elif defined(__aarch64__)
    static const char code[] = {0x01, 0x00, 0x00, (char)0xd4};
    uint64_t pc = uc->uc_mcontext.pc;
    int64_t result = (int64_t)uc->uc_mcontext.regs[0];
#endif
    const uint64_t bytes = sizeof(code), in_page = pc % 4096;
    if (in_page <= 4096 - bytes && memcmp((const void *)pc, code, bytes) == 0)
        return true;
    return result < 0 && result >= -4095 && in_page >= bytes &&
           memcmp((const void *)(pc - bytes), code, bytes) == 0;
}

void ips_mark_whether_open_call_waits(const void *context)
{
    if (likely(ips_me.open_depth == 0))
        return;
    struct ips_open_call *open =
        ips_entry_of_open_call(&ips_me, ips_me.open_depth - 1);
    if (ips_context_is_at_syscall(context))
        open->recs |= IPS_OPEN_IDLE;
    else
        open->recs &= ~IPS_OPEN_IDLE;
}

void ips_close_open_calls_and_count_lost(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; ips_me.open_depth && i < IPS_OPEN_MAX; i++) {
        const struct ips_open_call *open =
            ips_entry_of_open_call(&ips_me, --ips_me.open_depth);
        if (ips_me.recs_open > (uint32_t)open->recs)
            ips_me.recs_open = (uint32_t)open->recs;
        else if (!was_only_waiting(open))
            count++;
        else if (ips_me.open_depth == 0)
            ips_record_abandoned_call_if_blocked();
    }
    ips_me.open_depth = 0;
    if (count)
        ips_core_count_and_write_lost(IPS_LOST_NESTED, count);
}

IPS_EXPORT void longjmp(struct __jmp_buf_tag env[1], int value)
{
    close_and_count_abandoned_calls(env);
    REAL(longjmp)(env, value);
    __builtin_unreachable();
}
void _longjmp(struct __jmp_buf_tag[1], int) IPS_ALIAS(longjmp);
void siglongjmp(struct __jmp_buf_tag[1], int) IPS_ALIAS(longjmp);

void __longjmp_chk(struct __jmp_buf_tag env[1], int value)
    __attribute__((noreturn));
IPS_EXPORT void __longjmp_chk(struct __jmp_buf_tag env[1], int value)
{
    close_and_count_abandoned_calls(env);
    REAL(__longjmp_chk)(env, value);
    __builtin_unreachable();
}
