/* Names call sites and stacks of events; see event_sites.h. */
#include "slave/profile/event_sites.h"

#include <inttypes.h>
#include <stdio.h>

#include "slave/build/internal.h"

struct slave_noted_row {
    Ips__EventRow *row;
    /* code locations of the row, as a range of s->locations */
    uint32_t first, count;
    bool stack;
    /* [count] names of these locations, malloc'd; NULL until named */
    char **text;
};

struct slave_recent_stack {
    uint64_t site;
    uint32_t count;
    uint32_t locations[SLAVE_SITE_FRAMES];
};

int slave_sites_prepare_code_map(struct slave_sites *s,
                                 const struct ips_build_input *in,
                                 struct ips_err *err)
{
    if (!s->sites && !s->stacks)
        return 0;
    int rc = ips_codemap_make(in, &s->map, err);
    s->begun = rc == 0;
    return rc;
}

void slave_sites_drop_remembered_rows(struct slave_sites *s)
{
    for (uint32_t i = 0; i < s->noted_count; i++) {
        struct slave_noted_row *n = &s->noted[i];
        for (uint32_t k = 0; n->text && k < n->count; k++)
            ips_free_large(n->text[k]);
        ips_free_large(n->text);
    }
    s->noted_count = s->location_count = 0;
}

void slave_sites_release(struct slave_sites *s)
{
    slave_sites_drop_remembered_rows(s);
    if (s->begun)
        ips_codemap_release(&s->map);
    slave_symbols_release(&s->names);
    ips_free_large(s->noted);
    ips_free_large(s->locations);
    ips_free_large(s->recent);
}

static int append_remembered_row(struct slave_sites *s, Ips__EventRow *row,
                                 bool stack, struct ips_err *err)
{
    if (s->noted_count == s->noted_capacity) {
        int rc = b_array_reserve((void **)&s->noted, s->noted_count,
                                 &s->noted_capacity, sizeof(*s->noted), err);
        if (rc < 0)
            return rc;
    }
    s->noted[s->noted_count++] = (struct slave_noted_row){
        .row = row, .first = s->location_count, .stack = stack};
    return 0;
}

static int append_location_of_address(struct slave_sites *s,
                                      const struct ips_segment_header *head,
                                      uint64_t address, uint64_t t_ns,
                                      struct ips_err *err)
{
    int rc = 0;
    if (s->location_count == s->location_capacity)
        rc = b_array_reserve((void **)&s->locations, s->location_count,
                             &s->location_capacity, sizeof(*s->locations), err);
    if (rc == 0)
        rc = ips_codemap_find_or_add_location(
            &s->map, ips_codemap_find_image_of_stream(&s->map, head), address,
            t_ns, true, &s->locations[s->location_count], err);
    if (rc == 0) {
        s->location_count++;
        s->noted[s->noted_count - 1].count++;
    }
    return rc;
}

int slave_sites_add_call_site_to_row(struct slave_sites *s, Ips__EventRow *row,
                                     const struct ips_segment_header *head,
                                     uint64_t address, uint64_t t_ns,
                                     struct ips_err *err)
{
    if (!s->sites || !address)
        return 0;
    int rc = append_remembered_row(s, row, false, err);
    return rc == 0 ? append_location_of_address(s, head, address, t_ns, err)
                   : rc;
}

/* Returns the last stack of a call site of this stream, or NULL. Drops the
 * stacks of any other stream first. */
static struct slave_recent_stack *
find_recent_stack_of_call_site(struct slave_sites *s, uint32_t stream,
                               uint64_t site)
{
    if (s->recent_stream != stream)
        s->recent_count = s->recent_next = 0;
    s->recent_stream = stream;
    for (uint32_t i = 0; i < s->recent_count; i++)
        if (s->recent[i].site == site)
            return &s->recent[i];
    return NULL;
}

static int append_remembered_row_with_stack(struct slave_sites *s,
                                            Ips__EventRow *row,
                                            const struct slave_recent_stack *k,
                                            struct ips_err *err)
{
    int rc = append_remembered_row(s, row, true, err);
    for (uint32_t i = 0; rc == 0 && i < k->count; i++) {
        if (s->location_count == s->location_capacity)
            rc = b_array_reserve((void **)&s->locations, s->location_count,
                                 &s->location_capacity, sizeof(*s->locations),
                                 err);
        if (rc == 0) {
            s->locations[s->location_count++] = k->locations[i];
            s->noted[s->noted_count - 1].count++;
        }
    }
    return rc;
}

