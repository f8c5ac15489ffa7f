/*
 * slave_asker ADDRESS RUN WORD...: a master of few words, for tests of the
 * slave alone. Listens, waits for one slave, asks what the words say, one after
 * the other, prints the answers as lines of KEY=VALUE, and ends. Words:
 *   report         wait for a report that names RUN, print its row
 *   sync table ends peers reduce finish subgraph expand
 *   traced: peers, all of them traced; slower: reduce, a message takes 1 us
 *   events[:WINDOW] every event, a line each
 *   bad            asks of a generation that never was
 */
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "proto/message.h"

static struct {
    struct event_base *base;
    struct ips_peer *peer;
    const char *run;
    char **words;
    int status;
    uint64_t id, generation, window;
    uint64_t nodes, ins, last_end, end_count, rows, check;
    uint32_t ends[4096];
} ask;

static void next_word(void);

static void fail(const char *what)
{
    fprintf(stderr, "slave_asker: %s\n", what);
    ask.status = 1;
    event_base_loopbreak(ask.base);
}

static void send_ask(Ips__Request *q)
{
    q->id = ++ask.id;
    q->run = ips_unconst_text(ask.run);
    ips_send_request(ask.peer, q);
}

static bool ask_graph(const char *word, Ips__Request *q)
{
    static Ips__ReduceAsk reduce;
    static Ips__SubgraphAsk subgraph;
    static Ips__PeersAsk peers;
    static Ips__FinishAsk finish;
    static Ips__ExpandAsk expand;
    static Ips__Peer rows[4096], *ptrs[4096];
    static uint8_t values[65536]; /* 0: absent, all of them */
    static uint32_t from, to;
    static Ips__Lane lane;
    if (strcmp(word, "reduce") == 0 || strcmp(word, "bad") == 0 ||
        strcmp(word, "slower") == 0) {
        ips__reduce_ask__init(&reduce);
        ips__lane__init(&lane);
        lane.message_time_base_ns = 1000;
        reduce.lane = *word == 's' ? &lane : NULL;
        reduce.generation = *word == 'b' ? 12345 : ask.generation;
        q->ask_case = IPS__REQUEST__ASK_REDUCE;
        q->reduce = &reduce;
    } else if (strcmp(word, "subgraph") == 0) {
        ips__subgraph_ask__init(&subgraph);
        subgraph.generation = ask.generation;
        q->ask_case = IPS__REQUEST__ASK_SUBGRAPH;
        q->subgraph = &subgraph;
    } else if (strcmp(word, "peers") == 0 || strcmp(word, "traced") == 0) {
        ips__peers_ask__init(&peers);
        peers.generation = ask.generation;
        for (uint64_t i = 0; i < ask.end_count; i++) {
            ips__peer__init(&rows[i]);
            rows[i].end = ask.ends[i];
            rows[i].traced = *word == 't';
            ptrs[i] = &rows[i];
        }
        peers.peers = ptrs;
        peers.n_peers = ask.end_count;
        q->ask_case = IPS__REQUEST__ASK_PEERS;
        q->peers = &peers;
    } else if (strcmp(word, "finish") == 0) {
        ips__finish_ask__init(&finish);
        finish.generation = ask.generation;
        finish.values.data = values;
        finish.values.len = finish.value_count = (uint32_t)ask.ins;
        q->ask_case = IPS__REQUEST__ASK_FINISH;
        q->finish = &finish;
    } else if (strcmp(word, "expand") == 0) {
        ips__expand_ask__init(&expand);
        expand.generation = ask.generation;
        from = UINT32_MAX;
        to = (uint32_t)ask.last_end;
        expand.from = &from;
        expand.to = &to;
        expand.n_from = expand.n_to = 1;
        q->ask_case = IPS__REQUEST__ASK_EXPAND;
        q->expand = &expand;
    } else {
        return false;
    }
    return true;
}

