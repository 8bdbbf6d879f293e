// Reflective memory for C: docs/guides/reflective-memory-from-c.md.
//
// Made by cbindgen from crates/reflective-memory-c/src. Do not edit.

#ifndef ISORB_CRM_H
#define ISORB_CRM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of the functions and structures of this header. Another number is another interface.
#define ISORB_CRM_VERSION 1

// Values are octets, and the area must be one without a type.
#define ISORB_CRM_OCTETS 1

// Values have the type of `id` and `definition`, and the area must have the same.
#define ISORB_CRM_TYPED 2

// Values are handled as octets, whatever type the area has. Not for making an area.
#define ISORB_CRM_ANY_TYPE 3

// Each value is pushed when it is written.
#define ISORB_CRM_PUSH_ON_WRITE 0

// The latest value is pushed once a period.
#define ISORB_CRM_PERIODIC_PUSH 1

// Between nodes by datagrams.
#define ISORB_CRM_PATH_UDP 0

// Between nodes by a call for each value.
#define ISORB_CRM_PATH_ORB 1

// Between nodes by oneway calls.
#define ISORB_CRM_PATH_ONEWAY 2

// Between nodes by datagrams to a group.
#define ISORB_CRM_PATH_MULTICAST 3

// Values are written.
#define ISORB_CRM_STATE_OPEN 0

// The channel was stopped, and may be started again.
#define ISORB_CRM_STATE_STOPPED 1

// The writer's process ended, or its node cannot be reached. The last value stays readable.
#define ISORB_CRM_STATE_WRITER_GONE 2

// The latest value is older than the reader's deadline allows.
#define ISORB_CRM_STATE_STALE 3

// The area was destroyed: no value will come.
#define ISORB_CRM_STATE_DESTROYED 4

// The area continues in other memory, which the server is about to hand over.
#define ISORB_CRM_STATE_MOVED 5

// One of the codes `ISORB_CRM_…`. 0 is success.
typedef int32_t isorb_crm_result;

// A session with the server of this node. 0 is none.
typedef struct {
  // Opaque.
  uint64_t handle;
} isorb_crm_session;

// What values are. All zero is refused, so that no program handles octets unknowingly.
typedef struct {
  // ISORB_CRM_OCTETS, ISORB_CRM_TYPED or ISORB_CRM_ANY_TYPE.
  uint32_t kind;
  // Of a typed one: the repository id, such as "IDL:Plant/Pressure:1.0". Else null.
  const char *id;
  // Of a typed one: the IDL in one line, such as
  // "struct Pressure { double bar; boolean valid; }". Processes agree on a type where both texts
  // are equal. Values are in CDR: members lie one behind the other, each aligned to its own
  // size, without octets behind the last. Else null.
  const char *definition;
} isorb_crm_type;

// The timing and path that a reader asks for. All zero: each value by datagrams, best effort.
typedef struct {
  // ISORB_CRM_PUSH_ON_WRITE or ISORB_CRM_PERIODIC_PUSH.
  uint32_t mode;
  // ISORB_CRM_PATH_UDP, _ORB, _ONEWAY or _MULTICAST.
  uint32_t path;
  // Of the pushes, when periodic.
  uint64_t period_ns;
  // From the write until the value can be read; 0 for none. An older value is stale.
  uint64_t deadline_ns;
  // Values kept beside the latest.
  uint32_t histories;
  // 1: with this timing, or refused. 2: the same, also from nodes without a real-time class or
  // measured costs, which assure nothing. 0: best effort.
  uint32_t guaranteed;
  // One parity datagram after this many datagrams, at most 255; 0 for none.
  uint32_t parity;
  // 0.
  uint32_t reserved;
} isorb_crm_reader_qos;

// A reader of an area. 0 is none.
typedef struct {
  // Opaque.
  uint64_t handle;
} isorb_crm_reader;

// The server's counts of one writer or reader.
typedef struct {
  // One of ISORB_CRM_STATE_….
  uint32_t state;
  // 0.
  uint32_t reserved;
  // Values written or, at another node, arrived.
  uint64_t values;
  // Values that arrived in part or not at all.
  uint64_t lost;
  // Values that the writer's node did not send, because a later one overtook them.
  uint64_t skipped;
  // Datagrams that were restored from parity.
  uint64_t recovered;
  // Datagrams that were ignored: repeated, late, forged, malformed.
  uint64_t ignored;
  // How often the value was older than the reader's deadline.
  uint64_t stale;
  // How often the writer's node fell silent.
  uint64_t silent;
  // The largest age on arrival, with its bound.
  uint64_t worst_age_ns;
  // How far ages may be wrong; UINT64_MAX where it is not known.
  uint64_t age_bound_ns;
} isorb_crm_statistics;

