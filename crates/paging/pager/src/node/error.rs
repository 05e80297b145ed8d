//! Errors of a session with a memory node. Their messages name the node.

use super::address::Address;
use super::session::SessionError;
use core::fmt;
use rustix::io::Errno;
use unrack_wire::{EndReason, GreetingStatus, VERSION};

/// Error that ends the session. Afterwards no page can be stored or loaded, and only completed requests have taken effect for certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub address: Address,
    pub kind: ErrorKind,
}

/// Kind of an error that ends a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection was established.
    Connect(Errno),
    TimedOut,
    /// The node refused the session. The fields are the node's version of the protocol, the reason, and numbers of pages.
    Refused {
        version: u16,
        status: GreetingStatus,
        free: u64,
        wanted: u64,
        /// Maximum number of pages that one client may store.
        share: u64,
    },
    /// The node ended, or the connection to it was closed.
    Closed,
    Broken(Errno),
    /// The node owed answers, and was silent for this number of seconds.
    Silent {
        seconds: u64,
    },
    /// The node ended the session, for this reason.
    Ended(EndReason),
    /// The node sent bytes that violate the protocol.
    Garbage(&'static str),
    /// A loaded page differs from the one stored.
    Corrupt {
        id: u32,
    },
    /// Memory that the node handed out cannot be mapped.
    Map(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        use ErrorKind::*;
        let node = format_args!("the memory node at {}", self.address);
        match &self.kind {
            Connect(errno) => {
                write!(
                    f,
                    "cannot reach {node}: {}. Is `unrack memory serve` running there?",
                    ErrorText(*errno)
                )
            }
            TimedOut => write!(f, "{node} did not answer in time"),
            Refused { version, status, free, wanted, share } => {
                write!(f, "{node} refused the session: ")?;
                refusal(f, *version, *status, [*free, *wanted, *share])
            }
            Closed => write!(f, "{node} closed the connection"),
            Silent { seconds } => write!(
                f,
                "{node} has not answered for {seconds} s: it is stopped, or the network between is down"
            ),
            Broken(errno) => write!(f, "the connection to {node} broke: {}", ErrorText(*errno)),
            Ended(reason) => write!(f, "{node} ended the session: {}", ending(*reason)),
            Garbage(what) => write!(f, "{node} broke the protocol: it sent {what}"),
            Corrupt { id } => {
                write!(f, "{node} returned page {id} with other contents than were stored there")
            }
            Map(errno) => write!(f, "cannot map the memory of {node}: {}", ErrorText(*errno)),
        }
    }
}

impl core::error::Error for Error {}

impl From<SessionError> for ErrorKind {
    fn from(fault: SessionError) -> ErrorKind {
        match fault {
            SessionError::Ended(reason) => ErrorKind::Ended(reason),
            SessionError::Garbage(what) => ErrorKind::Garbage(what),
            SessionError::Corrupt { id } => ErrorKind::Corrupt { id },
        }
    }
}

/// Writes why a session was refused. `pages`: the number of free pages, of wanted pages, and the maximum for one client.
fn refusal(f: &mut fmt::Formatter, version: u16, status: GreetingStatus, pages: [u64; 3]) -> fmt::Result {
    let [free, wanted, share] = pages;
    match status {
        GreetingStatus::Welcome => f.write_str("no reason given"),
        GreetingStatus::OtherVersion => {
            write!(f, "it speaks version {version} of the protocol, we speak {VERSION}")
        }
        GreetingStatus::OtherPageSize => f.write_str("its pages have another size"),
        GreetingStatus::OtherTransport => {
            f.write_str("it transfers pages another way (TCP and shared memory are separate nodes)")
        }
        GreetingStatus::Full => {
            write!(f, "its capacity is exhausted: {free} pages are free, {} were asked for", wanted.max(1))
        }
        GreetingStatus::TooManySessions => {
            f.write_str("it, or this client, has as many sessions as it allows: end some, and try again")
        }
        GreetingStatus::OverShare => write!(
            f,
            "one client may hold {share} pages (its --per-client), and this one can have {free} more: {} were \
             asked for",
            wanted.max(1)
        ),
        GreetingStatus::KeysNeeded => {
            f.write_str("it accepts known keys only: give --keys with keys made by `unrack keys make`")
        }
    }
}

fn ending(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Stopping => "it was stopped",
        EndReason::Malformed => "it did not understand a request",
        EndReason::NotHeld => "it was asked for a page that it does not hold",
        EndReason::Silent => "this process was stopped, or cut off, for longer than it waits (its --silence)",
    }
}

/// Message for an error number. The C library's messages cannot be used, because they need thread-local storage.
struct ErrorText(Errno);

/// Messages for the errors of sockets and mappings.
const WORDS: [(Errno, &str); 29] = [
    (Errno::CONNREFUSED, "connection refused"),
    (Errno::CONNRESET, "connection reset"),
    (Errno::CONNABORTED, "the connection was cut"),
    (Errno::PIPE, "it is gone"),
    (Errno::SHUTDOWN, "it is gone"),
    (Errno::NOTCONN, "there is no connection any more"),
    (Errno::NOENT, "no such file"),
    (Errno::NOTSOCK, "not a socket"),
    (Errno::TIMEDOUT, "it does not answer"),
    (Errno::HOSTDOWN, "its machine is down"),
    (Errno::HOSTUNREACH, "there is no route to it"),
    (Errno::NETUNREACH, "there is no route to it"),
    (Errno::NETDOWN, "the network is down"),
    (Errno::NETRESET, "the network dropped the connection"),
    (Errno::ADDRNOTAVAIL, "no address or port of this machine is free for it"),
    (Errno::ADDRINUSE, "the address is in use"),
    (Errno::AFNOSUPPORT, "this machine does not speak its protocol"),
    (Errno::PROTO, "a protocol error"),
    (Errno::PROTOTYPE, "the socket is of another kind"),
    (Errno::OPNOTSUPP, "the socket cannot do that"),
    (Errno::MSGSIZE, "the message is too long"),
    (Errno::ACCESS, "permission denied"),
    (Errno::PERM, "permission denied"),
    (Errno::NOMEM, "out of memory"),
    (Errno::NOBUFS, "out of memory for the network"),
    (Errno::MFILE, "too many open files"),
    (Errno::NFILE, "too many open files"),
    (Errno::INVAL, "not what it should be"),
    (Errno::AGAIN, "it takes no more connections at the moment"),
];

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match WORDS.iter().find(|(errno, _)| *errno == self.0) {
            Some((_, words)) => f.write_str(words),
            None => write!(f, "error number {}", self.0.raw_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also covers connections that `ss -K` closed, whose error was once reported as 'error number 103'.
    #[test]
    fn a_connection_that_broke_is_said_in_words() {
        let address = Address::Tcp { ip: [10, 0, 0, 2], port: 7000 };
        // All errors that tcp(7) and ip(7) list.
        for number in [11, 13, 22, 32, 99, 100, 101, 102, 103, 104, 105, 107, 108, 110, 111, 112, 113] {
            let kind = ErrorKind::Broken(Errno::from_raw_os_error(number));
            let said = Error { address: address.clone(), kind }.to_string();
            assert!(said.starts_with("the connection to the memory node at 10.0.0.2:7000 broke: "), "{said}");
            assert!(!said.contains("error number"), "{said}");
        }
    }
}
