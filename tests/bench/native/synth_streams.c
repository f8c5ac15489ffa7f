#include "tests/bench/native/synth_streams.h"

#include <stdlib.h>
#include <string.h>

static void take(void *arg, uint32_t thread, uint32_t seq, const void *data,
                 size_t used)
{
    struct synth_streams *s = arg;
    uint32_t *k = &s->stream_of[thread];
    if (s->no_memory)
        return;
    if (*k == 0) {
        *k = ++s->count;
        memcpy(&s->in[*k - 1].head, data, sizeof(s->in->head));
    }
    struct ips_stream_in *in = &s->in[*k - 1];
    size_t len = used - sizeof(in->head);
    struct ips_chunk *chunk =
        realloc(s->chunk[*k - 1], (seq + 1) * sizeof(*chunk));
    uint8_t *copy = malloc(len + 1);
    if (chunk)
        in->chunks = s->chunk[*k - 1] = chunk;
    if (!chunk || !copy) {
        free(copy);
        s->no_memory = true;
        return;
    }
    memcpy(copy, (const uint8_t *)data + sizeof(in->head), len);
    chunk[in->chunk_count++] = (struct ips_chunk){copy, len};
}

struct synth_streams *synth_streams(const struct synth_options *opt,
                                    uint32_t slave, uint32_t segment_bytes,
                                    struct ips_err *err)
{
    struct synth_streams *s = calloc(1, sizeof(*s));
    int rc = 0;
    if (s)
        rc = synth_records(opt, slave, segment_bytes, take, s, err);
    if (s && rc == 0 && !s->no_memory)
        return s;
    if (rc == 0)
        (void)ips_err_set(err, IPS_E_NO_MEMORY, "a synthetic run's records");
    synth_streams_free(s);
    return NULL;
}

void synth_streams_free(struct synth_streams *s)
{
    for (uint32_t i = 0; s && i < s->count; i++) {
        for (uint32_t k = 0; k < s->in[i].chunk_count; k++)
            free((void *)(uintptr_t)s->chunk[i][k].data);
        free(s->chunk[i]);
    }
    free(s);
}
