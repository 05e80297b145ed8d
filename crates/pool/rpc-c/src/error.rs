//! Errors, with their kind, cause and peer.

use crate::border;
use std::ffi::{CString, c_char};
use std::ptr;
use unrack_pool::wire::Denied;
use unrack_rpc::{EntryStatus as RpcStatus, Error};

/// Result of a function.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallStatus {
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
pub(crate) struct CallFailure {
    pub status: CallStatus,
    text: CString,
    peer: Option<CString>,
    number: u32,
}

impl CallFailure {
    fn new(status: CallStatus, text: impl Into<String>) -> CallFailure {
        CallFailure { status, text: c_text(text), peer: None, number: 0 }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> CallFailure {
        CallFailure::new(CallStatus::Invalid, text)
    }

    /// Makes the failure of a wait whose timeout, given by the caller, is over. The awaited call or part is still in
    /// flight.
    pub(crate) fn not_yet(error: Error) -> CallFailure {
        CallFailure { number: 1, ..error.into() }
    }

    pub(crate) fn null(name: &str) -> CallFailure {
        CallFailure::invalid(format!("`{name}` is a null pointer"))
    }

    pub(crate) fn panicked() -> CallFailure {
        CallFailure::new(
            CallStatus::Internal,
            "a bug in this library: it panicked; the reason is on standard error",
        )
    }
}

fn c_text(text: impl Into<String>) -> CString {
    CString::new(text.into().replace('\0', "")).expect("no zero is left")
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> CallFailure {
        let peer = peer_of(&error).map(c_text);
        let number = match &error {
            Error::Refused { status, .. } => u32::from(status.0 - RpcStatus::SERVICE),
            Error::NoRoom { needed, .. } => u32::try_from(*needed).unwrap_or(u32::MAX),
            _ => 0,
        };
        CallFailure { peer, number, ..CallFailure::new(status_of(&error), error.to_string()) }
    }
}

impl From<unrack_lend::Error> for CallFailure {
    fn from(error: unrack_lend::Error) -> CallFailure {
        use unrack_lend::Error as Lend;
        let text = error.to_string();
        let (status, peer) = match error {
            Lend::Pool(error) => return Error::Pool(error).into(),
            Lend::Protocol { peer, .. } => (CallStatus::Version, Some(peer)),
            Lend::NotLent { peer, .. } => (CallStatus::Protocol, Some(peer)),
            Lend::OtherEndpoint => (CallStatus::Invalid, None),
            Lend::Socket(_) => (CallStatus::Internal, None),
        };
        CallFailure { peer: peer.map(c_text), ..CallFailure::new(status, text) }
    }
}

fn status_of(error: &Error) -> CallStatus {
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
        ) => CallStatus::NoPool,
        Error::Pool(Pool::Denied(Denied::NoService(_))) => CallStatus::NoService,
        Error::Pool(Pool::Denied(Denied::Gone { .. })) | Error::Gone { .. } | Error::Lost { .. } => {
            CallStatus::Gone
        }
        Error::Pool(Pool::Forked) => CallStatus::Invalid,
        Error::Pool(Pool::TimedOut(_)) | Error::Deadline { .. } => CallStatus::Deadline,
        Error::Pool(Pool::Denied(Denied::Version { .. })) | Error::Version { .. } | Error::NotRpc { .. } => {
            CallStatus::Version
        }
        Error::Pool(_) => CallStatus::Pool,
        Error::TooLong { .. } | Error::TooLongForPeer { .. } => CallStatus::TooLong,
        Error::Exhausted { .. } | Error::Busy { .. } => CallStatus::Exhausted,
        Error::UnknownMethod { .. } => CallStatus::UnknownMethod,
        Error::NoRoom { .. } => CallStatus::NoRoom,
        Error::Failed { .. } => CallStatus::Failed,
        Error::Refused { .. } => CallStatus::Refused,
        Error::Protocol { .. } => CallStatus::Protocol,
        Error::Connect { .. } => CallStatus::NoPool,
        Error::SameNumber(..) | Error::Listen { .. } => CallStatus::Invalid,
        Error::Thread(_) => CallStatus::Internal,
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
unsafe extern "C" fn unrack_error_status(error: *const CallFailure) -> CallStatus {
    // SAFETY: null or an error, as the header says.
    border::or(CallStatus::Invalid, || unsafe { error.as_ref() }.map(|error| error.status))
}

/// Returns one line that describes what happened, with which peer, and what to do. The text lives as long as the error.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_text(error: *const CallFailure) -> *const c_char {
    // SAFETY: null, or an error that was not freed.
    border::or(c"no error".as_ptr(), || unsafe { error.as_ref() }.map(|error| error.text.as_ptr()))
}

/// Returns the peer with its process and its user; null if the error concerns no peer. The text lives as long as the
/// error.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_peer(error: *const CallFailure) -> *const c_char {
    // SAFETY: null, or an error that was not freed.
    border::or(ptr::null(), || unsafe { error.as_ref()?.peer.as_ref() }.map(|peer| peer.as_ptr()))
}

/// Returns a number whose meaning depends on the status. `UNRACK_STATUS_REFUSED`: the number with which the handler
/// refused. `UNRACK_STATUS_NO_ROOM`: the bytes that the answer needs. `UNRACK_STATUS_DEADLINE`: 1 if the awaited call
/// or part is still in flight. Otherwise 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_number(error: *const CallFailure) -> u32 {
    // SAFETY: null, or an error that was not freed.
    border::or(0, || unsafe { error.as_ref() }.map(|error| error.number))
}

/// Frees an error. Null means no error and is ignored.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_free(error: *mut CallFailure) {
    // SAFETY: as the header says.
    unsafe { border::free(error) }
}
