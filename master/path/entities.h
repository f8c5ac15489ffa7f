/*
 * The entities of a run about which a question can be asked: machines,
 * processes, procedures and message classes. Each is a set of features
 * (analysis/whatif/feature.h); slack and what-if work on features. Pure: the
 * input is a merged graph and tables of names.
 *
 * The features are, in this order: one per process for its time that belongs to
 * no procedure; one per message class (sender, receiver); one per procedure in
 * each process. A message class covers data arcs, or waits of the sender for
 * something not recorded (receiver EXTERNAL or IDLE); other arcs between
 * threads have no weight. A procedure is one entity wherever it ran, if name,
 * module and file are equal. Source: ALGORITHMS 4; IPS-12.
 */
#ifndef IPS_MASTER_PATH_ENTITIES_H
#define IPS_MASTER_PATH_ENTITIES_H

#include "analysis/whatif/feature.h"

enum entity_kind {
    ENTITY_MACHINE,
    ENTITY_PROCESS,
    ENTITY_PROCEDURE,
    ENTITY_MESSAGE,
    ENTITY_KINDS
};
extern const char *const entity_kind_names[ENTITY_KINDS];

#define ENTITY_NONE UINT32_MAX
/* values of entity_feature.to for waits for something not recorded */
#define ENTITY_EXTERNAL (UINT32_MAX - 1)
#define ENTITY_IDLE (UINT32_MAX - 2)

struct entity_symbol { /* a procedure; its strings are borrowed */
    const char *name, *module, *file;
    uint32_t source_line;
};
/* One machine: its name, processes, node range and arc profile. */
struct machine_entities {
    const char *machine;
    const char **process; /* [process_count] names of the processes */
    uint32_t process_count;
    /* range of the machine's nodes in the merged graph */
    uint32_t node_base, node_count;
    const struct entity_symbol *symbol;
    uint32_t symbol_count;
    /* The arc profile: [arc_share_count] parallel arrays, ordered by node. An
     * entry with symbol ENTITY_NONE is the time of the arc that belongs to no
     * procedure; without such an entry that time is the rest of the arc. */
    const uint32_t *node, *of; /* this machine's node numbers; symbol indices */
    const uint64_t *ns;
    uint64_t arc_share_count;
};

struct entity_feature {
    /* kind of the feature; ENTITY_PROCESS: the process's time that belongs to
     * no procedure */
    enum entity_kind kind;
    /* number of the feature of the process itself; MESSAGE: that of the sending
     * process */
    uint32_t process;
    /* `machine`: index of the machine; `number`: for PROCESS and PROCEDURE the
     * index of the process on this machine */
    uint32_t machine, number;
    uint32_t procedure; /* PROCEDURE: index in `procedure` */
    uint32_t to; /* MESSAGE: the receiver's process feature, EXTERNAL or IDLE */
};
struct entity {
    enum entity_kind kind;
    /* range in `member`: the features of the entity; at least one */
    uint32_t first, count;
};
struct entities {
    /* array of machine_count machines; borrowed */
    const struct machine_entities *machine;
    uint32_t machine_count;
    /* the features; its pointers point to the arrays below */
    struct ips_features f;
    uint32_t *chain, *cross;
    uint64_t *arc_share_first;
    struct ips_arc_share *arc_share;
    struct entity_feature *feature; /* [f.count] description of each feature */
    /* number of features that are processes; they come first */
    uint32_t process_features;
    /* [machine_count] first process feature of each machine */
    uint32_t *process_base;
    struct entity_symbol *procedure;
    uint32_t procedure_count;
    struct entity *entity; /* entities, ordered by kind */
    uint32_t entity_count;
    uint32_t *member; /* feature numbers of all entities, entity by entity */
};

/* Makes the features and entities. `clip`: shares that exceed the weight of an
 * arc are cut off instead of being refused. On an error *blame is the machine
 * whose shares or chains are wrong (ENTITY_NONE: none). */
int entities_make(const struct ips_graph *g,
                  const struct machine_entities *part, uint32_t part_count,
                  bool clip, struct entities *out, uint32_t *blame,
                  struct ips_err *err) IPS_MUST_USE;
void entities_release(struct entities *t);

#define ENTITY_NAME_BYTES 1024
/* Writes the entity's name to `out` and returns it: "/m1", "/m1/a.3", "f",
 * "m1/a.3 -> m2/b.7", "m1/a.3 -> external". */
const char *entities_write_name(const struct entities *t,
                                const struct entity *thing,
                                char out[ENTITY_NAME_BYTES]);
const char *entities_write_feature_name(const struct entities *t,
                                        uint32_t feature,
                                        char out[ENTITY_NAME_BYTES]);
/* Returns the index in `procedure` of the procedure with this name, module and
 * file; ENTITY_NONE if there is none. */
uint32_t entities_find_procedure(const struct entities *t,
                                 const struct entity_symbol *symbol);
/* Returns the name, module and file of a procedure entity; NULL for other
 * entities. */
const struct entity_symbol *
entities_procedure_symbol(const struct entities *t, const struct entity *thing);

/* Patterns like those of a shell (* ? []); "" matches everything. An entity
 * must match all the given patterns.
 *
 *   procedure  its name
 *   process    "a.3", "a", "/m1/a.3" (a pattern with / must match the whole)
 *   message    "FROM -> TO", each as for `process`; TO may be external
 *   object     "/m1" or "/m1/a.3", no pattern: everything below it */
struct entity_selector {
    const char *procedure, *process, *message, *object;
};
/* Sets *feature to the numbers of the features that match the selector,
 * malloc'd, and *count to how many. If none matches, *count is 0 and the caller
 * must report that. IPS_E_USAGE: a message pattern without " -> ". */
int entities_select_features(const struct entities *t,
                             const struct entity_selector *s,
                             uint32_t **feature, uint32_t *count,
                             struct ips_err *err) IPS_MUST_USE;

struct ips_nearest;
/* Offer all process names in the form of `word` ("a", "a.3", "/m1/a.3"), or all
 * procedure names, as candidates for the hint "did you mean". */
void entities_offer_process_names(const struct entities *t, const char *word,
                                  struct ips_nearest *near);
void entities_offer_procedure_names(const struct entities *t,
                                    struct ips_nearest *near);

#endif
