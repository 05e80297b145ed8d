//! A session over a byte stream.

use crate::session::{Fault, MOST_REPLIES, Session};
use std::io::{ErrorKind, Read, Write};
use unrack_pager::node::wire::{Header, PAGE, Reason};

/// Bytes of requests that are read at once. With what waits to be sent, this is the memory of a session that is not
/// charged: [`crate::SESSION_BYTES`].
pub(crate) const INPUT_BYTES: usize = 128 << 10;
/// What waits to be sent, at most.
pub(crate) const OUTPUT_BYTES: usize = MOST_REPLIES + PAGE + 16;

/// How a session ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed, or its connection broke: either way it is gone.
    Gone,
    /// It said nothing, or took nothing, for longer than the node waits.
    Silent,
    Faulty(Fault),
}

impl End {
    pub fn from_error(error: &std::io::Error) -> End {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => End::Silent,
            _ => End::Gone,
        }
    }
}

/// Serves one session until it ends. The stream has the time-outs of a client that is silent.
pub(crate) fn serve(stream: &mut (impl Read + Write), session: &mut Session) -> End {
    let mut input = vec![0; INPUT_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut replies = Vec::with_capacity(OUTPUT_BYTES);
    loop {
        let handled = session.receive(&input[start..end], &mut replies);
        if let Err(error) = send(stream, &replies) {
            return End::from_error(&error);
        }
        // A pile of answers means that requests may be left.
        let again = replies.len() >= MOST_REPLIES;
        replies.clear();
        match handled {
            Err(fault) => {
                say_bye(stream, fault.reason());
                return End::Faulty(fault);
            }
            Ok(used) => start += used,
        }
        if again {
            continue;
        }
        input.copy_within(start..end, 0);
        (start, end) = (0, end - start);
        match read(stream, &mut input[end..]) {
            Ok(0) => return End::Gone,
            Ok(more) => end += more,
            Err(error) => return End::from_error(&error),
        }
    }
}

fn send(stream: &mut impl Write, replies: &[u8]) -> std::io::Result<()> {
    match replies {
        [] => Ok(()),
        replies => stream.write_all(replies).and_then(|()| stream.flush()),
    }
}

/// Best effort: whoever does not hear it sees the connection close.
pub(crate) fn say_bye(stream: &mut impl Write, reason: Reason) {
    let _ = send(stream, &Header::bye(reason).encode());
}

fn read(stream: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => return other,
        }
    }
}
