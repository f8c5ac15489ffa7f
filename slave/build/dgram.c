/* Matches datagrams by addresses, length and payload hash. Among datagrams
 * with equal values the first sent counts as received first. So a lost or
 * reordered datagram does not disturb the match of others. A receive that slept
 * found its socket empty, so no later receive of the socket gets a datagram
 * that was sent before that on the same network stack: it was lost.
 *
 * One call may move several datagrams (UDP_SEGMENT, UDP_GRO): each is matched
 * by itself, and a receive depends on the send of its last datagram. A
 * datagram sent to a group or by broadcast is received once by each socket. If
 * the receiver's buffer was too short for a datagram, only its first bytes are
 * known: the receive is matched with the first possible send that no other
 * receive has. */
#include "agent/pool/ready.h"
#include "slave/build/node.h"

#define TRIES 256u /* limit of the unmatched sends tried for one receive */

/* ---- adding datagrams ---- */

static int add_one_dgram(struct maker *m, const struct ips_rec_io *r,
                         const struct b_dgram *d)
{
    struct build *b = m->b;
    int rc = B_MORE(b->dgrams, b->err);
    if (rc < 0)
        return rc;
    struct b_dgram *new = &b->dgrams.v[b->dgrams.n++];
    *new = *d;
    new->bytes = (uint64_t)r->result;
    new->twin = IPS_NONE;
    if (d->dir == B_RECV && r->ready <= IPS_CUT_KNOWN)
        new->cut = (uint8_t)r->ready;
    return 0;
}

/* Adds the datagrams of a call that moved several; `first` is the first of
 * them. Only a whole build calls this: at such a call an incremental build
 * starts again as a whole build (has_only_expected_changes()). */
static int add_dgrams_of_call(struct maker *m, const struct ips_rec_io *r,
                              const struct b_dgram *first)
{
    struct b_dgram d = *first;
    uint64_t left = first->bytes, segment = 0;
    int rc = 0;
    for (uint32_t i = 0; i < m->dgram_count && left && rc == 0; i++) {
        const uint8_t *p = m->dgrams[i];
        uint32_t at = sizeof(struct ips_rec_dgram);
        if (m->dgram_bytes[i] < at + sizeof(segment))
            break;
        memcpy(&segment, p + at, sizeof(segment));
        memcpy(&d.hash, p + offsetof(struct ips_rec_dgram, hash),
               sizeof(d.hash));
        for (at += 8; left && rc == 0; at += 8) {
            d.len = segment ? ips_min_u64(left, segment) : left;
            left -= d.len;
            d.first = d.dir == B_RECV && left > 0;
            d.ext = d.first ? IPS_NONE : first->ext;
            rc = add_one_dgram(m, r, &d);
            if (at + sizeof(d.hash) > m->dgram_bytes[i])
                break;
            memcpy(&d.hash, p + at, sizeof(d.hash));
        }
    }
    return rc;
}

int b_append_datagrams_of_call(struct maker *m, const struct ips_rec_io *r,
                               const struct interval *v, uint32_t node,
                               uint8_t dir, uint32_t ext)
{
    const struct build *b = m->b;
    struct b_dgram d = {.t = v->t,
                        .t_ret = v->t_ret,
                        .len = (uint64_t)r->result,
                        .bytes = (uint64_t)r->result,
                        .node = node,
                        .end = v->end,
                        .ext = ext,
                        .local = b->ends[v->end].laddr,
                        .remote = b->ends[v->end].raddr,
                        .empty_t = v->empty_t,
                        .dir = dir};
    if (m->have_dgram && m->dgram.h.a == r->h.a) {
        d.hash = m->dgram.hash;
        d.path_hash = m->dgram.path_hash;
        if (m->dgram.local.port)
            d.local = m->dgram.local;
        if (m->dgram.remote.port)
            d.remote = m->dgram.remote;
        if (!b->from && m->dgram_bytes[0] > sizeof(m->dgram) && d.bytes)
            return add_dgrams_of_call(m, r, &d);
    }
    return add_one_dgram(m, r, &d);
}

/* ---- matching ---- */

struct datagram_ref {
    uint64_t key, t;
    uint32_t index;
};

static int compare_datagram_refs_by_key(const void *va, const void *vb)
{
    const struct datagram_ref *a = va, *b = vb;
    CMP3(a->key, b->key);
    CMP3(a->t, b->t);
    CMP3(a->index, b->index);
    return 0;
}

