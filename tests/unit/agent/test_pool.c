/* The pool as the slave and ipsrun see it: reading segments that are good,
 * unfinished, damaged or hostile; making runs; control; the clock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/segment_reader.h"
#include "tests/unit/help/pool_help.h"

#define BYTES 4096u

/* --- segments made by hand ----------------------------------------- */

struct segment {
    _Alignas(8) unsigned char bytes[BYTES];
    size_t end; /* where the next record goes */
};

static struct ips_segment_header *header(struct segment *s)
{
    return (void *)s->bytes;
}

static void segment_init(struct segment *s)
{
    memset(s, 0, sizeof(*s));
    struct ips_segment_header *h = header(s);
    h->magic = IPS_SEGMENT_MAGIC;
    h->version = IPS_POOL_VERSION;
    h->header_bytes = sizeof(*h);
    h->segment_bytes = BYTES;
    h->state = IPS_SEGMENT_OPEN;
    s->end = sizeof(*h);
}

static void *put(struct segment *s, uint32_t type, size_t bytes)
{
    assert_true(s->end + bytes <= BYTES);
    struct ips_rec_head *h = (void *)(s->bytes + s->end);
    h->word = type | (uint32_t)(bytes / 8) << 8;
    s->end += bytes;
    return h;
}

/* --- by the drain's reader ------------------------------------------ */

static int file_of(const void *bytes, size_t len)
{
    int fd = memfd_create("segment", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    return fd;
}

static struct segment_reader reader;

static int open_segment(const struct segment *s)
{
    struct ips_err err = {0};
    int fd = file_of(s->bytes, BYTES);
    if (segment_reader_open(&reader, fd, SLAVE_LOOK_FIRST_BYTES, &err) < 0)
        fail_msg("%s", err.msg);
    return fd;
}

static void close_segment(int fd)
{
    segment_reader_close(&reader);
    close(fd);
}

/* What is behind the records, of which there are `records`, at `at`. */
static void expect(const struct segment *s, enum slave_segment_stop stop,
                   uint32_t records, size_t at)
{
    int fd = open_segment(s);
    assert_int_equal(segment_reader_next(&reader), stop);
    assert_int_equal(reader.records, records);
    assert_int_equal(reader.seg.row.at, at);
    if (records)
        assert_memory_equal(reader.data, s->bytes + 256, at - 256);
    close_segment(fd);
}

/* Would catch: a record not copied whole, one given twice. */
static void test_pool__good_segment_is_read_to_its_end(void **state)
{
    (void)state;
    struct segment s;
    segment_init(&s);
    struct ips_rec_io *io = put(&s, IPS_REC_SEND, sizeof(*io));
    io->result = 42;
    struct ips_rec_text *text = put(&s, IPS_REC_MARK, sizeof(*text) + 8);
    memcpy(text->text, "mark", 5);
    int fd = open_segment(&s);
    assert_int_equal(segment_reader_next(&reader), SLAVE_STOP_ZERO);
    assert_int_equal(reader.records, 2);
    assert_memory_equal(reader.data, io, s.end - sizeof(*header(&s)));
    assert_int_equal(segment_reader_next(&reader), SLAVE_STOP_ZERO);
    assert_int_equal(reader.records, 0);
    struct ips_rec_lost *lost = put(&s, IPS_REC_LOST, sizeof(*lost));
    assert_int_equal(pwrite(fd, s.bytes, BYTES, 0), BYTES);
    assert_int_equal(segment_reader_next(&reader), SLAVE_STOP_ZERO);
    assert_int_equal(reader.records, 1);
    assert_memory_equal(reader.data, lost, sizeof(*lost));
    close_segment(fd);
}

/* Would catch: the last place of a segment read beyond its end. */
static void test_pool__full_segment_ends(void **state)
{
    (void)state;
    struct segment s;
    uint32_t count = 0;
    segment_init(&s);
    for (; s.end + sizeof(struct ips_rec_io) <= BYTES; count++)
        put(&s, IPS_REC_RECV, sizeof(struct ips_rec_io));
    assert_int_equal(s.end, BYTES);
    expect(&s, SLAVE_STOP_ZERO, count, BYTES);
}

/* Would catch: an unpublished record given out. */
static void test_pool__reservation_is_pending(void **state)
{
    (void)state;
    struct segment s;
    segment_init(&s);
    put(&s, IPS_REC_END, sizeof(struct ips_rec_end));
    size_t at = s.end;
    put(&s, IPS_REC_RESERVED, sizeof(struct ips_rec_io));
    put(&s, IPS_REC_END, sizeof(struct ips_rec_end));
    expect(&s, SLAVE_STOP_PENDING, 1, at);
}

/* Would catch: a length believed without a check. */
static void test_pool__impossible_heads_are_corrupt(void **state)
{
    (void)state;
    static const uint32_t words[] = {
        IPS_REC_SEND,             /* length 0 */
        IPS_REC_SEND | 1u << 8,   /* 8 bytes */
        IPS_REC_SEND | 2u << 8,   /* shorter than its type */
        IPS_REC_SEND | 129u << 8, /* longer than any record */
        IPS_REC_RESERVED,         /* a reservation of nothing */
        2u << 8,                  /* type 0 */
        IPS_REC_CHAN | 8u << 8,   /* shorter than its type */
    };
    struct segment s;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        segment_init(&s);
        struct ips_rec_head *h = put(&s, 1, 0);
        h->word = words[i];
        expect(&s, SLAVE_STOP_WRONG, 0, s.end);
    }
    /* Fits its type, crosses the segment's end. */
    uint32_t count = 0;
    segment_init(&s);
    for (; s.end + 48 + sizeof(struct ips_rec_io) <= BYTES; count++)
        put(&s, IPS_REC_SEND, sizeof(struct ips_rec_io));
    struct ips_rec_head *h = put(&s, 1, 0);
    h->word = IPS_REC_SEND | 16u << 8;
    assert_true(BYTES - s.end >= sizeof(*h) && BYTES - s.end < 128);
    expect(&s, SLAVE_STOP_WRONG, count, s.end);
}

