/* Calls by reference over shared memory. Made from crates/pool/rpc-c/src: do not edit.
 *
 * Link with -lunrack_rpc. Texts are UTF-8 and end with a zero.
 *
 * Ownership: what a function leaves at a pointer to a pointer is the caller's, until the function `..._free` of its
 * kind takes it. Handles may be freed in any order.
 *
 * Errors: functions that can fail return a status, and leave an error at `error` if that is not null and the status
 * is not UNRACK_STATUS_OK; the error is the caller's. Nothing else is written then. A null pointer where one is
 * needed is UNRACK_STATUS_INVALID.
 *
 * Messages lie in memory that the peer has mapped, too. One that keeps to no protocol may write to them while they are
 * read: what is to be checked is copied first, by unrack_copy, and then the copy is checked and used.
 *
 * Pools: a null socket is the user's own pool, $XDG_RUNTIME_DIR/unrack/pool.sock; without that variable,
 * unrack-USER/pool.sock in the folder of temporary files, where USER is the user's number.
 *
 * Threads: clients, endpoints, listeners and links may be used by several at a time; every other handle by one at a time, whichever it is.
 *
 * Processes: a handle belongs to the process that made it. A child by fork must connect for itself: functions that can fail are
 * UNRACK_STATUS_INVALID there with its parent's handles, and freeing those does not affect the parent. The bytes of its parent's messages
 * are mapped in the child, too, and are not to be written; the socket of a link is the parent's.
 */

#ifndef UNRACK_RPC_H
#define UNRACK_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What waiting is to be good at, as a number: looks as long as that has been worth it lately (the default).
#define UNRACK_WAITING_ADAPTIVE 0

// Looks until it comes: lowest latency, a core for each who waits.
#define UNRACK_WAITING_SPIN 1

// Sleeps at once: lowest use of the processor.
#define UNRACK_WAITING_SLEEP 2

// `unrack_call_wait` waits as long as the client's own deadline says.
#define UNRACK_NO_TIMEOUT UINT64_MAX

// Numbers that a handler may refuse with: 1 up to this.
#define UNRACK_REFUSALS 3839

// Another part follows.
#define UNRACK_MORE 4096

// How a function ended.
typedef enum {
  UNRACK_STATUS_OK = 0,
  // An argument is wrong, it is not the time for this, or the handle was made by the parent of this process, before a fork.
  UNRACK_STATUS_INVALID = 1,
  // No manager serves the pool, or it is gone; nobody listens at a TCP address.
  UNRACK_STATUS_NO_POOL = 2,
  // No service has this name.
  UNRACK_STATUS_NO_SERVICE = 3,
  // The pool does not do what it was asked: it is full, the name is taken, the service refused.
  UNRACK_STATUS_POOL = 4,
  // The peer speaks another version of the protocol, or another protocol.
  UNRACK_STATUS_VERSION = 5,
  // More bytes than a message can have.
  UNRACK_STATUS_TOO_LONG = 6,
  // Calls that the server takes at a time are all under way, or it has no memory left for more.
  UNRACK_STATUS_EXHAUSTED = 7,
  // No answer in time.
  UNRACK_STATUS_DEADLINE = 8,
  // The peer is gone.
  UNRACK_STATUS_GONE = 9,
  UNRACK_STATUS_UNKNOWN_METHOD = 10,
  // The answer is longer than the call has room for.
  UNRACK_STATUS_NO_ROOM = 11,
  // The handler failed.
  UNRACK_STATUS_FAILED = 12,
  // The handler refused, with a number of its own.
  UNRACK_STATUS_REFUSED = 13,
  // The peer breaks the protocol.
  UNRACK_STATUS_PROTOCOL = 14,
  // A fault of this library, or the machine has no threads left.
  UNRACK_STATUS_INTERNAL = 15,
} unrack_status;

// A buffer of this process, to be filled and lent. It stays as long as a peer has it.
typedef struct unrack_buffer unrack_buffer;

// A call: a request that is written, then under way, then an answer that is read. One thread at a time may use it.
typedef struct unrack_call unrack_call;

// A connection to a service. Threads may share it. It may be freed before its calls, which keep what they need.
typedef struct unrack_client unrack_client;

// A connection to a pool, to pass buffers. Threads may share it. It may be freed before its listeners, links and buffers.
typedef struct unrack_endpoint unrack_endpoint;

// Why a function failed. Belongs to who called it, until `unrack_error_free`.
typedef struct unrack_error unrack_error;

// A call that is being handled. It is gone when the handler returns.
typedef struct unrack_incoming unrack_incoming;

// Memory of messages that is kept mapped.
typedef struct unrack_kept unrack_kept;

// A byte stream to a peer, by which buffers are lent. Threads may share it. It may be freed before its buffers and loans.
typedef struct unrack_link unrack_link;

