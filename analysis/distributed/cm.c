#include "analysis/distributed/cm.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "analysis/graph/view.h"

/* ---- reading and writing messages --------------------------------------- */

void ips_cm_bytes_release(struct ips_cm_bytes *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}

void ips_cm_append_varint(struct ips_cm_bytes *b, uint64_t v)
{
    if (b->cap - b->len < 10) {
        size_t cap = b->cap * 2 + 256;
        uint8_t *more = realloc(b->data, cap);
        if (!more) {
            b->failed = true;
            return;
        }
        b->data = more;
        b->cap = cap;
    }
    while (v >= 0x80) {
        b->data[b->len++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    b->data[b->len++] = (uint8_t)v;
}

/* Appends the signed difference to - from, modulo 2^64, in a code in which
 * values near 0 are short. */
void ips_cm_append_signed_difference(struct ips_cm_bytes *b, uint64_t from,
                                     uint64_t to)
{
    uint64_t d = to - from;
    ips_cm_append_varint(b, d >> 63 ? ~(d << 1) : d << 1);
}

uint64_t ips_cm_read_varint(struct ips_cm_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        if (shift == 63 && byte > 1)
            break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return r->bad ? 0 : v;
    }
    r->bad = true;
    r->at = r->end;
    return 0;
}

uint64_t ips_cm_read_and_add_signed_difference(struct ips_cm_reader *r,
                                               uint64_t from)
{
    uint64_t v = ips_cm_read_varint(r);
    return from + (v & 1 ? ~(v >> 1) : v >> 1);
}

#define SUM_BYTES 4

static uint32_t checksum_of(const uint8_t *data, size_t len)
{
    uint64_t h = ips_fnv1a(IPS_FNV_SEED, data, len);
    return (uint32_t)(h ^ h >> 32);
}

int ips_cm_append_checksum(struct ips_cm_bytes *b, struct ips_err *err)
{
    size_t len = b->len;
    /* reserves 10 bytes, room for the checksum */
    ips_cm_append_varint(b, UINT64_MAX);
    if (b->failed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "a message of %zu bytes", len);
    uint32_t sum = checksum_of(b->data, len);
    for (unsigned i = 0; i < SUM_BYTES; i++)
        b->data[len + i] = (uint8_t)(sum >> 8 * i);
    b->len = len + SUM_BYTES;
    return 0;
}

int ips_cm_verify_checksum_and_init_reader(struct ips_cm_reader *r,
                                           const uint8_t *data, size_t len,
                                           struct ips_err *err)
{
    uint32_t sum = 0;
    size_t body = len - SUM_BYTES;
    for (unsigned i = 0; len >= SUM_BYTES && i < SUM_BYTES; i++)
        sum |= (uint32_t)data[body + i] << 8 * i;
    if (len < SUM_BYTES || sum != checksum_of(data, body))
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a message of %zu bytes is damaged: its checksum "
                           "does not fit",
                           len);
    *r = (struct ips_cm_reader){data, data + body, false};
    return 0;
}

/* ---- finding the peers --------------------------------------------------- */

void ips_cm_links_release(struct ips_cm_links *l)
{
    for (uint32_t p = 0; p < l->peer_count; p++) {
        free(l->peer[p].want);
        free(l->peer[p].in_first);
        free(l->peer[p].in_served);
        free(l->peer[p].in_len);
        free(l->peer[p].out_node);
    }
    free(l->peer);
    free(l->in_peer);
    free(l->in_link);
    memset(l, 0, sizeof(*l));
}

uint32_t ips_cm_find_peer_index_of_machine(const struct ips_cm_links *l,
                                           uint32_t part)
{
    uint32_t low = 0, high = l->peer_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (l->peer[mid].machine < part)
            low = mid + 1;
        else
            high = mid;
    }
    return low < l->peer_count && l->peer[low].machine == part ? low
                                                               : IPS_CM_NONE;
}

