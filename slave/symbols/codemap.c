/* Keeps modules over time and numbers code locations; rules in codemap.h. */
#include "slave/symbols/codemap.h"

#include "common/paths.h"
#include "slave/base/wordhash.h"
#include "slave/build/internal.h"

/* maximum number of fork ancestors that are searched for the module at an
 * address */
#define PARENTS_MAX 256
#define MEMO_SLOTS 4096u

struct code_image {
    uint64_t pidns, stamp;
    uint64_t fork_ns; /* time of its START(FORK) record */
    uint64_t parent_stamp;
    uint32_t pid, ppid;
    uint32_t parent; /* index of the image it was forked from, or IPS_NONE */
    bool forked;
    uint32_t first_span, span_count;
    uint64_t longest_span; /* size of the image's largest span, in bytes */
};

/* The module at the addresses [start, end) during [from_ns, to_ns). `module` is
 * IPS_NONE: nothing is there during that time, even if the parent had a module
 * there. */
struct code_span {
    uint64_t start, end, bias, from_ns, to_ns;
    uint32_t image, module, order;
};

/* cache entry of ips_codemap_find_or_add_location(): the last lookup with this
 * hash */
struct code_memo {
    uint64_t address, from_ns, to_ns;
    uint32_t image, location;
    bool used;
};

const char *ips_code_path_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* ---- images ---- */

static int compare_images_by_process(const void *a, const void *b)
{
    const struct code_image *x = a, *y = b;
    CMP3(x->pidns, y->pidns);
    CMP3(x->pid, y->pid);
    CMP3(x->stamp, y->stamp);
    return 0;
}

uint32_t ips_codemap_find_image_of_stream(const struct ips_codemap *m,
                                          const struct ips_segment_header *head)
{
    const struct code_image key = {
        .pidns = head->pidns, .pid = head->pid, .stamp = head->image_stamp};
    const struct code_image *found =
        m->image_count ? bsearch(&key, m->images, m->image_count, sizeof(key),
                                 compare_images_by_process)
                       : NULL;
    return found ? (uint32_t)(found - m->images) : IPS_NONE;
}

static int list_images_of_streams(struct ips_codemap *m,
                                  const struct ips_build_input *in,
                                  struct ips_err *err)
{
    uint32_t n = 0;
    m->images = b_calloc(in->stream_count, sizeof(*m->images), err);
    if (!m->images)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < in->stream_count; i++) {
        const struct ips_segment_header *h = &in->streams[i].head;
        m->images[i] = (struct code_image){.pidns = h->pidns,
                                           .stamp = h->image_stamp,
                                           .pid = h->pid,
                                           .parent = IPS_NONE};
    }
    if (in->stream_count)
        qsort(m->images, in->stream_count, sizeof(*m->images),
              compare_images_by_process);
    for (uint32_t i = 0; i < in->stream_count; i++)
        if (n == 0 ||
            compare_images_by_process(&m->images[n - 1], &m->images[i]) != 0)
            m->images[n++] = m->images[i];
    m->image_count = n;
    return 0;
}

static int compare_images_by_stamp(const void *va, const void *vb, void *arg)
{
    const struct code_image *images = arg;
    const struct code_image *x = &images[*(const uint32_t *)va];
    const struct code_image *y = &images[*(const uint32_t *)vb];
    CMP3(x->stamp, y->stamp);
    CMP3(x->pid, y->pid);
    return 0;
}

/* Finds the parent of an image whose parent is in another pid namespace (its
 * ppid is then 0, or the pid in another namespace). Returns the only image with
 * the stamp `stamp`; IPS_NONE: there is none, or there are several. */
static uint32_t find_parent_by_stamp(const struct ips_codemap *m,
                                     const uint32_t *order, uint64_t stamp)
{
    uint32_t low = 0, high = m->image_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (m->images[order[mid]].stamp < stamp)
            low = mid + 1;
        else
            high = mid;
    }
    bool one =
        low < m->image_count && m->images[order[low]].stamp == stamp &&
        (low + 1 == m->image_count || m->images[order[low + 1]].stamp != stamp);
    return one ? order[low] : IPS_NONE;
}

