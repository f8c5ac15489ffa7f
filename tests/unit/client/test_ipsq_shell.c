/* The prompt without a master. Would catch: an answer that is lost without a
 * word because the pager or the command could not be forked, a pager that
 * nobody waits for, a command refused for the prompt's format, which it does
 * not have. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/base/command.h"
#include "client/shell/shell.h"

#define CHILD_LEFT 99 /* no exit status of ipsq */

static int fail_fork; /* the number of the fork that fails, from 1; 0: none */
static bool terminal;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_isatty(int fd);
int __wrap_isatty(int fd);

pid_t __wrap_fork(void)
{
    if (fail_fork > 0 && --fail_fork == 0) {
        errno = EAGAIN;
        return -1;
    }
    return __real_fork();
}

int __wrap_isatty(int fd)
{
    return terminal || __real_isatty(fd);
}

/* In a child process: runs the shell on files. CHILD_LEFT: it left a child. */
static int run_shell(const char *dir, int in, int out)
{
    char address[64], state[64], shell[] = "shell", self[] = "ipsq";
    struct ipsq_options o;
    struct ips_err err;
    snprintf(address, sizeof(address), "--master=unix:%s/none", dir);
    snprintf(state, sizeof(state), "--state=%s", dir);
    char *argv[] = {self, shell, address, state, NULL};
    alarm(120);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        ipsq_options_parse(&o, 4, argv, &err) < 0)
        return CHILD_LEFT;
    int status = ipsq_shell(&o);
    fflush(stdout);
    return waitpid(-1, NULL, 0) < 0 && errno == ECHILD ? status : CHILD_LEFT;
}

struct answered {
    int status;
    char out[8192];
};

/* Gives the shell `lines`. */
static void type(const char *lines, struct answered *a)
{
    char dir[] = "/tmp/ips-test-XXXXXX", path[64];
    int status;
    assert_non_null(mkdtemp(dir));
    FILE *in = tmpfile(), *out = tmpfile();
    assert_true(in && out && fputs(lines, in) >= 0);
    rewind(in);
    fflush(NULL);
    pid_t pid = __real_fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(run_shell(dir, fileno(in), fileno(out)));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    memset(a, 0, sizeof(*a));
    a->status = WEXITSTATUS(status);
    rewind(out);
    a->out[fread(a->out, 1, sizeof(a->out) - 1, out)] = '\0';
    fclose(in);
    fclose(out);
    snprintf(path, sizeof(path), "%s/history", dir);
    unlink(path);
    rmdir(dir);
}

static void test_shell__no_fork(void **state)
{
    (void)state;
    struct answered a;
    setenv("PAGER", "sed s/^/paged:/", 1);
    terminal = true;
    type("version\nquit\n", &a);
    assert_int_equal(a.status, IPSQ_OK);
    assert_non_null(strstr(a.out, "paged:ipsq"));
    for (int k = 1; k <= 2; k++) {
        fail_fork = k;
        type("version\nquit\n", &a);
        assert_int_not_equal(a.status, CHILD_LEFT);
        /* the answer, or a status that says that there is none */
        assert_true((a.status == IPSQ_OK) ==
                    (strstr(a.out, "\nipsq ") != NULL));
        assert_null(strstr(a.out, "paged:ipsq"));
    }
    fail_fork = 0;
    terminal = false;
}

static void test_shell__format(void **state)
{
    (void)state;
    struct answered a;
    type("runs\n", &a); /* there is no master */
    int no_master = a.status;
    assert_int_not_equal(no_master, IPSQ_USAGE);
    type("summary --format=tsv\n", &a);
    assert_int_equal(a.status, IPSQ_USAGE);
    type("format tsv\nsummary\n", &a);
    assert_int_equal(a.status, no_master);
    type("format tsv\nversion\n", &a);
    assert_int_equal(a.status, IPSQ_OK);
}

/* Would catch: help of the prompt's own words where it was not asked for, or
 * not where it was; a word that is none taken for one; the status of another
 * line than the last. */
static void test_shell__words(void **state)
{
    static const char own[] = "zoom OBJECT";
    static const struct {
        const char *lines;
        int status;
        bool helps;
    } t[] = {
        {"help\n", IPSQ_OK, true},
        {"help why\n", IPSQ_OK, false},
        {"version\n", IPSQ_OK, false},
        {"nothing\n", IPSQ_USAGE, false},
        {"nothing\nversion\n", IPSQ_OK, false},
        {"version\nnothing\nquit\nversion\n", IPSQ_USAGE, false},
        {"version\nnothing\nexit\n", IPSQ_USAGE, false},
        {"zoom\n", IPSQ_USAGE, false},
        {"shell\n", IPSQ_USAGE, false},
        {"format nothing\n", IPSQ_USAGE, false},
        {"format json\n", IPSQ_OK, false},
        {"nothing\n\n", IPSQ_USAGE, false},
        {"focus\n", IPSQ_OK, false},
        {"\n", IPSQ_OK, false},
        {"", IPSQ_OK, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        struct answered a;
        type(t[i].lines, &a);
        if (a.status != t[i].status ||
            (strstr(a.out, own) != NULL) != t[i].helps)
            fail_msg("%s: %d, %s", t[i].lines, a.status, a.out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shell__no_fork),
        cmocka_unit_test(test_shell__format),
        cmocka_unit_test(test_shell__words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
