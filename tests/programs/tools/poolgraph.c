/*
 * poolgraph RUN-DIRECTORY: the activity graph of one machine's run, built
 * straight from the pool's segments, in the format of `ipsq graph --format
 * jsonl`; a last line {"counts":...} carries what a certificate would. Every
 * process is taken for ended and every end without a local peer for untraced.
 *
 * For tests: the builder against strace with no daemon in between. Only runs
 * whose segments no slave has drained yet.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slave/build/build.h"
#include "tests/support/pool_cursor.h"

struct segment {
    struct ips_segment_header head;
    uint8_t *records;
    size_t len;
};

static struct segment *segments;
static size_t segment_count;

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "poolgraph: no memory\n");
        exit(1);
    }
    return p;
}

static void read_records(struct segment *s, struct pool_cursor *c,
                         const char *file)
{
    for (;;) {
        static _Alignas(8) unsigned char rec[IPS_REC_MAX_BYTES];
        size_t len = 0;
        enum pool_cursor_answer answer = pool_cursor_next(c, rec, &len);
        if (answer == POOL_CURSOR_MORE) {
            memcpy(s->records + s->len, rec, len);
            s->len += len;
        } else if (answer == POOL_CURSOR_PENDING) {
            pool_cursor_skip(c);
        } else {
            if (answer == POOL_CURSOR_CORRUPT)
                fprintf(stderr, "poolgraph: %s: corrupt\n", file);
            return;
        }
    }
}

static void read_segment(int dir, const char *file)
{
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    struct ips_err err = {0};
    struct segment s = {0};
    struct pool_cursor c;
    if (fd < 0 || fstat(fd, &st) < 0) {
        perror(file);
        exit(1);
    }
    /* Its process ended before it gave it a size, or while it was made. */
    int rc = st.st_size ? pool_cursor_open(&c, fd, &s.head, &err) : IPS_E_BUSY;
    if (rc == 0) {
        segments =
            need(realloc(segments, (segment_count + 1) * sizeof(*segments)));
        s.records = need(malloc(c.size));
        read_records(&s, &c, file);
        segments[segment_count++] = s;
    } else if (rc != IPS_E_BUSY) {
        fprintf(stderr, "poolgraph: %s: %s\n", file, err.msg);
        exit(1);
    }
    close(fd);
}

static int by_stream(const void *pa, const void *pb)
{
    const struct ips_segment_header *a = &((const struct segment *)pa)->head;
    const struct ips_segment_header *b = &((const struct segment *)pb)->head;
#define ORDER(field)                                                           \
    if (a->field != b->field)                                                  \
    return a->field < b->field ? -1 : 1
    ORDER(pidns);
    ORDER(pid);
    ORDER(image_stamp);
    ORDER(tid);
    ORDER(stream_stamp);
    ORDER(seq);
#undef ORDER
    return 0;
}

static void make_streams(struct ips_build_input *in)
{
    qsort(segments, segment_count, sizeof(*segments), by_stream);
    struct ips_stream_in *streams =
        need(calloc(segment_count + 1, sizeof(*streams)));
    struct ips_chunk *chunks = need(calloc(segment_count + 1, sizeof(*chunks)));
    for (size_t i = 0; i < segment_count; i++) {
        struct segment *s = &segments[i];
        chunks[i] = (struct ips_chunk){s->records, s->len};
        if (s->head.seq == 0) {
            struct ips_stream_in *made = &streams[in->stream_count++];
            memcpy(&made->head, &s->head, sizeof(s->head));
            made->chunks = &chunks[i];
            made->dead = true;
        }
        struct ips_stream_in *to = &streams[in->stream_count - 1];
        to->chunk_count++;
        for (int k = 0; k < IPS_LOST_COUNT; k++)
            to->lost[k] += atomic_load(&s->head.lost[k]);
    }
    in->streams = streams;
}

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {
#define X(name, number) [number] = #name,
        IPS_NODE_KINDS(X)
#undef X
    };
    return names[kind];
}

static const char *xkind_name(uint8_t kind)
{
    static const char *const names[] = {
#define X(name, number, text) [number] = text,
        IPS_XKINDS(X)
#undef X
    };
    return names[kind];
}

