/*
 * Writes JSON to a stream as it is produced. Nothing is buffered, so answers
 * may have any length. Commas and nesting are handled here; the caller writes
 * keys inside objects and none inside arrays.
 *
 * Every text becomes valid UTF-8: control characters are escaped, bytes that
 * are not UTF-8 become U+FFFD. Values that were not measured (UINT64_MAX, NaN,
 * infinity, NULL or "") become null.
 */
#ifndef IPS_CLIENT_BASE_JSON_H
#define IPS_CLIENT_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define IPSQ_JSON_DEPTH 16

struct ipsq_json {
    FILE *file;
    bool pretty; /* line breaks and indents; false: all on one line */
    unsigned depth;
    bool some[IPSQ_JSON_DEPTH]; /* [depth] true: a value was written at this
                                   depth */
    bool keyed; /* true: a key was written and needs its value */
};

void ipsq_json_init(struct ipsq_json *j, FILE *file, bool pretty);
/* Opens an object or array; bracket: '{' or '[' */
void ipsq_json_open_container(struct ipsq_json *j, char bracket);
/* Closes an object or array; bracket: '}' or ']' */
void ipsq_json_close_container(struct ipsq_json *j, char bracket);
void ipsq_json_write_key(struct ipsq_json *j, const char *key);
/* writes a text; "" becomes null */
void ipsq_json_write_text_or_null(struct ipsq_json *j, const char *text);
/* writes a text; "" remains "" */
void ipsq_json_write_string(struct ipsq_json *j, const char *text);
void ipsq_json_write_count_or_null(struct ipsq_json *j, uint64_t n);
void ipsq_json_write_integer(struct ipsq_json *j, int64_t n);
/* writes a number; INT64_MIN becomes null */
void ipsq_json_write_integer_or_null(struct ipsq_json *j, int64_t n);
void ipsq_json_write_real_or_null(struct ipsq_json *j, double r);
void ipsq_json_write_bool(struct ipsq_json *j, bool b);
void ipsq_json_write_null(struct ipsq_json *j);
/* Ends the line after the outermost value. */
void ipsq_json_write_final_newline(struct ipsq_json *j);

/* Returns the length of the UTF-8 character at `text` (which has `len` bytes),
 * or 0 if it is not well-formed. Overlong forms, surrogates and values beyond
 * U+10FFFF are not well-formed. */
size_t ipsq_utf8_length_of_first_char(const char *text, size_t len);

#endif
