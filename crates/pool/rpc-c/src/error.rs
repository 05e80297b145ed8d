//! Why something went wrong, with its cause and its peer.

use crate::border;
use std::ffi::{CString, c_char};
use std::ptr;
use unrack_pool::wire::Denied;
use unrack_rpc::{Error, Status as RpcStatus};

/// How a function ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    /// An argument is wrong, it is not the time for this, or the handle was made by the parent of this process, before a fork.
    Invalid = 1,
    /// No manager serves the pool, or it is gone; nobody listens at a TCP address.
    NoPool = 2,
    /// No service has this name.
    NoService = 3,
    /// The pool does not do what it was asked: it is full, the name is taken, the service refused.
    Pool = 4,
    /// The peer speaks another version of the protocol, or another protocol.
    Version = 5,
    /// More bytes than a message can have.
    TooLong = 6,
    /// Calls that the server takes at a time are all under way, or it has no memory left for more.
    Exhausted = 7,
    /// No answer in time.
    Deadline = 8,
    /// The peer is gone.
    Gone = 9,
    UnknownMethod = 10,
    /// The answer is longer than the call has room for.
    NoRoom = 11,
    /// The handler failed.
    Failed = 12,
    /// The handler refused, with a number of its own.
    Refused = 13,
    /// The peer breaks the protocol.
    Protocol = 14,
    /// A fault of this library, or the machine has no threads left.
    Internal = 15,
}

/// Why a function failed. Belongs to who called it, until `unrack_error_free`.
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

    /// Time is over that the caller gave this wait: what was waited for is still under way.
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

/// What kind of error it is: the code that the function returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_status(error: *const Failure) -> Status {
    // SAFETY: null or an error, as the header says.
    border::or(Status::Invalid, || unsafe { error.as_ref() }.map(|error| error.status))
}

/// One line that says what happened, with whom, and what to do. It lives as long as the error.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_text(error: *const Failure) -> *const c_char {
    // SAFETY: null, or an error that was not freed.
    border::or(c"no error".as_ptr(), || unsafe { error.as_ref() }.map(|error| error.text.as_ptr()))
}

/// The peer, its process and its user; null if the error is with nobody. It lives as long as the error.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_peer(error: *const Failure) -> *const c_char {
    // SAFETY: null, or an error that was not freed.
    border::or(ptr::null(), || unsafe { error.as_ref()?.peer.as_ref() }.map(|peer| peer.as_ptr()))
}

/// The number that the handler refused with, for `UNRACK_STATUS_REFUSED`; the bytes of the answer, for
/// `UNRACK_STATUS_NO_ROOM`; 1 for `UNRACK_STATUS_DEADLINE`, if what was waited for is still under way; else 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_number(error: *const Failure) -> u32 {
    // SAFETY: null, or an error that was not freed.
    border::or(0, || unsafe { error.as_ref() }.map(|error| error.number))
}

/// Null is no error and is left alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn unrack_error_free(error: *mut Failure) {
    // SAFETY: as the header says.
    unsafe { border::free(error) }
}
