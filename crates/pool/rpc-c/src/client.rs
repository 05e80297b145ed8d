//! Connections and calls.

use crate::border;
use crate::error::{CallFailure, CallStatus};
use crate::stream::Stream;
use std::ffi::{c_char, c_int};
use std::fs::File;
use std::io::Write;
use std::mem;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use unrack_rpc::client::{CallWindow, Options, PendingCall, Request, Response};
use unrack_rpc::{Client as Connection, Error};

/// A connection to a service. Threads may share it. It may be freed before its calls, which keep what they need of it.
pub(crate) struct Client(Arc<Connection>);

/// Configuration of a client. If all fields are zero, it is the default.
#[repr(C)]
pub(crate) struct ClientOptions {
    /// `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
    pub waiting: u32,
    /// Number of calls that may be in flight at a time. A caller that starts one more waits. 0: 17.
    pub calls: u16,
    /// Longest time that a call may take, in nanoseconds. 0: as long as the server lives.
    pub deadline_ns: u64,
    /// Time in nanoseconds without an answer after which a call is sent again. The server runs the call only once. 0:
    /// never.
    pub resend_ns: u64,
    /// Longest time that the service may take to accept the connection, in nanoseconds. 0: 5 seconds.
    pub patience_ns: u64,
}

/// A call: first a request that is being written, then a call in flight, then an answer that is read. Only one thread
/// at a time may use it.
pub(crate) struct Call {
    // Declared before the client, because it borrows from the client and must be dropped first.
    stage: Stage,
    client: Arc<Connection>,
}

