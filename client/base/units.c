#include "client/base/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/types.h"

/* A decimal number, split at the point. */
struct decimal {
    uint64_t whole;
    uint64_t fraction; /* the digits after the point, read as a number */
    unsigned digits;   /* number of those digits, at most 18 */
    const char *rest;  /* text after the number */
};

static int parse_decimal(const char *text, struct decimal *d)
{
    memset(d, 0, sizeof(*d));
    const char *p = text;
    unsigned before = 0;
    for (; *p >= '0' && *p <= '9'; p++, before++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (d->whole > (UINT64_MAX - digit) / 10)
            return IPS_E_LIMIT;
        d->whole = d->whole * 10 + digit;
    }
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            if (d->digits == 18)
                return IPS_E_LIMIT;
            d->fraction = d->fraction * 10 + (uint64_t)(*p - '0');
            d->digits++;
        }
        before += d->digits;
    }
    d->rest = p;
    return before ? 0 : IPS_E_USAGE;
}

static uint64_t power_of_10(unsigned n)
{
    uint64_t p = 1;
    while (n-- > 0)
        p *= 10;
    return p;
}

/* Returns the length in ns of the unit that the first `len` bytes of `text`
 * name, or 0 if they name no unit. */
static uint64_t unit_ns(const char *text, size_t len)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strlen(units[i].name) == len && !strncmp(units[i].name, text, len))
            return units[i].ns;
    }
    return 0;
}

int ipsq_parse_duration(const char *text, uint64_t *ns, struct ips_err *err)
{
    struct decimal d;
    int rc = parse_decimal(text, &d);
    uint64_t unit = rc == 0 ? unit_ns(d.rest, strlen(d.rest)) : 0;
    if (rc == IPS_E_LIMIT)
        return ips_err_set(err, IPS_E_USAGE, "'%.80s' has too many digits",
                           text);
    if (unit == 0)
        return ips_err_set(
            err, IPS_E_USAGE,
            "'%.80s' is not a duration: expected a number with ns, us, "
            "ms or s",
            text);
    ips_u128 below = (ips_u128)d.fraction * unit;
    if (below % power_of_10(d.digits))
        return ips_err_set(err, IPS_E_USAGE, "'%.80s' is finer than 1 ns",
                           text);
    ips_u128 all = (ips_u128)d.whole * unit + below / power_of_10(d.digits);
    if (all >= (1ULL << 62))
        return ips_err_set(err, IPS_E_USAGE, "'%.80s' is too long", text);
    *ns = (uint64_t)all;
    return 0;
}

#define MTIME_BASE_MAX_NS 3600000000000ULL
#define MTIME_BYTE_MAX_NS (1ULL << 31)

static int parse_per_byte(const char *text, uint64_t *q32, struct ips_err *err)
{
    struct decimal d;
    int rc = parse_decimal(text, &d);
    uint64_t unit = rc == 0 ? unit_ns(d.rest, strlen(d.rest)) : 0;
    if (rc < 0 || unit == 0)
        return ips_err_set(
            err, IPS_E_USAGE,
            "'%.80s' is not a time per byte: expected ns, decimals "
            "allowed",
            text);
    /* fraction < 10^18 < 2^60 and unit <= 10^9 < 2^30, so the product shifted
     * by 32 stays below 2^122. */
    ips_u128 scale = power_of_10(d.digits);
    ips_u128 part = (((ips_u128)d.fraction * unit << 32) + scale / 2) / scale;
    if ((ips_u128)d.whole * unit + (uint64_t)(part >> 32) > MTIME_BYTE_MAX_NS)
        return ips_err_set(err, IPS_E_USAGE,
                           "'%.80s' per byte is more than %llu ns", text,
                           MTIME_BYTE_MAX_NS);
    *q32 = (uint64_t)(((ips_u128)d.whole * unit << 32) + part);
    return 0;
}

