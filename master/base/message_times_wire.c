#include "master/base/message_times_wire.h"

#include "common/types.h"

static uint64_t bytes_on_wire(uint64_t bytes)
{
    uint64_t packets = (bytes + MTIME_WIRE_DATA - 1) / MTIME_WIRE_DATA;
    return bytes + ips_max_u64(packets, 1) * MTIME_WIRE_HEAD;
}

/* Half the measured round trip, including CPU time. */
static uint64_t half_round_trip_ns(const struct message_time_point *p)
{
    return p->ns + p->cpu_ns;
}

static bool has_link_and_cpu_time(const struct message_time_point *p)
{
    return p->ns > 0 && p->cpu_ns > 0;
}

static uint64_t link_ns_of_bytes(uint64_t bytes, uint64_t ns, uint64_t per)
{
    return (uint64_t)((ips_u128)bytes * ns / per);
}

/* Returns the burst of a link that needs `ns` for `per` bytes: the link time,
 * in ns, that a message saves after a pause (message_times_wire.h). */
static uint64_t
compute_link_ns_saved_after_pause(const struct message_time_pair *p,
                                  uint64_t ns, uint64_t per)
{
    for (uint32_t k = 0; k < p->count; k++) {
        const struct message_time_point *at = &p->point[k];
        if (at->bytes <= MTIME_WIRE_DATA || !has_link_and_cpu_time(at))
            continue;
        uint64_t whole = link_ns_of_bytes(bytes_on_wire(at->bytes), ns, per);
        uint64_t less = ips_sub_sat(whole, half_round_trip_ns(at));
        if (half_round_trip_ns(at) >= less)
            return less;
    }
    return 0;
}

bool message_time_wire_compute(const struct message_time_pair *p,
                               struct message_time_wire *out)
{
    const struct message_time_point *first = NULL, *last = NULL;
    /* the points may be in any order */
    for (uint32_t k = 0; k < p->count; k++) {
        const struct message_time_point *at = &p->point[k];
        if (at->bytes < MTIME_WIRE_LONG || !has_link_and_cpu_time(at))
            continue;
        if (!first || at->bytes < first->bytes)
            first = at;
        if (!last || at->bytes > last->bytes)
            last = at;
    }
    if (!first || first == last ||
        half_round_trip_ns(last) <= half_round_trip_ns(first))
        return false;
    uint64_t ns = half_round_trip_ns(last) - half_round_trip_ns(first);
    uint64_t per = bytes_on_wire(last->bytes) - bytes_on_wire(first->bytes);
    if (ns > IPS_CURVE_MAX_NS ||
        bytes_on_wire(last->bytes) > IPS_CURVE_MAX_BYTES)
        return false;
    const uint64_t bytes[] = {1, MTIME_WIRE_DATA, MTIME_WIRE_DATA * 1000};
    uint64_t at[3];
    for (uint32_t k = 0; k < 3; k++)
        at[k] = link_ns_of_bytes(bytes_on_wire(bytes[k]), ns, per);
    struct message_time_wire made = {
        .burst_ns = compute_link_ns_saved_after_pause(p, ns, per)};
    struct ips_err err;
    if (ips_curve_build_from_points(bytes, at, 3, &made.curve, &err) < 0)
        return false;
    *out = made;
    return true;
}

uint64_t message_time_wire_bytes_per_us(const struct message_time_pair *p)
{
    const uint64_t bytes = MTIME_WIRE_DATA * 1000;
    struct message_time_wire wire;
    if (!p || !message_time_wire_compute(p, &wire))
        return 0;
    uint64_t ns =
        ips_max_u64(ips_curve_compute_message_ns(&wire.curve, bytes), 1);
    return ips_max_u64(bytes * 1000 / ns, 1);
}