static void next_word(void)
{
    static Ips__SyncAsk sync = IPS__SYNC_ASK__INIT;
    static Ips__TableAsk table = IPS__TABLE_ASK__INIT;
    static Ips__EndsAsk ends = IPS__ENDS_ASK__INIT;
    static Ips__EventsAsk events = IPS__EVENTS_ASK__INIT;
    Ips__Request q = IPS__REQUEST__INIT;
    const char *word = *ask.words;
    ask.rows = ask.window = 0;
    ask.check = IPS_FNV_SEED;
    if (!word) {
        event_base_loopbreak(ask.base);
        return;
    }
    if (strcmp(word, "report") == 0)
        return;
    if (strcmp(word, "sync") == 0) {
        q.ask_case = IPS__REQUEST__ASK_SYNC;
        q.sync = &sync;
    } else if (strcmp(word, "table") == 0) {
        q.ask_case = IPS__REQUEST__ASK_TABLE;
        q.table = &table;
    } else if (strcmp(word, "ends") == 0) {
        ask.end_count = 0;
        q.ask_case = IPS__REQUEST__ASK_ENDS;
        q.ends = &ends;
    } else if (strncmp(word, "events", 6) == 0) {
        q.ask_case = IPS__REQUEST__ASK_EVENTS;
        q.events = &events;
        events.object = ips_unconst_text("");
        ask.window = word[6] == ':' ? strtoul(word + 7, NULL, 10) : 0;
        events.window = (uint32_t)ask.window;
    } else if (!ask_graph(word, &q)) {
        fail("unknown word");
        return;
    }
    send_ask(&q);
}

static void print_state(const Ips__RunState *st)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < st->n_lost; i++)
        lost += st->lost[i];
    printf("run=%s open=%d processes=%" PRIu64 " threads=%" PRIu64
           " events=%" PRIu64 " lost=%" PRIu64 " torn=%" PRIu64
           " archive_bytes=%" PRIu64 "\n",
           st->run, st->open, st->processes, st->threads, st->events, lost,
           st->torn, st->archive_bytes);
}

static void print_events(const Ips__EventsAnswer *a)
{
    for (size_t i = 0; i < a->n_events; i++) {
        const Ips__EventRow *r = a->events[i];
        printf("event process=%s pid=%u tid=%u type=%s t=%" PRIu64
               " channel=%s bytes=%" PRId64 " detail=%s\n",
               r->process, r->pid, r->tid, r->type, r->t_ns, r->channel,
               r->bytes, r->detail);
    }
}

static void print_answer(const Ips__Reply *r)
{
    if (r->answer_case == IPS__REPLY__ANSWER_SYNC) {
        ask.generation = r->sync->generation;
        print_state(r->sync->state);
        printf("sync nodes=%" PRIu64 " generation=%" PRIu64
               " unmatched=%" PRIu64 " pending=%" PRIu64 "\n",
               r->sync->nodes, r->sync->generation, r->sync->unmatched,
               r->sync->pending);
    } else if (r->answer_case == IPS__REPLY__ANSWER_TABLE) {
        printf("table processes=%zu threads=%zu channels=%zu\n",
               r->table->n_processes, r->table->n_threads,
               r->table->n_channels);
        for (size_t i = 0; i < r->table->n_processes; i++)
            printf("process name=%s end=%s\n", r->table->processes[i]->name,
                   r->table->processes[i]->end);
    } else if (r->answer_case == IPS__REPLY__ANSWER_ENDS) {
        for (size_t i = 0; i < r->ends->n_ends && ask.end_count < 4096; i++)
            ask.ends[ask.end_count++] = r->ends->ends[i]->index;
        printf("ends count=%" PRIu64 "\n", ask.end_count);
    } else if (r->answer_case == IPS__REPLY__ANSWER_PEERS) {
        printf("peers external=%" PRIu64 "\n", r->peers->external);
    } else if (r->answer_case == IPS__REPLY__ANSWER_SUBGRAPH) {
        for (size_t i = 0; i < r->subgraph->kind.len; i++)
            if (r->subgraph->kind.data[i] == 5 /* END */)
                ask.last_end = ask.rows + i;
        ask.rows += r->subgraph->kind.len;
        ask.ins = r->subgraph->n_in_node;
        if (r->last)
            printf("subgraph nodes=%" PRIu64 " total=%" PRIu64 "\n", ask.rows,
                   r->subgraph->total_cpu_ns);
    } else if (r->answer_case == IPS__REPLY__ANSWER_JOINS) {
        ask.rows += r->joins->data.len;
        ask.check =
            ips_fnv1a(ask.check, r->joins->data.data, r->joins->data.len);
        if (r->last)
            printf("joins bytes=%" PRIu64 " check=%" PRIx64 "\n", ask.rows,
                   ask.check);
    } else if (r->answer_case == IPS__REPLY__ANSWER_FINISH) {
        printf("finish t_max=%" PRIu64 "\n", r->finish->t_max_ns);
    } else if (r->answer_case == IPS__REPLY__ANSWER_EXPAND) {
        uint64_t sum = 0;
        for (size_t i = 0; i < r->expand->n_ns; i++)
            sum += r->expand->ns[i];
        printf("expand segments=%zu ns=%" PRIu64 "\n", r->expand->n_ns, sum);
    } else if (r->answer_case == IPS__REPLY__ANSWER_EVENTS) {
        print_events(r->events);
    }
}