/* Returns a key that is equal for the send and the receive of one datagram: a
 * hash of kind, port, length and payload hash. */
static uint64_t datagram_match_key(const struct build *b,
                                   const struct b_dgram *d)
{
    uint8_t kind = b->out->ends[d->end].kind;
    uint64_t port = 0;
    if (kind == IPS_CHAN_UDP)
        port = d->dir == B_SEND ? d->remote.port : d->local.port;
    uint64_t parts[4] = {kind, port, d->len, d->hash};
    return ips_fnv1a(IPS_FNV_SEED, parts, sizeof(parts));
}

static bool is_addr_compatible(const struct ips_addr *a,
                               const struct ips_addr *b)
{
    if (a->port && b->port && a->port != b->port)
        return false;
    return !a->port || !b->port || b_is_wildcard_addr(a) ||
           b_is_wildcard_addr(b) ||
           memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

/* Whether `s` and `r` can be the same datagram, judging by kind, time and
 * addresses. */
static bool do_time_and_addresses_allow_match(const struct build *b,
                                              const struct b_dgram *s,
                                              const struct b_dgram *r)
{
    const struct b_end *from = &b->ends[s->end], *to = &b->ends[r->end];
    if (b->out->ends[s->end].kind != b->out->ends[r->end].kind ||
        s->t > r->t_ret)
        return false;
    if (b->out->ends[s->end].kind == IPS_CHAN_UDP) {
        /* a receive has the source address, a send not always */
        const struct ips_addr *source = r->remote.port ? &r->remote : &s->local;
        if (b_stay_within_netns(&s->remote, source) && from->netns != to->netns)
            return false;
        return is_addr_compatible(&s->remote, &r->local) &&
               is_addr_compatible(&s->local, &r->remote);
    }
    if (from->peer_ino)
        return from->peer_ino == to->ino;
    if (to->peer_ino)
        return to->peer_ino == from->ino;
    return s->path_hash && s->path_hash == to->name_hash;
}

static bool is_same_payload_and_may_match(const struct build *b,
                                          const struct b_dgram *s,
                                          const struct b_dgram *r)
{
    return s->len == r->len && s->hash == r->hash &&
           do_time_and_addresses_allow_match(b, s, r);
}

/* Whether the datagram was sent to a multicast group, or broadcast. Prefix
 * lengths are unknown, so a broadcast address is recognised only if its last
 * byte is 255. */
static bool is_sent_to_many(const struct b_dgram *d)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *a = d->remote.addr;
    if (!d->remote.port)
        return false;
    if (memcmp(a, v4, sizeof(v4)) != 0)
        return a[0] == 0xff;
    return (a[12] & 0xf0) == 0xe0 || a[15] == 0xff;
}

/* Returns the end of the socket that `end` belongs to: `end` may be one of the
 * socket's flows. */
static uint32_t get_socket_end_of_flow(const struct build *b, uint32_t end)
{
    return b->ends[end].socket == IPS_NONE ? end : b->ends[end].socket;
}

static void link_datagram_send_to_receive(struct build *b, struct b_dgram *s,
                                          struct b_dgram *r, uint32_t s_index,
                                          uint32_t r_index)
{
    s->twin = r_index;
    r->twin = s_index;
    if (!r->first)
        b_set_cross(b, r->node, s->node, IPS_X_DATA, r->bytes);
    uint32_t pair[2] = {s->end, r->end};
    for (int i = 0; i < 2; i++) {
        struct ips_end *row = &b->out->ends[pair[i]];
        if (!b->ends[pair[i]].local)
            row->peer_end = pair[!i];
        b->ends[pair[i]].local = true;
        row->peer = IPS_PEER_LOCAL;
    }
}

/* State of the match. A multicast datagram has several receives: `twin` of the
 * send is the receive matched last, and `next`, indexed by receive, is the one
 * matched before. */
struct match {
    struct build *b;
    const struct datagram_ref *send, *recv;
    uint32_t sends, recvs;
    /* [dgrams.n] by receive: the receive of the same datagram that was matched
     * before; IPS_NONE: none */
    uint32_t *next;
};

/* Whether the socket of `r` has received `s` already. */
static bool has_socket_received_datagram(const struct match *m,
                                         const struct b_dgram *s,
                                         const struct b_dgram *r)
{
    const struct build *b = m->b;
    uint32_t to = get_socket_end_of_flow(b, r->end);
    for (uint32_t i = s->twin; i != IPS_NONE; i = m->next[i])
        if (get_socket_end_of_flow(b, b->dgrams.v[i].end) == to)
            return true;
    return false;
}