static int find_peers(struct ips_cm_links *l, uint32_t self,
                      uint32_t part_count, struct ips_err *err)
{
    uint8_t *is_peer = calloc((size_t)part_count + 1, 1);
    int rc = 0;
    if (!is_peer)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u machines", part_count);
    for (uint32_t e = 0; e < l->end_count && rc == 0; e++) {
        uint32_t part = l->end[e].machine;
        if (part == self)
            rc = ips_err_set(err, IPS_E_CORRUPT,
                             "channel end %u is joined to its own machine", e);
        else if (part < part_count)
            is_peer[part] = 1;
    }
    for (uint32_t p = 0; p < part_count; p++)
        l->peer_count += is_peer[p];
    l->peer = calloc((size_t)l->peer_count + 1, sizeof(*l->peer));
    if (rc == 0 && !l->peer)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "%u peers", l->peer_count);
    for (uint32_t p = 0, at = 0; p < part_count && l->peer; p++) {
        if (is_peer[p])
            l->peer[at++].machine = p;
    }
    if (!l->peer)
        l->peer_count = 0;
    free(is_peer);
    return rc;
}

/* Sorts remote receives in channel order: by the sender's end, then by
 * position. */
static int by_channel(const void *a, const void *b, void *arg)
{
    const struct ips_cm_links *l = arg;
    const struct ips_remote_in *x = &l->g->in[*(const uint32_t *)a];
    const struct ips_remote_in *y = &l->g->in[*(const uint32_t *)b];
    uint32_t p = l->end[x->end].end, q = l->end[y->end].end;
    if (p != q)
        return p < q ? -1 : 1;
    if (x->pos != y->pos)
        return x->pos < y->pos ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int list_remote_receives_by_peer(struct ips_cm_links *l,
                                        struct ips_err *err)
{
    const struct ips_graph *g = l->g;
    for (uint32_t k = 0; k < g->in_count; k++) {
        uint32_t end = g->in[k].end;
        l->in_peer[k] =
            end < l->end_count
                ? ips_cm_find_peer_index_of_machine(l, l->end[end].machine)
                : IPS_CM_NONE;
        if (l->in_peer[k] != IPS_CM_NONE)
            l->peer[l->in_peer[k]].want_count++;
    }
    for (uint32_t p = 0; p < l->peer_count; p++) {
        struct ips_cm_peer *to = &l->peer[p];
        size_t n = (size_t)to->want_count + 1;
        to->want = malloc(n * sizeof(*to->want));
        to->in_first = malloc(n * sizeof(*to->in_first));
        to->in_served = calloc(n, sizeof(*to->in_served));
        to->in_len = malloc(n * sizeof(*to->in_len));
        if (!to->want || !to->in_first || !to->in_served || !to->in_len)
            return ips_err_set(err, IPS_E_NO_MEMORY, "%u remote arcs",
                               to->want_count);
        to->want_count = 0;
    }
    for (uint32_t k = 0; k < g->in_count; k++) {
        if (l->in_peer[k] == IPS_CM_NONE)
            continue;
        struct ips_cm_peer *to = &l->peer[l->in_peer[k]];
        to->want[to->want_count++] = k;
    }
    for (uint32_t p = 0; p < l->peer_count; p++)
        qsort_r(l->peer[p].want, l->peer[p].want_count,
                sizeof(*l->peer[p].want), by_channel, l);
    return 0;
}

int ips_cm_links_init(struct ips_cm_links *l, const struct ips_graph *g,
                      uint32_t self, uint32_t part_count,
                      const struct ips_peer_end *end, uint32_t end_count,
                      struct ips_err *err)
{
    memset(l, 0, sizeof(*l));
    l->g = g;
    l->end = end;
    l->end_count = end_count;
    l->in_peer = malloc(((size_t)g->in_count + 1) * sizeof(*l->in_peer));
    l->in_link = calloc((size_t)g->in_count + 1, sizeof(*l->in_link));
    int rc = 0;
    if (!l->in_peer || !l->in_link)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "%u remote arcs", g->in_count);
    if (rc == 0)
        rc = find_peers(l, self, part_count, err);
    if (rc == 0)
        rc = list_remote_receives_by_peer(l, err);
    if (rc < 0)
        ips_cm_links_release(l);
    return rc;
}

