/* Joins the two ends of each channel whose ends are both on this machine. Ends
 * of pipes are joined by inode in build/channel.c, datagrams one by one in
 * build/dgram.c. */
#include "slave/build/internal.h"

static void link_ends_as_local_peers(struct build *b, uint32_t x, uint32_t y)
{
    b->ends[x].local = b->ends[y].local = true;
    b->out->ends[x].peer = b->out->ends[y].peer = IPS_PEER_LOCAL;
    b->out->ends[x].peer_end = y;
    b->out->ends[y].peer_end = x;
}

/* An end to be joined. Entries are sorted by `key`, then by the end's first
 * use. */
struct entry {
    uint8_t key[48];
    uint64_t first_ns;
    uint64_t netns; /* 0: the namespace does not matter */
    uint32_t end;
    /* two entries with the same key match if their sides differ */
    uint8_t side;
};

static int compare_peer_entries(const void *va, const void *vb)
{
    const struct entry *a = va, *b = vb;
    int c = memcmp(a->key, b->key, sizeof(a->key));
    if (c)
        return c;
    CMP3(a->first_ns, b->first_ns);
    CMP3(a->side, b->side);
    return a->end < b->end ? -1 : a->end > b->end;
}

/* v[0, n) are ends of one key that wait for a peer. If they are in several
 * network namespaces, a peer could belong to any of them: then marks them
 * uncertain and returns true. They are joined neither here nor with an end on
 * another machine. */
static bool mark_ends_uncertain_if_several_netns(struct build *b,
                                                 const struct entry *v,
                                                 uint32_t n)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i + 1 < n && !others; i++)
        others += v[i].netns != v[n - 1].netns;
    for (uint32_t i = 0; i < n && others; i++)
        b->ends[v[i].end].uncertain = true;
    return others > 0;
}

/* Joins entries of the same key: each entry with an earlier entry of the other
 * side that is not joined yet. `in_turn`: with the earliest such entry, because
 * a listener accepts connections in order. Otherwise with the latest one,
 * because only the latest use of a TCP 4-tuple can still be open. */
static void join_ends_with_equal_keys(struct build *b, struct entry *v,
                                      uint32_t n, bool in_turn)
{
    if (n)
        qsort(v, n, sizeof(*v), compare_peer_entries);
    /* v[head, tail) are not joined yet; all are of one side */
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || memcmp(v[i].key, v[i - 1].key, sizeof(v[i].key)) != 0)
            head = tail = i;
        struct entry e = v[i];
        if (tail > head && v[head].side != e.side &&
            mark_ends_uncertain_if_several_netns(b, v + head, tail - head)) {
            b->ends[e.end].uncertain = true;
            b->out->counts.ambiguous++;
        } else if (tail > head && v[head].side != e.side)
            link_ends_as_local_peers(b, in_turn ? v[head++].end : v[--tail].end,
                                     e.end);
        else
            v[tail++] = e;
    }
}

/* ---- Unix sockets ---- */

static int compare_ends_by_inode(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t x = *(const uint32_t *)va, y = *(const uint32_t *)vb;
    CMP3(b->ends[x].ino, b->ends[y].ino);
    CMP3(b->out->ends[x].first_ns, b->out->ends[y].first_ns);
    CMP3(x, y);
    return 0;
}

static void join_unix_ends_by_peer_inode(struct build *b, const uint32_t *v,
                                         uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t want = b->ends[v[i]].peer_ino;
        if (!want || b->ends[v[i]].local)
            continue;
        uint32_t low = 0, high = n;
        while (low < high) {
            uint32_t mid = low + (high - low) / 2;
            if (b->ends[v[mid]].ino < want)
                low = mid + 1;
            else
                high = mid;
        }
        for (uint32_t tried = 0;
             low < n && b->ends[v[low]].ino == want && tried < 64;
             low++, tried++) {
            if (v[low] == v[i] || b->ends[v[low]].local)
                continue;
            link_ends_as_local_peers(b, v[i], v[low]);
            break;
        }
    }
}

/* Makes entries of Unix ends whose peer's inode is not known. They are joined
 * by socket name and by the pid that connected, in order of time. Returns the
 * number of entries. */
static uint32_t make_unix_entries(const struct build *b, const uint32_t *v,
                                  uint32_t n, struct entry *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct b_end *e = &b->ends[v[i]];
        const struct ips_end *row = &b->out->ends[v[i]];
        if (e->local || row->connected == row->accepted)
            continue;
        uint64_t pid = row->connected ? e->namer_pid : e->peer_pid;
        struct entry *k = &out[count++];
        *k = (struct entry){
            .first_ns = row->first_ns, .end = v[i], .side = row->accepted};
        memcpy(k->key, &e->name_hash, 8);
        memcpy(k->key + 8, &pid, 8);
    }
    return count;
}

/* ---- TCP and USER channels ---- */

static void copy_addr_to_key(uint8_t *out, const struct ips_addr *a)
{
    memcpy(out, &a->port, 2);
    memcpy(out + 2, a->addr, 16);
}