/* Would catch: a reader that stops at what a later version adds. */
static void test_pool__unknown_types_are_stepped_over(void **state)
{
    (void)state;
    struct segment s;
    segment_init(&s);
    put(&s, 200, 48);
    put(&s, IPS_REC_END, sizeof(struct ips_rec_end) + 8); /* longer: a field
                                                             added */
    expect(&s, SLAVE_STOP_ZERO, 2, s.end);
}

/* Would catch: a text that runs out of its record. */
static void test_pool__texts_end_within_their_record(void **state)
{
    (void)state;
    static const uint32_t types[] = {IPS_REC_MARK, IPS_REC_NAME, IPS_REC_EXEC,
                                     IPS_REC_EXECFAIL};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        _Alignas(8) unsigned char rec[40] = {0};
        uint32_t word = types[i] | 5u << 8;
        memset(rec + 24, 'x', 16);
        memcpy(rec, &word, sizeof(word));
        assert_int_equal(ips_rec_check_and_get_length(rec, sizeof(rec)), 0);
        rec[39] = '\0';
        assert_int_equal(ips_rec_check_and_get_length(rec, sizeof(rec)), 40);
        assert_int_equal(ips_rec_check_and_get_length(rec, 39), 0);
        word = types[i] | 3u << 8; /* no text at all */
        memcpy(rec, &word, sizeof(word));
        assert_int_equal(ips_rec_check_and_get_length(rec, sizeof(rec)),
                         types[i] == IPS_REC_EXECFAIL ? 24 : 0);
    }
}

static int code_of(const struct segment *s, size_t size, struct ips_err *err)
{
    int fd = file_of(s->bytes, size);
    int rc = segment_reader_open(&reader, fd, SLAVE_LOOK_FIRST_BYTES, err);
    close_segment(fd);
    return rc;
}

