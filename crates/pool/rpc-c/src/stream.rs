//! Answers in parts, which clients request and services write.

use crate::border;
use crate::client::{Call, NO_TIMEOUT};
use crate::error::{CallFailure, CallStatus};
use crate::server::{HandledCall, HandlerContext, Server};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use unrack_rpc::Error;
use unrack_rpc::client::Stream as Parts;
use unrack_rpc::server::{Call as Handled, CallRefusal, PartSource as Writes};

/// An answer in parts that is in flight. Only one thread at a time may use it. It may be freed at any time, also after
/// its client.
pub(crate) struct Stream {
    // Declared before the client, because it borrows from the client and must be dropped first.
    parts: Parts<'static>,
    _client: Arc<unrack_rpc::Client>,
}

impl Stream {
    pub(crate) fn new(parts: Parts<'static>, client: Arc<unrack_rpc::Client>) -> Stream {
        Stream { parts, _client: client }
    }
}

/// Sends the request, for an answer in parts. Each part may be as long as the call's room, and `ahead` parts are
/// requested in advance. The call is then over.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_stream(
    call: *mut Call,
    method: *const c_char,
    ahead: usize,
    stream: *mut *mut Stream,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let open = || {
        // SAFETY: null, or a text, and a call that no other thread uses.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        call.stream(method, ahead)
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(stream, "stream", open)) }
}

/// Waits for the next part, and writes its address to `part` and its length to `bytes`. The part is valid until the
/// next one is requested. After the last part, the address is null. The client's deadline limits the wait.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_stream_next(
    stream: *mut Stream,
    part: *mut *const u8,
    bytes: *mut usize,
    error: *mut *mut CallFailure,
) -> CallStatus {
    // SAFETY: as the header requires.
    unsafe { next_part(stream, NO_TIMEOUT, part, bytes, error) }
}

/// Like `unrack_stream_next`, but waits for at most `timeout_ns` nanoseconds. If the next part has not come by then,
/// fails with `UNRACK_STATUS_DEADLINE`; the stream remains valid, so call it again. With `UNRACK_NO_TIMEOUT`, the
/// client's deadline applies.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_stream_next_within(
    stream: *mut Stream,
    timeout_ns: u64,
    part: *mut *const u8,
    bytes: *mut usize,
    error: *mut *mut CallFailure,
) -> CallStatus {
    // SAFETY: as the header requires.
    unsafe { next_part(stream, timeout_ns, part, bytes, error) }
}

/// # Safety
/// As the header requires of the callers of the two functions above.
unsafe fn next_part(
    stream: *mut Stream,
    timeout_ns: u64,
    part: *mut *const u8,
    bytes: *mut usize,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let next = || {
        // SAFETY: null or a stream that no other thread uses, and null or places to write to.
        let (stream, part, bytes) = unsafe {
            (border::reach(stream, "stream")?, border::reach(part, "part")?, border::reach(bytes, "bytes")?)
        };
        let next = match timeout_ns {
            NO_TIMEOUT => stream.parts.next_part()?,
            timeout_ns => match stream.parts.next_part_within(Duration::from_nanos(timeout_ns)) {
                Err(over @ Error::Deadline { .. }) => return Err(CallFailure::not_yet(over)),
                next => next?,
            },
        };
        (*part, *bytes) = match next {
            Some(next) => (next.body().as_ptr(), next.body().len()),
            None => (ptr::null(), 0),
        };
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, next) }
}

/// Frees the stream. If there are more parts, informs the service that the client does not want them. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_stream_free(stream: *mut Stream) {
    // SAFETY: as the header says.
    unsafe { border::free(stream) }
}

/// Begins an answer in parts: reads the request, writes to `stream` a pointer that identifies the answer, and returns
/// 0. To refuse, it returns a number as a handler does.
pub(crate) type StreamOpener = Option<
    unsafe extern "C" fn(context: *mut c_void, incoming: *mut HandledCall, stream: *mut *mut c_void) -> i32,
>;
/// Writes the next part of an answer. Returns `UNRACK_MORE` if another part follows, and 0 if this is the last. To
/// refuse, it returns a number as a handler does. For each answer, it runs on only one thread at a time.
pub(crate) type Source = Option<unsafe extern "C" fn(stream: *mut c_void, incoming: *mut HandledCall) -> i32>;
/// Ends an answer in parts, because it is completely written, the client wants no more parts, or the client is gone.
pub(crate) type Closer = Option<unsafe extern "C" fn(stream: *mut c_void)>;

/// Result of an `unrack_source` if another part follows.
#[allow(unreachable_pub, reason = "the header has it")]
pub const MORE: i32 = 4096;

/// An answer in parts that is in flight, on the service's side.
struct OpenedStream {
    stream: *mut c_void,
    close: Closer,
}

// SAFETY: the header states that these functions run on other threads, one at a time for each answer.
unsafe impl Send for OpenedStream {}

impl OpenedStream {
    fn stream(&self) -> *mut c_void {
        self.stream
    }
}

impl Drop for OpenedStream {
    fn drop(&mut self) {
        if let Some(close) = self.close {
            // SAFETY: as the header requires; the answer is over.
            unsafe { close(self.stream) };
        }
    }
}

/// Adds a method with answers in parts to a service that is not started yet. `open` begins an answer. `next` writes
/// each part; it is called for the first part as soon as `open` has returned. `close`, which may be null, is called
/// when the answer is over.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_server_stream(
    server: *mut Server,
    name: *const c_char,
    open: StreamOpener,
    next: Source,
    close: Closer,
    context: *mut c_void,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let add = || {
        // SAFETY: null, or a text, and a server that no other thread uses.
        let (name, server) = unsafe { (border::text(name, "name")?, border::reach(server, "server")?) };
        let open = open.ok_or_else(|| CallFailure::null("open"))?;
        let next = next.ok_or_else(|| CallFailure::null("next"))?;
        let context = HandlerContext(context);
        let begin = move |call: &mut Handled<'_>| -> Result<Writes, CallRefusal> {
            let mut incoming = HandledCall::from_call(call);
            let mut stream = ptr::null_mut();
            // SAFETY: the functions and their context are valid as long as the server, as the header requires.
            let number = unsafe { open(context.get(), &mut incoming, &mut stream) };
            incoming.answered(number)?;
            let opened = OpenedStream { stream, close };
            Ok(Box::new(move |call| {
                let mut incoming = HandledCall::from_call(call);
                // SAFETY: the stream that `open` wrote and its functions are valid until `close` is called, as the
                // header requires.
                let number = unsafe { next(opened.stream(), &mut incoming) };
                let more = number == MORE;
                incoming.answered(if more { 0 } else { number }).map(|()| more)
            }))
        };
        server.add(|building| building.stream(name, begin))
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, add) }
}
