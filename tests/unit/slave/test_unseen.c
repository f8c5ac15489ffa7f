/* Lines of /proc/PID/maps; program files. */
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "slave/drain/unrecorded.h"

static bool map(const char *line, struct slave_unrecorded_row *row)
{
    return slave_unrecorded_parse_maps_line(line, "/dev/shm/pool", row);
}

/* Would catch: shared memory passed over; what is nobody's dependency - private
 * pages, our own segments, the C library's caches - taken for it. */
static void test_unseen__maps(void **state)
{
    (void)state;
    struct slave_unrecorded_row r;
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
    assert_true(map("7f12-7f13 r-xp 00005000 fe:01 77 "
                    "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0\n",
                    &r));
    assert_int_equal(r.kind, SLAVE_UNSEEN_OWN);
    assert_string_equal(r.path, "OpenMP (libgomp)");
    assert_true(map("7f12-7f13 r-xp 0 fe:01 7 /x/libgomp-a34b.so.1\n", &r));
    assert_false(map("7f12-7f13 r--p 0 fe:01 7 /x/libgomp.so.1\n", &r));
    assert_false(map("7f12-7f13 r-xp 0 fe:01 7 /libgomp.so.1/libc.so\n", &r));
    assert_false(map("7f12-7f13 r-xp 0 fe:01 7 /x/libompression.so\n", &r));
    assert_false(map("nonsense\n", &r));
    assert_false(map("", &r));
}

/* Would catch: a library at the end of a long path, which a buffer cuts off. */
static void test_unseen__long_paths(void **state)
{
    (void)state;
    struct slave_unrecorded_row r;
    char line[3000], dirs[2000];
    memset(dirs, 'd', sizeof(dirs) - 1);
    dirs[sizeof(dirs) - 1] = '\0';
    snprintf(line, sizeof(line), "7f12-7f13 r-xp 0 fe:01 7 /%s/libomp.so.5\n",
             dirs);
    assert_true(map(line, &r));
    assert_int_equal(r.kind, SLAVE_UNSEEN_OWN);
    assert_string_equal(r.path, "OpenMP (libomp)");
    snprintf(line, sizeof(line), "7f12-7f13 rw-s 0 fe:01 7 /%s/shared\n", dirs);
    assert_true(map(line, &r));
    assert_int_equal(strlen(r.path), sizeof(r.path) - 1);
}

static bool agent(const char *line)
{
    return slave_unrecorded_is_map_of_agent(line, "/dev/shm/pool");
}

/* Would catch: a recorded process taken for one that went on in a program
 * without the agent, also in a container with other paths; the reverse. */
static void test_unseen__maps_of_the_agent(void **state)
{
    (void)state;
    assert_true(agent("7f12-7f13 rw-s 0 00:19 9 /dev/shm/pool/r/spare.1\n"));
    assert_true(agent("7f12-7f13 rw-s 0 00:19 9 /r/1.1.a.seg (deleted)\n"));
    assert_true(agent("7f12-7f13 r-xp 0 fe:01 7 "
                      "/opt/lib/libips-preload.so.0.1.0\n"));
    assert_false(agent("7f12-7f13 rw-s 0 00:19 9 /dev/shm/pool2/x\n"));
    assert_false(agent("7f12-7f13 r-xp 0 fe:01 7 /usr/lib/libc.so.6\n"));
    assert_false(agent("7f12-7f13 r-xp 0 fe:01 7 /opt/libips/lib/a.so\n"));
    assert_false(agent("7f12-7f13 rw-p 0 00:00 0 [heap]\n"));
    assert_false(agent("nonsense"));
}

/* Would catch: an exec that was recorded, or a program that recorded, called
 * unrecorded; one that was not, passed over. */
