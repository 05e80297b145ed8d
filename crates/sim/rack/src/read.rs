//! Reads TOML text into a tree, within bounds that keep every later recursion shallow.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};
use toml_parser::lexer::TokenKind;

use crate::problem::ScenarioProblem;
use crate::source::SourceRange;
use crate::tree::{Entry, Node, Table, Value};

/// Largest number of parts of a dotted key. The parser bounds the nesting of brackets, but not this.
pub(crate) const MOST_PARTS: usize = 16;
/// Deepest nesting of tables and lists.
const MOST_LEVELS: usize = 32;

/// Reader of a source text. `source` is the number of the source, and `offset` is the byte at which the text starts in
/// it.
pub(crate) struct Reader<'a> {
    pub source: usize,
    pub offset: usize,
    pub problems: &'a mut Vec<ScenarioProblem>,
}

impl Reader<'_> {
    /// Reads a whole file.
    pub(crate) fn document(&mut self, text: &str) -> Option<Node> {
        self.bound_keys(text)?;
        let (table, errors) = DeTable::parse_recoverable(text);
        errors.iter().for_each(|error| self.syntax(error));
        let place = self.place(table.span());
        errors.is_empty().then(|| Node { value: Value::Table(self.table(table.into_inner(), 0)), place })
    }

    /// Reads one value. Text that is not a value, and does not begin like one, is taken as a string.
    pub(crate) fn value(&mut self, text: &str) -> Option<Node> {
        self.bound_keys(text)?;
        let trimmed = text.trim();
        match DeValue::parse(text) {
            Ok(value) => Some(self.node(value, 0)),
            Err(error) if trimmed.starts_with(['{', '[', '"', '\'']) => {
                self.syntax(&error);
                None
            }
            Err(_) => {
                let start = text.len() - text.trim_start().len();
                let place = self.place(start..start + trimmed.len());
                Some(Node { value: Value::Text(trimmed.into()), place })
            }
        }
    }

    /// Checks the length of the keys. If a key has too many parts, reports a problem and returns `None`.
    fn bound_keys(&mut self, text: &str) -> Option<()> {
        let mut dots = 0;
        for token in toml_parser::Source::new(text).lex() {
            match token.kind() {
                TokenKind::Dot => dots += 1,
                TokenKind::Equals | TokenKind::Comma | TokenKind::Newline => dots = 0,
                TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => dots = 0,
                _ => {}
            }
            if dots >= MOST_PARTS {
                let place = self.place(token.span().start()..token.span().end());
                self.problems.push(ScenarioProblem::at(place, "this key has too many parts"));
                return None;
            }
        }
        Some(())
    }

    fn node(&mut self, value: Spanned<DeValue>, level: usize) -> Node {
        let place = self.place(value.span());
        let value = match value.into_inner() {
            DeValue::Array(_) | DeValue::Table(_) if level == MOST_LEVELS => {
                self.problems.push(ScenarioProblem::at(place, "tables and lists are nested too deeply here"));
                Value::Boolean(false)
            }
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => {
                let value = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(value.unwrap_or_else(|_| self.too_large(place)))
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(truth) => Value::Boolean(truth),
            DeValue::Datetime(date) => Value::Date(date.to_string()),
            DeValue::Array(values) => {
                Value::List(values.into_iter().map(|value| self.node(value, level + 1)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table, level)),
        };
        Node { value, place }
    }

    fn table(&mut self, table: DeTable, level: usize) -> Table {
        let entries = table.into_iter().map(|(key, value)| {
            let place = self.place(key.span());
            (key.into_inner().into_owned(), Entry { key: place, node: self.node(value, level + 1) })
        });
        entries.collect()
    }

    fn too_large(&mut self, place: SourceRange) -> i64 {
        self.problems.push(ScenarioProblem::at(place, "this number does not fit in 64 bits"));
        0
    }

    fn syntax(&mut self, error: &Error) {
        let place = self.place(error.span().unwrap_or(0..0));
        self.problems.push(ScenarioProblem::at(place, error.message()));
    }

    fn place(&self, span: Range<usize>) -> SourceRange {
        SourceRange { source: self.source, start: self.offset + span.start, end: self.offset + span.end }
    }
}
