#include "analysis/graph/clock_align.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

#define SLOPE_MAX 1e-3L
#define OFFSET_MAX 1e15L /* ns relative to the first point; about ten days */
#define CORNERS_MAX 512
/* Tolerance for rounding, ns: a point may be beyond a line by this much. */
#define SLIP_NS 1.0L
#define Q40 1099511627776.0L

struct corner {
    long double slope, offset;
};
struct polygon {
    struct corner c[CORNERS_MAX];
    size_t n;
};

/* What one message says about the clocks: at time x their offset is at most y
 * (`upper` is true) or at least y (`upper` is false). x and y are relative to
 * the first message. */
struct point {
    long double x, y;
    bool upper;
};

static void init_polygon_with_all_lines(struct polygon *p)
{
    p->n = 4;
    p->c[0] = (struct corner){-SLOPE_MAX, -OFFSET_MAX};
    p->c[1] = (struct corner){SLOPE_MAX, -OFFSET_MAX};
    p->c[2] = (struct corner){SLOPE_MAX, OFFSET_MAX};
    p->c[3] = (struct corner){-SLOPE_MAX, OFFSET_MAX};
}

static long double evaluate_line_at(const struct corner *c, long double x)
{
    return c->offset + c->slope * x;
}

/* Returns how far the corner's line is beyond the bound that the point sets; <=
 * 0 if the line satisfies the bound. */
static long double distance_of_line_beyond_bound(const struct corner *c,
                                                 const struct point *p)
{
    long double d = evaluate_line_at(c, p->x) - p->y;
    return p->upper ? d : -d;
}

/* Sets *to to the lines of *from that satisfy the point's bound. Returns false
 * if no line does. If *to would get too many corners, it becomes a copy of
 * *from: a polygon that is a little too large is still correct. */
static bool clip_polygon(const struct polygon *from, const struct point *p,
                         struct polygon *to)
{
    to->n = 0;
    for (size_t i = 0; i < from->n; i++) {
        const struct corner *a = &from->c[i];
        const struct corner *b = &from->c[(i + 1) % from->n];
        long double da = distance_of_line_beyond_bound(a, p),
                    db = distance_of_line_beyond_bound(b, p);
        if (to->n + 2 > CORNERS_MAX) {
            *to = *from;
            return true;
        }
        if (da <= 0)
            to->c[to->n++] = *a;
        if ((da < 0 && db > 0) || (da > 0 && db < 0)) {
            long double t = da / (da - db);
            to->c[to->n++] =
                (struct corner){a->slope + t * (b->slope - a->slope),
                                a->offset + t * (b->offset - a->offset)};
        }
    }
    return to->n > 0;
}

static bool has_corner_beyond_point(const struct polygon *poly,
                                    const struct point *p)
{
    for (size_t i = 0; i < poly->n; i++)
        if (distance_of_line_beyond_bound(&poly->c[i], p) > 0)
            return true;
    return false;
}

/* Finds how many of the points, from p[0] on, one line can satisfy together.
 * Returns that number and sets *poly to the lines that satisfy these points. */
static size_t clip_polygon_and_count_fitting_points(const struct point *p,
                                                    size_t count,
                                                    struct polygon *poly)
{
    static _Thread_local struct polygon next;
    init_polygon_with_all_lines(poly);
    for (size_t i = 0; i < count; i++) {
        if (!has_corner_beyond_point(poly, &p[i]))
            continue;
        struct point slack = p[i];
        if (!clip_polygon(poly, &p[i], &next)) {
            slack.y += slack.upper ? SLIP_NS : -SLIP_NS;
            if (!clip_polygon(poly, &slack, &next))
                return i;
        }
        *poly = next;
    }
    return count;
}

static int compare_points_by_time(const void *va, const void *vb)
{
    const struct ips_clock_point *p = va, *q = vb;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    return p->b < q->b ? -1 : p->b > q->b;
}

