/* Turns CHAN records into ends of channels.
 *
 * CHAN records with the same identity (inode, socket cookie) are one end,
 * whatever process and channel id they have. Therefore fork, exec, dup and
 * descriptor passing need no tracking. A pipe or FIFO is one object with two
 * ends. A USER channel has one end in each task that uses it. */
#include <arpa/inet.h>
#include <stdio.h>

#include "slave/build/internal.h"

enum end_class { CLASS_PIPE = 1, CLASS_COOKIE, CLASS_INODE, CLASS_USER };

/* ---- channel ids ---- */

static int compare_chans_by_id(const void *va, const void *vb)
{
    const struct b_chan *a = va, *b = vb;
    CMP3(a->image, b->image);
    CMP3(a->id, b->id);
    CMP3(a->t, b->t);
    return a->rec < b->rec ? -1 : a->rec > b->rec;
}

/* Sorts CHAN records by (image, id). If an image used an id twice, the first
 * record counts. */
static void sort_and_index_chans_drop_duplicates(struct build *b)
{
    for (uint32_t i = 0; i < b->chans.n; i++)
        b->chans.v[i].image = b->streams[b->chans.v[i].stream].image;
    if (b->chans.n)
        qsort(b->chans.v, b->chans.n, sizeof(*b->chans.v), compare_chans_by_id);
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->chans.n; i++) {
        const struct b_chan *c = &b->chans.v[i];
        if (n && b->chans.v[n - 1].image == c->image &&
            b->chans.v[n - 1].id == c->id) {
            b->out->counts.ambiguous++;
            continue;
        }
        b->chans.v[n] = *c;
        struct b_image *im = &b->images[c->image];
        if (im->chan_count++ == 0)
            im->first_chan = n;
        n++;
    }
    b->chans.n = n;
}

