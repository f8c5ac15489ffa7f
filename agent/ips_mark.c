/*
 * Marks through the API. A program that sets marks sets few different ones
 * many times, from texts that stay where they are: the text is recorded once
 * and has a *place* then, and the next ones are MARK_SHORT of 16 bytes that
 * name it (format.h).
 *
 * Invariants:
 *  - a place counts while its era does (agent/cpu.h): its MARK is in this
 *    segment, of this process, and the thread has not been switched out since.
 *    Who comes after a switch writes the text again; it is seldom, and there is
 *    one word to look at.
 *  - what the program may have written over is compared, byte for byte, with a
 *    copy of ours.
 *  - a mark below an unpublished record of the same thread (a handler's) has
 *    neither place nor line: that record may be the very MARK it would refer
 *    to, and never be published.
 */
#include "agent/ips_api.h"
#include "agent/ips_text.h"
#include "agent/proc_event.h"

struct place {
    const char *text; /* the program's */
    uint32_t era;
    uint32_t bytes; /* with the NUL */
    uint64_t copy[IPS_MARK_PLACE_BYTES / 8];
};

static __thread struct {
    struct ips_line line;
    struct place place[IPS_MARK_PLACES];
} marks __attribute__((tls_model("initial-exec")));

/* Any two addresses that differ may share one; what counts is that texts side
 * by side do not. */
static inline uint32_t first_place(const char *text)
{
    return (uint32_t)((uintptr_t)text * 0x9e3779b97f4a7c15ull >> 61);
}
_Static_assert(IPS_MARK_PLACES == 8, "61 = 64 - 3 bits");

/* Reads up to 7 bytes behind its NUL, within a page (a page has at least 4096
 * bytes): what lies there does not count. */
__attribute__((no_sanitize("address"))) static inline bool
same_text(const char *text, const struct place *p)
{
    uint32_t left = p->bytes;
    if (unlikely(((uintptr_t)text & 4095) > 4096 - IPS_MARK_PLACE_BYTES)) {
        const char *copy = (const char *)p->copy;
        for (uint32_t i = 0; i < left; i++)
            if (text[i] != copy[i])
                return false;
        return true;
    }
    for (const uint64_t *copy = p->copy;; copy++, text += 8, left -= 8) {
        uint64_t word;
        __builtin_memcpy(&word, text, sizeof(word));
        if (left <= 8)
            return (word ^ *copy) << (64 - 8 * left) == 0;
        if (word != *copy)
            return false;
    }
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "see same_text");

static inline bool is(const struct place *p, const char *text, uint32_t era)
{
    return p->text == text && p->era == era && same_text(text, p);
}

static __attribute__((noinline)) void mark_long(const char *text)
{
    if (!ips_core_attach() || ips_in_vfork || !ips_core.main_stream)
        return;
    bool nested = ips_recs_open != 0;
    struct ips_moment now = ips_moment_now();
    uint32_t era = ips_cpu.era;
    size_t len = ips_text_length(text);
    struct ips_rec_text *rec = (struct ips_rec_text *)ips_rec_begin_inline(
        IPS_REC_MARK, sizeof(*rec) + len + 1, now.t);
    if (!rec)
        return;
    if (nested || len >= IPS_MARK_PLACE_BYTES || !ips_core.cpu_marks) {
        ips_text_fill(rec, text, len, now.cpu);
        return;
    }
    uint32_t n = first_place(text);
    if (marks.place[n].era == era && marks.place[n].text != text)
        n ^= 1; /* the other of two */
    struct place *p = &marks.place[n];
    p->text = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    p->bytes = (uint32_t)len + 1;
    for (uint32_t i = 0; i < IPS_MARK_PLACE_BYTES / 8; i++)
        p->copy[i] = 0;
    memcpy(p->copy, text, len);
    p->era = era;
    p->text = text;
    ips_rec_add_flags(rec, (n + 1) << IPS_REC_F_PLACE);
    ips_text_fill(rec, (const char *)p->copy, len, now.cpu);
    ips_line_draw(&marks.line, &now, era);
}

void ips_mark_record(const char *text)
{
    uint32_t n = first_place(text);
    uint32_t era = *(volatile uint32_t *)&marks.line.era;
    if (unlikely(!text || *ips_core.alive != IPS_ALIVE || ips_in_vfork ||
                 ips_recs_open))
        goto whole;
    if (unlikely(!is(&marks.place[n], text, era))) {
        n ^= 1;
        if (!is(&marks.place[n], text, era))
            goto whole;
    }
    if (likely(ips_event_short(&marks.line, era, IPS_REC_MARK_SHORT, 0, n + 1)))
        return;
whole:
    if (text)
        mark_long(text);
}
