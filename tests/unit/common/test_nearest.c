/*
 * Which name is suggested for a misspelt one. Catches: a suggestion that has
 * nothing to do with the word, none for one key missed, doubled or swapped, and
 * a name too long for its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/nearest.h"

static const char *nearest(const char *word, const char *const *names)
{
    static struct ips_nearest n;
    ips_nearest_start_search(&n, word);
    for (; *names; names++)
        ips_nearest_consider_candidate(&n, *names);
    return ips_nearest_format_suggestion(&n);
}

static void test_nearest__of_several(void **state)
{
    (void)state;
    static const char *const names[] = {"why",     "path", "phases", "predict",
                                        "metrics", "ls",   "events", NULL};
    static const struct {
        const char *word, *text;
    } cases[] = {
        {"metrcis", "; did you mean 'metrics'?"}, /* swapped: one change */
        {"pat", "; did you mean 'path'?"},        /* begins so */
        {"phase", "; did you mean 'phases'?"},
        {"evnts", "; did you mean 'events'?"},
        {"eventss", "; did you mean 'events'?"},
        {"lss", "; did you mean 'ls'?"},
        {"wyh", "; did you mean 'why'?"},
        {"predicting", "; did you mean 'predict'?"}, /* three changes */
        {"predictions", ""},                         /* four */
        {"xyz", ""},
        {"l", ""}, /* too little to tell */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_string_equal(nearest(cases[i].word, names), cases[i].text);
}

static void test_nearest__the_first_of_equals(void **state)
{
    (void)state;
    static const char *const names[] = {"run-b", "run-c", NULL};
    assert_string_equal(nearest("run-a", names), "; did you mean 'run-b'?");
}

/* A longer name that begins so comes first; the word is right all the same. */
static void test_nearest__the_word_itself(void **state)
{
    (void)state;
    static const char *const names[] = {"server.12", "server", "serves", NULL};
    assert_string_equal(nearest("server", names), "");
    assert_string_equal(nearest("serve", names), "; did you mean 'server.12'?");
}

/* Would catch: an edit that is counted for nothing or for two, and a limit that
 * is off by one. */
static void test_nearest__edits(void **state)
{
    (void)state;
    static const struct {
        const char *word, *name;
        bool near;
    } cases[] = {
        {"ab", "ac", true}, /* 2 characters: one edit */
        {"ab", "cd", false},
        {"abcd", "xbcx", false},  /* 4: one; two are too many */
        {"abcde", "xbcdx", true}, /* 5: two */
        {"abcde", "xbxdx", false},
        {"abcdefgh", "xbxdxfgh", true}, /* 8: three */
        {"abcdefgh", "xbxdxfxh", false},
        {"abcdefghijkl", "xbxdxfghijkl", true}, /* never more */
        {"abcdefghijkl", "xbxdxfxhijkl", false},
        {"xxxabcde", "abcde", true},     /* three removed */
        {"xxxabcde", "abcdexyz", false}, /* and three added: six */
        {"abcde", "xxabcde", true},
        {"abcde", "xxxabcde", false},
        {"bacde", "abcde", true},
        {"badce", "abcde", true},    /* two swaps */
        {"badcfe", "abcdef", false}, /* three */
        {"ca", "abc", false},        /* no swap with something between */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *const names[] = {cases[i].name, NULL};
        if ((*nearest(cases[i].word, names) != '\0') != cases[i].near)
            fail_msg("%s %s", cases[i].word, cases[i].name);
    }
    /* a name that begins so comes before one edit, and one before two */
    static const char *const begins[] = {"cat", "pattern", NULL};
    static const char *const nearer[] = {"axxde", "abcdx", "abxxe", NULL};
    assert_string_equal(nearest("pat", begins), "; did you mean 'pattern'?");
    assert_string_equal(nearest("abcde", nearer), "; did you mean 'abcdx'?");
}

static void test_nearest__long_names(void **state)
{
    (void)state;
    char longest[IPS_NEAREST_BYTES], word[IPS_NEAREST_BYTES];
    char longer[IPS_NEAREST_BYTES + 1];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memcpy(word, longest, sizeof(longest));
    word[3] = 'b';
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    const char *const names[] = {longer, longest, NULL};
    const char *text = nearest(word, names);
    assert_int_equal(strlen(text),
                     strlen("; did you mean ''?") + sizeof(longest) - 1);
    assert_string_equal(nearest(longer, names), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest__of_several),
        cmocka_unit_test(test_nearest__the_first_of_equals),
        cmocka_unit_test(test_nearest__the_word_itself),
        cmocka_unit_test(test_nearest__edits),
        cmocka_unit_test(test_nearest__long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
