/*
 * Talking to the master: one connection, one question at a time. Where no
 * master answers at the default address (none was named by --master), a
 * private master and slave are started and asked; they end by themselves when
 * nobody needs them any more.
 */
#ifndef IPS_CLIENT_BASE_SESSION_H
#define IPS_CLIENT_BASE_SESSION_H

#include <stdio.h>

#include "client/base/options.h"
#include "proto/message.h"

struct ipsq_session {
    struct ips_client *client;
    uint64_t next_id;
    char address[IPS_PATH_BYTES];
    char state[IPS_PATH_BYTES];
    Ips__Envelope **replies; /* replies of finished questions, until close */
    size_t reply_count, reply_capacity;
    bool slaveless; /* the master has no slave, and the one started did not come
                     */
};

/* Connects to --master, else to the default master. The session may be closed
 * whatever is returned. */
int ipsq_session_connect(struct ipsq_session *s, const struct ipsq_options *o,
                         struct ips_err *err) IPS_MUST_USE;
/* The same; starts the default master and its slave where they are missing. */
int ipsq_session_open(struct ipsq_session *s, const struct ipsq_options *o,
                      struct ips_err *err) IPS_MUST_USE;
void ipsq_session_close(struct ipsq_session *s);
/* Says, where a question failed, that there is no slave. */
void ipsq_session_hint(const struct ipsq_session *s, FILE *f);

/* Sends `rq` (its id is set here) and takes replies until the last. Each goes
 * to `on_piece` where that is not NULL, and is kept until the session closes,
 * so tables may borrow from it; with `drop`, only until on_piece returns.
 * *last is the final one (NULL with `drop`). An error that the master answers
 * with becomes the return value. */
typedef int ipsq_on_piece(const Ips__Reply *reply, void *arg,
                          struct ips_err *err);
int ipsq_session_ask(struct ipsq_session *s, Ips__Request *rq, bool drop,
                     ipsq_on_piece *on_piece, void *arg,
                     const Ips__Reply **last, struct ips_err *err) IPS_MUST_USE;

/* Rows of several replies as one list; the rows stay the kept replies'. Zeroed
 * to begin with; ipsq_rows_release at the end. */
struct ipsq_rows {
    void **row;
    size_t count, capacity;
};
int ipsq_rows_add(struct ipsq_rows *rows, void *more, size_t count,
                  struct ips_err *err) IPS_MUST_USE;
void ipsq_rows_release(struct ipsq_rows *rows);

/* The newest runs, the newest first; so many older ones are left out. The array
 * is malloc'd, its rows are kept replies'. */
int ipsq_session_runs(struct ipsq_session *s, Ips__RunRow ***rows,
                      size_t *count, uint64_t *left_out,
                      struct ips_err *err) IPS_MUST_USE;

/* The run that `word` names: its name, a unique beginning of it, or NULL: the
 * newest. */
int ipsq_session_run(struct ipsq_session *s, const char *word, const char **run,
                     struct ips_err *err) IPS_MUST_USE;

/* Pure: picks from rows that are newest first. */
int ipsq_pick_run(Ips__RunRow *const *rows, size_t count, const char *word,
                  const char **run, struct ips_err *err) IPS_MUST_USE;

/* client/base/start.c: detached, with no descriptor of ours, output to
 * STATE/NAME.log. The master listens at STATE's default address. */
int ipsq_start_master(const char *state, struct ips_err *err) IPS_MUST_USE;
int ipsq_start_slave(const char *state, struct ips_err *err) IPS_MUST_USE;

/* client/base/progress.c: while the answer takes longer than half a second, a
 * line on standard error says what is being done and for how many seconds, if
 * that is a terminal. */
void ipsq_progress_begin(void);
void ipsq_progress_end(void);
/* That line is shown, if the answer takes long. */
bool ipsq_progress_wanted(void);
/* `doing`: what that line says. IPSQ_WAITING until the master says more. */
#define IPSQ_WAITING "waiting for the answer"
void ipsq_progress_note(const char *doing);
/* That line instead, from now on; where it is shown at all. */
void ipsq_progress_say(const char *text);

#endif
