/* Errors that pass through several callers; default places; directories that
 * are made; names of runs. Catches: a failure whose code or text is lost, a
 * place that is not where docs and other programs look for it, a path that is
 * cut, a name that is read behind its end. */
#include <errno.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
/* cmocka last of these */
#include <cmocka.h>

#include "common/paths.h"

/* Instead of the C library's: what they answer, for one test. */
static bool no_home, no_host_name;
static int access_fails, access_asked;
static char home_directory[] = "/of/the/database";
static struct passwd home_entry = {.pw_dir = home_directory};

struct passwd *getpwuid(uid_t uid)
{
    assert_int_equal(uid, geteuid());
    return no_home ? NULL : &home_entry;
}

int gethostname(char *out, size_t len)
{
    if (no_host_name)
        return -1;
    memset(out, 'h', len); /* a long name is cut, without an end */
    return 0;
}

int access(const char *path, int how)
{
    access_asked = how;
    if (access_fails) {
        errno = access_fails;
        return -1;
    }
    return (int)syscall(SYS_faccessat, -100, path, how);
}

static char dir[64];

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {
        "IPS_POOL_ROOT", "IPS_STATE", "XDG_STATE_HOME", "HOME", "IPS_MACHINE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    no_home = no_host_name = false;
    access_fails = 0;
    snprintf(dir, sizeof(dir), "/tmp/ips-paths-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

/* Tests leave nothing but empty directories. */
static int teardown(void **state)
{
    (void)state;
    static const char *const made[] = {"/a/b/c", "/a/b", "/a", ""};
    char path[128];
    for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++) {
        snprintf(path, sizeof(path), "%s%s", dir, made[i]);
        rmdir(path);
    }
    return 0;
}

static void test_paths__context_keeps_the_code(void **state)
{
    (void)state;
    struct ips_err err;
    ips_err_set(&err, IPS_E_LIMIT, "too long");
    assert_int_equal(ips_err_wrap(&err, IPS_E_LIMIT, "run %s", "r"),
                     IPS_E_LIMIT);
    assert_int_equal(err.code, IPS_E_LIMIT);
    assert_string_equal(err.msg, "run r: too long");
    assert_int_equal(ips_err_wrap(NULL, IPS_E_LIMIT, "run %s", "r"),
                     IPS_E_LIMIT);
}

/* Would catch: another error's text, an errno that is lost on the way, a
 * message that is written behind its end. */
static void test_paths__errors_have_texts(void **state)
{
    (void)state;
    struct ips_err err;
    assert_string_equal(ips_err_text_of_code(0), "success");
    assert_string_equal(ips_err_text_of_code(IPS_E_IO), "input/output error");
    assert_string_equal(ips_err_text_of_code(IPS_E_INCOMPLETE),
                        "answer incomplete");
    assert_string_equal(ips_err_text_of_code(-15), "unknown error");
    assert_string_equal(ips_err_text_of_code(1), "unknown error");
    errno = ENOENT;
    assert_int_equal(ips_err_errno(&err, "file %d", 7), IPS_E_IO);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(err.code, IPS_E_IO);
    assert_string_equal(err.msg, "file 7: No such file or directory");
    assert_int_equal(ips_err_errno(NULL, "file"), IPS_E_IO);
    char text[2 * sizeof(err.msg)];
    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(ips_err_set(&err, IPS_E_DB, "%s", text), IPS_E_DB);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    ips_err_wrap(&err, IPS_E_DB, "run");
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    assert_int_equal(strncmp(err.msg, "run: ttt", 8), 0);
}

static void test_paths__no_name_makes_no_directory(void **state)
{
    (void)state;
    struct ips_err err;
    assert_int_equal(ips_path_make_directories("", 0700, &err), IPS_E_USAGE);
    assert_string_equal(err.msg, "the name of a directory is empty");
}

/* Would catch: a daemon and its users that look in two places; an empty
 * variable taken for a place; a relative XDG_STATE_HOME. */
static void test_paths__default_places(void **state)
{
    (void)state;
    char out[IPS_PATH_BYTES], usual[64];
    struct ips_err err;
    snprintf(usual, sizeof(usual), "/dev/shm/ips-%u", (unsigned)geteuid());
    assert_int_equal(ips_path_default_pool_root(out, &err), 0);
    assert_string_equal(out, usual);
    setenv("IPS_POOL_ROOT", "", 1);
    assert_int_equal(ips_path_default_pool_root(out, &err), 0);
    assert_string_equal(out, usual);
    setenv("IPS_POOL_ROOT", "/pool", 1);
    assert_int_equal(ips_path_default_pool_root(out, &err), 0);
    assert_string_equal(out, "/pool");

    no_home = true;
    assert_int_equal(ips_path_default_state_directory(out, &err), IPS_E_USAGE);
    assert_string_equal(err.msg, "no home directory for the results: set "
                                 "XDG_STATE_HOME or give --state DIR");
    no_home = false;
    static const struct {
        const char *name, *value, *state;
    } steps[] = {
        {"HOME", "", "/of/the/database/.local/state/ips"},
        {"HOME", "/home/u", "/home/u/.local/state/ips"},
        {"XDG_STATE_HOME", "", "/home/u/.local/state/ips"},
        {"XDG_STATE_HOME", "xdg", "/home/u/.local/state/ips"},
        {"XDG_STATE_HOME", "/xdg", "/xdg/ips"},
        {"IPS_STATE", "", "/xdg/ips"},
        {"IPS_STATE", "state", "state"},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        setenv(steps[i].name, steps[i].value, 1);
        assert_int_equal(ips_path_default_state_directory(out, &err), 0);
        assert_string_equal(out, steps[i].state);
    }
    assert_int_equal(ips_path_default_master_address("/s", out, &err), 0);
    assert_string_equal(out, "unix:/s/master.sock");
}

/* Would catch: a path that is cut by a byte, and so another one. */
static void test_paths__longest(void **state)
{
    (void)state;
    char name[IPS_PATH_BYTES + 1], out[IPS_PATH_BYTES];
    char text[160];
    struct ips_err err;
    memset(name, 'p', sizeof(name));
    name[IPS_PATH_BYTES - 1] = '\0';
    setenv("IPS_POOL_ROOT", name, 1);
    assert_int_equal(ips_path_default_pool_root(out, &err), 0);
    assert_string_equal(out, name);
    name[IPS_PATH_BYTES - 1] = 'p';
    name[IPS_PATH_BYTES] = '\0';
    setenv("IPS_POOL_ROOT", name, 1);
    assert_int_equal(ips_path_default_pool_root(out, &err), IPS_E_LIMIT);
    snprintf(text, sizeof(text), "path longer than 511 bytes: %.80s", name);
    assert_string_equal(err.msg, text);
    assert_int_equal(ips_path_make_directories(name, 0700, &err), IPS_E_LIMIT);
    assert_string_equal(err.msg, text);
    assert_int_equal(ips_path_find_program(name, out, &err), IPS_E_LIMIT);
    assert_int_equal(ips_path_find_library(name, out, &err), IPS_E_LIMIT);
}

/* Would catch: a slave of another archive that empties the user's pool, and one
 * of the default archive that does not. */
static void test_paths__is_state_the_default(void **state)
{
    (void)state;
    char path[128];
    struct ips_err err;
    setenv("XDG_STATE_HOME", dir, 1);
    snprintf(path, sizeof(path), "%s/ips", dir);
    assert_false(
        ips_path_state_may_drain_default_pool(path)); /* not there yet */
    assert_false(ips_path_state_may_drain_default_pool("/not/there"));
    assert_int_equal(ips_path_make_directories(path, 0700, &err), 0);
    assert_true(ips_path_state_may_drain_default_pool(path));
    assert_false(ips_path_state_may_drain_default_pool(dir));
    assert_false(ips_path_state_may_drain_default_pool("/not/there"));
    setenv("IPS_STATE", "", 1);
    assert_true(ips_path_state_may_drain_default_pool(path));
    setenv("IPS_STATE", path, 1);
    assert_false(ips_path_state_may_drain_default_pool(path));
    setenv("IPS_POOL_ROOT", "", 1);
    assert_false(ips_path_state_may_drain_default_pool(path));
    setenv("IPS_POOL_ROOT", "/pool", 1);
    assert_true(ips_path_state_may_drain_default_pool(path));
    assert_int_equal(rmdir(path), 0);
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    return st.st_mode & 07777;
}

/* Would catch: only the last or the first directory of a path made, others'
 * access to them, a file taken for a directory. */
static void test_paths__makes_directories(void **state)
{
    (void)state;
    char path[128], want[256];
    struct ips_err err;
    umask(0);
    snprintf(path, sizeof(path), "%s/a/b/c/", dir);
    for (int i = 0; i < 2; i++) /* again: they are there already */
        assert_int_equal(ips_path_make_directories(path, 0750, &err), 0);
    for (int i = 0; i < 3; i++) {
        *strrchr(path, '/') = '\0';
        assert_int_equal(mode_of(path), 0750);
    }
    snprintf(path, sizeof(path), "%s/a/file", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(ips_path_make_directories(path, 0700, &err), IPS_E_IO);
    snprintf(want, sizeof(want), "%s is not a directory", path);
    assert_string_equal(err.msg, want);
    snprintf(path, sizeof(path), "%s/a/file/d", dir);
    assert_int_equal(ips_path_make_directories(path, 0700, &err), IPS_E_IO);
    snprintf(want, sizeof(want), "mkdir %s: Not a directory", path);
    assert_string_equal(err.msg, want);
    *strrchr(path, '/') = '\0';
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(ips_path_make_directories("a", 0700, &err), 0);
    assert_int_equal(ips_path_make_directories("r", 0700, &err), 0);
    assert_int_equal(rmdir("r"), 0);
    assert_int_equal(chdir("/"), 0);
}

/* Would catch: results that other users read; an error that does not say what
 * to do. */
static void test_paths__state_directory(void **state)
{
    (void)state;
    char path[128], want[256];
    struct ips_err err;
    snprintf(path, sizeof(path), "%s/a", dir);
    assert_int_equal(ips_path_make_state_directory(path, &err), 0);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(access_asked, W_OK | X_OK);
    access_fails = EROFS;
    assert_int_equal(ips_path_make_state_directory(path, &err), IPS_E_IO);
    snprintf(want, sizeof(want),
             "no state directory (name one that can be written: --state DIR, "
             "or IPS_STATE): %s: Read-only file system",
             path);
    assert_string_equal(err.msg, want);
    access_fails = 0;
    assert_int_equal(ips_path_make_state_directory("", &err), IPS_E_USAGE);
}

/* Would catch: a machine without a name, and one whose name has no end. */
static void test_paths__machine_name(void **state)
{
    (void)state;
    char name[8];
    ips_default_machine_name(name, sizeof(name));
    assert_string_equal(name, "hhhhhhh");
    no_host_name = true;
    char room[16];
    ips_default_machine_name(room, sizeof(room));
    assert_string_equal(room, "localhost");
    setenv("IPS_MACHINE", "", 1);
    ips_default_machine_name(room, sizeof(room));
    assert_string_equal(room, "localhost");
    setenv("IPS_MACHINE", "machine-7", 1);
    ips_default_machine_name(room, sizeof(room));
    assert_string_equal(room, "machine-7");
    ips_default_machine_name(name, sizeof(name));
    assert_string_equal(name, "machine");
}

/* Would catch: a program of another installation that is run. */
static void test_paths__of_this_installation(void **state)
{
    (void)state;
    char self[IPS_PATH_BYTES] = "", own[IPS_PATH_BYTES], out[IPS_PATH_BYTES];
    char want[3 * IPS_PATH_BYTES];
    struct ips_err err;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    assert_int_equal(ips_path_find_program("test_paths", out, &err), 0);
    assert_string_equal(out, self);
    assert_int_equal(ips_path_find_library("test_paths", out, &err), 0);
    assert_string_equal(out, self);
    snprintf(own, sizeof(own), "%s", self);
    *strrchr(own, '/') = '\0';
    assert_int_equal(ips_path_find_program("none", out, &err), IPS_E_IO);
    snprintf(want, sizeof(want), "program %s/none: No such file or directory",
             own);
    assert_string_equal(err.msg, want);
    assert_int_equal(ips_path_find_library("none", out, &err), IPS_E_NOT_FOUND);
    snprintf(want, sizeof(want),
             "library none is neither in %s/../lib nor in %s/../", own, own);
    assert_int_equal(strncmp(err.msg, want, strlen(want)), 0);
    assert_int_equal(access_asked, X_OK);
}

/* Would catch: a name that leads out of the pool, and one that is refused
 * without need. */
static void test_paths__names_of_runs(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "A", "z", "Z",  "0",
                                       "9", "_", "-", "a.", "a-b_c.9"};
    static const char *const bad[] = {"",    ".",  "..", ".a",    "a/b", "a b",
                                      "a\n", "a@", "a[", "a\xc3", "a`",  "a{"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(ips_is_valid_run_name(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(ips_is_valid_run_name(bad[i]));
    char name[65];
    memset(name, 'n', 64);
    name[64] = '\0';
    assert_false(ips_is_valid_run_name(name));
    assert_true(ips_is_valid_run_name(name + 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_paths__context_keeps_the_code),
        TEST(test_paths__errors_have_texts),
        TEST(test_paths__no_name_makes_no_directory),
        TEST(test_paths__default_places),
        TEST(test_paths__longest),
        TEST(test_paths__is_state_the_default),
        TEST(test_paths__makes_directories),
        TEST(test_paths__state_directory),
        TEST(test_paths__machine_name),
        TEST(test_paths__of_this_installation),
        TEST(test_paths__names_of_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
