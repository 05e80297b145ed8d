//! `ip` and `tc` (iproute2), the tools that configure Linux networks.

use crate::error::Error;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

/// Runs a command to its end, and returns its output.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
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
        // A command that fails at once does not read its input: its status says why.
        Some(Err(why)) if output.status.success() => Err(tool(why.to_string())),
        _ if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(tool(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}

/// Runs the lines of a batch in a namespace.
pub(crate) fn batch(tool: &str, namespace: &str, lines: &[String]) -> Result<(), Error> {
    if lines.is_empty() {
        return Ok(());
    }
    let text = lines.join("\n") + "\n";
    run(tool, &["-n", namespace, "-batch", "-"], &text).map(drop).map_err(|error| match error {
        // "Command failed -:7": the number of the line.
        Error::Tool { command, said } => {
            let number = said.rsplit("-:").next().and_then(|number| number.trim().parse::<usize>().ok());
            let line = number.and_then(|number| lines.get(number.checked_sub(1)?));
            Error::Tool {
                command: line.map_or(command, |line| format!("{tool} -n {namespace} {line}")),
                said,
            }
        }
        other => other,
    })
}

/// Sets kernel settings of a namespace, given as paths under `/proc/sys/net`, each to the first of several words that
/// the kernel accepts.
pub(crate) fn settings(namespace: &str, settings: &[(&str, &str)]) -> Result<(), Error> {
    let line = |(key, values): &(&str, &str)| {
        let path = format!("/proc/sys/net/{key}");
        let refused = format!("{{ echo \"{path} takes none of: {values}\" >&2; exit 1; }}");
        format!("for v in {values}; do echo $v 2>&- >{path} && break; done || {refused}\n")
    };
    let lines: String = settings.iter().map(line).collect();
    match lines.is_empty() {
        true => Ok(()),
        false => run("ip", &["netns", "exec", namespace, "sh", "-c", &lines], "").map(drop),
    }
}
