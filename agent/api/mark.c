/*
 * Marks through the API. A program usually sets few different marks many times,
 * from texts at fixed addresses. So a text is recorded once and kept in a
 * *slot*; later marks are MARK_SHORT records of 16 bytes that refer to the slot
 * (pool/format.h).
 *
 * Invariants:
 *  - a slot is valid only in its era (agent/record/thread.h), a number that
 *    changes when the thread begins a segment, is a fork child, or was switched
 *    out. So the slot's MARK is in the current segment and was written by this
 *    process. After a switch the text is written again: switches are rare, and
 *    one comparison detects all three cases.
 *  - the program may have overwritten the text, so it is compared, byte for
 *    byte, with our copy.
 *  - a mark that a signal handler sets while its thread has an unpublished
 *    record is written in full, without a slot. The unpublished record may be
 *    the MARK to which the slot would refer, and it may never be published.
 */
#include "agent/api/api.h"
#include "agent/api/text.h"
#include "agent/record/extra.h"
#include "agent/record/proc_event.h"

/* Returns the index of the first of the two slots that may hold `text`. The
 * hash spreads neighbouring addresses over the slots; texts may still share
 * one. */
static inline uint32_t first_slot_of_text(const char *text)
{
    return (uint32_t)((uintptr_t)text * 0x9e3779b97f4a7c15ull >> 61);
}
_Static_assert(IPS_MARK_PLACES == 8, "61 = 64 - 3 bits");

/* Does the memory at `text` still contain the text that is kept in the slot?
 * Reads, and ignores, up to 7 bytes after the text's NUL, but only within its
 * page (at least 4096 bytes). Returns false if the text is too near to the end
 * of a page for that. */
__attribute__((no_sanitize("address"))) static inline bool
slot_text_is_unchanged(const char *text, const struct ips_mark_slot *p)
{
    if (unlikely(((uintptr_t)text & 4095) > 4096 - IPS_MARK_PLACE_BYTES))
        return false;
    uint64_t word, last = p->last;
    for (uint64_t i = 0; i < last; i++) {
        __builtin_memcpy(&word, text + 8 * i, sizeof(word));
        if (word != p->copy[i])
            return false;
    }
    __builtin_memcpy(&word, text + 8 * last, sizeof(word));
    return ((word ^ p->copy[last]) & p->mask) == 0;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "see `mask`");

static inline bool is_slot_current_for_text(const struct ips_thread *me,
                                            const struct ips_mark_slot *p,
                                            const char *text, uint32_t era)
{
    return p->text == text && p->era == era && era && !me->in_vfork &&
           !me->recs_open;
}

static __attribute__((noinline)) void record_full_mark(const char *text)
{
    if (!ips_core_attach_to_run_once() || ips_me.in_vfork ||
        !ips_core.main_stream)
        return;
    /* Map the extra state before the record begins, so that the record is not
     * left unpublished during the system call. */
    bool plain = ips_me.recs_open || !ips_core.cpu_marks;
    struct ips_extra *extra = plain ? NULL : ips_extra_get_or_map();
    struct ips_moment now = ips_moment_now();
    uint32_t era = ips_me.era;
    size_t len = ips_text_truncated_length(text);
    struct ips_rec_text *rec = (struct ips_rec_text *)ips_rec_begin_inline(
        IPS_REC_MARK, sizeof(*rec) + len + 1, now.t);
    if (!rec)
        return;
    if (!extra || len >= IPS_MARK_PLACE_BYTES) {
        ips_text_fill_and_publish(rec, text, len, now.cpu);
        return;
    }
    uint32_t n = first_slot_of_text(text);
    if (extra->mark_slot[n].era == era && extra->mark_slot[n].text != text)
        n ^= 1; /* the second of the text's two slots */
    struct ips_mark_slot *p = &extra->mark_slot[n];
    p->text = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    p->last = (uint32_t)len / 8;
    p->mask = ~(uint64_t)0 >> (56 - 8 * (len & 7));
    for (uint32_t i = 0; i < IPS_MARK_PLACE_BYTES / 8; i++)
        p->copy[i] = 0;
    memcpy(p->copy, text, len);
    p->era = era;
    p->text = text;
    ips_rec_add_flags(rec, (n + 1) << IPS_REC_F_PLACE);
    ips_text_fill_and_publish(rec, (const char *)p->copy, len, now.cpu);
    ips_set_short_record_baseline(&extra->mark_baseline, &now, era);
}

/* Records a mark that ips_record_mark() could not write quickly. The record is
 * short if the text is in its second slot, or in the first one but at the end
 * of a page; otherwise the record contains the text. */
static __attribute__((noinline)) void record_mark_slow(const char *text)
{
    struct ips_thread *me = ips_this_thread();
    struct ips_extra *x = me->extra;
    uint32_t n = first_slot_of_text(text);
    uint32_t era = x ? *(volatile uint32_t *)&x->mark_baseline.era : 0;
    uint64_t left = 0;
    for (uint32_t i = 0; x && text && left == 0 && i < 2; i++) {
        const struct ips_mark_slot *p = &x->mark_slot[n ^ i];
        if (!is_slot_current_for_text(me, p, text, era) ||
            strcmp(text, (const char *)p->copy) != 0)
            continue;
        left = ips_try_write_short_event(me, &x->mark_baseline, era,
                                         IPS_REC_MARK_SHORT, 0, (n ^ i) + 1);
        if (!left)
            return;
        ips_short_record_give_back_if_reserved(left,
                                               sizeof(struct ips_rec_head));
    }
    if (text)
        record_full_mark(text);
}

/* Called when a short record could not be written: gives its reservation back
 * and writes a long record. */
static __attribute__((noinline)) void
undo_short_mark_and_record_full(const char *text, uint64_t left)
{
    ips_short_record_give_back_if_reserved(left, sizeof(struct ips_rec_head));
    record_full_mark(text);
}

void ips_record_mark(const char *text)
{
    struct ips_thread *me = ips_this_thread();
    struct ips_extra *x = me->extra;
    uint32_t n = first_slot_of_text(text);
    if (unlikely(!x)) {
        record_mark_slow(text);
        return;
    }
    uint32_t era = *(volatile uint32_t *)&x->mark_baseline.era;
    const struct ips_mark_slot *p = &x->mark_slot[n];
    /* An empty slot has era 0, so a NULL `text` does not match it. */
    if (unlikely(!is_slot_current_for_text(me, p, text, era) ||
                 !slot_text_is_unchanged(text, p))) {
        record_mark_slow(text);
        return;
    }
    uint64_t left = ips_try_write_short_event(me, &x->mark_baseline, era,
                                              IPS_REC_MARK_SHORT, 0, n + 1);
    if (unlikely(left))
        undo_short_mark_and_record_full(text, left);
}
