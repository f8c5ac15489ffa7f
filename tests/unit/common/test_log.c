/* Lines of the daemons' log, byte for byte. Catches: a wrong level or time, a
 * line that somebody else's text imitates, one that is cut too early or written
 * behind its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* cmocka last of these */
#include <cmocka.h>

#include "common/log.h"

/* Instead of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock == CLOCK_REALTIME) {
        *out = (struct timespec){1000000000, 7999999};
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, out);
}

#define STAMP "2001-09-09T01:46:40.007Z "

static char said[4096];

/* What is logged at each level. */
static void log_all(const char *text)
{
    int fds[2], was = dup(STDERR_FILENO);
    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    for (int level = IPS_LOG_ERROR; level <= (int)IPS_LOG_DEBUG; level++)
        ips_log((enum ips_log_level)level, "%s", text);
    dup2(was, STDERR_FILENO);
    close(was);
    close(fds[1]);
    memset(said, 0, sizeof(said));
    for (ssize_t n, at = 0;
         (n = read(fds[0], said + at, sizeof(said) - 1 - (size_t)at)) > 0;)
        at += n;
    close(fds[0]);
}

static void test_log__levels(void **state)
{
    (void)state;
    unsetenv("IPS_LOG");
    log_all("text"); /* before anybody names the program */
    assert_string_equal(said, STAMP "ips error text\n" STAMP
                                    "ips warn text\n" STAMP "ips info text\n");
    static const struct {
        const char *level, *lines;
    } cases[] = {
        {"nonsense",
         STAMP "who error t\n" STAMP "who warn t\n" STAMP "who info t\n"},
        {"error", STAMP "who error t\n"},
        {"warn", STAMP "who error t\n" STAMP "who warn t\n"},
        {"info",
         STAMP "who error t\n" STAMP "who warn t\n" STAMP "who info t\n"},
        {"debug", STAMP "who error t\n" STAMP "who warn t\n" STAMP
                        "who info t\n" STAMP "who debug t\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        setenv("IPS_LOG", cases[i].level, 1);
        ips_log_init("who");
        log_all("t");
        assert_string_equal(said, cases[i].lines);
    }
}

static void test_log__text_of_a_peer(void **state)
{
    (void)state;
    setenv("IPS_LOG", "error", 1);
    ips_log_init("who");
    log_all("a\nb\tc\x1f d\x7f~\xc3\xa4");
    assert_string_equal(said, STAMP "who error a?b?c? d?~\xc3\xa4\n");
}

static void test_log__long_text(void **state)
{
    (void)state;
    char text[3000], who[80];
    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memset(who, 'w', sizeof(who) - 1);
    who[sizeof(who) - 1] = '\0';
    setenv("IPS_LOG", "error", 1);
    ips_log_init(who);
    log_all(text);
    assert_int_equal(strlen(said), 2047);
    assert_int_equal(said[2046], '\n');
    assert_int_equal(said[2045], 't');
    assert_int_equal(strspn(said + strlen(STAMP), "w"), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log__levels),
        cmocka_unit_test(test_log__text_of_a_peer),
        cmocka_unit_test(test_log__long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
