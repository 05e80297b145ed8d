//! The frame of a plot, and marks within it.

use super::{AxisPosition, AxisRange, ChartAxis, ChartData, Drawing, MarkShape, ShownValue, fitted};
use crate::markup::{Attributes, Markup, Px};

/// Space to the right of a plot, in pixels.
const RIGHT: f64 = 16.0;

/// Series of a mark: its name, and the class that colours it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ink<'a> {
    pub class: &'a str,
    pub name: &'a str,
}

/// Distance of the tick texts below a plot from its lower edge, large enough that they do not touch the lowest tick text beside the plot.
const TICK: f64 = 19.0;

/// A plot's rectangle in the figure, its two axes, and the values drawn so far.
pub(crate) struct Plot {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    pub x: ChartAxis,
    pub y: ChartAxis,
    data: ChartData,
}

impl Plot {
    /// Returns a plot in this rectangle: (left, top) to (right, bottom).
    pub(crate) fn within(
        (left, top): (f64, f64),
        (right, bottom): (f64, f64),
        x: ChartAxis,
        y: ChartAxis,
    ) -> Plot {
        let data = ChartData::new(x.scale(), y.scale());
        Plot { left, top, right, bottom, x, y, data }
    }

    /// Returns a plot that fills a figure of this size below `top`, with space for the texts of the axes.
    pub(crate) fn filling(width: f64, height: f64, top: f64, x: ChartAxis, y: ChartAxis) -> Plot {
        let widest = y.ticks.iter().map(|(_, text)| text_width(text)).fold(0.0, f64::max);
        Plot::within((widest + 36.0, top), (width - RIGHT, height - 44.0), x, y)
    }

    /// Returns the finished drawing.
    pub(crate) fn finish(self, width: f64, height: f64, body: Markup) -> Drawing {
        Drawing { width, height, body, data: self.data }
    }

    /// Records a value that the caller draws.
    pub(crate) fn note(
        &mut self,
        shape: MarkShape,
        ink: Ink,
        (x, y): (AxisPosition, AxisPosition),
        range: AxisRange,
    ) {
        let (series, class) = (ink.name.into(), ink.class.into());
        self.data.values.push(ShownValue {
            shape,
            panel: String::new(),
            series,
            class,
            x,
            y,
            range,
            value: None,
        });
    }

