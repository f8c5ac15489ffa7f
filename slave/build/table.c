/* Makes the names and table rows of processes, threads and ends. */
#include <arpa/inet.h>
#include <stdio.h>

#include "slave/build/node.h"

const char *ips_wait_name(enum ips_wait_cause cause)
{
    static const char *const names[IPS_WAIT_COUNT] = {
        [IPS_WAIT_PEER] = "peer",           [IPS_WAIT_CHILD] = "child",
        [IPS_WAIT_TIMER] = "timer",         [IPS_WAIT_SIGNAL] = "signal",
        [IPS_WAIT_EVENT] = "event",         [IPS_WAIT_IDLE] = "idle",
        [IPS_WAIT_RESOLVE] = "resolve",     [IPS_WAIT_OTHER] = "other",
        [IPS_WAIT_LOCK] = "lock",           [IPS_WAIT_DISK] = "disk",
        [IPS_WAIT_FILE_LOCK] = "file lock", [IPS_WAIT_TERMINAL] = "terminal",
        [IPS_WAIT_SPIN] = "spin",
    };
    return names[cause];
}

/* ---- processes ---- */

/* limit of the ancestors that are searched for an inherited command */
#define FORKS_MAX 64u

/* Copies at most `len` bytes as printable text; returns the bytes copied. */
static size_t copy_printable_text(char *out, size_t size, const void *text,
                                  size_t len)
{
    const unsigned char *p = text;
    size_t n = 0;
    for (; n < len && n + 1 < size && p[n]; n++)
        out[n] = p[n] < 0x20 || p[n] == 0x7f ? '?' : (char)p[n];
    out[n] = '\0';
    return n;
}

/* Copies the base name of the program: "/usr/bin/sort -u" -> "sort". */
static void copy_program_name(char *out, size_t size, const uint8_t *line,
                              size_t len)
{
    size_t first = 0, end = 0;
    while (end < len && line[end] && line[end] != ' ')
        end++;
    for (size_t i = 0; i + 1 < end; i++)
        if (line[i] == '/')
            first = i + 1;
    copy_printable_text(out, size, line + first, end - first);
    for (char *c = out; *c; c++)
        if (*c == '/' || *c == '#')
            *c = '_';
}

static const struct b_stream *main_stream_of_image(const struct build *b,
                                                   uint32_t image)
{
    const struct b_image *im = &b->images[image];
    return &b->streams[im->main == IPS_NONE ? im->first_stream : im->main];
}

/* Returns the stream with the command that a fork child inherited: the parent's
 * command at the time of the fork, because the parent may have executed another
 * program later. NULL: not known. */
static const struct b_stream *find_inherited_command(const struct build *b,
                                                     uint32_t p)
{
    for (uint32_t depth = 0; depth < FORKS_MAX; depth++) {
        uint64_t image =
            main_stream_of_image(b, b->procs[p].first_image)->parent_image;
        p = b->out->procs[p].parent;
        if (p == IPS_NONE)
            return NULL;
        const struct b_stream *named = NULL;
        for (uint32_t k = 0; k < b->procs[p].image_count; k++) {
            const struct b_stream *s =
                main_stream_of_image(b, b->procs[p].first_image + k);
            if (s->name && !s->task)
                named = s;
            if (s->in->head.image_stamp == image)
                break;
        }
        if (named)
            return named;
    }
    return NULL;
}

static void name_process(struct build *b, uint32_t p)
{
    const struct b_proc *proc = &b->procs[p];
    struct ips_proc *row = &b->out->procs[p];
    const struct b_stream *s = NULL, *last = NULL;
    char program[40] = "";
    for (uint32_t k = 0; k < proc->image_count; k++) {
        last = main_stream_of_image(b, proc->first_image + k);
        if (last->name && !last->task)
            s = last;
    }
    if (s) {
        copy_program_name(program, sizeof(program), s->name, s->name_len);
        copy_printable_text(row->command, sizeof(row->command), s->name,
                            s->name_len);
    } else if ((s = find_inherited_command(b, p))) {
        copy_printable_text(row->command, sizeof(row->command), s->name,
                            s->name_len);
    }
    if (!program[0] && last)
        copy_program_name(program, sizeof(program),
                          (const uint8_t *)last->in->head.comm,
                          sizeof(last->in->head.comm));
    snprintf(row->name, sizeof(row->name), "%s.%u", program[0] ? program : "?",
             row->pid);
}

static int cmp_name(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    int c = strcmp(b->out->procs[i].name, b->out->procs[k].name);
    if (c)
        return c;
    CMP3(i, k);
    return 0;
}