static void put_node(const struct ips_built *b, const struct ips_chain *chain,
                     uint32_t i)
{
    const struct ips_graph *g = &b->g;
    printf("{\"id\":%u,\"machine\":\"m1\",\"pid\":%u,\"tid\":%u,"
           "\"kind\":\"%s\"",
           i, chain->pid, chain->tid, kind_name(g->kind[i]));
    if (i == chain->first)
        printf(",\"pred\":null,\"arc_cpu_ns\":null");
    else
        printf(",\"pred\":%u,\"arc_cpu_ns\":%" PRIu64, i - 1, g->w[i]);
    printf(",\"arc_sched_ns\":null,\"arc_wall_ns\":null");
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    bool present = false;
    uint64_t weight = g->xpred[i] == IPS_NO_NODE
                          ? 0
                          : ips_cross_arc_weight(g, i, &lane, &present);
    if (g->xpred[i] == IPS_NO_NODE)
        printf(",\"xpred\":null,\"xarc_cpu_ns\":null");
    else
        printf(",\"xpred\":%u,\"xarc_cpu_ns\":%" PRIu64, g->xpred[i], weight);
    printf(",\"xarc_sched_ns\":null,\"xarc_wall_ns\":null");
    if (g->xkind[i])
        printf(",\"xkind\":\"%s\"", xkind_name(g->xkind[i]));
    else
        printf(",\"xkind\":null");
    printf(",\"t_ns\":%" PRIu64 ",\"bytes\":%" PRIu64, g->t_ns[i], g->xlen[i]);
    if (g->site[i] != UINT32_MAX)
        printf(",\"channel\":\"%s\"", b->ends[g->site[i]].name);
    else
        printf(",\"channel\":null");
    puts("}");
}

static void put_graph(const struct ips_built *b)
{
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_chain *chain = &b->g.chains[c];
        for (uint32_t k = 0; k < chain->count; k++)
            put_node(b, chain, chain->first + k);
    }
    uint64_t lost = 0;
    for (int k = 0; k < IPS_LOST_COUNT; k++)
        lost += b->counts.lost[k];
    printf("{\"counts\":{\"events\":%" PRIu64 ",\"lost\":%" PRIu64
           ",\"unmatched\":%" PRIu64 ",\"ambiguous\":%" PRIu64
           ",\"pending\":%" PRIu64 ",\"external\":%" PRIu64 ",\"idle\":%" PRIu64
           ",\"untraced\":%" PRIu64 ",\"unattributed_ns\":%" PRIu64
           ",\"elapsed_ns\":%" PRIu64 "},\"parents\":{",
           b->counts.events, lost, b->counts.unmatched, b->counts.ambiguous,
           b->counts.pending, b->counts.external, b->counts.idle,
           b->counts.untraced, b->counts.unattributed_ns, b->goal_elapsed_ns);
    for (uint32_t p = 0; p < b->proc_count; p++) {
        const struct ips_proc *proc = &b->procs[p];
        printf("%s\"%u\":", p ? "," : "", proc->pid);
        if (proc->parent == IPS_NONE)
            printf("null");
        else
            printf("%u", b->procs[proc->parent].pid);
    }
    puts("}}");
}

static int settle_peers(struct ips_built *b, struct ips_err *err)
{
    struct ips_peer_row *rows = need(calloc(b->end_count + 1, sizeof(*rows)));
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->end_count; i++)
        if (b->ends[i].peer != IPS_PEER_LOCAL)
            rows[count++] = (struct ips_peer_row){.end = i, .traced = false};
    int rc = ips_built_set_peers_and_remake_arcs(b, rows, count, err);
    free(rows);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: poolgraph RUN-DIRECTORY\n");
        return 2;
    }
    int dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = opendir(argv[1]);
    if (dir < 0 || !list) {
        perror(argv[1]);
        return 1;
    }
    for (struct dirent *e = readdir(list); e; e = readdir(list)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && strcmp(dot, IPS_SEGMENT_SUFFIX) == 0)
            read_segment(dir, e->d_name);
    }
    closedir(list);
    close(dir);
    struct ips_err err = {0};
    struct ips_build_input in = {0};
    struct ips_built built;
    if (ips_control_read_and_check_copy(argv[1], &in.control, &err) < 0) {
        fprintf(stderr, "poolgraph: %s\n", err.msg);
        return 1;
    }
    make_streams(&in);
    if (ips_build(&in, &built, &err) < 0 || settle_peers(&built, &err) < 0 ||
        ips_graph_check_invariants(&built.g, &err) < 0) {
        fprintf(stderr, "poolgraph: %s\n", err.msg);
        return 1;
    }
    put_graph(&built);
    ips_built_release(&built);
    ips_control_free(in.control);
    for (size_t i = 0; i < segment_count; i++)
        free(segments[i].records);
    free(segments);
    if (in.stream_count) { /* both arrays begin with the first stream */
        free((void *)(uintptr_t)in.streams[0].chunks);
        free((void *)(uintptr_t)in.streams);
    }
    return 0;
}