// What is known about a value.
typedef struct {
  // Octets of it.
  size_t len;
  // Its number in the memory that was read, from 1, without gaps.
  uint64_t number;
  // Its number at the writer.
  uint64_t source;
  // The number of the writer among all writers of the area; another one than before means that
  // the writer was restarted.
  uint64_t writer;
  // Values since the last one that this reader read, which it did not read.
  uint64_t missed;
  // Nanoseconds since it was written.
  uint64_t age_ns;
  // How far the age may be wrong in either direction, because another node's clock took the time
  // of writing; UINT64_MAX where it is not known.
  uint64_t age_bound_ns;
} isorb_crm_sample;

// A value in place.
typedef struct {
  // The octets, aligned to 16. They are mapped for reading until the lease is ended. The writer
  // does not wait: they may change, so what was read counts only if isorb_crm_end_lease returns
  // ISORB_CRM_OK. Do not act on them before.
  const uint8_t *data;
  // Octets of it.
  size_t len;
  // The number of the lease, for isorb_crm_end_lease.
  uint64_t lease;
} isorb_crm_lease;

// An area.
typedef struct {
  // Unique among all nodes of a coordinator.
  const char *name;
  // Octets of the largest value.
  uint32_t size;
  // Values that are kept beside the latest.
  uint32_t histories;
  // What values are.
  isorb_crm_type values;
} isorb_crm_area;

// A reader of all areas with names that match a pattern. 0 is none.
typedef struct {
  // Opaque.
  uint64_t handle;
} isorb_crm_area_set;

// An area of a reader of the strongest living writer.
typedef struct {
  // Its name.
  const char *name;
  // The greatest is shown; of equals the one that comes first.
  int32_t strength;
  // 0.
  uint32_t reserved;
} isorb_crm_candidate;

// A reader of several areas that shows the strongest living writer. 0 is none.
typedef struct {
  // Opaque.
  uint64_t handle;
} isorb_crm_strongest;

// The promises of a writer. Guaranteed readers are admitted by them.
typedef struct {
  // The shortest time between two values; 0 for no promise.
  uint64_t period_ns;
  // Octets of the largest value that it writes; 0 for the area's size.
  uint32_t size;
  // 0.
  uint32_t reserved;
} isorb_crm_writer_qos;

// The writer of an area. 0 is none.
typedef struct {
  // Opaque.
  uint64_t handle;
} isorb_crm_writer;

// Success.
#define ISORB_CRM_OK 0

// An argument is null, misaligned, not UTF-8, or not one of the numbers that it may be.
#define ISORB_CRM_INVALID_ARGUMENT 1

// The session, writer or reader was closed, or never opened.
#define ISORB_CRM_CLOSED 2

// Another thread is using the writer or reader.
#define ISORB_CRM_BUSY 3

// The reader has a lease that has not ended.
#define ISORB_CRM_LEASED 4

// The reader has no such lease: it ended before, or was of another reader.
#define ISORB_CRM_NO_LEASE 5

// The program was compiled with the header of another version.
#define ISORB_CRM_WRONG_VERSION 6

// The server, the coordinator or the area's node does not answer. A later attempt may succeed.
#define ISORB_CRM_UNAVAILABLE 7

// No node has such an area, or not the node of this session where it must be.
#define ISORB_CRM_UNKNOWN_AREA 8

// There is an area of this name with another size, other histories or another type.
#define ISORB_CRM_AREA_EXISTS 9

// The area has a living writer.
#define ISORB_CRM_WRITER_EXISTS 10

// A size or number exceeds its limit.
#define ISORB_CRM_WRONG_SIZE 11

// The area has another type; the text names the first difference.
#define ISORB_CRM_WRONG_TYPE 12

// The timing cannot be guaranteed; the text has the nearest that can.
#define ISORB_CRM_NOT_ADMITTED 13

// No new value came in time.
#define ISORB_CRM_TIMED_OUT 14

// The state of the area changed.
#define ISORB_CRM_CHANGED 15