int slave_sites_keep_stack_and_note_for_row(
    struct slave_sites *s, Ips__EventRow *row, uint32_t stream,
    const struct ips_segment_header *head, const uint8_t *record, uint32_t len,
    uint64_t t_ns, struct ips_err *err)
{
    struct ips_rec_stack r;
    uint64_t address[SLAVE_SITE_FRAMES] = {0};
    if (!s->stacks)
        return 0;
    memcpy(&r, record, sizeof(r));
    uint32_t room = (len - (uint32_t)sizeof(r)) / 8;
    uint32_t count = r.h.a < room ? r.h.a : room;
    if (count > SLAVE_SITE_FRAMES)
        count = SLAVE_SITE_FRAMES;
    if (count == 0)
        return 0;
    memcpy(address, record + sizeof(r), count * sizeof(*address));
    if (!s->recent)
        s->recent = b_calloc(SLAVE_SITES_KEPT, sizeof(*s->recent), err);
    if (!s->recent)
        return IPS_E_NO_MEMORY;
    struct slave_recent_stack *k =
        find_recent_stack_of_call_site(s, stream, address[0]);
    if (!k) {
        k = &s->recent[s->recent_next];
        s->recent_next = (s->recent_next + 1) % SLAVE_SITES_KEPT;
        if (s->recent_count < SLAVE_SITES_KEPT)
            s->recent_count++;
    }
    k->site = address[0];
    k->count = 0;
    uint32_t image = ips_codemap_find_image_of_stream(&s->map, head);
    for (; k->count < count; k->count++) {
        int rc = ips_codemap_find_or_add_location(&s->map, image,
                                                  address[k->count], t_ns, true,
                                                  &k->locations[k->count], err);
        if (rc < 0)
            return rc;
    }
    return row ? append_remembered_row_with_stack(s, row, k, err) : 0;
}

int slave_sites_add_last_stack_to_row(struct slave_sites *s, Ips__EventRow *row,
                                      uint32_t stream, uint64_t site,
                                      struct ips_err *err)
{
    if (!s->stacks || !site)
        return 0;
    const struct slave_recent_stack *k =
        find_recent_stack_of_call_site(s, stream, site);
    return k ? append_remembered_row_with_stack(s, row, k, err) : 0;
}

char *slave_location_format_text(const struct ips_codemap *map,
                                 const struct slave_symbols *names,
                                 uint32_t place)
{
    const char *at = names->of[place].text;
    struct slave_symbol_frame f;
    char *text = NULL;
    int n = -1;
    if (!slave_symbol_parse_frame(&at, &f))
        return strdup("?");
    uint32_t module = map->locations[place].module;
    const char *path = module == IPS_NONE ? "" : map->modules[module].path;
    const char *base = ips_code_path_base_name(path);
    size_t base_len = strlen(base);
    bool named = f.name_len <= base_len ||
                 memcmp(f.name, base, base_len) != 0 ||
                 memcmp(f.name + base_len, "+0x", 3) != 0;
    int name_len = (int)f.name_len;
    if (f.at_file_len && f.at_line) {
        uint32_t cut = f.at_file_len;
        while (cut > 0 && f.at_file[cut - 1] != '/')
            cut--;
        n = asprintf(&text, "%.*s (%.*s:%" PRIu32 ")", name_len, f.name,
                     (int)(f.at_file_len - cut), f.at_file + cut, f.at_line);
    } else if (module != IPS_NONE && named) {
        n = asprintf(&text, "%.*s (%s)", name_len, f.name, base);
        /* the code has no name: print its address in the module */
    } else if (module != IPS_NONE) {
        n = asprintf(&text, "%s+0x%" PRIx64, base,
                     map->locations[place].address);
    } else {
        n = asprintf(&text, "%.*s", name_len, f.name);
    }
    return n < 0 ? NULL : text;
}

int slave_sites_set_code_texts_of_rows(struct slave_sites *s,
                                       struct slave_graphs *gs,
                                       const struct slave_graph *g,
                                       struct ips_err *err)
{
    if (s->noted_count == 0)
        return 0;
    int rc =
        slave_graph_fill_symbol_names_of_map(gs, g, &s->map, &s->names, err);
    for (uint32_t i = 0; rc == 0 && i < s->noted_count; i++) {
        struct slave_noted_row *n = &s->noted[i];
        n->text = calloc((size_t)n->count + 1, sizeof(*n->text));
        for (uint32_t k = 0; n->text && k < n->count; k++) {
            n->text[k] = slave_location_format_text(&s->map, &s->names,
                                                    s->locations[n->first + k]);
            if (!n->text[k])
                rc = IPS_E_NO_MEMORY;
        }
        if (!n->text || rc < 0)
            return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        if (n->stack) {
            n->row->stack = n->text;
            n->row->n_stack = n->count;
            if (!*n->row->site)
                n->row->site = n->text[0];
        } else if (n->count) {
            n->row->site = n->text[0];
        }
    }
    return rc;
}
