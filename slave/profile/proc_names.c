/* Maps code locations to procedures or lines; see proc_names.h. */
#include "slave/profile/proc_names.h"

#include "slave/base/wordhash.h"
#include "slave/build/internal.h"

struct names_builder {
    struct slave_proc_names *n;
    struct slave_intern index;
    struct ips_err *err;
};

static bool same_symbol(const void *arg, uint32_t number)
{
    const struct slave_proc_symbol *const *pair = arg;
    const struct slave_proc_symbol *a = pair[0], *b = &pair[1][number];
    return a->source_line == b->source_line && a->name_len == b->name_len &&
           a->file_len == b->file_len &&
           memcmp(a->name, b->name, a->name_len) == 0 &&
           memcmp(a->file, b->file, a->file_len) == 0 &&
           strcmp(a->module, b->module) == 0;
}

static int find_or_add_symbol(struct names_builder *m,
                              const struct slave_proc_symbol *key,
                              uint32_t *number)
{
    struct slave_proc_names *n = m->n;
    bool fresh;
    if (n->symbol_count == n->symbol_capacity) {
        int rc =
            b_array_reserve((void **)&n->symbols, n->symbol_count,
                            &n->symbol_capacity, sizeof(*n->symbols), m->err);
        if (rc < 0)
            return rc;
    }
    uint64_t hash =
        slave_hash_bytes(key->source_line, key->name, key->name_len);
    hash = slave_hash_bytes(hash, key->file, key->file_len);
    hash = slave_hash_bytes(hash, key->module, strlen(key->module));
    const struct slave_proc_symbol *const pair[2] = {key, n->symbols};
    *number =
        slave_intern_find_or_add(&m->index, hash, same_symbol, pair, &fresh);
    if (*number == UINT32_MAX)
        return ips_err_set(m->err, IPS_E_NO_MEMORY, "procedures");
    if (fresh)
        n->symbols[n->symbol_count++] = *key;
    return 0;
}

static int append_procedure_of_frame(struct names_builder *m,
                                     const struct slave_symbol_frame *f,
                                     const char *module, bool line)
{
    const struct slave_proc_symbol key = {
        .name = f->name,
        .name_len = f->name_len,
        .file = line ? f->at_file : f->file,
        .file_len = line ? f->at_file_len : f->file_len,
        .source_line = line ? f->at_line : f->source_line,
        .module = module};
    struct slave_proc_names *n = m->n;
    int rc = 0;
    if (n->of_count == n->of_capacity)
        rc = b_array_reserve((void **)&n->of, n->of_count, &n->of_capacity,
                             sizeof(*n->of), m->err);
    if (rc == 0)
        rc = find_or_add_symbol(m, &key, &n->of[n->of_count]);
    if (rc == 0)
        n->of_count++;
    return rc;
}

int slave_proc_names_number_procedures(const struct slave_profile_cache *costs,
                                       enum slave_proc_by by,
                                       struct slave_proc_names *out,
                                       struct ips_err *err)
{
    const struct ips_codemap *map = &costs->p.map;
    const struct slave_symbols *names = &costs->names;
    struct names_builder m = {.n = out, .err = err};
    int rc = 0;
    memset(out, 0, sizeof(*out));
    out->first =
        b_calloc((size_t)map->location_count + 1, sizeof(*out->first), err);
    if (!out->first)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < map->location_count; i++) {
        const char *text = i < names->count && names->of[i].text
                               ? names->of[i].text
                               : "[no module]\t\t0\t\t0\n";
        uint32_t module = map->locations[i].module;
        const char *path = module == IPS_NONE ? "" : map->modules[module].path;
        struct slave_symbol_frame f;
        out->first[i] = out->of_count;
        while (rc == 0 && slave_symbol_parse_frame(&text, &f))
            rc = append_procedure_of_frame(&m, &f, path, by == SLAVE_BY_LINE);
    }
    out->first[map->location_count] = out->of_count;
    slave_intern_release(&m.index);
    if (rc < 0)
        slave_proc_names_release(out);
    return rc;
}

void slave_proc_names_release(struct slave_proc_names *n)
{
    ips_free_large(n->symbols);
    ips_free_large(n->first);
    ips_free_large(n->of);
    memset(n, 0, sizeof(*n));
}
