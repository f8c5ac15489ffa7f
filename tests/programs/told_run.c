/*
 * Writes the pool of a run on one machine as its agents would have, of what it
 * is told on its standard input (tests/system/told.py tells it): no clock is
 * read, so the run is known to the ns. One word list a line; times are ns since
 * the run began, CPU ns of the thread:
 *
 *   thread   PID TID start-kind T PPID PTID FORK_SEQ COMM
 *            the lines below are its, until the next
 *   chan     ID LOCAL_HOST PORT REMOTE_HOST PORT flags
 *            TCP, of 10.0.0.HOST
 *   io       record-type CHANNEL op T T_RET CPU CPU_RET BYTES
 *   fork     kind T CPU PID FORK_SEQ
 *   join     kind T T_RET CPU PID FORK_SEQ
 *   sync     record-type what T T_RET CPU OBJECT
 *   mark     T CPU TEXT
 *   module   T START END PATH    code of its process and of those it begins
 *   sample   T CPU ADDRESS...    where it was, then its callers
 *   delay    T NS                runnable but not running, since it began
 *   end      T CPU
 *
 * Kinds, types, ops and flags are the numbers of agent/pool/format.h. Threads
 * of equal PID are one process; the first one of machine m1 is the command.
 *
 * Usage: told_run POOL RUN MACHINE CORES < LINES
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/format.h"

#define BEGIN 1000000000ull
#define STREAMS 64u
#define SEGMENT (8u << 20)
#define PERIOD 1000000u /* CPU ns between samples */

static struct stream {
    struct ips_segment_header head;
    uint8_t *data;
    size_t at;
} stream[STREAMS];
static unsigned streams;
static bool sampled, delayed; /* some were told */

static void must(int fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "told_run: %s\n", what);
        exit(1);
    }
}

static void *put(enum ips_rec_type type, size_t bytes, uint32_t a, uint64_t t)
{
    must(streams > 0, "no thread yet");
    struct stream *s = &stream[streams - 1];
    bytes = (bytes + 7) & ~(size_t)7;
    must(s->at + bytes <= SEGMENT, "too much for one thread");
    struct ips_rec_head *h = (struct ips_rec_head *)(void *)(s->data + s->at);
    s->at += bytes;
    h->word = (uint32_t)type | (uint32_t)(bytes / 8) << 8;
    h->a = a;
    h->t = BEGIN + t;
    return h;
}

static uint64_t image_of(uint32_t pid)
{
    for (unsigned i = 0; i < streams; i++)
        if (stream[i].head.pid == pid)
            return stream[i].head.image_stamp;
    return 0;
}

static void put_thread(const char *line)
{
    uint32_t pid, tid, kind, ppid, ptid;
    uint64_t t, seq;
    char comm[16] = "";
    must(sscanf(line,
                "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu32
                " %" SCNu32 " %" SCNu64 " %15s",
                &pid, &tid, &kind, &t, &ppid, &ptid, &seq, comm) == 8,
         line);
    must(streams < STREAMS, "too many threads");
    uint64_t parent = image_of(ppid), own = image_of(pid);
    struct stream *s = &stream[streams++];
    s->data = calloc(1, SEGMENT);
    must(s->data != NULL, "no memory");
    s->head = (struct ips_segment_header){
        .magic = IPS_SEGMENT_MAGIC,
        .version = IPS_POOL_VERSION,
        .header_bytes = sizeof(s->head),
        .segment_bytes = SEGMENT,
        .pid = pid,
        .tid = tid,
        .image_stamp = own ? own : BEGIN + t,
        .stream_stamp = BEGIN + t,
        .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
        .flags = kind == IPS_START_TASK ? IPS_SEGMENT_TASK : 0,
        .state = IPS_SEGMENT_CLOSED};
    memcpy(s->head.comm, comm, sizeof(comm));
    s->at = sizeof(s->head);
    struct ips_rec_start *r = put(IPS_REC_START, sizeof(*r), kind, t);
    r->fork_seq = seq;
    r->ppid = ppid;
    r->ptid = ptid;
    r->parent_image = parent;
}

static struct ips_addr address(unsigned host, unsigned port)
{
    return (struct ips_addr){
        .family = 10, /* AF_INET6 */
        .port = (uint16_t)port,
        .addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)host}};
}

