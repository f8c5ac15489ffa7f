/* Of what kind a file is that is about to be executed: files made byte by byte,
 * scripts of them, the search along a path, and the texts about them. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "agent/record/exec_target.h"
#include "agent/record/extra.h"

#if defined(__x86_64__)
#define HERE EM_X86_64
#define ELSEWHERE EM_AARCH64
#else
#define HERE EM_AARCH64
#define ELSEWHERE EM_X86_64
#endif
#define LOADER "/lib/ld-linux-any.so.2"

static char dir[] = "/tmp/ips-kinds-XXXXXX";
static char library[64];

static int begin(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkdir("sub", 0755), 0);
    snprintf(library, sizeof(library), "%s/library", dir);
    int fd = open(library, O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0 && close(fd) == 0);
    return 0;
}
static int end(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", dir);
    return chdir("/") || system(command);
}

/* --- files --- */
struct image {
    uint8_t class_;
    uint16_t machine;
    const char *loader; /* PT_INTERP; NULL: none */
    const char *needed; /* DT_NEEDED; NULL: no PT_DYNAMIC */
    unsigned before;    /* headers of other kinds before those */
    uint64_t far;       /* offset of what the headers name */
};

static void write_file(const char *path, const void *bytes, size_t n,
                       mode_t mode)
{
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void write_image(const char *path, const struct image *im, mode_t mode)
{
    static uint8_t all[65536];
    uint64_t at = im->far ? im->far : 4096;
    Elf64_Ehdr *e = (void *)all;
    Elf64_Phdr *part = (void *)(all + sizeof(*e));
    memset(all, 0, sizeof(all));
    memcpy(e->e_ident, ELFMAG, SELFMAG);
    e->e_ident[EI_CLASS] = im->class_;
    e->e_machine = im->machine;
    e->e_phoff = sizeof(*e);
    e->e_phentsize = sizeof(*part);
    for (unsigned i = 0; i < im->before; i++)
        *part++ = (Elf64_Phdr){.p_type = PT_NOTE};
    if (im->loader) {
        *part++ = (Elf64_Phdr){.p_type = PT_INTERP,
                               .p_offset = at,
                               .p_filesz = strlen(im->loader) + 1};
        strcpy((char *)all + at, im->loader);
        at += 512;
    }
    if (im->needed) {
        /* mapped 0x10000 above where they are in the file */
        *part++ = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0, .p_filesz = 8};
        *part++ = (Elf64_Phdr){.p_type = PT_LOAD,
                               .p_vaddr = 0x10000 + at,
                               .p_offset = at,
                               .p_filesz = 1024};
        *part++ = (Elf64_Phdr){
            .p_type = PT_DYNAMIC, .p_offset = at, .p_filesz = 4 * 16};
        Elf64_Dyn *d = (void *)(all + at);
        d[0] = (Elf64_Dyn){.d_tag = DT_NEEDED, .d_un.d_val = 1};
        d[1] = (Elf64_Dyn){.d_tag = DT_NEEDED, .d_un.d_val = 20};
        d[2] =
            (Elf64_Dyn){.d_tag = DT_STRTAB, .d_un.d_ptr = 0x10000 + at + 512};
        strcpy((char *)all + at + 513, "libm.so.6");
        strcpy((char *)all + at + 532, im->needed);
        at += 1024;
    }
    e->e_phnum = (uint16_t)(part - (Elf64_Phdr *)(void *)(all + sizeof(*e)));
    write_file(path, all, at + 64, mode);
}

static enum ips_target_kind look(const char *path)
{
    struct ips_target t;
    memset(&t, 0x5a, sizeof(t));
    ips_target_inspect(&t, AT_FDCWD, path, library);
    if (t.kind == IPS_TARGET_TRACED)
        assert_string_equal(t.path, "");
    else
        assert_string_equal(t.path, path);
    return t.kind;
}

/* Would catch: a field of the file's head read elsewhere, a loader's name that
 * is not compared to its end, headers behind the first kilobyte not read. */