/* Would catch: a header believed. */
static void test_pool__bad_headers_are_refused_by_cause(void **state)
{
    (void)state;
    struct segment s;
    struct ips_err err;
    segment_init(&s);
    header(&s)->magic = 0;
    assert_int_equal(code_of(&s, BYTES, &err), IPS_E_INCOMPLETE);
    header(&s)->magic = 1;
    assert_int_equal(code_of(&s, BYTES, &err), IPS_E_CORRUPT);
    segment_init(&s);
    header(&s)->version = 9;
    assert_int_equal(code_of(&s, BYTES, &err), IPS_E_VERSION);
    assert_non_null(strstr(err.msg, "version 9, expected 3"));
    segment_init(&s);
    header(&s)->segment_bytes = BYTES + 8;
    assert_int_equal(code_of(&s, BYTES, &err), IPS_E_CORRUPT);
    header(&s)->segment_bytes = 8;
    assert_int_equal(code_of(&s, BYTES, &err), IPS_E_CORRUPT);
    segment_init(&s);
    header(&s)->header_bytes = 8;
    assert_int_equal(code_of(&s, BYTES, &err), IPS_E_CORRUPT);
    segment_init(&s);
    assert_true(code_of(&s, 100, &err) < 0);
    assert_true(code_of(&s, BYTES - 8, &err) < 0);
}

/* Random bytes behind a good header, and good segments with some bytes
 * changed: under the sanitizers, any read outside is a failure; here, that
 * reading ends and never passes the end. */
static void test_pool__random_bytes_end_somewhere(void **state)
{
    (void)state;
    unsigned seed = 1;
    struct segment s;
    segment_init(&s);
    int fd = open_segment(&s);
    for (int round = 0; round < 20000; round++) {
        segment_init(&s);
        if (round % 2) {
            for (size_t i = s.end; i < BYTES; i++)
                s.bytes[i] = (unsigned char)rand_r(&seed);
        } else {
            while (s.end + 200 < BYTES)
                put(&s, 1 + (uint32_t)rand_r(&seed) % 23, 144);
            for (int i = 0; i < 8; i++)
                s.bytes[256 + (unsigned)rand_r(&seed) % (BYTES - 256)] =
                    (unsigned char)rand_r(&seed);
        }
        assert_int_equal(pwrite(fd, s.bytes, BYTES, 0), BYTES);
        reader.seg.row.at = 256;
        do {
            uint32_t at = reader.seg.row.at;
            (void)segment_reader_next(&reader);
            assert_int_equal(reader.seg.row.at, at + reader.len);
            assert_true(reader.seg.row.at <= BYTES);
            for (uint32_t i = 0; i < reader.len;) {
                size_t n = ips_rec_check_and_get_length(reader.data + i,
                                                        reader.len - i);
                assert_true(n > 0);
                i += (uint32_t)n;
            }
        } while (reader.len > 0);
    }
    close_segment(fd);
}

/* Would catch: records left out where they cross a step of the reading, by
 * either way of it; a file cut off that is taken for an empty one. */
