//! Connections and calls.

use crate::border;
use crate::error::{Failure, Status};
use std::ffi::c_char;
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use unrack_rpc::client::{Options, Pending, Request, Response, Window};
use unrack_rpc::{Client as Connection, Error};

/// A connection to a service. Threads may share it. It may be freed before its calls, which keep what they need.
pub struct Client(Arc<Connection>);

/// How a client calls. All zero is the default.
#[repr(C)]
pub struct ClientOptions {
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
pub struct Call {
    // Before the client, which it borrows from.
    stage: Stage,
    client: Arc<Connection>,
}

enum Stage {
    Writing(Request<'static>, usize),
    UnderWay(Pending<'static>),
    Answered(Response<'static>),
    /// It failed, or nobody wants an answer.
    Over,
}

/// `unrack_call_wait` waits as long as the client's own deadline says.
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
    fn new(client: &Arc<Connection>, bytes: usize, room: usize) -> Result<Call, Failure> {
        let client = client.clone();
        let request = client.request_with_room(bytes, room)?;
        // SAFETY: the client does not move and stays until the stage, which is declared before it, is dropped.
        let request = unsafe { mem::transmute::<Request<'_>, Request<'static>>(request) };
        Ok(Call { stage: Stage::Writing(request, bytes), client })
    }

    fn take_request(&mut self) -> Result<Request<'static>, Failure> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Writing(request, _) => Ok(request),
            stage => {
                self.stage = stage;
                Err(Failure::invalid("the request was sent already"))
            }
        }
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
            Stage::Over => return Err(Failure::invalid("the call is over: it failed, or went one way")),
        };
        let answered = match timeout_ns {
            NO_TIMEOUT => pending.wait(),
            timeout_ns => match wait_for(pending, Duration::from_nanos(timeout_ns)) {
                Ok(answered) => answered,
                Err(pending) => {
                    self.stage = Stage::UnderWay(pending);
                    let peer = self.client.peer().to_string();
                    return Err(Error::Deadline { peer, after: Duration::from_nanos(timeout_ns) }.into());
                }
            },
        };
        self.stage = Stage::Answered(answered?);
        Ok(())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The answer, or the call itself if there is none in time.
fn wait_for(
    mut pending: Pending<'static>,
    timeout: Duration,
) -> Result<Result<Response<'static>, Error>, Pending<'static>> {
    if timeout.is_zero() {
        return pending.try_wait();
    }
    let over = Instant::now() + timeout;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(answered) = Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)) {
            return Ok(answered);
        }
        let left = over.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(pending);
        }
        std::thread::park_timeout(left);
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
        Call::new(&client.0, bytes, room)
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
        call.stage = Stage::UnderWay(call.take_request()?.start(method)?);
        Ok(())
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, start) }
}

/// Sends the request, which nobody answers. The call is over then.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_call_send(
    call: *mut Call,
    method: *const c_char,
    error: *mut *mut Failure,
) -> Status {
    let send = || {
        // SAFETY: as above.
        let (method, call) = unsafe { (border::text(method, "method")?, border::reach(call, "call")?) };
        Ok(call.take_request()?.send(method)?)
    };
    // SAFETY: as above.
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