static void put_chan(const char *line)
{
    unsigned id, host, port, other, its_port, flags;
    must(sscanf(line, "%u %u %u %u %u %u", &id, &host, &port, &other, &its_port,
                &flags) == 6,
         line);
    struct ips_rec_chan *c = put(IPS_REC_CHAN, sizeof(*c), id, 0);
    c->h.t = stream[streams - 1].head.stream_stamp;
    c->kind = IPS_CHAN_TCP;
    c->side = IPS_SIDE_BOTH;
    c->flags = (uint8_t)flags;
    c->dev = 1;
    c->ino = (uint64_t)port << 16 | its_port;
    c->netns = 1;
    c->local = address(host, port);
    c->remote = address(other, its_port);
}

static void put_io(const char *line)
{
    unsigned type, channel, op;
    uint64_t t, ret, cpu, cpu_ret;
    int64_t bytes;
    must(sscanf(line,
                "%u %u %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                " %" SCNd64,
                &type, &channel, &op, &t, &ret, &cpu, &cpu_ret, &bytes) == 8,
         line);
    struct ips_rec_io *r = put((enum ips_rec_type)type, sizeof(*r), channel, t);
    r->t_ret = BEGIN + ret;
    r->cpu = cpu;
    r->cpu_ret = cpu_ret;
    r->op = (uint16_t)op;
    r->result = bytes;
}

static void put_fork(const char *line)
{
    unsigned kind, pid;
    uint64_t t, cpu, seq;
    must(sscanf(line, "%u %" SCNu64 " %" SCNu64 " %u %" SCNu64, &kind, &t, &cpu,
                &pid, &seq) == 5,
         line);
    struct ips_rec_fork *r = put(IPS_REC_FORK, sizeof(*r), pid, t);
    r->t_ret = BEGIN + t;
    r->cpu = r->cpu_ret = cpu;
    r->fork_seq = seq;
    r->kind = kind;
}

static void put_join(const char *line)
{
    unsigned kind, pid;
    uint64_t t, ret, cpu, seq;
    must(sscanf(line, "%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %" SCNu64,
                &kind, &t, &ret, &cpu, &pid, &seq) == 6,
         line);
    struct ips_rec_join *r = put(IPS_REC_JOIN, sizeof(*r), pid, t);
    r->t_ret = BEGIN + ret;
    r->cpu = r->cpu_ret = cpu;
    r->seq = seq;
    r->child_cpu_ns = UINT64_MAX;
    r->kind = kind;
}

static void put_sync(const char *line)
{
    unsigned type, what;
    uint64_t t, ret, cpu, object;
    must(sscanf(line, "%u %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                &type, &what, &t, &ret, &cpu, &object) == 6,
         line);
    struct ips_rec_sync *r = put((enum ips_rec_type)type, sizeof(*r), what, t);
    r->t_ret = BEGIN + ret;
    r->cpu = r->cpu_ret = cpu;
    r->object = object;
    /* Of a barrier: who comes last does not wait. */
    r->value =
        type == IPS_REC_RELEASE || (what == IPS_SYNC_BARRIER && ret == t);
}

static void put_mark(const char *line)
{
    uint64_t t, cpu;
    int text = 0;
    must(sscanf(line, "%" SCNu64 " %" SCNu64 " %n", &t, &cpu, &text) == 2,
         line);
    size_t len = strlen(line + text);
    struct ips_rec_text *r =
        put(IPS_REC_MARK, sizeof(*r) + len + 1, (uint32_t)len, t);
    r->cpu = cpu;
    memcpy(r->text, line + text, len + 1);
}

static void put_module(const char *line)
{
    uint64_t t, start, end;
    int path = 0;
    must(sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %n", &t, &start,
                &end, &path) == 3,
         line);
    size_t len = strlen(line + path);
    struct ips_rec_module *r =
        put(IPS_REC_MODULE, sizeof(*r) + len + 1, (uint32_t)len, t);
    r->start = start;
    r->end = end;
    memcpy(r->path, line + path, len + 1);
}

static void put_sample(const char *line)
{
    uint64_t t, cpu, frame[IPS_FRAMES_MAX];
    int at = 0, more = 0;
    uint32_t n = 0;
    must(sscanf(line, "%" SCNu64 " %" SCNu64 "%n", &t, &cpu, &at) == 2, line);
    while (n < IPS_FRAMES_MAX &&
           sscanf(line + at, "%" SCNu64 "%n", &frame[n], &more) == 1) {
        at += more;
        n++;
    }
    must(n > 0, line);
    struct ips_rec_sample *r =
        put(IPS_REC_SAMPLE, sizeof(*r) + n * sizeof(*frame), n, t);
    r->cpu = cpu;
    r->period_ns = PERIOD;
    memcpy(r->frames, frame, n * sizeof(*frame));
    sampled = true;
}

