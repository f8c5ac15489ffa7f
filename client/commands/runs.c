#include <stdlib.h>
#include <time.h>

#include "client/base/command.h"
#include "client/base/top_n.h"

static const struct ipsq_column columns[] = {
    {"run", "RUN", IPSQ_TEXT},
    {"open", "OPEN", IPSQ_BOOL},
    {"created", "CREATED", IPSQ_TEXT},
    {"created_real_ns", NULL, IPSQ_COUNT},
    {"machines", "MACHINES", IPSQ_LIST},
    {"missing_machines", "MISSING", IPSQ_LIST},
    {"processes", "PROCESSES", IPSQ_COUNT},
    {"threads", "THREADS", IPSQ_COUNT},
    {"events", "EVENTS", IPSQ_COUNT},
    {"lost", "LOST", IPSQ_COUNT},
    {"tags", NULL, IPSQ_LIST},
    {"command", "COMMAND", IPSQ_TEXT},
};
#define STAMP_BYTES sizeof("2026-01-31T12:00:00Z")

static void format_stamp(uint64_t real_ns, char out[STAMP_BYTES])
{
    time_t at = (time_t)(real_ns / 1000000000);
    struct tm tm;
    out[0] = '\0';
    if (real_ns != IPS_UNMEASURED && gmtime_r(&at, &tm))
        strftime(out, STAMP_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void add_row(struct ipsq_table *t, const Ips__RunRow *row, char *created)
{
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    format_stamp(row->created_real_ns, created);
    *cell++ = ipsq_text_cell(row->run);
    *cell++ = ipsq_bool_cell(row->open);
    *cell++ = ipsq_text_cell(created);
    *cell++ = ipsq_count_cell(row->created_real_ns);
    *cell++ = ipsq_list_cell(row->machines, row->n_machines);
    *cell++ = ipsq_list_cell(row->missing, row->n_missing);
    *cell++ = ipsq_count_cell(row->processes);
    *cell++ = ipsq_count_cell(row->threads);
    *cell++ = ipsq_count_cell(row->events);
    *cell++ = ipsq_count_cell(row->lost);
    *cell++ = ipsq_list_cell(row->tags, row->n_tags);
    *cell++ = ipsq_text_cell(row->command);
}

static int run_runs(const struct ipsq_command *self,
                    const struct ipsq_options *o, struct ipsq_session *s,
                    struct ips_err *err)
{
    Ips__RunRow **rows;
    size_t count;
    uint64_t left_out;
    struct ipsq_table t;
    struct ipsq_out out;
    (void)self;
    int rc = ipsq_session_fetch_runs(s, &rows, &count, &left_out, err);
    if (rc < 0)
        return rc;
    char(*created)[STAMP_BYTES] = calloc(count + 1, sizeof(*created));
    if (!created) {
        free(rows);
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu runs", count);
    }
    ipsq_table_init(&t, "runs", columns, IPSQ_COUNT_OF(columns));
    for (size_t i = 0; i < count && (!o->top || i < o->top); i++)
        add_row(&t, rows[i], created[i]);
    left_out += count - t.row_count;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, false);
    ipsq_out_write_table(&out, &t, NULL);
    ipsq_put_left_out_count(&out, "runs", left_out);
    if (count == 0)
        ipsq_out_write_line_if_table(
            &out,
            "no run is known to the master at %s: record one with "
            "ipsrun -- COMMAND",
            s->address);
    ipsq_table_release(&t);
    free(created);
    free(rows);
    return ipsq_out_end(&out, err);
}

const struct ipsq_command ipsq_cmd_runs = {
    .name = "runs",
    .usage = "[--top N]",
    .summary = "recorded runs, newest first",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq runs\n"
                "  ipsq runs --top 10 --format json\n",
    .help = "A run is open until all its processes have ended and all its data "
            "is archived.\n",
    .options = IPSQ_HAS(TOP),
    .formats = IPSQ_FORMATS_USUAL,
    .run = run_runs,
};
