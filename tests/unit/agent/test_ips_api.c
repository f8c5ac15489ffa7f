/* The API through the exported names of libips: the records of tasks to the
 * nanosecond, and one state where the preload library is there as well. */
#include "tests/unit/help/emulated.h"
#include "tests/unit/help/pool_help.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/api/ips.h"
#include "common/types.h"

static struct ips_stamp at(uint64_t t, uint64_t cpu)
{
    return (struct ips_stamp){t, cpu};
}

/* More channels than there is room for at first, each used three times. */
#define CHANNELS 700u
static void channel_name(char name[20], unsigned i)
{
    snprintf(name, 20, "channel %u", i);
}
static uint64_t cpu_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
#define BEFORE_NS 50000000u
static void use_channels(void)
{
    while (cpu_now() < BEFORE_NS) /* that no task had */
        continue;
    struct ips_task *many = ips_task_start("many", IPS_NOW);
    char name[20];
    for (unsigned i = 0; i < 3 * CHANNELS; i++) {
        channel_name(name, i % CHANNELS);
        ips_task_send(many, name, i, IPS_NOW);
    }
    for (unsigned i = 0; i < 2; i++) /* freed without an end */
        ips_task_free(ips_task_fork(many, IPS_NOW, "one", IPS_NOW));
    ips_task_end(many, IPS_NOW);
    ips_task_free(many);
}

/* What the child does: parent forks child, they talk, child ends, is joined;
 * every stamp given. */
static void play(void)
{
    struct ips_stamp s[16];
    for (uint64_t i = 0; i < 16; i++)
        s[i] = at(1000 * i, 100 * i);
    struct ips_task *p = ips_task_start("parent", &s[0]);
    struct ips_task *c = ips_task_fork(p, &s[1], "child", &s[1]);
    ips_task_send(p, "there", 10, &s[2]);
    ips_task_recv(c, "there", 10, &s[1], &s[3]);
    ips_task_send(c, "back", 5, &s[4]);
    ips_task_recv(p, "back", 5, &s[3], &s[5]);
    ips_task_send(p, "there", 1, &s[6]);
    ips_task_recv(c, "there", 1, &s[5], IPS_NOW); /* one stamp for both */
    ips_task_recv(c, "there", 1, IPS_NOW, &s[6]);
    ips_task_end(c, &s[7]);
    ips_task_send(c, "back", 5, &s[8]); /* after its end: nothing */
    ips_task_recv(c, "back", 5, &s[8], &s[8]);
    ips_task_join(c, p, &s[8], &s[8]);
    ips_task_end(c, &s[8]);
    ips_task_join(p, c, &s[6], &s[8]);
    ips_task_free(c);
    /* of nobody, to nowhere: nothing */
    ips_task_send(NULL, "there", 1, &s[8]);
    ips_task_send(p, NULL, 1, &s[8]);
    ips_task_recv(p, NULL, 1, &s[8], &s[8]);
    ips_task_join(p, NULL, &s[8], &s[8]);
    ips_task_end(NULL, &s[8]);
    ips_task_free(NULL);
    struct ips_task *now = ips_task_start("now", IPS_NOW);
    ips_task_end(now, IPS_NOW);
    ips_task_free(now);
    use_channels();
    ips_mark("a mark");
    if (fork() == 0) {
        ips_task_send(p, "there", 1, &s[9]); /* the parent's: nothing */
        _exit(0);
    }
    int status = 1;
    wait(&status);
    if (status)
        _exit(5);
    ips_task_end(p, &s[9]);
    ips_task_free(p);
}

struct story {
    char text[4096];
    uint64_t image, preload_image;
    uint32_t fork_seq;
    unsigned marks, tasks, threads;
    uint64_t hash_there;
    uint32_t ids[2][16];
    unsigned id_count;
    uint32_t channels[CHANNELS]; /* ids, in the order of their names */
    unsigned channel_count, sent, more_forks, closed;
    uint64_t last_t, last_cpu; /* of tasks by the clocks */
};

