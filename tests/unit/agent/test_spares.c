/* Spare segments, both sides: the slave makes them, processes begin in them,
 * and what they recorded there is read as that of any other segment. */
#include "agent/record/stream.h"
#include "slave/drain/drain.h"
#include "tests/unit/help/core_help.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN "r"

struct place {
    struct pool_dir pool;
    char state[64];
    struct slave_drain drain;
    pid_t holder; /* a process of the run, lest it is closed in between */
};

static void slave_begins(struct place *p)
{
    struct ips_err err = {0};
    const struct slave_drain_options opt = {.pool = p->pool.root,
                                            .state = p->state};
    if (slave_drain_open(&p->drain, &opt, &err) < 0)
        fail_msg("%s", err.msg);
    slave_drain_turn(&p->drain, slave_now_ns());
}

static struct slave_run *the_run(struct place *p)
{
    struct slave_run *run = slave_drain_find_run(&p->drain, RUN);
    assert_non_null(run);
    return run;
}

static void turn(struct place *p)
{
    the_run(p)->want_sync = true; /* now, and not when it is time */
    slave_drain_turn(&p->drain, slave_now_ns());
}

/* START and NAME of each image come with what it writes. */
#define BEGIN 2u

static void holder_begins(struct place *p)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    p->holder = fork();
    if (p->holder == 0) {
        record_here(&p->pool);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
}

static void holder_ends(struct place *p)
{
    if (p->holder > 0) {
        kill(p->holder, SIGKILL);
        waitpid(p->holder, NULL, 0);
    }
    p->holder = 0;
}

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    pool_help_make(&p->pool, NULL);
    snprintf(p->state, sizeof(p->state), "/dev/shm/ips-spares-XXXXXX");
    assert_non_null(mkdtemp(p->state));
    holder_begins(p);
    slave_begins(p);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    char command[128];
    holder_ends(p);
    slave_drain_close(&p->drain);
    pool_help_remove(&p->pool);
    snprintf(command, sizeof(command), "rm -r %s", p->state);
    assert_int_equal(system(command), 0);
    free(p);
    return 0;
}

static void spare_path(const struct place *p, unsigned n, char *out,
                       size_t size)
{
    snprintf(out, size, "%s/" IPS_SPARE_PREFIX "%u", p->pool.dir, n);
}

static unsigned spares_there(const struct place *p)
{
    unsigned count = 0;
    char path[700];
    for (unsigned n = 0; n < IPS_SPARES; n++) {
        spare_path(p, n, path, sizeof(path));
        count += access(path, F_OK) == 0;
    }
    return count;
}

/* As many processes have begun as make it worth while. */
static void spares_due(struct place *p)
{
    /* Not by a whole turn, which counts anew from time to time. */
    the_run(p)->appeared = 8;
    slave_spare_segments_convert_and_refill(&p->drain, the_run(p),
                                            slave_now_ns());
}

static void make_spares(struct place *p)
{
    spares_due(p);
    assert_int_equal(spares_there(p), IPS_SPARES);
}

static void write_some(void *count)
{
    for (uint64_t i = 0; i < *(uint64_t *)count; i++)
        if (!write_one(0, i))
            _exit(95);
}

static uint64_t used_bytes(const struct place *p)
{
    struct ips_control *c = pool_help_control(&p->pool);
    uint64_t used = c->used_bytes;
    munmap(c, sizeof(*c));
    return used;
}

static void record(struct place *p, uint64_t count)
{
    assert_int_equal(in_child(&p->pool, write_some, &count), 0);
}

/* Turns until the run is archived and its directory gone. */
static uint64_t events_when_closed(struct place *p)
{
    holder_ends(p);
    uint64_t end = slave_now_ns() + 60 * SLAVE_SECOND_NS;
    while (!the_run(p)->row.closed && slave_now_ns() < end) {
        slave_drain_turn(&p->drain, slave_now_ns());
        usleep(2000);
    }
    assert_true(the_run(p)->row.closed);
    assert_int_not_equal(access(p->pool.dir, F_OK), 0);
    return the_run(p)->row.events;
}