// Nothing has been written, or nothing that was not read.
#define ISORB_CRM_NO_VALUE 16

// The value is no longer kept, or the writer overtook the reader.
#define ISORB_CRM_OVERWRITTEN 17

// The value is larger than the memory for it.
#define ISORB_CRM_BUFFER_TOO_SMALL 18

// The content of the memory cannot come from a correct writer.
#define ISORB_CRM_DAMAGED 19

// The process has as many sessions, writers or readers as it may have.
#define ISORB_CRM_LIMIT 20

// Any other failure, which another attempt would meet again.
#define ISORB_CRM_FAILED 21

// A fault in this library. The text has the message of the panic.
#define ISORB_CRM_PANIC 22

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Becomes a reader of an area of any node. `qos` may be null, which is all zero. Waits up to
// `timeout_ns` for what is missing and may come, such as the area or its node; 0: one attempt.
//
// # Safety
// `name` and the texts of `values` are null or end with a zero; `values` and `qos` are null or
// structures of their types; `out` is null or there is room for a reader.
isorb_crm_result isorb_crm_attach_reader(isorb_crm_session session,
                                         const char *name,
                                         const isorb_crm_type *values,
                                         const isorb_crm_reader_qos *qos,
                                         uint64_t timeout_ns,
                                         isorb_crm_reader *out);

// Closes a reader. It must have no lease.
isorb_crm_result isorb_crm_close_reader(isorb_crm_reader reader);

// Octets of the largest value.
//
// # Safety
// `out` is null or there is room for a number.
isorb_crm_result isorb_crm_reader_size(isorb_crm_reader reader, size_t *out);

// Whether there is a value that this reader has not read. Two loads.
//
// # Safety
// `out` is null or there is room for a bool.
isorb_crm_result isorb_crm_has_new(isorb_crm_reader reader, bool *out);

// The state of the area, one of ISORB_CRM_STATE_….
//
// # Safety
// `out` is null or there is room for a number.
isorb_crm_result isorb_crm_reader_state(isorb_crm_reader reader, uint32_t *out);

// The server's counts of a reader: a call to the server.
//
// # Safety
// `out` is null or there is room for statistics.
isorb_crm_result isorb_crm_reader_statistics(isorb_crm_reader reader, isorb_crm_statistics *out);

// Starts or stops the channel from another node: a call to the server.
isorb_crm_result isorb_crm_set_running(isorb_crm_reader reader, bool running);

// Waits up to `timeout_ns` for a value that this reader has not read. ISORB_CRM_OK: there is one.
// ISORB_CRM_TIMED_OUT: there is none. ISORB_CRM_CHANGED: the state of the area changed, which is
// reported once, and always when no value will come; `state`, which may be null, gets it.
//
// Does not allocate; sleeps on the memory itself. Meanwhile other threads get ISORB_CRM_BUSY.
//
// # Safety
// `state` is null or there is room for a number.
isorb_crm_result isorb_crm_wait(isorb_crm_reader reader, uint64_t timeout_ns, uint32_t *state);

// Copies the latest value, new or not, into `data`, which has room for `capacity` octets. `about`,
// which may be null, gets what is known about it; its `len` is set also when the room is too
// small.
//
// Neither allocates nor waits.
//
// # Safety
// There is room for `capacity` octets at `data`; `about` is null or there is room for a sample.
isorb_crm_result isorb_crm_latest(isorb_crm_reader reader,
                                  void *data,
                                  size_t capacity,
                                  isorb_crm_sample *about);

// As isorb_crm_latest, of the oldest value that is still kept and was not read.
// ISORB_CRM_NO_VALUE: all are read.
//
// # Safety
// As isorb_crm_latest.
isorb_crm_result isorb_crm_next(isorb_crm_reader reader,
                                void *data,
                                size_t capacity,
                                isorb_crm_sample *about);

// As isorb_crm_latest, of the value that came `back` values before the latest. It does not count
// as read.
//
// # Safety
// As isorb_crm_latest.
isorb_crm_result isorb_crm_history(isorb_crm_reader reader,
                                   uint32_t back,
                                   void *data,
                                   size_t capacity,
                                   isorb_crm_sample *about);