static int link_fork_parents(struct ips_codemap *m, struct ips_err *err)
{
    uint32_t *order = b_calloc(m->image_count, sizeof(*order), err);
    if (!order)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < m->image_count; i++)
        order[i] = i;
    if (m->image_count)
        qsort_r(order, m->image_count, sizeof(*order), compare_images_by_stamp,
                m->images);
    for (uint32_t i = 0; i < m->image_count; i++) {
        struct code_image *im = &m->images[i];
        const struct ips_segment_header key = {.pidns = im->pidns,
                                               .pid = im->ppid,
                                               .image_stamp = im->parent_stamp};
        if (!im->forked)
            continue;
        im->parent = ips_codemap_find_image_of_stream(m, &key);
        if (im->parent == IPS_NONE)
            im->parent = find_parent_by_stamp(m, order, im->parent_stamp);
        if (im->parent == i)
            im->parent = IPS_NONE;
    }
    ips_free_large(order);
    return 0;
}

/* ---- modules ---- */

static bool same_module(const void *arg, uint32_t number)
{
    const struct ips_code_module *const *pair = arg;
    const struct ips_code_module *a = pair[0], *b = &pair[1][number];
    return a->uid == b->uid && strcmp(a->path, b->path) == 0 &&
           a->build_id_bytes == b->build_id_bytes &&
           memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0;
}

/* Sets *number to the number of the module that a record names; adds the module
 * if it is new. */
static int intern_module(struct ips_codemap *m, const struct ips_rec_module *r,
                         char *path, uint32_t uid, uint64_t t_ns,
                         uint32_t *number, struct ips_err *err)
{
    struct ips_code_module key = {.path = path, .uid = uid};
    key.build_id_bytes = r->build_id_bytes <= sizeof(r->build_id)
                             ? r->build_id_bytes
                             : (uint8_t)sizeof(r->build_id);
    memcpy(key.build_id, r->build_id, key.build_id_bytes);
    uint64_t hash = slave_hash_bytes(1, path, strlen(path));
    hash = slave_hash_bytes(hash, &uid, sizeof(uid));
    hash = slave_hash_bytes(hash, key.build_id, key.build_id_bytes);
    bool fresh;
    if (m->module_count == m->module_capacity) {
        int rc = b_array_reserve((void **)&m->modules, m->module_count,
                                 &m->module_capacity, sizeof(*m->modules), err);
        if (rc < 0)
            return rc;
    }
    const struct ips_code_module *const pair[2] = {&key, m->modules};
    *number = slave_intern_find_or_add(&m->module_index, hash, same_module,
                                       pair, &fresh);
    if (*number == UINT32_MAX)
        return ips_err_set(err, IPS_E_NO_MEMORY, "modules");
    if (fresh) {
        key.path = strdup(path);
        if (!key.path)
            return ips_err_set(err, IPS_E_NO_MEMORY, "modules");
        const char *base = ips_code_path_base_name(path);
        key.recording =
            strcmp(base, IPS_PRELOAD_NAME) == 0 ||
            strncmp(base, IPS_LIBRARY_NAME, sizeof(IPS_LIBRARY_NAME) - 1) == 0;
        m->modules[m->module_count++] = key;
    }
    m->modules[*number].loaded_ns =
        ips_max_u64(m->modules[*number].loaded_ns, t_ns);
    return 0;
}

static int add_module_span(struct ips_codemap *m, uint32_t image, uint32_t uid,
                           const uint8_t *p, uint32_t len, uint64_t t_ns,
                           struct ips_err *err)
{
    struct ips_rec_module r;
    char path[IPS_REC_MAX_BYTES];
    memcpy(&r, p, sizeof(r));
    size_t room = ips_min_u64(len - sizeof(r), sizeof(path) - 1);
    memcpy(path, p + sizeof(r), room);
    path[room] = '\0';
    int rc = 0;
    if (r.end <= r.start)
        return 0;
    if (m->span_count == m->span_capacity)
        rc = b_array_reserve((void **)&m->spans, m->span_count,
                             &m->span_capacity, sizeof(*m->spans), err);
    if (rc < 0)
        return rc;
    struct code_span s = {.start = r.start,
                          .end = r.end,
                          .bias = r.bias,
                          .from_ns = t_ns,
                          .to_ns = UINT64_MAX,
                          .image = image,
                          .module = IPS_NONE,
                          .order = m->span_count};
    if (!r.gone)
        rc = intern_module(m, &r, path, uid, t_ns, &s.module, err);
    if (rc == 0)
        m->spans[m->span_count++] = s;
    return rc;
}

