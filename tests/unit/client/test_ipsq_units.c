/* Times and sizes as people write and read them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/units.h"

/* Would catch a detour over floating point (0.1, 4.35), a lost unit. */
static void test_units__durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"0", 0},
        {"17", 17},
        {"17ns", 17},
        {"1us", 1000},
        {"1.5us", 1500},
        {"4.35ms", 4350000},
        {"0.1s", 100000000},
        {"2.000000001s", 2000000001},
        {".5s", 500000000},
        {"5.s", 5000000000},
        {"1.000", 1},
        {"3600s", 3600000000000},
    };
    static const char *const bad[] = {
        "",
        "s",
        ".",
        "-1",
        "+1",
        "1 s",
        "1m",
        "1.5",
        "1S",
        "1e3",
        "0x1",
        "1..5s",
        " 1",
        "1sx",
        "0.1ns",
        "1.0000000001s",
        "99999999999999999999",
        "nan",
        "1.0000000000000000000s",
        "5000000000s",
        "1/2",
    };
    uint64_t ns;
    struct ips_err err;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        if (ipsq_parse_duration(good[i].text, &ns, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (ipsq_parse_duration(bad[i], &ns, &err) == 0)
            fail_msg("'%s' was taken for %llu", bad[i], (unsigned long long)ns);
        assert_int_equal(err.code, IPS_E_USAGE);
    }
}