static void test_pool__segment_files_are_copied_whole(void **state)
{
    (void)state;
    enum { BIG = 300 * 1024 };
    static _Alignas(8) unsigned char big[BIG], copy[BIG];
    struct ips_segment_header *h = (void *)big;
    h->magic = IPS_SEGMENT_MAGIC;
    h->version = IPS_POOL_VERSION;
    h->header_bytes = sizeof(*h);
    h->segment_bytes = BIG;
    h->state = IPS_SEGMENT_CLOSED;
    size_t at = sizeof(*h), count = 0;
    for (; at < 250 * 1024; count++) {
        size_t words = 5 + count % 100;
        struct ips_rec_text *r = (void *)(big + at);
        r->h.word = IPS_REC_MARK | (uint32_t)words << 8;
        r->cpu = count;
        at += words * 8;
    }
    int fd = file_of(big, BIG);
    struct ips_err err = {0};
    const size_t most[] = {SLAVE_LOOK_FIRST_BYTES, 20000};
    for (int i = 0; i < 2; i++) {
        enum slave_segment_stop stop;
        size_t n = 0;
        assert_int_equal(segment_reader_open(&reader, fd, most[i], &err), 0);
        do {
            size_t from = reader.seg.row.at;
            stop = segment_reader_next(&reader);
            assert_memory_equal(reader.data, big + from, reader.len);
            n += reader.records;
        } while (stop == SLAVE_STOP_MORE);
        assert_int_equal(stop, SLAVE_STOP_ZERO);
        assert_int_equal(n, count);
        assert_int_equal(reader.seg.row.at, at);
        assert_int_equal(reader.seg.mapping.data != NULL, i);
        segment_reader_close(&reader);
    }
    assert_int_equal(ips_segment_zero_and_set_drained(fd, 0, &err), 0);
    assert_int_equal(pread(fd, copy, BIG, 0), BIG);
    h->state = IPS_SEGMENT_DRAINED;
    memset(big + sizeof(*h), 0, BIG - sizeof(*h));
    assert_memory_equal(copy, big, BIG);
    assert_int_equal(segment_reader_open(&reader, fd, most[0], &err), 0);
    assert_int_equal(ftruncate(fd, 200), 0);
    assert_int_equal(segment_reader_next(&reader), SLAVE_STOP_WRONG);
    segment_reader_close(&reader);
    close(fd);
}

/* --- runs ---------------------------------------------------------- */

static int make(const struct pool_dir *p, const char *run, bool join,
                struct ips_err *err)
{
    char dir[700];
    struct ips_run_options opt = {.pool_root = p->root,
                                  .run = run,
                                  .machine = "box",
                                  .command = "sleep 1",
                                  .tags = "a=1\0b=2\0",
                                  .join = join};
    return ips_pool_make_or_join_run(&opt, dir, sizeof(dir), err);
}