struct b_chan *b_search_chan(const struct build *b, uint32_t image, uint32_t id)
{
    const struct b_image *im = &b->images[image];
    struct b_chan *v = b->chans.v + im->first_chan;
    uint32_t low = 0, high = im->chan_count;
    if (id == 0 || high == 0)
        return NULL;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (v[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < im->chan_count && v[low].id == id ? &v[low] : NULL;
}

/* ---- ends ---- */

/* Adds an end (zeroed, without peer) and stores its index in *end. */
static int append_channel_end(struct build *b, uint32_t *end)
{
    uint32_t n = b->out->end_count;
    if (n == b->end_capacity) {
        uint32_t room = b->end_capacity, room2 = b->end_capacity;
        int rc = b_array_reserve((void **)&b->ends, n, &room, sizeof(*b->ends),
                                 b->err);
        if (rc == 0)
            rc = b_array_reserve((void **)&b->out->ends, n, &room2,
                                 sizeof(*b->out->ends), b->err);
        if (rc < 0)
            return rc;
        b->end_capacity = room;
    }
    struct b_end *e = &b->ends[n];
    struct ips_end *row = &b->out->ends[n];
    memset(e, 0, sizeof(*e));
    memset(row, 0, sizeof(*row));
    e->connect_node = IPS_NO_NODE;
    e->socket = IPS_NONE;
    e->sends.first = e->sends.last = IPS_NONE;
    e->send_chain = e->traffic_proc = e->traffic = IPS_NONE;
    e->shut_ns = e->deaf_ns = UINT64_MAX;
    e->shut_node = e->deaf_node = IPS_NO_NODE;
    row->peer = IPS_PEER_UNTRACED;
    row->peer_end = IPS_NONE;
    row->first_ns = UINT64_MAX;
    *end = n;
    b->out->end_count = n + 1;
    return 0;
}

bool b_is_wildcard_addr(const struct ips_addr *a)
{
    static const uint8_t v4_any[16] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t v6_any[16];
    return memcmp(a->addr, v4_any, 16) == 0 || memcmp(a->addr, v6_any, 16) == 0;
}

bool b_is_loopback_addr(const struct ips_addr *a)
{
    static const uint8_t v4[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    static const uint8_t v6[16] = {[15] = 1};
    return memcmp(a->addr, v4, 13) == 0 || memcmp(a->addr, v6, 16) == 0;
}

bool b_stay_within_netns(const struct ips_addr *a, const struct ips_addr *b)
{
    return b_is_loopback_addr(a) || b_is_loopback_addr(b) ||
           (memcmp(a->addr, b->addr, sizeof(a->addr)) == 0 &&
            !b_is_wildcard_addr(a));
}

struct identity {
    uint64_t a, b;
    uint64_t t;
    uint32_t chan;
    uint8_t class;
};

static struct identity identity_of_chan(const struct build *b, uint32_t index)
{
    const struct b_chan *c = &b->chans.v[index];
    struct ips_rec_chan r;
    memcpy(&r, c->rec, sizeof(r));
    struct identity id = {.t = c->t, .chan = index};
    if (r.kind == IPS_CHAN_PIPE) {
        id.class = CLASS_PIPE;
        id.a = r.dev;
        id.b = r.ino;
    } else if (r.kind == IPS_CHAN_USER) {
        id.class = CLASS_USER;
        id.a = b->streams[c->stream].chain;
        id.b = r.name_hash;
    } else if (r.cookie) {
        id.class = CLASS_COOKIE;
        id.a = r.netns;
        id.b = r.cookie;
    } else {
        id.class = CLASS_INODE;
        id.a = r.dev;
        id.b = r.ino;
    }
    return id;
}

static int cmp_identity(const void *va, const void *vb)
{
    const struct identity *a = va, *b = vb;
    CMP3(a->class, b->class);
    CMP3(a->a, b->a);
    CMP3(a->b, b->b);
    CMP3(a->t, b->t);
    return a->chan < b->chan ? -1 : a->chan > b->chan;
}

/* Adds the data of one more CHAN record to an end. */
static void merge_channel_record_into_end(struct build *b, uint32_t end,
                                          const struct b_chan *c)
{
    struct b_end *e = &b->ends[end];
    struct ips_end *row = &b->out->ends[end];
    struct ips_rec_chan r;
    memcpy(&r, c->rec, sizeof(r));
    bool first = row->kind == 0;
    if (first) {
        row->kind = r.kind;
        e->sent_before = r.kind == IPS_CHAN_TCP ? r.sent_before : 0;
        e->recv_before = r.kind == IPS_CHAN_TCP ? r.recv_before : 0;
        e->namer_pid = b->streams[c->stream].in->head.pid;
        e->netns = r.netns;
        e->dev = r.dev;
        e->ino = r.ino;
    }
    if (r.kind == IPS_CHAN_TCP_LISTEN || r.kind == IPS_CHAN_UNIX_LISTEN) {
        e->listen = true;
        row->kind = r.kind;
    }
    if (r.kind == IPS_CHAN_UDP || r.kind == IPS_CHAN_UNIX_DGRAM)
        e->datagram = true;
    if (r.local.port && (!e->laddr.port || b_is_wildcard_addr(&e->laddr)))
        e->laddr = r.local;
    if (r.remote.port)
        e->raddr = r.remote;
    e->peer_ino = e->peer_ino ? e->peer_ino : r.peer_ino;
    e->name_hash = e->name_hash ? e->name_hash : r.name_hash;
    e->peer_pid = e->peer_pid ? e->peer_pid : r.peer_pid;
    if (r.kind == IPS_CHAN_USER)
        row->side |= r.side & IPS_SIDE_BOTH;
    row->connected |= (r.flags & IPS_CHAN_CONNECTED) != 0;
    row->accepted |= (r.flags & IPS_CHAN_ACCEPTED) != 0;
    e->packets |= (r.flags & IPS_CHAN_PACKETS) != 0;
    row->first_ns = ips_min_u64(row->first_ns, c->t);
    row->last_ns = ips_max_u64(row->last_ns, c->t);
}

/* Adds the data of a CHAN record to one side of a pipe; makes that end if it is
 * new. */
static int add_channel_record_to_pipe_side(struct build *b, uint32_t pair[2],
                                           uint32_t side,
                                           const struct b_chan *c)
{
    uint32_t *end = &pair[side == IPS_SIDE_WRITE];
    if (*end == IPS_NONE) {
        int rc = append_channel_end(b, end);
        if (rc < 0)
            return rc;
        b->out->ends[*end].side = (uint8_t)side;
    }
    merge_channel_record_into_end(b, *end, c);
    return 0;
}

static int make_pipe_ends(struct build *b, const struct identity *id,
                          uint32_t n)
{
    uint32_t pair[2] = {IPS_NONE, IPS_NONE};
    for (uint32_t i = 0; i < n; i++) {
        struct b_chan *c = &b->chans.v[id[i].chan];
        struct ips_rec_chan r;
        memcpy(&r, c->rec, sizeof(r));
        uint32_t sides = r.side;
        int rc = 0;
        if (sides & IPS_SIDE_READ)
            rc = add_channel_record_to_pipe_side(b, pair, IPS_SIDE_READ, c);
        if (rc == 0 && (sides & IPS_SIDE_WRITE))
            rc = add_channel_record_to_pipe_side(b, pair, IPS_SIDE_WRITE, c);
        if (rc < 0)
            return rc;
        if (sides & IPS_SIDE_READ)
            c->end_recv = pair[0];
        if (sides & IPS_SIDE_WRITE)
            c->end_send = pair[1];
    }
    if (pair[0] == IPS_NONE || pair[1] == IPS_NONE)
        return 0; /* no recorded process has the other side, so the peer stays
                     UNTRACED */
    for (int i = 0; i < 2; i++) {
        b->ends[pair[i]].local = true;
        b->out->ends[pair[i]].peer = IPS_PEER_LOCAL;
        b->out->ends[pair[i]].peer_end = pair[!i];
    }
    /* packet mode (O_DIRECT) is a property of the write end */
    b->ends[pair[0]].packets = b->ends[pair[1]].packets;
    return 0;
}

static int make_socket_end(struct build *b, const struct identity *id,
                           uint32_t n)
{
    uint32_t end;
    int rc = append_channel_end(b, &end);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        struct b_chan *c = &b->chans.v[id[i].chan];
        c->end_recv = c->end_send = end;
        merge_channel_record_into_end(b, end, c);
    }
    return 0;
}

int b_make_channel_ends(struct build *b)
{
    sort_and_index_chans_drop_duplicates(b);
    uint32_t n = b->chans.n;
    struct identity *ids = b_calloc(n, sizeof(*ids), b->err);
    if (!ids)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = identity_of_chan(b, i);
    qsort(ids, n, sizeof(*ids), cmp_identity);
    int rc = 0;
    for (uint32_t i = 0, next; i < n && rc == 0; i = next) {
        for (next = i + 1; next < n && ids[next].class == ids[i].class &&
                           ids[next].a == ids[i].a && ids[next].b == ids[i].b;
             next++)
            ;
        rc = ids[i].class == CLASS_PIPE ? make_pipe_ends(b, ids + i, next - i)
                                        : make_socket_end(b, ids + i, next - i);
    }
    ips_free_large(ids);
    return rc;
}

/* ---- flows of datagram sockets ---- */

static bool is_same_addr(const struct ips_addr *a, const struct ips_addr *b)
{
    return a->port == b->port && memcmp(a->addr, b->addr, 16) == 0;
}

static uint32_t find_flow_slot(const struct build *b, uint32_t end,
                               const struct ips_addr *remote)
{
    uint64_t h = ips_fnv1a(IPS_FNV_SEED, &end, sizeof(end));
    h = ips_fnv1a(h, &remote->port, sizeof(remote->port));
    h = ips_fnv1a(h, remote->addr, sizeof(remote->addr));
    uint32_t mask = b->flow_capacity - 1, i = (uint32_t)(h ^ h >> 32) & mask;
    for (; b->flows[i]; i = (i + 1) & mask) {
        const struct b_end *e = &b->ends[b->flows[i] - 1];
        if (e->socket == end && is_same_addr(&e->raddr, remote))
            break;
    }
    return i;
}

/* Makes space for one more flow in the hash table, and keeps the table at most
 * half full. Returns 0 or IPS_E_NO_MEMORY. */
static int reserve_flow(struct build *b)
{
    if ((b->flow_count + 1) * 2 <= b->flow_capacity)
        return 0;
    uint32_t old_room = b->flow_capacity, *old = b->flows;
    b->flow_capacity = old_room ? old_room * 2 : 256;
    b->flows = b_calloc(b->flow_capacity, sizeof(*b->flows), b->err);
    for (uint32_t i = 0; b->flows && i < old_room; i++) {
        if (!old[i])
            continue;
        const struct b_end *e = &b->ends[old[i] - 1];
        b->flows[find_flow_slot(b, e->socket, &e->raddr)] = old[i];
    }
    ips_free_large(old);
    return b->flows ? 0 : IPS_E_NO_MEMORY;
}

int b_find_or_add_flow(struct build *b, uint32_t end,
                       const struct ips_addr *remote, uint32_t *flow)
{
    struct b_end *base = &b->ends[end];
    *flow = end;
    if (b->out->ends[end].kind != IPS_CHAN_UDP || !remote->port)
        return 0;
    if (!base->raddr.port)
        base->raddr = *remote; /* the end is the socket's first flow */
    if (is_same_addr(&base->raddr, remote))
        return 0;
    int rc = reserve_flow(b);
    if (rc < 0)
        return rc;
    uint32_t slot = find_flow_slot(b, end, remote), made;
    if (b->flows[slot]) {
        *flow = b->flows[slot] - 1;
        return 0;
    }
    rc = append_channel_end(b, &made);
    if (rc < 0)
        return rc;
    base = &b->ends[end];
    b->out->ends[made].kind = IPS_CHAN_UDP;
    b->ends[made].datagram = true;
    b->ends[made].laddr = base->laddr;
    b->ends[made].netns = base->netns;
    b->ends[made].ino = base->ino;
    b->ends[made].raddr = *remote;
    b->ends[made].socket = end;
    b->flows[slot] = made + 1;
    b->flow_count++;
    *flow = made;
    return 0;
}