static void put_delay(const char *line)
{
    uint64_t t, ns;
    must(sscanf(line, "%" SCNu64 " %" SCNu64, &t, &ns) == 2, line);
    struct ips_rec_delay *r = put(IPS_REC_RUNDELAY, sizeof(*r), 0, t);
    r->delay_ns = ns;
    delayed = true;
}

static void put_end(const char *line)
{
    uint64_t t, cpu;
    must(sscanf(line, "%" SCNu64 " %" SCNu64, &t, &cpu) == 2, line);
    must(streams > 0, line);
    const struct ips_segment_header *h = &stream[streams - 1].head;
    enum ips_end_kind kind = h->pid == h->tid ? IPS_END_EXIT : IPS_END_THREAD;
    if (h->flags & IPS_SEGMENT_TASK)
        kind = IPS_END_TASK;
    struct ips_rec_end *r = put(IPS_REC_END, sizeof(*r), kind, t);
    r->cpu = cpu;
}

static void save(const char *dir, const char *name, const void *data, size_t n)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    must(fd >= 0 && write(fd, data, n) == (ssize_t)n && close(fd) == 0, path);
}

static void read_lines(void)
{
    static const struct {
        const char *word;
        void (*put)(const char *line);
    } kinds[] = {
        {"thread", put_thread}, {"chan", put_chan},     {"io", put_io},
        {"fork", put_fork},     {"join", put_join},     {"sync", put_sync},
        {"mark", put_mark},     {"module", put_module}, {"sample", put_sample},
        {"delay", put_delay},   {"end", put_end}};
    char line[1024], word[16];
    while (fgets(line, sizeof(line), stdin)) {
        size_t k = 0, n = sizeof(kinds) / sizeof(*kinds);
        int rest = 0;
        line[strcspn(line, "\n")] = 0;
        must(sscanf(line, "%15s %n", word, &rest) == 1, line);
        while (k < n && strcmp(kinds[k].word, word) != 0)
            k++;
        must(k < n, line);
        kinds[k].put(line + rest);
    }
}

int main(int argc, char **argv)
{
    char dir[3000], into[3000], name[32];
    must(argc == 5, "usage: told_run POOL RUN MACHINE CORES < LINES");
    read_lines();
    must(streams > 0, "no thread");
    struct ips_control c = {
        .magic = IPS_CONTROL_MAGIC,
        .version = IPS_POOL_VERSION,
        .control_bytes = sizeof(c),
        .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
        .quota_bytes = UINT64_MAX,
        .segment_bytes = SEGMENT,
        .root_pid = strcmp(argv[3], "m1") == 0 ? stream[0].head.pid : 0,
        .delays = delayed,
        .procedures = sampled ? IPS_PROCEDURES_SAMPLE : IPS_PROCEDURES_OFF,
        .sample_us = sampled ? PERIOD / 1000 : 0,
        .cpus = (uint32_t)atoi(argv[4])};
    snprintf(c.run, sizeof(c.run), "%s", argv[2]);
    snprintf(c.machine, sizeof(c.machine), "%s", argv[3]);
    snprintf(c.command, sizeof(c.command), "told");
    /* Whole when it comes into the pool. */
    snprintf(into, sizeof(into), "%s/%s", argv[1], argv[2]);
    snprintf(dir, sizeof(dir), "%s.%s", argv[1], argv[2]);
    must(mkdir(dir, 0700) == 0, dir);
    for (unsigned i = 0; i < streams; i++) {
        size_t bytes = (stream[i].at + 4095) & ~(size_t)4095;
        stream[i].head.segment_bytes = (uint32_t)bytes;
        memcpy(stream[i].data, &stream[i].head, sizeof(stream[i].head));
        snprintf(name, sizeof(name), "%u.%u.seg", stream[i].head.pid, i + 1);
        save(dir, name, stream[i].data, bytes);
    }
    save(dir, "control", &c, sizeof(c));
    must(rename(dir, into) == 0, into);
    return 0;
}