/* ---- agreeing on the links ----------------------------------------------- */

/* For each channel end of the sender, the message has the difference from the
 * previous end, the number of positions, and the differences between the
 * positions. */
int ips_cm_write_awaited_positions(const struct ips_cm_links *l, uint32_t p,
                                   struct ips_cm_bytes *out,
                                   struct ips_err *err)
{
    const struct ips_cm_peer *to = &l->peer[p];
    uint32_t last_end = 0;
    ips_cm_append_varint(out, to->want_count);
    for (uint32_t k = 0, n; k < to->want_count; k += n) {
        uint32_t end = l->end[l->g->in[to->want[k]].end].end;
        uint64_t pos = 0;
        for (n = 0; k + n < to->want_count &&
                    l->end[l->g->in[to->want[k + n]].end].end == end;)
            n++;
        ips_cm_append_varint(out, end - last_end);
        ips_cm_append_varint(out, n);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t next = l->g->in[to->want[k + i]].pos;
            ips_cm_append_varint(out, next - pos);
            pos = next;
        }
        last_end = end;
    }
    return ips_cm_append_checksum(out, err);
}

/* Writes the match of one awaited position: 0 if no node wrote it, 1 if the
 * previous link serves it too, else 2 + len for a new link, which is added
 * to `to`. */
static void write_match_and_add_link(struct ips_cm_links *l,
                                     struct ips_cm_peer *to, uint32_t end,
                                     uint64_t pos,
                                     const struct ips_remote_out **last,
                                     struct ips_cm_bytes *matches)
{
    const struct ips_remote_out *o =
        ips_graph_find_send_of_position(l->g, end, pos);
    if (!o) {
        ips_cm_append_varint(matches, 0);
    } else if (o == *last) {
        ips_cm_append_varint(matches, 1);
    } else {
        ips_cm_append_varint(matches, 2 + ips_remote_send_bytes_or_ns(
                                              l->g, (uint32_t)(o - l->g->out)));
        to->out_node[to->out_count++] = o->node;
    }
    *last = o;
}

static int read_and_match_positions_of_end(
    struct ips_cm_links *l, struct ips_cm_peer *to, struct ips_cm_reader *r,
    uint64_t *end, uint64_t *left, const struct ips_remote_out **last,
    struct ips_cm_bytes *matches, struct ips_err *err)
{
    *end += ips_cm_read_varint(r);
    uint64_t n = ips_cm_read_varint(r), pos = 0;
    if (r->bad || n == 0 || n > *left)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "its list of awaited messages is damaged");
    if (*end >= l->end_count || l->end[*end].machine != to->machine)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "it awaits messages of channel end %llu, which is "
                           "not joined to it",
                           (unsigned long long)*end);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t step = ips_cm_read_varint(r);
        if (r->bad || pos + step < pos)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "its list of awaited messages is damaged");
        pos += step;
        write_match_and_add_link(l, to, (uint32_t)*end, pos, last, matches);
    }
    *left -= n;
    return 0;
}

