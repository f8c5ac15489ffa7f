/* What ipsrun looks for before a run begins: a run to join, daemons that run
 * already, a library that every user's loader takes. Catches: a run taken for
 * another, a wait that is too short or without end, a daemon started twice or
 * with another's arguments, a library that other users cannot load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"
#include "common/daemon.h"
#include "common/nearest.h"
#include "common/types.h"

/* ---- the world ---- */

static char top[] = "/tmp/ips-places-XXXXXX";
static struct ipsrun_options opt;
static char said[4096];   /* on standard error */
static char failed[2048]; /* by ipsrun_print_failure */
static unsigned pauses;   /* that were made */
static uint64_t pause_ns; /* the last one's length */
static unsigned appears;  /* the run is here from this pause on; 0: never */
static unsigned asked;    /* how often the master was */
static unsigned known;    /* it knows the run from this question on; 0: never */
static const char *listed, *stderr_file; /* what ipsq prints */
static bool real_child, no_program;
static unsigned started;
static char argv_is[2][1400], log_is[2][600];

static const char *path_of(const char *name)
{
    static char path[4][600];
    static unsigned turn;
    char *at = path[turn++ % 4];
    snprintf(at, 600, "%s/%s", top, name);
    return at;
}

static void make_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void run_begins(void)
{
    mkdir(path_of("pool/r"), 0700);
    make_file(path_of("pool/r/control"), "", 0600);
}

static int fake_pause(const struct timespec *ts, struct timespec *left)
{
    assert_null(left);
    assert_int_equal(ts->tv_sec, 0);
    pause_ns = (uint64_t)ts->tv_nsec;
    if (++pauses == appears)
        run_begins();
    return 0;
}

static int fake_program(const char *name, char out[IPS_PATH_BYTES],
                        struct ips_err *err)
{
    snprintf(out, IPS_PATH_BYTES, "%s/bin/%s", top, name);
    return no_program ? ips_err_set(err, IPS_E_IO, "program %s", name) : 0;
}

struct ipsq_child;
static void say(void *arg);
static int fake_run(void (*run)(void *), void *arg)
{
    asked++;
    if (real_child)
        return ips_run_outside_child_rusage(run, arg);
    say(arg);
    return 0;
}

static int fake_start(char *const argv[], const char *log, struct ips_err *err)
{
    char *at = argv_is[started];
    *at = '\0';
    for (int i = 0; argv[i]; i++)
        at += sprintf(at, "%s ", argv[i]);
    snprintf(log_is[started++], sizeof(log_is[0]), "%s", log);
    return no_program ? ips_err_set(err, IPS_E_IO, "no fork") : 0;
}

int ipsrun_print_failure(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(failed, sizeof(failed), fmt, ap);
    va_end(ap);
    return IPSRUN_FAILED;
}

static int to_said(FILE *f, const char *fmt, ...)
{
    va_list ap;
    assert_ptr_equal(f, stderr);
    va_start(ap, fmt);
    vsnprintf(said + strlen(said), sizeof(said) - strlen(said), fmt, ap);
    va_end(ap);
    return 0;
}

#define nanosleep fake_pause
#define ips_path_find_program fake_program
#define ips_run_outside_child_rusage fake_run
#define ips_daemon_start_detached fake_start
#define fprintf to_said
#include "agent/ipsrun/daemons.c"
#include "agent/ipsrun/join.c"
#include "agent/ipsrun/library.c"
#undef fprintf
#undef ips_run_outside_child_rusage

static void say(void *arg)
{
    const struct ipsq_child *c = arg;
    fprintf(c->out, "%s", known && asked >= known ? "run\tx\nr\t1\n" : listed);
    fprintf(c->stderr_file, "%s", stderr_file);
    fflush(c->out);
    fflush(c->stderr_file);
}

static int begin(void **state)
{
    (void)state;
    memset(&opt, 0, sizeof(opt));
    strcpy(top + strlen(top) - 6, "XXXXXX");
    assert_non_null(mkdtemp(top));
    static const char *const dirs[] = {"pool", "bin", "state", "lib"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(mkdir(path_of(dirs[i]), 0755), 0);
    snprintf(opt.pool, sizeof(opt.pool), "%s", path_of("pool"));
    snprintf(opt.state, sizeof(opt.state), "%s", path_of("state"));
    snprintf(opt.master, sizeof(opt.master), "unix:%s", path_of("s"));
    strcpy(opt.machine, "m");
    opt.join = "r";
    said[0] = failed[0] = '\0';
    pauses = appears = asked = known = started = 0;
    listed = "run\tbegan\n";
    stderr_file = "";
    real_child = no_program = false;
    umask(022);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof(command), "rm -r %s", top);
    return system(command);
}