static void remove_run(const struct pool_dir *p, const char *run)
{
    char path[700];
    snprintf(path, sizeof(path), "%s/%s/control", p->root, run);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

/* Would catch: a run made twice, names that leave the pool, a pool root of
 * somebody else's, wrong modes. */
static void test_pool__runs_are_made_joined_and_refused(void **state)
{
    (void)state;
    struct pool_dir p;
    struct ips_err err = {0};
    struct stat st;
    mode_t mask = umask(077);
    pool_help_make(&p, NULL);
    assert_int_equal(make(&p, "r", false, &err), IPS_E_BUSY);
    assert_int_equal(make(&p, "r", true, &err), 0);
    assert_int_equal(make(&p, "new", true, &err), 0);
    assert_int_equal(make(&p, "../x", false, &err), IPS_E_USAGE);
    assert_int_equal(make(&p, "", false, &err), IPS_E_USAGE);
    assert_int_equal(make(&p, ".x", false, &err), IPS_E_USAGE);
    assert_int_equal(make(&p, "a b", false, &err), IPS_E_USAGE);
    assert_int_equal(stat(p.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, geteuid() == 0 ? 01733 : 0700);
    char control_path[700];
    snprintf(control_path, sizeof(control_path), "%s/control", p.dir);
    assert_int_equal(stat(control_path, &st), 0);
    assert_int_equal(st.st_mode & 07777, geteuid() == 0 ? 0666 : 0600);
    chmod(p.root, 0777);
    assert_int_equal(make(&p, "r2", false, &err), IPS_E_REFUSED);
    chmod(p.root, 0700);
    remove_run(&p, "new");
    pool_help_remove(&p);
    umask(mask);
}

/* Would catch: control believed unseen, bytes that are not added up. */
static void test_pool__control_is_checked_and_counted(void **state)
{
    (void)state;
    struct pool_dir p;
    struct ips_err err = {0};
    const struct ips_control *c = NULL;
    pool_help_make(&p, NULL);
    assert_int_equal(make(&p, "t", false, &err), 0);
    char dir[700];
    snprintf(dir, sizeof(dir), "%s/t", p.root);
    assert_int_equal(ips_control_read_and_check_copy(dir, &c, &err), 0);
    assert_string_equal(c->machine, "box");
    assert_string_equal(c->command, "sleep 1");
    assert_memory_equal(c->tags, "a=1\0b=2\0", 9);
    assert_int_equal(c->root_pid, getpid());
    assert_true(c->quota_bytes > 0 && c->cpus > 0);
    assert_int_equal(ips_control_add_released_bytes(dir, 4096, &err), 0);
    assert_int_equal(ips_control_add_released_bytes(dir, 1, &err), 0);
    assert_int_equal(c->released_bytes, 0); /* a copy */
    ips_control_free(c);
    assert_int_equal(ips_control_read_and_check_copy(dir, &c, &err), 0);
    assert_int_equal(c->released_bytes, 4097);
    ips_control_free(c);

    struct ips_control *w = pool_help_control(&p);
    memset(w->command, 'x', sizeof(w->command));
    assert_int_equal(ips_control_read_and_check_copy(p.dir, &c, &err), 0);
    assert_int_equal(strlen(c->command), sizeof(c->command) - 1);
    ips_control_free(c);
    w->version = 9;
    assert_int_equal(ips_control_read_and_check_copy(p.dir, &c, &err),
                     IPS_E_VERSION);
    w->version = IPS_POOL_VERSION;
    w->clock.mult_q32 = 0;
    assert_int_equal(ips_control_read_and_check_copy(p.dir, &c, &err),
                     IPS_E_CORRUPT);
    w->magic = 0;
    assert_int_equal(ips_control_read_and_check_copy(p.dir, &c, &err),
                     IPS_E_CORRUPT);
    char path[800];
    snprintf(path, sizeof(path), "%s/control", p.dir);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(ips_control_read_and_check_copy(p.dir, &c, &err),
                     IPS_E_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ips_control_read_and_check_copy(p.dir, &c, &err),
                     IPS_E_NOT_FOUND);
    remove_run(&p, "t");
    pool_help_remove(&p);
}

/* Would catch: an unsigned difference, 64 bits that run over after minutes. */
static void test_pool__clock_converts_both_ways_of_zero(void **state)
{
    (void)state;
    struct ips_clock clock = {.kind = IPS_CLOCK_TSC,
                              .counter0 = 1000,
                              .raw0_ns = 5000000000u,
                              .mult_q32 = (uint64_t)1 << 31};
    assert_int_equal(ips_clock_convert_stamp_to_ns(&clock, 1000), 5000000000u);
    assert_int_equal(ips_clock_convert_stamp_to_ns(&clock, 3000), 5000001000u);
    assert_int_equal(ips_clock_convert_stamp_to_ns(&clock, 0),
                     5000000000u - 500);
    assert_int_equal(
        ips_clock_convert_stamp_to_ns(&clock, 1000 + (uint64_t)1e15),
        5000000000u + (uint64_t)5e14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool__good_segment_is_read_to_its_end),
        cmocka_unit_test(test_pool__full_segment_ends),
        cmocka_unit_test(test_pool__reservation_is_pending),
        cmocka_unit_test(test_pool__impossible_heads_are_corrupt),
        cmocka_unit_test(test_pool__unknown_types_are_stepped_over),
        cmocka_unit_test(test_pool__texts_end_within_their_record),
        cmocka_unit_test(test_pool__bad_headers_are_refused_by_cause),
        cmocka_unit_test(test_pool__random_bytes_end_somewhere),
        cmocka_unit_test(test_pool__segment_files_are_copied_whole),
        cmocka_unit_test(test_pool__runs_are_made_joined_and_refused),
        cmocka_unit_test(test_pool__control_is_checked_and_counted),
        cmocka_unit_test(test_pool__clock_converts_both_ways_of_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
