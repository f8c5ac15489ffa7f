#include "master/base/message_times_doubt.h"

#include <stdio.h>

#include "common/types.h"

/* Highest load of an idle processor, in thousandths. */
#define IDLE_MILLI 500u

static bool is_more_than_quarter(uint32_t wrong, uint32_t of)
{
    return wrong > 0 && 4 * wrong > of;
}

bool message_times_check_busy_and_write_reason(const char *machine,
                                               uint32_t load_milli,
                                               uint32_t processors, char *out,
                                               size_t room)
{
    if (load_milli == UINT32_MAX ||
        load_milli <= (uint64_t)IDLE_MILLI * processors)
        return false;
    snprintf(out, room, "%.63s was not idle: load average %u.%02u, %u %s",
             machine, load_milli / 1000, load_milli % 1000 / 10, processors,
             processors == 1 ? "processor" : "processors");
    return true;
}

bool message_times_check_trips_and_write_doubt(
    const struct message_time_pair *p, const struct message_time_trip *trip,
    char *out, size_t room)
{
    uint32_t late = 0, wide = 0, first = 0;
    uint64_t delay = 0, all = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct message_time_point *at = &p->point[i];
        uint64_t spread = ips_sub_sat(at->high_ns, at->low_ns);
        late += trip[i].delay_ns > trip[i].all_ns / 10;
        delay = ips_add_sat(delay, trip[i].delay_ns);
        all = ips_add_sat(all, trip[i].all_ns);
        if (spread > ips_add_sat(trip[i].trip_ns, MTIMES_SLACK_NS) &&
            wide++ == 0)
            first = i;
    }
    if (is_more_than_quarter(late, p->count)) {
        snprintf(out, room, "its ends waited for a CPU %.0f%% of the time",
                 all ? 100.0 * (double)ips_min_u64(delay, all) / (double)all
                     : 100.0);
        return true;
    }
    if (!is_more_than_quarter(wide, p->count))
        return false;
    snprintf(out, room,
             "%u of %u lengths vary widely: %llu B take %llu to %llu "
             "us",
             wide, p->count, (unsigned long long)p->point[first].bytes,
             (unsigned long long)p->point[first].low_ns / 1000,
             (unsigned long long)p->point[first].high_ns / 1000);
    return true;
}

static bool differ_more_than_allowed(uint64_t a, uint64_t b)
{
    uint64_t low = ips_min_u64(a, b), high = ips_max_u64(a, b);
    return high > ips_add_sat(3 * low, MTIMES_SLACK_NS);
}

bool message_times_write_doubt_if_ways_differ(
    const struct message_time_pair *p, const struct message_time_pair *back,
    char *out, size_t room)
{
    uint32_t both = 0, wrong = 0;
    const struct message_time_point *first = NULL, *other = NULL;
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t k = 0; k < back->count; k++) {
            if (back->point[k].bytes != p->point[i].bytes)
                continue;
            both++;
            if (differ_more_than_allowed(p->point[i].ns, back->point[k].ns) &&
                wrong++ == 0) {
                first = &p->point[i];
                other = &back->point[k];
            }
        }
    }
    if (!is_more_than_quarter(wrong, both))
        return false;
    snprintf(out, room,
             "the directions differ: %llu B take %llu us forth and %llu "
             "us back",
             (unsigned long long)first->bytes,
             (unsigned long long)first->ns / 1000,
             (unsigned long long)other->ns / 1000);
    return true;
}
