//! Services, and the calls that their handlers see.

use crate::border;
use crate::error::{CallFailure, CallStatus};
use std::ffi::{c_char, c_void};
use std::mem;
use std::ptr;
use unrack_rpc::EntryStatus as RpcStatus;
use unrack_rpc::server::{AnswerTooLong, Answered, Call, CallRefusal, Options, RunningService};

/// A service. Only one thread at a time may use it. Its handlers run on threads of the library.
pub(crate) struct Server(Stage);

enum Stage {
    Building(unrack_rpc::Server),
    Serving(#[expect(dead_code, reason = "it serves until it is dropped")] RunningService),
    /// The service could not be started.
    Over,
}

/// Configuration of a server. If all fields are zero, it is the default.
#[repr(C)]
pub(crate) struct ServerOptions {
    /// `UNRACK_WAITING_ADAPTIVE`, `_SPIN` or `_SLEEP`.
    pub waiting: u32,
    /// Number of threads that poll for calls. 0: 1.
    pub queue_threads: u32,
    /// Number of threads that run handlers. 0: the thread that finds a call runs it to its end.
    pub workers: u32,
}

/// A call that is being handled. It is valid until the handler returns.
pub(crate) struct HandledCall {
    call: *mut Call<'static>,
    /// Set if the last answer that the handler requested was longer than there is room for.
    no_room: Option<AnswerTooLong>,
}

/// Runs a call: reads the request, writes the answer, and returns 0. To refuse the call, the handler returns a number
/// from 1 to `UNRACK_REFUSALS`, which the client receives. Any other number means that the call failed. The handler may
/// run on several threads at a time.
pub(crate) type Handler =
    Option<unsafe extern "C" fn(context: *mut c_void, incoming: *mut HandledCall) -> i32>;

/// Memory of messages that is kept mapped.
pub(crate) struct MappedMessages(
    #[expect(dead_code, reason = "it is kept until it is dropped")] unrack_rpc::server::MappedCallMemory,
);

/// Largest number with which a handler may refuse a call; the smallest is 1.
#[allow(unreachable_pub, reason = "the header has it")]
pub const REFUSALS: i32 = 3839;
const _: () = assert!(REFUSALS == (RpcStatus::LAST - RpcStatus::SERVICE) as i32);

/// Pointer that a handler is called with.
pub(crate) struct HandlerContext(pub *mut c_void);

// SAFETY: the header states that handlers run on other threads, several at a time, with this pointer.
unsafe impl Send for HandlerContext {}
// SAFETY: the header states that handlers run on several threads at a time, with this pointer.
unsafe impl Sync for HandlerContext {}

impl HandlerContext {
    pub(crate) fn get(&self) -> *mut c_void {
        self.0
    }
}

impl HandledCall {
    pub(crate) fn from_call(call: &mut Call<'_>) -> HandledCall {
        HandledCall { call: ptr::from_mut(call).cast(), no_room: None }
    }

    /// Returns the result of a handler that returned this number.
    pub(crate) fn answered(&self, number: i32) -> Answered {
        answered(number, self.no_room)
    }
}

impl Server {
    /// Adds a method to a service that is not started yet. Fails if the service was started.
    pub(crate) fn add(
        &mut self,
        add: impl FnOnce(unrack_rpc::Server) -> unrack_rpc::Server,
    ) -> Result<(), CallFailure> {
        match mem::replace(&mut self.0, Stage::Over) {
            Stage::Building(building) => {
                self.0 = Stage::Building(add(building));
                Ok(())
            }
            stage => {
                self.0 = stage;
                Err(CallFailure::invalid("methods are added before the service is started"))
            }
        }
    }
}

fn answered(number: i32, no_room: Option<AnswerTooLong>) -> Answered {
    match (number, no_room) {
        (1..=REFUSALS, _) => Err(CallRefusal::from_number(number as u16)),
        (_, Some(no_room)) => Err(no_room.into()),
        (0, None) => Ok(()),
        _ => Err(CallRefusal::Status(RpcStatus::FAILED)),
    }
}

impl ServerOptions {
    fn options(&self) -> Result<Options, CallFailure> {
        Ok(Options {
            waiting: border::waiting(self.waiting)?,
            queue_threads: (self.queue_threads as usize).max(1),
            workers: self.workers as usize,
            ..Options::default()
        })
    }
}

/// Makes a service that has a name and no methods yet.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_server_new(
    name: *const c_char,
    options: *const ServerOptions,
    server: *mut *mut Server,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let make = || {
        // SAFETY: null or a text, as the header requires; this applies to all texts below.
        let name = unsafe { border::text(name, "name")? };
        // SAFETY: null or options.
        let options = unsafe { options.as_ref() }.map_or(Ok(Options::default()), ServerOptions::options)?;
        Ok(Server(Stage::Building(unrack_rpc::Server::new(name, options))))
    };
    // SAFETY: null or places to write to.
    unsafe { border::run(error, || border::give(server, "server", make)) }
}

