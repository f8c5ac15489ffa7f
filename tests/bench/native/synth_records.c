/* The run as records: one process a slave, a stream a thread, segments as the
 * agent writes them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/format.h"
#include "tests/bench/native/synth_private.h"

/* How long an agent uses a line at most (agent/record/cpu.c). */
#define LINE_NS 500000u

struct stream {
    uint8_t *data;
    size_t at;
    uint32_t seq;
    bool line; /* a long one that did not block stands in this segment */
    uint64_t line_t, line_cpu; /* its return */
};
struct writing {
    const struct synth_options *opt;
    struct synth_ends ends;
    uint32_t slave, segment_bytes;
    struct stream *stream; /* [threads]; data NULL: another slave's */
    uint32_t *ordinal;     /* [threads] among its slave's */
    synth_segment_sink *sink;
    void *arg;
};

static void begin_segment(struct writing *w, uint32_t thread)
{
    struct stream *s = &w->stream[thread];
    memset(s->data, 0, w->segment_bytes);
    struct ips_segment_header *h = (struct ips_segment_header *)(void *)s->data;
    h->magic = IPS_SEGMENT_MAGIC;
    h->version = IPS_POOL_VERSION;
    h->header_bytes = sizeof(*h);
    h->segment_bytes = w->segment_bytes;
    h->seq = s->seq;
    h->pid = SYNTH_PID(w->slave);
    h->tid = h->pid + w->ordinal[thread];
    h->image_stamp = 1;
    h->stream_stamp = 1 + w->ordinal[thread];
    h->clock = (struct ips_clock){IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32};
    h->state = IPS_SEGMENT_CLOSED;
    snprintf(h->comm, sizeof(h->comm), "synth");
    s->at = sizeof(*h);
    s->line = false;
}

static void end_segment(struct writing *w, uint32_t thread)
{
    struct stream *s = &w->stream[thread];
    w->sink(w->arg, thread, s->seq++, s->data, s->at);
}

static void *put(struct writing *w, uint32_t thread, uint32_t type,
                 size_t bytes, uint32_t a, uint64_t t)
{
    struct stream *s = &w->stream[thread];
    if (s->at + bytes > w->segment_bytes) {
        end_segment(w, thread);
        begin_segment(w, thread);
    }
    struct ips_rec_head *h = (struct ips_rec_head *)(void *)(s->data + s->at);
    s->at += bytes;
    h->word = type | (uint32_t)(bytes / 8) << 8;
    h->a = a;
    h->t = t;
    return h;
}

/* Slave m has the address 10.x.y.z of its number. A connection's ports: its
 * lower thread has its own number's, the other one that of the lower's. */
static struct ips_addr addr_of(const struct writing *w, uint32_t thread,
                               uint32_t peer)
{
    uint32_t m = synth_slave_of(w->opt, thread) + 1;
    return (struct ips_addr){
        .family = 10, /* AF_INET6 */
        .port = (uint16_t)(1024 + (thread < peer ? 2000u : 0u) + peer),
        .addr = {[10] = 0xff,
                 [11] = 0xff,
                 [12] = 10,
                 [13] = (uint8_t)(thread >> 8),
                 [14] = (uint8_t)thread,
                 [15] = (uint8_t)m},
    };
}

static void put_channels(struct writing *w, uint32_t a, uint64_t t)
{
    for (uint32_t b = 0; b < w->opt->threads; b++) {
        size_t there = (size_t)a * w->opt->threads + b;
        uint32_t end = w->ends.end_of[there];
        if (end == IPS_NO_NODE)
            continue;
        struct ips_rec_chan *c =
            put(w, a, IPS_REC_CHAN, sizeof(*c), end + 1, t);
        bool local = synth_slave_of(w->opt, b) == w->slave;
        c->kind = local ? IPS_CHAN_UNIX : IPS_CHAN_TCP;
        c->side = IPS_SIDE_BOTH;
        c->flags = a < b ? IPS_CHAN_CONNECTED : IPS_CHAN_ACCEPTED;
        c->dev = 1;
        c->ino = 100 + end;
        c->netns = 1;
        if (local) {
            c->peer_ino = 100 + w->ends.end_of[(size_t)b * w->opt->threads + a];
        } else {
            c->local = addr_of(w, a, b);
            c->remote = addr_of(w, b, a);
        }
    }
}

static void put_io(struct writing *w, const struct synth_op *op)
{
    uint32_t end =
        w->ends.end_of[(size_t)op->thread * w->opt->threads + op->peer];
    bool send = op->kind == SYNTH_SEND;
    uint64_t cpu = send ? op->cpu - SYNTH_SEND_NS : op->cpu;
    uint64_t cpu_ret = send ? op->cpu : op->cpu + SYNTH_RECV_NS;
    uint64_t site = send ? 0x401000 : 0x401040;
    struct stream *s = &w->stream[op->thread];
    /* On its core since the last long one, as io_event.h has it; after one that
     * blocked an agent has no line yet. */
    if (w->opt->forms && s->line && op->t - s->line_t < LINE_NS &&
        cpu - s->line_cpu == op->t - s->line_t &&
        cpu_ret - s->line_cpu == op->t_ret - s->line_t &&
        s->at + sizeof(struct ips_rec_io_short) <= w->segment_bytes) {
        struct ips_rec_io_short *o =
            put(w, op->thread, send ? IPS_REC_SEND_SHORT : IPS_REC_RECV_SHORT,
                sizeof(*o), end + 1, op->t);
        o->took = (uint32_t)(op->t_ret - op->t);
        o->result = op->len;
        o->site = site;
        return;
    }
    struct ips_rec_io *io =
        put(w, op->thread, send ? IPS_REC_SEND : IPS_REC_RECV, sizeof(*io),
            end + 1, op->t);
    io->t_ret = op->t_ret;
    io->cpu = cpu;
    io->cpu_ret = cpu_ret;
    io->result = op->len;
    io->site = site;
    s->line = cpu_ret - cpu == op->t_ret - op->t;
    s->line_t = op->t_ret;
    s->line_cpu = cpu_ret;
}

