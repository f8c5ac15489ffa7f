/* SeriesAsk, as a slave answers it that did much in the first half of time. */
#include <stdlib.h>

#include "tests/support/fake_slave.h"

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

static void put_top(Ips__SeriesTop *row, uint32_t bin, bool of_process,
                    bool corrupt)
{
    ips__series_top__init(row);
    row->bin = bin;
    row->of_process = of_process;
    row->process = corrupt ? 1000000 : 0;
    row->procedure = ips_unconst_text(of_process ? "" : "f");
    row->module = ips_unconst_text(of_process ? "" : "/bin/p");
    row->ns = 100;
}

void fake_slave_series(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt)
{
    Ips__SeriesAnswer a = IPS__SERIES_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    const Ips__SeriesAsk *ask = r->series;
    assert_true(ask->n_edge >= 2);
    assert_int_equal(ask->generation, 5);
    size_t n = ask->n_edge - 1;
    for (size_t i = 0; i < n; i++)
        assert_true(ask->edge[i] < ask->edge[i + 1]);
    uint64_t *v = calloc(4 * n, sizeof(*v));
    Ips__SeriesTop rows[2], *list[2] = {&rows[0], &rows[1]};
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) {
        bool busy = i < (n + 1) / 2;
        v[i] = busy ? 100 : 0;
        v[n + i] = busy ? 3 : 0;
        v[2 * n + i] = busy ? 15 : 0;
        v[3 * n + i] = busy ? 0 : 7;
    }
    a.n_cpu_ns = a.n_messages = a.n_bytes = a.n_wait_ns = n;
    a.cpu_ns = v;
    a.messages = v + n;
    a.bytes = v + 2 * n;
    a.wait_ns = v + 3 * n;
    if (corrupt && !ask->tops)
        a.n_bytes = n - 1;
    if (ask->tops) {
        put_top(&rows[0], 0, true, corrupt);
        put_top(&rows[1], 0, false, corrupt);
        a.tops = list;
        a.n_tops = 2;
    }
    reply.answer_case = IPS__REPLY__ANSWER_SERIES;
    reply.series = &a;
    fake_slave_answer(s, r->id, &reply, true);
    free(v);
}
