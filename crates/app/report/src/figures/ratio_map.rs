//! Ratios over the values of two settings, in panels of cells. A line separates cells with a ratio below one from the others.

use super::cells::draw_cell;
use crate::chart::{AxisRange, ChartData, Drawing, Key, Picture, WIDE, fitted, legend, style, text_width};
use crate::markup::{Attributes, Markup, Px};
use crate::words::ratio;

/// Ratios above which the next darker colour is used.
const STEPS: [f64; style::HEAT - 1] = [0.5, 0.6, 0.7, 0.8, 0.9, NO_GAIN, 1.2];
/// Ratio of two equal values.
const NO_GAIN: f64 = 1.0;
const CELL_HEIGHT: f64 = 24.0;
/// Width of a cell that shows a ratio with two decimals.
const NARROWEST: f64 = 30.0;
/// Heights of the title above a panel, and of the axis below it.
const ABOVE: f64 = 28.0;
const BELOW: f64 = 48.0;
/// Space to the right of a panel.
const RIGHT: f64 = 12.0;

/// Ratios of one quantity over two settings, in a panel for each combination of further settings.
#[derive(Debug, Clone, PartialEq)]
pub struct RatioMap {
    /// Name of the figure, which consists of letters, digits and dashes.
    pub id: String,
    pub title: String,
    /// Name of the ratio, such as `pool over own NICs`.
    pub ratio: String,
    pub x_label: String,
    pub y_label: String,
    /// Values along the x axis, from left to right.
    pub columns: Vec<String>,
    /// Values along the y axis, from bottom to top.
    pub rows: Vec<String>,
    pub panels: Vec<RatioPanel>,
    /// Number of panels side by side, if the cells are then wide enough.
    pub side_by_side: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RatioPanel {
    pub title: String,
    /// By row and column; `None` if the ratio was not measured.
    pub cells: Vec<Vec<Option<f64>>>,
}

impl RatioPanel {
    fn cell(&self, row: usize, column: usize) -> Option<f64> {
        *self.cells.get(row)?.get(column)?
    }
}

impl RatioMap {
    /// Returns the map as a figure.
    pub fn figure(&self) -> Picture {
        let description: Vec<String> = self.panels.iter().map(|panel| self.described(panel)).collect();
        Picture::new(&self.id, &self.title, &description.join(" "), |width| self.draw(width))
    }

    fn described(&self, panel: &RatioPanel) -> String {
        let cells: Vec<f64> = panel.cells.iter().flatten().flatten().copied().collect();
        let Some(first) = cells.first() else { return format!("{}: not measured.", panel.title) };
        let (least, most) =
            cells.iter().fold((*first, *first), |(lo, hi), cell| (lo.min(*cell), hi.max(*cell)));
        let below = cells.iter().filter(|cell| **cell < NO_GAIN).count();
        format!(
            "{}: from {} to {}; {below} of {} cells are below {NO_GAIN}.",
            panel.title,
            ratio(least),
            ratio(most),
            cells.len()
        )
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut body = Markup::new();
        let top = keys(&mut body, width);
        let cell = |columns: usize| {
            (width / columns as f64 - self.margin() - RIGHT) / self.columns.len().max(1) as f64
        };
        let most = if width < WIDE { 1 } else { self.side_by_side.max(1) };
        let columns = (1..=most).rev().find(|columns| cell(*columns) >= NARROWEST).unwrap_or(1);
        let panel_height = ABOVE + self.rows.len() as f64 * CELL_HEIGHT + BELOW;
        for (index, panel) in self.panels.iter().enumerate() {
            let place = PanelPlace {
                left: (index % columns) as f64 * width / columns as f64 + self.margin(),
                top: top + (index / columns) as f64 * panel_height + ABOVE,
                cell: cell(columns),
            };
            self.draw_panel(&mut body, panel, &place);
        }
        let height = top + self.panels.len().div_ceil(columns) as f64 * panel_height;
        Drawing { width, height, body, data: self.data() }
    }

    /// Returns the width of the names to the left of a panel.
    fn margin(&self) -> f64 {
        self.rows.iter().map(|row| text_width(row)).fold(0.0, f64::max) + 14.0
    }

    fn draw_panel(&self, m: &mut Markup, panel: &RatioPanel, place: &PanelPlace) {
        let all = self.columns.len() as f64 * place.cell;
        m.text(
            "text",
            &[("class", &"strong"), ("x", &Px(place.left)), ("y", &Px(place.top - 9.0))],
            &fitted(&panel.title, all),
        );
        for (row, column) in self.places() {
            let Some(value) = panel.cell(row, column) else { continue };
            let (x, y) = place.corner(self.rows.len(), row, column);
            let step = STEPS.iter().filter(|limit| value > **limit).count();
            let explanation = format!(
                "{}: {} at {} and {}",
                panel.title,
                ratio(value),
                self.columns[column],
                self.rows[row]
            );
            draw_cell(m, step, (x, y), (place.cell - 1.0, CELL_HEIGHT - 1.0), &explanation);
            let text = format!("{value:.2}");
            if text_width(&text) + 4.0 < place.cell {
                let class = format!("value mid t{step}");
                let middle = (Px(x + place.cell / 2.0 - 0.5), Px(y + CELL_HEIGHT / 2.0 + 3.5));
                m.text("text", &[("class", &class), ("x", &middle.0), ("y", &middle.1)], &text);
            }
        }
        let boundary = self.boundary(panel, place);
        if !boundary.is_empty() {
            m.leaf("path", &[("class", &"mark contour accent"), ("d", &boundary)]);
        }
        self.draw_axes(m, place);
    }

