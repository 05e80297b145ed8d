//! Messages on standard error.

/// Writes one line to standard error.
pub fn say(text: &str) {
    use std::io::Write;
    // If standard error is closed, nobody reads the message.
    let _ = writeln!(std::io::stderr(), "unrack: {text}");
}