static void test_unseen__program_without_a_record(void **state)
{
    (void)state;
    struct ips_proc p[] = {{.pid = 10, .image_stamp = 100},
                           {.pid = 10, .image_stamp = 300, .left_image = true}};
    const struct ips_built b = {.procs = p, .proc_count = 2};
    struct slave_unrecorded_row r = {
        .kind = SLAVE_UNSEEN_PROGRAM, .pid = 10, .ino = 100};
    assert_true(slave_unrecorded_is_program_change(&b, &r));
    r.ino = 300; /* left by an exec of which there is a record */
    assert_false(slave_unrecorded_is_program_change(&b, &r));
    r.ino = 200; /* a later image of the process recorded */
    assert_false(slave_unrecorded_is_program_change(&b, &r));
    r.ino = 100;
    p[0].recorded_end = true; /* so the pid was another's */
    assert_false(slave_unrecorded_is_program_change(&b, &r));
    p[0].recorded_end = false;
    assert_true(slave_unrecorded_is_program_change(&b, &r));
    r.kind = SLAVE_UNSEEN_OWN;
    assert_false(slave_unrecorded_is_program_change(&b, &r));
}

/* Would catch: what /proc says of a pid taken for a process that has ended,
 * whether its parent has waited for it or not. */
static void test_unseen__pid_of_another(void **state)
{
    (void)state;
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    assert_true(pid > 0);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(fd >= 0);
    assert_false(slave_unrecorded_has_process_ended(fd));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(slave_unrecorded_has_process_ended(fd));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(slave_unrecorded_has_process_ended(fd));
    close(fd);
    assert_false(slave_unrecorded_has_process_ended(-1));
}

/* A program file of one note, whose owner has `bytes` of name. */
struct program {
    Elf64_Ehdr e;
    Elf64_Phdr h[2];
    Elf64_Nhdr before;
    char gnu[4], text[8];
    Elf64_Nhdr note;
    char name[4];
};

static bool go(const struct program *p, size_t bytes)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, bytes, f), bytes);
    assert_int_equal(fflush(f), 0);
    bool made = slave_unrecorded_is_go_program(fileno(f));
    fclose(f);
    return made;
}

/* Would catch: a program of Go, which records nothing, not named; another one
 * named so; a file that is cut off or that lies, read beyond its end. */
static void test_unseen__programs_of_go(void **state)
{
    (void)state;
    struct program p = {
        .e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
              .e_phoff = offsetof(struct program, h),
              .e_phentsize = sizeof(Elf64_Phdr),
              .e_phnum = 2},
        .h = {{.p_type = PT_LOAD},
              {.p_type = PT_NOTE,
               .p_offset = offsetof(struct program, before),
               .p_filesz = sizeof(p) - offsetof(struct program, before)}},
        .before = {.n_namesz = 4, .n_descsz = 7, .n_type = 1},
        .gnu = "GNU",
        .note = {.n_namesz = 4, .n_descsz = 0, .n_type = 4},
        .name = "Go"};
    assert_true(go(&p, sizeof(p)));
    for (size_t cut = 0; cut < sizeof(p); cut++)
        assert_false(go(&p, cut));
    memcpy(p.name, "GNU", 4);
    assert_false(go(&p, sizeof(p)));
    memcpy(p.name, "Go", 3);
    p.before.n_descsz = UINT32_MAX - 2;
    assert_false(go(&p, sizeof(p)));
    p.before.n_descsz = 7;
    p.e.e_phoff = UINT64_MAX - 40;
    assert_false(go(&p, sizeof(p)));
    p.e.e_phoff = offsetof(struct program, h);
    p.e.e_ident[EI_CLASS] = ELFCLASS32;
    assert_false(go(&p, sizeof(p)));
}

/* Two processes had pid 7, one after the other. */
static struct ips_proc procs[3] = {{.pid = 7}, {.pid = 8}, {.pid = 7}};

static struct ips_built built(void)
{
    strcpy(procs[0].name, "old.7");
    strcpy(procs[1].name, "b.8");
    strcpy(procs[2].name, "a.7");
    return (struct ips_built){.procs = procs, .proc_count = 3};
}

/* Says `expected`, a line each. */
static void describes(const struct ips_built *b,
                      const struct slave_unrecorded_row *rows, uint32_t count,
                      const char *expected)
{
    char **lines, text[4096] = "";
    uint32_t n = slave_unrecorded_describe(b, "m1", rows, count, &lines);
    for (uint32_t i = 0; i < n; i++) {
        strcat(text, lines[i]);
        strcat(text, "\n");
        free(lines[i]);
    }
    free(lines);
    assert_string_equal(text, expected);
}