    /// Returns the horizontal position of a value in the figure.
    pub(crate) fn at_x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.position(value)
    }

    /// Returns the vertical position of a value in the figure.
    pub(crate) fn at_y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.position(value)
    }

    /// Sets the quantity of the cells of this plot, and the values at which their colours change.
    pub(crate) fn cells(&mut self, label: &str, steps: &[f64]) {
        (self.data.cells, self.data.steps) = (label.into(), steps.to_vec());
    }

    /// Records a cell that the caller draws. The cell extends between two values of x.
    pub(crate) fn note_cell(&mut self, ends: [f64; 2], y: &str, value: f64) {
        self.data.values.push(ShownValue {
            shape: MarkShape::Cell,
            panel: String::new(),
            series: String::new(),
            class: String::new(),
            x: AxisPosition::Any,
            y: AxisPosition::Name(y.into()),
            range: AxisRange::X(ends),
            value: Some(value),
        });
    }

    /// Draws grid, ticks and labels. Call this first, so that marks are drawn above them.
    pub(crate) fn frame(&self, m: &mut Markup) {
        self.frame_x(m);
        self.frame_y(m);
    }

    /// Draws the lower axis with its grid lines. Ticks whose texts would touch are left out. A text that would extend beyond the figure is
    /// moved inward.
    pub(crate) fn frame_x(&self, m: &mut Markup) {
        let y = self.bottom;
        let mut free = f64::NEG_INFINITY;
        for (value, text) in &self.x.ticks {
            let (x, half) = (self.at_x(*value), text_width(text) / 2.0);
            m.leaf("path", &[("class", &"grid"), ("d", &format!("M{} {}V{}", Px(x), Px(self.top), Px(y)))]);
            let middle = x.min(self.right + RIGHT - half);
            if middle - half > free {
                m.text("text", &[("class", &"tick mid"), ("x", &Px(middle)), ("y", &Px(y + TICK))], text);
                free = middle + half + 6.0;
            }
        }
        m.leaf(
            "path",
            &[("class", &"axis"), ("d", &format!("M{} {}H{}", Px(self.left), Px(y), Px(self.right)))],
        );
        let middle = Px((self.left + self.right) / 2.0);
        let label = fitted(&self.x.label, self.right + RIGHT - self.left);
        m.text("text", &[("class", &"label mid"), ("x", &middle), ("y", &Px(y + 37.0))], &label);
    }

    fn frame_y(&self, m: &mut Markup) {
        for (value, text) in &self.y.ticks {
            let y = self.at_y(*value);
            let line = format!("M{} {}H{}", Px(self.left), Px(y), Px(self.right));
            m.leaf("path", &[("class", &"grid"), ("d", &line)]);
            m.text("text", &[("class", &"tick end"), ("x", &Px(self.left - 7.0)), ("y", &Px(y + 4.0))], text);
        }
        let middle = (self.top + self.bottom) / 2.0;
        let turn = format!("translate(13 {}) rotate(-90)", Px(middle));
        let label = fitted(&self.y.label, self.bottom - self.top);
        m.text("text", &[("class", &"label mid"), ("transform", &turn)], &label);
    }

    /// Draws a line through the points.
    pub(crate) fn line(&mut self, m: &mut Markup, ink: Ink, points: &[(f64, f64)], explanation: &str) {
        for (x, y) in points {
            let at = (self.x.place(*x), self.y.place(*y));
            self.note(MarkShape::Line, ink, at, AxisRange::None);
        }
        let class = ink.class;
        let d = path(points.iter().map(|&(x, y)| (self.at_x(x), self.at_y(y))));
        m.explained("path", &[("class", &format!("mark line {class}")), ("d", &d)], explanation);
    }

    /// Draws a vertical line at a value of x.
    pub(crate) fn level(&mut self, m: &mut Markup, ink: Ink, value: f64, explanation: &str) {
        let x = self.at_x(value);
        let d = format!("M{} {}V{}", Px(x), Px(self.bottom), Px(self.top));
        m.explained("path", &[("class", &format!("mark line {}", ink.class)), ("d", &d)], explanation);
        self.note(MarkShape::Level, ink, (AxisPosition::Number(value), AxisPosition::Any), AxisRange::None);
    }

    /// Draws the area between two lines that span the same range of x.
    pub(crate) fn band(&mut self, m: &mut Markup, ink: Ink, below: &[(f64, f64)], above: &[(f64, f64)]) {
        let mut all: Vec<f64> = below.iter().chain(above).map(|point| point.0).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        for x in all {
            if let (Some(low), Some(high)) = (value_at(below, x), value_at(above, x)) {
                let at = (self.x.place(x), AxisPosition::Any);
                self.note(MarkShape::Band, ink, at, AxisRange::Y([low, high]));
            }
        }
        let class = ink.class;
        let around = below.iter().chain(above.iter().rev());
        let d = path(around.map(|&(x, y)| (self.at_x(x), self.at_y(y)))) + "Z";
        m.leaf("path", &[("class", &format!("mark band {class}")), ("d", &d)]);
    }

    /// Draws a dot with a bar from `lo` to `hi`.
    pub(crate) fn dot(
        &mut self,
        m: &mut Markup,
        ink: Ink,
        (x, y): (f64, f64),
        [lo, hi]: [f64; 2],
        explanation: &str,
    ) {
        let range = if hi > lo { AxisRange::Y([lo, hi]) } else { AxisRange::None };
        self.note(MarkShape::Dot, ink, (self.x.place(x), self.y.place(y)), range);
        let class = ink.class;
        let (x, y) = (self.at_x(x), self.at_y(y));
        let bar = format!("M{} {}V{}", Px(x), Px(self.at_y(lo)), Px(self.at_y(hi)));
        m.leaf("path", &[("class", &format!("bar {class}")), ("d", &bar)]);
        let place: Attributes =
            &[("class", &format!("mark dot {class}")), ("cx", &Px(x)), ("cy", &Px(y)), ("r", &"4.5")];
        m.explained("circle", place, explanation);
    }

    /// Draws a ring, which marks a value from another source.
    pub(crate) fn ring(&mut self, m: &mut Markup, ink: Ink, (x, y): (f64, f64), explanation: &str) {
        self.note(MarkShape::Ring, ink, (self.x.place(x), self.y.place(y)), AxisRange::None);
        let class = format!("mark ring {}", ink.class);
        let place: Attributes =
            &[("class", &class), ("cx", &Px(self.at_x(x))), ("cy", &Px(self.at_y(y))), ("r", &"6.5")];
        m.explained("circle", place, explanation);
    }

    /// Draws invisible vertical stripes, which explain the values at the pointer.
    pub(crate) fn stripes(&self, m: &mut Markup, number: usize, explain: impl Fn(f64) -> String) {
        let width = (self.right - self.left) / number as f64;
        let (top, height) = (Px(self.top), Px(self.bottom - self.top));
        for index in 0..number {
            let x = Px(self.left + index as f64 * width);
            let place: Attributes =
                &[("class", &"stripe"), ("x", &x), ("y", &top), ("width", &Px(width)), ("height", &height)];
            m.explained("rect", place, &explain(self.x.value((index as f64 + 0.5) / number as f64)));
        }
    }
}

/// Returns the value of a line at `x`, interpolated between the two nearest points; `None` beyond the ends of the line.
pub(crate) fn value_at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.iter().position(|point| point.0 >= x)?;
    let (x1, y1) = points[after];
    match after.checked_sub(1).map(|before| points[before]) {
        Some((x0, y0)) if x1 > x0 => Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
        _ => (x1 == x).then_some(y1),
    }
}

/// Returns the path `M x y L x y ..`. Consecutive equal points are written once.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut d = String::new();
    let mut previous = String::new();
    for (x, y) in points {
        let point = format!("{} {}", Px(x), Px(y));
        if point != previous {
            d.push(if d.is_empty() { 'M' } else { 'L' });
            d.push_str(&point);
            previous = point;
        }
    }
    d
}

/// Estimates the width of a text of 12 px in pixels, because no font metrics are available.
pub(crate) fn text_width(text: &str) -> f64 {
    let narrow =
        |c| matches!(c, 'i' | 'l' | 'j' | 't' | 'f' | 'r' | '.' | ',' | ' ' | ':' | '|' | '\'' | '(' | ')');
    text.chars().map(|c| if narrow(c) { 4.6 } else { 7.7 }).sum()
}

#[cfg(test)]
mod tests {
    use super::value_at;

    #[test]
    fn values_between_points() {
        let points = [(1.0, 10.0), (2.0, 20.0), (2.0, 30.0), (3.0, 40.0)];
        assert_eq!(value_at(&points, 1.5), Some(15.0));
        assert_eq!(value_at(&points, 1.0), Some(10.0));
        assert_eq!(value_at(&points, 0.5), None);
        assert_eq!(value_at(&points, 3.5), None);
    }
}
