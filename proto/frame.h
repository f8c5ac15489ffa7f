/*
 * Frames: u32 length (little endian), then a packed ips.Envelope. Decoding is a
 * pure function of a byte buffer, so the fuzzer and the tests need no socket.
 * Source: docs/protocol.md.
 */
#ifndef IPS_PROTO_FRAME_H
#define IPS_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/ips.pb-c.h"

#define IPS_PROTOCOL 1
#define IPS_FRAME_MAX_BYTES (8u << 20) /* limit of one frame */
#define IPS_HELLO_MAX_BYTES 4096u      /* limit of a frame before the Hello */
#define IPS_HELLO_WAIT_S 10            /* time limit for the Hello (s) */
/* limit of an unpacked message */
#define IPS_DECODE_MAX_BYTES (256u << 20)
/* most nodes or rows in one message of an answer (a piece) */
#define IPS_PIECE_ITEMS 65536u
#define IPS_OUT_BUFFER_BYTES                                                   \
    (64u << 20) /* most unsent bytes; above that the peer is closed */

/* Returns the length of the frame, header included, at the start of the `len`
 * bytes if the whole frame is there. 0: more bytes are needed; < 0: the frame
 * is longer than `max` and refused. Needs only the header, so a length can be
 * checked before memory is allocated. */
int64_t ips_frame_length_if_complete(const uint8_t *data, size_t len,
                                     size_t max,
                                     struct ips_err *err) IPS_MUST_USE;

/* Unpacks a whole frame. Returns NULL with err set if the frame is not an
 * Envelope with a body, or if memory is short. Free the result with
 * ips__envelope__free_unpacked. */
Ips__Envelope *ips_frame_decode(const uint8_t *data, size_t len,
                                struct ips_err *err) IPS_MUST_USE;

/* Packs an envelope, header included, into malloc'd memory that the caller
 * owns. */
int ips_frame_encode(const Ips__Envelope *env, uint8_t **data, size_t *len,
                     struct ips_err *err) IPS_MUST_USE;

#endif
