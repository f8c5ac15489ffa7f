/* Segments that are read through a mapping (slave/drain/guarded_mapping.h): a
 * busy thread's records come to the archive once, and whoever cuts a mapped
 * file, or leaves holes in it, neither ends the slave nor changes what is
 * counted. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <sys/mman.h>

#include "agent/pool/pool.h"
#include "slave/drain/drain.h"
#include "tests/unit/help/pool_maker.h"

#define FILE_BYTES 65536u
#define PAGE 4096u

static int new_file(uint32_t filled)
{
    static uint8_t ones[FILE_BYTES];
    int fd = memfd_create("view", MFD_CLOEXEC);
    memset(ones, 1, sizeof(ones));
    maker_check(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0 &&
                    pwrite(fd, ones, filled, 0) == (ssize_t)filled,
                "file");
    return fd;
}

static void touch_end(void *arg)
{
    const struct slave_guarded_mapping *v = arg;
    (void)*(volatile const uint8_t *)(v->data + v->len - 1);
}

/* Would catch: a process that dies of a file that somebody cut; bytes of a cut
 * file taken for read. */
static void test_segment_view__a_cut_file(void **state)
{
    (void)state;
    uint8_t to[PAGE] = {0};
    struct slave_guarded_mapping v;
    int fd = new_file(FILE_BYTES);
    assert_true(slave_guarded_open(&v, fd, FILE_BYTES));
    assert_true(slave_guarded_copy(&v, FILE_BYTES - PAGE, to, PAGE));
    assert_int_equal(to[PAGE - 1], 1);
    maker_check(ftruncate(fd, PAGE) == 0, "cut");
    for (int i = 0; i < 3; i++) { /* the signal is not left blocked */
        assert_false(slave_guarded_copy(&v, FILE_BYTES - PAGE, to, PAGE));
        assert_false(slave_guarded_zero_bytes(&v, 0, FILE_BYTES));
        assert_false(slave_guarded_call(&v, touch_end, &v));
    }
    assert_true(slave_guarded_copy(&v, 0, to, PAGE));
    assert_false(slave_guarded_copy(&v, FILE_BYTES, to, 1));
    slave_guarded_close(&v);
    assert_null(v.data);
    close(fd);
}

/* Would catch: a hole read, which makes a page that nobody accounted for. */
static void test_segment_view__holes(void **state)
{
    (void)state;
    struct slave_guarded_mapping v;
    int fd = new_file(2 * PAGE);
    assert_true(slave_guarded_open(&v, fd, FILE_BYTES));
    assert_int_equal(slave_guarded_allocated_end(&v, fd, 100, FILE_BYTES),
                     2 * PAGE);
    maker_check(pwrite(fd, "x", 1, 2 * PAGE) == 1, "write");
    assert_int_equal(slave_guarded_allocated_end(&v, fd, 100, 2 * PAGE),
                     2 * PAGE);
    assert_int_equal(slave_guarded_allocated_end(&v, fd, 2 * PAGE, FILE_BYTES),
                     3 * PAGE);
    slave_guarded_close(&v);
    close(fd);
}

static jmp_buf elsewhere;
static void on_other(int sig)
{
    (void)sig;
    longjmp(elsewhere, 1);
}

/* Would catch: another SIGBUS of the process swallowed, or taken for ours. */
static void test_segment_view__another_sigbus(void **state)
{
    (void)state;
    struct slave_guarded_mapping v;
    struct sigaction a = {.sa_handler = on_other, .sa_flags = SA_NODEFER};
    int fd = new_file(0);
    if (fork() == 0) { /* a process whose handler was there before ours */
        maker_check(sigaction(SIGBUS, &a, NULL) == 0, "sigaction");
        maker_check(slave_guarded_open(&v, fd, FILE_BYTES), "view");
        maker_check(ftruncate(fd, 0) == 0, "cut");
        if (setjmp(elsewhere) == 0) {
            touch_end(&v); /* outside of slave_guarded_call */
            _exit(1);
        }
        _exit(0);
    }
    int status = -1;
    maker_check(wait(&status) > 0, "wait");
    assert_int_equal(status, 0);
    close(fd);
}

/* ---- the drain's ---- */

static struct maker maker;
static struct slave_drain drain;
static uint64_t now;