/* Whether the socket of `r` held no datagram at a time after `s` was sent. Then
 * `s` is hardly the datagram of `r`. */
static bool was_socket_empty_after_send(const struct b_dgram *s,
                                        const struct b_dgram *r)
{
    return s->t_ret < r->empty_t;
}

/* Whether `s` was lost before `r`. A datagram that stays on one network stack
 * is in the receiver's queue when the send returns. */
static bool was_datagram_lost_before_receive(const struct build *b,
                                             const struct b_dgram *s,
                                             const struct b_dgram *r)
{
    return was_socket_empty_after_send(s, r) &&
           b->ends[s->end].netns == b->ends[r->end].netns;
}

/* Sets empty_t of every receive to the last time before its call at which a
 * receive of its socket began to sleep. `ref`: the receives; sorted anew here.
 */
static void set_socket_empty_time_of_receives(struct build *b,
                                              struct datagram_ref *ref,
                                              uint32_t n)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < n; i++)
        ref[i].key = get_socket_end_of_flow(b, b->dgrams.v[ref[i].index].end);
    qsort(ref, n, sizeof(*ref), compare_datagram_refs_by_key);
    for (uint32_t i = 0; i < n; i++) {
        struct b_dgram *r = &b->dgrams.v[ref[i].index];
        last = i && ref[i].key == ref[i - 1].key ? last : 0;
        last = ips_max_u64(last, r->empty_t);
        if (last <= r->t)
            r->empty_t = last;
    }
}

/* Matches receive `recv` with a multicast datagram among the sends from `k` on.
 * False: there is none. */
static bool match_multicast_receive(const struct match *m, uint32_t k,
                                    uint32_t recv)
{
    struct build *b = m->b;
    struct b_dgram *r = &b->dgrams.v[m->recv[recv].index];
    uint32_t best = IPS_NONE;
    for (uint32_t tried = 0;
         k < m->sends && m->send[k].key == m->recv[recv].key && tried < TRIES;
         k++) {
        const struct b_dgram *s = &b->dgrams.v[m->send[k].index];
        if (!is_sent_to_many(s) || !is_same_payload_and_may_match(b, s, r) ||
            has_socket_received_datagram(m, s, r))
            continue;
        tried++;
        if (best == IPS_NONE)
            best = m->send[k].index;
        if (was_socket_empty_after_send(s, r))
            continue;
        best = m->send[k].index;
        break;
    }
    if (best == IPS_NONE)
        return false;
    uint32_t before = b->dgrams.v[best].twin;
    link_datagram_send_to_receive(b, &b->dgrams.v[best], r, best,
                                  m->recv[recv].index);
    m->next[m->recv[recv].index] = before;
    return true;
}

/* Returns the first of the sends [from, m->sends) that has the key of receive
 * `recv` and was called after its socket was empty; m->sends if there is none.
 */