/* ---- a run to join ---- */

static void test_ipsrun_places__run_is_here(void **state)
{
    (void)state;
    char command[300];
    opt.join = ".wrong"; /* making it will say so */
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    opt.join = "r";
    run_begins();
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    assert_int_equal(unlink(path_of("pool/r/control")), 0);
    snprintf(command, sizeof(command), "mkdir -p %s",
             path_of("state/slave-m/runs/r"));
    assert_int_equal(system(command), 0);
    assert_false(is_run_on_this_machine(&opt));
    make_file(path_of("state/slave-m/runs/r/archive"), "", 0600);
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    strcpy(opt.machine, "n");
    assert_false(is_run_on_this_machine(&opt));
    assert_int_equal(pauses + asked, 0);
}

static void test_ipsrun_places__run_comes(void **state)
{
    (void)state;
    appears = 100; /* the last look of 2 s, every 20 ms */
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    assert_int_equal(pauses, 100);
    assert_int_equal(pause_ns, 20000000);
    assert_int_equal(asked, 0);
    unlink(path_of("pool/r/control"));
    pauses = 0;
    appears = 101;
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), IPSRUN_FAILED);
    assert_int_equal(pauses, 100);
    assert_int_equal(asked, 1); /* a master of our own: once */
    char want[1800];
    snprintf(want, sizeof(want),
             "--join r: there is no such run in %s or at the master at %s\n"
             "`ipsq --master %s runs` lists the runs, `ipsrun --name r` begins "
             "one",
             opt.pool, opt.master, opt.master);
    assert_string_equal(failed, want);
    assert_string_equal(said, "");
}

static void test_ipsrun_places__run_at_the_master(void **state)
{
    (void)state;
    opt.master_set = true;
    known = 1;
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    assert_int_equal(pauses, 0);
    assert_string_equal(said, "");
    asked = 0;
    known = 3;
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    assert_int_equal(pauses, 2);
    assert_int_equal(pause_ns, 50000000);
    assert_string_equal(said, "ipsrun: run r has not begun yet; waiting for "
                              "it, 30 s at most\n");
    said[0] = '\0';
    opt.quiet = true;
    asked = pauses = known = 0;
    listed = "run\tx\nran\t1\nrr\t2\n";
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), IPSRUN_FAILED);
    assert_int_equal(asked, 601);
    assert_int_equal(pauses, 600);
    assert_string_equal(said, "");
    pauses = asked = 0;
    appears = 2; /* here, meanwhile */
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
    assert_int_equal(asked, 2);
}

static void test_ipsrun_places__no_answer(void **state)
{
    (void)state;
    static const struct {
        const char *list, *stderr_file, *why;
        bool no_program;
    } cases[] = {{"", "ipsq: nobody\nmore\n", "ipsq: nobody", false},
                 {"text\n", "why", "why", false},
                 {"", "", "ipsq cannot be run", false},
                 {"run\nr\n", "", "program ipsq", true}};
    opt.master_set = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char want[1000];
        said[0] = '\0';
        listed = cases[i].list;
        stderr_file = cases[i].stderr_file;
        no_program = cases[i].no_program;
        assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), -1);
        snprintf(want, sizeof(want),
                 "ipsrun: cannot tell whether run r exists: the master at %s "
                 "did not answer (%s); recording it on this machine all the "
                 "same\n",
                 opt.master, cases[i].why);
        assert_string_equal(said, want);
    }
    opt.master_set = false; /* our own: there is none */
    said[0] = '\0';
    assert_int_equal(ipsrun_wait_until_run_to_join_exists(&opt), IPSRUN_FAILED);
    assert_string_equal(said, "");
    assert_int_equal(pauses, 100);
}