static void record_op(void *arg, const struct synth_op *op)
{
    struct writing *w = arg;
    uint32_t a = op->thread;
    if (!w->stream[a].data)
        return;
    switch (op->kind) {
    case SYNTH_START: {
        bool main_thread = w->ordinal[a] == 0;
        begin_segment(w, a);
        struct ips_rec_start *st =
            put(w, a, IPS_REC_START, sizeof(*st),
                main_thread ? IPS_START_ROOT : IPS_START_THREAD, op->t);
        st->parent_image = main_thread ? 0 : 1;
        put_channels(w, a, op->t);
        break;
    }
    case SYNTH_SEND:
    case SYNTH_RECV:
        put_io(w, op);
        break;
    case SYNTH_END: {
        struct ips_rec_end *e =
            put(w, a, IPS_REC_END, sizeof(*e),
                w->ordinal[a] ? IPS_END_THREAD : IPS_END_EXIT, op->t);
        e->cpu = op->cpu;
        end_segment(w, a);
        break;
    }
    }
}

int synth_records(const struct synth_options *opt, uint32_t slave,
                  uint32_t segment_bytes, synth_segment_sink *sink, void *arg,
                  struct ips_err *err)
{
    struct writing w = {.opt = opt,
                        .slave = slave,
                        .segment_bytes = segment_bytes,
                        .sink = sink,
                        .arg = arg};
    uint32_t ordinal = 0;
    int rc = synth_ends_init(&w.ends, opt, err);
    if (rc < 0)
        return rc;
    w.stream = calloc(opt->threads, sizeof(*w.stream));
    w.ordinal = calloc(opt->threads, sizeof(*w.ordinal));
    bool fine = w.stream && w.ordinal;
    for (uint32_t a = 0; a < opt->threads && fine; a++) {
        if (synth_slave_of(opt, a) != slave)
            continue;
        w.ordinal[a] = ordinal++;
        w.stream[a].data = malloc(segment_bytes);
        fine = w.stream[a].data;
    }
    rc = fine ? synth_walk(opt, record_op, &w, err)
              : ips_err_set(err, IPS_E_NO_MEMORY, "%u streams", opt->threads);
    for (uint32_t a = 0; a < opt->threads && w.stream; a++)
        free(w.stream[a].data);
    free(w.stream);
    free(w.ordinal);
    synth_ends_release(&w.ends);
    return rc;
}

/* ---- into a pool ------------------------------------------------------ */

struct pool {
    const char *dir;
    struct ips_err *err;
    uint32_t bytes;
    int rc;
};

/* A file of `size` bytes, of which `used` are written. */
static int write_file(const char *path, const void *data, size_t used,
                      size_t size, struct ips_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool fine = fd >= 0 && write(fd, data, used) == (ssize_t)used &&
                ftruncate(fd, (off_t)size) == 0;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    return fine ? 0
                : ips_err_set(err, IPS_E_IO, "%s: %s", path, strerror(saved));
}

static void to_file(void *arg, uint32_t thread, uint32_t seq, const void *data,
                    size_t used)
{
    struct pool *p = arg;
    char path[4096];
    if (p->rc < 0)
        return;
    snprintf(path, sizeof(path), "%s/%u.%u.seg", p->dir, thread, seq);
    p->rc = write_file(path, data, used, p->bytes, p->err);
}

int synth_pool(const struct synth_options *opt, uint32_t slave,
               const char *pool, const char *run, struct ips_err *err)
{
    enum { SEGMENT_BYTES = 4 << 20 };
    char dir[3000], path[4096];
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC,
                            .version = IPS_POOL_VERSION,
                            .control_bytes = sizeof(c),
                            .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
                            .quota_bytes = UINT64_MAX,
                            .segment_bytes = SEGMENT_BYTES};
    snprintf(c.run, sizeof(c.run), "%s", run);
    snprintf(c.machine, sizeof(c.machine), "m%u", slave);
    snprintf(c.command, sizeof(c.command), "synth %s",
             synth_pattern_names[opt->pattern]);
    c.root_pid = slave == 0 ? SYNTH_PID(0) : 0;
    snprintf(dir, sizeof(dir), "%s/%s", pool, run);
    snprintf(path, sizeof(path), "%s/control", dir);
    if (mkdir(dir, 0700) < 0)
        return ips_err_set(err, IPS_E_IO, "%s: %s", dir, strerror(errno));
    struct pool p = {.dir = dir, .err = err, .bytes = SEGMENT_BYTES};
    int rc = synth_records(opt, slave, SEGMENT_BYTES, to_file, &p, err);
    if (rc == 0)
        rc = p.rc;
    return rc < 0 ? rc : write_file(path, &c, sizeof(c), sizeof(c), err);
}
