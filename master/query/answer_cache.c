#include "master/query/answer_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/types.h"
#include "master/query/certificate.h"

struct cached_reply {
    struct cached_reply *next;
    size_t len;
    uint8_t packed[];
};

/* The state of a run that a cached answer depends on. */
struct run_stamp {
    uint64_t events, created_real_ns;
    struct timespec message_times;
    long long message_times_bytes, message_times_inode;
};

struct cached_answer {
    struct cached_answer *next; /* list order: most recently used first */
    /* the packed question, without the fields that differ between clients */
    uint8_t *key;
    size_t key_len, bytes;
    struct run_stamp stamp;
    /* [machine_count] machines of the run */
    char (*machine)[ROSTER_NAME_BYTES];
    uint32_t machine_count;
    struct cached_reply *first, **end;
};

static void answer_free(struct cached_answer *a)
{
    if (!a)
        return;
    while (a->first) {
        struct cached_reply *p = a->first;
        a->first = p->next;
        free(p);
    }
    free(a->key);
    free(a->machine);
    free(a);
}

/* Packs the question without the fields that differ between clients. NULL: no
 * memory. */
static uint8_t *make_cache_key(const struct query *q, size_t *len)
{
    Ips__Request r = *q->request;
    r.id = 0;
    r.fresh = r.progress = false;
    r.run = (char *)(uintptr_t)q->run;
    *len = ips__request__get_packed_size(&r);
    uint8_t *key = malloc(*len + 1);
    if (key)
        ips__request__pack(&r, key);
    return key;
}

/* Sets *s to the present state of the run of `q`. Returns false if no cached
 * answer may be used for the run now. */
static bool fill_run_stamp_if_cacheable(struct query *q, struct run_stamp *s)
{
    struct ips_err err = {0};
    struct catalogue_run_sum known = {0};
    struct message_times *t = &q->m->message_times;
    if (message_times_reload_if_changed(t, &err) < 0 ||
        catalogue_sum_run(q->m->catalogue, q->run, &known, &err) < 0 ||
        known.open)
        return false;
    *s = (struct run_stamp){.events = known.events,
                            .created_real_ns = known.created_real_ns,
                            .message_times = t->seen,
                            .message_times_bytes = t->seen_bytes,
                            .message_times_inode = t->seen_inode};
    return true;
}

static bool is_same_stamp(const struct run_stamp *a, const struct run_stamp *b)
{
    return a->events == b->events && a->created_real_ns == b->created_real_ns &&
           a->message_times.tv_sec == b->message_times.tv_sec &&
           a->message_times.tv_nsec == b->message_times.tv_nsec &&
           a->message_times_bytes == b->message_times_bytes &&
           a->message_times_inode == b->message_times_inode;
}

/* ---- sending a cached answer ------------------------------------------ */

static Ips__Certificate *certificate_of_reply(Ips__Reply *r)
{
    switch ((int)r->answer_case) {
    case IPS__REPLY__ANSWER_PATH:
        return r->path->certificate;
    case IPS__REPLY__ANSWER_WHATIF:
        return r->whatif->certificate;
    case IPS__REPLY__ANSWER_WHY:
        return r->why->certificate;
    case IPS__REPLY__ANSWER_WAITS:
        return r->waits->certificate;
    case IPS__REPLY__ANSWER_REQUESTS:
        return r->requests->certificate;
    default:
        return NULL;
    }
}

static bool all_machines_connected(const struct master *m,
                                   const struct cached_answer *a)
{
    uint64_t now = master_now_ns();
    for (uint32_t i = 0; i < a->machine_count; i++) {
        const struct slave *s = roster_find(&m->roster, a->machine[i]);
        if (!s || !s->peer || !roster_is_slave_alive(s, now))
            return false;
    }
    return true;
}

/* Says in the certificate of the reply that the answer comes from the cache.
 * The reply is a copy for this client. */
static void mark_from_cache(const struct query *q, Ips__Reply *r)
{
    static const char kept[] = "an answer that was kept, made from ";
    Ips__Certificate *c = certificate_of_reply(r);
    char *plan = c ? malloc(sizeof(kept) + strlen(c->plan)) : NULL;
    if (!plan)
        return;
    strcpy(plan, kept);
    strcat(plan, c->plan);
    if (c->plan != (const char *)protobuf_c_empty_string)
        free(c->plan);
    c->plan = plan;
    c->took_ns = ips_sub_sat(master_now_ns(), q->begun_ns);
}

static bool send_cached_replies(struct query *q, const struct cached_answer *a)
{
    for (const struct cached_reply *p = a->first; p; p = p->next) {
        Ips__Reply *r = ips__reply__unpack(NULL, p->len, p->packed);
        if (!r && p == a->first)
            return false;
        if (!r) {
            struct ips_err err = {0};
            ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
            query_fail(q, &err);
            return true;
        }
        if (!p->next) {
            mark_from_cache(q, r);
            query_answer(q, r);
        } else {
            query_send_partial_reply(q, r);
        }
        ips__reply__free_unpacked(r, NULL);
    }
    return true;
}

bool answer_cache_answer_query(struct query *q)
{
    size_t len;
    struct run_stamp now;
    if (!q->kind->keeps || q->request->fresh || !q->m->answer_cache)
        return false;
    uint8_t *key = make_cache_key(q, &len);
    struct cached_answer **at = &q->m->answer_cache;
    while (key && *at &&
           ((*at)->key_len != len || memcmp((*at)->key, key, len) != 0))
        at = &(*at)->next;
    free(key);
    struct cached_answer *a = key ? *at : NULL;
    if (!a || !fill_run_stamp_if_cacheable(q, &now))
        return false;
    *at = a->next;
    if (!is_same_stamp(&now, &a->stamp)) {
        answer_free(a);
        return false;
    }
    a->next = q->m->answer_cache;
    q->m->answer_cache = a;
    return all_machines_connected(q->m, a) && send_cached_replies(q, a);
}

