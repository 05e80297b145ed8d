//! Answers in parts: asked for by clients, written by services.

use crate::border;
use crate::client::{Call, NO_TIMEOUT};
use crate::error::{Failure, Status};
use crate::server::{Context, Incoming, Server};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use unrack_rpc::Error;
use unrack_rpc::client::Stream as Parts;
use unrack_rpc::server::{Call as Handled, PartSource as Writes, Refusal};

/// An answer in parts that is under way. One thread at a time may use it. It may be freed at any time, and after its client.
pub(crate) struct Stream {
    // Before the client, which it borrows from.
    parts: Parts<'static>,
    _client: Arc<unrack_rpc::Client>,
}

impl Stream {
    pub(crate) fn new(parts: Parts<'static>, client: Arc<unrack_rpc::Client>) -> Stream {
        Stream { parts, _client: client }
    }
}

/// Sends the request, for an answer in parts of up to the call's room each, of which `ahead` are asked for in advance. The
/// call is over then.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_stream(
    call: *mut Call,
    method: *const c_char,
    ahead: usize,
    stream: *mut *mut Stream,
    error: *mut *mut Failure,
) -> Status {
    let open = || {
        // SAFETY: null, or a text, and a call that no other thread uses.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        call.stream(method, ahead)
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(stream, "stream", open)) }
}

/// Waits for the next part, and leaves at `part` and `bytes` where it is, until the next one is asked for; null after the
/// last. How long it waits at most the client's deadline says.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_stream_next(
    stream: *mut Stream,
    part: *mut *const u8,
    bytes: *mut usize,
    error: *mut *mut Failure,
) -> Status {
    // SAFETY: as the header says.
    unsafe { next_part(stream, NO_TIMEOUT, part, bytes, error) }
}

/// As `unrack_stream_next`, for at most `timeout_ns` nanoseconds. A stream whose next part has not come by then
/// (`UNRACK_STATUS_DEADLINE`) goes on: ask again. `UNRACK_NO_TIMEOUT` waits as long as the client's own deadline says.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_stream_next_within(
    stream: *mut Stream,
    timeout_ns: u64,
    part: *mut *const u8,
    bytes: *mut usize,
    error: *mut *mut Failure,
) -> Status {
    // SAFETY: as the header says.
    unsafe { next_part(stream, timeout_ns, part, bytes, error) }
}

/// # Safety
/// As the header says of the functions above.
unsafe fn next_part(
    stream: *mut Stream,
    timeout_ns: u64,
    part: *mut *const u8,
    bytes: *mut usize,
    error: *mut *mut Failure,
) -> Status {
    let next = || {
        // SAFETY: null or a stream that no other thread uses, and null or places to write to.
        let (stream, part, bytes) = unsafe {
            (border::reach(stream, "stream")?, border::reach(part, "part")?, border::reach(bytes, "bytes")?)
        };
        let next = match timeout_ns {
            NO_TIMEOUT => stream.parts.next_part()?,
            timeout_ns => match stream.parts.next_part_within(Duration::from_nanos(timeout_ns)) {
                Err(over @ Error::Deadline { .. }) => return Err(Failure::not_yet(over)),
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

/// Tells the service that no more parts are wanted, if there are. Null is left alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_stream_free(stream: *mut Stream) {
    // SAFETY: as the header says.
    unsafe { border::free(stream) }
}

/// Begins an answer in parts: reads the request, leaves at `stream` what it is to be known by, and returns 0; or refuses, as
/// a handler does.
pub(crate) type Opener = Option<
    unsafe extern "C" fn(context: *mut c_void, incoming: *mut Incoming, stream: *mut *mut c_void) -> i32,
>;
/// Writes the next part of an answer. Returns `UNRACK_MORE` if another follows, 0 if it is the last, or refuses, as a handler
/// does. It runs once at a time for each answer.
pub(crate) type Source = Option<unsafe extern "C" fn(stream: *mut c_void, incoming: *mut Incoming) -> i32>;
/// The answer is over: all of it was written, nobody wants more, or the client is gone.
pub(crate) type Closer = Option<unsafe extern "C" fn(stream: *mut c_void)>;

/// Another part follows.
#[allow(unreachable_pub, reason = "the header has it")]
pub const MORE: i32 = 4096;

/// An answer that is under way, for the service.
struct Opened {
    stream: *mut c_void,
    close: Closer,
}

// SAFETY: the header says that its functions run on other threads, one at a time for each answer.
unsafe impl Send for Opened {}

impl Opened {
    fn stream(&self) -> *mut c_void {
        self.stream
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(close) = self.close {
            // SAFETY: as the header says; it is over.
            unsafe { close(self.stream) };
        }
    }
}

/// Adds a method that is answered in parts, before the service is started: `open` begins an answer, `next` writes each part,
/// the first of them when `open` has returned, and `close` (which may be null) is told when it is over.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_server_stream(
    server: *mut Server,
    name: *const c_char,
    open: Opener,
    next: Source,
    close: Closer,
    context: *mut c_void,
    error: *mut *mut Failure,
) -> Status {
    let add = || {
        // SAFETY: null, or a text, and a server that no other thread uses.
        let (name, server) = unsafe { (border::text(name, "name")?, border::reach(server, "server")?) };
        let open = open.ok_or_else(|| Failure::null("open"))?;
        let next = next.ok_or_else(|| Failure::null("next"))?;
        let context = Context(context);
        let begin = move |call: &mut Handled<'_>| -> Result<Writes, Refusal> {
            let mut incoming = Incoming::from_call(call);
            let mut stream = ptr::null_mut();
            // SAFETY: functions and their context, good as long as the server, as the header says.
            let number = unsafe { open(context.get(), &mut incoming, &mut stream) };
            incoming.answered(number)?;
            let opened = Opened { stream, close };
            Ok(Box::new(move |call| {
                let mut incoming = Incoming::from_call(call);
                // SAFETY: what `open` left and its functions, good until `close` was told, as the header says.
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
