/*
 * Names of code (slave/symbols/symbols.h), on programs that the test compiles:
 * every kind of file that a measured program may have had mapped, and hostile
 * ones. Needs gcc, g++, strip, objcopy and nm.
 */
#include "tests/unit/help/symbols_help.h"

/* Catches: names one procedure off, declaration lines that are not, inlined
 * procedures that are not told, in an executable and in a library. */
static void test_symbols__debug_information_tells_inlined_ones(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "-O2 -g -DMAIN -fPIE -pie", "-O2 -g -fPIC -shared",
        "-O2 -gdwarf-4 -DMAIN -no-pie", "-O2 -g -gz -fPIC -shared"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        run("gcc %s a.c -o full", flags[i]);
        struct found *f = look_at("full", "full", "heavy");
        assert_int_equal(f->rc, 0);
        assert_true(count_of(f, "kernel@a.c:3 < heavy@a.c:9") > 0);
        assert_true(count_of(f, "heavy@a.c:9") > 0);
        unsigned loop = 0;
        for (size_t k = 0; k < f->count; k++) {
            const char *at = f->symbol[k].text;
            struct slave_symbol_frame name;
            assert_non_null(at);
            assert_int_equal(f->symbol[k].grade, SLAVE_SYMBOL_DEBUG);
            assert_true(slave_symbol_parse_frame(&at, &name));
            bool inside = name.name_len == 6; /* kernel */
            loop += inside && name.at_line == 6;
            if (inside) { /* its host: where it is called */
                assert_true(slave_symbol_parse_frame(&at, &name));
                assert_int_equal(name.at_line, 13);
            }
        }
        assert_true(loop > 0);
        found_free(f);
    }
}

/* Catches: symbol tables not read where there is no debug information, names
 * of other modules, exported names not used in a stripped library, hidden ones
 * invented: there the unwind table tells where the procedure begins. */
static void test_symbols__without_debug_information(void **state)
{
    (void)state;
    struct found *f;
    char plain[64];
    uint64_t start, size;
    run("gcc -O2 -DMAIN a.c -o plain && strip -s -o stripped plain");
    f = look_at("plain", "plain", "heavy");
    assert_int_equal(count_of(f, "heavy@:0"), f->count);
    assert_int_equal(f->symbol[0].grade, SLAVE_SYMBOL_TABLE);
    found_free(f);
    f = look_at("stripped", "plain", "heavy");
    extent("plain", "heavy", &start, &size);
    snprintf(plain, sizeof(plain), "stripped+0x%llx@:0",
             (unsigned long long)start);
    assert_int_equal(count_of(f, plain), f->count);
    found_free(f);
    /* One that moves its stack: several rows of the unwind table. */
    f = look_at("stripped", "plain", "main");
    extent("plain", "main", &start, &size);
    snprintf(plain, sizeof(plain), "stripped+0x%llx@:0",
             (unsigned long long)start);
    assert_int_equal(count_of(f, plain), f->count);
    found_free(f);
    run("gcc -O2 -fPIC -shared a.c -o lib && strip -s -o libs lib");
    f = look_at("libs", "lib", "heavy");
    assert_int_equal(count_of(f, "heavy@:0"), f->count);
    found_free(f);
    /* Beyond all code. */
    f = look("libs", 0x7000000, 16, NULL, 0, 0);
    assert_int_equal(f->rc, 0);
    for (size_t i = 0; i < f->count; i++)
        assert_null(f->symbol[i].text);
    found_free(f);
}

/* Catches: a function of assembler code, without a size, that is not known at
 * the very beginning of its section, or beyond its end. */
static void test_symbols__without_a_size(void **state)
{
    (void)state;
    run("printf '.section .only,\"ax\"\\n.globl bare\\n.type bare,@function\\n"
        "bare:\\n.skip 16, 0x90\\n' > bare.s && gcc -nostdlib -shared "
        "-Wl,--section-start=.only=0x10000 bare.s -o bare");
    struct found *f = look("bare", 0x10000, 16, NULL, 0, 0);
    assert_int_equal(f->rc, 0);
    assert_int_equal(count_of(f, "bare@:0"), 16);
    found_free(f);
    f = look("bare", 0x10010, 16, NULL, 0, 0);
    assert_int_equal(count_of(f, "bare@:0"), 0);
    found_free(f);
}

