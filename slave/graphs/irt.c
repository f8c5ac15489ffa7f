/* Stores the results of a build in the database tables `process`, `thread`,
 * `wait`, `channel` and `traffic`, together called IRT. */
#include <stdlib.h>

#include "common/types.h"
#include "slave/build/build.h"
#include "slave/store/db.h"

static uint64_t lifetime_length_ns(uint64_t start, uint64_t end, uint64_t last)
{
    return ips_sub_sat(end ? end : last, start);
}

struct messages {
    uint64_t out, out_bytes, in, in_bytes;
};

/* Returns the message counts and bytes of each process, summed over its
 * threads, in an array to be freed with free(). */
static struct messages *sum_messages_by_process(const struct ips_built *b,
                                                struct ips_err *err)
{
    struct messages *sum = calloc((size_t)b->proc_count + 1, sizeof(*sum));
    if (!sum)
        ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; sum && i < b->g.chain_count; i++) {
        const struct ips_thread_row *t = &b->threads[i];
        struct messages *m = &sum[t->process];
        m->out += t->messages_out;
        m->out_bytes += t->bytes_out;
        m->in += t->messages_in;
        m->in_bytes += t->bytes_in;
    }
    return sum;
}

static int insert_process_rows(struct slave_store *s, int64_t run,
                               const struct ips_built *b, uint64_t last,
                               struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_PROCESS];
    struct messages *sum = sum_messages_by_process(b, err);
    int rc = sum ? 0 : IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < b->proc_count; i++) {
        const struct ips_proc *p = &b->procs[i];
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, i);
        slave_bind_u64(q, 3, p->pid);
        (void)sqlite3_bind_int64(
            q, 4, p->parent == IPS_NONE ? -1 : (int64_t)p->parent);
        slave_bind_text(q, 5, p->name);
        slave_bind_text(q, 6, p->command);
        slave_bind_u64(q, 7, p->start_ns);
        slave_bind_u64(q, 8, p->end_ns);
        slave_bind_u64(q, 9, p->open);
        slave_bind_u64(q, 10, p->root);
        slave_bind_text(q, 11, p->end);
        slave_bind_u64(q, 12, p->cpu_ns);
        slave_bind_u64(q, 13, p->rusage_cpu_ns);
        slave_bind_u64(q, 14, p->unattributed_ns);
        slave_bind_u64(q, 15, p->events);
        slave_bind_u64(q, 16, lifetime_length_ns(p->start_ns, p->end_ns, last));
        slave_bind_u64(q, 17, sum[i].out);
        slave_bind_u64(q, 18, sum[i].out_bytes);
        slave_bind_u64(q, 19, sum[i].in);
        slave_bind_u64(q, 20, sum[i].in_bytes);
        rc = slave_store_execute(s, SLAVE_STMT_PUT_PROCESS, err);
    }
    free(sum);
    return rc;
}

static int insert_wait_totals_of_thread(struct slave_store *s, int64_t run,
                                        uint32_t chain,
                                        const struct ips_thread_row *t,
                                        struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_WAIT];
    int rc = 0;
    for (int c = 0; rc == 0 && c < IPS_WAIT_COUNT; c++) {
        if (!t->wait_count[c])
            continue;
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, chain);
        slave_bind_text(q, 3, ips_wait_name((enum ips_wait_cause)c));
        slave_bind_u64(q, 4, t->wait_ns[c]);
        slave_bind_u64(q, 5, t->wait_count[c]);
        rc = slave_store_execute(s, SLAVE_STMT_PUT_WAIT, err);
    }
    return rc;
}

static int insert_thread_and_wait_rows(struct slave_store *s, int64_t run,
                                       const struct ips_built *b, uint64_t last,
                                       struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_THREAD];
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < b->g.chain_count; i++) {
        const struct ips_thread_row *t = &b->threads[i];
        uint64_t wait_ns = 0;
        for (int c = 0; c < IPS_WAIT_COUNT; c++)
            /* add up only the causes that also get a row in the table `wait`,
             * so that both sums agree */
            if (t->wait_count[c])
                wait_ns += t->wait_ns[c];
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, i);
        slave_bind_u64(q, 3, t->process);
        slave_bind_u64(q, 4, t->tid);
        slave_bind_text(q, 5, t->name);
        slave_bind_u64(q, 6, t->start_ns);
        slave_bind_u64(q, 7, t->end_ns);
        slave_bind_u64(q, 8, t->open);
        slave_bind_u64(q, 9, t->cpu_ns);
        slave_bind_u64(q, 10, wait_ns);
        slave_bind_u64(q, 11, t->messages_out);
        slave_bind_u64(q, 12, t->bytes_out);
        slave_bind_u64(q, 13, t->messages_in);
        slave_bind_u64(q, 14, t->bytes_in);
        slave_bind_u64(q, 15, lifetime_length_ns(t->start_ns, t->end_ns, last));
        slave_bind_u64(q, 16, t->delay_ns);
        slave_bind_u64(q, 17, t->woken_ns);
        slave_bind_u64(q, 18, t->unknown_ns);
        rc = slave_store_execute(s, SLAVE_STMT_PUT_THREAD, err);
        if (rc == 0)
            rc = insert_wait_totals_of_thread(s, run, i, t, err);
    }
    return rc;
}

