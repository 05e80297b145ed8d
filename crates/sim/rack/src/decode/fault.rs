//! Errors of serde, reworded for users of scenario files.

use serde::de::{Error, Expected, Unexpected};

use crate::problem::ScenarioProblem;
use crate::source::SourceRange;
use unrack_units::nearest::{hint, one_of};

#[derive(Debug)]
pub(crate) struct DecodeFault {
    message: Message,
    /// Keys on the path to the error, innermost first.
    keys: Vec<String>,
    place: Option<SourceRange>,
    /// Whether the error is a missing key.
    pub missing: bool,
}

/// Message that is printed after the path of a key.
#[derive(Debug)]
enum Message {
    /// Message about the value at the path, as in `network.link.rate: ...`.
    Of(String),
    /// Message about the table that contains the innermost key, as in `network.link ...`.
    Around(String),
    /// Message about the table at the path, as in `network.link ...`.
    Whole(String),
}

impl DecodeFault {
    fn new(message: Message) -> DecodeFault {
        DecodeFault { message, keys: Vec::new(), place: None, missing: false }
    }

    /// Returns the error of an unknown key, with a suggestion.
    pub(super) fn unknown_key(key: &str, known: &[&str]) -> DecodeFault {
        let shown = key.escape_debug();
        DecodeFault::new(Message::Around(format!("has no key `{shown}`{}", hint(key, known))))
    }

    /// Returns the error of a value of the wrong type or form.
    pub(super) fn wrong(found: &str, expected: &str) -> DecodeFault {
        DecodeFault::new(Message::Of(format!("expected {expected}, found {found}")))
    }

    /// Returns the error of an unknown word, with a suggestion.
    pub(super) fn unknown_word(found: &str, words: &[&str]) -> DecodeFault {
        DecodeFault::new(Message::Of(format!(
            "no such choice: {found}{}",
            hint(found.trim_matches('`'), words)
        )))
    }

    /// Sets the place of the error, unless a more precise place is already set.
    pub(super) fn at(mut self, place: SourceRange) -> DecodeFault {
        self.place.get_or_insert(place);
        self
    }

    /// Returns the error with `key` added to its path.
    pub(super) fn inside(mut self, key: &str, place: SourceRange) -> DecodeFault {
        self.keys.push(key.into());
        self.at(place)
    }

    /// Returns the keys of the path, from the outermost to the innermost.
    pub(super) fn keys(&self) -> Vec<String> {
        self.keys.iter().rev().cloned().collect()
    }

    /// Returns the problem to report. `path` is the path of the outermost table, and `otherwise` is the place to report
    /// if the error has none.
    pub(super) fn problem(self, path: &str, otherwise: SourceRange) -> ScenarioProblem {
        let mut keys = self.keys();
        if let Message::Around(_) = self.message {
            keys.pop();
        }
        let path = [path].into_iter().chain(keys.iter().map(String::as_str)).filter(|part| !part.is_empty());
        let path = path.collect::<Vec<_>>().join(".");
        let path = if path.is_empty() { "the scenario" } else { &path };
        let message = match self.message {
            Message::Of(what) => format!("{path}: {what}"),
            Message::Around(what) | Message::Whole(what) => format!("{path} {what}"),
        };
        ScenarioProblem::at(self.place.unwrap_or(otherwise), message)
    }
}

impl std::error::Error for DecodeFault {}

impl std::fmt::Display for DecodeFault {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.message {
            Message::Of(text) | Message::Around(text) | Message::Whole(text) => f.write_str(text),
        }
    }
}

impl Error for DecodeFault {
    fn custom<T: std::fmt::Display>(message: T) -> DecodeFault {
        DecodeFault::new(Message::Of(message.to_string()))
    }
    fn invalid_type(found: Unexpected, expected: &dyn Expected) -> DecodeFault {
        DecodeFault::wrong(&shown(found), &plain(&expected.to_string()))
    }
    fn invalid_value(found: Unexpected, expected: &dyn Expected) -> DecodeFault {
        DecodeFault::wrong(&shown(found), &plain(&expected.to_string()))
    }
    fn unknown_variant(found: &str, words: &'static [&'static str]) -> DecodeFault {
        DecodeFault::unknown_word(&format!("`{}`", found.escape_debug()), words)
    }
    fn unknown_field(key: &str, known: &'static [&'static str]) -> DecodeFault {
        DecodeFault::unknown_key(key, known)
    }
    fn missing_field(key: &'static str) -> DecodeFault {
        DecodeFault { missing: true, ..DecodeFault::new(Message::Whole(format!("needs {}", one_of(&[key])))) }
    }
}

fn shown(found: Unexpected) -> String {
    match found {
        Unexpected::Bool(truth) => format!("`{truth}`"),
        Unexpected::Unsigned(number) => format!("`{number}`"),
        Unexpected::Signed(number) => format!("`{number}`"),
        Unexpected::Float(number) => format!("`{number}`"),
        Unexpected::Str(text) => format!("`{}`", text.escape_debug()),
        Unexpected::Map => "a table".into(),
        Unexpected::Seq => "a list".into(),
        other => other.to_string(),
    }
}

/// Returns the expectation of serde in words that users of a scenario file know.
fn plain(expected: &str) -> String {
    match expected {
        "u8" => "a whole number from 0 to 255".into(),
        "u16" => "a whole number from 0 to 65535".into(),
        "u32" => "a whole number from 0 to 4294967295".into(),
        "u64" | "usize" => "a whole number that is not negative".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "`true` or `false`".into(),
        "a string" | "path string" => "text".into(),
        other if other.starts_with("struct ") || other == "a map" => "a table".into(),
        "a sequence" => "a list".into(),
        other => other.into(),
    }
}