static void test_exec_kinds__of_images(void **state)
{
    const struct {
        const char *path;
        struct image image;
        enum ips_target_kind kind;
    } cases[] = {
        {"plain", {2, HERE, LOADER, NULL, 0, 0}, IPS_TARGET_TRACED},
        {"near", {2, HERE, LOADER, NULL, 0, 512}, IPS_TARGET_TRACED},
        {"needs", {2, HERE, LOADER, "libc.so.6", 0, 0}, IPS_TARGET_TRACED},
        {"asan", {2, HERE, LOADER, "libasan.so.8", 0, 0}, IPS_TARGET_FIRST},
        {"asan-near",
         {2, HERE, LOADER, "libasan.so.8", 0, 512},
         IPS_TARGET_FIRST},
        {"clang",
         {2, HERE, LOADER, "libclang_rt.asan-x86_64.so", 3, 0},
         IPS_TARGET_FIRST},
        {"class", {1, HERE, LOADER, NULL, 0, 0}, IPS_TARGET_CLASS},
        {"machine", {2, ELSEWHERE, LOADER, NULL, 0, 0}, IPS_TARGET_MACHINE},
        {"static", {2, HERE, NULL, NULL, 5, 0}, IPS_TARGET_STATIC},
        {"musl",
         {2, HERE, "/lib/ld-musl-x86_64.so.1", NULL, 0, 0},
         IPS_TARGET_LOADER},
        {"many",
         {2, HERE, "/lib/ld-musl-x86_64.so.1", NULL, 60, 8192},
         IPS_TARGET_LOADER},
        {"old", {2, HERE, "/lib/ld-2.31.so", NULL, 0, 0}, IPS_TARGET_TRACED},
        {"other", {2, HERE, "/lib/ld64.so.2", NULL, 0, 0}, IPS_TARGET_TRACED},
        {"plain-name", {2, HERE, "ld.so", NULL, 0, 0}, IPS_TARGET_TRACED},
        {"longer-name",
         {2, HERE, "/lib/ld.so.1", NULL, 0, 0},
         IPS_TARGET_LOADER},
        {"ld-linux-mine.so", {2, HERE, NULL, NULL, 0, 0}, IPS_TARGET_BY_HAND},
        {"ld-musl-mine.so", {2, HERE, NULL, NULL, 0, 0}, IPS_TARGET_LOADER},
        {"./ld-linux-mine.so", {2, HERE, NULL, NULL, 0, 0}, IPS_TARGET_BY_HAND},
        {"sub/ld-musl-mine.so", {2, HERE, NULL, NULL, 0, 0}, IPS_TARGET_LOADER},
        {"of-64", {2, HERE, LOADER, NULL, 63, 8192}, IPS_TARGET_TRACED},
        {"of-65", {2, HERE, LOADER, NULL, 64, 8192}, IPS_TARGET_STATIC},
        {"libc.musl-mine.so", {2, HERE, NULL, NULL, 0, 0}, IPS_TARGET_LOADER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_image(cases[i].path, &cases[i].image, 0755);
        assert_int_equal(look(cases[i].path), cases[i].kind);
    }
    /* Whose file it is does not matter where nobody gains by it. */
    write_image("setuid", &cases[0].image, 04755);
    assert_int_equal(look("setuid"), IPS_TARGET_TRACED);
    if (geteuid() == 0) {
        assert_int_equal(chown("setuid", 4711, 4712), 0);
        assert_int_equal(chmod("setuid", 04755), 0);
        assert_int_equal(look("setuid"), IPS_TARGET_SETUID);
        assert_int_equal(chmod("setuid", 02755), 0);
        assert_int_equal(look("setuid"), IPS_TARGET_SETUID);
        assert_int_equal(chmod("setuid", 0755), 0);
        assert_int_equal(look("setuid"), IPS_TARGET_TRACED);
        assert_int_equal(chmod("setuid", 02745), 0);
        assert_int_equal(look("setuid"), IPS_TARGET_TRACED);
        assert_int_equal(chown("class", 4711, 4712), 0);
        assert_int_equal(chmod("class", 04755), 0);
        assert_int_equal(look("class"), IPS_TARGET_CLASS);
    }
    /* Not executable, no program, too short, not there. */
    const struct image other = {1, HERE, LOADER, NULL, 0, 0};
    write_image("no-right", &other, 0644);
    assert_int_equal(look("no-right"), IPS_TARGET_TRACED);
    write_file("text", "text of no meaning", 18, 0755);
    assert_int_equal(look("text"), IPS_TARGET_TRACED);
    write_file("short", "\177ELF\2", 5, 0755);
    assert_int_equal(look("short"), IPS_TARGET_TRACED);
    write_file("head", "\177ELF\2\0\0\0\0\0\0\0\0\0\0\0\0", 17, 0755);
    assert_int_equal(look("head"), IPS_TARGET_TRACED);
    assert_int_equal(look("absent"), IPS_TARGET_TRACED);
    assert_int_equal(look("sub"), IPS_TARGET_TRACED);
}

/* Changes what is at `at` of a file. */
static void patch(const char *path, uint64_t at, uint32_t value)
{
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &value, sizeof(value), (off_t)at),
                     sizeof(value));
    close(fd);
}