/// Adds a method to a service that is not started yet. `context` is passed to the handler unchanged, and must be valid
/// until the server is freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_server_method(
    server: *mut Server,
    name: *const c_char,
    handler: Handler,
    context: *mut c_void,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let add = || {
        // SAFETY: null, or a text, and a server that no other thread uses.
        let (name, server) = unsafe { (border::text(name, "name")?, border::reach(server, "server")?) };
        let handler = handler.ok_or_else(|| CallFailure::null("handler"))?;
        let context = HandlerContext(context);
        let handle = move |call: &mut Call<'_>| {
            let mut incoming = HandledCall::from_call(call);
            // SAFETY: the handler and its context are valid as long as the server, as the header requires.
            let number = unsafe { handler(context.get(), &mut incoming) };
            incoming.answered(number)
        };
        server.add(|building| building.method(name, handle))
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, add) }
}

/// Registers with the pool at a socket (null: the user's default pool), and serves until the server is freed. If `pool`
/// is `tcp://host:port`, the server listens there for clients that share no memory. A server that could not be started
/// can only be freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_server_start(
    server: *mut Server,
    pool: *const c_char,
    error: *mut *mut CallFailure,
) -> CallStatus {
    let start = || {
        // SAFETY: null, or a text, and a server that no other thread uses.
        let (pool, server) = unsafe { (border::socket(pool)?, border::reach(server, "server")?) };
        match mem::replace(&mut server.0, Stage::Over) {
            Stage::Building(building) => {
                server.0 = Stage::Serving(building.serve(pool)?);
                Ok(())
            }
            stage => {
                server.0 = stage;
                Err(CallFailure::invalid("the service was started already"))
            }
        }
    };
    // SAFETY: null or a place to write to.
    unsafe { border::run(error, start) }
}

/// Ends the service with all its connections, after the running handlers have returned. Therefore no handler may call
/// this. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_server_free(server: *mut Server) {
    // SAFETY: as the header requires.
    unsafe { border::free(server) }
}

/// Returns the bytes of the request. Because the answer overwrites them, the handler must read everything that it needs
/// before it writes the answer. `bytes` may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_incoming_request(incoming: *const HandledCall, bytes: *mut usize) -> *const u8 {
    border::or(ptr::null(), || {
        // SAFETY: null, or the call of a handler that has not returned.
        let call = unsafe { incoming.as_ref()?.call.as_ref()? };
        // SAFETY: null or a place to write to.
        if let Some(bytes) = unsafe { bytes.as_mut() } {
            *bytes = call.request().len();
        }
        Some(call.request().as_ptr())
    })
}

/// Returns the largest number of bytes that the answer may have.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_incoming_room(incoming: *const HandledCall) -> usize {
    // SAFETY: null, or the call of a handler that has not returned.
    border::or(0, || unsafe { incoming.as_ref()?.call.as_ref() }.map(Call::room))
}

/// Makes the answer `bytes` long, and returns its bytes, to be written. Returns null if the client has no room for it;
/// then the client receives that error when the handler returns. If a handler never calls this, the answer is empty.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_incoming_answer(incoming: *mut HandledCall, bytes: usize) -> *mut u8 {
    border::or(ptr::null_mut(), || {
        // SAFETY: null, or the call of a handler that has not returned, which no other thread uses.
        let incoming = unsafe { incoming.as_mut()? };
        // SAFETY: the call exists until the handler returns, and no other code uses it.
        let call = unsafe { incoming.call.as_mut()? };
        match call.answer(bytes) {
            Ok(mut answer) => {
                incoming.no_room = None;
                Some(answer.as_mut_ptr())
            }
            Err(no_room) => {
                incoming.no_room = Some(no_room);
                None
            }
        }
    })
}

/// Returns the process ID of the caller, as the kernel identified it.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_incoming_process(incoming: *const HandledCall) -> u32 {
    // SAFETY: null, or the call of a handler that has not returned.
    border::or(0, || unsafe { incoming.as_ref()?.call.as_ref() }.map(|call| call.peer().pid))
}

/// Returns the user ID of the caller, as the kernel identified it.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_incoming_user(incoming: *const HandledCall) -> u32 {
    // SAFETY: null, or the call of a handler that has not returned.
    border::or(u32::MAX, || unsafe { incoming.as_ref()?.call.as_ref() }.map(|call| call.peer().uid))
}

/// Keeps the memory of a call's messages mapped after the handler's return, until the result is freed by
/// `unrack_kept_free`. By then, the bytes belong to later calls, or are whatever the client writes. Returns null if the
/// memory cannot be kept.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_incoming_keep(incoming: *const HandledCall) -> *mut MappedMessages {
    border::or(ptr::null_mut(), || {
        // SAFETY: null, or the call of a handler that has not returned.
        let call = unsafe { incoming.as_ref()?.call.as_ref()? };
        Some(Box::into_raw(Box::new(MappedMessages(call.keep_memory()))))
    })
}

/// Ends the keeping of a call's memory. Null is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_kept_free(kept: *mut MappedMessages) {
    // SAFETY: as the header requires.
    unsafe { border::free(kept) }
}