static void add(struct story *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void add(struct story *s, const char *fmt, ...)
{
    size_t n = strlen(s->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->text + n, sizeof(s->text) - n, fmt, ap);
    va_end(ap);
}

static char channel_letter(struct story *s, uint32_t id)
{
    for (unsigned i = 0; i < s->id_count; i++)
        if (s->ids[0][i] == id)
            return (char)s->ids[1][i];
    return '?';
}

static void tell_chan(struct story *s, const struct ips_rec_chan *c)
{
    bool there = c->name_hash == ips_fnv1a(IPS_FNV_SEED, "there", 5);
    bool back = c->name_hash == ips_fnv1a(IPS_FNV_SEED, "back", 4);
    assert_true(there != back);
    assert_int_equal(c->kind, IPS_CHAN_USER);
    assert_true(c->h.a > 0x80000000u);
    s->ids[0][s->id_count] = c->h.a;
    s->ids[1][s->id_count++] = there ? 't' : 'b';
    add(s, " C%c%d", there ? 't' : 'b', c->side);
}

/* Every stamp that play() gives has a tenth of its time as CPU time. */
static void check_fields(uint32_t type, const void *rec)
{
    const struct ips_rec_head *h = rec;
    const struct ips_rec_start *start = rec;
    const struct ips_rec_text *name = rec;
    const struct ips_rec_io *io = rec;
    const struct ips_rec_fork *f = rec;
    const struct ips_rec_join *j = rec;
    const struct ips_rec_end *e = rec;
    const struct ips_rec_chan *c = rec;
    const uint64_t cpu = h->t / 10;
    if (type == IPS_REC_START) {
        assert_int_equal(start->cpu, cpu);
    } else if (type == IPS_REC_NAME) {
        assert_int_equal(name->cpu, cpu);
        assert_int_equal(h->a, strlen(name->text));
    } else if (type == IPS_REC_FORK) {
        assert_int_equal(f->cpu, cpu);
        assert_int_equal(f->t_ret, h->t);
        assert_int_equal(f->cpu_ret, cpu);
        assert_int_equal(f->err, 0);
    } else if (type == IPS_REC_JOIN) {
        assert_int_equal(j->cpu, cpu);
        assert_int_equal(j->cpu_ret, j->t_ret / 10);
        assert_int_equal(j->child_cpu_ns, UINT64_MAX);
        assert_int_equal(j->status, 0);
    } else if (type == IPS_REC_END) {
        assert_int_equal(e->cpu, cpu);
        assert_int_equal(e->status, 0);
    } else if (type == IPS_REC_CHAN) {
        assert_int_equal(c->dev | c->ino | c->cookie | c->netns | c->flags, 0);
    } else {
        assert_int_equal(io->cpu, cpu);
        assert_int_equal(io->cpu_ret, io->t_ret / 10);
        assert_int_equal(io->op, IPS_OP_DATA);
        assert_int_equal(io->err | io->ready, 0);
        assert_int_equal(io->site, 0);
    }
}

/* The task of use_channels(): a channel is named at its first use. */
static void tell_channels(struct story *s, uint32_t type, const void *rec)
{
    const struct ips_rec_io *io = rec;
    const struct ips_rec_chan *c = rec;
    char name[20];
    if (type == IPS_REC_CHAN) {
        assert_int_equal(s->channel_count, s->sent);
        assert_true(s->channel_count < CHANNELS);
        channel_name(name, s->channel_count);
        assert_int_equal(c->name_hash,
                         ips_fnv1a(IPS_FNV_SEED, name, strlen(name)));
        for (unsigned i = 0; i < s->channel_count; i++)
            assert_int_not_equal(s->channels[i], c->h.a);
        s->channels[s->channel_count++] = c->h.a;
    } else if (type == IPS_REC_SEND) {
        assert_int_equal(io->h.a, s->channels[s->sent % CHANNELS]);
        assert_int_equal(io->result, s->sent++);
    }
}

/* A task by the clocks: they go on, and its CPU time begins at 0. */
static void tell_by_clock(struct story *s, uint32_t type, const void *rec)
{
    const struct ips_rec_head *h = rec;
    uint64_t cpu = ((const struct ips_rec_start *)rec)->cpu;
    assert_int_equal(ips_rec_flags(h), 0);
    if (type == IPS_REC_START)
        s->last_t = s->last_cpu = 0;
    if (type == IPS_REC_START)
        assert_true(cpu < BEFORE_NS);
    if (type == IPS_REC_FORK)
        assert_int_equal(((const struct ips_rec_fork *)rec)->fork_seq,
                         s->fork_seq + ++s->more_forks);
    assert_true(h->t >= s->last_t);
    s->last_t = h->t;
    if (type == IPS_REC_START || type == IPS_REC_END) {
        assert_true(cpu >= s->last_cpu && cpu < 10000000000);
        s->last_cpu = cpu;
    }
}

static void tell(const struct pool_segment *seg, const void *rec, size_t len,
                 void *arg)
{
    struct story *s = arg;
    const struct ips_rec_head *h = rec;
    const struct ips_rec_io *io = rec;
    const struct ips_rec_fork *f = rec;
    const struct ips_rec_join *j = rec;
    uint32_t type = ips_rec_type(h);
    (void)len;
    if (!(seg->head.flags & IPS_SEGMENT_TASK)) {
        if (type == IPS_REC_START && h->a == IPS_START_IMAGE)
            s->preload_image = seg->head.image_stamp;
        s->threads += type == IPS_REC_START;
        s->marks += type == IPS_REC_MARK;
        return;
    }
    s->image = seg->head.image_stamp;
    s->tasks += type == IPS_REC_START;
    if (seg->head.tid > 2) { /* those of the clocks */
        tell_by_clock(s, type, rec);
        tell_channels(s, type, rec);
        return;
    }
    assert_int_equal(ips_rec_flags(h), IPS_REC_F_NS);
    check_fields(type, rec);
    if (type == IPS_REC_START) {
        const struct ips_rec_start *r = rec;
        add(s, "[%u: S%u<%u@%lu", seg->head.tid, (unsigned)r->fork_seq, r->ptid,
            (unsigned long)h->t);
        assert_int_equal(h->a, IPS_START_TASK);
        assert_int_equal(r->parent_image, seg->head.image_stamp);
        assert_int_equal(r->ppid, seg->head.pid);
    } else if (type == IPS_REC_NAME) {
        add(s, " %s", ((const struct ips_rec_text *)rec)->text);
    } else if (type == IPS_REC_FORK) {
        s->fork_seq = (uint32_t)f->fork_seq;
        assert_int_equal(f->kind, IPS_FORK_TASK);
        add(s, " F%u=%u@%lu", h->a, s->fork_seq, (unsigned long)f->cpu);
    } else if (type == IPS_REC_SEND || type == IPS_REC_RECV) {
        add(s, " %c%c%ld@%lu-%lu/%lu-%lu", type == IPS_REC_SEND ? '>' : '<',
            channel_letter(s, h->a), (long)io->result, (unsigned long)h->t,
            (unsigned long)io->t_ret, (unsigned long)io->cpu,
            (unsigned long)io->cpu_ret);
    } else if (type == IPS_REC_CHAN) {
        tell_chan(s, rec);
    } else if (type == IPS_REC_JOIN) {
        assert_int_equal(j->kind, IPS_JOIN_TASK);
        add(s, " J%u=%u@%lu-%lu", h->a, (unsigned)j->seq, (unsigned long)h->t,
            (unsigned long)j->t_ret);
    } else if (type == IPS_REC_END) {
        assert_int_equal(h->a, IPS_END_TASK);
        add(s, " E%lu]", (unsigned long)((const struct ips_rec_end *)rec)->cpu);
    } else {
        fail_msg("record of type %u", type);
    }
}

/* A task that ended, or is freed, leaves its segment to the slave. */
static void tell_end(const struct pool_segment *seg, void *arg)
{
    struct story *s = arg;
    if (!(seg->head.flags & IPS_SEGMENT_TASK))
        return;
    assert_int_equal(seg->head.state, IPS_SEGMENT_CLOSED);
    s->closed++;
}

static const char expected[] =
    "[1: S0<0@0 parent F2=1@100 Ct2 >t10@2000-2000/200-200 Cb1"
    " <b5@3000-5000/300-500 >t1@6000-6000/600-600 J2=1@6000-8000 E900]"
    "[2: S1<1@1000 child Ct1 <t10@1000-3000/100-300 Cb2 >b5@4000-4000/400-400"
    " <t1@5000-5000/500-500 <t1@6000-6000/600-600 E700]";

static struct story run(bool preload, const char *self)
{
    struct pool_dir p;
    struct story s = {.text = ""};
    pool_help_make(&p, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        pool_help_enter(&p);
        exec_self(self, "play", preload ? PRELOAD_LIBRARY : NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pool_help_read(&p, tell, tell_end, &s);
    pool_help_remove(&p);
    return s;
}

/* Would catch: a field that is not stored, a channel that has two names or
 * loses its name when there are more, stamps changed on the way, a chain of the
 * main thread nobody asked for, tasks of one process in several images. */
static void test_ips_api__tasks_are_recorded_as_told(void **state)
{
    SKIP_IF_EMULATED("MADV_WIPEONFORK"); /* libips alone needs it */
    struct story s = run(false, *state);
    assert_string_equal(s.text, expected);
    assert_int_equal(s.tasks, 6);
    assert_true(s.closed >= s.tasks);
    assert_int_equal(s.more_forks, 2);
    assert_int_equal(s.channel_count, CHANNELS);
    assert_int_equal(s.sent, 3 * CHANNELS);
    assert_int_equal(s.threads, 0);
    assert_int_equal(s.marks, 0);
}

/* Would catch: libips with a state of its own beside the interposer's. Not
 * under the sanitizers: they want to be loaded first. */
static void test_ips_api__one_state_with_the_preload_library(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    print_message("sanitizers do not bear LD_PRELOAD: skipped\n");
    skip();
#else
    struct story s = run(true, *state);
    assert_string_equal(s.text, expected);
    assert_int_equal(s.tasks, 6);
    assert_true(s.closed >= s.tasks);
    assert_int_equal(s.more_forks, 2);
    assert_int_equal(s.channel_count, CHANNELS);
    assert_int_equal(s.sent, 3 * CHANNELS);
    assert_true(s.threads >= 1);
    assert_int_equal(s.marks, 2); /* the second by way of dlsym */
    assert_int_equal(s.image, s.preload_image);
#endif
}

/* Would catch: a crash, or anything but nothing, where there is no run. */
static void test_ips_api__without_a_run_nothing_happens(void **state)
{
    (void)state;
    assert_int_equal(ips_active(), 0);
    assert_null(ips_task_start("x", IPS_NOW));
    play();
}

/* As a foreign-language binding calls it. */
static void mark_by_handle(void)
{
    void *lib = dlopen("libips.so.0", RTLD_NOW);
    void (*mark)(const char *) = NULL;
    if (lib)
        *(void **)&mark = dlsym(lib, "ips_mark");
    if (mark)
        mark("by handle");
    else
        _exit(3);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "play") == 0) {
        if (!ips_active())
            return 4;
        play();
        mark_by_handle();
        return 0;
    }
    static char self[4096];
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return 1;
    unsetenv("IPS_RUN");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_ips_api__tasks_are_recorded_as_told,
                                  self),
        cmocka_unit_test_prestate(
            test_ips_api__one_state_with_the_preload_library, self),
        cmocka_unit_test(test_ips_api__without_a_run_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
