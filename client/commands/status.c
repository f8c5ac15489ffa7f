#include "client/base/command.h"

static const struct ipsq_column columns[] = {
    {"machine", "MACHINE", IPSQ_TEXT},
    {"connected", "CONNECTED", IPSQ_BOOL},
    {"last_seen_ns", "LAST SEEN", IPSQ_NS},
    {"runs", "RUNS", IPSQ_COUNT},
    {"pool_used_bytes", "POOL USED", IPSQ_BYTES},
    {"pool_size_bytes", "OF", IPSQ_BYTES},
    {"version", "VERSION", IPSQ_TEXT},
    {"computations", "COMPUTING", IPSQ_COUNT},
    {"questions", "ASKED", IPSQ_COUNT},
    {"trouble", "TROUBLE", IPSQ_TEXT},
};

static int run_status(const struct ipsq_command *self,
                      const struct ipsq_options *o, struct ipsq_session *s,
                      struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__StatusAsk ask = IPS__STATUS_ASK__INIT;
    const Ips__Reply *last;
    struct ipsq_table t;
    struct ipsq_out out;
    (void)self;
    rq.ask_case = IPS__REQUEST__ASK_STATUS;
    rq.status = &ask;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_STATUS, err);
    if (rc < 0)
        return rc;
    const Ips__StatusAnswer *a = last->status;
    ipsq_table_init(&t, "slaves", columns, IPSQ_COUNT_OF(columns));
    for (size_t i = 0; i < a->n_slaves; i++) {
        const Ips__SlaveRow *row = a->slaves[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(row->machine);
        *cell++ = ipsq_bool_cell(row->connected);
        *cell++ = ipsq_count_cell(row->last_seen_ns);
        *cell++ = ipsq_count_cell(row->runs);
        *cell++ = ipsq_count_cell(row->pool_used_bytes);
        *cell++ = ipsq_count_cell(row->pool_size_bytes);
        *cell++ = ipsq_text_cell(row->version);
        *cell++ = ipsq_count_cell(row->computations);
        *cell++ = ipsq_count_cell(row->questions);
        *cell++ = ipsq_text_cell(row->trouble);
    }
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, false);
    ipsq_out_write_or_collect_value(
        &out, IPSQ_TEXT, "address", "master",
        ipsq_text_cell(a->address && *a->address ? a->address : s->address));
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "version", "version",
                                    ipsq_text_cell(a->version));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "uptime_ns", "up",
                                    ipsq_count_cell(a->uptime_ns));
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "clients", "clients",
                                    ipsq_count_cell(a->clients));
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "kept_answers",
                                    "kept answers",
                                    ipsq_count_cell(a->kept_answers));
    ipsq_out_write_table(&out, &t, "");
    bool trouble = false;
    for (size_t i = 0; i < a->n_slaves; i++)
        trouble |= *a->slaves[i]->trouble != '\0';
    if (trouble)
        ipsq_out_write_line_if_table(
            &out, "until the problem is fixed, recordings stay in the "
                  "machine's pool; when the pool is full, events are lost");
    if (a->n_slaves == 0)
        ipsq_out_write_line_if_table(
            &out, "no slave is connected: start ips-slave on each "
                  "machine, or just use ipsrun");
    ipsq_table_release(&t);
    return ipsq_out_end(&out, err);
}

const struct ipsq_command ipsq_cmd_status = {
    .name = "status",
    .usage = "",
    .summary = "the master and its machines",
    .group = IPSQ_ADMIN,
    .examples = "  ipsq status\n"
                "  ipsq status --master tls:head:7070 --tls keys\n",
    .help = "LAST SEEN is the time since the slave's last message. COMPUTING "
            "is the number of distributed path computations of the slave, "
            "ASKED the number of its open questions. TROUBLE says why a "
            "machine cannot archive its recordings.\n",
    .formats = IPSQ_FORMATS_USUAL,
    .run = run_status,
};
