//! Runs batches of `ip` and `tc`, and sets kernel settings, in a namespace.

use unrack_live::Error;
use unrack_live::iproute2::run;

/// Runs the lines of a batch in a namespace.
pub(crate) fn batch(tool: &str, namespace: &str, lines: &[String]) -> Result<(), Error> {
    if lines.is_empty() {
        return Ok(());
    }
    let text = lines.join("\n") + "\n";
    run(tool, &["-n", namespace, "-batch", "-"], &text).map(drop).map_err(|error| match error {
        // The tool prints "Command failed -:7", where 7 is the number of the line.
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

/// Sets kernel settings of a namespace, which are given as paths under `/proc/sys/net`. For each setting several words are given, and the
/// first that the kernel accepts is used.
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