/* `images` processes wrote so many records, and the holder none. */
static void expect_closed(struct place *p, uint64_t images, uint64_t records)
{
    assert_int_equal(events_when_closed(p), (images + 1) * BEGIN + records);
    for (int i = 0; i < IPS_LOST_COUNT; i++)
        assert_int_equal(the_run(p)->row.lost[i], 0);
}

/* Would catch a process that makes a file where one is ready, one that counts
 * a page that is counted, two that begin in the same spare, a spare that is
 * never read, and a directory that stays. */
static void test_spares__taken_and_read(void **state)
{
    struct place *p = *state;
    make_spares(p);
    uint64_t before = used_bytes(p);
    for (int i = 0; i < 3; i++)
        record(p, 5);
    assert_int_equal(used_bytes(p), before);
    turn(p); /* renames them, and makes new ones */
    assert_int_equal(spares_there(p), IPS_SPARES);
    expect_closed(p, 3, 3 * 5);
}

/* Would catch a process that never finds the quota, or loses what does not fit
 * into the page that was made ahead. */
static void test_spares__grows(void **state)
{
    struct place *p = *state;
    make_spares(p);
    record(p, 2000);
    assert_true(used_bytes(p) >= 2000 * 64 - IPS_SPARE_FIRST_BYTES);
    expect_closed(p, 1, 2000);
}

/* Would catch a slave that forgets what the one before it has made, and what
 * was written there meanwhile. */
static void test_spares__next_slave(void **state)
{
    struct place *p = *state;
    make_spares(p);
    record(p, 5);
    slave_drain_close(&p->drain);
    record(p, 7);
    slave_begins(p);
    record(p, 9);
    expect_closed(p, 3, 5 + 7 + 9);
}

/* Would catch a spare whose bytes are never given back. */
static void test_spares__withdrawn(void **state)
{
    struct place *p = *state;
    make_spares(p);
    struct ips_control *c = pool_help_control(&p->pool);
    assert_true(c->spare_bytes >= (uint64_t)IPS_SPARES * IPS_SPARE_FIRST_BYTES);
    assert_int_equal(
        slave_spare_segments_remove_or_convert_all(&p->drain, the_run(p)), 0);
    assert_int_equal(spares_there(p), 0);
    assert_int_equal(c->spare_bytes, c->released_bytes);
    munmap(c, sizeof(*c));
    uint64_t before = used_bytes(p);
    record(p, 5);
    assert_int_equal(used_bytes(p), before + IPS_SPARE_FIRST_BYTES);
    expect_closed(p, 1, 5);
}

static void full_half(struct ips_control *c)
{
    c->used_bytes = c->quota_bytes / 2;
}
static void ring(struct ips_control *c)
{
    c->on_full = IPS_ON_FULL_RING;
}

/* Would catch spares that take the room of what is recorded, or get into a
 * ring. */
static void test_spares__none(void **state)
{
    struct place *p = *state;
    static void (*const reasons[])(struct ips_control *) = {full_half, ring};
    for (int i = 0; i < 2; i++) {
        struct ips_control *c = pool_help_control(&p->pool), before;
        memcpy(&before, c, sizeof(before));
        reasons[i](c);
        spares_due(p);
        assert_int_equal(spares_there(p), 0);
        memcpy(c, &before, sizeof(before));
        munmap(c, sizeof(*c));
    }
}

static void write_confined(void *arg)
{
    const struct place *p = arg;
    uint64_t count = 2000;
    (void)ips_core_get_or_map_counters(); /* as the wrapper of chroot does */
    if (chroot(p->state) < 0 || chdir("/") < 0)
        _exit(96);
    write_some(&count);
}

/* Would catch a process that finds no quota any more since it asks too late. */
static void test_spares__chroot(void **state)
{
    struct place *p = *state;
    if (geteuid() != 0)
        skip();
    make_spares(p);
    assert_int_equal(in_child(&p->pool, write_confined, p), 0);
    expect_closed(p, 1, 2000);
}