/* Returns the mean of the polygon's corners. If there are messages in one
 * direction only, the polygon has no bound on one side. Then *bounded is set to
 * false, and the function returns the mean of the corners on the bounded side:
 * a line that touches the points. */
static struct corner mean_of_bounded_corners(const struct polygon *poly,
                                             bool *bounded)
{
    struct corner sum = {0, 0};
    size_t n = 0;
    *bounded = true;
    for (size_t i = 0; i < poly->n; i++) {
        long double o = poly->c[i].offset;
        if (o <= -OFFSET_MAX / 2 || o >= OFFSET_MAX / 2) {
            *bounded = false;
            continue;
        }
        sum.slope += poly->c[i].slope;
        sum.offset += o;
        n++;
    }
    if (n == 0)
        return sum;
    return (struct corner){sum.slope / (long double)n,
                           sum.offset / (long double)n};
}

/* Returns the distance at x between `line` and the line of the polygon that is
 * furthest from it. */
static long double
max_distance_of_polygon_from_line_at(const struct polygon *poly,
                                     const struct corner *line, long double x)
{
    long double most = 0;
    for (size_t i = 0; i < poly->n; i++) {
        long double d =
            evaluate_line_at(&poly->c[i], x) - evaluate_line_at(line, x);
        d = d < 0 ? -d : d;
        most = d > most ? d : most;
    }
    return most;
}

static int64_t round_to_nearest_integer(long double v)
{
    return (int64_t)(v < 0 ? v - 0.5L : v + 0.5L);
}

/* Cuts the points, in order of time, into pieces that one line each can
 * satisfy. Sets *best to the polygon of the piece that spans the longest time,
 * and *pieces to the number of pieces. */
static void find_longest_linear_piece_and_count_all(const struct point *p,
                                                    size_t count,
                                                    struct polygon *best,
                                                    uint32_t *pieces)
{
    static _Thread_local struct polygon poly;
    long double longest = -1;
    *pieces = 0;
    for (size_t at = 0; at < count;) {
        size_t n =
            clip_polygon_and_count_fitting_points(p + at, count - at, &poly);
        n = n ? n : 1;
        long double span = p[at + n - 1].x - p[at].x;
        ++*pieces;
        if (span > longest) {
            longest = span;
            *best = poly;
        }
        at += n;
    }
}

/* Returns how far the true offset can be from `line` in any piece: the greatest
 * distance to a line that the piece allows. A piece with messages in one
 * direction only allows nearly all lines. For such a piece the function uses
 * the distance to its points plus `own`, the bound of the piece from which
 * `line` was made. */
static long double max_distance_to_lines_of_pieces(const struct point *p,
                                                   size_t count,
                                                   const struct corner *line,
                                                   long double own)
{
    static _Thread_local struct polygon poly;
    long double most = 0;
    for (size_t at = 0, n; at < count; at += n) {
        bool bounded;
        n = clip_polygon_and_count_fitting_points(p + at, count - at, &poly);
        n = n ? n : 1;
        (void)mean_of_bounded_corners(&poly, &bounded);
        long double a =
            max_distance_of_polygon_from_line_at(&poly, line, p[at].x);
        long double z =
            max_distance_of_polygon_from_line_at(&poly, line, p[at + n - 1].x);
        long double d = a > z ? a : z;
        for (size_t i = at; !bounded && i < at + n; i++) {
            long double far = distance_of_line_beyond_bound(line, &p[i]) + own;
            d = i == at || far > d ? far : d;
        }
        most = d > most ? d : most;
    }
    return most;
}