// Reads the latest value in place, new or not, without a copy. A reader has one lease at a time;
// end it with isorb_crm_end_lease. `about` may be null.
//
// Neither allocates nor waits.
//
// # Safety
// `out` is null or there is room for a lease; `about` is null or there is room for a sample.
isorb_crm_result isorb_crm_begin_lease(isorb_crm_reader reader,
                                       isorb_crm_lease *out,
                                       isorb_crm_sample *about);

// Ends a lease. ISORB_CRM_OK: all that was read through it belongs to the value.
// ISORB_CRM_OVERWRITTEN: the writer came round meanwhile; discard what was read. In both cases its
// memory may be gone from now on. ISORB_CRM_NO_LEASE: the reader has no lease of this number.
isorb_crm_result isorb_crm_end_lease(isorb_crm_reader reader, uint64_t lease);

// The sentence of the last failure of this thread: what happened, to what, why, and what to do. It
// is valid until the next failure of this thread. Empty before the first one; success leaves it as
// it is.
const char *isorb_crm_error_text(void);

// The name of a code, as in the header: `ISORB_CRM_OK`. Valid for ever; for a number that is none,
// `ISORB_CRM_?`.
const char *isorb_crm_result_name(isorb_crm_result code);

// Opens a session with the node's server at a local socket; null for the default one.
// `version` is ISORB_CRM_VERSION. Waits up to `timeout_ns` for a server; 0: one attempt.
//
// A thread of ordinary priority keeps the session; no value waits for it. When the server is
// restarted, the session goes on with the next one. A session does not survive fork: open it in
// the child.
//
// # Safety
// `socket` is null or a text that ends with a zero; `out` is null or there is room for a session.
isorb_crm_result isorb_crm_open(uint32_t version,
                                const char *socket,
                                uint64_t timeout_ns,
                                isorb_crm_session *out);

// Closes a session. Its writers and readers go on until they are closed.
isorb_crm_result isorb_crm_close(isorb_crm_session session);

// Makes an area on this node. Waits up to `timeout_ns` while the coordinator does not answer.
//
// # Safety
// `area` is null or an area with texts that end with a zero.
isorb_crm_result isorb_crm_create_area(isorb_crm_session session,
                                       const isorb_crm_area *area,
                                       uint64_t timeout_ns);

// Opens an area of this node, or makes it. `created` may be null.
//
// # Safety
// As isorb_crm_create_area; `created` is null or there is room for a bool.
isorb_crm_result isorb_crm_open_or_create_area(isorb_crm_session session,
                                               const isorb_crm_area *area,
                                               uint64_t timeout_ns,
                                               bool *created);

// Ends an area of this node. Its readers keep the last value, and see ISORB_CRM_STATE_DESTROYED.
//
// # Safety
// `name` is null or a text that ends with a zero.
isorb_crm_result isorb_crm_destroy_area(isorb_crm_session session, const char *name);

// Becomes a reader of all areas, of any node, with names that match a pattern: `*` stands for any
// characters, `?` for one. Areas that are made later join, and destroyed ones leave; there may be
// none yet. At most 1,000 areas are read. Those of another type are not; isorb_crm_set_count tells
// how many. `qos` may be null, which is all zero.
//
// # Safety
// `pattern` and the texts of `values` are null or end with a zero; `values` and `qos` are null or
// structures of their types; `out` is null or there is room for a set.
isorb_crm_result isorb_crm_attach_matching(isorb_crm_session session,
                                           const char *pattern,
                                           const isorb_crm_type *values,
                                           const isorb_crm_reader_qos *qos,
                                           isorb_crm_area_set *out);

// Closes a set.
isorb_crm_result isorb_crm_close_set(isorb_crm_area_set set);

// How many areas the set reads, and how many match and refused it. Each may be null.
//
// # Safety
// `attached` and `refused` are null or there is room for a number.
isorb_crm_result isorb_crm_set_count(isorb_crm_area_set set, size_t *attached, size_t *refused);

