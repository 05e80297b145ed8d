//! Connections and calls.

use crate::border;
use crate::error::{Failure, Status};
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
use unrack_rpc::client::{Options, Pending, Request, Response, Window};
use unrack_rpc::{Client as Connection, Error};

/// A connection to a service. Threads may share it. It may be freed before its calls, which keep what they need.
pub(crate) struct Client(Arc<Connection>);

/// How a client calls. All zero is the default.
#[repr(C)]
pub(crate) struct ClientOptions {
    /// `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
    pub waiting: u32,
    /// How many calls may be under way at a time: who starts one more waits. 0: 17.
    pub calls: u16,
    /// How long a call may take, in nanoseconds. 0: as long as the server lives.
    pub deadline_ns: u64,
    /// After how many nanoseconds without an answer a call is sent again; the server runs it once. 0: never.
    pub resend_ns: u64,
    /// How long the service may take to accept the connection, in nanoseconds. 0: 5 seconds.
    pub patience_ns: u64,
}

/// A call: a request that is written, then under way, then an answer that is read. One thread at a time may use it.
pub(crate) struct Call {
    // Before the client, which it borrows from.
    stage: Stage,
    client: Arc<Connection>,
}

enum Stage {
    Writing(Request<'static>, usize),
    UnderWay(Pending<'static>),
    Answered(Response<'static>),
    /// It failed, and nobody was told.
    Failed(Error),
    /// It failed, or nobody wants an answer.
    Over,
}

/// `unrack_call_wait` waits as long as the client's own deadline says.
#[allow(unreachable_pub, reason = "the header has it")]
pub const NO_TIMEOUT: u64 = u64::MAX;

fn nanoseconds(given: u64) -> Option<Duration> {
    (given > 0).then(|| Duration::from_nanos(given))
}

impl ClientOptions {
    fn options(&self) -> Result<Options, Failure> {
        let default = Options::default();
        Ok(Options {
            waiting: border::waiting(self.waiting)?,
            window: self.calls.checked_sub(1).map_or(default.window, Window::Fixed),
            deadline: nanoseconds(self.deadline_ns),
            resend: nanoseconds(self.resend_ns),
            patience: nanoseconds(self.patience_ns).unwrap_or(default.patience),
        })
    }
}

impl Call {
    fn new(client: &Arc<Connection>, bytes: usize, room: usize, timeout_ns: u64) -> Result<Call, Failure> {
        let client = client.clone();
        let request = match timeout_ns {
            NO_TIMEOUT => client.request_with_room(bytes, room)?,
            timeout_ns => client.request_within(bytes, room, Duration::from_nanos(timeout_ns))?,
        };
        // SAFETY: the client does not move and stays until the stage, which is declared before it, is dropped.
        let request = unsafe { mem::transmute::<Request<'_>, Request<'static>>(request) };
        Ok(Call { stage: Stage::Writing(request, bytes), client })
    }

    fn take_request(&mut self) -> Result<(Request<'static>, usize), Failure> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Writing(request, bytes) => Ok((request, bytes)),
            stage => {
                self.stage = stage;
                Err(Failure::invalid("the request was sent already"))
            }
        }
    }

    fn start(&mut self, method: &str) -> Result<(), Failure> {
        self.stage = Stage::UnderWay(self.take_request()?.0.start(method)?);
        Ok(())
    }

    /// Says whether there was room for it.
    fn try_start(&mut self, method: &str) -> Result<bool, Failure> {
        self.client.check_process()?;
        let (request, bytes) = self.take_request()?;
        let (stage, started) = match request.try_start(method) {
            Ok(pending) => (Stage::UnderWay(pending), true),
            Err(request) => (Stage::Writing(request, bytes), false),
        };
        self.stage = stage;
        Ok(started)
    }

    pub(crate) fn stream(&mut self, method: &str, ahead: usize) -> Result<Stream, Failure> {
        let parts = self.take_request()?.0.stream(method, ahead)?;
        Ok(Stream::new(parts, self.client.clone()))
    }

    fn set_deadline(&mut self, deadline_ns: u64) -> Result<(), Failure> {
        let Stage::Writing(request, _) = &mut self.stage else {
            return Err(Failure::invalid("a deadline is set before the call is started"));
        };
        request.set_deadline(Duration::from_nanos(deadline_ns));
        Ok(())
    }

    /// Whether waiting would return at once. If not, the waker is told when that may have changed.
    fn poll(&mut self, waker: &Waker) -> Result<bool, Failure> {
        if let Stage::Writing(..) = self.stage {
            return Err(Failure::invalid("the call was not started"));
        }
        let Stage::UnderWay(pending) = &mut self.stage else { return Ok(true) };
        let Poll::Ready(answered) = Pin::new(pending).poll(&mut Context::from_waker(waker)) else {
            return Ok(false);
        };
        self.stage = answered.map_or_else(Stage::Failed, Stage::Answered);
        Ok(true)
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<(), Failure> {
        let pending = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::UnderWay(pending) => pending,
            Stage::Answered(response) => {
                self.stage = Stage::Answered(response);
                return Ok(());
            }
            Stage::Writing(request, bytes) => {
                self.stage = Stage::Writing(request, bytes);
                return Err(Failure::invalid("the call was not started"));
            }
            Stage::Failed(error) => return Err(error.into()),
            Stage::Over => return Err(Failure::invalid("the call is over: it failed, or went one way")),
        };
        let answered = match timeout_ns {
            NO_TIMEOUT => pending.wait(),
            timeout_ns => match wait_for(pending, Duration::from_nanos(timeout_ns)) {
                Ok(answered) => answered,
                Err(pending) => {
                    self.stage = Stage::UnderWay(pending);
                    let peer = self.client.peer().to_string();
                    let after = Duration::from_nanos(timeout_ns);
                    return Err(Failure::not_yet(Error::Deadline { peer, after, stopped: false }));
                }
            },
        };
        self.stage = Stage::Answered(answered?);
        Ok(())
    }
}

/// What is written to when a call may be answered.
struct Eventfd(File);

impl Eventfd {
    /// A descriptor of its own, which nobody else closes.
    fn from_descriptor(descriptor: i32) -> Result<Eventfd, Failure> {
        if descriptor < 0 {
            return Err(Failure::invalid(format!("`eventfd` is {descriptor}")));
        }
        // SAFETY: it is borrowed for this call only; one that is not open is an error.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own =
            borrowed.try_clone_to_owned().map_err(|error| Failure::invalid(format!("`eventfd`: {error}")))?;
        Ok(Eventfd(own.into()))
    }
}

impl Wake for Eventfd {
    fn wake(self: Arc<Self>) {
        // A counter that is full wakes as well.
        let _ = (&self.0).write_all(&1u64.to_ne_bytes());
    }
}

/// The answer, or the call itself if there is none in time.
fn wait_for(
    pending: Pending<'static>,
    timeout: Duration,
) -> Result<Result<Response<'static>, Error>, Pending<'static>> {
    match timeout.is_zero() {
        true => pending.try_wait(),
        false => pending.try_wait_for(timeout),
    }
}

/// Connects to the pool at a socket (null: the user's own) and to a service by its name. Beyond the memory that is
/// shared, `pool` is `tcp://host:port`; everything else is the same.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_connect(
    pool: *const c_char,
    service: *const c_char,
    options: *const ClientOptions,
    client: *mut *mut Client,
    error: *mut *mut Failure,
) -> Status {
    let connect = || {
        // SAFETY: a null or a text, as the header says; so for all below.
        let (pool, service) = unsafe { (border::socket(pool)?, border::text(service, "service")?) };
        // SAFETY: null or options.
        let options = unsafe { options.as_ref() }.map_or(Ok(Options::default()), ClientOptions::options)?;
        Ok(Client(Arc::new(Connection::connect(pool, service, options)?)))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(client, "client", connect)) }
}

