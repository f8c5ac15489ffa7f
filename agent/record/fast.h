/*
 * Inline versions of functions that reserve and publish records, for hooks
 * whose cost matters. agent/record/core.h and agent/record/stream.h document
 * them.
 */
#ifndef IPS_AGENT_RECORD_FAST_H
#define IPS_AGENT_RECORD_FAST_H

#include "agent/record/stream.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static inline uint64_t ips_reserve_bytes(uint64_t *cur, uint64_t bytes)
{
#if defined(__x86_64__)
    /* One instruction, so it is atomic with respect to this thread's signal
     * handlers. No lock prefix, since no other thread uses `cur`. */
    __asm__ volatile("xaddq %0, %1"
                     : "+r"(bytes), "+m"(*cur)
                     :
                     : "memory", "cc");
    return bytes;
#else
    uint64_t at = __atomic_fetch_add(cur, bytes, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    return at;
#endif
}

static inline void *ips_write_reserved_head(struct ips_stream *s, uint64_t at,
                                            uint64_t bytes, uint32_t type,
                                            uint64_t stamp)
{
    struct ips_rec_head *h = (struct ips_rec_head *)at;
    /* Until the record is published, the flags hold its type. A reader can
     * already skip the record, because the head has its length. */
    atomic_store_explicit(
        &h->word, IPS_REC_RESERVED | (uint32_t)(bytes / 8) << 8 | type << 16,
        memory_order_relaxed);
    /* A signal handler that runs in between must not see the tail moved past a
     * record without a head. */
    atomic_signal_fence(memory_order_seq_cst);
    s->tail = at + bytes;
    h->t = stamp;
    return h;
}

/* Inline version of ips_stream_begin_record. `me`: the calling thread's state.
 */
static inline void *ips_stream_begin_record_in_thread(struct ips_thread *me,
                                                      struct ips_stream *s,
                                                      enum ips_rec_type type,
                                                      size_t size,
                                                      uint64_t stamp)
{
    uint64_t bytes = ((uint64_t)size + 7) & ~(uint64_t)7;
    if (unlikely(bytes > IPS_REC_MAX_BYTES ||
                 bytes < sizeof(struct ips_rec_head)))
        return NULL;
    me->recs_open++; /* before the xadd: keeps the segment mapped */
    uint64_t at = ips_reserve_bytes(&s->cur, bytes);
    if (unlikely(at != s->tail || at + bytes > s->limit ||
                 *ips_core.alive != IPS_ALIVE))
        return ips_stream_begin_record_slow(s, at, bytes, type, stamp);
    return ips_write_reserved_head(s, at, bytes, type, stamp);
}
static inline void *ips_stream_begin_record_inline(struct ips_stream *s,
                                                   enum ips_rec_type type,
                                                   size_t size, uint64_t stamp)
{
    return ips_stream_begin_record_in_thread(&ips_me, s, type, size, stamp);
}

/* Inline version of ips_rec_begin_at. `me`: the calling thread's state. */
static inline void *ips_rec_begin_in_thread(struct ips_thread *me,
                                            enum ips_rec_type type,
                                            size_t bytes, uint64_t stamp)
{
    if (unlikely(me->in_vfork || !ips_core.main_stream))
        return NULL;
    return ips_stream_begin_record_in_thread(me, &me->stream, type, bytes,
                                             stamp);
}
static inline void *ips_rec_begin_inline(enum ips_rec_type type, size_t bytes,
                                         uint64_t stamp)
{
    return ips_rec_begin_in_thread(&ips_me, type, bytes, stamp);
}

/* Inline version of ips_rec_publish. `me`: the calling thread's state. */
static inline void ips_rec_publish_in_thread(struct ips_thread *me, void *rec)
{
    struct ips_rec_head *h = rec;
    uint32_t word = atomic_load_explicit(&h->word, memory_order_relaxed);
    /* If the record is no longer RESERVED, this is a fork child, and its parent
     * has published the record. */
    if (likely((word & 0xffu) == IPS_REC_RESERVED)) {
        word = (word >> 16 & 0xffu) | (word & 0xff00u) | (word >> 24) << 16;
        /* Partner: the acquire fence in copy_bytes() of
         * slave/drain/segment_reader.c. */
        atomic_store_explicit(&h->word, word, memory_order_release);
    }
    me->recs_open--; /* after the store: keeps the segment mapped until then */
}
static inline void ips_rec_publish_inline(void *rec)
{
    ips_rec_publish_in_thread(&ips_me, rec);
}

#endif