/* Would catch: half a loader's name taken for one, libraries needed by what is
 * no list of them, somebody's right to execute that is not looked at. */
static void test_exec_kinds__of_damaged_images(void **state)
{
    const struct image musl = {2,    HERE, "/lib/ld-musl-x86_64.so.1",
                               NULL, 0,    8192};
    const struct image asan = {2, HERE, LOADER, "libasan.so.8", 0, 0};
    const struct image other = {1, HERE, LOADER, NULL, 0, 0};
    const uint64_t dynamic = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
    static const mode_t rights[] = {0500, 0410, 0401};
    (void)state;
    write_image("cut", &musl, 0755);
    assert_int_equal(look("cut"), IPS_TARGET_LOADER);
    assert_int_equal(truncate("cut", 8192 + 12), 0);
    assert_int_equal(look("cut"), IPS_TARGET_TRACED);
    write_image("no-list", &asan, 0755);
    assert_int_equal(look("no-list"), IPS_TARGET_FIRST);
    patch("no-list", dynamic, PT_NOTE);
    assert_int_equal(look("no-list"), IPS_TARGET_TRACED);
    /* a list that lies behind the file's end */
    write_image("no-list", &asan, 0755);
    patch("no-list", dynamic + offsetof(Elf64_Phdr, p_offset), 1 << 20);
    assert_int_equal(look("no-list"), IPS_TARGET_TRACED);
    for (size_t i = 0; i < 3; i++) {
        write_image("right", &other, rights[i]);
        assert_int_equal(look("right"), IPS_TARGET_CLASS);
    }
}

/* Would catch: a verdict kept for a program that gains rights for some; a name
 * that ends in what another had; no search where there is no PATH; a static
 * program said to be one that our library is hidden from. */
static void test_exec_kinds__again(void **state)
{
    const struct image bad = {1, HERE, LOADER, NULL, 0, 0};
    const struct image alone = {2, HERE, NULL, NULL, 0, 0};
    const char *nowhere = "/nonexistent/library";
    struct ips_target t;
    struct stat st;
    (void)state;
    assert_non_null(ips_extra_get_or_map());
    write_image("sub/tool", &bad, 0755);
    write_image("sub/to", &bad, 0755);
    int below = open("sub", O_RDONLY | O_DIRECTORY);
    static const char *const names[] = {"../sub/../sub/tool", "tool", "to"};
    for (size_t i = 0; i < 3; i++) {
        ips_target_inspect(&t, below, names[i], library);
        assert_int_equal(t.kind, IPS_TARGET_CLASS);
    }
    close(below);
    write_image("alone", &alone, 0755);
    ips_target_inspect(&t, AT_FDCWD, "alone", nowhere);
    assert_int_equal(t.kind, IPS_TARGET_STATIC);
    ips_target_find_and_inspect(&t, "true", NULL, nowhere);
    assert_int_equal(t.kind, IPS_TARGET_HIDDEN);
    assert_int_equal(strcmp(t.path + 4, "/true"), 0); /* /bin */
    ips_target_find_and_inspect(&t, "true", "/nonexistent", nowhere);
    assert_int_equal(t.kind, IPS_TARGET_TRACED);
    const char *set = "/usr/bin/chage"; /* set-group-id, changed long ago */
    if (geteuid() != 0 || stat(set, &st) < 0 || !(st.st_mode & S_ISGID) ||
        !st.st_gid)
        return;
    assert_int_equal(setegid(st.st_gid), 0);
    assert_int_equal(look(set), IPS_TARGET_TRACED);
    assert_int_equal(setegid(0), 0);
    assert_int_equal(look(set), IPS_TARGET_SETUID);
}

static void script(const char *path, const char *line)
{
    write_file(path, line, strlen(line), 0755);
}