static int read_module_and_start_records(struct ips_codemap *m,
                                         const struct ips_build_input *in,
                                         struct ips_err *err)
{
    for (uint32_t i = 0; i < in->stream_count; i++) {
        const struct ips_stream_in *s = &in->streams[i];
        struct b_walk walk = {.in = s};
        uint32_t type, len,
            image = ips_codemap_find_image_of_stream(m, &s->head);
        const uint8_t *p;
        bool modules = b_may_hold_type(s, IPS_REC_MODULE), begun = false;
        if (image == IPS_NONE)
            continue;
        while ((modules || !begun) && (p = b_next_record(&walk, &type, &len))) {
            struct ips_rec_head h;
            if (type != IPS_REC_MODULE && type != IPS_REC_START)
                continue;
            memcpy(&h, p, sizeof(h));
            uint64_t t = b_stamp_to_ns(&s->head.clock, h.word, h.t);
            if (type == IPS_REC_MODULE) {
                int rc = add_module_span(m, image, s->head.uid, p, len, t, err);
                if (rc < 0)
                    return rc;
                continue;
            }
            begun = true; /* a stream has only one START */
            if (h.a == IPS_START_FORK) {
                struct ips_rec_start r;
                memcpy(&r, p, sizeof(r));
                m->images[image].forked = true;
                m->images[image].ppid = r.ppid;
                m->images[image].parent_stamp = r.parent_image;
                m->images[image].fork_ns = t;
            }
        }
    }
    return 0;
}

static int compare_spans_by_start(const void *a, const void *b)
{
    const struct code_span *x = a, *y = b;
    CMP3(x->image, y->image);
    CMP3(x->start, y->start);
    CMP3(x->from_ns, y->from_ns);
    CMP3(x->order, y->order);
    return 0;
}

/* Ends each span where its start address is unloaded or loaded again. Sets the
 * range of spans of each image. */
static void set_span_ends_and_image_ranges(struct ips_codemap *m)
{
    for (uint32_t i = 0; i + 1 < m->span_count; i++) {
        struct code_span *s = &m->spans[i], *next = &m->spans[i + 1];
        if (s->image == next->image && s->start == next->start)
            s->to_ns = next->from_ns;
    }
    for (uint32_t i = 0; i < m->span_count; i++) {
        struct code_image *im = &m->images[m->spans[i].image];
        if (!im->span_count++)
            im->first_span = i;
        im->longest_span =
            ips_max_u64(im->longest_span, m->spans[i].end - m->spans[i].start);
    }
}

int ips_codemap_make(const struct ips_build_input *in, struct ips_codemap *out,
                     struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    int rc = list_images_of_streams(out, in, err);
    if (rc == 0)
        rc = read_module_and_start_records(out, in, err);
    if (rc == 0)
        rc = link_fork_parents(out, err);
    if (rc == 0) {
        if (out->span_count)
            qsort(out->spans, out->span_count, sizeof(*out->spans),
                  compare_spans_by_start);
        set_span_ends_and_image_ranges(out);
        out->memo = b_calloc(MEMO_SLOTS, sizeof(*out->memo), err);
        rc = out->memo ? 0 : IPS_E_NO_MEMORY;
    }
    if (rc < 0)
        ips_codemap_release(out);
    return rc;
}

void ips_codemap_release(struct ips_codemap *m)
{
    for (uint32_t i = 0; i < m->module_count; i++)
        ips_free_large(m->modules[i].path);
    ips_free_large(m->modules);
    ips_free_large(m->locations);
    ips_free_large(m->images);
    ips_free_large(m->spans);
    ips_free_large(m->memo);
    slave_intern_release(&m->module_index);
    slave_intern_release(&m->location_index);
    memset(m, 0, sizeof(*m));
}

/* ---- lookup ---- */

/* Returns the newest of the image's own spans that cover `address` at t_ns, or
 * NULL. Sets *later to the earliest span that covers `address`, has a module
 * and begins after t_ns; leaves *later unchanged if there is none. */