static void harm_each(const struct place *p, void (*harm)(const char *, int))
{
    for (unsigned n = 0; n < IPS_SPARES; n++) {
        char path[700];
        spare_path(p, n, path, sizeof(path));
        int fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        harm(path, fd);
        close(fd);
    }
}

/* Long texts in the copy of `control`: all of it has something to clear. */
static void long_texts(const char *path, int fd)
{
    char text[512];
    const off_t copy = sizeof(struct ips_segment_header);
    (void)path;
    memset(text, 'x', sizeof(text));
    assert_int_equal(
        pwrite(fd, text, sizeof(text),
               copy + (off_t)offsetof(struct ips_control, command)),
        (long)sizeof(text));
    assert_int_equal(
        pwrite(fd, text, 256, copy + (off_t)offsetof(struct ips_control, tags)),
        256);
}

static void write_and_look(void *unused)
{
    const struct ips_stream *s = &ips_me.stream;
    (void)unused;
    if (!write_one(0, 1) || !ips_segment_head(&s->seg)->taken)
        _exit(96);
    for (uint64_t at = s->cur; at < s->seg.limit; at++)
        if (*(const char *)at)
            _exit(97);
}

/* Would catch a process that leaves the copy of `control` where records come:
 * readers would take it for records. */
static void test_spares__cleared(void **state)
{
    struct place *p = *state;
    make_spares(p);
    harm_each(p, long_texts);
    assert_int_equal(in_child(&p->pool, write_and_look, NULL), 0);
    expect_closed(p, 1, 1);
}

static void others_may_write(const char *path, int fd)
{
    (void)path;
    assert_int_equal(fchmod(fd, 0666), 0);
}
static void two_names(const char *path, int fd)
{
    char other[720];
    (void)fd;
    snprintf(other, sizeof(other), "%s.b", path);
    assert_int_equal(link(path, other), 0);
}
static void cut_off(const char *path, int fd)
{
    (void)path;
    assert_int_equal(ftruncate(fd, 65536), 0);
}
static void emptied(const char *path, int fd)
{
    (void)path;
    assert_int_equal(ftruncate(fd, 0), 0);
}
static void store(int fd, uint64_t value, off_t at)
{
    assert_int_equal(pwrite(fd, &value, 4, at), 4);
}
static void no_control(const char *path, int fd)
{
    (void)path;
    store(fd, 0, sizeof(struct ips_segment_header));
}
static void other_size(const char *path, int fd)
{
    (void)path;
    store(fd, 1u << 16,
          (off_t)(sizeof(struct ips_segment_header) +
                  offsetof(struct ips_control, segment_bytes)));
}
static void withdrawn(const char *path, int fd)
{
    (void)path;
    store(fd, 1, offsetof(struct ips_segment_header, withdrawn));
}
static void taken(const char *path, int fd)
{
    (void)path;
    store(fd, 1, offsetof(struct ips_segment_header, taken));
}

/* Would catch a process that begins where somebody else may write, where the
 * file ends (SIGBUS), by a control that is none, or where another one is. */
static void test_spares__refused(void **state)
{
    struct place *p = *state;
    static void (*const harms[])(const char *, int) = {
        others_may_write, two_names,  cut_off,   emptied,
        no_control,       other_size, withdrawn, taken};
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof(harms) / sizeof(*harms); i++) {
        char command[700];
        make_spares(p);
        uint64_t before = used_bytes(p);
        harm_each(p, harms[i]);
        record(p, 5);
        count++;
        assert_int_equal(used_bytes(p), before + IPS_SPARE_FIRST_BYTES);
        slave_spare_segments_free(&p->drain, the_run(p));
        snprintf(command, sizeof(command), "rm %s/" IPS_SPARE_PREFIX "*",
                 p->pool.dir);
        assert_int_equal(system(command), 0);
    }
    expect_closed(p, count, 5 * count);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_spares__taken_and_read), CASE(test_spares__grows),
        CASE(test_spares__next_slave),     CASE(test_spares__withdrawn),
        CASE(test_spares__none),           CASE(test_spares__chroot),
        CASE(test_spares__cleared),        CASE(test_spares__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
