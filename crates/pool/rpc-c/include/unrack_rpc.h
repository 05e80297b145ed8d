/* Calls by reference over shared memory. Generated from crates/pool/rpc-c/src: do not edit.
 *
 * Link with -lunrack_rpc. Texts are UTF-8 and end with a zero byte.
 *
 * Ownership: an object that a function stores at a pointer to a pointer belongs to the caller, until the caller passes it to the function
 * `..._free` of its type. Handles may be freed in any order.
 *
 * Errors: a function that can fail returns a status. If the status is not UNRACK_STATUS_OK and `error` is not null, the function stores an
 * error at `error`, which belongs to the caller; it stores nothing else. The status is UNRACK_STATUS_INVALID if a required pointer is null.
 *
 * Messages: the peer has mapped the memory of a message too, and a peer that violates the protocol may write to it while it is read.
 * Therefore copy data that must be checked with unrack_copy first, and then check and use the copy.
 *
 * Pools: a null socket means the user's pool, $XDG_RUNTIME_DIR/unrack/pool.sock; without that variable, unrack-USER/pool.sock in the folder
 * for temporary files, where USER is the user's number.
 *
 * Threads: several threads may use a client, an endpoint, a listener or a link at the same time. Any other handle may be used by one thread
 * at a time, which may be any thread.
 *
 * Processes: a handle belongs to the process that made it. A forked child must connect for itself: functions that can fail return
 * UNRACK_STATUS_INVALID for its parent's handles, and freeing these handles does not affect the parent. The child has the messages of its
 * parent mapped too, and must not write to them; the socket of a link is the parent's.
 */

#ifndef UNRACK_RPC_H
#define UNRACK_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How to wait: polls for as long as polling has paid off recently, then sleeps. This is the default.
#define UNRACK_WAITING_ADAPTIVE 0

// How to wait: polls until the event comes. This has the lowest latency, but each waiting thread keeps a core busy.
#define UNRACK_WAITING_SPIN 1

// How to wait: sleeps at once, which uses the processor least.
#define UNRACK_WAITING_SLEEP 2

// As the timeout of a wait for a call or a stream, this value means that the client's deadline applies.
#define UNRACK_NO_TIMEOUT UINT64_MAX

// Largest number with which a handler may refuse a call; the smallest is 1.
#define UNRACK_REFUSALS 3839

// Result of an `unrack_source` if another part follows.
#define UNRACK_MORE 4096

// Result of a function.
typedef enum {
  UNRACK_STATUS_OK = 0,
  // An argument is wrong, the function is not allowed in this state, or the parent of this process made the handle
  // before a fork.
  UNRACK_STATUS_INVALID = 1,
  // No manager serves the pool, or it is gone. For TCP: no server listens at the address.
  UNRACK_STATUS_NO_POOL = 2,
  // No service has this name.
  UNRACK_STATUS_NO_SERVICE = 3,
  // The pool failed the request: for example, it is full, the name is taken, or the service refused.
  UNRACK_STATUS_POOL = 4,
  // The peer speaks another version of the protocol, or another protocol.
  UNRACK_STATUS_VERSION = 5,
  // The message is longer than a message may be.
  UNRACK_STATUS_TOO_LONG = 6,
  // The calls in flight fill all slots of the server, or the server has no memory left for more calls.
  UNRACK_STATUS_EXHAUSTED = 7,
  // No answer came in time.
  UNRACK_STATUS_DEADLINE = 8,
  // The peer is gone.
  UNRACK_STATUS_GONE = 9,
  UNRACK_STATUS_UNKNOWN_METHOD = 10,
  // The answer is longer than the call has room for.
  UNRACK_STATUS_NO_ROOM = 11,
  // The handler failed.
  UNRACK_STATUS_FAILED = 12,
  // The handler refused the call, with a number that the service defines.
  UNRACK_STATUS_REFUSED = 13,
  // The peer broke the protocol.
  UNRACK_STATUS_PROTOCOL = 14,
  // This library has a fault, or the machine has no threads left.
  UNRACK_STATUS_INTERNAL = 15,
} unrack_status;

