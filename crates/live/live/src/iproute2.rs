//! `ip` and `tc` (iproute2), the tools that configure Linux networks.

use crate::Error;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

/// Runs a command to its end, and returns its output.
///
/// # Errors
/// [`Error::Lacking`] if the program is not installed; [`Error::Tool`] with its error output if it cannot be run or its status is not 0.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let command = || format!("{program} {}", arguments.join(" "));
    let tool = |said: String| Error::Tool { command: command(), said };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| match why.kind() {
            ErrorKind::NotFound => {
                Error::Lacking(format!("`{program}` is not installed: it is in the package iproute2"))
            }
            _ => tool(why.to_string()),
        })?;
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|why| tool(why.to_string()))?;
    match written {
        // A command that fails at once does not read its input, and its error output gives the reason.
        Some(Err(why)) if output.status.success() => Err(tool(why.to_string())),
        _ if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(tool(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}
