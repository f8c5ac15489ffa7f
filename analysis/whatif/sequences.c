/* Sequences are numbered (named) length by length: the name of the first length
 * - 1 steps and the last step form a key, and equal keys get equal names. */
#include "analysis/whatif/sequences.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

/* At least SPARE * `top` candidates of each length are kept, because
 * choose_top_nonredundant_sequences() leaves out those that repeat or are part
 * of others. */
#define SPARE 8u

struct keyed {
    uint64_t key;
    uint32_t at;
};

struct counting {
    const struct ips_step *steps;
    uint32_t n;
    uint64_t *until; /* [n + 1] time up to step i, gaps included */
    uint32_t *name;  /* [n] name of the sequence that starts at i and has the
                        previous length */
    struct keyed *keyed;
    struct ips_sequence *result;         /* candidates of all lengths */
    size_t found_count, capacity, begun; /* `begun`: first candidate of the
                                            current length */
    size_t spare_bytes;
};

static int by_key(const void *va, const void *vb)
{
    const struct keyed *x = va, *y = vb;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sorts sequences: most time first, then fewest steps, then earliest. */
static int compare_sequences_by_total_time(const void *va, const void *vb)
{
    const struct ips_sequence *x = va, *y = vb;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static uint64_t occurrence_ns(const struct counting *c, uint32_t first,
                              uint32_t len)
{
    return c->until[first + len] - c->until[first] - c->steps[first].gap_ns;
}

static bool append_candidate_sequence(struct counting *c,
                                      const struct ips_sequence *s)
{
    if (c->found_count == c->capacity) {
        size_t room = c->capacity ? c->capacity * 2 : 256;
        void *more = realloc(c->result, room * sizeof(*c->result));
        if (!more)
            return false;
        c->result = more;
        c->capacity = room;
    }
    c->result[c->found_count++] = *s;
    return true;
}

/* Counts the occurrences of one sequence that do not overlap, and keeps the
 * sequence as a candidate if there are at least two. `group` has the positions
 * of its occurrences, ascending. False: out of memory. */
static bool count_sequence_and_keep_if_repeated(struct counting *c,
                                                const struct keyed *group,
                                                uint32_t size, uint32_t length)
{
    struct ips_sequence s = {.first = group[0].at, .length = length};
    uint64_t free_from = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (group[i].at < free_from)
            continue;
        free_from = (uint64_t)group[i].at + length;
        s.ns += occurrence_ns(c, group[i].at, length);
        s.count++;
    }
    return s.count < 2 || append_candidate_sequence(c, &s);
}

static bool find_repeated_sequences_of_length(struct counting *c,
                                              uint32_t length)
{
    uint32_t n = c->n - length + 1, names = 0;
    for (uint32_t i = 0; i < n; i++)
        c->keyed[i] = (struct keyed){
            (uint64_t)c->name[i] << 32 | c->steps[i + length - 1].what, i};
    qsort(c->keyed, n, sizeof(*c->keyed), by_key);
    c->begun = c->found_count;
    for (uint32_t i = 0; i < n;) {
        uint32_t end = i;
        while (end < n && c->keyed[end].key == c->keyed[i].key)
            c->name[c->keyed[end++].at] = names;
        if (!count_sequence_and_keep_if_repeated(c, c->keyed + i, end - i,
                                                 length))
            return false;
        names++;
        i = end;
    }
    size_t fresh = c->found_count - c->begun;
    if (fresh > c->spare_bytes) {
        qsort(c->result + c->begun, fresh, sizeof(*c->result),
              compare_sequences_by_total_time);
        c->found_count = c->begun + c->spare_bytes;
    }
    return true;
}

/* Whether `s` occurs in an endless repetition of `of`. */
static bool is_part_of_repetition(const struct counting *c,
                                  const struct ips_sequence *s,
                                  const struct ips_sequence *of)
{
    for (uint32_t shift = 0; shift < of->length; shift++) {
        uint32_t i = 0;
        while (i < s->length &&
               c->steps[s->first + i].what ==
                   c->steps[of->first + (shift + i) % of->length].what)
            i++;
        if (i == s->length)
            return true;
    }
    return false;
}

/* Whether `s` consists of a shorter sequence that repeats at least twice;
 * the last repetition may be cut off. */
static bool is_repetition(const struct counting *c,
                          const struct ips_sequence *s)
{
    for (uint32_t period = 1; 2 * period <= s->length; period++) {
        uint32_t i = period;
        while (i < s->length && c->steps[s->first + i].what ==
                                    c->steps[s->first + i - period].what)
            i++;
        if (i == s->length)
            return true;
    }
    return false;
}

static uint32_t choose_top_nonredundant_sequences(struct counting *c,
                                                  uint32_t top,
                                                  struct ips_sequence *out)
{
    uint32_t n = 0;
    if (c->found_count)
        qsort(c->result, c->found_count, sizeof(*c->result),
              compare_sequences_by_total_time);
    for (size_t i = 0; i < c->found_count && n < top; i++) {
        const struct ips_sequence *s = &c->result[i];
        bool listed = is_repetition(c, s);
        for (uint32_t k = 0; k < n && !listed; k++)
            listed = s->count <= out[k].count + out[k].count / 10 + 1 &&
                     is_part_of_repetition(c, s, &out[k]);
        if (!listed)
            out[n++] = *s;
    }
    return n;
}

int ips_find_costliest_step_sequences(const struct ips_step *steps, uint32_t n,
                                      uint32_t longest, uint32_t top,
                                      struct ips_sequence *out, uint32_t *count,
                                      struct ips_err *err)
{
    struct counting c = {
        .steps = steps, .n = n, .spare_bytes = (size_t)top * SPARE + 16};
    bool fine = true;
    *count = 0;
    if (n < 2 || top == 0)
        return 0;
    c.until = malloc(((size_t)n + 1) * sizeof(*c.until));
    c.name = malloc((size_t)n * sizeof(*c.name));
    c.keyed = malloc((size_t)n * sizeof(*c.keyed));
    fine = c.until && c.name && c.keyed;
    if (fine) {
        c.until[0] = 0;
        for (uint32_t i = 0; i < n; i++) {
            c.until[i + 1] = c.until[i] + steps[i].gap_ns + steps[i].ns;
            c.name[i] = steps[i].what;
        }
    }
    if (longest > IPS_SEQUENCE_LONGEST)
        longest = IPS_SEQUENCE_LONGEST;
    for (uint32_t length = 2; fine && length <= longest && length <= n;
         length++)
        fine = find_repeated_sequences_of_length(&c, length);
    if (fine)
        *count = choose_top_nonredundant_sequences(&c, top, out);
    free(c.until);
    free(c.name);
    free(c.keyed);
    free(c.result);
    return fine ? 0 : ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
}
