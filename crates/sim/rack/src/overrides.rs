//! `--set KEY=VALUE`: values that the user gives in addition to the file.

use crate::problem::ScenarioProblem;
use crate::read::{MOST_PARTS, Reader};
use crate::source::SourceRange;
use crate::tree::{Entry, Node, Table, Value};

/// Values that replace those of the file, for example `network.link.rate=400Gbps` or `workload.size={cdf="hadoop"}`.
///
/// A value that is not valid TOML is taken as text, so that quotes can be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(Vec<String>);

impl Overrides {
    /// Returns an empty set of overrides.
    pub fn none() -> Overrides {
        Overrides::default()
    }

    /// Adds `KEY=VALUE`. If several overrides set the same key, the last one applies.
    pub fn push(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    pub(crate) fn texts(&self) -> &[String] {
        &self.0
    }
}

impl<T: Into<String>> FromIterator<T> for Overrides {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Overrides {
        Overrides(texts.into_iter().map(Into::into).collect())
    }
}

/// Parses one override into a tree. If it is malformed, reports a problem and returns `None`.
pub(crate) fn parse(source: usize, text: &str, problems: &mut Vec<ScenarioProblem>) -> Option<Node> {
    let whole = SourceRange { source, start: 0, end: text.len() };
    let Some((path, value)) = text.split_once('=') else {
        problems.push(ScenarioProblem::at(whole, "write KEY=VALUE, for example network.link.rate=400Gbps"));
        return None;
    };
    let mut node = Reader { source, offset: path.len() + 1, problems }.value(value)?;
    let keys = keys(source, path);
    if keys.len() > MOST_PARTS {
        problems.push(ScenarioProblem::at(whole, "this key has too many parts"));
        return None;
    }
    for (key, place) in keys.into_iter().rev() {
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) {
            problems.push(ScenarioProblem::at(place, format!("`{}` is not a key", key.escape_debug())));
            return None;
        }
        let table = Table::from([(key.to_string(), Entry { key: place, node })]);
        node = Node { value: Value::Table(table), place: whole };
    }
    Some(node)
}

/// Returns the parts of a dotted path.
fn keys(source: usize, path: &str) -> Vec<(&str, SourceRange)> {
    let mut start = 0;
    let place = |part: &str| {
        let place = SourceRange { source, start, end: start + part.len() };
        start += part.len() + 1;
        place
    };
    let places: Vec<_> = path.split('.').map(place).collect();
    path.split('.').map(str::trim).zip(places).collect()
}