    /// Returns the path along the edges between cells below one and others.
    fn boundary(&self, panel: &RatioPanel, place: &PanelPlace) -> String {
        let is_below = |row: usize, column: usize| panel.cell(row, column).map(|value| value < NO_GAIN);
        let differ = |a: Option<bool>, b: Option<bool>| a.zip(b).is_some_and(|(a, b)| a != b);
        let mut d = String::new();
        for (row, column) in self.places() {
            let (x, y) = place.corner(self.rows.len(), row, column);
            let (x, y) = (x - 0.5, y - 0.5);
            if column > 0 && differ(is_below(row, column), is_below(row, column - 1)) {
                d += &format!("M{} {}v{}", Px(x), Px(y), Px(CELL_HEIGHT));
            }
            if row > 0 && differ(is_below(row, column), is_below(row - 1, column)) {
                d += &format!("M{} {}h{}", Px(x), Px(y + CELL_HEIGHT), Px(place.cell));
            }
        }
        d
    }

    fn draw_axes(&self, m: &mut Markup, place: &PanelPlace) {
        for (row, name) in self.rows.iter().enumerate() {
            let y = Px(place.corner(self.rows.len(), row, 0).1 + CELL_HEIGHT / 2.0 + 3.5);
            m.text("text", &[("class", &"tick end"), ("x", &Px(place.left - 7.0)), ("y", &y)], name);
        }
        let bottom = place.top + self.rows.len() as f64 * CELL_HEIGHT;
        let mut free = f64::NEG_INFINITY;
        for (column, name) in self.columns.iter().enumerate() {
            let (x, half) = (place.left + (column as f64 + 0.5) * place.cell, text_width(name) / 2.0);
            if x - half > free {
                m.text("text", &[("class", &"tick mid"), ("x", &Px(x)), ("y", &Px(bottom + 14.0))], name);
                free = x + half + 4.0;
            }
        }
        let middle = place.left + self.columns.len() as f64 * place.cell / 2.0;
        let at: Attributes = &[("class", &"label mid"), ("x", &Px(middle)), ("y", &Px(bottom + 31.0))];
        let all = self.columns.len() as f64 * place.cell + RIGHT;
        m.text("text", at, &fitted(&format!("{} → ({} ↑)", self.x_label, self.y_label), all));
    }

    /// Returns the rows and columns of all cells.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns.len();
        (0..self.rows.len()).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    fn data(&self) -> ChartData {
        let mut data = ChartData::of_cells(&self.x_label, &self.y_label, &self.ratio, &STEPS);
        for panel in &self.panels {
            // Names are listed in the order in which they are shown, from top to bottom.
            for row in (0..self.rows.len()).rev() {
                for column in 0..self.columns.len() {
                    let Some(value) = panel.cell(row, column) else { continue };
                    let (x, y) = (self.columns[column].clone(), self.rows[row].clone());
                    data.cell(&panel.title, x, y, value, AxisRange::None);
                }
            }
        }
        data
    }
}

/// Place of a panel: its upper left corner, and the width of its cells.
struct PanelPlace {
    left: f64,
    top: f64,
    cell: f64,
}

impl PanelPlace {
    /// Returns the upper left corner of a cell in a panel of `rows` rows.
    fn corner(&self, rows: usize, row: usize, column: usize) -> (f64, f64) {
        (self.left + column as f64 * self.cell, self.top + (rows - 1 - row) as f64 * CELL_HEIGHT)
    }
}

fn keys(m: &mut Markup, width: f64) -> f64 {
    let classes: Vec<_> = (0..style::HEAT).map(|step| format!("h{step}")).collect();
    let mut texts: Vec<String> = STEPS.iter().map(|step| format!("≤ {step}")).collect();
    texts.push(format!("> {}", STEPS[STEPS.len() - 1]));
    let mut entries: Vec<_> =
        classes.iter().zip(&texts).map(|(class, text)| (Key::Cell, class.as_str(), text.as_str())).collect();
    entries.push((Key::Line, "accent", "no gain"));
    legend(m, 8.0, width - 16.0, &entries) + 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> RatioMap {
        let panel = |title: &str, cells| RatioPanel { title: title.into(), cells };
        RatioMap {
            id: "map".into(),
            title: "Where pooling pays".into(),
            ratio: "pool over own".into(),
            x_label: "memory".into(),
            y_label: "theta".into(),
            columns: vec!["1 Gb/s".into(), "10 Gb/s".into()],
            rows: vec!["0.125".into(), "1".into()],
            panels: vec![
                panel("graph", vec![vec![Some(0.55), Some(0.8)], vec![Some(1.3), Some(0.99)]]),
                panel("ring", vec![vec![Some(0.4), None], vec![None, None]]),
            ],
            side_by_side: 2,
        }
    }

    #[test]
    fn every_measured_cell_is_drawn_and_explained() {
        let figure = map().figure();
        let svg = figure.to_svg();
        assert_eq!(svg.matches("class=\"mark cell h").count(), 5, "{svg}");
        assert!(svg.contains("graph: 0.550 at 1 Gb/s and 0.125"), "{svg}");
        assert!(figure.description.contains("graph: from 0.550 to 1.300; 3 of 4 cells are below 1."));
        assert!(figure.description.contains("ring: from 0.400 to 0.400; 1 of 1 cells"), "not measured cells");
    }

    /// Only the cell in the upper left corner of the first panel is above one: its lower and right edges separate it.
    #[test]
    fn the_line_separates_gain_from_loss() {
        let svg = map().figure().to_svg();
        let paths: Vec<&str> = svg.split("<path ").skip(1).filter(|path| path.contains("contour")).collect();
        assert_eq!(paths.len(), 1, "the second panel has no loss: {svg}");
        let d = paths[0].split(" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert_eq!((d.matches('v').count(), d.matches('h').count()), (1, 1), "{d}");
    }
}
