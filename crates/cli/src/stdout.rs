//! Standard output, to which only results go.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};

/// Prints `text` verbatim. A reader that closed the pipe has read enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("cannot write to stdout: {why}")))
        }
        _ => Ok(()),
    }
}