int ips_cm_read_awaited_and_write_matches(struct ips_cm_links *l, uint32_t p,
                                          const uint8_t *data, size_t len,
                                          struct ips_cm_bytes *matches,
                                          struct ips_err *err)
{
    struct ips_cm_peer *to = &l->peer[p];
    struct ips_cm_reader r;
    const struct ips_remote_out *last = NULL;
    int rc = ips_cm_verify_checksum_and_init_reader(&r, data, len, err);
    if (rc < 0)
        return rc;
    uint64_t left = ips_cm_read_varint(&r), end = 0;
    if (to->asked)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "it says twice what messages it awaits");
    /* Each position takes at least one byte, so a false count cannot cause an
     * allocation much larger than the message. */
    if (r.bad || left > len)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "its list of awaited messages is damaged");
    to->out_node = malloc((left + 1) * sizeof(*to->out_node));
    if (!to->out_node)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%llu awaited messages",
                           (unsigned long long)left);
    while (rc == 0 && left > 0)
        rc = read_and_match_positions_of_end(l, to, &r, &end, &left, &last,
                                             matches, err);
    if (rc == 0)
        rc = ips_cm_check_all_bytes_read(&r, err);
    if (rc < 0)
        return rc;
    to->asked = true;
    return ips_cm_append_checksum(matches, err);
}

int ips_cm_read_matches_and_store_links(struct ips_cm_links *l, uint32_t p,
                                        const uint8_t *data, size_t len,
                                        struct ips_err *err)
{
    struct ips_cm_peer *from = &l->peer[p];
    struct ips_cm_reader r;
    bool linked = false; /* true: the previous position belongs to a link */
    int rc = ips_cm_verify_checksum_and_init_reader(&r, data, len, err);
    if (rc < 0)
        return rc;
    if (from->matched)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "it says twice which messages it sent");
    for (uint32_t k = 0; k < from->want_count; k++) {
        uint64_t code = ips_cm_read_varint(&r);
        if (r.bad || (code == 1 && !linked) || code > 2 + IPS_TIME_LIMIT)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "its list of sent messages is damaged");
        linked = code != 0;
        if (code == 0) {
            l->in_peer[from->want[k]] = IPS_CM_NONE;
            continue;
        }
        if (code > 1) {
            from->in_first[from->in_count] = k;
            from->in_len[from->in_count++] = code - 2;
        }
        from->in_served[from->in_count - 1]++;
        l->in_link[from->want[k]] = from->in_count - 1;
    }
    rc = ips_cm_check_all_bytes_read(&r, err);
    from->matched = rc == 0;
    return rc;
}

bool ips_cm_is_link_exchange_complete(const struct ips_cm_links *l)
{
    for (uint32_t p = 0; p < l->peer_count; p++) {
        if (!l->peer[p].matched || !l->peer[p].asked)
            return false;
    }
    return true;
}

uint64_t ips_cm_count_unmatched_receives(const struct ips_cm_links *l)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < l->g->in_count; k++)
        n += l->in_peer[k] == IPS_CM_NONE;
    return n;
}

/* Returns the number of links from this part to its peers. */
static uint64_t count_outgoing_links(const struct ips_cm_links *l)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < l->peer_count; p++)
        n += l->peer[p].out_count;
    return n;
}

uint64_t ips_cm_count_incoming_links(const struct ips_cm_links *l)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < l->peer_count; p++)
        n += l->peer[p].in_count;
    return n;
}

int ips_cm_find_peer_and_link_of_node(const struct ips_cm_links *l,
                                      uint32_t node, struct ips_cm_sender *out,
                                      struct ips_err *err)
{
    uint32_t low = 0, high = l->g->in_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (l->g->in[mid].node < node)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == l->g->in_count || l->g->in[low].node != node ||
        l->in_peer[low] == IPS_CM_NONE)
        return ips_err_set(err, IPS_E_NOT_FOUND,
                           "node %u awaits no other machine", node);
    *out = (struct ips_cm_sender){l->in_peer[low], l->in_link[low]};
    return 0;
}

/* ---- functions shared by the two engines -------------------------------- */