static void on_reply(const Ips__Reply *r)
{
    if (r->id != ask.id)
        return;
    if (r->error)
        printf("error code=%d message=%s\n", r->error, r->message);
    else
        print_answer(r);
    if (r->last) {
        ask.words++;
        next_word();
    } else if (ask.window) {
        Ips__MoreAsk more = IPS__MORE_ASK__INIT;
        Ips__Request q = IPS__REQUEST__INIT;
        more.replies = 1;
        q.id = ask.id;
        q.run = ips_unconst_text(ask.run);
        q.ask_case = IPS__REQUEST__ASK_MORE;
        q.more = &more;
        ips_send_request(ask.peer, &q);
    }
}

static void on_message(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg)
{
    (void)arg;
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO) {
        Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__MASTER);
        printf("hello role=%d machine=%s cores=%u\n", (int)env->hello->role,
               env->hello->machine, env->hello->cores);
        ips_send_hello(peer, &hello);
        next_word();
    } else if (env->body_case == IPS__ENVELOPE__BODY_REPORT) {
        if (!*ask.words || strcmp(*ask.words, "report") != 0)
            return;
        for (size_t i = 0; i < env->report->n_runs; i++)
            if (strcmp(env->report->runs[i]->run, ask.run) == 0) {
                print_state(env->report->runs[i]);
                ask.words++;
                next_word();
                return;
            }
    } else if (env->body_case == IPS__ENVELOPE__BODY_REPLY) {
        on_reply(env->reply);
    }
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    (void)peer;
    (void)arg;
    ask.peer = NULL;
    fail(why);
}

static const struct ips_peer_ops ops = {on_message, on_close};

static void on_accept(struct ips_peer *peer, void *arg)
{
    (void)arg;
    if (ask.peer) {
        ips_peer_close_and_free_later(peer);
        return;
    }
    ask.peer = peer;
    ips_peer_set_ops(peer, &ops, NULL);
}

int main(int argc, char **argv)
{
    struct ips_err err = {0};
    struct ips_listener *listener = NULL;
    if (argc < 4) {
        fprintf(stderr, "usage: slave_asker ADDRESS RUN WORD...\n");
        return 2;
    }
    ask.base = event_base_new();
    ask.run = argv[2];
    ask.words = argv + 3;
    if (ips_listener_new(ask.base, argv[1], on_accept, NULL, &listener, &err) <
        0) {
        fprintf(stderr, "slave_asker: %s\n", err.msg);
        return 1;
    }
    event_base_loop(ask.base, EVLOOP_NO_EXIT_ON_EMPTY);
    ips_peer_close_and_free_later(ask.peer);
    ips_listener_free(listener);
    ips_free_reaped_peers();
    event_base_free(ask.base);
    return ask.status;
}