/* Catches: separate debug files not found by build id or by link, and one that
 * belongs to another build believed. */
static void test_symbols__separate_debug_files(void **state)
{
    (void)state;
    uint8_t id[20];
    char hex[41] = "";
    struct found *f;
    run("gcc -O2 -g -DMAIN a.c -o split && "
        "objcopy --only-keep-debug split split.debug && strip -s split -o "
        "split.bare");
    size_t n = build_id_of("split", id);
    assert_int_equal(n, 20);
    for (size_t i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", id[i]);
    run("mkdir -p debug/.build-id/%.2s && cp split.debug "
        "debug/.build-id/%.2s/%s.debug",
        hex, hex, hex + 2);
    f = look_at("split.bare", "split", "heavy");
    assert_true(count_of(f, "kernel@a.c:3 < heavy@a.c:9") > 0);
    found_free(f);
    /* Another build's file under that name. */
    run("gcc -O1 -g -DMAIN -DOTHER a.c -o other && objcopy --only-keep-debug "
        "other debug/.build-id/%.2s/%s.debug",
        hex, hex + 2);
    f = look_at("split.bare", "split", "heavy");
    assert_int_equal(count_of(f, "kernel@a.c:3 < heavy@a.c:9"), 0);
    found_free(f);
    /* No build id: by .gnu_debuglink, beside it or in .debug, checksum right.
     */
    run("gcc -O2 -g -DMAIN -Wl,--build-id=none a.c -o link && mkdir -p .debug "
        "&& objcopy --only-keep-debug link .debug/link.debug && strip -s link "
        "-o link.bare && objcopy --add-gnu-debuglink=.debug/link.debug "
        "link.bare");
    f = look_at("link.bare", "link", "heavy");
    assert_true(count_of(f, "kernel@a.c:3 < heavy@a.c:9") > 0);
    found_free(f);
    run("printf x >> .debug/link.debug");
    f = look_at("link.bare", "link", "heavy");
    assert_int_equal(count_of(f, "kernel@a.c:3 < heavy@a.c:9"), 0);
    found_free(f);
}

/* Catches: two closures that are one procedure, called operator(), and members
 * of local and nameless scopes without them: the linker has no name for these,
 * or none that says which. */
static void test_symbols__closures_have_names(void **state)
{
    (void)state;
    run("printf 'namespace { struct A { __attribute__((noinline)) int s(int x) "
        "{ return x + 1; } }; }\nint main(int c, char **) {\nvolatile int v = "
        "0;\nauto a = [&](int k) __attribute__((noinline)) { v = k; };\nauto b "
        "= [&](int k) __attribute__((noinline)) { v = 2 * k; };\nstruct L { "
        "__attribute__((noinline)) int w(volatile int *p) { return *p; } } "
        "l;\na(c); b(c); return l.w(&v) + A().s(c); }\n' > l.cc && g++ -O1 -g "
        "l.cc -o closures");
    static const char *const names[][2] = {
        {"_ZZ4mainENKUliE_clEi", "main::{lambda:4}@l.cc:4"},
        {"_ZZ4mainENKUliE0_clEi", "main::{lambda:5}@l.cc:5"},
        {"_ZZ4mainEN1L1wEPVi", "main::L::w@l.cc:6"},
        {"_ZN12_GLOBAL__N_11A1sEi", "(anonymous namespace)::A::s@l.cc:1"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct found *f = look_at("closures", "closures", names[i][0]);
        assert_string_equal(frames(&f->symbol[0]), names[i][1]);
        found_free(f);
    }
}

/* Catches: mangled names of C++ and Rust (both manglings) shown as they are,
 * parts of a procedure (.constprop, .cold) taken for others. */
static void test_symbols__names_are_those_of_the_source(void **state)
{
    (void)state;
    struct found *f;
    run("gcc -O2 -DMAIN a.c -o rust");
    f = look_at("rust", "rust", "_ZN4core3ptr8do_thing17h0123456789abcdefE");
    assert_string_equal(frames(&f->symbol[0]), "core::ptr::do_thing@:0");
    found_free(f);
    f = look_at("rust", "rust", "_RNvC6_123foo3bar");
    assert_string_equal(frames(&f->symbol[0]), "123foo::bar@:0");
    found_free(f);
    run("printf 'namespace ns { struct W { int f(int); template <class T> T "
        "g(T); }; int W::f(int x) { return x; } template <> long W::g(long x) "
        "{ return x; } }\\nint main() { return 0; }\\n' > b.cc && g++ -O1 -g "
        "b.cc -o cpp && strip -g cpp -o cpps");
    f = look_at("cpp", "cpp", "_ZN2ns1W1fEi");
    assert_string_equal(frames(&f->symbol[0]), "ns::W::f@b.cc:1");
    found_free(f);
    f = look_at("cpps", "cpps", "_ZN2ns1W1fEi");
    assert_string_equal(frames(&f->symbol[0]), "ns::W::f@:0");
    found_free(f);
    f = look_at("cpps", "cpps", "_ZN2ns1W1gIlEET_S2_");
    assert_non_null(strstr(frames(&f->symbol[0]), "ns::W::g<long>"));
    found_free(f);
    run("printf 'void part(void) __asm__(\"part.constprop.0\"); void "
        "part(void) {} int main(void) { return 0; }' > c.c && gcc c.c -o "
        "parts");
    f = look_at("parts", "parts", "part.constprop.0");
    assert_string_equal(frames(&f->symbol[0]), "part@:0");
    found_free(f);
}

/* Catches: a file that was replaced since giving a wrong name, or a name that
 * is no regular file being waited for. */
static void test_symbols__another_file_is_not_believed(void **state)
{
    (void)state;
    static const char *const odd[] = {"missing", "fifo",  "debug",
                                      "a.c",     "empty", "/dev/zero"};
    uint8_t id[20] = {1, 2, 3};
    struct found *f;
    run("gcc -O2 -DMAIN a.c -o now && gcc -O2 -DMAIN -Wl,--build-id=none a.c "
        "-o old && touch -d @1000000000 old && mkfifo fifo && : > empty");
    f = look("now", 0x1000, 16, id, sizeof(id), 0);
    assert_int_equal(f->rc, IPS_E_NOT_FOUND);
    assert_non_null(strstr(f->why, "replaced"));
    found_free(f);
    f = look("old", 0x1000, 16, NULL, 0, (uint64_t)1000000001 * 1000000000u);
    assert_int_equal(f->rc, 0);
    found_free(f);
    f = look("old", 0x1000, 16, NULL, 0, (uint64_t)999999999 * 1000000000u);
    assert_int_equal(f->rc, IPS_E_NOT_FOUND);
    found_free(f);
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        f = look(odd[i], 0x1000, 16, NULL, 0, 0);
        assert_true(f->rc < 0);
        found_free(f);
    }
}

/* Catches: the kernel's code in every process left nameless. */
static void test_symbols__the_vdso_has_names(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("vdso in the file of a process");
    struct found *f = look("[vdso]", 0x600, 4096, NULL, 0, 0);
    unsigned named = 0;
    assert_int_equal(f->rc, 0);
    for (size_t i = 0; i < f->count; i++)
        named += strstr(frames(&f->symbol[i]), "clock_gettime") != NULL;
    assert_true(named > 0);
    found_free(f);
}

/* ---- the helper ---- */

/* Catches: a damaged or truncated file that takes the slave down, hangs it, or
 * gets something else than a symbol accepted. */
static void test_symbols__hostile_files_do_no_harm(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("exec of itself");
    char path[100], debug[100];
    uint8_t *bytes;
    struct stat st;
    uint64_t start, size, address[64];
    run("gcc -O2 -g -DMAIN a.c -o victim");
    extent("victim", "heavy", &start, &size);
    for (unsigned i = 0; i < 64; i++)
        address[i] = start + i * 3;
    snprintf(path, sizeof(path), "%s/victim", dir);
    snprintf(debug, sizeof(debug), "%s/debug", dir);
    FILE *f = fopen(path, "rb");
    assert_true(f && fstat(fileno(f), &st) == 0);
    bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)st.st_size, f), st.st_size);
    fclose(f);
    unsigned answered = 0;
    for (unsigned seed = 0; seed < 150; seed++) {
        struct slave_symbol out[64] = {{0}};
        struct ips_err why = {0}, err = {0};
        size_t len = (size_t)st.st_size;
        srand(seed);
        if (seed % 5 == 1)
            len = (size_t)rand() % len;
        f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, len, f), len);
        /* Half of the damage goes to the headers. */
        for (int i = 0; i < (int)(seed % 40); i++) {
            size_t at = (size_t)rand() % len;
            if (i % 4 == 0)
                at %= 64;
            else if (i % 4 == 1 && len > 2048)
                at = len - 1 - (size_t)rand() % 2048; /* section headers */
            fseek(f, (long)at, SEEK_SET);
            fputc(rand() % 3 ? rand() : 0xff, f);
        }
        fclose(f);
        const struct slave_symbol_ask ask = {.path = path,
                                             .debug_root = debug,
                                             .addresses = address,
                                             .count = 64};
        assert_int_equal(
            slave_symbols_ask_helper("/proc/self/exe", &ask, out, &why, &err),
            0);
        for (unsigned i = 0; i < 64; i++) {
            answered += out[i].text != NULL;
            if (out[i].text)
                frames(&out[i]);
            free(out[i].text);
        }
    }
    free(bytes);
    assert_true(answered > 64); /* the first one is sound */
}

