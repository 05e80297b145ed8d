//! Session of a client over a byte stream.

use crate::session::{MOST_REPLIES, Session, SessionFault};
use std::io::{ErrorKind, Read, Write};
use unrack_wire::{EndReason, Header, PAGE};

/// Maximum bytes of requests that are read at once. This buffer and [`OUTPUT_BYTES`] are part of [`crate::SESSION_BYTES`], for which
/// clients are not charged.
pub(crate) const INPUT_BYTES: usize = 128 << 10;
/// Maximum bytes of answers that wait to be sent.
pub(crate) const OUTPUT_BYTES: usize = MOST_REPLIES + PAGE + 16;

/// Reason why a session ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The client closed the connection, or the connection broke.
    Gone,
    /// The client sent no data, or did not read the node's answers, for longer than the node waits.
    Silent,
    /// The client violated the protocol.
    Faulty(SessionFault),
}

impl SessionEnd {
    /// Distinguishes a timeout from a broken connection.
    pub(crate) fn from_error(error: &std::io::Error) -> SessionEnd {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => SessionEnd::Silent,
            _ => SessionEnd::Gone,
        }
    }
}

/// Serves one session until it ends. The timeout of `stream` is the longest permitted silence of a client.
pub(crate) fn serve(stream: &mut (impl Read + Write), session: &mut Session) -> SessionEnd {
    let mut input = vec![0; INPUT_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut replies = Vec::with_capacity(OUTPUT_BYTES);
    loop {
        let handled = session.receive(&input[start..end], &mut replies);
        if let Err(error) = send(stream, &replies) {
            return SessionEnd::from_error(&error);
        }
        // If the answers have reached the limit, complete requests may be left in the input.
        let again = replies.len() >= MOST_REPLIES;
        replies.clear();
        match handled {
            Err(fault) => {
                say_bye(stream, fault.reason());
                return SessionEnd::Faulty(fault);
            }
            Ok(used) => start += used,
        }
        if again {
            continue;
        }
        input.copy_within(start..end, 0);
        (start, end) = (0, end - start);
        match read(stream, &mut input[end..]) {
            Ok(0) => return SessionEnd::Gone,
            Ok(more) => end += more,
            Err(error) => return SessionEnd::from_error(&error),
        }
    }
}

fn send(stream: &mut impl Write, replies: &[u8]) -> std::io::Result<()> {
    match replies {
        [] => Ok(()),
        replies => stream.write_all(replies).and_then(|()| stream.flush()),
    }
}

/// Sends a farewell with the reason, if the client still reads. A client that misses it sees the connection close.
pub(crate) fn say_bye(stream: &mut impl Write, reason: EndReason) {
    let _ = send(stream, &Header::bye(reason).encode());
}

/// Reads from the stream, and repeats the read if a signal interrupts it.
fn read(stream: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => return other,
        }
    }
}
