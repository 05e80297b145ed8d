//! Measured lines of several fabrics over one axis, as studies draw them.

use crate::chart::{Axis, Drawing, Ink, Key, Picture, Plot, WIDE, legend, style};
use crate::markup::Markup;
use crate::words::{ratio, short};

/// A chart of lines, or of dots over names.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesChart {
    /// Name of the figure: letters, digits and dashes.
    pub id: String,
    pub title: String,
    pub x: SeriesAxis,
    pub y_label: String,
    /// Whether y has equal ratios instead of equal steps.
    pub y_log: bool,
    /// Points (x, y) by fabric; x is a number, or the place of a name.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SeriesAxis {
    Numbers(String),
    Names(String, Vec<String>),
}

impl SeriesChart {
    /// Returns the chart as a figure.
    pub fn figure(&self) -> Picture {
        let one = |(name, points): &(String, Vec<(f64, f64)>)| {
            let points = points.iter().map(|(x, y)| format!("{} at {}", ratio(*y), self.x.text(*x)));
            format!("{name}: {}.", points.collect::<Vec<_>>().join(", "))
        };
        let description = self.series.iter().map(one).collect::<Vec<_>>().join(" ");
        Picture::new(&self.id, &self.title, &description, |width| self.draw(width))
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut body = Markup::new();
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        let classes: Vec<String> = names.iter().map(|name| style::fabric(&names, name)).collect();
        let is_names = matches!(self.x, SeriesAxis::Names(..));
        let key = if is_names { Key::Dot } else { Key::Line };
        let entries: Vec<_> =
            names.iter().zip(&classes).map(|(name, class)| (key, class.as_str(), *name)).collect();
        let top = legend(&mut body, 40.0, width - 56.0, &entries);
        let height = if width < WIDE { 300.0 } else { 380.0 };
        let mut plot = Plot::filling(width, height, top, self.x_axis(), self.y_axis());
        plot.frame(&mut body);
        for ((name, points), class) in self.series.iter().zip(&classes) {
            let ink = Ink { class, name };
            if !is_names {
                plot.line(&mut body, ink, points, name);
            }
            for (x, y) in points {
                let explanation = format!("{name}: {} at {}", ratio(*y), self.x.text(*x));
                plot.dot(&mut body, ink, (*x, *y), [*y, *y], &explanation);
            }
        }
        plot.finish(width, height, body)
    }

    fn x_axis(&self) -> Axis {
        match &self.x {
            SeriesAxis::Names(label, names) => Axis::named(label, names),
            SeriesAxis::Numbers(label) => {
                let (lo, hi) = range(self.points().map(|(x, _)| *x));
                Axis::linear(label, lo.min(0.0), hi)
            }
        }
    }

    fn y_axis(&self) -> Axis {
        let (lo, hi) = range(self.points().map(|(_, y)| *y));
        match self.y_log {
            true => Axis::log(&self.y_label, lo / 1.1, hi * 1.1),
            false => Axis::linear(&self.y_label, lo.min(1.0), hi),
        }
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.series.iter().flat_map(|(_, points)| points)
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
                ("edm".into(), vec![(0.0, 1.01), (1.0, 1.2)]),
                ("cxl".into(), vec![(0.0, 1.1), (1.0, 77.0)]),
            ],
        };
        let names = SeriesAxis::Names("program".into(), vec!["hadoop".into(), "spark".into()]);
        for (axis, at) in [(SeriesAxis::Numbers("load".into()), "1"), (names, "spark")] {
            let svg = chart(axis, true).figure().to_svg();
            assert_eq!(svg.matches("class=\"mark dot s").count(), 4, "{svg}");
            assert!(svg.contains(&format!("cxl: 77.000 at {at}")), "{svg}");
        }
        let empty = SeriesChart { series: Vec::new(), ..chart(SeriesAxis::Numbers("load".into()), false) };
        assert!(empty.figure().to_svg().contains("</svg>"));
    }
}
