/*
 * longjmp, and the end of the process in a handler: counts the recorded calls
 * that are left behind (wrap.h, "calls under way"). Such a call may have moved
 * bytes and may not; without the jump there would be a record of it. What had
 * its place in the stream already is found there by the reader and counted as
 * torn. At the process's end a call that has moved nothing is no loss.
 *
 * Nothing but the thread's own table is looked at, no frame: what lies on a
 * stack that somebody else switched may be gone.
 */
#include "agent/preload/wrap.h"

#include <ucontext.h>

#include "agent/preload/sample/pace.h"
#include "agent/record/sys.h"

/* The stack pointer that the jump restores; frames below it are left. The C
 * library keeps it scrambled, the same way for ever. */
static uint64_t jump_target(const struct __jmp_buf_tag *env)
{
#if defined(__x86_64__)
    uint64_t sp;
    memcpy(&sp, (const char *)env + 6 * sizeof(sp), sizeof(sp));
    __asm__("rorq $17, %0\n\txorq %%fs:0x30, %0" : "+r"(sp) : : "cc");
    return sp;
#else
    (void)env;
    return UINT64_MAX; /* as if it left all of them */
#endif
}

struct range {
    uint64_t from, to;
};

/* The alternate stack, where this runs on it. */
static struct range alternate_stack(void)
{
    stack_t ss = {.ss_flags = SS_DISABLE};
    if (ips_sys3(SYS_sigaltstack, 0, (long)&ss, 0) < 0 ||
        !(ss.ss_flags & SS_ONSTACK))
        return (struct range){0, 0};
    uint64_t from = (uint64_t)(uintptr_t)ss.ss_sp;
    return (struct range){from, from + ss.ss_size};
}

static bool is_within(struct range r, uint64_t at)
{
    return at >= r.from && at < r.to;
}

static void leave_frames(const struct __jmp_buf_tag *env)
{
    if (likely(ips_me.open_depth == 0) || !ips_wrap_on())
        return;
    uint64_t sp = jump_target(env), count = 0;
    struct range alt = alternate_stack();
    for (int i = 0; ips_me.open_depth && i < (int)IPS_OPEN_MAX; i++) {
        const struct ips_open *open =
            ips_open_at(&ips_me, ips_me.open_depth - 1);
        uint64_t frame = open->frame;
        bool left = is_within(alt, frame) == is_within(alt, sp)
                        ? frame < sp
                        : is_within(alt, frame);
        if (!left)
            break;
        if (ips_me.recs_open > (uint32_t)open->recs)
            ips_me.recs_open = (uint32_t)open->recs; /* the reader counts it */
        else
            count++;
        ips_call_ends(&ips_me, ips_me.open_depth - 1);
    }
    if (count)
        ips_core_lost(IPS_LOST_NESTED, count);
}

/* Where a handler's frame begins: the system call was not made yet, is to be
 * made again, or failed. */
bool ips_context_in_call(const ucontext_t *uc)
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

void ips_calls_interrupted(const void *context)
{
    if (likely(ips_me.open_depth == 0))
        return;
    struct ips_open *open = ips_open_at(&ips_me, ips_me.open_depth - 1);
    if (ips_context_in_call(context))
        open->recs |= IPS_OPEN_IDLE;
    else
        open->recs &= ~IPS_OPEN_IDLE;
}

void ips_calls_end(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; ips_me.open_depth && i < IPS_OPEN_MAX; i++) {
        const struct ips_open *open = ips_open_at(&ips_me, --ips_me.open_depth);
        if (ips_me.recs_open > (uint32_t)open->recs)
            ips_me.recs_open = (uint32_t)open->recs;
        else if (!(open->recs & (IPS_OPEN_WAIT | IPS_OPEN_IDLE)))
            count++;
    }
    ips_me.open_depth = 0;
    if (count)
        ips_core_lost(IPS_LOST_NESTED, count);
}

IPS_EXPORT void longjmp(struct __jmp_buf_tag env[1], int value)
{
    leave_frames(env);
    REAL(longjmp)(env, value);
    __builtin_unreachable();
}
void _longjmp(struct __jmp_buf_tag[1], int) IPS_ALIAS(longjmp);
void siglongjmp(struct __jmp_buf_tag[1], int) IPS_ALIAS(longjmp);

void __longjmp_chk(struct __jmp_buf_tag env[1], int value)
    __attribute__((noreturn));
IPS_EXPORT void __longjmp_chk(struct __jmp_buf_tag env[1], int value)
{
    leave_frames(env);
    REAL(__longjmp_chk)(env, value);
    __builtin_unreachable();
}
