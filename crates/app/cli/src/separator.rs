//! Detects a missing separator, for example `unrack run ls` instead of `unrack run -- ls`.

use crate::failure::CommandFailure;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::ffi::{OsStr, OsString};

/// Suggests the intended command, if `is_valid` accepts the arguments once `--` is put in front of the word that `error` is about.
pub(crate) fn missing(
    error: &Error,
    arguments: &[OsString],
    is_valid: impl Fn(&[OsString]) -> bool,
) -> Option<CommandFailure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let at = |n: &usize| arguments[*n] == OsStr::new(word);
    let with_separator = |n: usize| [&arguments[..n], &["--".into()], &arguments[n..]].concat();
    let mut tried = (2..arguments.len()).filter(at).map(with_separator);
    let meant = tried.find(|arguments| is_valid(arguments))?;
    let shown: Vec<String> = meant.iter().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
    Some(CommandFailure::Usage(format!(
        "`{word}` is no option; a program comes after `--`: did you mean `unrack {}`?",
        shown.join(" ")
    )))
}

/// Quotes a word for a shell, if needed.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=%,:+@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
