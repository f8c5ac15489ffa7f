#include "master/base/roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

void roster_release(struct roster *r)
{
    while (r->first) {
        struct slave *s = r->first;
        r->first = s->next;
        free(s);
    }
    r->count = 0;
}

bool roster_is_valid_machine_name(const char *text)
{
    size_t len = strlen(text);
    if (len == 0 || len >= ROSTER_NAME_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '/')
            return false;
    }
    return true;
}

struct slave *roster_find(const struct roster *r, const char *machine)
{
    for (struct slave *s = r->first; s; s = s->next) {
        if (strcmp(s->machine, machine) == 0)
            return s;
    }
    return NULL;
}

struct slave *roster_find_by_peer(const struct roster *r,
                                  const struct ips_peer *peer)
{
    for (struct slave *s = r->first; s; s = s->next) {
        if (s->peer == peer)
            return s;
    }
    return NULL;
}

bool roster_is_slave_alive(const struct slave *s, uint64_t now_ns)
{
    return s->peer && ips_sub_sat(now_ns, s->seen_ns) <= ROSTER_MISSING_NS;
}

static struct slave *roster_add(struct roster *r, const char *machine,
                                struct ips_err *err)
{
    if (r->count == ROSTER_MAX_SLAVES) {
        ips_err_set(err, IPS_E_LIMIT,
                    "%u machines are known, which is the maximum",
                    ROSTER_MAX_SLAVES);
        return NULL;
    }
    struct slave *s = calloc(1, sizeof(*s));
    if (!s) {
        ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        return NULL;
    }
    snprintf(s->machine, sizeof(s->machine), "%s", machine);
    struct slave **at = &r->first;
    while (*at && strcmp((*at)->machine, machine) < 0)
        at = &(*at)->next;
    s->next = *at;
    *at = s;
    r->count++;
    return s;
}

int roster_admit(struct roster *r, const Ips__Hello *hello,
                 struct ips_peer *peer, uint64_t now_ns, struct ips_peer **old,
                 struct slave **out, struct ips_err *err)
{
    *old = NULL;
    if (!roster_is_valid_machine_name(hello->machine))
        return ips_err_set(
            err, IPS_E_REFUSED,
            "\"%.80s\" is not a valid machine name: 1 to %d printable "
            "characters without space and '/' (--machine NAME)",
            hello->machine, ROSTER_NAME_BYTES - 1);
    struct slave *s = roster_find(r, hello->machine);
    if (s && roster_is_slave_alive(s, now_ns))
        return ips_err_set(
            err, IPS_E_REFUSED,
            "machine name %s is in use by a slave connected from %s: give "
            "this one its own name (--machine NAME), or stop the other",
            s->machine,
            strcmp(s->boot_id, hello->boot_id) == 0 ? "the same host"
                                                    : "another host");
    if (!s && !(s = roster_add(r, hello->machine, err)))
        return err ? err->code : IPS_E_NO_MEMORY;
    *old = s->peer;
    s->peer = peer;
    s->seen_ns = now_ns;
    s->cores = hello->cores;
    snprintf(s->boot_id, sizeof(s->boot_id), "%s", hello->boot_id);
    snprintf(s->version, sizeof(s->version), "%s", hello->version);
    snprintf(s->peers, sizeof(s->peers), "%s", hello->peers);
    s->computations = s->questions = 0;
    *out = s;
    return 0;
}

void roster_store_report(struct slave *s, const Ips__Report *report,
                         uint64_t now_ns)
{
    s->seen_ns = now_ns;
    s->runs = report->known_runs;
    s->computations = report->computations;
    s->questions = report->questions;
    s->building_for = report->building_for;
    s->built_permille = report->built_permille;
    s->pool_used_bytes = report->pool_used_bytes;
    s->pool_size_bytes = report->pool_size_bytes;
    snprintf(s->trouble, sizeof(s->trouble), "%.199s", report->trouble);
}

void roster_mark_disconnected(struct slave *s)
{
    s->peer = NULL;
}
