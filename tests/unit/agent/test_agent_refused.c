/* The recording core where the kernel refuses a system call that making or
 * extending a segment needs: nothing is believed that was not done, what was
 * not recorded is counted, and room that was not used is given back. */
#include "tests/unit/help/core_help.h"
#include "tests/unit/help/emulated.h"
#include "tests/unit/help/refused_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define KIB 1024u
#define NOT_PERMITTED 77

/* A thread's records of source 1, while `number` is refused: see
 * refused_call.h. */
struct refusal {
    long number;
    int arg;
    uint32_t value;
    int error;
    long number2; /* refused too, always; 0: none */
    int error2;
    uint64_t file_limit; /* bytes; 0: none */
};

static void thread_records(void *arg)
{
    const struct refusal *r = arg;
    pthread_t t;
    if (r->file_limit) {
        const struct rlimit limit = {r->file_limit, r->file_limit};
        if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
            _exit(NOT_PERMITTED);
    }
    if (!refuse_call(r->number, r->arg, r->value, r->error) ||
        (r->number2 && !refuse_call(r->number2, -1, 0, r->error2)))
        _exit(NOT_PERMITTED);
    pthread_create(&t, NULL, core_thread_body, (void *)1);
    pthread_join(t, NULL);
}

struct result {
    struct seen seen;
    uint64_t lost[IPS_LOST_COUNT]; /* as the run's control says */
    unsigned files;
    uint64_t room; /* bytes that the thread's files have */
};

/* The process's own first page is there before; it is subtracted. */
static struct result record(const struct refusal *r, uint64_t quota)
{
    struct result out = {0};
    struct pool_dir p;
    pool_help_make(&p, NULL);
    struct ips_control *c = pool_help_control(&p);
    c->segment_bytes = 64u * KIB;
    c->quota_bytes = quota;
    int status = in_child(&p, thread_records, (void *)(uintptr_t)r);
    bool permitted = !WIFEXITED(status) || WEXITSTATUS(status) != NOT_PERMITTED;
    if (permitted) {
        assert_int_equal(status, 0);
        out.seen = read_all(&p, true);
        out.room = pool_help_blocks(&p, &out.files);
        assert_int_equal(c->used_bytes, out.room);
        for (unsigned i = 0; i < IPS_LOST_COUNT; i++)
            out.lost[i] = c->lost[i] + out.seen.lost_counted[i];
    }
    munmap(c, sizeof(*c));
    pool_help_remove(&p);
    if (!permitted)
        skip();
    return out;
}

static void check_no_segment(const struct refusal *r, uint64_t quota,
                             enum ips_lost_cause cause)
{
    struct result got = record(r, quota);
    assert_int_equal(got.seen.count[1], 0);
    assert_int_equal(got.files, 1);
    for (unsigned i = 0; i < IPS_LOST_COUNT; i++)
        if (i == cause)
            assert_true(got.lost[i] >= CORE_EACH);
        else
            assert_int_equal(got.lost[i], 0);
}

/* The byte that allocates a segment's first page is not written, and no error
 * says so. Would catch: a segment that is used all the same, whose first record
 * may raise SIGBUS; losses nobody counts; a file that is left behind. */
static void test_agent_refused__first_page(void **state)
{
    const struct refusal none_written = {.number = SYS_pwrite64, .arg = -1};
    (void)state;
    SKIP_IF_EMULATED("seccomp");
#ifndef __x86_64__
    skip(); /* its first page is populated */
#endif
    check_no_segment(&none_written, 1u << 20, IPS_LOST_POOL_FULL);
}

/* Would catch: a file that stays where it could not be sized or mapped, or a
 * loss that is counted as another one. */
static void test_agent_refused__no_file(void **state)
{
    const struct refusal not_sized = {SYS_ftruncate, -1, 0, EIO, 0, 0, 0},
                         not_mapped = {SYS_mmap, 3, MAP_SHARED, ENOMEM,
                                       0,        0, 0},
                         not_made = {SYS_openat, 3, 0600, EACCES, 0, 0, 0},
                         no_inode = {SYS_openat, 3, 0600, ENOSPC, 0, 0, 0};
    (void)state;
    SKIP_IF_EMULATED("seccomp");
    check_no_segment(&not_sized, 1u << 20, IPS_LOST_NO_SEGMENT);
    check_no_segment(&not_mapped, 1u << 20, IPS_LOST_NO_SEGMENT);
    check_no_segment(&not_made, 1u << 20, IPS_LOST_NO_SEGMENT);
    check_no_segment(&no_inode, 1u << 20, IPS_LOST_POOL_FULL);
}

/* Linux before 5.14 cannot extend a mapped file's pages ahead, so that all of a
 * segment is allocated at once. Would catch: a segment of one page whose second
 * one raises SIGBUS on a full disk, one that counts as a page, and room that is
 * not given back where the segment does not fit the quota or the disk. */
static void test_agent_refused__old_kernel(void **state)
{
    struct refusal old = {.number = SYS_madvise,
                          .arg = 2,
                          .value = MADV_POPULATE_WRITE,
                          .error = EINVAL};
    (void)state;
    SKIP_IF_EMULATED("seccomp");
    struct result got = record(&old, 64u << 20);
    assert_int_equal(got.seen.count[1], CORE_EACH);
    assert_int_equal(got.room % (64u * KIB), 4u * KIB); /* the process's own */
    assert_int_equal(got.room / (64u * KIB), got.files - 1);
    assert_true(got.files > 3);
    check_no_segment(&old, 64u * KIB, IPS_LOST_QUOTA);
    old.number2 = SYS_fallocate;
    old.error2 = ENOSPC;
    check_no_segment(&old, 64u << 20, IPS_LOST_POOL_FULL);
}

/* Where prlimit64 is refused, the older call says how long files may be. Would
 * catch: SIGXFSZ, which ends the program; a limit that is ignored; a segment of
 * a length that nobody knows to be allowed. */
static void test_agent_refused__limit_of_files(void **state)
{
    struct refusal r = {.number = SYS_prlimit64,
                        .arg = -1,
                        .error = EPERM,
                        .file_limit = 20000};
    (void)state;
    SKIP_IF_EMULATED("seccomp");
#ifdef SYS_getrlimit
    struct result got = record(&r, 64u << 20);
    assert_int_equal(got.seen.count[1], CORE_EACH);
    assert_true(got.files > CORE_EACH * sizeof(struct ips_rec_io) / 20000);
    r.number2 = SYS_getrlimit;
    r.error2 = EPERM;
#endif
    check_no_segment(&r, 64u << 20, IPS_LOST_NO_SEGMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_refused__first_page),
        cmocka_unit_test(test_agent_refused__no_file),
        cmocka_unit_test(test_agent_refused__old_kernel),
        cmocka_unit_test(test_agent_refused__limit_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
