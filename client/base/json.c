#include "client/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Only one thread writes to the stream, so put_raw_char and put_raw_text do not
 * lock it. */
static void put_raw_char(struct ipsq_json *j, char c)
{
    putc_unlocked(c, j->file);
}

static void put_raw_text(struct ipsq_json *j, const char *text)
{
    fputs_unlocked(text, j->file);
}

void ipsq_json_init(struct ipsq_json *j, FILE *file, bool pretty)
{
    memset(j, 0, sizeof(*j));
    j->file = file;
    j->pretty = pretty;
}

static void write_newline_and_indent_if_pretty(struct ipsq_json *j)
{
    if (!j->pretty)
        return;
    put_raw_char(j, '\n');
    for (unsigned i = 0; i < j->depth; i++)
        put_raw_text(j, "  ");
}

/* Called before each key and each value: writes the comma and the line break,
 * but nothing between a key and its value. */
static void write_separator_before_value(struct ipsq_json *j)
{
    if (j->keyed) {
        j->keyed = false;
        return;
    }
    if (j->depth == 0)
        return;
    if (j->some[j->depth - 1])
        put_raw_text(j, j->pretty ? "," : ", ");
    j->some[j->depth - 1] = true;
    write_newline_and_indent_if_pretty(j);
}

void ipsq_json_open_container(struct ipsq_json *j, char bracket)
{
    write_separator_before_value(j);
    put_raw_char(j, bracket);
    if (j->depth < IPSQ_JSON_DEPTH)
        j->some[j->depth++] = false;
}

void ipsq_json_close_container(struct ipsq_json *j, char bracket)
{
    if (j->depth == 0)
        return;
    bool some = j->some[--j->depth];
    if (some)
        write_newline_and_indent_if_pretty(j);
    put_raw_char(j, bracket);
}

size_t ipsq_utf8_length_of_first_char(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t need;
    /* lowest and highest valid value of the second byte */
    unsigned low = 0x80, high = 0xbf;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        need = 2;
    } else if ((s[0] & 0xf0) == 0xe0) {
        need = 3;
        low = s[0] == 0xe0 ? 0xa0 : low;
        high = s[0] == 0xed ? 0x9f : high; /* excludes UTF-16 surrogates */
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        need = 4;
        low = s[0] == 0xf0 ? 0x90 : low;
        high = s[0] == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (len < need || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    return need;
}

static void write_escape(FILE *f, unsigned char c)
{
    switch (c) {
    case '"':
        fputs("\\\"", f);
        return;
    case '\\':
        fputs("\\\\", f);
        return;
    case '\n':
        fputs("\\n", f);
        return;
    case '\t':
        fputs("\\t", f);
        return;
    case '\r':
        fputs("\\r", f);
        return;
    default:
        fprintf(f, "\\u%04x", c);
    }
}

/* Whether the character is ASCII and needs no escape. */
static bool is_ascii_char_without_escape(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void write_string(struct ipsq_json *j, const char *text)
{
    size_t len = strlen(text);
    put_raw_char(j, '"');
    while (len > 0) {
        unsigned char c = (unsigned char)*text;
        size_t n = 0;
        while (n < len && is_ascii_char_without_escape((unsigned char)text[n]))
            n++;
        bool plain = n > 0;
        if (!plain)
            n = ipsq_utf8_length_of_first_char(text, len);
        if (n == 0)
            put_raw_text(j, "\\ufffd");
        else if (!plain && c < 0x80)
            write_escape(j->file, c);
        else
            fwrite_unlocked(text, 1, n, j->file);
        n = n ? n : 1;
        text += n;
        len -= n;
    }
    put_raw_char(j, '"');
}

void ipsq_json_write_key(struct ipsq_json *j, const char *key)
{
    write_separator_before_value(j);
    write_string(j, key);
    put_raw_text(j, ": ");
    j->keyed = true;
}

void ipsq_json_write_string(struct ipsq_json *j, const char *text)
{
    write_separator_before_value(j);
    write_string(j, text ? text : "");
}

void ipsq_json_write_text_or_null(struct ipsq_json *j, const char *text)
{
    if (text && *text)
        ipsq_json_write_string(j, text);
    else
        ipsq_json_write_null(j);
}

void ipsq_json_write_count_or_null(struct ipsq_json *j, uint64_t n)
{
    if (n == UINT64_MAX) {
        ipsq_json_write_null(j);
        return;
    }
    write_separator_before_value(j);
    char digits[24], *at = digits + sizeof(digits) - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    put_raw_text(j, at);
}

void ipsq_json_write_integer(struct ipsq_json *j, int64_t n)
{
    write_separator_before_value(j);
    fprintf(j->file, "%" PRId64, n);
}

void ipsq_json_write_integer_or_null(struct ipsq_json *j, int64_t n)
{
    if (n == INT64_MIN)
        ipsq_json_write_null(j);
    else
        ipsq_json_write_integer(j, n);
}

void ipsq_json_write_real_or_null(struct ipsq_json *j, double r)
{
    if (!isfinite(r)) {
        ipsq_json_write_null(j);
        return;
    }
    write_separator_before_value(j);
    fprintf(j->file, "%.17g", r);
}

void ipsq_json_write_bool(struct ipsq_json *j, bool b)
{
    write_separator_before_value(j);
    put_raw_text(j, b ? "true" : "false");
}

void ipsq_json_write_null(struct ipsq_json *j)
{
    write_separator_before_value(j);
    put_raw_text(j, "null");
}

void ipsq_json_write_final_newline(struct ipsq_json *j)
{
    put_raw_char(j, '\n');
}
