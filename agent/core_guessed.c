/*
 * GUESSED: how much of the thread's CPU time was guessed, and how well. Written
 * where the clock was just read, so that the records of a run that goes on say
 * it, too; once more before END. And CALLS: calls on files that left no record.
 */
#include "agent/cpu.h"
#include "agent/fast.h"
#include "agent/sys.h"

static bool wanted(void)
{
    const struct ips_stream *s = &ips_me.stream;
    return ips_core.main_stream && !ips_sys_quiet && !ips_me.in_vfork &&
           s->state == IPS_STREAM_BEGUN && s->generation == ips_core.generation;
}

__attribute__((cold)) void ips_guessed_due(uint64_t t)
{
    struct ips_cpu *c = &ips_me.cpu;
    if (!wanted())
        return;
    /* A handler in between says it for us. */
    c->guessed_t = t;
    c->guessed_said = c->guess.settled;
    struct ips_rec_guessed *rec =
        ips_rec_begin_at(IPS_REC_GUESSED, sizeof(*rec), t);
    if (!rec)
        return;
    rec->h.a = c->guess.settled;
    rec->guessed_ns = c->guess.all_ns;
    rec->off_ns = c->guess.off_sum_ns;
    rec->off_max_ns = c->guess.off_max_ns;
    ips_rec_publish(rec);
}

void ips_guessed_end(void)
{
    if (ips_me.cpu.guess.settled != ips_me.cpu.guessed_said)
        ips_guessed_due(ips_core_now());
}

/* One for the thread that calls: what others have counted, they say. */
__attribute__((cold)) void ips_calls_due(uint32_t least)
{
    uint32_t calls = ips_me.file_calls;
    if (calls < least || !wanted())
        return;
    /* A handler that counts in between is not heard. */
    ips_me.file_calls = 0;
    struct ips_rec_calls *rec =
        ips_rec_begin_at(IPS_REC_CALLS, sizeof(*rec), ips_core_now());
    if (!rec)
        return;
    rec->calls = calls;
    ips_rec_publish(rec);
}
