/* What a file is that is about to be executed (agent/record/exec_target.h),
 * looked at again and again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/record/exec_target.h"
#include "agent/record/extra.h"
#include "agent/record/own_table.h"
#include "tests/unit/help/emulated.h"

#define PROGRAM "/bin/true" /* changed long ago */

static char dir[] = "/tmp/ips-target-XXXXXX";
static char library[64], program[64];

static void copy(const char *from, const char *to, mode_t mode)
{
    char buf[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t n; (n = read(in, buf, sizeof(buf))) > 0;)
        assert_int_equal(write(out, buf, (size_t)n), n);
    assert_int_equal(fchmod(out, mode), 0);
    close(in);
    close(out);
}

static int begin(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_non_null(
        ips_extra_get_or_map()); /* as one that spawns: else nothing is kept */
    snprintf(library, sizeof(library), "%s/library", dir);
    snprintf(program, sizeof(program), "%s/program", dir);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(library);
    unlink(program);
    return rmdir(dir);
}

static enum ips_target_kind look(const char *path)
{
    struct ips_target t;
    ips_target_inspect(&t, AT_FDCWD, path, library);
    return t.kind;
}

/* Would catch: what was found once taken for good though our library cannot be
 * reached any more (a chroot, a clean-up): the loader would print an error. */
static void test_exec_target__library_goes(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("old program of its own architecture");
    copy(PROGRAM, library, 0644);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(PROGRAM), IPS_TARGET_TRACED);
    unlink(library);
    assert_int_equal(look(PROGRAM), IPS_TARGET_HIDDEN);
    copy(PROGRAM, library, 0644);
    assert_int_equal(look(PROGRAM), IPS_TARGET_TRACED);
    unlink(library);
}

/* Would catch: a file that is written again in place, within the tick of the
 * file system's clock, taken for the one it was. */
static void test_exec_target__file_changes(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("old program of its own architecture");
    copy(PROGRAM, library, 0644);
    copy(PROGRAM, program, 0755);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(program), IPS_TARGET_TRACED);
    int fd = open(program, O_WRONLY);
    const uint8_t class32 = ELFCLASS32;
    assert_int_equal(pwrite(fd, &class32, 1, EI_CLASS), 1);
    close(fd);
    assert_int_equal(look(program), IPS_TARGET_CLASS);
    unlink(program);
    unlink(library);
}

/* Would catch: a set-user-id program that was looked at as one user and is
 * executed as another; a script taken for its interpreter's kind for good. */
static void test_exec_target__others(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("old program of its own architecture");
    copy(PROGRAM, library, 0644);
    copy(PROGRAM, program, 04755);
    assert_int_equal(look(program), IPS_TARGET_TRACED); /* its owner's */
    unlink(program);
    FILE *f = fopen(program, "w");
    fprintf(f, "#!%s\n", PROGRAM);
    fclose(f);
    chmod(program, 0755);
    assert_int_equal(look(program), IPS_TARGET_TRACED);
    assert_int_equal(look(program), IPS_TARGET_TRACED);
    unlink(program);
    assert_int_equal(look(program), IPS_TARGET_TRACED); /* not there */
    unlink(library);
}

/* What `path` is for a user who may create no more threads. */
static enum ips_target_kind look_without_threads(const char *path)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        ips_own_table_on = true; /* as in a recorded program */
        ips_me.extra = NULL;     /* it has seen no file yet */
        if ((geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) ||
            setrlimit(RLIMIT_NPROC, &none) != 0)
            _exit(99);
        _exit((int)look(path));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 99)
        skip(); /* root of a user namespace without that user */
    return (enum ips_target_kind)WEXITSTATUS(status);
}

/* Would catch: a 32-bit program, or one of another C library, that is started
 * with our library because there was no thread to look at it: its loader prints
 * an error, or refuses to start it. */
static void test_exec_target__no_thread(void **state)
{
    struct ips_target t = {.kind = IPS_TARGET_NOT_EXAMINED};
    (void)state;
    SKIP_IF_EMULATED("limit on threads");
    assert_int_equal(look_without_threads(PROGRAM), IPS_TARGET_NOT_EXAMINED);
    assert_false(ips_target_keeps_preload(t.kind));
    assert_int_equal(look_without_threads("/nosuch"), IPS_TARGET_TRACED);
}

#define WORDS 8
static enum ips_target_kind with_arguments(const char *const *words)
{
    char *argv[WORDS] = {0};
    struct ips_target t = {.kind = IPS_TARGET_BY_HAND, .path = "ld.so"};
    if (words)
        memcpy(argv, words, WORDS * sizeof(*argv));
    ips_target_refine_by_arguments(&t, words ? argv : NULL, NULL);
    assert_true((t.kind == IPS_TARGET_TRACED) == (t.path[0] == '\0'));
    return t.kind;
}
#define WITH(...) with_arguments((const char *const[WORDS]){__VA_ARGS__})

/* Would catch: the value of an option taken for the program; a look beyond the
 * end of the arguments. */
static void test_exec_target__loader_arguments(void **state)
{
    (void)state;
    assert_int_equal(WITH("ld.so", "ls", "--list"), IPS_TARGET_TRACED);
    assert_int_equal(WITH("ld.so", "-ls"), IPS_TARGET_TRACED);
    assert_int_equal(
        WITH("ld.so", "--argv0", "--list", "--inhibit-cache", "ls"),
        IPS_TARGET_TRACED);
    assert_int_equal(WITH("ld.so", "--list", "ls"), IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so", "--library-path", "/lib", "--verify", "ls"),
                     IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so", "--library-path", "/lib"), IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so", "--library-path"), IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so", "--new-option", "ls"), IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so"), IPS_TARGET_ASKED);
    assert_int_equal(WITH(NULL), IPS_TARGET_ASKED);
    assert_int_equal(with_arguments(NULL), IPS_TARGET_ASKED);
    assert_int_equal(WITH(NULL, "ls"), IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so", NULL, "ls"), IPS_TARGET_ASKED);
    assert_int_equal(WITH("ld.so", "--argv0", NULL, "ls"), IPS_TARGET_ASKED);
    struct ips_target t = {.kind = IPS_TARGET_STATIC, .path = "x"};
    ips_target_refine_by_arguments(&t, NULL, NULL);
    assert_int_equal(t.kind, IPS_TARGET_STATIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec_target__loader_arguments),
        cmocka_unit_test(test_exec_target__library_goes),
        cmocka_unit_test(test_exec_target__file_changes),
        cmocka_unit_test(test_exec_target__others),
        cmocka_unit_test(test_exec_target__no_thread),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