/// Calls that are under way keep what they need. Null is left alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_free(client: *mut Client) {
    // SAFETY: as the header says.
    unsafe { border::free(client) }
}

/// Whether the server can lend memory: over a pool, not over TCP.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_shares_memory(client: *const Client) -> bool {
    // SAFETY: null or a client.
    border::or(false, || unsafe { client.as_ref() }.map(|client| client.0.shares_memory()))
}

/// Bytes that the server lends to its clients, by the offset that it said, to be read until the client is freed. What keeps
/// them from being used for something else meanwhile is the service's own. Null: it lends no such bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_client_lent(client: *const Client, offset: u64, bytes: usize) -> *const u8 {
    border::or(ptr::null(), || {
        // SAFETY: null or a client.
        let lent = unsafe { client.as_ref() }?.0.lent(offset, bytes)?;
        Some(lent.as_ptr())
    })
}

/// A request of `bytes` bytes, which may be answered by up to `room` bytes. Waits while the server has all the calls
/// that it takes.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_new(
    client: *const Client,
    bytes: usize,
    room: usize,
    call: *mut *mut Call,
    error: *mut *mut Failure,
) -> Status {
    let make = || {
        // SAFETY: null or a client.
        let client = unsafe { client.as_ref() }.ok_or_else(|| Failure::null("client"))?;
        Call::new(&client.0, bytes, room, NO_TIMEOUT)
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(call, "call", make)) }
}

