/* Matches receives with their sends while nodes are made, chain by chain,
 * instead of in pass `match`. This is possible if the bytes come from a chain
 * that has all its nodes already, and no other chain sends or reads on that
 * channel. Then the columns of the receive are still in the cache. Pass `match`
 * matches all other receives. If a chain has receives of both kinds, pass
 * `match` gets all of them, because the processor could not predict which kind
 * is next.
 *
 * Pass `scan` collects the channels on which each stream sends and receives
 * (b->uses). */
#include "slave/build/match.h"

#define AT_ONCE 8u

int b_collect_channel_uses(struct build *b, uint32_t stream)
{
    for (uint32_t at = 0; at < 2 * b->used_top + 2; at += AT_ONCE) {
        uint64_t some;
        memcpy(&some, b->used + at, AT_ONCE);
        if (!some)
            continue;
        for (uint32_t k = at; k < at + AT_ONCE; k++) {
            int rc = b->used[k] ? B_MORE(b->uses, b->err) : 0;
            if (rc < 0)
                return rc;
            if (b->used[k])
                b->uses.v[b->uses.n++] =
                    (struct b_channel_use){stream, k / 2, k % 2};
        }
        memset(b->used + at, 0, AT_ONCE);
    }
    b->used_top = 0;
    return 0;
}

static void set_user_or_mark_several(uint32_t *is, uint32_t user)
{
    *is = *is == 0 || *is == user ? user : B_USERS;
}

/* Sets `reader` and `writer` of each end. Channels with an id of B_USED_IDS - 1
 * or more count as used by several chains, and so does one with a send that did
 * not end, since how much it sent is known only when all nodes are made. */
static void set_only_reader_and_writer_of_ends(struct build *b)
{
    for (uint32_t i = 0; i < b->uses.n; i++) {
        const struct b_channel_use *u = &b->uses.v[i];
        const struct b_stream *s = &b->streams[u->stream];
        const struct b_chan *c = b_find_chan(b, s->image, u->id);
        uint32_t user = s->chain == IPS_NONE ? B_USERS : s->chain + 1;
        if (c && u->receives && c->end_recv != IPS_NONE)
            set_user_or_mark_several(&b->ends[c->end_recv].reader, user);
        if (c && !u->receives && c->end_send != IPS_NONE)
            set_user_or_mark_several(&b->ends[c->end_send].writer, user);
    }
    for (uint32_t i = 0; i < b->chans.n; i++) {
        const struct b_chan *c = &b->chans.v[i];
        if (c->id >= B_USED_IDS - 1 && c->end_recv != IPS_NONE)
            b->ends[c->end_recv].reader = B_USERS;
        if (c->id >= B_USED_IDS - 1 && c->end_send != IPS_NONE)
            b->ends[c->end_send].writer = B_USERS;
    }
    for (uint32_t i = 0; i < b->in->stream_count; i++) {
        const struct b_stream *s = &b->streams[i];
        const uint64_t what = s->in->begun.t ? s->in->begun.what : 0;
        const struct b_chan *c =
            IPS_BEGUN_TYPE(what) == IPS_REC_SEND
                ? b_find_chan(b, s->image, IPS_BEGUN_NUMBER(what))
                : NULL;
        if (c && c->end_send != IPS_NONE)
            b->ends[c->end_send].writer = B_USERS;
    }
}

/* Whether chain `c` is the only reader of end `to`, and the chain that sends to
 * it has a lower number, so that its nodes are made first. */
static bool can_match_early(const struct build *b, uint32_t to, uint32_t c)
{
    const struct b_end *e = &b->ends[to];
    uint32_t from = b->out->ends[to].peer_end;
    return e->local && !e->datagram && e->reader == c + 1 &&
           !b->ends[from].datagram && b->ends[from].writer <= c;
}

int b_init_early_match(struct build *b)
{
    if (b->incremental || !b->plain || b->careful)
        return 0;
    set_only_reader_and_writer_of_ends(b);
    for (uint32_t i = 0; i < b->uses.n; i++) {
        const struct b_channel_use *u = &b->uses.v[i];
        const struct b_stream *s = &b->streams[u->stream];
        const struct b_chan *c = b_find_chan(b, s->image, u->id);
        if (u->receives && s->chain != IPS_NONE)
            b->chains[s->chain].late |=
                !c || c->end_recv == IPS_NONE ||
                !can_match_early(b, c->end_recv, s->chain);
    }
    b->early = b_calloc(b->out->end_count, sizeof(*b->early), b->err);
    b->early_count = b->out->end_count;
    return b->early ? 0 : IPS_E_NO_MEMORY;
}

struct match_cursor *b_get_early_match_cursor(struct build *b, uint32_t to,
                                              uint32_t c)
{
    if (to >= b->early_count || b->chains[c].late || !can_match_early(b, to, c))
        return NULL;
    struct match_cursor *f = &b->early[to];
    if (f->late || b->ends[b->out->ends[to].peer_end].send_blocked)
        return NULL;
    if (!f->early)
        *f = b_init_match_cursor(b, to);
    f->early = true;
    return f;
}

void b_stop_early_match_of_end(struct build *b, uint32_t to)
{
    if (to < b->early_count)
        b->early[to].late = true;
}
