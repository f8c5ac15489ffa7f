#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "client/base/command.h"

static const struct ipsq_column columns[] = {
    {"machine", "MACHINE", IPSQ_TEXT}, {"process", "PROCESS", IPSQ_TEXT},
    {"pid", NULL, IPSQ_COUNT},         {"tid", "TID", IPSQ_COUNT},
    {"type", "TYPE", IPSQ_TEXT},       {"t_ns", "TIME NS", IPSQ_COUNT},
    {"cpu_ns", "CPU NS", IPSQ_COUNT},  {"bytes", "BYTES", IPSQ_INT},
    {"channel", "CHANNEL", IPSQ_TEXT}, {"detail", "DETAIL", IPSQ_TEXT},
    {"site", "SITE", IPSQ_TEXT},       {"stack", "STACK", IPSQ_LIST},
};
/* number of columns that are always printed; --sites and --stacks add one
 * each */
enum { PLAIN_COLUMNS = 10 };

/* If the rows do not go to the terminal, the terminal shows how many were
 * written so far, updated at this interval (ns). */
#define SAY_NS 500000000ull

struct stream {
    struct ipsq_out out;
    struct ipsq_table t;
    bool begun, quiet;
    uint64_t rows, said_ns;
    const char *run;
    const struct ipsq_options *o;
};

static void begin_output_once(struct stream *st)
{
    if (st->begun)
        return;
    st->begun = true;
    st->quiet = isatty(STDOUT_FILENO);
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&st->out, stdout, st->o->format, false);
    if (st->o->format == IPSQ_JSON)
        ipsq_out_write_or_collect_value(&st->out, IPSQ_TEXT, "run", NULL,
                                        ipsq_text_cell(st->run));
    ipsq_out_table_begin(&st->out, &st->t, NULL);
}

static void count_and_show_events_so_far(struct stream *st, size_t more)
{
    struct timespec t;
    char text[80];
    st->rows += more;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (st->quiet || (st->said_ns && now - st->said_ns < SAY_NS))
        return;
    st->said_ns = now;
    snprintf(text, sizeof(text), "ipsq: %llu events so far",
             (unsigned long long)st->rows);
    ipsq_progress_replace_line(text);
}

static int print_reply_events(const Ips__Reply *reply, void *arg,
                              struct ips_err *err)
{
    struct stream *st = arg;
    int rc = ipsq_check_answer_kind(reply, IPS__REPLY__ANSWER_EVENTS, err);
    if (rc < 0)
        return rc;
    begin_output_once(st);
    for (size_t i = 0; i < reply->events->n_events; i++) {
        const Ips__EventRow *row = reply->events->events[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&st->t);
        *cell++ = ipsq_text_cell(row->machine);
        *cell++ = ipsq_text_cell(row->process);
        *cell++ = ipsq_count_cell(row->pid);
        *cell++ = ipsq_count_cell(row->tid);
        *cell++ = ipsq_text_cell(row->type);
        *cell++ = ipsq_count_cell(row->t_ns);
        *cell++ = ipsq_count_cell(row->cpu_ns);
        *cell++ = ipsq_int_cell(row->bytes == -1 ? IPSQ_NO_INT : row->bytes);
        *cell++ = ipsq_text_cell(row->channel);
        *cell++ = ipsq_text_cell(row->detail);
        if (st->o->sites || st->o->stacks)
            *cell++ = ipsq_text_cell(row->site);
        if (st->o->stacks)
            *cell++ = ipsq_list_cell(row->stack, row->n_stack);
    }
    ipsq_out_write_and_clear_rows(&st->out, &st->t);
    count_and_show_events_so_far(st, reply->events->n_events);
    return 0;
}

static int run_events(const struct ipsq_command *self,
                      const struct ipsq_options *o, struct ipsq_session *s,
                      struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__EventsAsk ask = IPS__EVENTS_ASK__INIT;
    struct stream st = {.o = o};
    (void)self;
    ask.object = ips_unconst_text(o->object ? o->object : "");
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    ask.limit = o->top;
    ask.sites = o->sites || o->stacks;
    ask.stacks = o->stacks;
    rq.ask_case = IPS__REQUEST__ASK_EVENTS;
    rq.events = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc < 0)
        return rc;
    st.run = rq.run;
    ipsq_table_init(&st.t, "events", columns,
                    PLAIN_COLUMNS + (size_t)ask.sites + (size_t)ask.stacks);
    st.t.spare_columns = "cpu_ns tid machine bytes";
    rc = ipsq_session_ask(s, &rq, true, print_reply_events, &st, NULL, err);
    if (rc == 0) {
        begin_output_once(&st);
        ipsq_progress_stop_and_erase_line();
        ipsq_out_table_end(&st.out, &st.t);
        rc = ipsq_out_end(&st.out, err);
    }
    ipsq_table_release(&st.t);
    return rc;
}

const struct ipsq_command ipsq_cmd_events = {
    .name = "events",
    .usage = "[RUN] [--object OBJECT] [--from TIME] [--to TIME] [--phase N]\n"
             "                   [--top N] [--sites] [--stacks]",
    .summary = "recorded events, machine by machine",
    .group = IPSQ_DRILL,
    .examples = "  ipsq events run3 --object /m1/server.123 --top 50\n"
                "  ipsq events run3 --from 1s --to 1.1s --stacks\n",
    .help = "TIME NS is the machine's own monotonic clock; do not compare "
            "times of different machines. --from and --to count from the "
            "machine's first event of the run. --top selects the first N "
            "events. --sites adds the call site (procedure, file:line or "
            "module), --stacks also all callers of blocking calls, innermost "
            "first.\n",
    .options = IPSQ_HAS(OBJECT) | IPSQ_HAS(FROM) | IPSQ_HAS(TO) |
               IPSQ_HAS(PHASE) | IPSQ_HAS(TOP) | IPSQ_HAS(SITES) |
               IPSQ_HAS(STACKS),
    .formats = IPSQ_FORMATS_ALL,
    .max_args = 1,
    .run = run_events,
};
