//! What can go wrong with a memory node, in words that name it.

use super::wire::{Reason, Status, VERSION};
use rustix::io::Errno;
use std::fmt;

/// Where a node listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp {
        ip: [u8; 4],
        port: u16,
    },
    /// Path of the socket through which it hands out memory.
    Shared(String),
}

/// The session is over. Nothing more can be stored or loaded, and nothing that was not completed counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub address: Address,
    pub kind: ErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection came about.
    Connect(Errno),
    TimedOut,
    /// The node's version, and what it has against us.
    Refused {
        version: u16,
        status: Status,
        free: u64,
        wanted: u64,
    },
    /// The node, or the way to it, is gone.
    Closed,
    Broken(Errno),
    /// The node said why.
    Ended(Reason),
    /// Not what the protocol allows.
    Garbage(&'static str),
    /// Not the bytes that were stored.
    Corrupt {
        id: u32,
    },
    /// Memory that the node handed out cannot be mapped.
    Map(Errno),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Tcp { ip: [a, b, c, d], port } => write!(f, "{a}.{b}.{c}.{d}:{port}"),
            Address::Shared(path) => f.write_str(path),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        use ErrorKind::*;
        let node = format_args!("the memory node at {}", self.address);
        match &self.kind {
            Connect(errno) => {
                write!(f, "cannot reach {node}: {}. Is `unrack memory serve` running there?", Words(*errno))
            }
            TimedOut => write!(f, "{node} did not answer in time"),
            Refused { version, status, free, wanted } => {
                write!(f, "{node} refused the session: ")?;
                refusal(f, *version, *status, *free, *wanted)
            }
            Closed => write!(f, "{node} closed the connection"),
            Broken(errno) => write!(f, "the connection to {node} broke: {}", Words(*errno)),
            Ended(reason) => write!(f, "{node} ended the session: {}", ending(*reason)),
            Garbage(what) => write!(f, "{node} broke the protocol: it sent {what}"),
            Corrupt { id } => {
                write!(f, "{node} returned page {id} with other contents than were stored there")
            }
            Map(errno) => write!(f, "cannot map the memory of {node}: {}", Words(*errno)),
        }
    }
}

impl std::error::Error for Error {}

fn refusal(f: &mut fmt::Formatter, version: u16, status: Status, free: u64, wanted: u64) -> fmt::Result {
    match status {
        Status::Welcome => f.write_str("no reason given"),
        Status::OtherVersion => write!(f, "it speaks version {version} of the protocol, we speak {VERSION}"),
        Status::OtherPageSize => f.write_str("its pages have another size"),
        Status::OtherTransport => {
            f.write_str("it transfers pages another way (TCP and shared memory are separate nodes)")
        }
        Status::Full => {
            write!(f, "its capacity is exhausted: {free} pages are free, {} were asked for", wanted.max(1))
        }
        Status::TooManySessions => f.write_str("it has as many sessions as it allows"),
    }
}

fn ending(reason: Reason) -> &'static str {
    match reason {
        Reason::Stopping => "it was stopped",
        Reason::Malformed => "it did not understand a request",
        Reason::NotHeld => "it was asked for a page that it does not hold",
    }
}

/// An error number in words. Not the C library's: those need thread-local storage.
struct Words(Errno);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.0 {
            Errno::CONNREFUSED => "connection refused",
            Errno::CONNRESET => "connection reset",
            Errno::PIPE => "it is gone",
            Errno::NOENT => "no such file",
            Errno::TIMEDOUT => "it does not answer",
            Errno::HOSTUNREACH | Errno::NETUNREACH => "there is no route to it",
            Errno::ACCESS | Errno::PERM => "permission denied",
            Errno::NOMEM => "out of memory",
            Errno::MFILE | Errno::NFILE => "too many open files",
            other => return write!(f, "error number {}", other.raw_os_error()),
        })
    }
}