/* Would catch: an interpreter's name cut elsewhere than at a blank, a chain
 * that is followed one step too few or too many. */
static void test_exec_kinds__of_scripts(void **state)
{
    const struct image bad = {1, HERE, LOADER, NULL, 0, 0};
    const struct image by_hand = {2, HERE, NULL, NULL, 0, 0};
    char line[400];
    (void)state;
    write_image("wrong", &bad, 0755);
    write_image("ld-linux-y.so", &by_hand, 0755);
    static const char *const good[] = {"#!wrong\n", "#! \t wrong -x\n",
                                       "#!wrong\t-x\n", "#!./wrong \nrest"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        script("script", good[i]);
        assert_int_equal(look("script"), IPS_TARGET_CLASS);
    }
    static const char *const none[] = {"#!",        "#!\n",      "#!   \n",
                                       "#wrong\n",  "!#wrong\n", "#!wrong",
                                       "#!absent\n"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        script("script", none[i]);
        assert_int_equal(look("script"), IPS_TARGET_TRACED);
    }
    script("script", "#!ld-linux-y.so\n");
    assert_int_equal(look("script"), IPS_TARGET_TRACED);
    /* A chain: the file itself, and four interpreters. */
    script("s1", "#!wrong\n");
    script("s2", "#!s1\n");
    script("s3", "#!s2\n");
    script("s4", "#!s3\n");
    script("s5", "#!s4\n");
    assert_int_equal(look("s4"), IPS_TARGET_CLASS);
    assert_int_equal(look("s5"), IPS_TARGET_TRACED);
    /* As much of the line as the kernel reads: 255 bytes, and the blank. */
    for (int more = 0; more < 2; more++) {
        memset(line, '/', sizeof(line));
        memcpy(line, "#!.", 3);
        memcpy(line + 250 + more, "wrong\n", 7);
        script("script", line);
        assert_int_equal(look("script"),
                         more ? IPS_TARGET_TRACED : IPS_TARGET_CLASS);
    }
}

