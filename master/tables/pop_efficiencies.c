#include "master/tables/pop_efficiencies.h"

#include "common/types.h"

struct sums {
    uint64_t threads, cpu_ns, most_ns, others_ns;
};

/* Returns the machine's last recorded time. It is taken as the end of open
 * threads. */
static uint64_t latest_thread_start_or_end_ns(const struct machine_share *p)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < p->t.thread_count; i++)
        last = ips_max_u64(last, ips_max_u64(p->t.threads[i]->start_ns,
                                             p->t.threads[i]->end_ns));
    return last;
}

static void sum_cpu_of_long_and_short_lived_threads(
    struct sums *s, const struct machine_share *p, uint64_t elapsed_ns)
{
    uint64_t last = latest_thread_start_or_end_ns(p);
    for (uint32_t i = 0; i < p->t.thread_count; i++) {
        const Ips__ThreadRow *t = p->t.threads[i];
        uint64_t lived = ips_sub_sat(t->end_ns ? t->end_ns : last, t->start_ns);
        if (lived >= elapsed_ns / 2) {
            s->threads++;
            s->cpu_ns = ips_add_sat(s->cpu_ns, t->cpu_ns);
            s->most_ns = ips_max_u64(s->most_ns, t->cpu_ns);
        } else {
            s->others_ns = ips_add_sat(s->others_ns, t->cpu_ns);
        }
    }
}

void pop_fill_efficiencies(struct machine_share *const *parts, uint32_t count,
                           uint64_t elapsed_ns, Ips__MetricsRow *row)
{
    struct sums s = {0};
    row->pop_threads = 0;
    row->pop_cpu_max_ns = IPS_UNMEASURED;
    row->pop_parallel = row->pop_load_balance = row->pop_communication =
        IPS_UNMEASURED_REAL;
    if (elapsed_ns == 0 || elapsed_ns == IPS_UNMEASURED)
        return;
    for (uint32_t i = 0; i < count; i++)
        sum_cpu_of_long_and_short_lived_threads(&s, parts[i], elapsed_ns);
    if (s.threads < 2 || s.most_ns == 0 ||
        s.others_ns > ips_add_sat(s.cpu_ns, s.others_ns) / 10)
        return;
    double mean = (double)s.cpu_ns / (double)s.threads;
    row->pop_threads = s.threads;
    row->pop_cpu_max_ns = s.most_ns;
    row->pop_load_balance = mean / (double)s.most_ns;
    row->pop_communication = (double)s.most_ns / (double)elapsed_ns;
    row->pop_parallel = mean / (double)elapsed_ns;
}