static void test_ipsrun_places__lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *near;
        enum answer answer;
    } cases[] = {
        {"", "", NO_ANSWER},
        {"r-123\n", "", NO_ANSWER}, /* no heading */
        {"runs\tx\nr-123\n", "", NO_ANSWER},
        {"run\n", "", RUN_UNKNOWN},
        {"run\tx\nr-124\t1\n", "; did you mean 'r-124'?", RUN_UNKNOWN},
        {"run\tx\nr-124\t1\nr-123\t2\n", "; did you mean 'r-124'?", RUN_KNOWN},
        {"run\tx\nr-1234\nx\tr-123\n", "; did you mean 'r-1234'?", RUN_UNKNOWN},
        {"run\tx\nr-123", "", RUN_KNOWN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ips_nearest near;
        FILE *f = create_memory_file();
        fputs(cases[i].list, f);
        rewind(f);
        ips_nearest_start_search(&near, "r-123");
        assert_int_equal(find_run_in_list(f, "r-123", &near), cases[i].answer);
        assert_string_equal(ips_nearest_format_suggestion(&near),
                            cases[i].near);
        fclose(f);
    }
}

/* Would catch: another question, or its answer and its complaint exchanged. */
static void test_ipsrun_places__ipsq_is_asked(void **state)
{
    (void)state;
    struct master_query a = {.o = &opt};
    char script[900];
    real_child = true;
    for (int i = 0; i < 2; i++) {
        opt.insecure = i;
        snprintf(script, sizeof(script),
                 "#!/bin/sh\n[ \"$*\" = '--master %s runs --format tsv%s' ] && "
                 "printf 'run\\nr\\n' && exit\necho \"no: $*\" >&2\n",
                 opt.master, i ? " --insecure" : "");
        make_file(path_of("bin/ipsq"), script, 0755);
        enum answer answer = ask_master_for_run_to_join(&a);
        if (answer != RUN_KNOWN)
            fail_msg("%s", a.why);
    }
    opt.insecure = false;
    assert_int_equal(ask_master_for_run_to_join(&a), NO_ANSWER);
    snprintf(script, sizeof(script), "no: --master %s runs --format tsv",
             opt.master);
    assert_string_equal(a.why, script);
}

/* ---- daemons ---- */

static void test_ipsrun_places__daemons(void **state)
{
    (void)state;
    char want[2][2000];
    unsetenv("IPS_TLS");
    snprintf(want[0], sizeof(want[0]),
             "%s/bin/ips-master --private --state %s --listen %s ", top,
             opt.state, opt.master);
    snprintf(want[1], sizeof(want[1]),
             "%s/bin/ips-slave --private --pool %s --state %s --machine m "
             "--master %s ",
             top, opt.pool, opt.state, opt.master);
    ipsrun_start_missing_daemons(&opt);
    assert_int_equal(started, 2);
    assert_string_equal(argv_is[0], want[0]);
    assert_string_equal(argv_is[1], want[1]);
    assert_string_equal(log_is[0], path_of("state/master.log"));
    assert_string_equal(log_is[1], path_of("state/slave.log"));
    assert_string_equal(said, "");
    /* a slave has the lock, a master listens */
    int lock = open(path_of("pool/" IPS_POOL_SLAVE_LOCK), O_RDWR);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    strcpy(un.sun_path, opt.master + 5);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&un, sizeof(un)), 0);
    started = 0;
    ipsrun_start_missing_daemons(&opt); /* bound, but nobody listens */
    assert_int_equal(started, 1);
    assert_string_equal(argv_is[0], want[0]);
    assert_int_equal(listen(s, 0), 0);
    for (int i = 0; i < 4; i++) { /* also one that is busy */
        started = 0;
        ipsrun_start_missing_daemons(&opt);
        assert_int_equal(started, 0);
        int c = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(c, (struct sockaddr *)&un, sizeof(un));
    }
    close(lock);
    opt.insecure = true;
    ipsrun_start_missing_daemons(&opt);
    assert_int_equal(started, 1);
    strcat(want[1], "--insecure ");
    assert_string_equal(argv_is[0], want[1]);
    close(s);
}