/* By a descriptor, relative to one, along a path. */
static void test_exec_kinds__of_found_files(void **state)
{
    const struct image bad = {1, HERE, LOADER, NULL, 0, 0};
    const struct image good = {2, HERE, LOADER, NULL, 0, 0};
    struct ips_target t;
    char both[200];
    (void)state;
    write_image("sub/tool", &bad, 0755);
    write_image("tool", &good, 0755);
    write_image("sub/only-below", &bad, 0755);
    int below = open("sub", O_RDONLY | O_DIRECTORY);
    int file = open("sub/tool", O_RDONLY);
    ips_target_inspect(&t, below, "tool", library);
    assert_int_equal(t.kind, IPS_TARGET_CLASS);
    assert_string_equal(t.path, "tool");
    ips_target_inspect(&t, file, "", library);
    assert_int_equal(t.kind, IPS_TARGET_CLASS);
    assert_string_equal(t.path, "(descriptor)");
    ips_target_inspect(&t, file, NULL, library);
    assert_int_equal(t.kind, IPS_TARGET_CLASS);
    ips_target_inspect(&t, -1, NULL, library);
    assert_int_equal(t.kind, IPS_TARGET_TRACED);
    close(below);
    close(file);

    static const struct {
        const char *file, *search;
        const char *path; /* NULL: traced */
    } cases[] = {
        {"tool", "/nonexistent:sub", "sub/tool"},
        {"tool", "sub:", "sub/tool"},
        {"tool", ":sub", NULL},
        {"tool", ".:sub", NULL},
        {"only-below", ":sub", "sub/only-below"},
        {"only-below", "", NULL},
        {"sub/tool", "/nonexistent", "sub/tool"},
        {"absent", ":sub", NULL},
        {"", "sub", NULL},
        {NULL, "sub", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ips_target_find_and_inspect(&t, cases[i].file, cases[i].search,
                                    library);
        assert_int_equal(t.kind,
                         cases[i].path ? IPS_TARGET_CLASS : IPS_TARGET_TRACED);
        assert_string_equal(t.path, cases[i].path ? cases[i].path : "");
    }
    snprintf(both, sizeof(both), "%s/sub", dir);
    ips_target_find_and_inspect(&t, "only-below", both, library);
    strcat(both, "/only-below");
    assert_string_equal(t.path, both);
    /* Without our library in reach a traced program is not one. */
    ips_target_inspect(&t, AT_FDCWD, "tool", "/nonexistent/library");
    assert_int_equal(t.kind, IPS_TARGET_HIDDEN);
    ips_target_inspect(&t, AT_FDCWD, "sub/tool", "/nonexistent/library");
    assert_int_equal(t.kind, IPS_TARGET_CLASS);
}

static void test_exec_kinds__of_the_environment(void **state)
{
    static char list[] = "ASAN_OPTIONS=a=1:verify_asan_link_order=0",
                check[] = "ASAN_OPTIONS=verify_asan_link_order=1",
                other[] = "XASAN_OPTIONS=verify_asan_link_order=0";
    struct {
        char *env[3];
        enum ips_target_kind kind;
    } cases[] = {
        {{list}, IPS_TARGET_TRACED},       {{other, list}, IPS_TARGET_TRACED},
        {{check}, IPS_TARGET_FIRST},       {{other}, IPS_TARGET_FIRST},
        {{check, list}, IPS_TARGET_FIRST}, {{NULL}, IPS_TARGET_FIRST},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ips_target t = {.kind = IPS_TARGET_FIRST, .path = "x"};
        ips_target_refine_by_arguments(&t, NULL, cases[i].env);
        assert_int_equal(t.kind, cases[i].kind);
        assert_int_equal(t.path[0] == '\0', t.kind == IPS_TARGET_TRACED);
    }
    struct ips_target t = {.kind = IPS_TARGET_FIRST, .path = "x"};
    ips_target_refine_by_arguments(&t, NULL, NULL);
    assert_int_equal(t.kind, IPS_TARGET_FIRST);
}

/* --- texts --- */
static void test_exec_kinds__texts(void **state)
{
    static const struct {
        const char *value, *left;
    } cases[] = {
        {"", ""},
        {"ours.so", ""},
        {"/a/ours.so", ""},
        {"/a/ours.so:b.so", "b.so"},
        {"b.so:/a/ours.so", "b.so"},
        {"b.so /a/ours.so c.so", "b.so:c.so"},
        {"ours.so:ours.so: :", ""},
        {"b.so", "b.so"},
        {"ours.so.1:b.so", "ours.so.1:b.so"},
        {"::b.so  c.so:", "b.so:c.so"},
        {"s.so", "s.so"},
    };
    static const char *const words[] = {"traced",
                                        "static",
                                        "set-user-id",
                                        "32-bit",
                                        "other-machine",
                                        "other-C-library",
                                        "library-out-of-reach",
                                        "AddressSanitizer",
                                        "loader",
                                        "loader",
                                        "not-examined"};
    char out[IPS_TARGET_TEXT], want[IPS_TARGET_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(out, 'x', sizeof(out));
        ips_preload_remove_library(out, cases[i].value, "ours.so");
        assert_string_equal(out, cases[i].left);
    }
    struct ips_target t = {.path = "/bin/some program"};
    for (unsigned k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
        t.kind = (enum ips_target_kind)k;
        int n = snprintf(want, sizeof(want), "untraced 1234567 %s %s", words[k],
                         t.path);
        memset(out, 'x', sizeof(out));
        assert_int_equal(ips_target_format_untraced(out, &t, 1234567), n);
        assert_string_equal(out, want);
        assert_int_equal(ips_target_keeps_preload(t.kind),
                         k <= IPS_TARGET_SETUID || k == IPS_TARGET_BY_HAND);
    }
    memset(t.path, 'p', sizeof(t.path)); /* without an end */
    t.kind = IPS_TARGET_STATIC;
    assert_int_equal(ips_target_format_untraced(out, &t, 0),
                     strlen("untraced 0 static ") + IPS_TARGET_PATH - 1);
    assert_int_equal(strlen(out),
                     strlen("untraced 0 static ") + IPS_TARGET_PATH - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec_kinds__of_images),
        cmocka_unit_test(test_exec_kinds__of_damaged_images),
        cmocka_unit_test(test_exec_kinds__again),
        cmocka_unit_test(test_exec_kinds__of_scripts),
        cmocka_unit_test(test_exec_kinds__of_found_files),
        cmocka_unit_test(test_exec_kinds__of_the_environment),
        cmocka_unit_test(test_exec_kinds__texts),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
