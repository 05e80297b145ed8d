/// One line on stderr.
pub fn say(text: &str) {
    use std::io::Write;
    // With stderr closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "unrack: {text}");
}
