/* Symbol files that are too large, that their reader may not read, or that kill
 * it (slave/symbols/symbols.h). Needs gcc, strip and objcopy. */
#include "tests/unit/help/symbols_help.h"

/* Catches: a debug file, or a program, of 8 GiB of nothing that is read to its
 * end, and names that are missing without a word why. */
static void test_symbols_limits__large_files_are_not_read(void **state)
{
    (void)state;
    uint64_t start, size;
    run("gcc -O2 -g -DMAIN -Wl,--build-id=none a.c -o big");
    run("objcopy --only-keep-debug big big.debug && strip -g big &&"
        " objcopy --add-gnu-debuglink=big.debug big");
    extent("big", "heavy", &start, &size);
    struct found *f = look("big", start, 1, NULL, 0, 0);
    assert_int_equal(f->rc, 0);
    assert_string_equal(f->why, "");
    assert_int_equal(f->symbol[0].grade, SLAVE_SYMBOL_DEBUG);
    found_free(f);
    run("truncate -s 8G big.debug");
    f = look("big", start, 1, NULL, 0, 0);
    assert_int_equal(f->rc, 0);
    assert_string_equal(frames(&f->symbol[0]), "heavy@:0");
    assert_non_null(strstr(f->why, "big.debug has 8589934592 bytes"));
    found_free(f);
    run("truncate -s 1G big.debug"); /* no checksum of so much */
    f = look("big", start, 1, NULL, 0, 0);
    assert_string_equal(frames(&f->symbol[0]), "heavy@:0");
    assert_non_null(strstr(f->why, "--build-id"));
    found_free(f);
    run("truncate -s 8G big");
    f = look("big", start, 1, NULL, 0, 0);
    assert_int_equal(f->rc, IPS_E_LIMIT);
    assert_non_null(strstr(f->why, "big has 8589934592 bytes"));
    found_free(f);
    run("rm big big.debug");
}

/* Catches: a debug file that was read, reported as missing because another one
 * of that name is too large. */
static void test_symbols_limits__a_later_debug_file_is_enough(void **state)
{
    (void)state;
    uint64_t start, size;
    run("gcc -O2 -g -DMAIN -Wl,--build-id=none a.c -o big");
    run("objcopy --only-keep-debug big big.debug && strip -g big &&"
        " objcopy --add-gnu-debuglink=big.debug big && mkdir .debug &&"
        " mv big.debug .debug && truncate -s 8G big.debug");
    extent("big", "heavy", &start, &size);
    struct found *f = look("big", start, 1, NULL, 0, 0);
    assert_int_equal(f->rc, 0);
    assert_int_equal(f->symbol[0].grade, SLAVE_SYMBOL_DEBUG);
    assert_string_equal(f->why, "");
    found_free(f);
    run("rm -r big big.debug .debug");
}

static void put_file(const char *name, const char *text)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* One address of that file, by a helper; what it is and why not. */
static void ask_one(const char *file, uint64_t address, uint32_t uid,
                    struct slave_symbol *out, struct ips_err *why)
{
    char path[100];
    struct ips_err err = {0};
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    const struct slave_symbol_ask ask = {.path = path,
                                         .uid = uid,
                                         .debug_root = "/nowhere",
                                         .addresses = &address,
                                         .count = 1};
    *why = (struct ips_err){0};
    *out = (struct slave_symbol){0};
    assert_int_equal(
        slave_symbols_ask_helper("/proc/self/exe", &ask, out, why, &err), 0);
}

/* Catches: names told of a file that the user who named it may not read, by
 * root's slave. */
static void
test_symbols_limits__are_read_with_the_rights_of_the_user(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("exec of itself");
    struct slave_symbol s;
    struct ips_err why;
    uint64_t start, size;
    if (geteuid() != 0)
        skip();
    run("gcc -O2 -g -DMAIN a.c -o secret && chmod 0700 secret && chmod 0711 .");
    extent("secret", "heavy", &start, &size);
    ask_one("secret", start, 0, &s, &why);
    assert_string_equal(frames(&s), "heavy@a.c:9");
    free(s.text);
    ask_one("secret", start, 65534, &s, &why);
    assert_null(s.text);
    assert_int_equal(why.code, IPS_E_REFUSED);
    assert_non_null(strstr(why.msg, "Permission denied"));
    run("chmod 0755 secret");
    ask_one("secret", start, 65534, &s, &why);
    assert_string_equal(frames(&s), "heavy@a.c:9");
    assert_int_equal(why.code, 0);
    free(s.text);
}

/* Catches: a file that cannot be read, or that kills its reader, read again at
 * every question; a user whose files hold root's slave for minutes. */
static void test_symbols_limits__failures_are_remembered(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("exec of itself");
    char path[100];
    struct ips_err err = {0}, why;
    struct slave_symbol one;
    struct ips_code_module module = {.path = path};
    struct ips_code_location place = {0, 0x1000};
    const struct ips_codemap map = {.modules = &module,
                                    .module_count = 1,
                                    .locations = &place,
                                    .location_count = 1};
    struct slave_symbol_failures failures = {0};
    const struct slave_symbol_source from = {
        .helper = "/proc/self/exe", .failures = &failures, .run = "r"};
    static const char *const files[] = {"no-elf", "deadly"};
    put_file("no-elf", "#!/bin/sh\n");
    put_file("deadly", "x");
    for (int i = 0; i < 4; i++) {
        struct slave_symbols s = {0};
        snprintf(path, sizeof(path), "%s/%s", dir, files[i / 2]);
        assert_int_equal(slave_symbols_fill_names(&s, &map, &from, &err), 0);
        assert_int_equal(s.asked, i % 2 == 0);
        assert_non_null(strstr(s.of[0].text, "+0x1000"));
        slave_symbols_release(&s);
    }
    assert_int_equal(failures.count, 2);
    slave_symbol_failures_release(&failures);
    if (geteuid() == 0) { /* another user, whose files took long */
        struct slave_symbols s = {0};
        failures.users[3] = (struct slave_symbol_user){
            .uid = 65534, .since_ns = slave_now_ns(), .spent_ns = 1ull << 40};
        for (int i = 0; i < 2; i++) {
            module.uid = i ? 65533 : 65534;
            assert_int_equal(slave_symbols_fill_names(&s, &map, &from, &err),
                             0);
            assert_int_equal(s.asked, i);
            slave_symbols_release(&s);
        }
        slave_symbol_failures_release(&failures);
    }
    ask_one("deadly", 0x1000, 0, &one, &why);
    assert_int_equal(why.code, IPS_E_LIMIT);
    assert_non_null(strstr(why.msg, "s of CPU"));
}

/* The helper; of one file it uses up its time. */
static int helper(void)
{
    char path[200];
    if (fgets(path, sizeof(path), stdin) && strstr(path, "/deadly\n"))
        raise(SIGXCPU);
    if (fseek(stdin, 0, SEEK_SET) != 0)
        return 1;
    return slave_symbols_helper_main(stdin, stdout);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--symbolise") == 0)
        return helper();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols_limits__large_files_are_not_read),
        cmocka_unit_test(test_symbols_limits__a_later_debug_file_is_enough),
        cmocka_unit_test(
            test_symbols_limits__are_read_with_the_rights_of_the_user),
        cmocka_unit_test(test_symbols_limits__failures_are_remembered),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
