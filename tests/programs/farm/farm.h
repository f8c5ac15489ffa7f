/*
 * A master that hands pieces of work to whichever worker is free, and the
 * workers: the frame of the programs of DRO-6 that ask for their work (pattern
 * search, Julia set) and of a plain work queue. See search.c, julia.c, jobs.c:
 * each is one source that makes a NAME-master and a NAME-worker.
 *
 * The order in which workers become free is not fixed, so neither is who does
 * which piece (DPM-14); what is printed does not depend on it.
 */
#ifndef FARM_H
#define FARM_H

#include "net.h"

#define FARM_MAX_WORKERS 64

struct farm {
    const char *name;
    uint32_t max_piece, max_result; /* bytes */
    /* Of the master. The next piece in `piece`, its bytes returned; 0: no
     * more. `take` gets the result of piece `id`, in no order. */
    uint32_t (*piece)(void *context, uint32_t id, uint8_t *piece);
    void (*take)(void *context, uint32_t id, const uint8_t *result,
                 uint32_t bytes);
    /* Of a worker: bytes of the result. */
    uint32_t (*work)(const uint8_t *piece, uint32_t bytes, uint8_t *result);
};

/* `workers`: addresses with commas; NULL: all is done here, for the known
 * answer. At most `window` pieces are with a worker at a time. */
void farm_master(const struct farm *f, void *context, char *workers,
                 uint32_t window);
/* Serves one master at `listen` until that closes. */
void farm_worker(const struct farm *f, const char *listen);
/* main of a worker. */
int farm_worker_main(const struct farm *f, int argc, char **argv);

#endif