// A buffer of this process, to be filled and lent. It remains as long as a peer holds it.
typedef struct unrack_buffer unrack_buffer;

// A call: first a request that is being written, then a call in flight, then an answer that is read. Only one thread
// at a time may use it.
typedef struct unrack_call unrack_call;

// Reason why a function failed. It belongs to the caller until `unrack_error_free`.
typedef struct unrack_error unrack_error;

// A connection to a service. Threads may share it. It may be freed before its calls, which keep what they need of it.
typedef struct unrack_client unrack_client;

// A connection to a pool, for passing buffers. Threads may share it. It may be freed before its listeners, links and
// buffers.
typedef struct unrack_endpoint unrack_endpoint;

// A call that is being handled. It is valid until the handler returns.
typedef struct unrack_incoming unrack_incoming;

// A byte stream to a peer, with which buffers are lent. Threads may share it. It may be freed before its buffers and
// loans.
typedef struct unrack_link unrack_link;

// A name under which an endpoint accepts links. Threads may share it.
typedef struct unrack_listener unrack_listener;

// A buffer of a peer. It remains until this handle is freed, even if the link or the endpoint ends before.
typedef struct unrack_loan unrack_loan;

// Memory of messages that is kept mapped.
typedef struct unrack_kept unrack_kept;

// A service. Only one thread at a time may use it. Its handlers run on threads of the library.
typedef struct unrack_server unrack_server;

// An answer in parts that is in flight. Only one thread at a time may use it. It may be freed at any time, also after
// its client.
typedef struct unrack_stream unrack_stream;

// Configuration of a client. If all fields are zero, it is the default.
typedef struct {
  // `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
  uint32_t waiting;
  // Number of calls that may be in flight at a time. A caller that starts one more waits. 0: 17.
  uint16_t calls;
  // Longest time that a call may take, in nanoseconds. 0: as long as the server lives.
  uint64_t deadline_ns;
  // Time in nanoseconds without an answer after which a call is sent again. The server runs the call only once. 0:
  // never.
  uint64_t resend_ns;
  // Longest time that the service may take to accept the connection, in nanoseconds. 0: 5 seconds.
  uint64_t patience_ns;
} unrack_client_options;

// Configuration of a server. If all fields are zero, it is the default.
typedef struct {
  // `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
  uint32_t waiting;
  // Number of threads that poll for calls. 0: 1.
  uint32_t queue_threads;
  // Number of threads that run handlers. 0: the thread that finds a call runs it to its end.
  uint32_t workers;
} unrack_server_options;

// Runs a call: reads the request, writes the answer, and returns 0. To refuse the call, the handler returns a number
// from 1 to `UNRACK_REFUSALS`, which the client receives. Any other number means that the call failed. The handler may
// run on several threads at a time.
typedef int32_t (*unrack_handler)(void *context, unrack_incoming *incoming);

// Begins an answer in parts: reads the request, writes to `stream` a pointer that identifies the answer, and returns
// 0. To refuse, it returns a number as a handler does.
typedef int32_t (*unrack_opener)(void *context, unrack_incoming *incoming, void **stream);

// Writes the next part of an answer. Returns `UNRACK_MORE` if another part follows, and 0 if this is the last. To
// refuse, it returns a number as a handler does. For each answer, it runs on only one thread at a time.
typedef int32_t (*unrack_source)(void *stream, unrack_incoming *incoming);

// Ends an answer in parts, because it is completely written, the client wants no more parts, or the client is gone.
typedef void (*unrack_closer)(void *stream);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the kind of the error, which is the code that the failed function returned.
unrack_status unrack_error_status(const unrack_error *error);

// Returns one line that describes what happened, with which peer, and what to do. The text lives as long as the error.
const char *unrack_error_text(const unrack_error *error);

// Returns the peer with its process and its user; null if the error concerns no peer. The text lives as long as the
// error.
const char *unrack_error_peer(const unrack_error *error);

// Returns a number whose meaning depends on the status. `UNRACK_STATUS_REFUSED`: the number with which the handler
// refused. `UNRACK_STATUS_NO_ROOM`: the bytes that the answer needs. `UNRACK_STATUS_DEADLINE`: 1 if the awaited call
// or part is still in flight. Otherwise 0.
uint32_t unrack_error_number(const unrack_error *error);