int ipsq_parse_message_time(const char *text, uint64_t *base_ns,
                            uint64_t *per_byte_q32, struct ips_err *err)
{
    char base[64];
    size_t len = strcspn(text, "+,");
    *per_byte_q32 = 0;
    *base_ns = 0;
    if (strcmp(text, "none") == 0)
        return 0;
    if (len >= sizeof(base))
        return ips_err_set(err, IPS_E_USAGE, "'%.80s' is not a message time",
                           text);
    memcpy(base, text, len);
    base[len] = '\0';
    int rc = ipsq_parse_duration(base, base_ns, err);
    if (rc == 0 && *base_ns > MTIME_BASE_MAX_NS)
        rc = ips_err_set(err, IPS_E_USAGE, "message time of more than an hour");
    if (rc == 0 && text[len])
        rc = parse_per_byte(text + len + 1, per_byte_q32, err);
    return rc;
}

int ipsq_parse_bytes(const char *text, uint64_t *bytes, struct ips_err *err)
{
    struct decimal d;
    unsigned shift = 0;
    bool fine = parse_decimal(text, &d) == 0 && !d.digits && d.whole > 0;
    if (fine && (*d.rest == 'k' || *d.rest == 'K'))
        shift = 10;
    else if (fine && (*d.rest == 'm' || *d.rest == 'M'))
        shift = 20;
    if (!fine || d.rest[shift > 0] || d.whole > (1ULL << 40))
        return ips_err_set(
            err, IPS_E_USAGE,
            "'%.80s' is not a number of bytes, such as 64, 4k or 1m", text);
    *bytes = d.whole << shift;
    return 0;
}

int ipsq_parse_share(const char *text, uint32_t *ppm, struct ips_err *err)
{
    struct decimal d;
    bool ok = parse_decimal(text, &d) == 0 && d.whole < 100;
    bool percent = ok && strcmp(d.rest, "%") == 0;
    uint64_t n =
        ok ? d.whole * 1000000 + (uint64_t)((ips_u128)d.fraction * 1000000 /
                                            power_of_10(d.digits))
           : 0;
    if (percent)
        n /= 100;
    if (!ok || (!percent && *d.rest) || n >= 1000000)
        return ips_err_set(
            err, IPS_E_USAGE,
            "'%.80s' is not a share below 100%%, such as 5%% or 0.05", text);
    *ppm = (uint32_t)n;
    return 0;
}

int ipsq_parse_positive_count(const char *text, uint64_t *n,
                              struct ips_err *err)
{
    struct decimal d;
    if (parse_decimal(text, &d) < 0 || d.digits || *d.rest || d.whole == 0)
        return ips_err_set(err, IPS_E_USAGE, "'%.80s' is not a positive number",
                           text);
    *n = d.whole;
    return 0;
}

int ipsq_parse_decimal_as_fraction(const char *text, uint32_t *num,
                                   uint32_t *den, struct ips_err *err)
{
    struct decimal d;
    bool ok = parse_decimal(text, &d) == 0 && !*d.rest && d.whole <= 9999;
    while (ok && d.digits &&
           d.fraction % 10 == 0) { /* remove trailing zeros, as in 1.50 */
        d.fraction /= 10;
        d.digits--;
    }
    uint64_t scale = ok && d.digits <= 4 ? power_of_10(d.digits) : 0;
    uint64_t n = scale ? d.whole * scale + d.fraction : 0;
    if (!scale || n > 9999)
        return ips_err_set(
            err, IPS_E_USAGE,
            "'%.80s' is not a number of at most four digits, such as "
            "1.375",
            text);
    *num = (uint32_t)n;
    *den = (uint32_t)scale;
    return 0;
}