static int name_processes(struct build *b)
{
    uint32_t n = b->out->proc_count, same = 0;
    uint32_t *v = b_calloc(n, sizeof(*v), b->err);
    if (!v)
        return IPS_E_NO_MEMORY;
    for (uint32_t p = 0; p < n; p++) {
        name_process(b, p);
        v[p] = p;
    }
    qsort_r(v, n, sizeof(*v), cmp_name, b);
    char before[sizeof(b->out->procs->name)] = "";
    for (uint32_t i = 0; i < n; i++) {
        struct ips_proc *row = &b->out->procs[v[i]];
        if (i > 0 && strcmp(row->name, before) == 0) {
            same++;
            snprintf(row->name + strlen(row->name),
                     sizeof(row->name) - strlen(row->name), "#%u", same + 1);
        } else {
            same = 0;
            memcpy(before, row->name, sizeof(before));
        }
    }
    ips_free_large(v);
    return 0;
}

static void find_root_process_and_goal_node(struct build *b)
{
    struct ips_built *out = b->out;
    uint32_t root = IPS_NONE;
    out->goal_node = IPS_NO_NODE;
    for (uint32_t p = 0; p < out->proc_count && root == IPS_NONE; p++)
        if (out->procs[p].root)
            root = p;
    uint32_t pid = b->in->control ? b->in->control->root_pid : 0;
    for (uint32_t p = 0; p < out->proc_count && pid && root == IPS_NONE; p++)
        if (out->procs[p].pid == pid && out->procs[p].parent == IPS_NONE)
            root = p;
    for (uint32_t p = 0; p < out->proc_count; p++)
        out->procs[p].root = p == root;
    if (root == IPS_NONE || b->procs[root].main_chain == IPS_NONE)
        return;
    /* The run ends with the last thread of the process: the main thread may
     * have ended long before, or, as in Java, have done nothing for long. */
    const struct ips_proc *row = &out->procs[root];
    uint64_t end = 0;
    for (uint32_t c = 0; c < row->chain_count; c++) {
        uint32_t node = b_get_end_node(b, row->first_chain + c);
        if (c == 0 || out->g.t_ns[node] > end) {
            end = out->g.t_ns[node];
            out->goal_node = node;
        }
    }
    if (row->left_image) /* the program after the exec recorded nothing, so the
                            run ends with the process */
        end = ips_max_u64(end, row->end_ns);
    out->root_start_ns = row->start_ns;
    out->goal_elapsed_ns = ips_sub_sat(end, row->start_ns);
}

/* ---- threads ---- */

static void set_thread_names_and_running_state(struct build *b)
{
    for (uint32_t c = 0; c < b->out->g.chain_count; c++) {
        struct ips_thread_row *row = &b->out->threads[c];
        const struct b_stream *s = &b->streams[b->chains[c].last_stream];
        bool main = b->procs[row->process].main_chain == c;
        if (s->name && !main)
            copy_printable_text(row->name, sizeof(row->name), s->name,
                                s->name_len);
        else
            copy_printable_text(row->name, sizeof(row->name), s->in->head.comm,
                                sizeof(s->in->head.comm));
        row->open = b->out->procs[row->process].open &&
                    s->end_kind != IPS_END_THREAD &&
                    s->end_kind != IPS_END_TASK;
    }
}

/* ---- ends ---- */

/* Adds the machine and the network namespace to the keys of a loopback
 * connection, or of one from an address to itself: such an address is valid
 * only in one network namespace of one boot. Two pools in the same namespace
 * ("machines" on loopback) get equal keys. */
static void extend_key_by_host(const struct build *b, const struct b_end *e,
                               struct ips_end *row)
{
    const struct ips_control *c = b->in->control;
    uint64_t host = c ? ips_fnv1a(IPS_FNV_SEED, c->boot_id,
                                  strnlen(c->boot_id, sizeof(c->boot_id)))
                      : IPS_FNV_SEED;
    for (unsigned i = 0; i < 8; i++) {
        row->key_local[IPS_KEY_INET + i] = row->key_remote[IPS_KEY_INET + i] =
            (uint8_t)(host >> 8 * i);
        row->key_local[IPS_KEY_INET + 8 + i] =
            row->key_remote[IPS_KEY_INET + 8 + i] =
                (uint8_t)(e->netns >> 8 * i);
    }
    row->key_len = IPS_KEY_LOOPBACK;
}

