//! A writer of HTML and SVG that escapes all text.

use std::fmt::{Display, Write};

/// Attributes of one element: names are constants, values are escaped.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// Markup under construction. Every method except [`Markup::raw`] escapes its text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Returns empty markup.
    pub(crate) fn new() -> Markup {
        Markup::default()
    }

    /// Returns the markup written so far.
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Writes an opening tag.
    pub(crate) fn open(&mut self, tag: &str, attributes: Attributes) -> &mut Markup {
        self.start(tag, attributes);
        self.0.push('>');
        self
    }

    /// Writes a closing tag.
    pub(crate) fn close(&mut self, tag: &str) -> &mut Markup {
        let _ = write!(self.0, "</{tag}>");
        self
    }

    /// Writes an element without content.
    pub(crate) fn leaf(&mut self, tag: &str, attributes: Attributes) -> &mut Markup {
        self.start(tag, attributes);
        self.0.push_str("/>");
        self
    }

    /// Writes an element that holds only text.
    pub(crate) fn text(&mut self, tag: &str, attributes: Attributes, text: &str) -> &mut Markup {
        self.open(tag, attributes).0.push_str(&escaped(text));
        self.close(tag)
    }

    /// Writes an element whose content `fill` writes.
    pub(crate) fn element(&mut self, tag: &str, attributes: Attributes, fill: impl FnOnce(&mut Markup)) {
        self.open(tag, attributes);
        fill(self);
        self.close(tag);
    }

    /// Writes a mark with an explanation under the pointer: an SVG shape with a `<title>`.
    pub(crate) fn explained(&mut self, tag: &str, attributes: Attributes, explanation: &str) -> &mut Markup {
        self.open(tag, attributes).text("title", &[], explanation);
        self.close(tag)
    }

    /// Writes text between elements.
    pub(crate) fn words(&mut self, text: &str) -> &mut Markup {
        self.0.push_str(&escaped(text));
        self
    }

    /// Writes finished markup without escaping it. The markup must not come from outside.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Markup {
        self.0.push_str(markup);
        self
    }

    fn start(&mut self, tag: &str, attributes: Attributes) {
        let _ = write!(self.0, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.0, " {name}=\"{}\"", escaped(&value.to_string()));
        }
    }
}

/// Escapes text for an element or a quoted attribute. The replacement character takes the place of characters that XML does not allow.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate, which is written to a tenth of a pixel.
#[derive(Clone, Copy)]
pub(crate) struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        write!(f, "{}", if tenths == 0.0 { 0.0 } else { tenths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let mut markup = Markup::new();
        markup.text("p", &[("title", &"\"><script>")], "<b>&'\u{1b}");
        let text = markup.into_string();
        assert_eq!(text, "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;b&gt;&amp;&#39;\u{fffd}</p>");
    }
}
