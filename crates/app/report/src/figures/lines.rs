//! Lines over a common axis, with a legend and with an explanation under the pointer.

use crate::chart::{ChartAxis, Drawing, Ink, Key, Plot, WIDE, legend};
use crate::markup::Markup;

/// One line.
pub(crate) struct Series {
    pub name: String,
    /// Class for colour and dash pattern: see [`crate::chart::style`].
    pub class: String,
    pub points: Vec<(f64, f64)>,
    /// Interval of each point, in the order of the points; empty if unknown.
    pub ranges: Vec<[f64; 2]>,
    /// Whether to show the points as dots, because they are few and measured.
    pub dots: bool,
}

impl Series {
    /// Returns the lower (0) or upper (1) ends of the intervals.
    fn edge(&self, end: usize) -> Vec<(f64, f64)> {
        self.points.iter().zip(&self.ranges).map(|((x, _), range)| (*x, range[end])).collect()
    }

    fn ink(&self) -> Ink<'_> {
        Ink { class: &self.class, name: &self.name }
    }
}

/// Content of a drawing of lines.
pub(crate) struct LineDrawing<'a> {
    pub x: ChartAxis,
    pub y: ChartAxis,
    pub series: &'a [Series],
    /// Level for comparison, and its name.
    pub level: Option<(f64, &'a str)>,
}

impl LineDrawing<'_> {
    /// Draws the lines. `explain` returns the explanation for a value of x.
    pub(super) fn draw(&self, width: f64, explain: impl Fn(f64) -> String) -> Drawing {
        let mut body = Markup::new();
        let height = if width < WIDE { 300.0 } else { 360.0 };
        let top = self.legend(&mut body, width);
        let mut plot = Plot::filling(width, height, top, self.x.clone(), self.y.clone());
        plot.frame(&mut body);
        self.draw_level(&mut body, &mut plot);
        for series in self.series.iter().filter(|series| !series.ranges.is_empty()) {
            plot.band(&mut body, series.ink(), &series.edge(0), &series.edge(1));
        }
        for series in self.series.iter().filter(|series| series.points.len() > 1) {
            plot.line(&mut body, series.ink(), &series.points, &series.name);
        }
        plot.stripes(&mut body, if width < WIDE { 38 } else { 72 }, explain);
        for series in self.series.iter().filter(|series| series.dots) {
            self.draw_dots(&mut body, &mut plot, series);
        }
        plot.finish(width, height, body)
    }

    fn legend(&self, m: &mut Markup, width: f64) -> f64 {
        let entry = |series: &Series| (Key::Line, series.class.clone(), series.name.clone());
        let has_ranges = self.series.iter().any(|series| !series.ranges.is_empty());
        let ranges = has_ranges.then(|| (Key::Cell, "band ink".to_string(), "95 % interval".to_string()));
        let level = self.level.map(|(_, name)| (Key::Line, "accent thin".to_string(), name.to_string()));
        let entries: Vec<_> = self.series.iter().map(entry).chain(level).chain(ranges).collect();
        let entries: Vec<_> = entries.iter().map(|(k, c, n)| (*k, c.as_str(), n.as_str())).collect();
        legend(m, 40.0, width - 56.0, &entries)
    }

    fn draw_level(&self, m: &mut Markup, plot: &mut Plot) {
        let Some((level, name)) = self.level.filter(|(level, _)| plot.y.contains(*level)) else { return };
        let (lo, hi) = (plot.x.value(0.0), plot.x.value(1.0));
        plot.line(m, Ink { class: "accent thin", name }, &[(lo, level), (hi, level)], name);
    }

    fn draw_dots(&self, m: &mut Markup, plot: &mut Plot, series: &Series) {
        for (index, &(x, y)) in series.points.iter().enumerate() {
            let explanation =
                format!("{}: {} at {}", series.name, crate::words::ratio(y), crate::words::short(x));
            let range = series.ranges.get(index).copied().unwrap_or([y, y]);
            plot.dot(m, series.ink(), (x, y), range, &explanation);
        }
    }
}
