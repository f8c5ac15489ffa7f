/* Frees the slave's data about processes that have ended: a run of a week may
 * have millions of them. The database keeps their rows. */
#include <stdlib.h>

#include "slave/drain/drain.h"

#define FORGET_NS SLAVE_SECOND_NS

/* Returns true if the slave's data about the image can be freed: its process is
 * dead, the database says so, and it is in the slave's pid namespace (in
 * another one, its death would be only a guess). */
static bool can_free_data_of_image(const struct slave_drain *d,
                                   const struct slave_image *i)
{
    return i->state == SLAVE_IMAGE_DEAD && i->death_marked &&
           i->pidns == d->pidns;
}

static void free_unused_streams_and_mark_images(struct slave_drain *d,
                                                struct slave_run *run)
{
    run->streams_tail = NULL;
    for (struct slave_stream **p = &run->streams; *p;) {
        struct slave_stream *st = *p;
        if (!st->in_use && st->stored && !st->dirty &&
            can_free_data_of_image(d, st->image)) {
            *p = st->next;
            slave_hashmap_remove(&run->stream_map, &st->link);
            free(st);
            continue;
        }
        st->image->in_use = true;
        run->streams_tail = st;
        p = &st->next;
    }
}

void slave_run_free_dead_processes(struct slave_drain *d, struct slave_run *run,
                                   uint64_t now_ns)
{
    if (now_ns < run->next_removal_ns)
        return;
    run->next_removal_ns = now_ns + FORGET_NS;
    for (struct slave_stream *st = run->streams; st; st = st->next)
        st->in_use = false;
    for (struct slave_image *i = run->images; i; i = i->next)
        i->in_use = false;
    for (struct slave_segment *s = run->segments; s; s = s->next) {
        /* This segment's header was not read yet (after a restart), so it may
         * belong to any stream. */
        if (s->state == SLAVE_SEG_NEW)
            return;
        if (s->stream)
            s->stream->in_use = true;
    }
    free_unused_streams_and_mark_images(d, run);
    for (struct slave_image **p = &run->images; *p;) {
        struct slave_image *i = *p;
        if (i->in_use || !can_free_data_of_image(d, i)) {
            p = &i->next;
            continue;
        }
        *p = i->next;
        slave_liveness_close_pidfd(i);
        free(i);
    }
}