static uint32_t find_first_send_after_empty(const struct match *m,
                                            uint32_t from, uint32_t recv)
{
    struct datagram_ref after = {
        .key = m->recv[recv].key,
        .t = m->b->dgrams.v[m->recv[recv].index].empty_t};
    uint32_t to = m->sends;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (compare_datagram_refs_by_key(&m->send[mid], &after) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* Matches receive `recv` with a send among those from `k` on; `lost`: also with
 * one that seems to be lost. False: there is none. */
static bool match_receive(const struct match *m, uint32_t k, uint32_t recv,
                          bool lost)
{
    struct build *b = m->b;
    struct b_dgram *r = &b->dgrams.v[m->recv[recv].index];
    for (uint32_t tried = 0;
         k < m->sends && m->send[k].key == m->recv[recv].key && tried < TRIES;
         k++) {
        struct b_dgram *s = &b->dgrams.v[m->send[k].index];
        if (s->twin != IPS_NONE || is_sent_to_many(s))
            continue;
        tried++;
        if ((!lost && was_datagram_lost_before_receive(b, s, r)) ||
            !is_same_payload_and_may_match(b, s, r))
            continue;
        link_datagram_send_to_receive(b, s, r, m->send[k].index,
                                      m->recv[recv].index);
        return true;
    }
    return false;
}

/* Whether more datagrams with the key of receive `recv` were sent, from send
 * `k` on, than were received, from receive `recv` on. */
static bool has_key_more_sends_than_receives(const struct match *m, uint32_t k,
                                             uint32_t recv)
{
    uint64_t key = m->recv[recv].key;
    while (k < m->sends && m->send[k].key == key && recv < m->recvs &&
           m->recv[recv].key == key) {
        k++;
        recv++;
    }
    return k < m->sends && m->send[k].key == key;
}

static void match_whole_datagrams(const struct match *m)
{
    struct build *b = m->b;
    uint32_t head = 0, group = 0; /* head: first send that is not matched;
                                     group: first send with this key */
    bool lost = false;
    for (uint32_t i = 0; i < m->recvs; i++) {
        uint64_t key = m->recv[i].key;
        while (group < m->sends && m->send[group].key < key)
            group++;
        if (i == 0 || m->recv[i - 1].key != key)
            lost = has_key_more_sends_than_receives(m, group, i);
        while (head < m->sends &&
               (m->send[head].key < key ||
                (m->send[head].key == key &&
                 (b->dgrams.v[m->send[head].index].twin != IPS_NONE ||
                  is_sent_to_many(&b->dgrams.v[m->send[head].index])))))
            head++;
        struct b_dgram *r = &b->dgrams.v[m->recv[i].index];
        if (r->cut == IPS_CUT_KNOWN || match_multicast_receive(m, group, i))
            continue;
        /* A receive that seems to have slept may only have been preempted. So
         * if no other send fits, it gets a datagram that seems to be lost. */
        if (lost && r->empty_t &&
            (match_receive(m, head, i, false) ||
             match_receive(m, find_first_send_after_empty(m, head, i), i,
                           false)))
            continue;
        match_receive(m, head, i, true);
    }
}

/* ---- datagrams of which only the first bytes were received ---- */

#define HASHED_BYTES 256u
#define FNV_PRIME 0x100000001b3ULL /* the prime of ips_fnv1a() */

/* Recovers the hash of the payload alone from d->hash, which also covers the
 * length: FNV-1a can be inverted byte by byte. */
static uint64_t remove_length_from_payload_hash(const struct b_dgram *d)
{
    uint64_t inverse = 1, hash = d->hash;
    /* each step doubles the number of correct bits */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - FNV_PRIME * inverse;
    for (int i = 7; i >= 0; i--)
        hash = hash * inverse ^ (d->len >> 8 * i & 0xff);
    return hash;
}

/* Whether the receive may have the first bytes of datagram `s`. */
static bool may_receive_be_truncated_from_send(const struct build *b,
                                               const struct b_dgram *s,
                                               const struct b_dgram *r)
{
    if (r->cut == IPS_CUT_KNOWN ? s->len != r->len : s->len <= r->len)
        return false;
    if (r->cut == IPS_CUT_MAYBE && r->len >= HASHED_BYTES &&
        remove_length_from_payload_hash(s) !=
            remove_length_from_payload_hash(r))
        return false;
    return !is_sent_to_many(s) && do_time_and_addresses_allow_match(b, s, r);
}

static int compare_datagram_refs_by_time(const void *va, const void *vb)
{
    const struct datagram_ref *a = va, *b = vb;
    CMP3(a->t, b->t);
    CMP3(a->index, b->index);
    return 0;
}

/* Matches the remaining receives that have, or may have, only the first bytes
 * of their datagram with the remaining sends, in order of time. A receive gets
 * the first possible send, because a socket delivers datagrams in the order
 * they arrived. */
static void match_truncated_datagrams(const struct match *m,
                                      struct datagram_ref *send,
                                      struct datagram_ref *recv)
{
    struct build *b = m->b;
    uint32_t sends = 0, recvs = 0;
    for (uint32_t i = 0; i < b->dgrams.n; i++) {
        const struct b_dgram *d = &b->dgrams.v[i];
        if (d->twin != IPS_NONE)
            continue;
        if (d->dir == B_SEND)
            send[sends++] = (struct datagram_ref){0, d->t, i};
        else if (d->cut != IPS_CUT_NOT)
            recv[recvs++] = (struct datagram_ref){0, d->t_ret, i};
    }
    if (!recvs || !sends)
        return;
    qsort(send, sends, sizeof(*send), compare_datagram_refs_by_time);
    qsort(recv, recvs, sizeof(*recv), compare_datagram_refs_by_time);
    uint32_t head = 0;
    for (uint32_t i = 0; i < recvs; i++) {
        struct b_dgram *r = &b->dgrams.v[recv[i].index];
        while (head < sends && b->dgrams.v[send[head].index].twin != IPS_NONE)
            head++;
        uint32_t best = IPS_NONE;
        for (uint32_t k = head, tried = 0; k < sends && tried < TRIES; k++) {
            struct b_dgram *s = &b->dgrams.v[send[k].index];
            if (s->twin != IPS_NONE)
                continue;
            tried++;
            if (!may_receive_be_truncated_from_send(b, s, r))
                continue;
            if (best == IPS_NONE)
                best = send[k].index;
            if (was_socket_empty_after_send(s, r))
                continue;
            best = send[k].index;
            break;
        }
        if (best != IPS_NONE)
            link_datagram_send_to_receive(b, &b->dgrams.v[best], r, best,
                                          recv[i].index);
    }
}

/* ---- positions for a match on another machine ---- */

static int compare_datagrams_by_content_and_time(const void *va, const void *vb,
                                                 void *arg)
{
    const struct build *b = arg;
    const struct b_dgram *x = &b->dgrams.v[*(const uint32_t *)va];
    const struct b_dgram *y = &b->dgrams.v[*(const uint32_t *)vb];
    CMP3(x->end, y->end);
    CMP3(x->dir, y->dir);
    CMP3(x->len, y->len);
    CMP3(x->hash, y->hash);
    CMP3(x->t_ret, y->t_ret);
    CMP3(x->node, y->node);
    return 0;
}

static int set_datagram_positions(struct build *b)
{
    uint32_t n = b->dgrams.n;
    uint32_t *v = b_calloc(n, sizeof(*v), b->err);
    if (!v)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        v[i] = i;
    qsort_r(v, n, sizeof(*v), compare_datagrams_by_content_and_time, b);
    uint64_t nth = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct b_dgram *d = &b->dgrams.v[v[i]];
        const struct b_dgram *p = i ? &b->dgrams.v[v[i - 1]] : NULL;
        nth = p && p->end == d->end && p->dir == d->dir && p->len == d->len &&
                      p->hash == d->hash
                  ? nth + 1
                  : 0;
        d->pos = ips_compute_datagram_position_hash(d->len, d->hash, nth);
        if (d->dir == B_RECV && d->ext != IPS_NONE)
            b->exts.v[d->ext].pos = d->pos;
    }
    ips_free_large(v);
    return 0;
}

/* Marks the receives on ends whose peer is on this machine as decided; those
 * without a send count as unmatched. */
static void mark_local_datagram_receives_decided(struct build *b)
{
    for (uint32_t i = 0; i < b->dgrams.n; i++) {
        const struct b_dgram *d = &b->dgrams.v[i];
        if (d->dir != B_RECV || d->ext == IPS_NONE || !b->ends[d->end].local)
            continue;
        b->exts.v[d->ext].is_decided = true;
        b->out->counts.unmatched += d->twin == IPS_NONE;
    }
}

int b_match_datagrams(struct build *b)
{
    uint32_t n = b->dgrams.n, sends = 0, recvs = 0;
    if (n == 0)
        return 0;
    struct datagram_ref *send = b_calloc(n, sizeof(*send), b->err);
    struct datagram_ref *recv = b_calloc(n, sizeof(*recv), b->err);
    uint32_t *next = b_calloc(n, sizeof(*next), b->err);
    int rc = IPS_E_NO_MEMORY;
    if (!send || !recv || !next)
        goto out;
    memset(next, 0xff, n * sizeof(*next));
    for (uint32_t i = 0; i < n; i++) {
        const struct b_dgram *d = &b->dgrams.v[i];
        if (d->dir == B_SEND)
            send[sends++] =
                (struct datagram_ref){datagram_match_key(b, d), d->t, i};
        else
            recv[recvs++] = (struct datagram_ref){0, d->t_ret, i};
    }
    set_socket_empty_time_of_receives(b, recv, recvs);
    for (uint32_t i = 0; i < recvs; i++)
        recv[i].key = datagram_match_key(b, &b->dgrams.v[recv[i].index]);
    qsort(send, sends, sizeof(*send), compare_datagram_refs_by_key);
    qsort(recv, recvs, sizeof(*recv), compare_datagram_refs_by_key);
    struct match m = {b, send, recv, sends, recvs, next};
    match_whole_datagrams(&m);
    match_truncated_datagrams(&m, send, recv);
    rc = set_datagram_positions(b);
    if (rc == 0)
        mark_local_datagram_receives_decided(b);
out:
    ips_free_large(send);
    ips_free_large(recv);
    ips_free_large(next);
    return rc;
}