static void write_addr_key(uint8_t *out, const struct ips_addr *a)
{
    out[0] = AF_INET6;
    out[1] = 0;
    out[2] = (uint8_t)a->port;
    out[3] = (uint8_t)(a->port >> 8);
    if (!b_is_wildcard_addr(a))
        memcpy(out + 4, a->addr, 16);
}

static void format_endpoint(char *out, size_t size, const struct ips_addr *a)
{
    char text[INET6_ADDRSTRLEN] = "?";
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    if (memcmp(a->addr, v4, 12) == 0) {
        inet_ntop(AF_INET, a->addr + 12, text, sizeof(text));
        snprintf(out, size, "%s:%u", text, a->port);
    } else {
        inet_ntop(AF_INET6, a->addr, text, sizeof(text));
        snprintf(out, size, "[%s]:%u", text, a->port);
    }
}

static void set_inet_name_and_keys(const struct build *b, const struct b_end *e,
                                   struct ips_end *row, const char *what)
{
    char local[64], remote[64];
    format_endpoint(local, sizeof(local), &e->laddr);
    format_endpoint(remote, sizeof(remote), &e->raddr);
    if (e->raddr.port)
        snprintf(row->name, sizeof(row->name), "%s %.55s-%.55s", what, local,
                 remote);
    else
        snprintf(row->name, sizeof(row->name), "%s %.55s", what, local);
    write_addr_key(row->key_local, &e->laddr);
    write_addr_key(row->key_remote, &e->raddr);
    row->key_len = IPS_KEY_INET;
    if (b_stay_within_netns(&e->laddr, &e->raddr))
        extend_key_by_host(b, e, row);
}

static void set_name_and_key_of_end(const struct build *b,
                                    const struct b_end *e, struct ips_end *row)
{
    unsigned long long dev = e->dev, ino = e->ino, peer = e->peer_ino;
    switch (row->kind) {
    case IPS_CHAN_PIPE:
        snprintf(row->name, sizeof(row->name), "pipe %llu:%llu", dev, ino);
        break;
    case IPS_CHAN_UNIX:
    case IPS_CHAN_UNIX_LISTEN:
    case IPS_CHAN_UNIX_DGRAM:
        if (peer)
            snprintf(row->name, sizeof(row->name), "unix %llu-%llu", ino, peer);
        else
            snprintf(row->name, sizeof(row->name), "unix %llu", ino);
        break;
    case IPS_CHAN_USER:
        snprintf(row->name, sizeof(row->name), "user %016llx",
                 (unsigned long long)e->name_hash);
        for (unsigned i = 0; i < IPS_KEY_USER; i++)
            row->key_local[i] = row->key_remote[i] =
                (uint8_t)(e->name_hash >> 8 * i);
        row->key_len = IPS_KEY_USER;
        break;
    case IPS_CHAN_UDP:
        set_inet_name_and_keys(b, e, row, "udp");
        break;
    default:
        set_inet_name_and_keys(b, e, row, "tcp");
        break;
    }
}

static int compare_ends_by_key(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct ips_end *x = &b->out->ends[i], *y = &b->out->ends[k];
    CMP3(x->kind, y->kind);
    int c = memcmp(x->key_local, y->key_local, sizeof(x->key_local));
    if (c == 0)
        c = memcmp(x->key_remote, y->key_remote, sizeof(x->key_remote));
    if (c)
        return c;
    CMP3(x->first_ns, y->first_ns);
    CMP3(i, k);
    return 0;
}

static int name_ends(struct build *b)
{
    uint32_t n = b->out->end_count;
    uint32_t *v = b_calloc(n, sizeof(*v), b->err);
    if (!v)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        set_name_and_key_of_end(b, &b->ends[i], &b->out->ends[i]);
        v[i] = i;
    }
    qsort_r(v, n, sizeof(*v), compare_ends_by_key, b);
    for (uint32_t i = 1; i < n; i++) {
        const struct ips_end *x = &b->out->ends[v[i - 1]];
        struct ips_end *y = &b->out->ends[v[i]];
        if (x->kind == y->kind && y->key_len &&
            memcmp(x->key_local, y->key_local, sizeof(x->key_local)) == 0 &&
            memcmp(x->key_remote, y->key_remote, sizeof(x->key_remote)) == 0)
            y->ordinal = x->ordinal + 1;
    }
    ips_free_large(v);
    return 0;
}

