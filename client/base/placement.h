/*
 * Parses the options of `ipsq predict` that describe machines and place
 * processes on them:
 * - --machines 'one:cores=2,speed=1.5,load=0.5;two:load=25%'
 * - --map 'a.3=one,b*=two', or the name of a file with one entry a line
 * - --network 'one<>two=100us+8ns@bus;*>*=x0.5'
 * - --move 'a.3@1.5s=two,b*@20ms=one'
 *
 * The strings in the messages are malloc'd; ipsq_placing_release frees
 * everything.
 */
#ifndef IPS_CLIENT_BASE_PLACEMENT_H
#define IPS_CLIENT_BASE_PLACEMENT_H

#include "common/err.h"
#include "proto/frame.h"

#define IPSQ_MACHINES_MAX 1000u
#define IPSQ_PLACES_MAX 100000u

struct ipsq_placing {
    Ips__PredictMachine **machine;
    size_t machine_count;
    Ips__PredictPlace **placement;
    size_t placement_count;
    Ips__PredictNet **net;
    size_t net_count;
    Ips__PredictMove **move;
    size_t move_count;
};

/* Each of these functions parses one value of its option and adds the result to
 * `p`. IPS_E_USAGE: the message says what is wrong. */
int ipsq_placing_parse_machines(struct ipsq_placing *p, const char *spec,
                                struct ips_err *err) IPS_MUST_USE;
int ipsq_placing_parse_map(struct ipsq_placing *p, const char *spec,
                           struct ips_err *err) IPS_MUST_USE;
int ipsq_placing_parse_network(struct ipsq_placing *p, const char *spec,
                               struct ips_err *err) IPS_MUST_USE;
int ipsq_placing_parse_moves(struct ipsq_placing *p, const char *spec,
                             struct ips_err *err) IPS_MUST_USE;
void ipsq_placing_release(struct ipsq_placing *p);

#endif