static void test_ipsrun_places__daemons_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *master, *keys;
        unsigned started;
        const char *said;
    } cases[] = {
        {"tcp:127.0.0.1:70", NULL, 1, ""},
        {"tls:10.0.0.1:70", "/keys", 1, ""},
        {"tls:10.0.0.1:70", "keys", 0, "ipsrun: no private slave: it would "},
        {"tls:10.0.0.1:70", NULL, 0, "ipsrun: no private slave: it would "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int quiet = 0; quiet < 2; quiet++) {
            strcpy(opt.master, cases[i].master);
            if (cases[i].keys)
                setenv("IPS_TLS", cases[i].keys, 1);
            else
                unsetenv("IPS_TLS");
            opt.quiet = quiet;
            said[0] = '\0';
            started = 0;
            ipsrun_start_missing_daemons(&opt);
            assert_int_equal(started, cases[i].started);
            if (quiet || !*cases[i].said)
                assert_string_equal(said, "");
            else
                assert_int_equal(
                    strncmp(said, cases[i].said, strlen(cases[i].said)), 0);
        }
    /* a path that no socket has: 107 bytes are the most */
    memset(opt.master, 'p', 120);
    memcpy(opt.master, "unix:/", 6);
    opt.master[5 + 108] = '\0';
    assert_false(must_start_master(opt.master));
    opt.master[5 + 107] = '\0';
    assert_true(must_start_master(opt.master));
    no_program = true;
    opt.quiet = false;
    said[0] = '\0';
    start_private_daemon(&opt, "ips-slave", "slave.log",
                         (const char *[]){NULL});
    assert_string_equal(said, "ipsrun: no private ips-slave (program "
                              "ips-slave); the run is recorded all the "
                              "same\n");
    said[0] = '\0';
    opt.quiet = true;
    start_private_daemon(&opt, "ips-slave", "slave.log",
                         (const char *[]){NULL});
    assert_string_equal(said, "");
}

/* ---- the library ---- */

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void test_ipsrun_places__library_for_all(void **state)
{
    (void)state;
    char library[IPS_PATH_BYTES], first[IPS_PATH_BYTES], text[20] = "";
    snprintf(library, sizeof(library), "%s", path_of("lib/l.so"));
    make_file(library, "the library", 0755);
    assert_int_equal(chmod(top, 0755), 0);
    assert_int_equal(ipsrun_make_library_loadable(library, opt.pool), 0);
    assert_string_equal(library, path_of("lib/l.so")); /* as it is */
    if (geteuid() != 0)
        return;
    static const struct {
        const char *what;
        mode_t mode, good;
    } ways[] = {{"lib", 0754, 0755}, {"lib/l.so", 0753, 0755}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(chmod(path_of(ways[i].what), ways[i].mode), 0);
        snprintf(library, sizeof(library), "%s", path_of("lib/l.so"));
        assert_int_equal(ipsrun_make_library_loadable(library, opt.pool), 0);
        assert_int_equal(strncmp(library, path_of("pool/.preload-"), 30), 0);
        assert_string_equal(strrchr(library, '/'), "/l.so");
        assert_int_equal(mode_of(library), 0755);
        int fd = open(library, O_RDONLY);
        assert_int_equal(read(fd, text, sizeof(text)), 11);
        assert_string_equal(text, "the library");
        close(fd);
        if (i == 0)
            strcpy(first, library);
        else
            assert_string_equal(library, first); /* one copy */
        *strrchr(library, '/') = '\0';
        assert_int_equal(mode_of(library), 0711);
        assert_int_equal(chmod(path_of(ways[i].what), ways[i].good), 0);
    }
    /* another build has another copy; a pool that others do not reach none */
    assert_int_equal(chmod(path_of("lib"), 0700), 0);
    make_file(path_of("lib/l.so"), "a library", 0755);
    snprintf(library, sizeof(library), "%s", path_of("lib/l.so"));
    assert_int_equal(ipsrun_make_library_loadable(library, opt.pool), 0);
    assert_string_not_equal(library, first);
    assert_int_equal(chmod(opt.pool, 0750), 0);
    snprintf(library, sizeof(library), "%s", path_of("lib/l.so"));
    assert_int_equal(ipsrun_make_library_loadable(library, opt.pool), 0);
    assert_string_equal(library, path_of("lib/l.so"));
}

