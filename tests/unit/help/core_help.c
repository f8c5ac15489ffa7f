#include "tests/unit/help/core_help.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t mix(uint64_t source, uint64_t number, unsigned field)
{
    uint64_t x = (source << 40 ^ number) + field * 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    return x ^ x >> 27;
}

/* false: refused, counted as lost. ThreadSanitizer does not see the agent's own
 * mmap and munmap: two threads whose segments came to lie at one address, one
 * after the other, would be a race to it. */
__attribute__((no_sanitize("thread"))) bool write_one(uint32_t source,
                                                      uint64_t number)
{
    struct ips_rec_io *r = ips_rec_begin(IPS_REC_BLOCK, sizeof(*r));
    if (!r)
        return false;
    r->h.a = source;
    r->site = number;
    r->t_ret = mix(source, number, 1);
    r->cpu = mix(source, number, 2);
    r->cpu_ret = mix(source, number, 3);
    r->result = (int64_t)mix(source, number, 4);
    ips_rec_publish(r);
    return true;
}

static void see(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    struct seen *s = arg;
    const struct ips_rec_head *h = rec;
    uint32_t type = ips_rec_type(h);
    if (type == IPS_REC_BLOCK) {
        const struct ips_rec_io *r = rec;
        assert_int_equal(len, sizeof(*r));
        assert_in_range(h->a, 0, SOURCES - 1);
        assert_int_equal(r->t_ret, mix(h->a, r->site, 1));
        assert_int_equal(r->cpu, mix(h->a, r->site, 2));
        assert_int_equal(r->cpu_ret, mix(h->a, r->site, 3));
        assert_int_equal((uint64_t)r->result, mix(h->a, r->site, 4));
        if (s->exact)
            assert_int_equal(r->site, s->next[h->a]);
        else
            assert_true(r->site >= s->next[h->a]);
        s->next[h->a] = r->site + 1;
        s->count[h->a]++;
    } else if (type == IPS_REC_START) {
        s->starts[h->a]++;
    } else if (type == IPS_REC_END) {
        s->ends[h->a]++;
    } else if (type == IPS_REC_LOST) {
        s->lost_said += ((const struct ips_rec_lost *)rec)->count;
    } else if (type == IPS_REC_THREADCPU) {
        s->thread_cpu += ((const struct ips_rec_cpu *)rec)->cpu;
    }
    (void)seg;
}

static void see_end(const struct pool_segment *seg, void *arg)
{
    struct seen *s = arg;
    s->torn += seg->torn;
    s->corrupt += seg->end == POOL_CURSOR_CORRUPT;
    for (int i = 0; i < IPS_LOST_COUNT; i++)
        s->lost_counted[i] += seg->head.lost[i];
}

struct seen read_all(const struct pool_dir *p, bool exact)
{
    struct seen s = {.exact = exact};
    pool_help_read(p, see, see_end, &s);
    assert_int_equal(s.corrupt, 0);
    return s;
}

/* In a child: dies with the test, also where that fails. */
void record_here(const struct pool_dir *p)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pool_help_enter(p);
    if (!ips_core_init_and_start_main_stream(IPS_START_IMAGE))
        _exit(90);
}

/* Runs `body` in a child that records into `p`; returns its wait status. */
int in_child(const struct pool_dir *p, void (*body)(void *), void *arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        record_here(p);
        body(arg);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

void small_segments(const struct pool_dir *p)
{
    struct ips_control *c = pool_help_control(p);
    c->segment_bytes = 64u << 10;
    munmap(c, sizeof(*c));
}

void *core_thread_body(void *arg)
{
    uint32_t source = (uint32_t)(uintptr_t)arg;
    ips_core_begin_thread_stream(source, 1);
    for (uint64_t i = 0; i < CORE_EACH; i++)
        write_one(source, i);
    ips_core_end_thread_stream();
    if (write_one(source, CORE_EACH)) /* after its end: refused */
        _exit(91);
    return NULL;
}

void pause_ms(long ms)
{
    struct timespec ts = {0, ms * 1000000};
    nanosleep(&ts, NULL);
}