static int setup(void **state)
{
    struct ips_err err = {0};
    (void)state;
    maker_open(&maker);
    maker_run(&maker, "busy");
    const struct slave_drain_options opt = {.pool = maker.pool,
                                            .state = maker.state};
    now = slave_now_ns();
    return slave_drain_open(&drain, &opt, &err);
}

static int teardown(void **state)
{
    (void)state;
    slave_drain_close(&drain);
    maker_close(&maker);
    return 0;
}

/* As often as it takes: the clock is ours. */
static const struct slave_run *turns(void)
{
    for (int i = 0; i < 4; i++, now += SLAVE_SECOND_NS)
        (void)slave_drain_turn(&drain, now);
    return slave_drain_find_run(&drain, "busy");
}

static void marks(struct maker_segment *s, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)maker_mark(s, first + i, 1);
}

static void state_is(struct maker_segment *s, uint32_t state)
{
    struct ips_segment_header h;
    maker_check(pread(s->fd, &h, sizeof(h), 0) == sizeof(h), "header");
    assert_int_equal(h.state, state);
}

/* Would catch: records of a mapped segment lost, taken twice or out of place;
 * one handed back that is not all zero; a page made by reading. */
static void test_segment_view__handed_back(void **state)
{
    (void)state;
    static const uint8_t zero[MAKER_SEGMENT_BYTES];
    static uint8_t all[MAKER_SEGMENT_BYTES];
    struct maker_segment s;
    struct stat before, after;
    maker_segment(&s, &maker, "busy", maker.child, 1, 0);
    for (uint32_t n = 0; n < 3; n++) { /* the file is used again twice */
        s.head.seq = n;
        s.head.state = IPS_SEGMENT_OPEN;
        s.at = sizeof(s.head);
        maker_put_header(&s);
        marks(&s, n * 1000, 248); /* up to where a page ends */
        assert_int_equal(s.at % PAGE, 0);
        maker_check(fstat(s.fd, &before) == 0, "fstat");
        assert_int_equal(turns()->row.events, n * 1000 + 248);
        maker_check(fstat(s.fd, &after) == 0, "fstat");
        assert_int_equal(after.st_blocks, before.st_blocks);
        assert_non_null(
            slave_drain_find_run(&drain, "busy")->segments->mapping.data);
        marks(&s, n * 1000 + 248, 752);
        assert_int_equal(turns()->row.events, (n + 1) * 1000);
        s.head.state = IPS_SEGMENT_CLOSED;
        maker_put_header(&s);
        (void)turns();
        state_is(&s, IPS_SEGMENT_DRAINED);
        maker_check(pread(s.fd, all, sizeof(all), 0) == sizeof(all), "read");
        assert_memory_equal(all + sizeof(s.head), zero,
                            sizeof(all) - sizeof(s.head));
    }
    assert_int_equal(slave_drain_find_run(&drain, "busy")->row.given_up, 0);
}

/* Would catch: a slave that dies, or goes round for ever, where a mapped
 * segment is cut or a record's size leads into a hole; another thread's records
 * lost by it. */
static void test_segment_view__cut_or_wrong(void **state)
{
    (void)state;
    struct maker_segment cut, hole, good;
    maker_segment(&cut, &maker, "busy", maker.child, 1, 0);
    maker_segment(&hole, &maker, "busy", maker.child, 2, 0);
    maker_segment(&good, &maker, "busy", maker.child, 3, 0);
    marks(&cut, 0, 200);
    marks(&hole, 200, 200);
    marks(&good, 400, 200);
    assert_int_equal(turns()->row.events, 600);
    maker_check(ftruncate(cut.fd, PAGE) == 0, "cut");
    /* A record of 40 words, of which the last 4 of a page alone are there. */
    while (hole.at % PAGE != PAGE - 32)
        marks(&hole, 1, 1);
    const uint64_t word = IPS_REC_MARK | 40u << 8;
    maker_raw(&hole, &word, sizeof(word));
    marks(&good, 600, 200);
    assert_true(turns()->row.events >= 800);
    assert_true(slave_drain_find_run(&drain, "busy")->row.given_up >= 1);
    marks(&good, 800, 100);
    assert_true(turns()->row.events >= 900);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segment_view__a_cut_file),
        cmocka_unit_test(test_segment_view__holes),
        cmocka_unit_test(test_segment_view__another_sigbus),
        T(test_segment_view__handed_back),
        T(test_segment_view__cut_or_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