static int by_node(const void *a, const void *b)
{
    const struct ips_cm_out *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

int ips_cm_list_outgoing_links_by_node(const struct ips_cm_links *l,
                                       struct ips_cm_outgoing_links *out,
                                       struct ips_err *err)
{
    uint64_t n = count_outgoing_links(l);
    out->count = 0;
    out->at = malloc((n + 1) * sizeof(*out->at));
    if (!out->at)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%llu links",
                           (unsigned long long)n);
    for (uint32_t p = 0; p < l->peer_count; p++) {
        for (uint32_t k = 0; k < l->peer[p].out_count; k++)
            out->at[out->count++] =
                (struct ips_cm_out){l->peer[p].out_node[k], p, k};
    }
    qsort(out->at, out->count, sizeof(*out->at), by_node);
    return 0;
}

uint64_t ips_cm_cross_arc_weight(const struct ips_graph *g, uint32_t k,
                                 const struct ips_scenario *scenario,
                                 const struct ips_cross_arc_weighting *arcs,
                                 uint64_t len, uint64_t at)
{
    uint32_t node = g->in[k].node;
    uint64_t x = len;
    if (scenario->weighting == IPS_WEIGH_WALL)
        x = ips_wall_cross_arc_weight(at, g->at[node], g->wait[node],
                                      g->xkind[node], len, scenario);
    return ips_cross_arc_weight_by_mode(arcs, arcs->mode[g->xkind[node]], &x,
                                        0);
}

int ips_cm_check_wall_graph_has_times(const struct ips_graph *g,
                                      const struct ips_scenario *scenario,
                                      struct ips_err *err)
{
    if (scenario->weighting == IPS_WEIGH_WALL && g->node_count > 0 &&
        (!g->at || !g->wait))
        return ips_err_set(err, IPS_E_USAGE,
                           "a graph without times has no weighting wall");
    return 0;
}

void ips_cm_append_node_time_if_wall(struct ips_cm_bytes *b,
                                     const struct ips_graph *g,
                                     const struct ips_scenario *scenario,
                                     uint32_t node, uint64_t est)
{
    if (scenario->weighting == IPS_WEIGH_WALL)
        ips_cm_append_signed_difference(b, est, g->at[node]);
}

int ips_cm_read_node_time_if_wall(struct ips_cm_reader *r,
                                  const struct ips_scenario *scenario,
                                  uint64_t est, uint64_t *at,
                                  struct ips_err *err)
{
    *at = 0;
    if (scenario->weighting != IPS_WEIGH_WALL)
        return 0;
    *at = ips_cm_read_and_add_signed_difference(r, est);
    if (*at > INT64_MAX)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a batch of values is damaged: sent at %llu ns",
                           (unsigned long long)*at);
    return 0;
}

int ips_cm_read_batch_head_and_check_order(struct ips_cm_reader *r,
                                           uint64_t *next_seq,
                                           uint32_t link_count,
                                           uint32_t *values,
                                           struct ips_err *err)
{
    uint64_t seq = ips_cm_read_varint(r), n = ips_cm_read_varint(r);
    if (r->bad || n > link_count)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a batch of values is damaged: its head");
    if (seq != *next_seq)
        return ips_err_set(
            err, IPS_E_PROTOCOL,
            "batch %llu of values came where batch %llu is "
            "next: %s",
            (unsigned long long)seq, (unsigned long long)*next_seq,
            seq < *next_seq ? "it came twice" : "one before it was lost");
    ++*next_seq;
    *values = (uint32_t)n;
    return 0;
}

int ips_cm_read_link_number_of_next_value(struct ips_cm_reader *r,
                                          uint32_t link_count, uint32_t *link,
                                          struct ips_err *err)
{
    uint64_t step = ips_cm_read_varint(r);
    if (r->bad || step >= link_count - *link)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a batch of values is damaged, or names a message "
                           "beyond the %u that are awaited",
                           link_count);
    *link += (uint32_t)step + 1;
    return 0;
}

int ips_cm_check_all_bytes_read(const struct ips_cm_reader *r,
                                struct ips_err *err)
{
    if (r->bad)
        return ips_err_set(err, IPS_E_PROTOCOL, "a message is cut short");
    if (r->at != r->end)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a message has %zu bytes too many",
                           (size_t)(r->end - r->at));
    return 0;
}