// Frees an error. Null means no error and is ignored.
void unrack_error_free(unrack_error *error);

// Connects to the pool at a socket (null: the user's default pool) and to a service by its name. If the server shares
// no memory with this host, `pool` is `tcp://host:port`; everything else is the same.
unrack_status unrack_client_connect(const char *pool,
                                    const char *service,
                                    const unrack_client_options *options,
                                    unrack_client **client,
                                    unrack_error **error);

// Frees a client. Its calls in flight keep what they need of it. Null is ignored.
void unrack_client_free(unrack_client *client);

// Returns whether the server can lend memory to this client. It can over a pool, but not over TCP.
bool unrack_client_shares_memory(const unrack_client *client);

// Returns the address of bytes that the server lends to its clients, by the offset that the server sent. They may be
// read until the client is freed, but the service must keep them from being reused meanwhile. Null: the server does
// not lend these bytes.
const uint8_t *unrack_client_lent(const unrack_client *client,
                                  uint64_t offset,
                                  size_t bytes);

// Makes a request of `bytes` bytes, whose answer may have up to `room` bytes. Waits while the calls in flight fill all
// slots of the server.
unrack_status unrack_call_new(const unrack_client *client,
                              size_t bytes,
                              size_t room,
                              unrack_call **call,
                              unrack_error **error);

// Like `unrack_call_new`, but waits for at most `timeout_ns` nanoseconds. If the server still has no free slot then,
// fails with `UNRACK_STATUS_EXHAUSTED`. With `UNRACK_NO_TIMEOUT`, the client's deadline applies.
unrack_status unrack_call_new_within(const unrack_client *client,
                                     size_t bytes,
                                     size_t room,
                                     uint64_t timeout_ns,
                                     unrack_call **call,
                                     unrack_error **error);

// Returns the bytes of the request, which may be written until the request is sent; null afterwards. They begin at a
// cache line, and at first they contain bytes of an earlier call. `bytes` may be null.
uint8_t *unrack_call_request(unrack_call *call,
                             size_t *bytes);

// Sends the request. Waits while the client has as many calls in flight as it may have.
unrack_status unrack_call_start(unrack_call *call, const char *method, unrack_error **error);

// Like `unrack_call_start`, but only if there is room for the call now. Writes to `started` whether there was.
unrack_status unrack_call_try_start(unrack_call *call,
                                    const char *method,
                                    bool *started,
                                    unrack_error **error);

// Sets how long this call may take from now, in nanoseconds, regardless of the client's deadline. The time includes
// the wait for room and the wait for the answer. When it is over, the call fails with `UNRACK_STATUS_DEADLINE`. It
// must be set before the call is started.
unrack_status unrack_call_deadline(unrack_call *call,
                                   uint64_t deadline_ns,
                                   unrack_error **error);

// For event loops: writes to `ready` whether waiting for the answer would return at once. If not, the library writes 1
// to the eventfd when this may have changed; then poll again. The eventfd belongs to the caller, who may close it at
// any time. Only the eventfd of the last poll is used.
unrack_status unrack_call_poll(unrack_call *call,
                               int eventfd,
                               bool *ready,
                               unrack_error **error);

// Sends the request as a one-way call, which has no answer. The call is then over.
unrack_status unrack_call_send(unrack_call *call, const char *method, unrack_error **error);

// Waits for the answer. If none has come within `timeout_ns`, fails with `UNRACK_STATUS_DEADLINE`; the call is then
// still in flight and can be waited for again. 0 checks only once. With `UNRACK_NO_TIMEOUT`, the client's deadline
// applies, which costs less than a timeout here.
unrack_status unrack_call_wait(unrack_call *call,
                               uint64_t timeout_ns,
                               unrack_error **error);

// Returns the bytes of the answer, which are valid until the call is freed; null if there is no answer. `bytes` may be
// null.
const uint8_t *unrack_call_response(const unrack_call *call,
                                    size_t *bytes);

// Returns the call's memory to the client. A call in flight is cancelled. Null is ignored.
void unrack_call_free(unrack_call *call);

