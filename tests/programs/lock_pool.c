/*
 * Writes the pool of a run whose two threads share a mutex, as their agents
 * would have: no clock is read. Both compute but for the wait.
 *
 *   A  3 ms; takes the mutex, which is free; 6 ms; gives it back (B waits); 1
 * ms B  6 ms; waits for it for 3 ms; 3 ms; gives it back (nobody waits); 2 ms
 *
 * That A took it has no record (agent/preload/sync.h).
 *
 * With `free` nobody waits: there is one core, and B runs when A has ended.
 *
 *   A  3 ms; 6 ms with the mutex; 1 ms           B  4 ms; 3 ms with it; 2 ms
 *
 * So nothing of the mutex is recorded; with `all` it is, by --locks=all; so
 * with `readers`, where it is a rwlock that both read, and `writer`: A writes.
 *
 * Usage: lock_pool POOL RUN [free|all|readers|writer]
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/format.h"

#define MS 1000000ULL
#define BEGIN (1000 * MS)
#define PID 0x7f000000u /* nobody's */
#define LOCK 0x1000u

static union {
    uint8_t data[16384];
    struct ips_segment_header head;
} w;
static size_t at;

static void *put(enum ips_rec_type type, size_t bytes, uint32_t a, uint64_t t)
{
    struct ips_rec_head *h = (struct ips_rec_head *)(void *)(w.data + at);
    bytes = (bytes + 7) & ~(size_t)7;
    at += bytes;
    h->word = (uint32_t)type | (uint32_t)(bytes / 8) << 8;
    h->a = a;
    h->t = BEGIN + t;
    return h;
}

static void begin(uint32_t thread)
{
    memset(&w, 0, sizeof(w));
    w.head = (struct ips_segment_header){
        .magic = IPS_SEGMENT_MAGIC,
        .version = IPS_POOL_VERSION,
        .header_bytes = sizeof(w.head),
        .segment_bytes = sizeof(w.data),
        .pid = PID,
        .tid = PID + thread,
        .image_stamp = 1,
        .stream_stamp = 1 + thread,
        .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
        .state = IPS_SEGMENT_CLOSED,
        .comm = "locks"};
    at = sizeof(w.head);
    (void)put(IPS_REC_START, sizeof(struct ips_rec_start),
              thread ? IPS_START_THREAD : IPS_START_ROOT, 0);
}

static void lock(enum ips_rec_type type, uint64_t t, uint64_t t_ret,
                 uint64_t cpu)
{
    struct ips_rec_sync *r = put(type, sizeof(*r), IPS_SYNC_MUTEX, t);
    r->t_ret = BEGIN + t_ret;
    r->cpu = r->cpu_ret = cpu;
    r->object = LOCK;
    r->value = type == IPS_REC_RELEASE;
}

static void taken(enum ips_sync kind, uint64_t t, uint64_t t_end, uint64_t cpu)
{
    struct ips_rec_lock *r = put(IPS_REC_ACQUIRE_SHORT, sizeof(*r), kind, t);
    r->cpu = cpu;
    r->object = LOCK;
    r = put(IPS_REC_RELEASE_SHORT, sizeof(*r), kind, t_end);
    r->cpu = cpu + t_end - t;
    r->object = LOCK;
}

static void end(enum ips_end_kind kind, uint64_t t, uint64_t cpu)
{
    struct ips_rec_end *e = put(IPS_REC_END, sizeof(*e), kind, t);
    e->cpu = cpu;
}

static int save(const char *dir, const char *name, const void *data, size_t n)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) < 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int save_all(const char *dir, const struct ips_control *c)
{
    begin(0);
    lock(IPS_REC_RELEASE, 9 * MS, 9 * MS, 9 * MS);
    end(IPS_END_THREAD, 10 * MS, 10 * MS);
    if (save(dir, "1.1.seg", &w, sizeof(w)))
        return 1;
    begin(1);
    lock(IPS_REC_ACQUIRE, 6 * MS, 9 * MS, 6 * MS);
    lock(IPS_REC_RELEASE, 12 * MS, 12 * MS, 9 * MS);
    end(IPS_END_EXIT, 14 * MS, 11 * MS);
    return save(dir, "1.2.seg", &w, sizeof(w)) ||
           save(dir, "control", c, sizeof(*c));
}

static int save_free(const char *dir, const struct ips_control *c,
                     const enum ips_sync kind[2])
{
    bool all = c->locks == IPS_LOCKS_ALL;
    begin(0);
    if (all)
        taken(kind[0], 3 * MS, 9 * MS, 3 * MS);
    end(IPS_END_THREAD, 10 * MS, 10 * MS);
    if (save(dir, "1.1.seg", &w, sizeof(w)))
        return 1;
    begin(1);
    if (all)
        taken(kind[1], 14 * MS, 17 * MS, 4 * MS);
    end(IPS_END_EXIT, 19 * MS, 9 * MS);
    return save(dir, "1.2.seg", &w, sizeof(w)) ||
           save(dir, "control", c, sizeof(*c));
}

int main(int argc, char **argv)
{
    char dir[3000], into[3000];
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC,
                            .version = IPS_POOL_VERSION,
                            .control_bytes = sizeof(c),
                            .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
                            .quota_bytes = UINT64_MAX,
                            .segment_bytes = sizeof(w.data),
                            .cpus = 2,
                            .root_pid = PID};
    static const struct {
        const char *word;
        enum ips_sync kind[2];
    } ways[] = {{"free", {IPS_SYNC_MUTEX, IPS_SYNC_MUTEX}},
                {"all", {IPS_SYNC_MUTEX, IPS_SYNC_MUTEX}},
                {"readers", {IPS_SYNC_RDLOCK, IPS_SYNC_RDLOCK}},
                {"writer", {IPS_SYNC_WRLOCK, IPS_SYNC_RDLOCK}}};
    bool waits = argc == 3;
    size_t way = 0;
    while (argc == 4 && way < 4 && strcmp(argv[3], ways[way].word))
        way++;
    if (argc < 3 || argc > 4 || way == 4) {
        fprintf(stderr, "usage: lock_pool POOL RUN "
                        "[free|all|readers|writer]\n");
        return 2;
    }
    if (!waits) {
        c.cpus = 1;
        c.locks = way ? IPS_LOCKS_ALL : IPS_LOCKS_CONTENDED;
    }
    snprintf(c.run, sizeof(c.run), "%s", argv[2]);
    snprintf(c.machine, sizeof(c.machine), "m1");
    snprintf(c.command, sizeof(c.command), "locks");
    /* Whole when it comes into the pool. */
    snprintf(into, sizeof(into), "%s/%s", argv[1], argv[2]);
    snprintf(dir, sizeof(dir), "%s.%s", argv[1], argv[2]);
    if (mkdir(dir, 0700) < 0) {
        perror(dir);
        return 1;
    }
    if (waits ? save_all(dir, &c) : save_free(dir, &c, ways[way].kind))
        return 1;
    if (rename(dir, into) < 0) {
        perror(into);
        return 1;
    }
    return 0;
}