enum Stage {
    Writing(Request<'static>, usize),
    UnderWay(PendingCall<'static>),
    Answered(Response<'static>),
    /// The call failed, and the caller has not received the error yet.
    Failed(Error),
    /// The call failed, or has no answer because it is one-way.
    Over,
}

/// As the timeout of a wait for a call or a stream, this value means that the client's deadline applies.
#[allow(unreachable_pub, reason = "the header has it")]
pub const NO_TIMEOUT: u64 = u64::MAX;

fn nanoseconds(given: u64) -> Option<Duration> {
    (given > 0).then(|| Duration::from_nanos(given))
}

impl ClientOptions {
    fn options(&self) -> Result<Options, CallFailure> {
        let default = Options::default();
        Ok(Options {
            waiting: border::waiting(self.waiting)?,
            window: self.calls.checked_sub(1).map_or(default.window, CallWindow::Fixed),
            deadline: nanoseconds(self.deadline_ns),
            resend: nanoseconds(self.resend_ns),
            patience: nanoseconds(self.patience_ns).unwrap_or(default.patience),
        })
    }
}

impl Call {
    fn new(
        client: &Arc<Connection>,
        bytes: usize,
        room: usize,
        timeout_ns: u64,
    ) -> Result<Call, CallFailure> {
        let client = client.clone();
        let request = match timeout_ns {
            NO_TIMEOUT => client.request_with_room(bytes, room)?,
            timeout_ns => client.request_within(bytes, room, Duration::from_nanos(timeout_ns))?,
        };
        // SAFETY: the client does not move, and it stays until the stage, which is declared before it, is dropped.
        let request = unsafe { mem::transmute::<Request<'_>, Request<'static>>(request) };
        Ok(Call { stage: Stage::Writing(request, bytes), client })
    }

    fn take_request(&mut self) -> Result<(Request<'static>, usize), CallFailure> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Writing(request, bytes) => Ok((request, bytes)),
            stage => {
                self.stage = stage;
                Err(CallFailure::invalid("the request was sent already"))
            }
        }
    }

    fn start(&mut self, method: &str) -> Result<(), CallFailure> {
        self.stage = Stage::UnderWay(self.take_request()?.0.start(method)?);
        Ok(())
    }

    /// Starts the call if there is room for it now. Returns whether there was.
    fn try_start(&mut self, method: &str) -> Result<bool, CallFailure> {
        self.client.check_process()?;
        let (request, bytes) = self.take_request()?;
        let (stage, started) = match request.try_start(method) {
            Ok(pending) => (Stage::UnderWay(pending), true),
            Err(request) => (Stage::Writing(request, bytes), false),
        };
        self.stage = stage;
        Ok(started)
    }

    pub(crate) fn stream(&mut self, method: &str, ahead: usize) -> Result<Stream, CallFailure> {
        let parts = self.take_request()?.0.stream(method, ahead)?;
        Ok(Stream::new(parts, self.client.clone()))
    }

    fn set_deadline(&mut self, deadline_ns: u64) -> Result<(), CallFailure> {
        let Stage::Writing(request, _) = &mut self.stage else {
            return Err(CallFailure::invalid("a deadline is set before the call is started"));
        };
        request.set_deadline(Duration::from_nanos(deadline_ns));
        Ok(())
    }

    /// Returns whether waiting would return at once. If not, the waker is woken when this may have changed.
    fn poll(&mut self, waker: &Waker) -> Result<bool, CallFailure> {
        if let Stage::Writing(..) = self.stage {
            return Err(CallFailure::invalid("the call was not started"));
        }
        let Stage::UnderWay(pending) = &mut self.stage else { return Ok(true) };
        let Poll::Ready(answered) = Pin::new(pending).poll(&mut Context::from_waker(waker)) else {
            return Ok(false);
        };
        self.stage = answered.map_or_else(Stage::Failed, Stage::Answered);
        Ok(true)
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<(), CallFailure> {
        let pending = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::UnderWay(pending) => pending,
            Stage::Answered(response) => {
                self.stage = Stage::Answered(response);
                return Ok(());
            }
            Stage::Writing(request, bytes) => {
                self.stage = Stage::Writing(request, bytes);
                return Err(CallFailure::invalid("the call was not started"));
            }
            Stage::Failed(error) => return Err(error.into()),
            Stage::Over => return Err(CallFailure::invalid("the call is over: it failed, or went one way")),
        };
        let answered = match timeout_ns {
            NO_TIMEOUT => pending.wait(),
            timeout_ns => match wait_for(pending, Duration::from_nanos(timeout_ns)) {
                Ok(answered) => answered,
                Err(pending) => {
                    self.stage = Stage::UnderWay(pending);
                    let peer = self.client.peer().to_string();
                    let after = Duration::from_nanos(timeout_ns);
                    return Err(CallFailure::not_yet(Error::Deadline { peer, after, stopped: false }));
                }
            },
        };
        self.stage = Stage::Answered(answered?);
        Ok(())
    }
}

/// An eventfd that is written when a call may be answered.
struct Eventfd(File);

impl Eventfd {
    /// Duplicates a descriptor, so that no other code can close the duplicate.
    fn from_descriptor(descriptor: i32) -> Result<Eventfd, CallFailure> {
        if descriptor < 0 {
            return Err(CallFailure::invalid(format!("`eventfd` is {descriptor}")));
        }
        // SAFETY: the descriptor is borrowed only for this call; if it is not open, the result is an error.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own = borrowed
            .try_clone_to_owned()
            .map_err(|error| CallFailure::invalid(format!("`eventfd`: {error}")))?;
        Ok(Eventfd(own.into()))
    }
}

impl Wake for Eventfd {
    fn wake(self: Arc<Self>) {
        // The result does not matter, because a counter that is full wakes the reader as well.
        let _ = (&self.0).write_all(&1u64.to_ne_bytes());
    }
}

/// Returns the answer, or the call itself if no answer comes in time.
fn wait_for(
    pending: PendingCall<'static>,
    timeout: Duration,
) -> Result<Result<Response<'static>, Error>, PendingCall<'static>> {
    match timeout.is_zero() {
        true => pending.try_wait(),
        false => pending.try_wait_for(timeout),
    }
}

/// Connects to the pool at a socket (null: the user's default pool) and to a service by its name. If the server shares
/// no memory with this host, `pool` is `tcp://host:port`; everything else is the same.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_connect(
    pool: *const c_char,
    service: *const c_char,
    options: *const ClientOptions,
    client: *mut *mut Client,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let connect = || {
        // SAFETY: null or a text, as the header requires; this applies to all texts below.
        let (pool, service) = unsafe { (border::socket(pool)?, border::text(service, "service")?) };
        // SAFETY: null or options.
        let options = unsafe { options.as_ref() }.map_or(Ok(Options::default()), ClientOptions::options)?;
        Ok(Client(Arc::new(Connection::connect(pool, service, options)?)))
    };
    // SAFETY: null or places that can be written.
    unsafe { border::run(error, || border::give(client, "client", connect)) }
}

/// Frees a client. Its calls in flight keep what they need of it. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_free(client: *mut Client) {
    // SAFETY: as the header requires.
    unsafe { border::free(client) }
}

/// Returns whether the server can lend memory to this client. It can over a pool, but not over TCP.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_shares_memory(client: *const Client) -> bool {
    // SAFETY: null or a client.
    border::or(false, || unsafe { client.as_ref() }.map(|client| client.0.shares_memory()))
}

/// Returns the address of bytes that the server lends to its clients, by the offset that the server sent. They may be
/// read until the client is freed, but the service must keep them from being reused meanwhile. Null: the server does
/// not lend these bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_lent(client: *const Client, offset: u64, bytes: usize) -> *const u8 {
    border::or(ptr::null(), || {
        // SAFETY: null or a client.
        let lent = unsafe { client.as_ref() }?.0.lent(offset, bytes)?;
        Some(lent.as_ptr())
    })
}

/// Makes a request of `bytes` bytes, whose answer may have up to `room` bytes. Waits while the calls in flight fill all
/// slots of the server.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_new(
    client: *const Client,
    bytes: usize,
    room: usize,
    call: *mut *mut Call,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let make = || {
        // SAFETY: null or a client.
        let client = unsafe { client.as_ref() }.ok_or_else(|| CallFailure::null("client"))?;
        Call::new(&client.0, bytes, room, NO_TIMEOUT)
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(call, "call", make)) }
}