// Makes a service that has a name and no methods yet.
unrack_status unrack_server_new(const char *name,
                                const unrack_server_options *options,
                                unrack_server **server,
                                unrack_error **error);

// Adds a method to a service that is not started yet. `context` is passed to the handler unchanged, and must be valid
// until the server is freed.
unrack_status unrack_server_method(unrack_server *server,
                                   const char *name,
                                   unrack_handler handler,
                                   void *context,
                                   unrack_error **error);

// Registers with the pool at a socket (null: the user's default pool), and serves until the server is freed. If `pool`
// is `tcp://host:port`, the server listens there for clients that share no memory. A server that could not be started
// can only be freed.
unrack_status unrack_server_start(unrack_server *server,
                                  const char *pool,
                                  unrack_error **error);

// Ends the service with all its connections, after the running handlers have returned. Therefore no handler may call
// this. Null is ignored.
void unrack_server_free(unrack_server *server);

// Returns the bytes of the request. Because the answer overwrites them, the handler must read everything that it needs
// before it writes the answer. `bytes` may be null.
const uint8_t *unrack_incoming_request(const unrack_incoming *incoming,
                                       size_t *bytes);

// Returns the largest number of bytes that the answer may have.
size_t unrack_incoming_room(const unrack_incoming *incoming);

// Makes the answer `bytes` long, and returns its bytes, to be written. Returns null if the client has no room for it;
// then the client receives that error when the handler returns. If a handler never calls this, the answer is empty.
uint8_t *unrack_incoming_answer(unrack_incoming *incoming,
                                size_t bytes);

// Returns the process ID of the caller, as the kernel identified it.
uint32_t unrack_incoming_process(const unrack_incoming *incoming);

// Returns the user ID of the caller, as the kernel identified it.
uint32_t unrack_incoming_user(const unrack_incoming *incoming);

// Keeps the memory of a call's messages mapped after the handler's return, until the result is freed by
// `unrack_kept_free`. By then, the bytes belong to later calls, or are whatever the client writes. Returns null if the
// memory cannot be kept.
unrack_kept *unrack_incoming_keep(const unrack_incoming *incoming);

// Ends the keeping of a call's memory. Null is ignored.
void unrack_kept_free(unrack_kept *kept);

// Sends the request, for an answer in parts. Each part may be as long as the call's room, and `ahead` parts are
// requested in advance. The call is then over.
unrack_status unrack_call_stream(unrack_call *call,
                                 const char *method,
                                 size_t ahead,
                                 unrack_stream **stream,
                                 unrack_error **error);

// Waits for the next part, and writes its address to `part` and its length to `bytes`. The part is valid until the
// next one is requested. After the last part, the address is null. The client's deadline limits the wait.
unrack_status unrack_stream_next(unrack_stream *stream,
                                 const uint8_t **part,
                                 size_t *bytes,
                                 unrack_error **error);

// Like `unrack_stream_next`, but waits for at most `timeout_ns` nanoseconds. If the next part has not come by then,
// fails with `UNRACK_STATUS_DEADLINE`; the stream remains valid, so call it again. With `UNRACK_NO_TIMEOUT`, the
// client's deadline applies.
unrack_status unrack_stream_next_within(unrack_stream *stream,
                                        uint64_t timeout_ns,
                                        const uint8_t **part,
                                        size_t *bytes,
                                        unrack_error **error);

// Frees the stream. If there are more parts, informs the service that the client does not want them. Null is ignored.
void unrack_stream_free(unrack_stream *stream);

// Adds a method with answers in parts to a service that is not started yet. `open` begins an answer. `next` writes
// each part; it is called for the first part as soon as `open` has returned. `close`, which may be null, is called
// when the answer is over.
unrack_status unrack_server_stream(unrack_server *server,
                                   const char *name,
                                   unrack_opener open,
                                   unrack_source next,
                                   unrack_closer close,
                                   void *context,
                                   unrack_error **error);

// Copies bytes of a message to private memory, and reads each byte only once. A plain copy does not guarantee this,
// because a compiler may read the message again when the copy is used. Does nothing if a pointer is null.
void unrack_copy(void *to,
                 const void *from,
                 size_t bytes);

