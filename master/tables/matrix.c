#include "master/tables/matrix.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

void matrix_release(struct matrix *m)
{
    free(m->cells);
    memset(m, 0, sizeof(*m));
}

static int append_cell_if_nonzero(struct matrix *m, uint64_t from, uint64_t to,
                                  uint64_t messages, uint64_t bytes,
                                  struct ips_err *err)
{
    if (messages == 0 && bytes == 0)
        return 0;
    if (m->count == m->cap) {
        size_t cap = m->cap * 2 + 64;
        struct matrix_cell *more = realloc(m->cells, cap * sizeof(*more));
        if (!more)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        m->cells = more;
        m->cap = cap;
    }
    m->cells[m->count++] = (struct matrix_cell){
        .from = from, .to = to, .messages = messages, .bytes = bytes};
    return 0;
}

static int compare_cells(const void *left, const void *right)
{
    const struct matrix_cell *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

static void sort_and_merge_cells(struct matrix *m)
{
    size_t kept = 0;
    if (m->count > 0)
        qsort(m->cells, m->count, sizeof(*m->cells), compare_cells);
    for (size_t i = 0; i < m->count; i++) {
        struct matrix_cell *last = kept ? &m->cells[kept - 1] : NULL;
        if (last && compare_cells(last, &m->cells[i]) == 0) {
            last->messages = ips_add_sat(last->messages, m->cells[i].messages);
            last->bytes = ips_add_sat(last->bytes, m->cells[i].bytes);
        } else {
            m->cells[kept++] = m->cells[i];
        }
    }
    m->count = kept;
}

static int compare_channels_by_end(const void *left, const void *right)
{
    const Ips__ChannelRow *a = *(Ips__ChannelRow *const *)left;
    const Ips__ChannelRow *b = *(Ips__ChannelRow *const *)right;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return (a->process > b->process) - (a->process < b->process);
}

/* Returns the share of `sent` that belongs to the receivers that together
 * received `sum` of the `total`. `before` was sent before the window. The
 * result is the difference of two rounded-down shares, so that adjacent windows
 * add up exactly. */
static uint64_t share_of_sent(uint64_t before, uint64_t sent, uint64_t sum,
                              uint64_t total)
{
    if (sum == total)
        return sent;
    uint64_t later = (uint64_t)((ips_u128)(before + sent) * sum / total);
    return later - (uint64_t)((ips_u128)before * sum / total);
}

/* Distributes the messages and bytes that `row` sent over the processes that
 * share the receiving end, in proportion to the bytes that each received. The
 * shares add up exactly. */
static int distribute_over_receivers(struct matrix *m, uint64_t from,
                                     const Ips__ChannelRow *row,
                                     const struct machine_share *to,
                                     uint32_t end, struct ips_err *err)
{
    Ips__ChannelRow **list = to->t.channels;
    uint32_t n = to->t.channel_count, low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (list[mid]->end < end)
            low = mid + 1;
        else
            high = mid;
    }
    uint64_t total = 0, sum = 0, messages = 0, bytes = 0;
    uint32_t last = low;
    for (uint32_t i = low; i < n && list[i]->end == end; i++) {
        if (list[i]->recv_bytes > 0)
            last = i;
        total = ips_add_sat(total, list[i]->recv_bytes);
    }
    for (uint32_t i = low; i <= last && i < n && list[i]->end == end; i++) {
        sum = ips_add_sat(sum, list[i]->recv_bytes);
        bool rest = i == last || total == 0;
        uint64_t upto_m =
            share_of_sent(row->sent_messages_before, row->sent_messages, sum,
                          rest ? sum : total);
        uint64_t upto_b = share_of_sent(row->sent_bytes_before, row->sent_bytes,
                                        sum, rest ? sum : total);
        int rc = append_cell_if_nonzero(
            m, from, matrix_process_key(to->number, list[i]->process),
            upto_m - messages, upto_b - bytes, err);
        if (rc < 0)
            return rc;
        messages = upto_m;
        bytes = upto_b;
    }
    /* Something is left only if no process of the receiving machine has used
     * the end yet. */
    return append_cell_if_nonzero(m, from, MATRIX_PENDING,
                                  row->sent_messages - messages,
                                  row->sent_bytes - bytes, err);
}

