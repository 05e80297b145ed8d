//! Messages on standard error.

/// Writes one line to standard error.
pub fn say(text: &str) {
    use std::io::Write;
    // An error is ignored: if standard error is closed, no user reads the message.
    let _ = writeln!(std::io::stderr(), "unrack: {text}");
}