static const struct code_span *
find_span_of_image_at_address(const struct ips_codemap *m,
                              const struct code_image *im, uint64_t address,
                              uint64_t t_ns, const struct code_span **later)
{
    const struct code_span *spans = m->spans, *best = NULL;
    uint32_t low = 0, high = im->span_count;
    if (!spans) /* no image has spans */
        return NULL;
    spans += im->first_span;
    while (low < high) { /* find the first span that starts after the address */
        uint32_t mid = low + (high - low) / 2;
        if (spans[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    while (low-- > 0) {
        const struct code_span *s = &spans[low];
        if (address - s->start >= im->longest_span)
            break;
        if (address >= s->end)
            continue;
        if (s->from_ns <= t_ns && t_ns < s->to_ns) {
            if (!best || s->from_ns > best->from_ns)
                best = s;
        } else if (s->from_ns > t_ns && s->module != IPS_NONE &&
                   (!*later || s->from_ns < (*later)->from_ns)) {
            *later = s;
        }
    }
    return best;
}

static const struct code_span *
find_span_of_image_or_parent(const struct ips_codemap *m, uint32_t image,
                             uint64_t address, uint64_t t_ns)
{
    const struct code_span *later = NULL;
    for (int i = 0; image != IPS_NONE && i < PARENTS_MAX; i++) {
        const struct code_image *im = &m->images[image];
        const struct code_span *unused = NULL;
        const struct code_span *s = find_span_of_image_at_address(
            m, im, address, t_ns, i == 0 ? &later : &unused);
        if (s)
            return s->module == IPS_NONE ? later : s;
        t_ns = ips_min_u64(t_ns, im->fork_ns);
        image = im->parent;
    }
    return later;
}

static bool is_same_location(const void *arg, uint32_t number)
{
    const struct ips_code_location *const *pair = arg;
    return pair[0]->module == pair[1][number].module &&
           pair[0]->address == pair[1][number].address;
}

static int intern_location(struct ips_codemap *m, struct ips_code_location key,
                           uint32_t *place, struct ips_err *err)
{
    bool fresh;
    const uint64_t words[2] = {key.module, key.address};
    if (m->location_count == m->location_capacity) {
        int rc =
            b_array_reserve((void **)&m->locations, m->location_count,
                            &m->location_capacity, sizeof(*m->locations), err);
        if (rc < 0)
            return rc;
    }
    const struct ips_code_location *const pair[2] = {&key, m->locations};
    *place = slave_intern_find_or_add(&m->location_index,
                                      slave_hash_bytes(2, words, sizeof(words)),
                                      is_same_location, pair, &fresh);
    if (*place == UINT32_MAX)
        return ips_err_set(err, IPS_E_NO_MEMORY, "places");
    if (fresh)
        m->locations[m->location_count++] = key;
    return 0;
}

int ips_codemap_find_or_add_location(struct ips_codemap *m, uint32_t image,
                                     uint64_t address, uint64_t t_ns, bool ret,
                                     uint32_t *place, struct ips_err *err)
{
    uint64_t at = address - (ret && address > 0);
    struct code_memo *memo =
        &m->memo[(at * 0x9e3779b97f4a7c15ULL >> 40 ^ image) % MEMO_SLOTS];
    if (memo->used && memo->address == at && memo->image == image &&
        memo->from_ns <= t_ns && t_ns < memo->to_ns) {
        *place = memo->location;
        return 0;
    }
    const struct code_span *s =
        image == IPS_NONE ? NULL
                          : find_span_of_image_or_parent(m, image, at, t_ns);
    struct ips_code_location key = {.module = IPS_NONE};
    if (s)
        key = (struct ips_code_location){s->module, at - s->bias};
    int rc = intern_location(m, key, place, err);
    /* Cache the result only if the image's own span covers the time: only then
     * is it known how long the result stays valid. */
    if (rc == 0 && s && s->image == image && s->from_ns <= t_ns)
        *memo = (struct code_memo){.address = at,
                                   .from_ns = s->from_ns,
                                   .to_ns = s->to_ns,
                                   .image = image,
                                   .location = *place,
                                   .used = true};
    return rc;
}