/* ---- storing an answer ------------------------------------------------ */

static struct cached_answer *allocate_cache_entry_with_key(struct query *q)
{
    struct cached_answer *a = calloc(1, sizeof(*a));
    if (!a || !(a->key = make_cache_key(q, &a->key_len))) {
        free(a);
        return NULL;
    }
    a->end = &a->first;
    a->bytes = a->key_len;
    return a;
}

static bool append_reply(struct cached_answer *a, const Ips__Reply *reply)
{
    size_t len = ips__reply__get_packed_size(reply);
    if (a->bytes + len > ANSWER_BYTES_MOST)
        return false;
    struct cached_reply *p = malloc(sizeof(*p) + len);
    if (!p)
        return false;
    p->next = NULL;
    p->len = ips__reply__pack(reply, p->packed);
    *a->end = p;
    a->end = &p->next;
    a->bytes += len;
    return true;
}

static bool stamp_answer_and_check_cacheable(struct query *q,
                                             struct cached_answer *a)
{
    uint32_t n = q->gather.count;
    uint64_t events = 0;
    if (n == 0 || query_is_missing_a_machine(q) || certificate_run_is_open(q) ||
        !fill_run_stamp_if_cacheable(q, &a->stamp))
        return false;
    a->machine = calloc(n, sizeof(*a->machine));
    if (!a->machine)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct machine_share *p = q->gather.active[i];
        memcpy(a->machine[a->machine_count++], p->machine, sizeof(*a->machine));
        events = ips_add_sat(events, p->sync->state->events);
    }
    /* Slaves report new events to the catalogue with a delay, so it may know of
     * fewer than this answer counts. The answer is cached only if the numbers
     * are equal. */
    return events == a->stamp.events;
}

static void drop_answers_with_key(struct master *m,
                                  const struct cached_answer *a)
{
    for (struct cached_answer **at = &m->answer_cache; *at;) {
        struct cached_answer *o = *at;
        if (o->key_len == a->key_len && !memcmp(o->key, a->key, a->key_len)) {
            *at = o->next;
            answer_free(o);
        } else {
            at = &o->next;
        }
    }
}

static void evict_old_answers(struct master *m)
{
    size_t bytes = 0;
    struct cached_answer **at = &m->answer_cache;
    while (*at && bytes + (*at)->bytes <= ANSWERS_BYTES_MOST) {
        bytes += (*at)->bytes;
        at = &(*at)->next;
    }
    while (*at) {
        struct cached_answer *a = *at;
        *at = a->next;
        answer_free(a);
    }
}

void answer_cache_record_reply(struct query *q, const Ips__Reply *reply)
{
    if (!q->kind->keeps || q->no_cache)
        return;
    if (!q->answer)
        q->answer = allocate_cache_entry_with_key(q);
    if (!q->answer || !append_reply(q->answer, reply)) {
        q->no_cache = true;
        answer_cache_discard_recording(q);
    } else if (reply->last && stamp_answer_and_check_cacheable(q, q->answer)) {
        drop_answers_with_key(q->m, q->answer);
        q->answer->next = q->m->answer_cache;
        q->m->answer_cache = q->answer;
        q->answer = NULL;
        evict_old_answers(q->m);
    }
}

void answer_cache_discard_recording(struct query *q)
{
    answer_free(q->answer);
    q->answer = NULL;
}

/* ---- precomputation --------------------------------------------------- */

void answer_cache_start_path_precomputation(struct master *m, const char *run)
{
    static const char *const by[] = {"procedure", "process", "machine",
                                     "message", "external"};
    Ips__Request r = IPS__REQUEST__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    char *words[sizeof(by) / sizeof(*by)];
    for (size_t i = 0; i < sizeof(by) / sizeof(*by); i++)
        words[i] = ips_unconst_text(by[i]);
    scenario.calibrated = true;
    scenario.scale_num = scenario.scale_den = 1;
    ask.weighting = ips_unconst_text("cpu");
    ask.engine = ips_unconst_text("auto");
    ask.lane = &scenario;
    ask.segments = true;
    ask.top = ANSWERS_TOP;
    ask.by = words;
    ask.n_by = sizeof(by) / sizeof(*by);
    r.run = ips_unconst_text(run);
    r.ask_case = IPS__REQUEST__ASK_PATH;
    r.path = &ask;
    if (!query_start_internal(m, &query_path, &r))
        ips_log_info("run %s: could not precompute its path", run);
}

void answer_cache_stop_other_precomputation(struct master *m,
                                            const struct query *q)
{
    size_t len, other_len;
    /* a question that is not exclusive does not wait for the precomputation */
    if (!q->kind->exclusive)
        return;
    uint8_t *key = make_cache_key(q, &len);
    for (struct query *o = m->queries; o && key; o = o->next) {
        if (o->client || !o->kind->keeps || o->over ||
            strcmp(o->run, q->run) != 0)
            continue;
        uint8_t *other = make_cache_key(o, &other_len);
        if (!other || other_len != len || memcmp(other, key, len) != 0)
            query_end_without_reply(o);
        free(other);
    }
    free(key);
}

uint64_t answer_cache_count(const struct master *m)
{
    uint64_t n = 0;
    for (const struct cached_answer *a = m->answer_cache; a; a = a->next)
        n++;
    return n;
}

void answer_cache_release(struct master *m)
{
    while (m->answer_cache) {
        struct cached_answer *a = m->answer_cache;
        m->answer_cache = a->next;
        answer_free(a);
    }
}
