/* Lines of /proc/PID/maps; program files. */
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unseen__maps),
        cmocka_unit_test(test_unseen__long_paths),
        cmocka_unit_test(test_unseen__maps_of_the_agent),
        cmocka_unit_test(test_unseen__program_without_a_record),
        cmocka_unit_test(test_unseen__pid_of_another),
        cmocka_unit_test(test_unseen__programs_of_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
