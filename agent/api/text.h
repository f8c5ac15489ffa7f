/*
 * Records that end with a text from the program: MARK, and NAME of a task.
 */
#ifndef IPS_AGENT_API_TEXT_H
#define IPS_AGENT_API_TEXT_H

#include <string.h>

#include "agent/record/fast.h"

#define IPS_TEXT_BYTES 512u /* with the NUL; longer texts are truncated */

static inline size_t ips_text_truncated_length(const char *text)
{
    size_t n = 0;
    /* cppcheck-suppress arrayIndexOutOfBoundsCond ; a NUL ends the loop */
    while (n < IPS_TEXT_BYTES - 1 && text[n])
        n++;
    return n;
}

/* Fills and publishes `rec`, which has space for len + 1 bytes of text. */
static inline void ips_text_fill_and_publish(struct ips_rec_text *rec,
                                             const char *text, size_t len,
                                             uint64_t cpu)
{
    rec->h.a = (uint32_t)len;
    rec->cpu = cpu;
    memcpy(rec->text, text, len);
    rec->text[len] = '\0';
    ips_rec_publish_inline(rec);
}

#endif
