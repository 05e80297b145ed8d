//! Errors of calls.

use crate::queue::entry::{EntryStatus, MOST_BYTES};
use std::time::Duration;
use unrack_pool::wire::{Cause, Denied, PeerProcess};

/// Reason why a call has no answer. Each error names the peer, if there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool failed the request: it has no manager, no such service or no memory, or the service refused.
    #[error(transparent)]
    Pool(#[from] unrack_pool::Error),
    #[error(
        "{peer} speaks version {theirs} of the protocol of calls and this program version {ours}: use the same release of both"
    )]
    Version { peer: String, ours: u16, theirs: u16 },
    #[error("{peer} does not speak the protocol of calls: check the address")]
    NotRpc { peer: String },
    #[error("a message of {asked} bytes is longer than the limit of {MOST_BYTES}")]
    TooLong { asked: usize },
    #[error("a message of {asked} bytes is longer than the limit of {peer}, {most}")]
    TooLongForPeer { peer: String, asked: usize, most: usize },
    #[error("cannot connect to {peer}: {error}")]
    Connect { peer: String, error: std::io::Error },
    #[error("cannot listen at tcp://{address}: {error}")]
    Listen { address: String, error: std::io::Error },
    #[error(
        "all {slots} calls that {peer} takes at a time are under way: wait for one, or use a smaller window"
    )]
    Exhausted { peer: String, slots: usize },
    /// No answer came in time. `stopped` is true if the peer announces that it sleeps but could not be woken.
    #[error(
        "{peer} did not answer within {after:?}{}",
        if *stopped { ": it cannot be woken, since it is stopped or has no processor" } else { "" }
    )]
    Deadline { peer: String, after: Duration, stopped: bool },
    #[error("{peer} {cause}")]
    Gone { peer: String, cause: Cause },
    /// The connection over TCP was lost, so that each call in flight may or may not have run.
    #[error("the connection to {peer} is lost: {why}")]
    Lost { peer: String, why: String },
    #[error("{peer} has no method of this name")]
    UnknownMethod { peer: String },
    #[error(
        "the answer of {peer} has {needed} bytes, but the call has room for {room}: give it more (`with_room`)"
    )]
    NoRoom { peer: String, needed: usize, room: usize },
    #[error(
        "{peer} has no memory for this call: it holds {held_mib} MiB of this client's calls and answers, or has \
         reached its limit for all clients; call again when some are answered"
    )]
    Busy { peer: String, held_mib: u32 },
    #[error("the handler of {peer} failed: see the log of the service")]
    Failed { peer: String },
    #[error("{peer} refused the call with status {}", status.0)]
    Refused { peer: String, status: EntryStatus },
    #[error("{peer} breaks the protocol: it answered with status {}", status.0)]
    Protocol { peer: String, status: EntryStatus },
    #[error("two methods have the same number: {0:?} and {1:?}; rename one")]
    SameNumber(String, String),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Error {
    /// Returns the error that the status of an answer means.
    pub(crate) fn of_status(peer: &PeerProcess, status: EntryStatus, length: u32, room: usize) -> Error {
        let peer = peer.to_string();
        match status {
            EntryStatus::UNKNOWN_METHOD => Error::UnknownMethod { peer },
            EntryStatus::TOO_LONG => Error::NoRoom { peer, needed: length as usize, room },
            EntryStatus::FAILED => Error::Failed { peer },
            EntryStatus::BUSY => Error::Busy { peer, held_mib: length },
            // The server gives up the connection after a bad buffer, but this status arrives before that news.
            EntryStatus::BAD_BUFFER => Error::Gone { peer, cause: Cause::CannotMap },
            status if status.0 >= EntryStatus::SERVICE => Error::Refused { peer, status },
            status => Error::Protocol { peer, status },
        }
    }

    /// Returns whether the same call may succeed on a new connection, because only the server or the connection is
    /// gone.
    pub fn is_gone(&self) -> bool {
        matches!(
            self,
            Error::Gone { .. }
                | Error::Lost { .. }
                | Error::Pool(
                    unrack_pool::Error::ManagerGone | unrack_pool::Error::Denied(Denied::Gone { .. })
                )
        )
    }
}
