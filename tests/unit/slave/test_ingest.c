/* The drain: what a writer published is archived once, whatever state it, the
 * pool or the slave itself is left in. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
/* cmocka last of these */
#include <cmocka.h>
#include <dirent.h>

#include "agent/pool/pool.h"
#include "slave/drain/drain.h"
#include "tests/support/fault.h"
#include "tests/unit/help/emulated.h"
#include "tests/unit/help/pool_maker.h"

#define MARKS_MAX 200000u

static struct maker maker;

static int setup(void **state)
{
    (void)state;
    maker_open(&maker);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_clock(0);
    maker_close(&maker);
    return 0;
}

static void drain_open(struct slave_drain *d)
{
    struct ips_err err = {0};
    const struct slave_drain_options opt = {.pool = maker.pool,
                                            .state = maker.state};
    if (slave_drain_open(d, &opt, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Turns until `condition`, or for a minute. */
#define TURNS_UNTIL(d, condition)                                              \
    for (uint64_t end_ = slave_now_ns() + 60 * SLAVE_SECOND_NS;                \
         !(condition) && slave_now_ns() < end_; usleep(2000))                  \
    (void)slave_drain_turn(d, slave_now_ns())

static void turns(struct slave_drain *d, int count)
{
    for (int i = 0; i < count; i++) {
        (void)slave_drain_turn(d, slave_now_ns());
        usleep(2000);
    }
}

static uint64_t events_of(struct slave_drain *d, const char *run)
{
    struct slave_run *r = slave_drain_find_run(d, run);
    return r ? r->row.events : 0;
}

static bool until_closed(struct slave_drain *d, const char *run)
{
    uint64_t end = slave_now_ns() + 60 * SLAVE_SECOND_NS;
    while (slave_now_ns() < end) {
        (void)slave_drain_turn(d, slave_now_ns());
        struct slave_run *r = slave_drain_find_run(d, run);
        if (r && r->row.closed)
            return true;
        usleep(2000);
    }
    return false;
}

/* How often each mark 0..MARKS_MAX-1 is in the run's archive. */
static uint64_t count_marks(struct slave_drain *d, const char *run,
                            uint8_t *seen)
{
    struct slave_unpacked_archive map;
    struct ips_err err = {0};
    struct slave_run *r = slave_drain_find_run(d, run);
    const struct slave_frame *f;
    size_t at = 0;
    uint64_t total = 0;
    assert_non_null(r);
    memset(seen, 0, MARKS_MAX);
    if (slave_archive_unpack(r->dir, -1, r->row.archive_bytes, &map, &err) < 0)
        fail_msg("%s", err.msg);
    while ((f = slave_archive_next_frame(&map, &at))) {
        const uint8_t *p = (const uint8_t *)(f + 1);
        for (size_t i = 0; i < f->bytes;) {
            size_t n = ips_rec_check_and_get_length(p + i, f->bytes - i);
            assert_true(n > 0);
            const struct ips_rec_text *rec =
                (const struct ips_rec_text *)(const void *)(p + i);
            if (ips_rec_type(&rec->h) == IPS_REC_MARK) {
                unsigned long v = strtoul(rec->text, NULL, 10);
                assert_true(v < MARKS_MAX);
                seen[v]++;
                total++;
            }
            i += n;
        }
    }
    slave_archive_free_unpacked(&map);
    return total;
}

static void expect_marks(struct slave_drain *d, const char *run, uint64_t count)
{
    static uint8_t seen[MARKS_MAX];
    assert_int_equal(count_marks(d, run, seen), count);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(seen[i], 1);
}

/* Would catch: losing what was published before SIGKILL; a pool directory
 * that stays for ever. */
static void test_ingest__killed_writer(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment s;
    maker_run(&maker, "one");
    maker_segment(&s, &maker, "one", maker.child, 1, 0);
    for (uint64_t i = 0; i < 100; i++)
        maker_mark(&s, i, 1);
    drain_open(&d);
    TURNS_UNTIL(&d, events_of(&d, "one") == 100);
    expect_marks(&d, "one", 100);
    for (uint64_t i = 100; i < 150; i++)
        maker_mark(&s, i, 1);
    maker_mark(&s, 0, 0); /* reserved, and killed in the middle of it */
    maker_kill(&maker.child);
    assert_true(until_closed(&d, "one"));
    expect_marks(&d, "one", 150);
    assert_int_equal(slave_drain_find_run(&d, "one")->row.torn, 1);
    assert_int_equal(slave_drain_find_run(&d, "one")->row.events, 150);
    assert_int_equal(access(s.path, F_OK), -1);
    s.path[strlen(s.path) - strlen(s.file) - 1] = '\0';
    assert_int_equal(access(s.path, F_OK), -1);
    slave_drain_close(&d);
    /* And the next slave still knows it. */
    drain_open(&d);
    expect_marks(&d, "one", 150);
    slave_drain_close(&d);
}

/* Would catch: DRAINED before the zeroes, a segment handed back before its
 * records are committed, a reused segment taken for the old one. */
static void test_ingest__segment_used_again(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment s;
    maker_run(&maker, "again");
    maker_segment(&s, &maker, "again", maker.child, 1, 0);
    drain_open(&d);
    uint64_t number = 0;
    for (uint32_t seq = 0; seq < 5; seq++) {
        for (int i = 0; i < 300; i++)
            maker_mark(&s, number++, 1);
        maker_state(&s, IPS_SEGMENT_CLOSED);
        TURNS_UNTIL(&d, maker_read_state(&s) == IPS_SEGMENT_DRAINED);
        assert_int_equal(maker_read_state(&s), IPS_SEGMENT_DRAINED);
        char rest[MAKER_SEGMENT_BYTES];
        ssize_t n = pread(s.fd, rest, sizeof(rest), sizeof(s.head));
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(rest[i], 0);
        if (seq == 2) { /* another slave takes over */
            slave_drain_close(&d);
            drain_open(&d);
        }
        s.head.seq = seq + 1;
        s.head.state = IPS_SEGMENT_DRAINED;
        maker_put_header(&s);
        s.at = sizeof(s.head);
        maker_state(&s, IPS_SEGMENT_OPEN);
    }
    maker_kill(&maker.child);
    assert_true(until_closed(&d, "again"));
    expect_marks(&d, "again", number);
    assert_int_equal(slave_drain_find_run(&d, "again")->row.given_up, 0);
    slave_drain_close(&d);
}

/* Would catch: a stream read out of order, an abandoned segment kept. */
static void test_ingest__order_of_segments(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment a, b;
    maker_run(&maker, "order");
    maker_segment(&b, &maker, "order", maker.child, 1, 1);
    maker_mark(&b, 1, 1);
    drain_open(&d);
    turns(&d, 20);
    expect_marks(&d, "order", 0); /* the first one is not there yet */
    maker_segment(&a, &maker, "order", maker.child, 1, 0);
    a.head.image_stamp = b.head.image_stamp;
    maker_put_header(&a);
    maker_mark(&a, 0, 1);
    maker_state(&a, IPS_SEGMENT_CLOSED);
    maker_abandon(&a);
    TURNS_UNTIL(&d, access(a.path, F_OK) < 0 && events_of(&d, "order") == 2);
    expect_marks(&d, "order", 2);
    assert_int_equal(access(a.path, F_OK), -1);
    maker_kill(&maker.child);
    assert_true(until_closed(&d, "order"));
    slave_drain_close(&d);
}

/* Would catch: records that were lost with a file and are not missed. */
static void test_ingest__segment_removed_by_others(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment s;
    maker_run(&maker, "removed");
    maker_segment(&s, &maker, "removed", maker.child, 1, 0);
    maker_mark(&s, 0, 1);
    drain_open(&d);
    TURNS_UNTIL(&d, events_of(&d, "removed") == 1);
    struct slave_run *r = slave_drain_find_run(&d, "removed");
    assert_int_equal(r->row.given_up, 0);
    maker_check(unlink(s.path) == 0, "unlink");
    r->scan_now = true;
    TURNS_UNTIL(&d, r->row.given_up > 0);
    maker_mark(&s, 1, 1);
    maker_kill(&maker.child);
    assert_true(until_closed(&d, "removed"));
    assert_int_equal(r->row.given_up, 1);
    expect_marks(&d, "removed", 1);
    slave_drain_close(&d);
}

/* The slave never saw the first segment of a stream; the second one's number
 * tells. Would catch: a stream that begins in the middle and is taken for
 * whole.
 */
static void test_ingest__first_segment_never_seen(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment b;
    maker_run(&maker, "headless");
    maker_segment(&b, &maker, "headless", maker.child, 1, 1);
    maker_mark(&b, 0, 1);
    maker_kill(&maker.child);
    drain_open(&d);
    assert_true(until_closed(&d, "headless"));
    expect_marks(&d, "headless", 1);
    assert_int_equal(slave_drain_find_run(&d, "headless")->row.given_up, 1);
    slave_drain_close(&d);
}

/* Would catch: a crash or a hang on anything that is no segment of ours;
 * damage that hides what came before it. */
static void test_ingest__hostile(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment s[6];
    char path[700];
    maker_run(&maker, "bad");
    for (uint32_t i = 0; i < 6; i++)
        maker_segment(&s[i], &maker, "bad", maker.child, 1 + i, 0);
    maker_mark(&s[0], 0, 1); /* then random bytes */
    uint64_t rubbish[64];
    srand(7);
    for (size_t i = 0; i < 64; i++)
        rubbish[i] = (uint64_t)rand() << 32 | 0x7f00u | (unsigned)rand();
    maker_raw(&s[0], rubbish, sizeof(rubbish));
    maker_mark(&s[1], 1, 1); /* then cut */
    maker_check(ftruncate(s[1].fd, 300) == 0, "cut");
    s[2].head.version = 9;
    maker_put_header(&s[2]);
    s[3].head.segment_bytes = 1u << 30;
    maker_put_header(&s[3]);
    uint32_t longer = IPS_REC_MARK | 255u << 8; /* over the limit */
    maker_raw(&s[4], &longer, sizeof(longer));
    maker_mark(&s[5], 2, 1); /* a good one among them */
    snprintf(path, sizeof(path), "%s/bad/1.1.1.seg", maker.pool);
    maker_check(symlink("/etc/passwd", path) == 0, "symlink");
    snprintf(path, sizeof(path), "%s/bad/1.1.2.seg", maker.pool);
    maker_check(mkfifo(path, 0600) == 0, "mkfifo");
    snprintf(path, sizeof(path), "%s/bad/1.1.3.seg", maker.pool);
    maker_check(mkdir(path, 0700) == 0, "mkdir");
    snprintf(path, sizeof(path), "%s/bad/1.1.4.seg", maker.pool);
    maker_check(link(s[5].path, path) == 0 && unlink(path) == 0, "link");
    snprintf(path, sizeof(path), "%s/linked", maker.pool);
    maker_check(symlink("/", path) == 0, "symlink");
    snprintf(path, sizeof(path), "%s/empty", maker.pool);
    maker_check(mkdir(path, 0700) == 0, "mkdir");
    drain_open(&d);
    TURNS_UNTIL(&d, events_of(&d, "bad") == 2);
    maker_check(ftruncate(s[5].fd, 260) == 0, "cut under the reader");
    TURNS_UNTIL(&d, slave_drain_find_run(&d, "bad")->row.given_up >= 6);
    maker_kill(&maker.child);
    assert_true(until_closed(&d, "bad"));
    static uint8_t seen[MARKS_MAX];
    count_marks(&d, "bad", seen);
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[2], 1);
    assert_true(slave_drain_find_run(&d, "bad")->row.given_up >= 6);
    assert_null(slave_drain_find_run(&d, "linked"));
    assert_null(slave_drain_find_run(&d, "empty"));
    snprintf(path, sizeof(path), "%s/runs/bad/damaged/%s.0", maker.state,
             s[0].file);
    assert_int_equal(access(path, F_OK), 0);
    slave_drain_close(&d);
}

/* What lies in damaged/ of a run: files, bytes on disk, bytes to read. */
static void damaged_of(const char *run, uint32_t *files, uint64_t *disk,
                       uint64_t *length)
{
    char path[400];
    struct dirent *e;
    snprintf(path, sizeof(path), "%s/runs/%s/damaged", maker.state, run);
    DIR *dir = opendir(path);
    *files = 0;
    *disk = *length = 0;
    while (dir && (e = readdir(dir))) {
        struct stat st;
        maker_check(fstatat(dirfd(dir), e->d_name, &st, 0) == 0, e->d_name);
        if (!S_ISREG(st.st_mode))
            continue;
        (*files)++;
        *disk += (uint64_t)st.st_blocks * 512;
        *length += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
}

/* A segment of the largest size, damaged behind its header, with `data` bytes
 * at its end. */
static void damaged_segment(const char *run, uint32_t tid, size_t data)
{
    struct maker_segment s;
    static uint8_t bytes[4 << 20];
    uint32_t longer = IPS_REC_MARK | 255u << 8; /* over the limit */
    memset(bytes, 0xa5, sizeof(bytes));
    maker_segment(&s, &maker, run, maker.child, tid, 0);
    maker_raw(&s, &longer, sizeof(longer));
    maker_check(ftruncate(s.fd, IPS_SEGMENT_MAX_BYTES) == 0, "ftruncate");
    maker_check(pwrite(s.fd, bytes, data,
                       (off_t)(IPS_SEGMENT_MAX_BYTES - data)) == (ssize_t)data,
                "data");
    s.head.segment_bytes = IPS_SEGMENT_MAX_BYTES;
    maker_put_header(&s);
    close(s.fd);
}

/* Would catch: 64 KiB of segments that are holes, by whoever may put files into
 * a run, of which the slave writes 1 GiB; a run that fills the disk with copies
 * of what is damaged; copies without what was there. */
static void test_ingest__copies_of_holes(void **state)
{
    (void)state;
    struct slave_drain d;
    uint32_t files;
    uint64_t disk, length;
    maker_run(&maker, "holes");
    for (uint32_t i = 0; i < 16; i++)
        damaged_segment("holes", 1 + i, 1);
    maker_run(&maker, "large");
    for (uint32_t i = 0; i < 8; i++)
        damaged_segment("large", 1 + i, 4 << 20);
    drain_open(&d);
    TURNS_UNTIL(&d, slave_drain_find_run(&d, "holes") &&
                        slave_drain_find_run(&d, "holes")->row.given_up == 16);
    damaged_of("holes", &files, &disk, &length);
    assert_int_equal(files, 16);
    assert_int_equal(length, 16ull * IPS_SEGMENT_MAX_BYTES);
    assert_true(disk <= 16 * 2 * 65536);
    TURNS_UNTIL(&d, slave_drain_find_run(&d, "large")->row.given_up == 8);
    damaged_of("large", &files, &disk, &length);
    assert_int_equal(files, 8);
    assert_true(disk >= 12 << 20 && disk <= 17 << 20);
    slave_drain_close(&d);
}

/* Would catch: the rights of root for a stream that another user wrote, in
 * whole or in part, whatever its header says. */
static void test_ingest__owner_of_a_stream(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    static const struct {
        uid_t first, then;
        uint32_t rights;
    } cases[] = {{0, 0, 0},
                 {1000, 1000, 1000},
                 {0, 1000, 1000},
                 {1000, 0, 1000},
                 {1000, 1001, SLAVE_UID_NOBODY}};
    struct slave_drain d;
    uint64_t stamp = 0;
    maker_run(&maker, "owners");
    drain_open(&d);
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t seq = 0; seq < 2; seq++) {
            struct maker_segment s;
            uid_t owner = seq ? cases[i].then : cases[i].first;
            maker_segment(&s, &maker, "owners", maker.child, 1 + i, seq);
            stamp = stamp ? stamp : s.head.image_stamp; /* of this second */
            s.head.image_stamp = stamp;
            maker_put_header(&s);
            maker_check(fchown(s.fd, owner, 0) == 0, "fchown");
            maker_mark(&s, 2 * i + seq, 1);
            maker_state(&s, IPS_SEGMENT_CLOSED);
            TURNS_UNTIL(&d, events_of(&d, "owners") == 2 * i + seq + 1);
        }
    uint32_t seen = 0;
    for (const struct slave_stream *st =
             slave_drain_find_run(&d, "owners")->streams;
         st; st = st->next) {
        uint32_t i = st->row.head.tid - 1;
        assert_true(i < 5);
        assert_int_equal(st->row.head.uid, cases[i].rights);
        seen |= 1u << i;
    }
    assert_int_equal(seen, 31);
    slave_drain_close(&d);
}

/* Would catch: segments dropped when the archive cannot be written. */
static void test_ingest__disk_full(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment s;
    maker_run(&maker, "full");
    maker_segment(&s, &maker, "full", maker.child, 1, 0);
    for (uint64_t i = 0; i < 200; i++)
        maker_mark(&s, i, 1);
    maker_state(&s, IPS_SEGMENT_CLOSED);
    drain_open(&d);
    struct rlimit was, none = {.rlim_cur = 4096};
    signal(SIGXFSZ, SIG_IGN);
    maker_check(getrlimit(RLIMIT_FSIZE, &was) == 0, "getrlimit");
    none.rlim_max = was.rlim_max;
    maker_check(setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit");
    TURNS_UNTIL(&d, d.failing_since_ns != 0);
    assert_true(d.failing_since_ns != 0);
    assert_int_equal(maker_read_state(&s), IPS_SEGMENT_CLOSED);
    maker_check(setrlimit(RLIMIT_FSIZE, &was) == 0, "setrlimit");
    TURNS_UNTIL(&d, maker_read_state(&s) == IPS_SEGMENT_DRAINED);
    assert_true(d.failing_since_ns == 0);
    expect_marks(&d, "full", 200);
    assert_int_equal(maker_read_state(&s), IPS_SEGMENT_DRAINED);
    slave_drain_close(&d);
}

/* A slave in a process of its own, killed at a random moment. */
static void slave_for_a_while(unsigned us)
{
    pid_t pid = fork();
    maker_check(pid >= 0, "fork");
    if (pid == 0) {
        struct slave_drain d;
        const struct slave_drain_options opt = {.pool = maker.pool,
                                                .state = maker.state};
        if (slave_drain_open(&d, &opt, NULL) < 0)
            _exit(1);
        for (;;) {
            (void)slave_drain_turn(&d, slave_now_ns());
            usleep(300);
        }
    }
    usleep(us);
    maker_kill(&pid);
}

/* Would catch: cursors and records that do not move as one. The writer goes
 * on through two segments in turn, as the agent does. */
static void test_ingest__slave_killed(void **state)
{
    (void)state;
    struct slave_drain d;
    struct maker_segment s[2];
    uint64_t number = 0;
    uint32_t seq = 1;
    int now = 0;
    maker_run(&maker, "kill");
    maker_segment(&s[0], &maker, "kill", maker.child, 1, 0);
    maker_segment(&s[1], &maker, "kill", maker.child, 1, 1);
    s[1].head.image_stamp = s[0].head.image_stamp;
    s[1].head.state = IPS_SEGMENT_DRAINED;
    maker_put_header(&s[1]);
    unlink(s[1].path); /* shown when first used */
    bool shown = false;
    srand(11);
    uint64_t enough = emulated() ? 500 : 5000;
    for (int round = 0; round < 40 || (number <= enough && round < 4000);
         round++) {
        for (int i = 0; i < 700; i++) {
            if (s[now].at + 64 > MAKER_SEGMENT_BYTES) {
                int other = !now;
                if (shown && maker_read_state(&s[other]) != IPS_SEGMENT_DRAINED)
                    break; /* this writer waits for its slave */
                if (!shown) {
                    s[1].fd = open(s[1].path, O_RDWR | O_CREAT, 0600);
                    maker_check(s[1].fd >= 0 &&
                                    ftruncate(s[1].fd, MAKER_SEGMENT_BYTES) ==
                                        0,
                                "show");
                    shown = true;
                }
                s[other].head.seq = seq++;
                s[other].head.state = IPS_SEGMENT_DRAINED;
                maker_put_header(&s[other]);
                maker_state(&s[other], IPS_SEGMENT_OPEN);
                s[other].at = sizeof(s[other].head);
                maker_state(&s[now], IPS_SEGMENT_CLOSED);
                now = other;
            }
            maker_mark(&s[now], number++, 1);
        }
        slave_for_a_while((unsigned)rand() % 20000);
    }
    maker_kill(&maker.child);
    drain_open(&d);
    assert_true(until_closed(&d, "kill"));
    assert_true(number > enough);
    expect_marks(&d, "kill", number);
    assert_int_equal(slave_drain_find_run(&d, "kill")->row.given_up, 0);
    slave_drain_close(&d);
}

/* Segment 0 of a thread of `pid`, full of long marks; returns how many. */
static uint64_t long_segment(const char *run, pid_t pid, uint32_t bytes)
{
    enum { LEN = 960 };
    union {
        struct ips_rec_text rec;
        char bytes[sizeof(struct ips_rec_text) + LEN];
    } r = {.bytes = {0}};
    struct maker_segment s;
    maker_segment(&s, &maker, run, pid, 1, 0);
    s.head.segment_bytes = bytes;
    maker_check(ftruncate(s.fd, bytes) == 0, "ftruncate");
    maker_put_header(&s);
    r.rec.h.a = LEN - 1;
    r.rec.h.t = maker_raw_ns();
    r.rec.h.word = IPS_REC_MARK | (uint32_t)sizeof(r) / 8 << 8;
    memset(r.bytes + sizeof(r.rec), 'x', LEN - 1);
    uint64_t count = (bytes - s.at) / sizeof(r);
    char *all = malloc(count * sizeof(r));
    maker_check(all != NULL, "malloc");
    for (uint64_t i = 0; i < count; i++)
        memcpy(all + i * sizeof(r), &r, sizeof(r));
    maker_raw(&s, all, count * sizeof(r));
    free(all);
    maker_state(&s, IPS_SEGMENT_CLOSED);
    close(s.fd);
    return count;
}

/* A slave that was started anew comes to the segment of a process that is dead
 * only after a turn or two, for there is more than it takes in one. Would
 * catch: its stream forgotten before that, and what is in the pool then
 * refused. */
static void test_ingest__dead_and_not_yet_read(void **state)
{
    (void)state;
    struct slave_drain d;
    maker_run(&maker, "late");
    uint64_t count = long_segment("late", maker.child, 60u << 20);
    maker_kill(&maker.child);
    drain_open(&d);
    TURNS_UNTIL(&d, slave_drain_find_run(&d, "late") &&
                        slave_drain_find_run(&d, "late")->streams &&
                        slave_drain_find_run(&d, "late")->streams->row.dead);
    uint64_t before = events_of(&d, "late");
    slave_drain_close(&d);
    if (before == 0 || before == count)
        skip(); /* its death was seen too late */
    maker.child = maker_process();
    count += long_segment("late", maker.child, 20u << 20);
    drain_open(&d);
    maker_kill(&maker.child);
    assert_true(until_closed(&d, "late"));
    assert_int_equal(slave_drain_find_run(&d, "late")->row.given_up, 0);
    assert_int_equal(events_of(&d, "late"), count);
    slave_drain_close(&d);
}

static void one_mark(uint32_t tid)
{
    struct maker_segment s;
    maker_segment(&s, &maker, "storm", maker.child, tid, 0);
    maker_mark(&s, tid, 1);
    close(s.fd);
}

/* Time is ours here. Would catch: a directory that is watched though files come
 * one after the other (each of their writers wakes the slave, and pays for it);
 * files not found while it is not watched, or when it is again; and one that is
 * listed for ever after. */
static void test_ingest__a_storm_is_not_watched(void **state)
{
    (void)state;
    struct slave_drain d;
    const uint64_t ms = SLAVE_MS_NS;
    uint64_t now = slave_now_ns();
    fault_clock(now); /* a listing takes no time: a busy machine changes that */
    maker_run(&maker, "storm");
    one_mark(1);
    drain_open(&d);
    (void)slave_drain_turn(&d, now);
    const struct slave_run *run = slave_drain_find_run(&d, "storm");
    assert_non_null(run);
    if (d.inotify_fd < 0 || run->watch < 0) {
        slave_drain_close(&d);
        skip(); /* no inotify here */
    }
    for (uint32_t tid = 2; tid <= 40; tid++)
        one_mark(tid);
    (void)slave_drain_turn(&d, now += 20 * ms);
    (void)slave_drain_turn(&d, now += 20 * ms);
    assert_true(run->churns);
    assert_int_equal(run->watch, -1);
    assert_int_equal(run->row.events, 40);
    one_mark(41);
    (void)slave_drain_turn(&d, now = run->list_ns);
    assert_int_equal(run->row.events, 41);
    for (int i = 0; i < 4; i++) {
        assert_true(slave_drain_turn(&d, now += 300 * ms) <= 500 * ms);
        if (!run->churns)
            break;
    }
    (void)slave_drain_turn(&d, now += 10 * ms);
    assert_false(run->churns);
    assert_true(run->watch >= 0);
    uint64_t listed = run->list_ns;
    one_mark(42);
    (void)slave_drain_turn(&d, now += 10 * ms); /* by its event */
    (void)slave_drain_turn(&d, now += 10 * ms);
    assert_int_equal(run->row.events, 42);
    assert_true(run->list_ns > listed);
    slave_drain_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_ingest__killed_writer),
        T(test_ingest__segment_used_again),
        T(test_ingest__order_of_segments),
        T(test_ingest__segment_removed_by_others),
        T(test_ingest__first_segment_never_seen),
        T(test_ingest__hostile),
        T(test_ingest__copies_of_holes),
        T(test_ingest__owner_of_a_stream),
        T(test_ingest__disk_full),
        T(test_ingest__slave_killed),
        T(test_ingest__dead_and_not_yet_read),
        T(test_ingest__a_storm_is_not_watched),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