/// Like `unrack_call_new`, but waits for at most `timeout_ns` nanoseconds. If the server still has no free slot then,
/// fails with `UNRACK_STATUS_EXHAUSTED`. With `UNRACK_NO_TIMEOUT`, the client's deadline applies.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_new_within(
    client: *const Client,
    bytes: usize,
    room: usize,
    timeout_ns: u64,
    call: *mut *mut Call,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let make = || {
        // SAFETY: null or a client.
        let client = unsafe { client.as_ref() }.ok_or_else(|| CallFailure::null("client"))?;
        Call::new(&client.0, bytes, room, timeout_ns)
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(call, "call", make)) }
}

/// Returns the bytes of the request, which may be written until the request is sent; null afterwards. They begin at a
/// cache line, and at first they contain bytes of an earlier call. `bytes` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_request(call: *mut Call, bytes: *mut usize) -> *mut u8 {
    border::or(ptr::null_mut(), || {
        // SAFETY: null or a call that no other thread uses.
        let Stage::Writing(request, length) = &mut unsafe { call.as_mut() }?.stage else { return None };
        // SAFETY: null or a place to write to.
        if let Some(bytes) = unsafe { bytes.as_mut() } {
            *bytes = *length;
        }
        Some(request.body().as_mut_ptr())
    })
}

/// Sends the request. Waits while the client has as many calls in flight as it may have.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_start(
    call: *mut Call,
    method: *const c_char,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let start = || {
        // SAFETY: null, or a text, and a call that no other thread uses.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        call.start(method)
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, start) }
}

/// Like `unrack_call_start`, but only if there is room for the call now. Writes to `started` whether there was.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_try_start(
    call: *mut Call,
    method: *const c_char,
    started: *mut bool,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let start = || {
        // SAFETY: null, or a text, a call that no other thread uses, and a place that can be written.
        let (method, call, started) = unsafe {
            (
                border::text(method, "method")?,
                border::reach(call, "call")?,
                border::reach(started, "started")?,
            )
        };
        *started = call.try_start(method)?;
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, start) }
}

/// Sets how long this call may take from now, in nanoseconds, regardless of the client's deadline. The time includes
/// the wait for room and the wait for the answer. When it is over, the call fails with `UNRACK_STATUS_DEADLINE`. It
/// must be set before the call is started.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_deadline(
    call: *mut Call,
    deadline_ns: u64,
    error: *mut *mut CallFailure,
) -> CallStatus {
    // SAFETY: null or a call that no other thread uses, and null or a place to write to.
    unsafe { border::run(error, || border::reach(call, "call")?.set_deadline(deadline_ns)) }
}

/// For event loops: writes to `ready` whether waiting for the answer would return at once. If not, the library writes 1
/// to the eventfd when this may have changed; then poll again. The eventfd belongs to the caller, who may close it at
/// any time. Only the eventfd of the last poll is used.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_poll(
    call: *mut Call,
    eventfd: c_int,
    ready: *mut bool,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let poll = || {
        // SAFETY: null or a call that no other thread uses, and null or a place to write to.
        let (call, ready) = unsafe { (border::reach(call, "call")?, border::reach(ready, "ready")?) };
        *ready = call.poll(&Waker::from(Arc::new(Eventfd::from_descriptor(eventfd)?)))?;
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, poll) }
}

/// Sends the request as a one-way call, which has no answer. The call is then over.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_send(
    call: *mut Call,
    method: *const c_char,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let send = || {
        // SAFETY: null, or a text, and a call that no other thread uses.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        Ok(call.take_request()?.0.send(method)?)
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, send) }
}

/// Waits for the answer. If none has come within `timeout_ns`, fails with `UNRACK_STATUS_DEADLINE`; the call is then
/// still in flight and can be waited for again. 0 checks only once. With `UNRACK_NO_TIMEOUT`, the client's deadline
/// applies, which costs less than a timeout here.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_wait(
    call: *mut Call,
    timeout_ns: u64,
    error: *mut *mut CallFailure,
) -> CallStatus {
    // SAFETY: null or a call that no other thread uses, and null or a place to write to.
    unsafe { border::run(error, || border::reach(call, "call")?.wait(timeout_ns)) }
}

/// Returns the bytes of the answer, which are valid until the call is freed; null if there is no answer. `bytes` may be
/// null.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_response(call: *const Call, bytes: *mut usize) -> *const u8 {
    border::or(ptr::null(), || {
        // SAFETY: null or a call that no other thread uses.
        let Stage::Answered(response) = &unsafe { call.as_ref() }?.stage else { return None };
        // SAFETY: null or a place to write to.
        if let Some(bytes) = unsafe { bytes.as_mut() } {
            *bytes = response.body().len();
        }
        Some(response.body().as_ptr())
    })
}

/// Returns the call's memory to the client. A call in flight is cancelled. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_free(call: *mut Call) {
    // SAFETY: as the header says.
    unsafe { border::free(call) }
}
