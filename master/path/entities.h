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

enum entity_kind {
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

struct entity_symbol { /* borrowed texts */
    const char *name, *module, *file;
    uint32_t source_line;
};
/* A machine, and what it says of its arcs. */
struct machine_entities {
    const char *machine;
    const char **process; /* [process_count] names */
    uint32_t process_count;
    uint32_t node_base, node_count; /* in the merged graph */
    const struct entity_symbol *symbol;
    uint32_t symbol_count;
    /* Portions by node; [arc_share_count], parallel. Of THING_NONE: what the
     * process has of the arc besides, where that is not all that is left. */
    const uint32_t *node, *of; /* own nodes; symbols */
    const uint64_t *ns;
    uint64_t arc_share_count;
};

struct entity_feature {
    enum entity_kind kind; /* PROCESS: the rest of it */
    uint32_t process;      /* feature of the process; messages: of the sender */
    uint32_t machine,
        number;         /* PROCESS, PROCEDURE: of the process in its part */
    uint32_t procedure; /* PROCEDURE: of `procedure` */
    uint32_t to; /* MESSAGE: the receiver's process feature, or EXTERNAL, IDLE*/
};
struct entity {
    enum entity_kind kind;
    uint32_t first, count; /* of `member`; what makes it up; at least one */
};
struct entities {
    const struct machine_entities *machine; /* borrowed */
    uint32_t machine_count;
    struct ips_features f; /* into the arrays below */
    uint32_t *chain, *cross;
    uint64_t *arc_share_first;
    struct ips_arc_share *arc_share;
    struct entity_feature *feature; /* [f.count] */
    uint32_t process_features;      /* the first so many */
    uint32_t *process_base;         /* [part_count] */
    struct entity_symbol *procedure;
    uint32_t procedure_count;
    struct entity *entity; /* by kind */
    uint32_t entity_count;
    uint32_t *member; /* features */
};

/* `clip`: portions beyond the weight of an arc are cut off, not refused.
 * *blame: the part whose portions or chains are wrong (THING_NONE: none). */
int entities_make(const struct ips_graph *g,
                  const struct machine_entities *part, uint32_t part_count,
                  bool clip, struct entities *out, uint32_t *blame,
                  struct ips_err *err) IPS_MUST_USE;
void entities_release(struct entities *t);

/* "/m1", "/m1/a.3", "f", "m1/a.3 -> m2/b.7", "m1/a.3 -> external". */
#define THING_BYTES 1024
const char *entities_name(const struct entities *t, const struct entity *thing,
                          char out[THING_BYTES]);
const char *entities_feature_name(const struct entities *t, uint32_t feature,
                                  char out[THING_BYTES]);
/* Its number among `procedure`, by its name, module and file; THING_NONE. */
uint32_t entities_procedure(const struct entities *t,
                            const struct entity_symbol *symbol);
/* Module and file of a procedure thing; NULL: it is none. */
const struct entity_symbol *entities_symbol(const struct entities *t,
                                            const struct entity *thing);

/* Patterns as of a shell (* ? []); "" any. All that are given must fit.
 *   procedure  its name
 *   process    "a.3", "a", "/m1/a.3" (with a / the whole is matched)
 *   message    "FROM -> TO", each as `process`; TO may be external
 *   object     "/m1" or "/m1/a.3", no pattern: what is below it */
struct entity_selector {
    const char *procedure, *process, *message, *object;
};
/* The features that fit, malloc'd; none: *count 0, for the caller to say. A
 * message pattern without " -> ": IPS_E_USAGE. */
int entities_choose(const struct entities *t, const struct entity_selector *s,
                    uint32_t **feature, uint32_t *count,
                    struct ips_err *err) IPS_MUST_USE;

/* Offers all process names in the form of `word` ("a", "a.3", "/m1/a.3"), and
 * all procedure names, for "did you mean". */
struct ips_nearest;
void entities_offer_processes(const struct entities *t, const char *word,
                              struct ips_nearest *near);
void entities_offer_procedures(const struct entities *t,
                               struct ips_nearest *near);

#endif
