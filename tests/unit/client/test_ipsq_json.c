/* The JSON writer: what it writes is JSON whatever it is given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/json.h"

static char *buffer;
static size_t length;

static void begin(struct ipsq_json *j, bool pretty)
{
    ipsq_json_init(j, open_memstream(&buffer, &length), pretty);
}

static void expect(struct ipsq_json *j, const char *want)
{
    fclose(j->file);
    assert_string_equal(buffer, want);
    free(buffer);
}

static void writes(const char *text, const char *want)
{
    struct ipsq_json j;
    begin(&j, false);
    ipsq_json_write_string(&j, text);
    expect(&j, want);
}

/* A control character or a quote in a command line must not end the string. */
static void test_json__escapes(void **state)
{
    (void)state;
    writes("plain", "\"plain\"");
    writes("", "\"\"");
    writes("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    writes("\n\r\t\b\f", "\"\\n\\r\\t\\u0008\\u000c\"");
    writes("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
    for (int c = 1; c < 0x20; c++) {
        char in[2] = {(char)c, 0};
        struct ipsq_json j;
        begin(&j, false);
        ipsq_json_write_string(&j, in);
        fclose(j.file);
        assert_int_equal(buffer[1], '\\');
        for (size_t i = 0; i < length; i++)
            assert_true((unsigned char)buffer[i] >= 0x20);
        free(buffer);
    }
}

static void test_json__utf8(void **state)
{
    (void)state;
    /* What is well-formed goes through as it is. */
    writes("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x81",
           "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x81\"");
    writes("\xef\xbf\xbf \xf4\x8f\xbf\xbf",
           "\"\xef\xbf\xbf \xf4\x8f\xbf\xbf\"");
    /* What is not, byte by byte: stray and missing continuations, overlong
     * forms, surrogates, past U+10FFFF, bytes that never occur. */
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc3",
        "\xc0\xaf",
        "\xc1\xbf",
        "\xe2\x82",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xf0\x9f\x90",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char want[64] = "\"";
        for (size_t k = 0; k < strlen(bad[i]); k++)
            strcat(want, "\\ufffd");
        strcat(want, "\"");
        writes(bad[i], want);
    }
    /* A bad start must not swallow the quote or the letter after it. */
    writes("\xe2\"x", "\"\\ufffd\\\"x\"");
    writes("\xc3x", "\"\\ufffdx\"");
}

/* Random bytes come out as valid UTF-8 between two quotes. */
static void test_json__any_bytes(void **state)
{
    (void)state;
    uint64_t s = 1;
    for (int round = 0; round < 2000; round++) {
        char in[24];
        struct ipsq_json j;
        for (size_t i = 0; i < sizeof(in) - 1; i++) {
            s = s * 6364136223846793005ULL + 1442695040888963407ULL;
            in[i] = (char)(s >> 33 ? s >> 33 : 1);
            in[i] = in[i] ? in[i] : 1;
        }
        in[sizeof(in) - 1] = '\0';
        begin(&j, false);
        ipsq_json_write_string(&j, in);
        fclose(j.file);
        assert_int_equal(buffer[0], '"');
        assert_int_equal(buffer[length - 1], '"');
        for (size_t at = 1; at < length - 1;) {
            size_t n = ipsq_utf8_length_of_first_char(buffer + at, length - at);
            assert_true(n > 0);
            if (buffer[at] == '\\')
                n = buffer[at + 1] == 'u' ? 6 : 2;
            else
                assert_true((unsigned char)buffer[at] >= 0x20 &&
                            buffer[at] != '"');
            at += n;
        }
        free(buffer);
    }
}

static void test_json__not_measured_is_null(void **state)
{
    (void)state;
    struct ipsq_json j;
    begin(&j, false);
    ipsq_json_open_container(&j, '[');
    ipsq_json_write_count_or_null(&j, UINT64_MAX);
    ipsq_json_write_count_or_null(&j, UINT64_MAX - 1);
    ipsq_json_write_count_or_null(&j, 0);
    ipsq_json_write_integer_or_null(&j, -1);
    ipsq_json_write_integer_or_null(&j, INT64_MIN);
    ipsq_json_write_real_or_null(&j, (double)NAN);
    ipsq_json_write_real_or_null(&j, (double)INFINITY);
    ipsq_json_write_real_or_null(&j, 0.1);
    ipsq_json_write_real_or_null(&j, 2);
    ipsq_json_write_text_or_null(&j, NULL);
    ipsq_json_write_text_or_null(&j, "");
    ipsq_json_write_bool(&j, true);
    ipsq_json_write_bool(&j, false);
    ipsq_json_close_container(&j, ']');
    expect(&j, "[null, 18446744073709551614, 0, -1, null, "
               "null, null, 0.10000000000000001, 2, null, null, true, false]");
}

static void test_json__nesting(void **state)
{
    (void)state;
    struct ipsq_json j;
    for (int pretty = 0; pretty < 2; pretty++) {
        begin(&j, pretty);
        ipsq_json_open_container(&j, '{');
        ipsq_json_write_key(&j, "a");
        ipsq_json_open_container(&j, '[');
        ipsq_json_close_container(&j, ']');
        ipsq_json_write_key(&j, "b");
        ipsq_json_open_container(&j, '[');
        ipsq_json_write_count_or_null(&j, 1);
        ipsq_json_open_container(&j, '{');
        ipsq_json_write_key(&j, "c");
        ipsq_json_write_null(&j);
        ipsq_json_close_container(&j, '}');
        ipsq_json_close_container(&j, ']');
        ipsq_json_close_container(&j, '}');
        ipsq_json_write_final_newline(&j);
        expect(&j, pretty ? "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n"
                            "      \"c\": null\n    }\n  ]\n}\n"
                          : "{\"a\": [], \"b\": [1, {\"c\": null}]}\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__escapes),
        cmocka_unit_test(test_json__utf8),
        cmocka_unit_test(test_json__any_bytes),
        cmocka_unit_test(test_json__not_measured_is_null),
        cmocka_unit_test(test_json__nesting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
