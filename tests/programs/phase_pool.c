/*
 * Writes the pool of one machine of a run whose phases are known to the ns, as
 * the agents of two processes on two machines would have: no clock is read.
 *
 *     0 - 200 ms  m1 computes alone
 *   200 - 320 ms  m1 and m2 talk, a message each way every 12 us
 *   320 - 420 ms  m1 waits for m2, which sleeps
 *   420 - 510 ms  m2 computes; then it sends one message, and both end
 *
 * Marks: "talk" and "idle" by m1, "again" by m2. m2's clock is SHIFT_NS ahead.
 *
 * Usage: phase_pool POOL RUN 1|2 SHIFT_NS [MORE_NS]
 * MORE_NS: so much longer m1 computes alone; all that follows is later.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/format.h"

#define MS 1000000ULL
#define US 1000ULL
#define BEGIN (1000 * MS)
#define TALK (200 * MS + w.more)
#define IDLE (320 * MS + w.more)
#define AGAIN (420 * MS + w.more)
#define OVER (510 * MS + w.more)
#define ROUND (12 * US)
#define PID 0x7f000000u /* nobody's */
#define CHANNEL 1u

static struct {
    uint64_t shift, more, cpu;
    uint8_t data[8u << 20];
    size_t at;
} w;

static void *put(enum ips_rec_type type, size_t bytes, uint32_t a, uint64_t t)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (w.at + bytes > sizeof(w.data))
        abort();
    struct ips_rec_head *h = (struct ips_rec_head *)(void *)(w.data + w.at);
    w.at += bytes;
    h->word = (uint32_t)type | (uint32_t)(bytes / 8) << 8;
    h->a = a;
    h->t = BEGIN + w.shift + t;
    return h;
}

/* A call from t to t_ret, of which it was on a core for `cpu`. */
static void io(enum ips_rec_type type, uint32_t channel, uint64_t t,
               uint64_t t_ret, uint64_t cpu, enum ips_op op)
{
    struct ips_rec_io *r = put(type, sizeof(*r), channel, t);
    r->t_ret = BEGIN + w.shift + t_ret;
    r->cpu = w.cpu;
    r->cpu_ret = w.cpu += cpu;
    r->result = type == IPS_REC_BLOCK ? 0 : 64;
    r->op = (uint16_t)op;
}

static void mark(const char *text, uint64_t t)
{
    size_t len = strlen(text);
    struct ips_rec_text *r =
        put(IPS_REC_MARK, sizeof(*r) + len + 1, (uint32_t)len, t);
    r->cpu = w.cpu;
    memcpy(r->text, text, len + 1);
}

static void begin(int side)
{
    struct ips_segment_header *h = (void *)w.data;
    *h = (struct ips_segment_header){
        .magic = IPS_SEGMENT_MAGIC,
        .version = IPS_POOL_VERSION,
        .header_bytes = sizeof(*h),
        .segment_bytes = sizeof(w.data),
        .pid = PID + (uint32_t)side,
        .tid = PID + (uint32_t)side,
        .image_stamp = 1,
        .stream_stamp = 1,
        .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
        .state = IPS_SEGMENT_CLOSED,
        .comm = "talker"};
    w.at = sizeof(*h);
    (void)put(IPS_REC_START, sizeof(struct ips_rec_start), IPS_START_ROOT, 0);
    struct ips_rec_chan *c = put(IPS_REC_CHAN, sizeof(*c), CHANNEL, 0);
    c->kind = IPS_CHAN_TCP;
    c->side = IPS_SIDE_BOTH;
    c->flags = side == 1 ? IPS_CHAN_CONNECTED : IPS_CHAN_ACCEPTED;
    c->dev = 1;
    c->ino = 100;
    c->netns = 1;
    for (int end = 1; end <= 2; end++) {
        struct ips_addr *a = end == side ? &c->local : &c->remote;
        *a = (struct ips_addr){
            .family = 10, /* AF_INET6 */
            .port = (uint16_t)(4000 + end),
            .addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)end}};
    }
}

static void end(void)
{
    uint64_t t = OVER + 2 * MS;
    struct ips_rec_end *e = put(IPS_REC_END, sizeof(*e), IPS_END_EXIT, t);
    e->cpu = w.cpu;
}

static void first_side(void)
{
    w.cpu = TALK; /* it did nothing else */
    mark("talk", TALK);
    for (uint64_t t = TALK; t + ROUND <= IDLE; t += ROUND) {
        io(IPS_REC_SEND, CHANNEL, t, t + 2 * US, 2 * US, IPS_OP_DATA);
        io(IPS_REC_RECV, CHANNEL, t + 2 * US, t + 11 * US, 1 * US, IPS_OP_DATA);
    }
    mark("idle", IDLE);
    io(IPS_REC_RECV, CHANNEL, IDLE, OVER + 9 * US, 1 * US, IPS_OP_DATA);
}

static void other_side(void)
{
    for (uint64_t t = TALK; t + ROUND <= IDLE; t += ROUND) {
        io(IPS_REC_RECV, CHANNEL, t == TALK ? 0 : t - 3 * US, t + 5 * US,
           1 * US, IPS_OP_DATA);
        io(IPS_REC_SEND, CHANNEL, t + 6 * US, t + 8 * US, 2 * US, IPS_OP_DATA);
    }
    io(IPS_REC_BLOCK, 0, IDLE, AGAIN, 0, IPS_OP_SLEEP);
    mark("again", AGAIN);
    w.cpu += OVER - AGAIN;
    io(IPS_REC_SEND, CHANNEL, OVER, OVER + 2 * US, 2 * US, IPS_OP_DATA);
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

int main(int argc, char **argv)
{
    char dir[3000];
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: phase_pool POOL RUN 1|2 SHIFT_NS [MORE_NS]\n");
        return 2;
    }
    int side = argv[3][0] == '1' ? 1 : 2;
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC,
                            .version = IPS_POOL_VERSION,
                            .control_bytes = sizeof(c),
                            .clock = {IPS_CLOCK_RAW, 0, 0, 0, 1ULL << 32},
                            .quota_bytes = UINT64_MAX,
                            .segment_bytes = sizeof(w.data),
                            .cpus = 1};
    snprintf(c.run, sizeof(c.run), "%s", argv[2]);
    snprintf(c.machine, sizeof(c.machine), "m%d", side);
    snprintf(c.command, sizeof(c.command), "talker");
    c.root_pid = side == 1 ? PID + 1u : 0;
    w.shift = strtoull(argv[4], NULL, 10);
    w.more = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    begin(side);
    if (side == 1)
        first_side();
    else
        other_side();
    end();
    /* Whole when it comes into the pool. */
    char into[3000];
    snprintf(into, sizeof(into), "%s/%s", argv[1], argv[2]);
    snprintf(dir, sizeof(dir), "%s.%s", argv[1], argv[2]);
    if (mkdir(dir, 0700) < 0) {
        perror(dir);
        return 1;
    }
    if (save(dir, "1.1.seg", w.data, sizeof(w.data)) ||
        save(dir, "control", &c, sizeof(c)))
        return 1;
    if (rename(dir, into) < 0) {
        perror(into);
        return 1;
    }
    return 0;
}