static void make_fit(const struct ips_clock_point *points,
                     const struct point *p, size_t count,
                     struct ips_clock_span span, struct ips_clock_fit *out)
{
    static _Thread_local struct polygon best;
    find_longest_linear_piece_and_count_all(p, count, &best, &out->pieces);
    struct corner line = mean_of_bounded_corners(&best, &out->bounded);
    int64_t y0 = (int64_t)(points[0].b - points[0].a);
    out->from = points[0].a;
    out->drift_q40 = round_to_nearest_integer(line.slope * Q40);
    out->offset_ns = y0 + round_to_nearest_integer(line.offset);
    /* Compute the bound for the rounded line, because that line is returned. */
    line = (struct corner){(long double)out->drift_q40 / Q40,
                           (long double)(out->offset_ns - y0)};
    /* The distance between two lines is greatest at one end of the span. */
    long double before =
        span.from < points[0].a ? (long double)(points[0].a - span.from) : 0;
    long double after = span.to > points[count - 1].a
                            ? (long double)(span.to - points[0].a)
                            : p[count - 1].x;
    long double first =
        max_distance_of_polygon_from_line_at(&best, &line, -before);
    long double last =
        max_distance_of_polygon_from_line_at(&best, &line, after);
    long double bound = first > last ? first : last;
    if (out->pieces > 1) {
        long double others =
            max_distance_to_lines_of_pieces(p, count, &line, bound);
        bound = others > bound ? others : bound;
    }
    out->bound_ns = out->bounded ? (uint64_t)bound + 2 : UINT64_MAX;
}

int ips_clock_compute_fit(struct ips_clock_point *points, size_t count,
                          struct ips_clock_span span, struct ips_clock_fit *out,
                          struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    if (count == 0)
        return ips_err_set(err, IPS_E_NOT_FOUND,
                           "no messages between two machines");
    struct point *p = malloc(count * sizeof(*p));
    if (!p)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu messages", count);
    qsort(points, count, sizeof(*points), compare_points_by_time);
    uint64_t y0 = points[0].b - points[0].a;
    for (size_t i = 0; i < count; i++) {
        int64_t y = (int64_t)(points[i].b - points[i].a - y0);
        p[i] = (struct point){(long double)(points[i].a - points[0].a),
                              (long double)y, points[i].from_a};
    }
    make_fit(points, p, count, span, out);
    free(p);
    return 0;
}

/* Returns the map from machine A's clock to the run's origin: from A's clock to
 * B's by `fit`, then from B's clock to the origin by `parent`. */
static struct ips_clock_map
compose_clock_fit_with_map(const struct ips_clock_fit *fit,
                           const struct ips_clock_map *parent)
{
    typedef ips_i128 wide;
    const wide one = (wide)1 << 40;
    wide d = parent->drift_q40, s = fit->drift_q40;
    /* fit->from converted to B's clock, relative to parent->from; may be
     * negative. */
    wide x = (wide)fit->from + fit->offset_ns - (wide)parent->from;
    return (struct ips_clock_map){
        .from = fit->from,
        .drift_q40 = (int64_t)(s + d + s * d / one),
        .shift_ns = (int64_t)(x + x * d / one + parent->shift_ns)};
}

void ips_clock_compute_maps_to_root(const struct ips_clock_fit *fit,
                                    uint32_t count, uint32_t root,
                                    struct ips_clock_map *map, uint64_t *bound,
                                    bool *linked)
{
    for (uint32_t i = 0; i < count; i++) {
        linked[i] = i == root;
        bound[i] = i == root ? 0 : UINT64_MAX;
    }
    for (;;) {
        uint32_t child = count, parent = 0;
        uint64_t least = 0;
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < count && !linked[i]; k++) {
                const struct ips_clock_fit *f = &fit[(size_t)i * count + k];
                uint64_t sum = ips_add_sat(bound[k], f->bound_ns);
                if (!linked[k] || !f->pieces || (child < count && sum >= least))
                    continue;
                child = i;
                parent = k;
                least = sum;
            }
        }
        if (child == count)
            return;
        map[child] = compose_clock_fit_with_map(
            &fit[(size_t)child * count + parent], &map[parent]);
        bound[child] = least;
        linked[child] = true;
    }
}