int ipsq_parse_speedup_as_saved_share(const char *text, uint32_t *ppm,
                                      struct ips_err *err)
{
    struct decimal d;
    bool ok = parse_decimal(text, &d) == 0 && d.whole <= IPSQ_GONE;
    /* n is the number in millionths, at most about 10^12, so that the products
     * below cannot overflow. */
    uint64_t n =
        ok ? d.whole * IPSQ_GONE + (uint64_t)((ips_u128)d.fraction * IPSQ_GONE /
                                              power_of_10(d.digits))
           : 0;
    bool percent = ok && strcmp(d.rest, "%") == 0;
    bool times = ok && strcmp(d.rest, "x") == 0;
    if (percent)
        n = n / 100;
    else if (times) /* a factor n saves the share 1 - 1/n of the time */
        n = n > IPSQ_GONE
                ? IPSQ_GONE - (IPSQ_GONE * (uint64_t)IPSQ_GONE + n - 1) / n
                : 0;
    if ((!percent && !times) || n == 0 || n > IPSQ_GONE)
        return ips_err_set(
            err, IPS_E_USAGE,
            "'%.80s' is neither a percentage up to 100%% (30%%) nor a "
            "factor (2x); --gone removes all of the time",
            text);
    *ppm = (uint32_t)n;
    return 0;
}

/* Writes n / unit, rounded to four digits, and the name of the unit. unit <=
 * n. */
static void format_scaled(uint64_t n, uint64_t unit, const char *name,
                          char out[IPSQ_UNIT_BYTES])
{
    double r = (double)n / (double)unit;
    int decimals = r < 9.9995 ? 3 : r < 99.995 ? 2 : r < 999.95 ? 1 : 0;
    snprintf(out, IPSQ_UNIT_BYTES, "%.*f %s", decimals, r, name);
}

void ipsq_format_ns(uint64_t ns, char out[IPSQ_UNIT_BYTES])
{
    /* The limits are where rounding would print 1000: from there on, use the
     * next unit. */
    if (ns == UINT64_MAX)
        snprintf(out, IPSQ_UNIT_BYTES, "-");
    else if (ns == 0)
        snprintf(out, IPSQ_UNIT_BYTES, "0");
    else if (ns < 1000)
        snprintf(out, IPSQ_UNIT_BYTES, "%" PRIu64 " ns", ns);
    else if (ns < 999950)
        format_scaled(ns, 1000, "us", out);
    else if (ns < 999950000)
        format_scaled(ns, 1000000, "ms", out);
    else
        format_scaled(ns, 1000000000, "s", out);
}

void ipsq_format_with_commas(uint64_t n, char out[IPSQ_UNIT_BYTES])
{
    char digits[IPSQ_UNIT_BYTES];
    int count = snprintf(digits, sizeof(digits), "%" PRIu64, n), to = 0;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            out[to++] = ',';
        out[to++] = digits[i];
    }
    out[to] = '\0';
}

void ipsq_format_bytes(uint64_t bytes, char out[IPSQ_UNIT_BYTES])
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    uint64_t unit = 1024;
    int k = 0;
    if (bytes == UINT64_MAX) {
        snprintf(out, IPSQ_UNIT_BYTES, "-");
        return;
    }
    if (bytes < 1024) {
        snprintf(out, IPSQ_UNIT_BYTES, "%" PRIu64 " B", bytes);
        return;
    }
    while (k < 4 && bytes / unit >= 1024) {
        unit *= 1024;
        k++;
    }
    format_scaled(bytes, unit, names[k], out);
}

void ipsq_format_real(double r, char out[IPSQ_UNIT_BYTES])
{
    if (!isfinite(r))
        snprintf(out, IPSQ_UNIT_BYTES, "-");
    else
        snprintf(out, IPSQ_UNIT_BYTES, "%.*f", fabs(r) < 100 ? 2 : 0, r);
}

void ipsq_format_share(double fraction, char out[IPSQ_UNIT_BYTES])
{
    if (!isfinite(fraction))
        snprintf(out, IPSQ_UNIT_BYTES, "-");
    else
        snprintf(out, IPSQ_UNIT_BYTES, "%.1f%%", 100 * fraction);
}
