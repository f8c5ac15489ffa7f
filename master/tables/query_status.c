/* The state of the daemon and its slaves. */
#include "common/types.h"
#include "master/base/arena.h"
#include "master/query/answer_cache.h"
#include "master/query/query.h"

static void fill_row(struct slave *s, uint64_t now, Ips__SlaveRow *row)
{
    ips__slave_row__init(row);
    row->machine = ips_unconst_text(s->machine);
    row->version = ips_unconst_text(s->version);
    row->connected = roster_is_slave_alive(s, now);
    row->last_seen_ns = ips_sub_sat(now, s->seen_ns);
    row->runs = s->runs;
    row->pool_used_bytes = s->pool_used_bytes;
    row->pool_size_bytes = s->pool_size_bytes;
    row->computations = s->computations;
    row->questions = s->questions;
    row->trouble = s->trouble;
}

static void send_status_answer(struct query *q)
{
    const struct master *m = q->m;
    struct arena a = {0};
    uint64_t now = master_now_ns();
    Ips__StatusAnswer answer = IPS__STATUS_ANSWER__INIT;
    answer.version = ips_unconst_text(IPS_VERSION);
    answer.uptime_ns = now - m->started_ns;
    answer.address = ips_unconst_text(m->address);
    answer.clients = m->client_count;
    answer.kept_answers = answer_cache_count(m);
    answer.slaves =
        arena_alloc(&a, (m->roster.count + 1) * sizeof(*answer.slaves));
    for (struct slave *s = m->roster.first; s && answer.slaves; s = s->next) {
        Ips__SlaveRow *row = arena_alloc(&a, sizeof(*row));
        if (!row)
            break;
        fill_row(s, now, row);
        answer.slaves[answer.n_slaves++] = row;
    }
    if (a.failed) {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_STATUS;
        reply.status = &answer;
        query_answer(q, &reply);
    }
    arena_release(&a);
}

const struct query_kind query_status = {.name = "status",
                                        .start = send_status_answer};
