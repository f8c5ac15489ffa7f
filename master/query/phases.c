/* Lets other questions use phases as windows (phases.h). */
#include "master/query/phases.h"

#include <stdlib.h>

#include "common/types.h"

/* The fields of a request that hold its window (NULL: it has none), and the
 * phase that it names. */
struct window_fields {
    uint64_t *from_ns, *to_ns;
    uint32_t phase;
};

static struct window_fields window_fields_of(Ips__Request *r)
{
    if (r->ask_case == IPS__REQUEST__ASK_PATH)
        return (struct window_fields){&r->path->from_ns, &r->path->to_ns,
                                      r->path->phase};
    if (r->ask_case == IPS__REQUEST__ASK_WHATIF)
        return (struct window_fields){&r->whatif->from_ns, &r->whatif->to_ns,
                                      r->whatif->phase};
    if (r->ask_case == IPS__REQUEST__ASK_EVENTS)
        return (struct window_fields){&r->events->from_ns, &r->events->to_ns,
                                      r->events->phase};
    if (r->ask_case == IPS__REQUEST__ASK_PROCEDURES)
        return (struct window_fields){&r->procedures->from_ns,
                                      &r->procedures->to_ns,
                                      r->procedures->phase};
    if (r->ask_case == IPS__REQUEST__ASK_WAITS)
        return (struct window_fields){&r->waits->from_ns, &r->waits->to_ns,
                                      r->waits->phase};
    if (r->ask_case == IPS__REQUEST__ASK_REQUESTS)
        return (struct window_fields){&r->requests->from_ns,
                                      &r->requests->to_ns, r->requests->phase};
    if (r->ask_case == IPS__REQUEST__ASK_WHY)
        return (struct window_fields){&r->why->from_ns, &r->why->to_ns,
                                      r->why->phase};
    if (r->ask_case == IPS__REQUEST__ASK_GRAPH)
        return (struct window_fields){&r->graph->from_ns, &r->graph->to_ns,
                                      r->graph->phase};
    if (r->ask_case == IPS__REQUEST__ASK_LS)
        return (struct window_fields){&r->ls->from_ns, &r->ls->to_ns,
                                      r->ls->phase};
    if (r->ask_case == IPS__REQUEST__ASK_METRICS)
        return (struct window_fields){&r->metrics->from_ns, &r->metrics->to_ns,
                                      r->metrics->phase};
    return (struct window_fields){0};
}

uint32_t phases_find_phase_in_request(const Ips__Request *request)
{
    return window_fields_of((Ips__Request *)(uintptr_t)request).phase;
}

bool phases_must_be_asked_before_request(const Ips__Request *request)
{
    return phases_find_phase_in_request(request) > 0 ||
           (request->ask_case == IPS__REQUEST__ASK_WHY &&
            !query_is_why_about_requests(request));
}

void phases_write_window_into_request(Ips__Request *request, uint64_t from_ns,
                                      uint64_t to_ns)
{
    struct window_fields s = window_fields_of(request);
    if (!s.from_ns)
        return;
    *s.from_ns = from_ns;
    *s.to_ns = to_ns;
}

Ips__Envelope *phases_make_question_for_request(const Ips__Request *r)
{
    Ips__PhasesAsk ask = IPS__PHASES_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    ask.phase = phases_find_phase_in_request(r);
    request.id = r->id;
    request.run = r->run;
    request.ask_case = IPS__REQUEST__ASK_PHASES;
    request.phases = &ask;
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = &request;
    size_t len = ips__envelope__get_packed_size(&env);
    uint8_t *data = malloc(len);
    Ips__Envelope *copy = NULL;
    if (data) {
        ips__envelope__pack(&env, data);
        copy = ips__envelope__unpack(NULL, len, data);
    }
    free(data);
    return copy;
}
