//! Placement of labels: a label that would overlap another one is moved or left out, and a label that is too long is shortened.

use super::text_width;
use crate::words::shortened;

/// Height of a label's box above its baseline, in pixels, for text of 12 px. `BELOW` is its height under the baseline.
const ABOVE: f64 = 11.5;
const BELOW: f64 = 3.0;

/// Boxes of the labels that have been placed in a picture.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlacedLabels {
    boxes: Vec<LabelBox>,
}

/// Rectangle of a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LabelBox {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl LabelBox {
    /// Returns the box of a text that begins at `x` on the baseline `y`.
    pub(crate) fn at(text: &str, x: f64, y: f64) -> LabelBox {
        LabelBox { left: x, right: x + text_width(text), top: y - ABOVE, bottom: y + BELOW }
    }

    /// Returns whether two boxes overlap.
    pub(crate) fn covers(&self, other: &LabelBox) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

impl PlacedLabels {
    /// Places a text that starts at `x`. It uses the first of the baselines on which the text overlaps no other label. Returns that
    /// baseline; `None` if there is none.
    pub(crate) fn place(&mut self, text: &str, x: f64, baselines: impl Iterator<Item = f64>) -> Option<f64> {
        let is_free = |own: &LabelBox| !self.boxes.iter().any(|other| own.covers(other));
        let (y, own) = baselines.map(|y| (y, LabelBox::at(text, x, y))).find(|(_, own)| is_free(own))?;
        self.boxes.push(own);
        Some(y)
    }
}

/// Returns the text, shortened to about this width in pixels.
pub(crate) fn fitted(text: &str, width: f64) -> String {
    let mut fitting = text.to_string();
    let mut length = text.chars().count();
    while length > 1 && text_width(&fitting) > width {
        length -= 1;
        fitting = shortened(text, length);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_give_way_or_are_left_out() {
        let mut labels = PlacedLabels::default();
        let lines = || (0..2).map(|line| 100.0 - f64::from(line) * 16.0);
        assert_eq!(labels.place("edm", 10.0, lines()), Some(100.0));
        assert_eq!(labels.place("cxl", 20.0, lines()), Some(84.0));
        assert_eq!(labels.place("tcp", 25.0, lines()), None);
        assert_eq!(labels.place("tcp", 80.0, lines()), Some(100.0));
    }

    #[test]
    fn long_texts_end_in_an_ellipsis() {
        assert_eq!(fitted("short", 100.0), "short");
        let text = fitted("protocol: credits, its window of requests", 100.0);
        assert!(text.ends_with('…') && text_width(&text) <= 100.0, "{text}");
        assert_eq!(fitted("abc", 0.0), "…");
    }
}
