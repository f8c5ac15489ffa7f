#include "client/base/session.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/nearest.h"

#define CONNECT_MS 5000
#define START_WAIT_MS 8000 /* how long a started master may take to answer */
/* how long a started slave may take to connect */
#define SLAVE_WAIT_MS 3000
#define RETRY_MS 50

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    /* the progress timer may cut the sleep short, which does no harm */
    nanosleep(&t, NULL);
}

/* Stores in *yes whether a slave is connected to the master of the session. */
static int ask_whether_slave_is_connected(struct ipsq_session *s, bool *yes,
                                          struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__StatusAsk ask = IPS__STATUS_ASK__INIT;
    const Ips__Reply *last = NULL;
    rq.ask_case = IPS__REQUEST__ASK_STATUS;
    rq.status = &ask;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    *yes = false;
    if (rc < 0 || last->answer_case != IPS__REPLY__ANSWER_STATUS)
        return rc;
    for (size_t i = 0; i < last->status->n_slaves; i++)
        *yes = *yes || last->status->slaves[i]->connected;
    return 0;
}

/* Starts a slave if the default master has none (a private slave ends with its
 * run), and waits a moment for it to connect. If the slave does not connect,
 * this is no error: the master then answers from its catalogue as far as it
 * can, and the answer says so. */
static int start_missing_slave(struct ipsq_session *s, struct ips_err *err)
{
    bool yes;
    int rc = ask_whether_slave_is_connected(s, &yes, err);
    if (rc < 0 || yes)
        return rc;
    struct ips_err why;
    s->slaveless = true;
    if (ipsq_start_slave(s->state, &why) < 0)
        return 0;
    for (uint64_t end = now_ms() + SLAVE_WAIT_MS; now_ms() < end && !yes;) {
        pause_ms(RETRY_MS);
        rc = ask_whether_slave_is_connected(s, &yes, err);
        if (rc < 0)
            return rc;
    }
    s->slaveless = !yes;
    return 0;
}

static int start_and_connect_master(struct ipsq_session *s, struct ips_err *err)
{
    int rc = ipsq_start_master(s->state, err);
    if (rc < 0)
        return ips_err_wrap(err, rc,
                            "no master answers at %s and none could be "
                            "started",
                            s->address);
    for (uint64_t end = now_ms() + START_WAIT_MS; now_ms() < end;) {
        pause_ms(RETRY_MS);
        rc = ips_client_connect(s->address, CONNECT_MS, &s->client, err);
        if (rc != IPS_E_UNREACHABLE)
            return rc;
    }
    return ips_err_wrap(err, IPS_E_UNREACHABLE,
                        "the master that was started does not answer (see "
                        "%s/master.log)",
                        s->state);
}

int ipsq_session_connect(struct ipsq_session *s, const struct ipsq_options *o,
                         struct ips_err *err)
{
    memset(s, 0, sizeof(*s));
    s->next_id = 1;
    if (o->state && snprintf(s->state, sizeof(s->state), "%s", o->state) >=
                        (int)sizeof(s->state))
        return ips_err_set(err, IPS_E_USAGE, "--state is too long");
    if (o->master && snprintf(s->address, sizeof(s->address), "%s",
                              o->master) >= (int)sizeof(s->address))
        return ips_err_set(err, IPS_E_USAGE, "--master is too long");
    int rc = 0;
    if (!o->state && !o->master)
        rc = ips_path_default_state_directory(s->state, err);
    if (rc == 0 && !o->master)
        rc = ips_path_default_master_address(s->state, s->address, err);
    if (rc == 0)
        rc = ips_client_connect(s->address, CONNECT_MS, &s->client, err);
    return rc;
}

int ipsq_session_open(struct ipsq_session *s, const struct ipsq_options *o,
                      struct ips_err *err)
{
    int rc = ipsq_session_connect(s, o, err);
    if (o->master)
        return rc == IPS_E_UNREACHABLE
                   ? ips_err_wrap(err, rc, "the master cannot be reached")
                   : rc;
    if (rc == IPS_E_UNREACHABLE)
        rc = start_and_connect_master(s, err);
    if (rc == 0)
        rc = start_missing_slave(s, err);
    return rc;
}

void ipsq_session_close(struct ipsq_session *s)
{
    for (size_t i = 0; i < s->reply_count; i++)
        ips__envelope__free_unpacked(s->replies[i], NULL);
    free(s->replies);
    ips_client_free(s->client);
}

