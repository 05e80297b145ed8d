//! Standard output, to which only results are printed.

use crate::failure::CommandFailure;
use std::io::{ErrorKind, IsTerminal, Write};

/// Colours of the words at the start of a line of an answer.
const COLOURS: [(&str, &str); 3] = [("warning ", "33"), ("machine ", "33"), ("need ", "1")];

/// Prints an answer. On a terminal, the words that start its remarks are coloured, unless `NO_COLOR` is set.
pub(crate) fn print_answer(text: &str) -> Result<(), CommandFailure> {
    match std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    {
        true => print(&coloured(text)),
        false => print(text),
    }
}

/// Prints an answer as JSON.
pub(crate) fn print_json(answer: &impl serde::Serialize) -> Result<(), CommandFailure> {
    let text = serde_json::to_string_pretty(answer).map_err(|why| CommandFailure::Failed(why.to_string()))?;
    print(&(text + "\n"))
}

fn coloured(text: &str) -> String {
    let line = |line: &str| {
        let found = COLOURS.iter().find(|(word, _)| line.starts_with(word));
        found.map_or_else(
            || line.to_string(),
            |(word, colour)| format!("\x1b[{colour}m{}\x1b[0m{}", word.trim_end(), &line[word.len() - 1..]),
        )
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Prints `text` verbatim. A closed pipe is not an error, because its reader needs no more output.
pub(crate) fn print(text: &str) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(CommandFailure::Failed(format!("cannot write to stdout: {why}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_begin_remarks_are_coloured_and_nothing_else() {
        let text = "fabric  mean\nedm  1.0\nwarning  it is so\n         warning no\nneed     at most 1 us\n";
        let shown = coloured(text);
        assert!(
            shown.contains("\x1b[33mwarning\x1b[0m  it is so\n         warning no\n\x1b[1mneed\x1b[0m  "),
            "{shown:?}"
        );
        let plain =
            ["\x1b[33m", "\x1b[1m", "\x1b[0m"].iter().fold(shown, |text, code| text.replace(code, ""));
        assert_eq!(plain, text);
    }
}
