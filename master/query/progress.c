/* Describes the progress of a question in words; see progress.h. */
#include "master/query/progress.h"

#include <stdio.h>

#define PROGRESS_NS 1000000000ull

/* Returns the machine that is furthest behind: among those that build their
 * graph the one with the smallest fraction built, else any that has not
 * answered. NULL: all have answered. Also counts the active machines and those
 * that have answered. */
static const struct machine_share *
find_slowest_and_count_answered(const struct query *q, uint32_t *active,
                                uint32_t *answered)
{
    const struct machine_share *found = NULL;
    uint32_t least = UINT32_MAX;
    *active = *answered = 0;
    for (uint32_t i = 0; i < q->machine_count; i++) {
        const struct machine_share *p = &q->machines[i];
        if (p->state != MACHINE_ACTIVE || !p->slave)
            continue;
        ++*active;
        if (!p->ask_id) {
            ++*answered;
            continue;
        }
        uint32_t built = p->slave->building_for == p->ask_id
                             ? p->slave->built_permille
                             : 1000;
        if (built < least) {
            least = built;
            found = p;
        }
    }
    return found;
}

static void describe_progress(const struct query *q, char *out, size_t size)
{
    uint32_t active, answered;
    const struct machine_share *p =
        find_slowest_and_count_answered(q, &active, &answered);
    char of[80] = "";
    if (!q->running) {
        snprintf(out, size, "waiting for an earlier question");
        return;
    }
    if (!p) {
        snprintf(out, size, "computing the answer");
        return;
    }
    if (active > 1)
        snprintf(of, sizeof(of), "%u of %u machines have answered; ", answered,
                 active);
    if (p->slave->building_for == p->ask_id)
        snprintf(out, size, "%s%.40s has read %u%% of its events", of,
                 p->machine, p->slave->built_permille / 10);
    else
        snprintf(out, size, "%swaiting for %.40s", of, p->machine);
}

void progress_send_if_due(struct query *q, uint64_t now_ns)
{
    char doing[200];
    Ips__Progress at = IPS__PROGRESS__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    if (!q->client || q->over || q->streaming || !q->request->progress ||
        now_ns - q->begun_ns < PROGRESS_NS ||
        now_ns - q->progress_ns < PROGRESS_NS || query_is_client_backlogged(q))
        return;
    q->progress_ns = now_ns;
    describe_progress(q, doing, sizeof(doing));
    at.doing = doing;
    reply.id = q->id;
    reply.answer_case = IPS__REPLY__ANSWER_PROGRESS;
    reply.progress = &at;
    ips_send_reply(q->client, &reply);
}
