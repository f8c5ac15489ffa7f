#include "slave/drain/load.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "slave/drain/drain.h"

#define OFTEN_NS (100 * SLAVE_MS_NS)
#define SELDOM_NS SLAVE_SECOND_NS
/* number of measurements at the start of a run that are taken at the short
 * interval OFTEN_NS */
#define OFTEN 20u
#define LOAD_MAX 1000000u /* plausible maximum of runnable threads */

/* Parses a decimal number such as "0.52", followed by a blank, into
 * thousandths. Returns the text after the blank; NULL: malformed. */
static const char *parse_milli(const char *p, uint64_t *out)
{
    char *end;
    if (*p < '0' || *p > '9')
        return NULL;
    unsigned long long whole = strtoull(p, &end, 10);
    *out = whole * 1000;
    if (*end == '.')
        for (uint64_t unit = 100; end++, *end >= '0' && *end <= '9'; unit /= 10)
            *out += (uint64_t)(*end - '0') * unit;
    return whole <= LOAD_MAX && *end == ' ' ? end + 1 : NULL;
}

bool slave_load_parse(const char *text, struct slave_load *out)
{
    uint64_t other;
    char *end;
    const char *p = parse_milli(text, &out->average_milli);
    for (int i = 0; i < 2 && p; i++)
        p = parse_milli(p, &other);
    if (!p || *p < '0' || *p > '9')
        return false;
    unsigned long long runnable = strtoull(p, &end, 10);
    if (*end != '/' || runnable > LOAD_MAX)
        return false;
    out->runnable = runnable ? runnable - 1 : 0;
    return true;
}

static bool read_load(struct slave_load *out)
{
    char text[128];
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return slave_load_parse(text, out);
}

/* Returns true if some process of the run lives, as far as the slave knows;
 * false for a closed run. */
static bool has_living_process(const struct slave_run *r)
{
    const struct slave_image *i = r->images;
    if (!r->in_pool || !r->row.id || r->row.closed)
        return false;
    while (i && i->state == SLAVE_IMAGE_DEAD)
        i = i->next;
    return i != NULL;
}

static void store_load_sample(struct slave_drain *d, struct slave_run *r,
                              const struct slave_load *load, uint64_t now_ns)
{
    struct ips_err err = {0};
    uint64_t since = r->load_ns ? now_ns - r->load_ns : OFTEN_NS;
    struct slave_load_row row = {.samples = 1,
                                 .us = since / 1000,
                                 .runnable_us = load->runnable * (since / 1000),
                                 .average_us = load->average_milli *
                                               (since / 1000) / 1000};
    if (slave_store_add_load(d->store, r->row.id, &row, &err) < 0)
        /* not stored: the next sample covers this interval, too */
        ips_log_debug("load: %s", err.msg);
    else
        r->load_ns = now_ns;
    r->load_looks++;
}

uint64_t slave_load_time_of_next_measurement_ns(const struct slave_drain *d)
{
    for (const struct slave_run *r = d->runs; r; r = r->next)
        if (has_living_process(r))
            return d->next_load_ns;
    return UINT64_MAX;
}

void slave_load_sample_for_live_runs(struct slave_drain *d, uint64_t now_ns)
{
    struct slave_load load;
    bool known = false, often = false;
    if (now_ns < d->next_load_ns)
        return;
    for (struct slave_run *r = d->runs; r; r = r->next) {
        if (!has_living_process(r))
            continue;
        if (!known && !read_load(&load)) {
            /* /proc/loadavg cannot be read: give up */
            d->next_load_ns = UINT64_MAX;
            return;
        }
        known = true;
        store_load_sample(d, r, &load, now_ns);
        often |= r->load_looks < OFTEN;
    }
    if (known)
        d->next_load_ns = now_ns + (often ? OFTEN_NS : SELDOM_NS);
}