// Waits up to `timeout_ns` for an area with a value that was not read, each area in turn, and
// copies its latest value into `data`, which has room for `capacity` octets, and its name, with a
// zero at its end, into `name`, which has room for `name_capacity` octets. `about`, which may be
// null, gets what is known about the value. ISORB_CRM_TIMED_OUT: there was none.
// ISORB_CRM_BUFFER_TOO_SMALL: the room for one of the two is too small, and the value counts as
// not read; `len` of `about` is set. `name` may be null with `name_capacity` 0.
//
// Not for real-time threads: looks for new areas once a second, by a call to the server. Meanwhile
// other threads get ISORB_CRM_BUSY.
//
// # Safety
// There is room for `capacity` octets at `data`, and for `name_capacity` at `name`; `about` is
// null or there is room for a sample.
isorb_crm_result isorb_crm_set_next(isorb_crm_area_set set,
                                    uint64_t timeout_ns,
                                    void *data,
                                    size_t capacity,
                                    isorb_crm_sample *about,
                                    char *name,
                                    size_t name_capacity);

// Becomes a reader of several areas of one type, `count` of them at `areas`, with one living
// writer each: it shows the area of the greatest strength with a living writer. With a deadline, a
// writer with a stale value does not count as living. Areas that are missing join when they are
// there. `qos` may be null, which is all zero.
//
// # Safety
// There are `count` candidates at `areas` with names that end with a zero; the texts of `values`
// are null or end with a zero; `values` and `qos` are null or structures of their types; `out` is
// null or there is room for a reader.
isorb_crm_result isorb_crm_attach_strongest(isorb_crm_session session,
                                            const isorb_crm_candidate *areas,
                                            size_t count,
                                            const isorb_crm_type *values,
                                            const isorb_crm_reader_qos *qos,
                                            isorb_crm_strongest *out);

// Closes a reader of the strongest writer.
isorb_crm_result isorb_crm_close_strongest(isorb_crm_strongest reader);

// Waits up to `timeout_ns`. ISORB_CRM_OK: the area that is shown has a value that was not read.
// ISORB_CRM_CHANGED: another area is shown than before, or none where no writer lives.
// ISORB_CRM_TIMED_OUT: neither. Each ends the wait at once.
//
// Not for real-time threads where an area is missing: it calls the server once a second then.
// Meanwhile other threads get ISORB_CRM_BUSY.
isorb_crm_result isorb_crm_strongest_wait(isorb_crm_strongest reader, uint64_t timeout_ns);

// Copies the latest value of the area that is shown, and the area's name. ISORB_CRM_NO_VALUE: no
// writer lives, or it has written nothing. Arguments and results as those of isorb_crm_set_next.
//
// # Safety
// As isorb_crm_set_next.
isorb_crm_result isorb_crm_strongest_latest(isorb_crm_strongest reader,
                                            void *data,
                                            size_t capacity,
                                            isorb_crm_sample *about,
                                            char *name,
                                            size_t name_capacity);

// Becomes the writer of an area of this node. `qos` may be null: no promises. Waits up to
// `timeout_ns` for what is missing and may come, such as the area; 0: one attempt.
//
// # Safety
// `name` and the texts of `values` are null or end with a zero; `values` and `qos` are null or
// structures of their types; `out` is null or there is room for a writer.
isorb_crm_result isorb_crm_map_writer(isorb_crm_session session,
                                      const char *name,
                                      const isorb_crm_type *values,
                                      const isorb_crm_writer_qos *qos,
                                      uint64_t timeout_ns,
                                      isorb_crm_writer *out);

// Closes a writer. The area and its last value stay.
isorb_crm_result isorb_crm_close_writer(isorb_crm_writer writer);

// Writes a value. Readers of this node can read it when this returns; agents push it to other
// nodes. `number`, which may be null, gets the value's number.
//
// Neither allocates nor waits. A copy and a system call; another one where other nodes read.
//
// # Safety
// There are `len` octets at `data`; `number` is null or there is room for a number.
isorb_crm_result isorb_crm_write(isorb_crm_writer writer, const void *data, size_t len, uint64_t *number);

// Octets of the largest value that the writer may write.
//
// # Safety
// `out` is null or there is room for a number.
isorb_crm_result isorb_crm_writer_size(isorb_crm_writer writer, size_t *out);

// Whether a server serves the writer: false while there is none, and where a restarted one refused
// the area. Values then reach the processes that have the area mapped, and no other node.
//
// # Safety
// `out` is null or there is room for a bool.
isorb_crm_result isorb_crm_writer_is_served(isorb_crm_writer writer, bool *out);

// The server's counts of a writer: a call to the server.
//
// # Safety
// `out` is null or there is room for statistics.
isorb_crm_result isorb_crm_writer_statistics(isorb_crm_writer writer, isorb_crm_statistics *out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ISORB_CRM_H */