static void test_ipsrun_places__library_with_blanks(void **state)
{
    (void)state;
    static const char *const names[] = {"a b", "a:b"};
    char library[IPS_PATH_BYTES], own[IPS_PATH_BYTES], to[IPS_PATH_BYTES];
    assert_int_equal(chmod(top, 0755), 0);
    for (size_t i = 0; i < 2; i++) {
        memset(to, 0, sizeof(to));
        assert_int_equal(mkdir(path_of(names[i]), 0755), 0);
        snprintf(own, sizeof(own), "%s/l.so", path_of(names[i]));
        make_file(own, "l", 0755);
        for (int again = 0; again < 2; again++) {
            strcpy(library, own);
            assert_int_equal(link_library_without_blanks(library, opt.pool), 0);
            assert_true(readlink(library, to, sizeof(to) - 1) > 0);
            assert_string_equal(to, own);
        }
        *strrchr(library, '/') = '\0';
        assert_int_equal(mode_of(library), 0700);
        strcpy(library, own);
        assert_int_equal(ipsrun_make_library_loadable(library, "/with blank"),
                         IPSRUN_FAILED);
        char want[700];
        snprintf(
            want, sizeof(want),
            "%s: the loader takes no path with a blank or a colon; install "
            "IPS elsewhere, or give --pool a plain path",
            own);
        assert_string_equal(failed, want);
        strcpy(library, own);
        assert_int_equal(ipsrun_make_library_loadable(library, "/none"),
                         IPSRUN_FAILED);
    }
}

static void test_ipsrun_places__copies(void **state)
{
    (void)state;
    char from[600], to[600], *text = malloc(200001), *got = malloc(200001);
    snprintf(from, sizeof(from), "%s", path_of("from"));
    snprintf(to, sizeof(to), "%s", path_of("to"));
    memset(text, 'x', 200000);
    text[65536] = 'y';
    text[200000] = '\0';
    make_file(from, text, 0600);
    assert_int_equal(copy_library(from, to), 0);
    FILE *f = fopen(to, "r");
    assert_int_equal(fread(got, 1, 200001, f), 200000);
    assert_memory_equal(got, text, 200000);
    fclose(f);
    free(text);
    free(got);
    assert_int_equal(copy_library(path_of("absent"), to), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(copy_library(from, path_of("none/to")), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(copy_library(path_of("lib"), to), -1);
    assert_int_equal(errno, EISDIR);
    char part[700];
    snprintf(part, sizeof(part), "%s.%ld", to, (long)getpid());
    assert_int_equal(access(part, F_OK), -1); /* nothing half done stays */
    assert_true(is_reachable_by_all_users("/etc/passwd"));
    assert_false(is_reachable_by_all_users("/nonexistent/x"));
    assert_false(is_readable_by_all_users(from));
    assert_int_equal(chmod(from, 0604), 0);
    assert_int_equal(chmod(top, 0701), 0);
    assert_true(is_readable_by_all_users(from));
    assert_int_equal(chmod(top, 0706), 0);
    assert_false(is_readable_by_all_users(from));
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Would catch: a descriptor that the command inherits, or one less for it. */
static void test_ipsrun_places__no_descriptor_stays(void **state)
{
    (void)state;
    struct master_query a = {.o = &opt};
    const unsigned before = open_descriptors();
    assert_int_equal(ask_master_for_run_to_join(&a), RUN_UNKNOWN);
    assert_false(is_slave_running(opt.pool));
    assert_true(must_start_master(opt.master));
    make_file(path_of("from"), "text", 0600);
    assert_int_equal(copy_library(path_of("from"), path_of("to")), 0);
    assert_int_equal(copy_library(path_of("from"), path_of("none/to")), -1);
    assert_int_equal(copy_library(path_of("none"), path_of("to")), -1);
    assert_false(must_start_master("unix"));
    assert_false(must_start_master("unixx/tmp/socket"));
    assert_int_equal(open_descriptors(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ipsrun_places__run_is_here),
        TEST(test_ipsrun_places__run_comes),
        TEST(test_ipsrun_places__run_at_the_master),
        TEST(test_ipsrun_places__no_answer),
        TEST(test_ipsrun_places__lists),
        TEST(test_ipsrun_places__ipsq_is_asked),
        TEST(test_ipsrun_places__daemons),
        TEST(test_ipsrun_places__daemons_elsewhere),
        TEST(test_ipsrun_places__library_for_all),
        TEST(test_ipsrun_places__library_with_blanks),
        TEST(test_ipsrun_places__copies),
        TEST(test_ipsrun_places__no_descriptor_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
