//! Legends of charts.

use super::{fitted, text_width};
use crate::markup::{Markup, Px};

const LINE: f64 = 19.0;

/// Shape of the mark in a legend entry.
#[derive(Clone, Copy)]
pub(crate) enum Key {
    Line,
    Dot,
    Ring,
    Cell,
}

/// Draws the entries (key, class, text) in lines of at most `width`, from (`left`, 0) downwards. Returns the height used.
pub(crate) fn legend(m: &mut Markup, left: f64, width: f64, entries: &[(Key, &str, &str)]) -> f64 {
    let (mut x, mut y) = (left, 12.0);
    for (key, class, text) in entries {
        let text = &fitted(text, width - 26.0);
        let needed = 26.0 + text_width(text) + 16.0;
        if x > left && x + needed - 16.0 > left + width {
            (x, y) = (left, y + LINE);
        }
        draw(m, *key, class, (x, y));
        m.text("text", &[("class", &"key"), ("x", &Px(x + 26.0)), ("y", &Px(y + 4.0))], text);
        x += needed;
    }
    y + LINE
}

fn draw(m: &mut Markup, key: Key, class: &str, (x, y): (f64, f64)) {
    let round = |m: &mut Markup, kind: &str| {
        let class = format!("{kind} {class}");
        m.leaf("circle", &[("class", &class), ("cx", &Px(x + 10.0)), ("cy", &Px(y)), ("r", &"4.5")]);
    };
    match key {
        Key::Line => {
            let d = format!("M{} {}h20", Px(x), Px(y));
            m.leaf("path", &[("class", &format!("line {class}")), ("d", &d)]);
        }
        Key::Dot => round(m, "dot"),
        Key::Ring => round(m, "ring"),
        Key::Cell => {
            let class = format!("cell {class}");
            let (x, y) = (Px(x), Px(y - 7.0));
            m.leaf("rect", &[("class", &class), ("x", &x), ("y", &y), ("width", &"20"), ("height", &"14")]);
        }
    }
}