static int append_cells_of_channel(struct matrix *m,
                                   struct machine_share *const *parts,
                                   uint32_t count,
                                   const struct machine_share *p,
                                   const Ips__ChannelRow *row, bool pending,
                                   struct ips_err *err)
{
    uint64_t self = matrix_process_key(p->number, row->process);
    uint64_t other = pending ? MATRIX_PENDING : MATRIX_EXTERNAL;
    if (row->peer_process >= 0)
        return append_cell_if_nonzero(
            m, self, matrix_process_key(p->number, (uint32_t)row->peer_process),
            row->sent_messages, row->sent_bytes, err);
    if (row->peer_shared > 0)
        return distribute_over_receivers(m, self, row, p, row->peer_shared - 1,
                                         err);
    if (row->end < p->peer_count && p->peer[row->end].machine < count)
        return distribute_over_receivers(m, self, row,
                                         parts[p->peer[row->end].machine],
                                         p->peer[row->end].end, err);
    int rc = append_cell_if_nonzero(m, self, other, row->sent_messages,
                                    row->sent_bytes, err);
    return rc < 0
               ? rc
               : append_cell_if_nonzero(
                     m, other, self,
                     row->windowed ? row->recv_messages_in : row->recv_messages,
                     row->windowed ? row->recv_bytes_in : row->recv_bytes, err);
}

int matrix_make(struct machine_share *const *parts, uint32_t count,
                bool pending, struct matrix *out, struct ips_err *err)
{
    int rc = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i]->t.channel_count > 0)
            qsort(parts[i]->t.channels, parts[i]->t.channel_count,
                  sizeof(*parts[i]->t.channels), compare_channels_by_end);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct machine_share *p = parts[i];
        for (uint32_t k = 0; k < p->t.channel_count && rc == 0; k++)
            rc = append_cells_of_channel(out, parts, count, p, p->t.channels[k],
                                         pending, err);
    }
    sort_and_merge_cells(out);
    if (rc < 0)
        matrix_release(out);
    return rc;
}

static uint64_t machine_key_of_process(uint64_t process)
{
    return process >= MATRIX_PENDING ? process
                                     : process & ~(uint64_t)UINT32_MAX;
}

int matrix_sum_by_machine(const struct matrix *m, struct matrix *out,
                          struct ips_err *err)
{
    int rc = 0;
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < m->count && rc == 0; i++)
        rc = append_cell_if_nonzero(
            out, machine_key_of_process(m->cells[i].from),
            machine_key_of_process(m->cells[i].to), m->cells[i].messages,
            m->cells[i].bytes, err);
    sort_and_merge_cells(out);
    if (rc < 0)
        matrix_release(out);
    return rc;
}

static int compare_cells_by_receiver(const void *left, const void *right)
{
    const struct matrix_cell *a = left, *b = right;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

int matrix_copy_sorted_by_receiver(const struct matrix *m, struct matrix *out,
                                   struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    out->cells = calloc(m->count + 1, sizeof(*out->cells));
    if (!out->cells)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    out->count = out->cap = m->count;
    if (m->count > 0) {
        memcpy(out->cells, m->cells, m->count * sizeof(*out->cells));
        qsort(out->cells, out->count, sizeof(*out->cells),
              compare_cells_by_receiver);
    }
    return 0;
}

size_t matrix_find_first_cell(const struct matrix *m, uint64_t who, bool turned)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        uint64_t key = turned ? m->cells[mid].to : m->cells[mid].from;
        if (key < who)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
