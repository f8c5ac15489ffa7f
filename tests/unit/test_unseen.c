/* Lines of /proc/PID/maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "slave/unseen.h"

static bool map(const char *line, struct slave_unseen_row *row)
{
    return slave_unseen_map(line, "/dev/shm/pool", row);
}

/* Would catch: shared memory passed over; what is nobody's dependency - private
 * pages, our own segments, the C library's caches - taken for it. */
static void test_unseen__maps(void **state)
{
    (void)state;
    struct slave_unseen_row r;
    assert_true(map("7f12-7f13 rw-s 00000000 00:01 1034    /dev/zero "
                    "(deleted)\n",
                    &r));
    assert_int_equal(r.kind, SLAVE_UNSEEN_SHARED);
    assert_true(r.writes && r.dev == 1 && r.ino == 1034);
    assert_string_equal(r.path, "/dev/zero (deleted)");
    assert_true(map("7f12-7f13 r--s 00000000 00:19 7 /dev/shm/x\n", &r));
    assert_false(r.writes);
    assert_true(map("7f12-7f13 rw-s 00000000 00:12 3 /[aio] (deleted)\n", &r));
    assert_int_equal(r.kind, SLAVE_UNSEEN_AIO);
    assert_false(map("7f12-7f13 rw-p 00000000 00:19 7 /dev/shm/x\n", &r));
    assert_false(map("7f12-7f13 rw-p 00000000 00:00 0 \n", &r));
    assert_false(map("7f12-7f13 r--s 00000000 fe:01 7 "
                     "/usr/lib/gconv/gconv-modules.cache\n",
                     &r));
    assert_false(
        map("7f12-7f13 rw-s 00000000 00:19 9 /dev/shm/pool/r/1.1.a.seg\n", &r));
    assert_true(map("7f12-7f13 rw-s 00000000 00:19 9 /dev/shm/pool2/x\n", &r));
    assert_false(
        map("7f12-7f13 rw-s 00000000 00:0f 9 anon_inode:[io_uring]\n", &r));
    assert_false(map("nonsense\n", &r));
    assert_false(map("", &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unseen__maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