static int keep_envelope(struct ipsq_session *s, Ips__Envelope *env,
                         struct ips_err *err)
{
    if (s->reply_count == s->reply_capacity) {
        size_t room = s->reply_capacity ? s->reply_capacity * 2 : 16;
        Ips__Envelope **grown = realloc(s->replies, room * sizeof(*grown));
        if (!grown) {
            ips__envelope__free_unpacked(env, NULL);
            return ips_err_set(err, IPS_E_NO_MEMORY, "the answer is too long");
        }
        s->replies = grown;
        s->reply_capacity = room;
    }
    s->replies[s->reply_count++] = env;
    return 0;
}

/* Receives one message. Sets *reply to NULL if the message only reports
 * progress, or is a reply to an earlier request, which was given up. */
static int receive_reply_or_progress(struct ipsq_session *s, uint64_t id,
                                     Ips__Envelope **env,
                                     const Ips__Reply **reply,
                                     struct ips_err *err)
{
    *reply = NULL;
    int rc = ips_client_recv(s->client, 0, env, err);
    if (rc < 0)
        return ips_err_wrap(err, rc, "the master at %s", s->address);
    if ((*env)->body_case != IPS__ENVELOPE__BODY_REPLY ||
        (*env)->reply->id == 0 || (*env)->reply->id > id)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "the master at %s sent a message that answers no "
                           "question: ask again",
                           s->address);
    if ((*env)->reply->id < id)
        return 0;
    if ((*env)->reply->answer_case == IPS__REPLY__ANSWER_PROGRESS &&
        !(*env)->reply->last)
        ipsq_progress_set_text((*env)->reply->progress->doing);
    else
        *reply = (*env)->reply;
    return 0;
}

int ipsq_session_ask(struct ipsq_session *s, Ips__Request *rq, bool drop,
                     ipsq_reply_fn *on_piece, void *arg,
                     const Ips__Reply **last, struct ips_err *err)
{
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    rq->id = s->next_id++;
    rq->progress = ipsq_progress_wanted();
    if (rq->progress)
        ipsq_progress_set_text(IPSQ_WAITING);
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = rq;
    if (last)
        *last = NULL;
    int rc = ips_client_send(s->client, &env, err);
    if (rc < 0)
        return ips_err_wrap(err, rc, "the master at %s", s->address);
    for (bool done = false; rc == 0 && !done;) {
        Ips__Envelope *got = NULL;
        const Ips__Reply *reply;
        rc = receive_reply_or_progress(s, rq->id, &got, &reply, err);
        if (rc == 0 && reply) {
            rc = ips_reply_get_error(reply, err);
            done = reply->last;
            if (rc == 0 && on_piece)
                rc = on_piece(reply, arg, err);
            if (done && last && !drop)
                *last = reply;
        }
        if (rc < 0 || !reply || drop) {
            if (got)
                ips__envelope__free_unpacked(got, NULL);
        } else {
            rc = keep_envelope(s, got, err);
        }
    }
    return rc;
}

static int compare_runs_newest_first(const void *a, const void *b)
{
    const Ips__RunRow *x = *(Ips__RunRow *const *)a;
    const Ips__RunRow *y = *(Ips__RunRow *const *)b;
    if (x->created_real_ns != y->created_real_ns)
        return x->created_real_ns < y->created_real_ns ? 1 : -1;
    return strcmp(x->run, y->run);
}

/* Fetches runs, sorted newest first. `name`: only the run with exactly this
 * name, if there is one; NULL: all runs, as many as fit a reply. `look`: the
 * slaves first look for new runs. */
static int fetch_runs(struct ipsq_session *s, const char *name, bool look,
                      Ips__RunRow ***rows, size_t *count, uint64_t *left_out,
                      struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__RunsAsk ask = IPS__RUNS_ASK__INIT;
    const Ips__Reply *last;
    *rows = NULL;
    *count = 0;
    rq.ask_case = IPS__REQUEST__ASK_RUNS;
    rq.runs = &ask;
    if (name)
        rq.run = ips_unconst_text(name);
    ask.look = look;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc < 0)
        return rc;
    if (last->answer_case != IPS__REPLY__ANSWER_RUNS)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "the master sent no list of runs");
    Ips__RunRow **copy = calloc(last->runs->n_runs + 1, sizeof(*copy));
    if (!copy)
        return ips_err_set(err, IPS_E_NO_MEMORY, "too many runs");
    for (size_t i = 0; i < last->runs->n_runs; i++)
        copy[i] = last->runs->runs[i];
    qsort(copy, last->runs->n_runs, sizeof(*copy), compare_runs_newest_first);
    *rows = copy;
    *count = last->runs->n_runs;
    *left_out = last->runs->left_out;
    return 0;
}

