//! Errors, with their kind, cause and peer.

use crate::border;
use std::ffi::{CString, c_char};
use std::ptr;
use unrack_pool::wire::Denied;
use unrack_rpc::{Error, Status as RpcStatus};

/// Result of a function.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    /// An argument is wrong, the function is not allowed in this state, or the parent of this process made the handle
    /// before a fork.
    Invalid = 1,
    /// No manager serves the pool, or it is gone. For TCP: no server listens at the address.
    NoPool = 2,
    /// No service has this name.
    NoService = 3,
    /// The pool failed the request: for example, it is full, the name is taken, or the service refused.
    Pool = 4,
    /// The peer speaks another version of the protocol, or another protocol.
    Version = 5,
    /// The message is longer than a message may be.
    TooLong = 6,
    /// The calls in flight fill all slots of the server, or the server has no memory left for more calls.
    Exhausted = 7,
    /// No answer came in time.
    Deadline = 8,
    /// The peer is gone.
    Gone = 9,
    UnknownMethod = 10,
    /// The answer is longer than the call has room for.
    NoRoom = 11,
    /// The handler failed.
    Failed = 12,
    /// The handler refused the call, with a number that the service defines.
    Refused = 13,
    /// The peer broke the protocol.
    Protocol = 14,
    /// This library has a fault, or the machine has no threads left.
    Internal = 15,
}

/// Reason why a function failed. It belongs to the caller until `unrack_error_free`.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: Status,
    text: CString,
    peer: Option<CString>,
    number: u32,
}

impl Failure {
    fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: c_text(text), peer: None, number: 0 }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Status::Invalid, text)
    }

    /// Makes the failure of a wait whose timeout, given by the caller, is over. The awaited call or part is still in
    /// flight.
    pub(crate) fn not_yet(error: Error) -> Failure {
        Failure { number: 1, ..error.into() }
    }

    pub(crate) fn null(name: &str) -> Failure {
        Failure::invalid(format!("`{name}` is a null pointer"))
    }

    pub(crate) fn panicked() -> Failure {
        Failure::new(Status::Internal, "a bug in this library: it panicked; the reason is on standard error")
    }
}

fn c_text(text: impl Into<String>) -> CString {
    CString::new(text.into().replace('\0', "")).expect("no zero is left")
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let peer = peer_of(&error).map(c_text);
        let number = match &error {
            Error::Refused { status, .. } => u32::from(status.0 - RpcStatus::SERVICE),
            Error::NoRoom { needed, .. } => u32::try_from(*needed).unwrap_or(u32::MAX),
            _ => 0,
        };
        Failure { peer, number, ..Failure::new(status_of(&error), error.to_string()) }
    }
}

impl From<unrack_lend::Error> for Failure {
    fn from(error: unrack_lend::Error) -> Failure {
        use unrack_lend::Error as Lend;
        let text = error.to_string();
        let (status, peer) = match error {
            Lend::Pool(error) => return Error::Pool(error).into(),
            Lend::Protocol { peer, .. } => (Status::Version, Some(peer)),
            Lend::NotLent { peer, .. } => (Status::Protocol, Some(peer)),
            Lend::OtherEndpoint => (Status::Invalid, None),
            Lend::Socket(_) => (Status::Internal, None),
        };
        Failure { peer: peer.map(c_text), ..Failure::new(status, text) }
    }
}

fn status_of(error: &Error) -> Status {
    use unrack_pool::Error as Pool;
    match error {
        Error::Pool(
            Pool::NoManager(_)
            | Pool::Connect { .. }
            | Pool::NotAPool(_)
            | Pool::ManagerGone
            | Pool::Silent { .. }
            | Pool::Untrusted(_)
            | Pool::Send(_),
        ) => Status::NoPool,
        Error::Pool(Pool::Denied(Denied::NoService(_))) => Status::NoService,
        Error::Pool(Pool::Denied(Denied::Gone { .. })) | Error::Gone { .. } | Error::Lost { .. } => {
            Status::Gone
        }
        Error::Pool(Pool::Forked) => Status::Invalid,
        Error::Pool(Pool::TimedOut(_)) | Error::Deadline { .. } => Status::Deadline,
        Error::Pool(Pool::Denied(Denied::Version { .. })) | Error::Version { .. } | Error::NotRpc { .. } => {
            Status::Version
        }
        Error::Pool(_) => Status::Pool,
        Error::TooLong { .. } | Error::TooLongForPeer { .. } => Status::TooLong,
        Error::Exhausted { .. } | Error::Busy { .. } => Status::Exhausted,
        Error::UnknownMethod { .. } => Status::UnknownMethod,
        Error::NoRoom { .. } => Status::NoRoom,
        Error::Failed { .. } => Status::Failed,
        Error::Refused { .. } => Status::Refused,
        Error::Protocol { .. } => Status::Protocol,
        Error::Connect { .. } => Status::NoPool,
        Error::SameNumber(..) | Error::Listen { .. } => Status::Invalid,
        Error::Thread(_) => Status::Internal,
    }
}

fn peer_of(error: &Error) -> Option<String> {
    match error {
        Error::Version { peer, .. }
        | Error::NotRpc { peer }
        | Error::Exhausted { peer, .. }
        | Error::Busy { peer, .. }
        | Error::Deadline { peer, .. }
        | Error::Gone { peer, .. }
        | Error::Lost { peer, .. }
        | Error::Connect { peer, .. }
        | Error::TooLongForPeer { peer, .. }
        | Error::UnknownMethod { peer }
        | Error::NoRoom { peer, .. }
        | Error::Failed { peer }
        | Error::Refused { peer, .. }
        | Error::Protocol { peer, .. } => Some(peer.clone()),
        Error::Pool(unrack_pool::Error::Denied(
            Denied::Gone { peer, .. } | Denied::Slow(peer) | Denied::NameTaken { by: peer, .. },
        )) => Some(peer.to_string()),
        _ => None,
    }
}

/// Returns the kind of the error, which is the code that the failed function returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_status(error: *const Failure) -> Status {
    // SAFETY: null or an error, as the header says.
    border::or(Status::Invalid, || unsafe { error.as_ref() }.map(|error| error.status))
}

/// Returns one line that describes what happened, with which peer, and what to do. The text lives as long as the error.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_text(error: *const Failure) -> *const c_char {
    // SAFETY: null, or an error that was not freed.
    border::or(c"no error".as_ptr(), || unsafe { error.as_ref() }.map(|error| error.text.as_ptr()))
}

/// Returns the peer with its process and its user; null if the error concerns no peer. The text lives as long as the
/// error.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_peer(error: *const Failure) -> *const c_char {
    // SAFETY: null, or an error that was not freed.
    border::or(ptr::null(), || unsafe { error.as_ref()?.peer.as_ref() }.map(|peer| peer.as_ptr()))
}

/// Returns a number whose meaning depends on the status. `UNRACK_STATUS_REFUSED`: the number with which the handler
/// refused. `UNRACK_STATUS_NO_ROOM`: the bytes that the answer needs. `UNRACK_STATUS_DEADLINE`: 1 if the awaited call
/// or part is still in flight. Otherwise 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_number(error: *const Failure) -> u32 {
    // SAFETY: null, or an error that was not freed.
    border::or(0, || unsafe { error.as_ref() }.map(|error| error.number))
}

/// Frees an error. Null means no error and is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_free(error: *mut Failure) {
    // SAFETY: as the header says.
    unsafe { border::free(error) }
}