/// As `unrack_call_new`, which waits for at most `timeout_ns` nanoseconds: then the server still has all the calls that it takes
/// (`UNRACK_STATUS_EXHAUSTED`). `UNRACK_NO_TIMEOUT` waits as long as the client's own deadline says.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_new_within(
    client: *const Client,
    bytes: usize,
    room: usize,
    timeout_ns: u64,
    call: *mut *mut Call,
    error: *mut *mut Failure,
) -> Status {
    let make = || {
        // SAFETY: null or a client.
        let client = unsafe { client.as_ref() }.ok_or_else(|| Failure::null("client"))?;
        Call::new(&client.0, bytes, room, timeout_ns)
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(call, "call", make)) }
}

/// The request's bytes, to be written until it is sent; null afterwards. They begin at a cache line, and hold what
/// was there before. `bytes` may be null.
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

/// Sends the request. Waits while as many calls are under way as may be.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_start(
    call: *mut Call,
    method: *const c_char,
    error: *mut *mut Failure,
) -> Status {
    let start = || {
        // SAFETY: null, or a text, and a call that no other thread uses.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        call.start(method)
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, start) }
}

/// As `unrack_call_start`, if that does not have to wait for room. Says at `started` whether it did not.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_try_start(
    call: *mut Call,
    method: *const c_char,
    started: *mut bool,
    error: *mut *mut Failure,
) -> Status {
    let start = || {
        // SAFETY: null, or a text, a call that no other thread uses, and a place to write to.
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

/// How long this call may take from now, in nanoseconds, whatever deadline the client has: until there is room for it and
/// until its answer is there. Then it is over (`UNRACK_STATUS_DEADLINE`). To be set before it is started.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_deadline(
    call: *mut Call,
    deadline_ns: u64,
    error: *mut *mut Failure,
) -> Status {
    // SAFETY: null or a call that no other thread uses, and null or a place to write to.
    unsafe { border::run(error, || border::reach(call, "call")?.set_deadline(deadline_ns)) }
}

/// For event loops: says at `ready` whether waiting for the answer would return at once. If not, 1 is written to the
/// eventfd when that may have changed: then ask again. The eventfd is the caller's, and may be closed at any time; only the
/// last one that was given counts.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_poll(
    call: *mut Call,
    eventfd: c_int,
    ready: *mut bool,
    error: *mut *mut Failure,
) -> Status {
    let poll = || {
        // SAFETY: null or a call that no other thread uses, and null or a place to write to.
        let (call, ready) = unsafe { (border::reach(call, "call")?, border::reach(ready, "ready")?) };
        *ready = call.poll(&Waker::from(Arc::new(Eventfd::from_descriptor(eventfd)?)))?;
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, poll) }
}

/// Sends the request, which nobody answers. The call is over then.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_send(
    call: *mut Call,
    method: *const c_char,
    error: *mut *mut Failure,
) -> Status {
    let send = || {
        // SAFETY: null, or a text, and a call that no other thread uses.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        Ok(call.take_request()?.0.send(method)?)
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, send) }
}

/// Waits for the answer. A call that has none within `timeout_ns` (`UNRACK_STATUS_DEADLINE`) is still under way and can
/// be waited for again; 0 looks once. `UNRACK_NO_TIMEOUT` waits as long as the client's own deadline says, which costs
/// less than a timeout here.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_wait(call: *mut Call, timeout_ns: u64, error: *mut *mut Failure) -> Status {
    // SAFETY: null or a call that no other thread uses, and null or a place to write to.
    unsafe { border::run(error, || border::reach(call, "call")?.wait(timeout_ns)) }
}

/// The answer's bytes, until the call is freed; null if there is none. `bytes` may be null.
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

/// Gives the call's memory back; cancels it if it is under way. Null is left alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_free(call: *mut Call) {
    // SAFETY: as the header says.
    unsafe { border::free(call) }
}