// A name under which an endpoint accepts links. Threads may share it.
typedef struct unrack_listener unrack_listener;

// A buffer of a peer, which stays until this is freed, whatever ends before.
typedef struct unrack_loan unrack_loan;

// A service. One thread at a time may use it; its handlers run on threads of its own.
typedef struct unrack_server unrack_server;

// An answer in parts that is under way. One thread at a time may use it. It may be freed at any time, and after its client.
typedef struct unrack_stream unrack_stream;

// How a client calls. All zero is the default.
typedef struct {
  // `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
  uint32_t waiting;
  // How many calls may be under way at a time: who starts one more waits. 0: 17.
  uint16_t calls;
  // How long a call may take, in nanoseconds. 0: as long as the server lives.
  uint64_t deadline_ns;
  // After how many nanoseconds without an answer a call is sent again; the server runs it once. 0: never.
  uint64_t resend_ns;
  // How long the service may take to accept the connection, in nanoseconds. 0: 5 seconds.
  uint64_t patience_ns;
} unrack_client_options;

// How a server serves. All zero is the default.
typedef struct {
  // `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
  uint32_t waiting;
  // Threads that look for calls. 0: 1.
  uint32_t lanes;
  // Threads that run handlers. 0: whoever finds a call runs it to its end.
  uint32_t workers;
} unrack_server_options;

// Runs a call: reads the request, writes the answer, returns 0; or refuses with a number from 1 to `UNRACK_REFUSALS`,
// which the client is told. Any other number says that it failed. It may run on several threads at a time.
typedef int32_t (*unrack_handler)(void *context, unrack_incoming *incoming);

// Begins an answer in parts: reads the request, leaves at `stream` what it is to be known by, and returns 0; or refuses, as
// a handler does.
typedef int32_t (*unrack_opener)(void *context, unrack_incoming *incoming, void **stream);

// Writes the next part of an answer. Returns `UNRACK_MORE` if another follows, 0 if it is the last, or refuses, as a handler
// does. It runs once at a time for each answer.
typedef int32_t (*unrack_source)(void *stream, unrack_incoming *incoming);

// The answer is over: all of it was written, nobody wants more, or the client is gone.
typedef void (*unrack_closer)(void *stream);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What kind of error it is: the code that the function returned.
unrack_status unrack_error_status(const unrack_error *error);

// One line that says what happened, with whom, and what to do. It lives as long as the error.
const char *unrack_error_text(const unrack_error *error);

// The peer, its process and its user; null if the error is with nobody. It lives as long as the error.
const char *unrack_error_peer(const unrack_error *error);

// The number that the handler refused with, for `UNRACK_STATUS_REFUSED`; the bytes of the answer, for
// `UNRACK_STATUS_NO_ROOM`; 1 for `UNRACK_STATUS_DEADLINE`, if what was waited for is still under way; else 0.
uint32_t unrack_error_number(const unrack_error *error);

// Null is no error and is left alone.
void unrack_error_free(unrack_error *error);

// Connects to the pool at a socket (null: the user's own) and to a service by its name. Beyond the memory that is
// shared, `pool` is `tcp://host:port`; everything else is the same.
unrack_status unrack_client_connect(const char *pool,
                                    const char *service,
                                    const unrack_client_options *options,
                                    unrack_client **client,
                                    unrack_error **error);

// Calls that are under way keep what they need. Null is left alone.
void unrack_client_free(unrack_client *client);

// Whether the server can lend memory: over a pool, not over TCP.
bool unrack_client_shares_memory(const unrack_client *client);

// Bytes that the server lends to its clients, by the offset that it said, to be read until the client is freed. What keeps
// them from being used for something else meanwhile is the service's own. Null: it lends no such bytes.
const uint8_t *unrack_client_lent(const unrack_client *client,
                                  uint64_t offset,
                                  size_t bytes);

// A request of `bytes` bytes, which may be answered by up to `room` bytes. Waits while the server has all the calls
// that it takes.
unrack_status unrack_call_new(const unrack_client *client,
                              size_t bytes,
                              size_t room,
                              unrack_call **call,
                              unrack_error **error);

// As `unrack_call_new`, which waits for at most `timeout_ns` nanoseconds: then the server still has all the calls that it takes
// (`UNRACK_STATUS_EXHAUSTED`). `UNRACK_NO_TIMEOUT` waits as long as the client's own deadline says.
unrack_status unrack_call_new_within(const unrack_client *client,
                                     size_t bytes,
                                     size_t room,
                                     uint64_t timeout_ns,
                                     unrack_call **call,
                                     unrack_error **error);

// The request's bytes, to be written until it is sent; null afterwards. They begin at a cache line, and hold what
// was there before. `bytes` may be null.
uint8_t *unrack_call_request(unrack_call *call,
                             size_t *bytes);