// Connects to the pool at a socket (null: the user's default pool), for passing buffers by reference.
unrack_status unrack_endpoint_connect(const char *pool, unrack_endpoint **endpoint, unrack_error **error);

// Frees an endpoint. Null is ignored.
void unrack_endpoint_free(unrack_endpoint *endpoint);

// Listens for links under a name. A thread of the library accepts them, so that no peer has to wait for this program.
unrack_status unrack_endpoint_listen(const unrack_endpoint *endpoint,
                                     const char *name,
                                     unrack_listener **listener,
                                     unrack_error **error);

// Opens a link to the listener of a name, which has `patience_ns` nanoseconds to accept it. The listener must belong
// to another endpoint; therefore a process that has the two ends of a link needs an endpoint for each.
unrack_status unrack_endpoint_open(const unrack_endpoint *endpoint,
                                   const char *name,
                                   uint64_t patience_ns,
                                   unrack_link **link,
                                   unrack_error **error);

// Takes a buffer that any links of the endpoint can lend to readers, which cannot write it. If `writable` is true,
// only one link can lend it, only once, and the peer may write it until the peer returns it. Note that each peer to
// which such a buffer was lent can write all writable buffers.
unrack_status unrack_endpoint_buffer(const unrack_endpoint *endpoint,
                                     uint64_t bytes,
                                     bool writable,
                                     unrack_buffer **buffer,
                                     unrack_error **error);

// Writes the next link to `link`; null if none comes within `timeout_ns` nanoseconds. `UNRACK_NO_TIMEOUT` waits
// without a limit, and 0 checks only once.
unrack_status unrack_listener_accept(const unrack_listener *listener,
                                     uint64_t timeout_ns,
                                     unrack_link **link,
                                     unrack_error **error);

// Returns a descriptor that is readable when there may be a new link, for `poll`, `epoll` or an event library. It
// belongs to the listener, and must be neither read nor closed. -1: there is no listener.
int unrack_listener_descriptor(const unrack_listener *listener);

// Frees the listener's name. Links that were accepted remain. Null is ignored.
void unrack_listener_free(unrack_listener *listener);

// Writes to `descriptor` a socket of the byte stream to the peer, which the caller must close. The stream ends when
// the peer has freed its link and closed its descriptors, or is gone.
unrack_status unrack_link_stream(const unrack_link *link,
                                 int *descriptor,
                                 unrack_error **error);

// Returns the process ID of the peer, as the kernel identified it.
uint32_t unrack_link_process(const unrack_link *link);

// Returns the number of buffers that are lent to the peer.
size_t unrack_link_lent(const unrack_link *link);

// Lends a buffer to the peer; the buffer must not be written any more. Writes to `reference` a number, which the
// program has to send to the peer over the stream. The peer has to receive the buffer once for each time that it was
// lent.
unrack_status unrack_link_lend(const unrack_link *link,
                               const unrack_buffer *buffer,
                               uint64_t *reference,
                               unrack_error **error);

// Receives a buffer that the peer has lent, by its reference, which is valid only once. If `writable` is true, the
// peer must have taken the buffer as writable, and the receiver may write it.
unrack_status unrack_link_receive(const unrack_link *link,
                                  uint64_t reference,
                                  uint64_t bytes,
                                  bool writable,
                                  unrack_loan **loan,
                                  unrack_error **error);

// Ends the link. Loans remain, and so do buffers that the peer holds. Null is ignored.
void unrack_link_free(unrack_link *link);

// Returns the bytes of the buffer. They begin at a cache line, and at first they contain bytes of an earlier use. They
// may be written until the buffer is lent, and read until it is freed.
uint8_t *unrack_buffer_bytes(const unrack_buffer *buffer);

// Frees the buffer as soon as no peer holds it. Null is ignored.
void unrack_buffer_free(unrack_buffer *buffer);

// Returns the bytes of the loan, in the memory to which their owner wrote them.
uint8_t *unrack_loan_bytes(const unrack_loan *loan);

// Returns the loan to its owner. Null is ignored.
void unrack_loan_free(unrack_loan *loan);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UNRACK_RPC_H */