int ipsq_session_fetch_runs(struct ipsq_session *s, Ips__RunRow ***rows,
                            size_t *count, uint64_t *left_out,
                            struct ips_err *err)
{
    return fetch_runs(s, NULL, false, rows, count, left_out, err);
}

int ipsq_find_run_in_rows(Ips__RunRow *const *rows, size_t count,
                          const char *word, const char **run,
                          struct ips_err *err)
{
    const char *found = NULL, *also = NULL;
    size_t len = word ? strlen(word) : 0;
    if (count == 0 && !word)
        return ips_err_set(
            err, IPS_E_NOT_FOUND,
            "no run is known: record one with ipsrun -- COMMAND");
    for (size_t i = 0; i < count; i++) {
        const char *name = rows[i]->run;
        if (!word || strcmp(name, word) == 0) {
            *run = name;
            return 0;
        }
        if (strncmp(name, word, len) == 0) {
            also = found;
            found = name;
        }
        if (also)
            break;
    }
    if (also) { /* ambiguous, unless a row further on has exactly this name */
        for (size_t i = 0; i < count; i++) {
            if (strcmp(rows[i]->run, word) == 0) {
                *run = rows[i]->run;
                return 0;
            }
        }
        return ips_err_set(err, IPS_E_NOT_FOUND,
                           "'%.80s' is ambiguous: run %s or run %s", word, also,
                           found);
    }
    if (!found || len == 0) {
        struct ips_nearest near;
        ips_nearest_start_search(&near, word);
        for (size_t i = 0; i < count; i++)
            ips_nearest_consider_candidate(&near, rows[i]->run);
        return ips_err_set(err, IPS_E_NOT_FOUND,
                           "no run '%.80s' is known (`ipsq runs` lists %zu)%s",
                           word, count, ips_nearest_format_suggestion(&near));
    }
    *run = found;
    return 0;
}

/* Whether a run with exactly the name `word` exists; stores its name in *run,
 * or NULL. */
static bool find_run_by_exact_name(struct ipsq_session *s, const char *word,
                                   const char **run)
{
    Ips__RunRow **rows;
    size_t count;
    uint64_t left_out;
    struct ips_err err = {0};
    *run = NULL;
    if (fetch_runs(s, word, false, &rows, &count, &left_out, &err) < 0)
        return false;
    for (size_t i = 0; i < count && !*run; i++)
        if (strcmp(rows[i]->run, word) == 0)
            *run = rows[i]->run;
    free(rows);
    return *run != NULL;
}

/* The master may not know a run that started a moment ago. Therefore the slaves
 * look for new runs before the newest run is chosen, or a name is reported as
 * unknown. */
int ipsq_session_find_run(struct ipsq_session *s, const char *word,
                          const char **run, struct ips_err *err)
{
    Ips__RunRow **rows;
    size_t count;
    uint64_t left_out;
    if (word && find_run_by_exact_name(s, word, run))
        return 0;
    int rc = fetch_runs(s, NULL, true, &rows, &count, &left_out, err);
    if (rc == 0) {
        rc = ipsq_find_run_in_rows(rows, count, word, run, err);
        if (rc < 0)
            ips_err_wrap(err, rc, "the master at %s", s->address);
    }
    free(rows);
    return rc;
}

void ipsq_session_print_slave_hint(const struct ipsq_session *s, FILE *f)
{
    char pool[IPS_PATH_BYTES];
    struct ips_err ignored;
    if (s->slaveless && ips_path_default_pool_root(pool, &ignored) == 0)
        fprintf(f,
                "ipsq: the slave of this machine did not connect. The pool "
                "%s may be drained into\nanother state directory, or may "
                "be unusable; see %s/slave.log\n",
                pool, s->state);
}

int ipsq_rows_append_array(struct ipsq_rows *rows, void *more, size_t count,
                           struct ips_err *err)
{
    if (count > rows->capacity - rows->count) {
        size_t room = (rows->count + count) * 2;
        void **grown = realloc(rows->row, room * sizeof(*grown));
        if (!grown)
            return ips_err_set(err, IPS_E_NO_MEMORY, "%zu rows of an answer",
                               room);
        rows->row = grown;
        rows->capacity = room;
    }
    if (count)
        memcpy(rows->row + rows->count, more, count * sizeof(void *));
    rows->count += count;
    return 0;
}

void ipsq_rows_release(struct ipsq_rows *rows)
{
    free(rows->row);
    memset(rows, 0, sizeof(*rows));
}
