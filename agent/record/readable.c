#include "agent/record/readable.h"

#include <linux/futex.h>
#include <string.h>

#include "agent/record/sys.h"

#define PAGE 4096u /* on some systems a fraction of a page */
#define NO_PAGE UINTPTR_MAX

static uintptr_t page_number_of(const void *at)
{
    return (uintptr_t)at / PAGE;
}

/* rt_sigprocmask with an invalid `how` only reads the new mask. */
bool ips_is_word_readable(const void *at)
{
    const uintptr_t word = (uintptr_t)at & ~(uintptr_t)7;
    return ips_sys6(SYS_rt_sigprocmask, -1, (long)word, 0, 8, 0, 0) != -EFAULT;
}

/* Like ips_is_word_readable, but does not ask about the page *known, which was
 * readable before; stores the page of `at` there. */
static bool is_page_readable(const void *at, uintptr_t *known)
{
    if (page_number_of(at) == *known)
        return true;
    *known = page_number_of(at);
    return ips_is_word_readable(at);
}

static bool is_text_readable(const char *text, uintptr_t *known)
{
    for (;;) {
        if (!is_page_readable(text, known))
            return false;
        const size_t rest = PAGE - (uintptr_t)text % PAGE;
        if (memchr(text, '\0', rest))
            return true;
        text += rest;
    }
}

bool ips_is_string_readable(const char *text)
{
    uintptr_t known = NO_PAGE;
    return !text || is_text_readable(text, &known);
}

bool ips_is_text_list_readable(char *const *list)
{
    uintptr_t known_words = NO_PAGE, known_texts = NO_PAGE;
    for (; list; list++) {
        /* a pointer at an odd address may be on two pages */
        if (!is_page_readable(list, &known_words) ||
            !is_page_readable((const char *)(list + 1) - 1, &known_words))
            return false;
        if (!*list)
            break;
        if (!is_text_readable(*list, &known_texts))
            return false;
    }
    return true;
}

/* FUTEX_WAKE_OP stores the bitwise or of a word and 0 in the word. It wakes a
 * thread only if the word is 2047 and a thread waits for it. That would do no
 * harm, since a futex wait may end without a reason. */
static bool is_word_writable(uintptr_t at)
{
    uint32_t own = 0;
    const uint32_t op = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 2047);
    return ips_sys6(SYS_futex, (long)&own, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
                    0, 0, (long)(at & ~(uintptr_t)3), (long)op) != -EFAULT;
}

bool ips_is_memory_writable(const void *at, size_t bytes)
{
    const uintptr_t end = (uintptr_t)at + bytes;
    for (uintptr_t p = (uintptr_t)at; p < end; p = (p / PAGE + 1) * PAGE)
        if (!is_word_writable(p))
            return false;
    return end >= (uintptr_t)at;
}