static void test_units__message_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t base, q32;
    } good[] = {
        {"0", 0, 0},
        {"20us", 20000, 0},
        {"20us+1", 20000, 1ULL << 32},
        {"20us+0.5", 20000, 1ULL << 31},
        {"0,1000000000", 0, 1000000000ULL << 32},
        {"0+1s", 0, 1000000000ULL << 32},
        {"5+0.1", 5, 429496730}, /* 429496729.6 */
        {"5+0.0000000001", 5, 0},
        {"5+0.0000000002", 5, 1},
        {"5+2147483648", 5, 1ULL << 63},
        {"5+1.25us", 5, 1250ULL << 32},
    };
    static const char *const bad[] = {
        "",
        "+",
        "1+",
        "1+1+1",
        "x+1",
        "1+x",
        "1+-1",
        "-1",
        "1.5",
        "3601s",
        "1+2147483649",
        "1+3s",
        "+1",
        "1;2",
        "1+1.1234567890123456789",
        "1+1 ",
    };
    uint64_t base, q32;
    struct ips_err err;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        if (ipsq_parse_message_time(good[i].text, &base, &q32, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(base, good[i].base);
        assert_int_equal(q32, good[i].q32);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (ipsq_parse_message_time(bad[i], &base, &q32, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void test_units__format(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *ns, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {999, "999 ns", "999 B"},
        {1000, "1.000 us", "1000 B"},
        {1023, "1.023 us", "1023 B"},
        {1024, "1.024 us", "1.000 KiB"},
        {9999, "9.999 us", "9.765 KiB"},
        {99999, "100.0 us", "97.66 KiB"},
        {999949, "999.9 us", "976.5 KiB"},
        {999950, "1.000 ms", "976.5 KiB"},
        {1048576, "1.049 ms", "1.000 MiB"},
        {1500000, "1.500 ms", "1.431 MiB"},
        {999949999, "999.9 ms", "953.6 MiB"},
        {999950000, "1.000 s", "953.6 MiB"},
        {83210000000, "83.21 s", "77.50 GiB"},
        {12345000000000, "12345 s", "11.23 TiB"},
        {UINT64_MAX - 1, "18446744074 s", "16384 PiB"},
        {UINT64_MAX, "-", "-"},
    };
    char out[IPSQ_UNIT_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ipsq_format_ns(cases[i].n, out);
        assert_string_equal(out, cases[i].ns);
        ipsq_format_bytes(cases[i].n, out);
        assert_string_equal(out, cases[i].bytes);
    }
    ipsq_format_real((double)NAN, out);
    assert_string_equal(out, "-");
    ipsq_format_real(1e300, out); /* cut, not overrun */
    ipsq_format_share(0.1234, out);
    assert_string_equal(out, "12.3%");
    ipsq_format_share((double)NAN, out);
    assert_string_equal(out, "-");
}

/* Speeds as people write them; what is no speed is refused. */
static void test_units__faster(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t ppm; /* 0: refused */
    } cases[] = {
        {"30%", 300000},
        {"100%", 1000000},
        {"0.5%", 5000},
        {"12.3456%", 123456},
        {"2x", 500000},
        {"1.25x", 200000},
        {"3x", 666666},
        {"1000000x", 999999},
        {"0%", 0},
        {"101%", 0},
        {"1x", 0},
        {"0.5x", 0},
        {"30", 0},
        {"", 0},
        {"x", 0},
        {"%", 0},
        {"-5%", 0},
        {"30%%", 0},
        {"99999999999999999999x", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t ppm = 0;
        struct ips_err err;
        int rc = ipsq_parse_speedup_as_saved_share(cases[i].text, &ppm, &err);
        if (rc != (cases[i].ppm ? 0 : IPS_E_USAGE) || ppm != cases[i].ppm)
            fail_msg("'%s': %d, %u", cases[i].text, rc, ppm);
    }
}

/* Of calibrate and estimate: what is no number of bytes, or no share. */
static void test_units__bytes_and_shares(void **state)
{
    (void)state;
    static const char *const no_bytes[] = {"",    "0",   "x",  "4g",
                                           "4kb", "1.5", "-1", "4 k"};
    static const char *const no_share[] = {"",  "x",   "100%", "1",
                                           "2", "5%%", "-5%"};
    uint64_t bytes = 0, base = 9, byte = 9;
    uint32_t ppm = 7;
    assert_int_equal(ipsq_parse_bytes("64", &bytes, NULL), 0);
    assert_int_equal(bytes, 64);
    assert_int_equal(ipsq_parse_bytes("4k", &bytes, NULL), 0);
    assert_int_equal(bytes, 4096);
    assert_int_equal(ipsq_parse_bytes("2M", &bytes, NULL), 0);
    assert_int_equal(bytes, 2u << 20);
    for (size_t i = 0; i < sizeof(no_bytes) / sizeof(*no_bytes); i++)
        assert_int_equal(ipsq_parse_bytes(no_bytes[i], &bytes, NULL),
                         IPS_E_USAGE);
    assert_int_equal(ipsq_parse_share("5%", &ppm, NULL), 0);
    assert_int_equal(ppm, 50000);
    assert_int_equal(ipsq_parse_share("0.125", &ppm, NULL), 0);
    assert_int_equal(ppm, 125000);
    assert_int_equal(ipsq_parse_share("0", &ppm, NULL), 0);
    assert_int_equal(ppm, 0);
    for (size_t i = 0; i < sizeof(no_share) / sizeof(*no_share); i++)
        assert_int_equal(ipsq_parse_share(no_share[i], &ppm, NULL),
                         IPS_E_USAGE);
    assert_int_equal(ipsq_parse_message_time("none", &base, &byte, NULL), 0);
    assert_int_equal(base + byte, 0);
}

/* The last value that is taken, and the first that is not; in which words. */
static void test_units__limits(void **state)
{
    char text[100], out[IPSQ_UNIT_BYTES];
    uint64_t ns = 0, per_byte = 0, bytes = 0, n = 0;
    uint32_t ppm = 0;
    struct ips_err err = {0};
    (void)state;
    assert_int_equal(ipsq_parse_duration("4611686018427387903", &ns, &err), 0);
    assert_int_equal(ns, (1ULL << 62) - 1);
    assert_true(ipsq_parse_duration("4611686018427387904", &ns, &err) < 0);
    assert_string_equal(err.msg, "'4611686018427387904' is too long");
    assert_int_equal(ipsq_parse_duration("0.000000001000000000s", &ns, &err),
                     0);
    assert_int_equal(ns, 1);
    assert_true(ipsq_parse_duration("0.0000000010000000000s", &ns, &err) < 0);
    assert_string_equal(err.msg,
                        "'0.0000000010000000000s' has too many digits");
    assert_true(ipsq_parse_duration("18446744073709551615", &ns, &err) < 0);
    assert_string_equal(err.msg, "'18446744073709551615' is too long");
    assert_true(ipsq_parse_duration("18446744073709551616", &ns, &err) < 0);
    assert_string_equal(err.msg, "'18446744073709551616' has too many digits");
    assert_true(ipsq_parse_duration("0.5", &ns, &err) < 0);
    assert_string_equal(err.msg, "'0.5' is finer than 1 ns");
    assert_true(ipsq_parse_duration("1m", &ns, &err) < 0);
    assert_string_equal(err.msg, "'1m' is not a duration: expected a number "
                                 "with ns, us, ms or s");

    assert_int_equal(
        ipsq_parse_message_time("3600s+2147483648", &ns, &per_byte, &err), 0);
    assert_int_equal(ns, 3600000000000);
    assert_int_equal(per_byte, 1ULL << 63);
    assert_true(ipsq_parse_message_time("3600000000001", &ns, &per_byte, &err) <
                0);
    assert_string_equal(err.msg, "message time of more than an hour");
    assert_true(
        ipsq_parse_message_time("0+2147483648.5", &ns, &per_byte, &err) == 0);
    assert_true(ipsq_parse_message_time("0+2147483649", &ns, &per_byte, &err) <
                0);
    assert_string_equal(err.msg,
                        "'2147483649' per byte is more than 2147483648 ns");
    assert_int_equal(
        ipsq_parse_message_time("7+0.00000000011641532", &ns, &per_byte, &err),
        0); /* half of the smallest, and a little less */
    assert_int_equal(per_byte, 0);
    assert_int_equal(
        ipsq_parse_message_time("7+0.00000000011641533", &ns, &per_byte, &err),
        0);
    assert_int_equal(per_byte, 1);
    memset(text, '0', sizeof(text));
    snprintf(text + 63, sizeof(text) - 63, "+1");
    assert_int_equal(ipsq_parse_message_time(text, &ns, &per_byte, &err), 0);
    assert_int_equal(per_byte, 1ULL << 32);
    text[63] = '0';
    text[64] = '\0';
    assert_true(ipsq_parse_message_time(text, &ns, &per_byte, &err) < 0);
    assert_int_equal(strspn(strstr(err.msg, "0"), "0"), 64);

    assert_int_equal(ipsq_parse_bytes("1099511627776", &bytes, &err), 0);
    assert_int_equal(bytes, 1ULL << 40);
    assert_int_equal(ipsq_parse_bytes("1099511627776M", &bytes, &err), 0);
    assert_int_equal(bytes, 1ULL << 60);
    assert_true(ipsq_parse_bytes("1099511627777", &bytes, &err) < 0);
    assert_int_equal(ipsq_parse_bytes("3K", &bytes, &err), 0);
    assert_int_equal(bytes, 3072);
    assert_int_equal(ipsq_parse_bytes("5m", &bytes, &err), 0);
    assert_int_equal(bytes, 5242880);

    assert_int_equal(ipsq_parse_share("99.9999%", &ppm, &err), 0);
    assert_int_equal(ppm, 999999);
    assert_int_equal(ipsq_parse_share("0.999999", &ppm, &err), 0);
    assert_int_equal(ppm, 999999);
    assert_int_equal(ipsq_parse_share("0.5%", &ppm, &err), 0);
    assert_int_equal(ppm, 5000);
    assert_int_equal(ipsq_parse_positive_count("1", &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(
        ipsq_parse_positive_count("18446744073709551615", &n, &err), 0);
    assert_int_equal(n, UINT64_MAX);
    static const char *const none[] = {"0", "1.0", "1k", "", "x", "-1"};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        assert_int_equal(ipsq_parse_positive_count(none[i], &n, &err),
                         IPS_E_USAGE);
    assert_string_equal(err.msg, "'-1' is not a positive number");

    ipsq_format_with_commas(0, out);
    assert_string_equal(out, "0");
    ipsq_format_with_commas(999, out);
    assert_string_equal(out, "999");
    ipsq_format_with_commas(1000, out);
    assert_string_equal(out, "1,000");
    ipsq_format_with_commas(UINT64_MAX, out);
    assert_string_equal(out, "18,446,744,073,709,551,615");
    ipsq_format_real(-99.99, out);
    assert_string_equal(out, "-99.99");
    ipsq_format_real(-100, out);
    assert_string_equal(out, "-100");
    ipsq_format_real(100, out);
    assert_string_equal(out, "100");
}

/* Ratios: the smallest form of a number of at most four digits. */
static void test_units__ratios(void **state)
{
    static const struct {
        const char *text;
        uint32_t num, den; /* den 0: refused */
    } cases[] = {
        {"0", 0, 1},
        {"1", 1, 1},
        {"1.5", 15, 10},
        {"1.50", 15, 10},
        {"1.0", 1, 1},
        {"0.0001", 1, 10000},
        {"9999", 9999, 1},
        {"10000", 0, 0},
        {"9.999", 9999, 1000},
        {"99.99", 9999, 100},
        {"9.9999", 0, 0},
        {"0.9999", 9999, 10000},
        {"0.00001", 0, 0},
        {"1.37500", 1375, 1000},
        {".5", 5, 10},
        {"1.5x", 0, 0},
        {"", 0, 0},
        {"-1", 0, 0},
        {"10000.0", 0, 0},
        {"2.0000000", 2, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t num = 7, den = 0;
        struct ips_err err = {0};
        int rc =
            ipsq_parse_decimal_as_fraction(cases[i].text, &num, &den, &err);
        if (rc != (cases[i].den ? 0 : IPS_E_USAGE) || den != cases[i].den ||
            (den && num != cases[i].num))
            fail_msg("'%s': %d, %u/%u", cases[i].text, rc, num, den);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units__durations),
        cmocka_unit_test(test_units__message_times),
        cmocka_unit_test(test_units__format),
        cmocka_unit_test(test_units__faster),
        cmocka_unit_test(test_units__bytes_and_shares),
        cmocka_unit_test(test_units__limits),
        cmocka_unit_test(test_units__ratios),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
