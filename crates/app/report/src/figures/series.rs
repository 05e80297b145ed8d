//! Measured lines of several fabrics over one axis, as in the charts of studies.

use crate::chart::{ChartAxis, Drawing, Ink, Key, Picture, Plot, WIDE, legend, style};
use crate::markup::Markup;
use crate::words::{ratio, short};

/// A chart of lines, or of dots over names.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesChart {
    /// Name of the figure, which consists of letters, digits and dashes.
    pub id: String,
    pub title: String,
    pub x: SeriesAxis,
    pub y_label: String,
    /// Whether the y axis is logarithmic.
    pub y_log: bool,
    pub series: Vec<ChartSeries>,
    /// Name of the points' ranges; `None` if the points have no ranges.
    pub ranges: Option<String>,
}

/// Points (x, y) of one fabric, both measured and published. x is a number, or the index of a name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChartSeries {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Minimum and maximum at each point, in the order of the points; empty if unknown.
    pub ranges: Vec<[f64; 2]>,
    /// Points that a paper published for the same fabric.
    pub published: Vec<(f64, f64)>,
}

impl ChartSeries {
    /// Returns a series that has only points.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> ChartSeries {
        ChartSeries { name: name.into(), points, ..ChartSeries::default() }
    }

    /// Returns the range of a point. If no range is known, both ends are the point itself.
    fn range(&self, index: usize) -> [f64; 2] {
        self.ranges.get(index).copied().unwrap_or([self.points[index].1; 2])
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum SeriesAxis {
    Numbers(String),
    Names(String, Vec<String>),
}

impl SeriesChart {
    /// Returns the chart as a figure.
    pub fn figure(&self) -> Picture {
        let description =
            self.series.iter().map(|series| self.described(series)).collect::<Vec<_>>().join(" ");
        Picture::new(&self.id, &self.title, &description, |width| self.draw(width))
    }

    fn described(&self, series: &ChartSeries) -> String {
        let of = |(index, (x, y)): (usize, &(f64, f64))| {
            format!("{}{} at {}", ratio(*y), range_text(series.range(index)), self.x.text(*x))
        };
        let mut points: Vec<String> = series.points.iter().enumerate().map(of).collect();
        let published = series.published.iter();
        points.extend(published.map(|(x, y)| format!("published {} at {}", ratio(*y), self.x.text(*x))));
        format!("{}: {}.", series.name, points.join(", "))
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut body = Markup::new();
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let classes: Vec<String> = names.iter().map(|name| style::fabric(&names, name)).collect();
        let top = self.legend(&mut body, &classes, width);
        let height = if width < WIDE { 300.0 } else { 380.0 };
        let mut plot = Plot::filling(width, height, top, self.x_axis(), self.y_axis());
        plot.frame(&mut body);
        for (series, class) in self.series.iter().zip(&classes) {
            self.draw_band(&mut body, &mut plot, series, Ink { class, name: &series.name });
        }
        for (series, class) in self.series.iter().zip(&classes) {
            self.draw_series(&mut body, &mut plot, series, Ink { class, name: &series.name });
        }
        plot.finish(width, height, body)
    }

    fn legend(&self, m: &mut Markup, classes: &[String], width: f64) -> f64 {
        let key = if self.is_named() { Key::Dot } else { Key::Line };
        let mut entries: Vec<_> = self
            .series
            .iter()
            .zip(classes)
            .map(|(series, class)| (key, class.as_str(), series.name.as_str()))
            .collect();
        if let Some(ranges) = &self.ranges {
            let (key, class) = if self.is_named() { (Key::Line, "ink") } else { (Key::Cell, "band ink") };
            entries.push((key, class, ranges));
        }
        if self.series.iter().any(|series| !series.published.is_empty()) {
            entries.push((Key::Ring, "ink", "published"));
        }
        legend(m, 40.0, width - 56.0, &entries)
    }

    fn is_named(&self) -> bool {
        matches!(self.x, SeriesAxis::Names(..))
    }

    /// Draws the ranges of a line as a band.
    fn draw_band(&self, m: &mut Markup, plot: &mut Plot, series: &ChartSeries, ink: Ink) {
        if self.is_named() || series.ranges.is_empty() {
            return;
        }
        let edge = |end: usize| -> Vec<(f64, f64)> {
            (0..series.points.len()).map(|index| (series.points[index].0, series.range(index)[end])).collect()
        };
        plot.band(m, ink, &edge(0), &edge(1));
    }

    fn draw_series(&self, m: &mut Markup, plot: &mut Plot, series: &ChartSeries, ink: Ink) {
        if !self.is_named() && series.points.len() > 1 {
            plot.line(m, ink, &series.points, ink.name);
        }
        for (x, y) in &series.published {
            let explanation = format!("{}: published {} at {}", ink.name, ratio(*y), self.x.text(*x));
            plot.ring(m, ink, (*x, *y), &explanation);
        }
        for (index, (x, y)) in series.points.iter().enumerate() {
            let range = series.range(index);
            let explanation =
                format!("{}: {}{} at {}", ink.name, ratio(*y), range_text(range), self.x.text(*x));
            plot.dot(m, ink, (*x, *y), range, &explanation);
        }
    }

    fn x_axis(&self) -> ChartAxis {
        match &self.x {
            SeriesAxis::Names(label, names) => ChartAxis::named(label, names),
            SeriesAxis::Numbers(label) => {
                let (lo, hi) = range(self.points().map(|(x, _)| *x));
                ChartAxis::linear(label, lo.min(0.0), hi)
            }
        }
    }

    fn y_axis(&self) -> ChartAxis {
        let ends = self.series.iter().flat_map(|series| series.ranges.iter().flatten());
        let (lo, hi) = range(self.points().map(|(_, y)| y).chain(ends).copied());
        match self.y_log {
            true => ChartAxis::log(&self.y_label, lo / 1.1, hi * 1.1),
            false => ChartAxis::linear(&self.y_label, lo.min(1.0), hi),
        }
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.series.iter().flat_map(|series| series.points.iter().chain(&series.published))
    }
}

impl SeriesAxis {
    fn text(&self, x: f64) -> String {
        match self {
            SeriesAxis::Numbers(_) => short(x),
            SeriesAxis::Names(_, names) => names.get(x as usize).cloned().unwrap_or_default(),
        }
    }
}

/// Returns a text such as " (1.1 to 1.3)", or an empty text if both ends of the range are equal.
fn range_text([lo, hi]: [f64; 2]) -> String {
    if hi > lo { format!(" ({} to {})", ratio(lo), ratio(hi)) } else { String::new() }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), value| (lo.min(value), hi.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_and_explained() {
        let chart = |x, y_log| SeriesChart {
            id: "study".into(),
            title: "Slowdown".into(),
            x,
            y_label: "mean slowdown".into(),
            y_log,
            series: vec![
                ChartSeries::new("edm", vec![(0.0, 1.01), (1.0, 1.2)]),
                ChartSeries {
                    ranges: vec![[1.0, 1.2], [70.0, 80.0]],
                    published: vec![(1.0, 71.0)],
                    ..ChartSeries::new("cxl", vec![(0.0, 1.1), (1.0, 77.0)])
                },
            ],
            ranges: Some("least and most".into()),
        };
        let names = SeriesAxis::Names("program".into(), vec!["hadoop".into(), "spark".into()]);
        for (axis, at) in [(SeriesAxis::Numbers("load".into()), "1"), (names, "spark")] {
            let svg = chart(axis, true).figure().to_svg();
            assert_eq!(svg.matches("class=\"mark dot s").count(), 4, "{svg}");
            assert!(svg.contains(&format!("cxl: 77.000 (70.000 to 80.000) at {at}")), "{svg}");
            assert!(svg.contains(&format!("cxl: published 71.000 at {at}")), "{svg}");
            assert_eq!(svg.matches("class=\"mark ring s").count(), 1, "{svg}");
            assert_eq!(svg.matches("class=\"mark band s1").count(), usize::from(at == "1"), "{svg}");
        }
        let empty = SeriesChart { series: Vec::new(), ..chart(SeriesAxis::Numbers("load".into()), false) };
        assert!(empty.figure().to_svg().contains("</svg>"));
    }
}