static int insert_channel_rows(struct slave_store *s, int64_t run,
                               const struct ips_built *b, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_CHANNEL];
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < b->end_count; i++) {
        const struct ips_end *e = &b->ends[i];
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, i);
        slave_bind_u64(q, 3, e->kind);
        slave_bind_text(q, 4, e->name);
        slave_bind_u64(q, 5, e->peer);
        (void)sqlite3_bind_int64(
            q, 6, e->peer == IPS_PEER_LOCAL ? (int64_t)e->peer_end : -1);
        slave_bind_u64(q, 7, e->sent_messages);
        slave_bind_u64(q, 8, e->sent_bytes);
        slave_bind_u64(q, 9, e->recv_messages);
        slave_bind_u64(q, 10, e->recv_bytes);
        slave_bind_u64(q, 11, e->closed);
        rc = slave_store_execute(s, SLAVE_STMT_PUT_CHANNEL, err);
    }
    return rc;
}

static int insert_channel_end_traffic_rows(struct slave_store *s, int64_t run,
                                           const struct ips_built *b,
                                           struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_TRAFFIC];
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < b->traffic_count; i++) {
        const struct ips_traffic *t = &b->traffic[i];
        (void)sqlite3_bind_int64(q, 1, run);
        slave_bind_u64(q, 2, t->end);
        slave_bind_u64(q, 3, t->process);
        slave_bind_u64(q, 4, t->sent_messages);
        slave_bind_u64(q, 5, t->sent_bytes);
        slave_bind_u64(q, 6, t->recv_messages);
        slave_bind_u64(q, 7, t->recv_bytes);
        rc = slave_store_execute(s, SLAVE_STMT_PUT_TRAFFIC, err);
    }
    return rc;
}

static int store_summary_key_and_times(struct slave_store *s, int64_t run,
                                       uint64_t key, uint64_t first,
                                       uint64_t last, struct ips_err *err)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_PUT_IRT];
    (void)sqlite3_bind_int64(q, 1, run);
    slave_bind_u64(q, 2, key);
    slave_bind_u64(q, 3, first);
    slave_bind_u64(q, 4, last);
    return slave_store_execute(s, SLAVE_STMT_PUT_IRT, err);
}

bool slave_store_get_summary_tables_state(struct slave_store *s, int64_t run,
                                          struct slave_irt_row *out)
{
    sqlite3_stmt *q = s->stmt[SLAVE_STMT_GET_IRT];
    (void)sqlite3_bind_int64(q, 1, run);
    bool is = sqlite3_step(q) == SQLITE_ROW;
    if (is)
        *out =
            (struct slave_irt_row){.key = slave_column_u64(q, 0),
                                   .procedures = sqlite3_column_int(q, 1) != 0};
    (void)sqlite3_reset(q);
    return is;
}

int slave_store_replace_summary_tables(struct slave_store *s, int64_t run,
                                       uint64_t key, const struct ips_built *b,
                                       struct ips_err *err)
{
    static const char *const tables[] = {"process", "thread",  "wait",
                                         "channel", "traffic", "procedure",
                                         "irt",     NULL};
    uint64_t last = ips_find_latest_start_or_end_ns(b);
    int rc = slave_store_begin(s, err);
    if (rc == 0)
        rc = slave_store_delete_rows_of_run(s, run, tables, err);
    if (rc == 0)
        rc = insert_process_rows(s, run, b, last, err);
    if (rc == 0)
        rc = insert_thread_and_wait_rows(s, run, b, last, err);
    if (rc == 0)
        rc = insert_channel_rows(s, run, b, err);
    if (rc == 0)
        rc = insert_channel_end_traffic_rows(s, run, b, err);
    if (rc == 0)
        rc = store_summary_key_and_times(s, run, key, b->first_ns, last, err);
    if (rc == 0)
        rc = slave_store_commit(s, err);
    if (rc < 0)
        slave_store_rollback(s);
    return rc;
}
