/* Makes the rows of the message matrix: the traffic of each process on each
 * end. */
#include "slave/build/node.h"

int b_find_or_add_traffic_row(struct maker *m, uint32_t end, uint32_t *index)
{
    struct build *b = m->b;
    struct b_end *e = &b->ends[end];
    if (e->traffic_proc == m->proc) {
        *index = e->traffic;
        return 0;
    }
    /* Chains come process by process, so each (end, process) pair gets one
     * row. */
    uint32_t n = b->out->traffic_count;
    if (b->from) {
        b->broken |= !b_incremental_find_traffic_row(b, end, m->proc, index);
        if (!b->broken) {
            e->traffic_proc = m->proc;
            e->traffic = *index;
            return 0;
        }
    }
    int rc = n < b->traffic_capacity
                 ? 0
                 : b_array_reserve((void **)&b->out->traffic, n,
                                   &b->traffic_capacity,
                                   sizeof(*b->out->traffic), b->err);
    if (rc == 0)
        rc = B_MORE(b->traffic_last, b->err);
    if (rc < 0)
        return rc;
    struct ips_traffic_window *cut = b->in->traffic;
    if (cut && n >= cut->capacity)
        rc = b_array_reserve((void **)&cut->row, n, &cut->capacity,
                             sizeof(*cut->row), b->err);
    if (rc < 0)
        return rc;
    if (cut) {
        cut->row[n] = (struct ips_traffic_cut){0};
        cut->count = n + 1;
    }
    b->out->traffic[n] = (struct ips_traffic){.end = end, .process = m->proc};
    b->out->traffic_count = n + 1;
    b->traffic_last.v[b->traffic_last.n++] = 0;
    e->traffic_proc = m->proc;
    e->traffic = n;
    *index = n;
    return 0;
}

void b_add_tally(struct maker *m, const struct traffic_tally *y, enum b_dir dir)
{
    struct build *b = m->b;
    bool send = dir == B_SEND;
    if (!y->messages)
        return;
    struct ips_traffic *row = &b->out->traffic[y->row];
    struct ips_end *end = &b->out->ends[y->end];
    uint64_t *last = &b->traffic_last.v[y->row];
    *last = ips_max_u64(*last, y->t_ret);
    end->first_ns = ips_min_u64(end->first_ns, y->t);
    end->last_ns = ips_max_u64(end->last_ns, y->t_ret);
    *(send ? &row->sent_bytes : &row->recv_bytes) += y->bytes;
    *(send ? &row->sent_messages : &row->recv_messages) += y->messages;
    *(send ? &end->sent_bytes : &end->recv_bytes) += y->bytes;
    *(send ? &end->sent_messages : &end->recv_messages) += y->messages;
    *(send ? &m->row->bytes_out : &m->row->bytes_in) += y->bytes;
    *(send ? &m->row->messages_out : &m->row->messages_in) += y->messages;
}

static void flush_tally(struct maker *m, enum b_dir dir)
{
    b_add_tally(m, &m->tally[dir], dir);
    m->tally[dir].messages = 0;
}

void b_flush_tallies(struct maker *m)
{
    flush_tally(m, B_SEND);
    flush_tally(m, B_RECV);
}

int b_start_tally(struct maker *m, uint32_t end, enum b_dir dir)
{
    struct traffic_tally *y = &m->tally[dir];
    flush_tally(m, dir);
    *y = (struct traffic_tally){.end = end, .t = UINT64_MAX};
    return b_find_or_add_traffic_row(m, end, &y->row);
}

void b_add_window_traffic(struct ips_traffic_window *w, uint32_t row,
                          const struct interval *v, uint64_t len, bool send)
{
    struct ips_traffic_cut *r = &w->row[row];
    uint64_t t = send ? v->t : v->t_ret;
    if (t < w->from_ns && send) {
        r->sent_messages_before++;
        r->sent_bytes_before += len;
    }
    if (t < w->from_ns || t >= w->to_ns)
        return;
    *(send ? &r->sent_messages : &r->recv_messages) += 1;
    *(send ? &r->sent_bytes : &r->recv_bytes) += len;
}
