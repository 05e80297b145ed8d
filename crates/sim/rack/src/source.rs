//! Texts of which a scenario consists, and places in them.

use std::path::PathBuf;

/// Range of bytes in one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceRange {
    pub source: usize,
    pub start: usize,
    pub end: usize,
}

/// One text of a scenario: a file, or the argument of one `--set`.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub origin: Origin,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Scenario file: its name as the user wrote it, and the folder to which the file names in it are relative.
    File { name: String, folder: PathBuf },
    /// Override `--set KEY=VALUE`. The text is `KEY=VALUE`.
    Override,
}

/// Place in a form for users. Lines and columns are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourcePosition<'a> {
    pub line: usize,
    pub column: usize,
    /// Text of the whole line.
    pub text: &'a str,
    /// Number of marked characters in the line; at least 1.
    pub width: usize,
}

impl Source {
    /// Returns the line and column of a place.
    pub(crate) fn position(&self, place: SourceRange) -> SourcePosition<'_> {
        let start = floor_char(&self.text, place.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let end = floor_char(&self.text, place.end).clamp(start, line_end);
        SourcePosition {
            line: self.text[..start].matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            text: self.text[line_start..line_end].trim_end_matches('\r'),
            width: self.text[start..end].chars().count().max(1),
        }
    }

    /// Returns the origin of a value, as `--explain` prints it.
    pub(crate) fn describe(&self, place: SourceRange) -> String {
        match &self.origin {
            Origin::File { name, .. } => format!("{name}:{}", self.position(place).line),
            Origin::Override => format!("--set {}", self.text),
        }
    }
}

fn floor_char(text: &str, index: usize) -> usize {
    let index = index.min(text.len());
    (0..=index).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str, start: usize, end: usize) -> (usize, usize, String, usize) {
        let origin = Origin::Override;
        let source = Source { origin, text: text.into() };
        let p = source.position(SourceRange { source: 0, start, end });
        (p.line, p.column, p.text.into(), p.width)
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        assert_eq!(position("ab\nµs = 1\n", 3, 6), (2, 1, "µs = 1".into(), 2));
        assert_eq!(position("ab\nµs = 1\n", 8, 9), (2, 5, "µs = 1".into(), 1));
    }

    #[test]
    fn places_at_or_beyond_the_end_are_the_end() {
        assert_eq!(position("", 0, 0), (1, 1, "".into(), 1));
        assert_eq!(position("ab", 7, 9), (1, 3, "ab".into(), 1));
        assert_eq!(position("a\nb\n", 0, 4), (1, 1, "a".into(), 1));
        assert_eq!(position("µ", 1, 2), (1, 1, "µ".into(), 1));
    }
}
