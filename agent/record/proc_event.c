/* Long records of procedure entries and exits; see proc_event.h. */
#include "agent/record/proc_event.h"

#include "agent/record/sys.h"

void ips_set_short_record_baseline(struct ips_cpu_baseline *line,
                                   const struct ips_moment *m, uint32_t era)
{
    ips_set_short_record_baseline_inline(&ips_me, line, m, era);
}

bool ips_write_long_procedure_event(enum ips_rec_type type, uint64_t procedure,
                                    struct ips_moment *m)
{
    *m = ips_moment_now();
    uint32_t era = ips_me.era;
    struct ips_rec_proc *rec = ips_rec_begin_inline(type, sizeof(*rec), m->t);
    if (!rec)
        return false;
    rec->h.a = 0;
    rec->cpu = m->cpu;
    rec->procedure = procedure;
    ips_rec_publish_inline(rec);
    ips_me.proc_baseline.high = (uint32_t)(procedure >> 32);
    ips_set_short_record_baseline(&ips_me.proc_baseline, m, era);
    return true;
}

/* If a signal handler has recorded behind the reservation, the space cannot be
 * given back. It is then published as a record of the reserved type RESUME,
 * which readers ignore. */
void ips_reservation_give_back_or_fill(uint64_t at, uint64_t bytes)
{
    struct ips_stream *s = &ips_me.stream;
    uint64_t signals = ips_sys_block_signals();
    if (s->cur == at + bytes) {
        s->cur = at;
    } else if (at >= s->lo && at + bytes <= s->limit && s->lo &&
               *ips_core.alive) {
        struct ips_rec_head *h = (struct ips_rec_head *)at;
        h->a = 0;
        h->t = ips_core_stamp_now();
        atomic_store_explicit(&h->word,
                              IPS_REC_RESUME | (uint32_t)(bytes / 8) << 8,
                              memory_order_release);
    }
    ips_me.recs_open--;
    ips_sys_restore_signals(signals);
}