static uint32_t make_tcp_entries(const struct build *b, struct entry *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        const struct b_end *e = &b->ends[i];
        if (b->out->ends[i].kind != IPS_CHAN_TCP || e->listen ||
            !e->laddr.port || !e->raddr.port)
            continue;
        uint8_t l[18], r[18];
        copy_addr_to_key(l, &e->laddr);
        copy_addr_to_key(r, &e->raddr);
        int order = memcmp(l, r, sizeof(l));
        if (order == 0)
            continue; /* connected to itself */
        struct entry *k = &out[count++];
        *k = (struct entry){
            .first_ns = b->out->ends[i].first_ns, .end = i, .side = order > 0};
        memcpy(k->key, order < 0 ? l : r, 18);
        memcpy(k->key + 18, order < 0 ? r : l, 18);
        if (b_stay_within_netns(&e->raddr, &e->laddr))
            memcpy(k->key + 36, &e->netns, 8);
        else
            k->netns = e->netns;
    }
    return count;
}

/* Makes the entries of USER ends, sorted by name. The two tasks that use one
 * name are joined; with more tasks the choice is ambiguous. Returns the number
 * of entries. */
static uint32_t make_user_channel_entries(struct build *b, struct entry *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        if (b->out->ends[i].kind != IPS_CHAN_USER)
            continue;
        struct entry *k = &out[count++];
        *k = (struct entry){.end = i, .first_ns = b->out->ends[i].first_ns};
        memcpy(k->key, &b->ends[i].name_hash, 8);
    }
    if (count)
        qsort(out, count, sizeof(*out), compare_peer_entries);
    return count;
}

/* Returns the index of the first of v[from, to), except `not`, whose end has
 * `side`; or `to`. */
static uint32_t find_entry_of_side(const struct build *b, const struct entry *v,
                                   uint32_t from, uint32_t to, uint8_t side,
                                   uint32_t not )
{
    while (from < to &&
           (from == not || !(b->out->ends[v[from].end].side & side)))
        from++;
    return from;
}

static void join_user_channel_ends(struct build *b, const struct entry *v,
                                   uint32_t n)
{
    for (uint32_t i = 0, next; i < n; i = next) {
        for (next = i + 1;
             next < n && memcmp(v[next].key, v[i].key, sizeof(v[i].key)) == 0;
             next++)
            ;
        if (next - i > 2)
            b->out->counts.ambiguous += next - i - 2;
        uint32_t w = find_entry_of_side(b, v, i, next, IPS_SIDE_WRITE, next);
        uint32_t r = find_entry_of_side(b, v, i, next, IPS_SIDE_READ, w);
        if (r == next) { /* the first writer is also the only reader */
            r = w;
            w = find_entry_of_side(b, v, i, next, IPS_SIDE_WRITE, r);
        }
        if (w < next && r < next)
            link_ends_as_local_peers(b, v[w].end, v[r].end);
    }
}

/* ---- ends that may have a peer on another machine ---- */

/* Marks ends whose peer may be in another pool: on another machine, or on this
 * one if several pools act as "machines". So a local address does not exclude
 * this. Only the master knows all ends. */
int b_mark_ends_with_remote_peers(struct build *b)
{
    for (uint32_t i = 0; i < b->out->end_count; i++) {
        const struct b_end *e = &b->ends[i];
        struct ips_end *row = &b->out->ends[i];
        bool inet = row->kind == IPS_CHAN_TCP || row->kind == IPS_CHAN_UDP;
        bool named = inet && e->raddr.port && !b_is_wildcard_addr(&e->raddr);
        if (!e->local && !e->listen && !e->uncertain &&
            (row->kind == IPS_CHAN_USER || named))
            row->peer = IPS_PEER_UNKNOWN;
        if (row->peer != IPS_PEER_UNKNOWN)
            continue;
        if (!b->far)
            b->far = b_calloc(b->out->end_count, 1, b->err);
        if (!b->far)
            return IPS_E_NO_MEMORY;
        b->far[i] = 1;
    }
    return 0;
}

int b_join_local_peers(struct build *b)
{
    uint32_t n = b->out->end_count, units = 0;
    uint32_t *v = b_calloc(n, sizeof(*v), b->err);
    struct entry *entries = b_calloc(n, sizeof(*entries), b->err);
    int rc = IPS_E_NO_MEMORY;
    if (!v || !entries)
        goto out;
    for (uint32_t i = 0; i < n; i++)
        if (b->out->ends[i].kind == IPS_CHAN_UNIX && !b->ends[i].listen)
            v[units++] = i;
    if (units)
        qsort_r(v, units, sizeof(*v), compare_ends_by_inode, b);
    join_unix_ends_by_peer_inode(b, v, units);
    join_ends_with_equal_keys(b, entries,
                              make_unix_entries(b, v, units, entries), true);
    join_ends_with_equal_keys(b, entries, make_tcp_entries(b, entries), false);
    uint32_t users = make_user_channel_entries(b, entries);
    join_user_channel_ends(b, entries, users);
    rc = 0;
out:
    ips_free_large(v);
    ips_free_large(entries);
    return rc;
}