/* ---- what is kept ---- */

/* Catches: names that need the binary every time, names of one build given to
 * another, places without any text. */
static void test_symbols__are_kept_by_build_id(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("exec of itself");
    char path[100], db[100];
    uint64_t start, size;
    struct ips_err err = {0};
    struct slave_store *store;
    struct ips_code_module modules[2] = {{.path = path}, {.path = path}};
    run("gcc -O2 -g -DMAIN a.c -o kept");
    extent("kept", "heavy", &start, &size);
    snprintf(path, sizeof(path), "%s/kept", dir);
    snprintf(db, sizeof(db), "%s/slave.db", dir);
    modules[0].build_id_bytes =
        (uint8_t)build_id_of("kept", modules[0].build_id);
    modules[1].build_id_bytes = 20; /* another build, no longer there */
    struct ips_code_location places[] = {
        {0, start}, {1, start}, {IPS_NONE, 0}, {0, 0x7000000}};
    const struct ips_codemap map = {.modules = modules,
                                    .module_count = 2,
                                    .locations = places,
                                    .location_count = 4};
    assert_int_equal(slave_store_open(db, &store, &err), 0);
    struct slave_symbol_source from = {
        .helper = "/proc/self/exe", .store = store, .run = "r"};
    for (int round = 0; round < 2; round++) {
        struct slave_symbols s = {0};
        assert_int_equal(slave_symbols_fill_names(&s, &map, &from, &err), 0);
        assert_int_equal(s.count, 4);
        assert_string_equal(frames(&s.of[0]), "heavy@a.c:9");
        char lost[64];
        snprintf(lost, sizeof(lost), "kept+0x%llx@:0",
                 (unsigned long long)start);
        assert_string_equal(frames(&s.of[1]), lost);
        assert_string_equal(frames(&s.of[2]), "[no module]@:0");
        assert_string_equal(frames(&s.of[3]), "kept+0x7000000@:0");
        slave_symbols_release(&s);
        run("rm -f kept");
    }
    slave_store_close(store);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--symbolise") == 0)
        return slave_symbols_helper_main(stdin, stdout);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols__debug_information_tells_inlined_ones),
        cmocka_unit_test(test_symbols__without_debug_information),
        cmocka_unit_test(test_symbols__without_a_size),
        cmocka_unit_test(test_symbols__separate_debug_files),
        cmocka_unit_test(test_symbols__names_are_those_of_the_source),
        cmocka_unit_test(test_symbols__closures_have_names),
        cmocka_unit_test(test_symbols__another_file_is_not_believed),
        cmocka_unit_test(test_symbols__the_vdso_has_names),
        cmocka_unit_test(test_symbols__hostile_files_do_no_harm),
        cmocka_unit_test(test_symbols__are_kept_by_build_id),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