// Sends the request. Waits while as many calls are under way as may be.
unrack_status unrack_call_start(unrack_call *call, const char *method, unrack_error **error);

// As `unrack_call_start`, if that does not have to wait for room. Says at `started` whether it did not.
unrack_status unrack_call_try_start(unrack_call *call,
                                    const char *method,
                                    bool *started,
                                    unrack_error **error);

// How long this call may take from now, in nanoseconds, whatever deadline the client has: until there is room for it and
// until its answer is there. Then it is over (`UNRACK_STATUS_DEADLINE`). To be set before it is started.
unrack_status unrack_call_deadline(unrack_call *call,
                                   uint64_t deadline_ns,
                                   unrack_error **error);

// For event loops: says at `ready` whether waiting for the answer would return at once. If not, 1 is written to the
// eventfd when that may have changed: then ask again. The eventfd is the caller's, and may be closed at any time; only the
// last one that was given counts.
unrack_status unrack_call_poll(unrack_call *call,
                               int eventfd,
                               bool *ready,
                               unrack_error **error);

// Sends the request, which nobody answers. The call is over then.
unrack_status unrack_call_send(unrack_call *call, const char *method, unrack_error **error);

// Waits for the answer. A call that has none within `timeout_ns` (`UNRACK_STATUS_DEADLINE`) is still under way and can
// be waited for again; 0 looks once. `UNRACK_NO_TIMEOUT` waits as long as the client's own deadline says, which costs
// less than a timeout here.
unrack_status unrack_call_wait(unrack_call *call,
                               uint64_t timeout_ns,
                               unrack_error **error);

// The answer's bytes, until the call is freed; null if there is none. `bytes` may be null.
const uint8_t *unrack_call_response(const unrack_call *call, size_t *bytes);

// Gives the call's memory back; cancels it if it is under way. Null is left alone.
void unrack_call_free(unrack_call *call);

// A service that has a name and no methods yet.
unrack_status unrack_server_new(const char *name,
                                const unrack_server_options *options,
                                unrack_server **server,
                                unrack_error **error);

// Adds a method before the service is started. `context` is handed to the handler as it is, and must be good until
// the server is freed.
unrack_status unrack_server_method(unrack_server *server,
                                   const char *name,
                                   unrack_handler handler,
                                   void *context,
                                   unrack_error **error);

// Registers with the pool at a socket (null: the user's own), and serves until the server is freed. If `pool` is
// `tcp://host:port`, it listens there, for clients that share no memory. A server that could not be started can only be
// freed.
unrack_status unrack_server_start(unrack_server *server,
                                  const char *pool,
                                  unrack_error **error);

// Ends the service with all its connections, after the handlers that run: so no handler may do it. Null is left
// alone.
void unrack_server_free(unrack_server *server);

// The request's bytes. The answer is going to be in their place: what is still needed must be read before the answer is
// written. `bytes` may be null.
const uint8_t *unrack_incoming_request(const unrack_incoming *incoming,
                                       size_t *bytes);

// How many bytes the answer may have.
size_t unrack_incoming_room(const unrack_incoming *incoming);

// Makes the answer `bytes` long, and gives its bytes to be written. Null if the client has no room for it: the client
// is then told so when the handler returns. A handler that never asks answers with nothing.
uint8_t *unrack_incoming_answer(unrack_incoming *incoming,
                                size_t bytes);

// The process that calls, as the kernel knows it.
uint32_t unrack_incoming_process(const unrack_incoming *incoming);

// The user whose process calls, as the kernel knows it.
uint32_t unrack_incoming_user(const unrack_incoming *incoming);

// Keeps the memory of a call's messages mapped beyond the handler's return, until what this gives is freed by
// `unrack_kept_free`. The bytes in it are of later calls by then, or whatever the client writes. Null: it cannot.
unrack_kept *unrack_incoming_keep(const unrack_incoming *incoming);

// Lets go of it. Null is left alone.
void unrack_kept_free(unrack_kept *kept);

// Sends the request, for an answer in parts of up to the call's room each, of which `ahead` are asked for in advance. The
// call is over then.
unrack_status unrack_call_stream(unrack_call *call,
                                 const char *method,
                                 size_t ahead,
                                 unrack_stream **stream,
                                 unrack_error **error);

// Waits for the next part, and leaves at `part` and `bytes` where it is, until the next one is asked for; null after the
// last. How long it waits at most the client's deadline says.
unrack_status unrack_stream_next(unrack_stream *stream,
                                 const uint8_t **part,
                                 size_t *bytes,
                                 unrack_error **error);

