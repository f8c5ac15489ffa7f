/*
 * What can be asked about in a run: machines, processes, procedures and
 * message classes, each a set of features (analysis/whatif/feature.h), so that
 * slack and what-if speak of them. Pure: a merged graph and tables of names in.
 *
 * Features, in this order: the rest of each process; each class of messages
 * (sender, receiver); each procedure in each process. A message class is that
 * of arcs of data and of waits outside; other cross arcs weigh nothing.
 * A procedure is one thing wherever it ran: same name, module and file.
 * Source: ALGORITHMS 4; IPS-12.
 */
#ifndef IPS_MASTER_PATH_ENTITIES_H
#define IPS_MASTER_PATH_ENTITIES_H

#include "analysis/whatif/feature.h"

enum thing_kind {
    THING_MACHINE,
    THING_PROCESS,
    THING_PROCEDURE,
    THING_MESSAGE,
    THING_KINDS
};
extern const char *const thing_kind_names[THING_KINDS];

#define THING_NONE UINT32_MAX
/* `to` of messages that nobody traced sent. */
#define THING_EXTERNAL (UINT32_MAX - 1)
#define THING_IDLE (UINT32_MAX - 2)

struct thing_symbol { /* borrowed texts */
    const char *name, *module, *file;
    uint32_t line;
};
/* A machine, and what it says of its arcs. */
struct thing_part {
    const char *machine;
    const char **process; /* [process_count] names */
    uint32_t process_count;
    uint32_t node_base, node_count; /* in the merged graph */
    const struct thing_symbol *symbol;
    uint32_t symbol_count;
    /* Portions by node; [portion_count], parallel. Of THING_NONE: what the
     * process has of the arc besides, where that is not all that is left. */
    const uint32_t *node, *of; /* own nodes; symbols */
    const uint64_t *ns;
    uint64_t portion_count;
};

struct thing_feature {
    enum thing_kind kind;  /* PROCESS: the rest of it */
    uint32_t process;      /* feature of the process; messages: of the sender */
    uint32_t part, number; /* PROCESS, PROCEDURE: of the process in its part */
    uint32_t procedure;    /* PROCEDURE: of `procedure` */
    uint32_t to; /* MESSAGE: the receiver's process feature, or EXTERNAL, IDLE*/
};
struct thing {
    enum thing_kind kind;
    uint32_t first, count; /* of `member`; what makes it up; at least one */
};
struct things {
    const struct thing_part *part; /* borrowed */
    uint32_t part_count;
    struct ips_features f; /* into the arrays below */
    uint32_t *chain, *cross;
    uint64_t *portion_first;
    struct ips_portion *portion;
    struct thing_feature *feature; /* [f.count] */
    uint32_t process_features;     /* the first so many */
    uint32_t *process_base;        /* [part_count] */
    struct thing_symbol *procedure;
    uint32_t procedure_count;
    struct thing *thing; /* by kind */
    uint32_t thing_count;
    uint32_t *member; /* features */
};

/* `clip`: portions beyond the weight of an arc are cut off, not refused.
 * *blame: the part whose portions or chains are wrong (THING_NONE: none). */
int things_make(const struct ips_graph *g, const struct thing_part *part,
                uint32_t part_count, bool clip, struct things *out,
                uint32_t *blame, struct ips_err *err) IPS_MUST_USE;
void things_release(struct things *t);

/* "/m1", "/m1/a.3", "f", "m1/a.3 -> m2/b.7", "m1/a.3 -> external". */
#define THING_BYTES 1024
const char *things_name(const struct things *t, const struct thing *thing,
                        char out[THING_BYTES]);
const char *things_feature_name(const struct things *t, uint32_t feature,
                                char out[THING_BYTES]);
/* Its number among `procedure`, by its name, module and file; THING_NONE. */
uint32_t things_procedure(const struct things *t,
                          const struct thing_symbol *symbol);
/* Module and file of a procedure thing; NULL: it is none. */
const struct thing_symbol *things_symbol(const struct things *t,
                                         const struct thing *thing);

/* Patterns as of a shell (* ? []); "" any. All that are given must fit.
 *   procedure  its name
 *   process    "a.3", "a", "/m1/a.3" (with a / the whole is matched)
 *   message    "FROM -> TO", each as `process`; TO may be external
 *   object     "/m1" or "/m1/a.3", no pattern: what is below it */
struct thing_selector {
    const char *procedure, *process, *message, *object;
};
/* The features that fit, malloc'd; none: *count 0, for the caller to say. A
 * message pattern without " -> ": IPS_E_USAGE. */
int things_select(const struct things *t, const struct thing_selector *s,
                  uint32_t **feature, uint32_t *count,
                  struct ips_err *err) IPS_MUST_USE;

/* Offers all process names in the form of `word` ("a", "a.3", "/m1/a.3"), and
 * all procedure names, for "did you mean". */
struct ips_nearest;
void things_offer_processes(const struct things *t, const char *word,
                            struct ips_nearest *near);
void things_offer_procedures(const struct things *t, struct ips_nearest *near);

#endif