#define MOVES ": IPS does not see what moves through it\n"
#define EXCHANGE ": IPS does not see what they exchange there\n"

/* Would catch: memory that one process alone maps, twice perhaps, or that
 * nobody may write; two objects taken for one, or one for two; a process that
 * had the pid before; the same told twice. */
static void test_unseen__described(void **state)
{
    enum { S = SLAVE_UNSEEN_SHARED };
    static const struct slave_unrecorded_row rows[] = {
        {S, false, 9, 1, 20, "/dev/shm/y"},
        {S, true, 7, 1, 20, "/dev/shm/y"},
        {S, false, 8, 1, 20, "/dev/shm/y"},
        {S, false, 8, 1, 20, "/dev/shm/y"},
        {S, true, 8, 2, 20, "/alone"},
        {S, true, 8, 2, 20, "/alone"},
        {S, false, 7, 3, 20, "/read"},
        {S, false, 8, 3, 20, "/read"},
        {S, true, 8, 1, 21, "/x"},
        {S, false, 7, 1, 21, "/x"},
        {SLAVE_UNSEEN_URING, 0, 8, 0, 0, ""},
        {SLAVE_UNSEEN_AIO, 0, 9, 5, 1, ""},
        {SLAVE_UNSEEN_AIO, 0, 9, 5, 2, ""},
        {SLAVE_UNSEEN_OWN, 0, 7, 0, 0, "OpenMP (libgomp)"},
        {SLAVE_UNSEEN_PROGRAM, 0, 7, 0, 0, "/bin/other"}};
    struct ips_unrecorded one = {.process = 1, .what = "io_uring"};
    struct ips_built b = built();
    (void)state;
    b.unrecorded = &one;
    b.unrecorded_count = 1;
    describes(&b, NULL, 0, "io_uring in /m1/b.8" MOVES);
    struct slave_unrecorded_row shared[10];
    memcpy(shared, rows, sizeof(shared));
    b.unrecorded_count = 0;
    describes(&b, shared, 10,
              "memory shared by /m1/a.7, /m1/b.8 and 1 more "
              "(/dev/shm/y)" EXCHANGE
              "memory shared by /m1/a.7, /m1/b.8 (/x)" EXCHANGE);
    describes(&b, shared + 4, 4, "");
    b.unrecorded_count = 1;
    describes(&b, rows + 10, 1, "io_uring in /m1/b.8" MOVES);
    b.unrecorded_count = 0;
    describes(&b, rows + 11, 2, "kernel AIO in process 9 of m1" MOVES);
    describes(&b, rows + 13, 2, "OpenMP (libgomp) in /m1/a.7" MOVES);
}

/* Would catch: lines beyond the array's end, and what is left out untold. */
static void test_unseen__described_in_part(void **state)
{
    struct slave_unrecorded_row rows[SLAVE_UNSEEN_LINES + 8];
    struct ips_built b = built();
    char **lines;
    (void)state;
    for (uint32_t count = SLAVE_UNSEEN_LINES - 1;
         count <= SLAVE_UNSEEN_LINES + 8; count++) {
        for (uint32_t i = 0; i < count; i++)
            rows[i] = (struct slave_unrecorded_row){.kind = SLAVE_UNSEEN_URING,
                                                    .pid = 100 + i};
        uint32_t n = slave_unrecorded_describe(&b, "m1", rows, count, &lines);
        uint32_t more = count - (SLAVE_UNSEEN_LINES - 1);
        char last[64];
        snprintf(last, sizeof(last), "%u more of the kind on m1", more);
        assert_int_equal(n, SLAVE_UNSEEN_LINES - 1 + (more > 0));
        if (more)
            assert_string_equal(lines[n - 1], last);
        for (uint32_t i = 0; i < n; i++)
            free(lines[i]);
        free(lines);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unseen__described),
        cmocka_unit_test(test_unseen__described_in_part),
        cmocka_unit_test(test_unseen__maps),
        cmocka_unit_test(test_unseen__long_paths),
        cmocka_unit_test(test_unseen__maps_of_the_agent),
        cmocka_unit_test(test_unseen__program_without_a_record),
        cmocka_unit_test(test_unseen__pid_of_another),
        cmocka_unit_test(test_unseen__programs_of_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