// As `unrack_stream_next`, for at most `timeout_ns` nanoseconds. A stream whose next part has not come by then
// (`UNRACK_STATUS_DEADLINE`) goes on: ask again. `UNRACK_NO_TIMEOUT` waits as long as the client's own deadline says.
unrack_status unrack_stream_next_within(unrack_stream *stream,
                                        uint64_t timeout_ns,
                                        const uint8_t **part,
                                        size_t *bytes,
                                        unrack_error **error);

// Tells the service that no more parts are wanted, if there are. Null is left alone.
void unrack_stream_free(unrack_stream *stream);

// Adds a method that is answered in parts, before the service is started: `open` begins an answer, `next` writes each part,
// the first of them when `open` has returned, and `close` (which may be null) is told when it is over.
unrack_status unrack_server_stream(unrack_server *server,
                                   const char *name,
                                   unrack_opener open,
                                   unrack_source next,
                                   unrack_closer close,
                                   void *context,
                                   unrack_error **error);

// Copies bytes of a message to memory of one's own. Each is read once, which a plain copy does not promise: compilers may
// read the message again when the copy is used. Does nothing if a pointer is null.
void unrack_copy(void *to,
                 const void *from,
                 size_t bytes);

// Connects to the pool at a socket (null: the user's own), to pass buffers by reference.
unrack_status unrack_endpoint_connect(const char *pool, unrack_endpoint **endpoint, unrack_error **error);

// Null is left alone.
void unrack_endpoint_free(unrack_endpoint *endpoint);

// Listens for links under a name. They are accepted by a thread of the library: no peer waits for this program.
unrack_status unrack_endpoint_listen(const unrack_endpoint *endpoint,
                                     const char *name,
                                     unrack_listener **listener,
                                     unrack_error **error);

// Opens a link to the listener of a name, which has `patience_ns` nanoseconds to accept it. It is of another endpoint:
// a process that has both ends has an endpoint for each.
unrack_status unrack_endpoint_open(const unrack_endpoint *endpoint,
                                   const char *name,
                                   uint64_t patience_ns,
                                   unrack_link **link,
                                   unrack_error **error);

// A buffer that can be lent by any links of the endpoint, to readers that cannot write it. `writable`: by one link, once, and
// the peer may write it until it returns it. All peers that were lent such a buffer can write all of them.
unrack_status unrack_endpoint_buffer(const unrack_endpoint *endpoint,
                                     uint64_t bytes,
                                     bool writable,
                                     unrack_buffer **buffer,
                                     unrack_error **error);

// The next link, within `timeout_ns` nanoseconds; `UNRACK_NO_TIMEOUT` waits for ever, 0 looks once. Without one, `link` is
// null.
unrack_status unrack_listener_accept(const unrack_listener *listener,
                                     uint64_t timeout_ns,
                                     unrack_link **link,
                                     unrack_error **error);

// A descriptor that is readable when a link may be there, for `poll`, `epoll` or an event library. It is the listener's, and
// must be neither read nor closed. -1: there is no listener.
int unrack_listener_descriptor(const unrack_listener *listener);

// Frees the name. Links that were accepted stay. Null is left alone.
void unrack_listener_free(unrack_listener *listener);

// Leaves at `descriptor` a socket of the byte stream to the peer, which the caller closes. Its end says that the peer has
// freed its link and closed its descriptors, or is gone.
unrack_status unrack_link_stream(const unrack_link *link,
                                 int *descriptor,
                                 unrack_error **error);

// The process at the other side, as the kernel knows it.
uint32_t unrack_link_process(const unrack_link *link);

// Number of buffers that are lent to the peer.
size_t unrack_link_lent(const unrack_link *link);

// Lends the peer a buffer, which is not to be written any more, and leaves at `reference` what it has to be told, over the
// stream. Each time that it is lent has to be received once.
unrack_status unrack_link_lend(const unrack_link *link,
                               const unrack_buffer *buffer,
                               uint64_t *reference,
                               unrack_error **error);

// Receives a buffer that the peer has lent, by its reference, which is good once. `writable`: the peer took it as such, and it may
// be written.
unrack_status unrack_link_receive(const unrack_link *link,
                                  uint64_t reference,
                                  uint64_t bytes,
                                  bool writable,
                                  unrack_loan **loan,
                                  unrack_error **error);

// Ends the link. Loans stay, and buffers that the peer has. Null is left alone.
void unrack_link_free(unrack_link *link);

// The buffer's bytes, which begin at a cache line, and hold what was there before. To be written until it is lent, and read
// until it is freed.
uint8_t *unrack_buffer_bytes(const unrack_buffer *buffer);

// Gives the buffer back, as soon as no peer has it. Null is left alone.
void unrack_buffer_free(unrack_buffer *buffer);

// The loan's bytes, where its owner wrote them.
uint8_t *unrack_loan_bytes(const unrack_loan *loan);

// Returns the loan to its owner. Null is left alone.
void unrack_loan_free(unrack_loan *loan);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UNRACK_RPC_H */
