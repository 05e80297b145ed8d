//! A session over a byte stream.

use crate::session::{Fault, Session};
use std::io::{ErrorKind, Read, Write};
use unrack_pager::node::wire::{Header, Reason};

const INPUT_BYTES: usize = 256 << 10;

/// How a session ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed, or its connection broke: either way it is gone.
    Gone,
    Faulty(Fault),
}

/// Serves one session until it ends.
pub(crate) fn serve(stream: &mut (impl Read + Write), session: &mut Session) -> End {
    let mut input = vec![0; INPUT_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut replies = Vec::new();
    loop {
        let handled = session.receive(&input[start..end], &mut replies);
        if !replies.is_empty() && stream.write_all(&replies).is_err() {
            return End::Gone;
        }
        // A pile of answers means that requests may be left.
        let again = !replies.is_empty() && replies.len() >= crate::session::MOST_REPLIES;
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
            0 => return End::Gone,
            more => end += more,
        }
    }
}

/// Best effort: whoever does not hear it sees the connection close.
pub(crate) fn say_bye(stream: &mut impl Write, reason: Reason) {
    let _ = stream.write_all(&Header::bye(reason).encode());
}

/// 0: nothing will come any more.
fn read(stream: &mut impl Read, into: &mut [u8]) -> usize {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => return other.unwrap_or(0),
        }
    }
}