int b_fill_names_and_root(struct build *b)
{
    int rc = name_processes(b);
    if (rc == 0)
        rc = name_ends(b);
    if (rc < 0)
        return rc;
    set_thread_names_and_running_state(b);
    find_root_process_and_goal_node(b);
    b->out->first_ns = UINT64_MAX;
    for (uint32_t i = 0; i < b->in->stream_count; i++)
        if (!b->streams[i].empty)
            b->out->first_ns =
                ips_min_u64(b->out->first_ns, b->streams[i].first_ns);
    if (b->out->first_ns == UINT64_MAX)
        b->out->first_ns = 0;
    return 0;
}

/* ---- message matrix: the traffic of each process on each end ---- */

int b_find_or_add_traffic_row(struct maker *m, uint32_t end, uint32_t *index)
{
    struct build *b = m->b;
    struct b_end *e = &b->ends[end];
    if (e->traffic_proc == m->proc) {
        *index = e->traffic;
        return 0;
    }
    /* Chains come process by process, so each (end, process) pair gets one
     * row. */
    uint32_t n = b->out->traffic_count;
    if (b->from) {
        b->broken |= !b_incremental_find_traffic_row(b, end, m->proc, index);
        if (!b->broken) {
            e->traffic_proc = m->proc;
            e->traffic = *index;
            return 0;
        }
    }
    int rc = n < b->traffic_capacity
                 ? 0
                 : b_array_reserve((void **)&b->out->traffic, n,
                                   &b->traffic_capacity,
                                   sizeof(*b->out->traffic), b->err);
    if (rc == 0)
        rc = B_MORE(b->traffic_last, b->err);
    if (rc < 0)
        return rc;
    struct ips_traffic_window *cut = b->in->traffic;
    if (cut && n >= cut->capacity)
        rc = b_array_reserve((void **)&cut->row, n, &cut->capacity,
                             sizeof(*cut->row), b->err);
    if (rc < 0)
        return rc;
    if (cut) {
        cut->row[n] = (struct ips_traffic_cut){0};
        cut->count = n + 1;
    }
    b->out->traffic[n] = (struct ips_traffic){.end = end, .process = m->proc};
    b->out->traffic_count = n + 1;
    b->traffic_last.v[b->traffic_last.n++] = 0;
    e->traffic_proc = m->proc;
    e->traffic = n;
    *index = n;
    return 0;
}

void b_add_tally_to_traffic_sums(struct maker *m, const struct traffic_tally *y,
                                 enum b_dir dir)
{
    struct build *b = m->b;
    bool send = dir == B_SEND;
    if (!y->messages)
        return;
    struct ips_traffic *row = &b->out->traffic[y->row];
    struct ips_end *end = &b->out->ends[y->end];
    uint64_t *last = &b->traffic_last.v[y->row];
    *last = ips_max_u64(*last, y->t_ret);
    end->first_ns = ips_min_u64(end->first_ns, y->t);
    end->last_ns = ips_max_u64(end->last_ns, y->t_ret);
    *(send ? &row->sent_bytes : &row->recv_bytes) += y->bytes;
    *(send ? &row->sent_messages : &row->recv_messages) += y->messages;
    *(send ? &end->sent_bytes : &end->recv_bytes) += y->bytes;
    *(send ? &end->sent_messages : &end->recv_messages) += y->messages;
    *(send ? &m->row->bytes_out : &m->row->bytes_in) += y->bytes;
    *(send ? &m->row->messages_out : &m->row->messages_in) += y->messages;
}

static void flush_tally(struct maker *m, enum b_dir dir)
{
    b_add_tally_to_traffic_sums(m, &m->tally[dir], dir);
    m->tally[dir].messages = 0;
}

void b_flush_tallies(struct maker *m)
{
    flush_tally(m, B_SEND);
    flush_tally(m, B_RECV);
}

int b_flush_and_restart_tally(struct maker *m, uint32_t end, enum b_dir dir)
{
    struct traffic_tally *y = &m->tally[dir];
    flush_tally(m, dir);
    *y = (struct traffic_tally){.end = end, .t = UINT64_MAX};
    return b_find_or_add_traffic_row(m, end, &y->row);
}

void b_add_message_to_window_traffic(struct ips_traffic_window *w, uint32_t row,
                                     const struct interval *v, uint64_t len,
                                     bool send)
{
    struct ips_traffic_cut *r = &w->row[row];
    uint64_t t = send ? v->t : v->t_ret;
    if (t < w->from_ns && send) {
        r->sent_messages_before++;
        r->sent_bytes_before += len;
    }
    if (t < w->from_ns || t >= w->to_ns)
        return;
    *(send ? &r->sent_messages : &r->recv_messages) += 1;
    *(send ? &r->sent_bytes : &r->recv_bytes) += len;
}
