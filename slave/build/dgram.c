/* Datagrams find each other by addresses, length and payload hash, the first
 * sent first; so loss and reordering do not mis-match. */
#include "slave/build/internal.h"

#define TRIES 256u /* unmatched sends looked at for one receive */

struct ref {
    uint64_t key, t;
    uint32_t index;
};

static int cmp_ref(const void *va, const void *vb)
{
    const struct ref *a = va, *b = vb;
    CMP3(a->key, b->key);
    CMP3(a->t, b->t);
    CMP3(a->index, b->index);
    return 0;
}

/* Equal for a send and the receive of the same datagram. */
static uint64_t match_key(const struct build *b, const struct b_dgram *d)
{
    uint8_t kind = b->out->ends[d->end].kind;
    uint64_t port = 0;
    if (kind == IPS_CHAN_UDP)
        port = d->dir == B_SEND ? d->remote.port : d->local.port;
    uint64_t parts[4] = {kind, port, d->len, d->hash};
    return ips_fnv1a(IPS_FNV_SEED, parts, sizeof(parts));
}

static bool addr_fits(const struct ips_addr *a, const struct ips_addr *b)
{
    if (a->port && b->port && a->port != b->port)
        return false;
    return !a->port || !b->port || b_addr_any(a) || b_addr_any(b) ||
           memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static bool may_match(const struct build *b, const struct b_dgram *s,
                      const struct b_dgram *r)
{
    const struct b_end *from = &b->ends[s->end], *to = &b->ends[r->end];
    if (b->out->ends[s->end].kind != b->out->ends[r->end].kind ||
        s->len != r->len || s->hash != r->hash || s->t > r->t_ret)
        return false;
    if (b->out->ends[s->end].kind == IPS_CHAN_UDP) {
        if (b_addr_loopback(&s->remote) && from->netns != to->netns)
            return false;
        return addr_fits(&s->remote, &r->local) &&
               addr_fits(&s->local, &r->remote);
    }
    if (from->peer_ino)
        return from->peer_ino == to->ino;
    if (to->peer_ino)
        return to->peer_ino == from->ino;
    return s->path_hash && s->path_hash == to->name_hash;
}

static void join_datagram(struct build *b, struct b_dgram *s, struct b_dgram *r,
                          uint32_t s_index, uint32_t r_index)
{
    s->twin = r_index;
    r->twin = s_index;
    b_cross(b, r->node, s->node, IPS_X_DATA, r->len);
    uint32_t pair[2] = {s->end, r->end};
    for (int i = 0; i < 2; i++) {
        struct ips_end *row = &b->out->ends[pair[i]];
        if (!b->ends[pair[i]].local)
            row->peer_end = pair[!i];
        b->ends[pair[i]].local = true;
        row->peer = IPS_PEER_LOCAL;
    }
}

static void match_all(struct build *b, const struct ref *send, uint32_t sends,
                      const struct ref *recv, uint32_t recvs)
{
    uint32_t head = 0;
    for (uint32_t i = 0; i < recvs; i++) {
        while (head < sends &&
               (send[head].key < recv[i].key ||
                (send[head].key == recv[i].key &&
                 b->dgrams.v[send[head].index].twin != IPS_NONE)))
            head++;
        struct b_dgram *r = &b->dgrams.v[recv[i].index];
        for (uint32_t k = head, tried = 0;
             k < sends && send[k].key == recv[i].key && tried < TRIES; k++) {
            struct b_dgram *s = &b->dgrams.v[send[k].index];
            if (s->twin != IPS_NONE)
                continue;
            tried++;
            if (!may_match(b, s, r))
                continue;
            join_datagram(b, s, r, send[k].index, recv[i].index);
            break;
        }
    }
}

/* ---- positions for a match on another machine ---- */

static int cmp_same(const void *va, const void *vb, void *arg)
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

static int position_all(struct build *b)
{
    uint32_t n = b->dgrams.n;
    uint32_t *v = b_calloc(n, sizeof(*v), b->err);
    if (!v)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        v[i] = i;
    qsort_r(v, n, sizeof(*v), cmp_same, b);
    uint64_t nth = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct b_dgram *d = &b->dgrams.v[v[i]];
        const struct b_dgram *p = i ? &b->dgrams.v[v[i - 1]] : NULL;
        nth = p && p->end == d->end && p->dir == d->dir && p->len == d->len &&
                      p->hash == d->hash
                  ? nth + 1
                  : 0;
        d->pos = ips_pos_datagram(d->len, d->hash, nth);
        if (d->dir == B_RECV && d->ext != IPS_NONE)
            b->exts.v[d->ext].pos = d->pos;
    }
    ips_free_large(v);
    return 0;
}

/* Receives on ends that have a peer here, but no send for them. */
static void decide_external(struct build *b)
{
    for (uint32_t i = 0; i < b->dgrams.n; i++) {
        const struct b_dgram *d = &b->dgrams.v[i];
        if (d->dir != B_RECV || d->ext == IPS_NONE || !b->ends[d->end].local)
            continue;
        b->exts.v[d->ext].is_decided = true;
        b->out->counts.unmatched += d->twin == IPS_NONE;
    }
}

int b_datagrams(struct build *b)
{
    uint32_t n = b->dgrams.n, sends = 0, recvs = 0;
    if (n == 0)
        return 0;
    struct ref *send = b_calloc(n, sizeof(*send), b->err);
    struct ref *recv = b_calloc(n, sizeof(*recv), b->err);
    int rc = IPS_E_NO_MEMORY;
    if (!send || !recv)
        goto out;
    for (uint32_t i = 0; i < n; i++) {
        const struct b_dgram *d = &b->dgrams.v[i];
        if (d->dir == B_SEND)
            send[sends++] = (struct ref){match_key(b, d), d->t, i};
        else
            recv[recvs++] = (struct ref){match_key(b, d), d->t_ret, i};
    }
    qsort(send, sends, sizeof(*send), cmp_ref);
    qsort(recv, recvs, sizeof(*recv), cmp_ref);
    match_all(b, send, sends, recv, recvs);
    rc = position_all(b);
    if (rc == 0)
        decide_external(b);
out:
    ips_free_large(send);
    ips_free_large(recv);
    return rc;
}
