/* The threads known in this process, for THREADCPU at its end: a list without
 * locks, blocks of slots that are never freed. */
#include <stdatomic.h>

#include "agent/stream.h"
#include "agent/sys.h"

#define THREADS_PER_BLOCK 1024u

struct thread_block {
    _Atomic uint32_t tid[THREADS_PER_BLOCK];
    struct thread_block *_Atomic next;
};
static struct thread_block first_block;

void ips_threads_add(uint32_t tid)
{
    struct thread_block *b = &first_block;
    for (;;) {
        for (unsigned i = 0; i < THREADS_PER_BLOCK; i++) {
            uint32_t none = 0;
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(&b->tid[i], &none, tid))
                return;
        }
        struct thread_block *next = atomic_load(&b->next);
        if (!next) {
            uint64_t fresh =
                ips_sys_mmap(0, sizeof(*next), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1);
            if (ips_sys_bad(fresh))
                return; /* its CPU is then known to its last record only */
            if (atomic_compare_exchange_strong(&b->next, &next,
                                               (struct thread_block *)fresh))
                next = (struct thread_block *)fresh;
            else
                ips_sys_munmap(fresh, sizeof(*next));
        }
        b = next;
    }
}

void ips_threads_remove(uint32_t tid)
{
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < THREADS_PER_BLOCK; i++)
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed) == tid) {
                atomic_store(&b->tid[i], 0);
                return;
            }
}

void ips_threads_forget(void)
{
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < THREADS_PER_BLOCK; i++)
            if (atomic_load_explicit(&b->tid[i], memory_order_relaxed))
                atomic_store(&b->tid[i], 0);
}

/* The kernel's own formula for the CPU clock of a thread of this process. */
static int thread_clock(uint32_t tid)
{
    return (int)(~tid << 3 | 6u);
}

void ips_threads_record_cpu(uint32_t except)
{
    for (struct thread_block *b = &first_block; b; b = atomic_load(&b->next))
        for (unsigned i = 0; i < THREADS_PER_BLOCK; i++) {
            uint32_t tid = atomic_load(&b->tid[i]);
            uint64_t cpu = 0;
            if (tid && tid != except)
                cpu = ips_sys_clock(thread_clock(tid));
            if (!cpu)
                continue;
            struct ips_rec_cpu *rec =
                ips_rec_begin(IPS_REC_THREADCPU, sizeof(*rec));
            if (!rec)
                continue;
            rec->h.a = tid;
            rec->cpu = cpu;
            ips_rec_publish(rec);
        }
}
