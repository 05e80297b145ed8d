//! Rows for fabrics or runs. Each row has a dot, its interval, and the value as text.

use unrack_record::Comparison;

use crate::chart::{
    AxisPosition, AxisRange, ChartAxis, Drawing, Ink, Key, MarkShape, Picture, Plot, fitted, legend, style,
    text_width,
};
use crate::markup::{Attributes, Markup, Px};
use crate::words::{number, percent, ratio};
use crate::{SimulatedRun, SimulationSummary};

const ROW: f64 = 34.0;
/// Height of one line of level names above the plot.
const LEVEL_LINE: f64 = 14.0;

/// One row of the picture.
struct Row {
    name: String,
    class: String,
    /// Position of the dot. `None` if the value is withheld; the row then has only its text.
    value: Option<f64>,
    interval: Option<[f64; 2]>,
    /// The same quantity by another method.
    ring: Option<f64>,
    text: String,
    explanation: String,
    ring_explanation: String,
}

/// Draws the program's slowdown on each fabric, which is the answer of a comparison as a picture.
pub(crate) fn by_fabric(c: &Comparison) -> Option<Picture> {
    if c.fabrics.is_empty() {
        return None;
    }
    let names: Vec<_> = c.fabrics.iter().map(|fabric| fabric.fabric.as_str()).collect();
    let rows: Vec<Row> = c.fabrics.iter().map(|fabric| fabric_row(&names, fabric)).collect();
    let losses: Vec<_> =
        c.requirements.iter().map(|r| (1.0 + r.loss, format!("{} loss", percent(r.loss)))).collect();
    let all = rows.iter().flat_map(|row| row.interval.into_iter().flatten().chain(row.ring).chain(row.value));
    let (lo, hi) = all.fold((1.0f64, 1.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let axis = ChartAxis::linear("slowdown (run time over native)", lo, hi);
    let keys =
        [(Key::Dot, "ink", "by injection, with 95 % interval"), (Key::Ring, "ink", "by closed-loop replay")];
    let keys = if rows.iter().any(|row| row.ring.is_some()) { &keys[..] } else { &keys[..1] };
    let described: Vec<_> = rows.iter().map(|row| row.explanation.clone()).collect();
    let draw = |width| drawing(&rows, &axis, &losses, keys, width);
    Some(Picture::new("slowdown-by-fabric", "Slowdown by fabric", &described.join(". "), draw))
}

fn fabric_row(names: &[&str], fabric: &unrack_record::FabricResult) -> Row {
    let name = &fabric.fabric;
    let why = fabric.withheld.as_ref().map_or("", |why| &why.text);
    let explanation = match (fabric.slowdown, fabric.slowdown_ci95) {
        (Some(slowdown), Some([lo, hi])) => {
            format!("{name}: {} by injection ({} to {})", ratio(slowdown), ratio(lo), ratio(hi))
        }
        _ => format!("{name}: withheld: {why}"),
    };
    Row {
        name: name.clone(),
        class: style::fabric(names, name),
        value: fabric.slowdown,
        interval: fabric.slowdown_ci95,
        ring: fabric.slowdown_replay,
        text: fabric.slowdown.map_or("withheld".into(), ratio),
        explanation,
        ring_explanation: fabric
            .slowdown_replay
            .map_or(String::new(), |r| format!("{name}: {} by replay", ratio(r))),
    }
}

/// Draws the slowdowns of the messages of simulations: the mean, with the interval from the median to the 99th percentile.
pub(crate) fn by_simulation(runs: &[(&str, &SimulatedRun)]) -> Option<Picture> {
    let summaries = || runs.iter().map(|(name, run)| (*name, &run.summary));
    let counted = || summaries().filter(|(_, run)| run.slowdown.count > 0);
    let hi = counted().map(|(_, run)| run.slowdown.p99).reduce(f64::max)?;
    let rows: Vec<Row> =
        counted().enumerate().map(|(index, (name, run))| simulation_row(index, name, run)).collect();
    let axis = ChartAxis::log("completion time over unloaded (logarithmic)", 0.9, hi * 1.1);
    let keys = [(Key::Dot, "ink", "mean, with median to 99th percentile")];
    let described: Vec<_> = rows.iter().map(|row| row.explanation.clone()).collect();
    let draw = |width| drawing(&rows, &axis, &[], &keys, width);
    Some(Picture::new("message-slowdown", "How long messages wait for others", &described.join(". "), draw))
}

fn simulation_row(index: usize, name: &str, run: &SimulationSummary) -> Row {
    let s = run.slowdown;
    Row {
        name: name.into(),
        class: style::series(index),
        value: Some(s.mean),
        interval: Some([s.p50, s.p99]),
        ring: None,
        text: number(s.mean),
        explanation: format!(
            "{name}: mean {}, median {}, p99 {}",
            number(s.mean),
            number(s.p50),
            number(s.p99)
        ),
        ring_explanation: String::new(),
    }
}

fn drawing(
    rows: &[Row],
    x: &ChartAxis,
    levels: &[(f64, String)],
    keys: &[(Key, &str, &str)],
    width: f64,
) -> Drawing {
    let mut body = Markup::new();
    let top = legend(&mut body, 8.0, width - 16.0, keys);
    let left = rows.iter().map(|row| text_width(&label(&row.name, width))).fold(40.0, f64::max) + 16.0;
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let within = |top: f64| {
        let bottom = top + rows.len() as f64 * ROW + 8.0;
        Plot::within((left, top), (width - 58.0, bottom), x.clone(), ChartAxis::named("", &names))
    };
    let shown: Vec<&(f64, String)> = levels.iter().filter(|(level, _)| x.contains(*level)).collect();
    let lines = level_lines(&within(top), &shown);
    let top = top + LEVEL_LINE * (lines.iter().max().map_or(0, |last| last + 1)) as f64;
    let bottom = top + rows.len() as f64 * ROW + 8.0;
    let mut plot = within(top);
    plot.frame_x(&mut body);
    for ((level, text), line) in shown.into_iter().zip(lines) {
        draw_level(&mut body, &mut plot, *level, text, line);
    }
    for (index, row) in rows.iter().enumerate() {
        draw_row(&mut body, &mut plot, row, top + (index as f64 + 0.5) * ROW + 4.0, width);
    }
    plot.finish(width, bottom + 44.0, body)
}

fn label(name: &str, width: f64) -> String {
    fitted(name, width * 0.28)
}

/// Returns, for each level, the number of the text line above the plot that has space for the level's name. Line 0 is the lowest. There are
/// as many lines as the names need, so that each level has a name.
fn level_lines(plot: &Plot, levels: &[&(f64, String)]) -> Vec<usize> {
    let mut ends: Vec<f64> = Vec::new();
    let line = |(level, text): &&(f64, String)| {
        let (x, half) = (plot.at_x(*level), text_width(text) / 2.0);
        let line = ends.iter().position(|end| x - half >= *end).unwrap_or(ends.len());
        ends.resize(ends.len().max(line + 1), f64::NEG_INFINITY);
        ends[line] = x + half + 6.0;
        line
    };
    levels.iter().map(line).collect()
}

/// Draws a vertical line with its name above it, in the given line of text.
fn draw_level(m: &mut Markup, plot: &mut Plot, level: f64, text: &str, line: usize) {
    let (x, y) = (plot.at_x(level), plot.top - 5.0 - LEVEL_LINE * line as f64);
    plot.level(m, Ink { class: "accent thin", name: text }, level, text);
    let place: Attributes = &[("class", &"mid accent-text"), ("x", &Px(x)), ("y", &Px(y))];
    m.text("text", place, text);
}

fn draw_row(m: &mut Markup, plot: &mut Plot, row: &Row, y: f64, width: f64) {
    let place: Attributes = &[("class", &"strong end"), ("x", &Px(plot.left - 10.0)), ("y", &Px(y + 4.0))];
    m.text("text", place, &label(&row.name, width));
    let mut right = plot.left;
    if let Some([lo, hi]) = row.interval.map(|ends| ends.map(|v| plot.at_x(v))) {
        let d = format!("M{} {}H{}", Px(lo), Px(y), Px(hi));
        m.leaf("path", &[("class", &format!("bar {}", row.class)), ("d", &d)]);
        right = right.max(hi);
    }
    note_row(plot, row);
    if let Some(ring) = row.ring.map(|ring| plot.at_x(ring)) {
        draw_circle(m, &format!("ring {}", row.class), (ring, y, 7.0), &row.ring_explanation);
        right = right.max(ring);
    }
    if let Some(value) = row.value.map(|value| plot.at_x(value)) {
        draw_circle(m, &format!("dot {}", row.class), (value, y, 4.5), &row.explanation);
        right = right.max(value);
    }
    m.text("text", &[("class", &"halo"), ("x", &Px(right + 12.0)), ("y", &Px(y + 4.0))], &row.text);
}

/// Records the values of a row for the Vega-Lite specification.
fn note_row(plot: &mut Plot, row: &Row) {
    let ink = Ink { class: &row.class, name: &row.name };
    let at = |value: f64| (AxisPosition::Number(value), AxisPosition::Name(row.name.clone()));
    if let Some(ring) = row.ring {
        plot.note(MarkShape::Ring, ink, at(ring), AxisRange::None);
    }
    if let Some(value) = row.value {
        plot.note(MarkShape::Dot, ink, at(value), row.interval.map_or(AxisRange::None, AxisRange::X));
    }
}

fn draw_circle(m: &mut Markup, class: &str, (x, y, r): (f64, f64, f64), explanation: &str) {
    let class = format!("mark {class}");
    m.explained("circle", &[("class", &class), ("cx", &Px(x)), ("cy", &Px(y)), ("r", &Px(r))], explanation);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels that are close to each other. In the picture of the README, one of three such levels had no name.
    #[test]
    fn each_level_has_its_name() {
        let level = |loss: f64| (1.0 + loss, format!("{} loss", percent(loss)));
        let levels = [0.01, 0.05, 0.10].map(level);
        for (most, rows) in [(1.4, 2), (1.15, 1), (10.0, 3)] {
            let axis = ChartAxis::linear("slowdown", 1.0, most);
            let row = Row {
                name: "edm".into(),
                class: style::series(0),
                value: Some(1.1),
                interval: None,
                ring: None,
                text: String::new(),
                explanation: String::new(),
                ring_explanation: String::new(),
            };
            let drawn = drawing(&[row], &axis, &levels, &[], 720.0).body.into_string();
            assert!(
                levels.iter().all(|(_, name)| drawn.contains(&format!("{name}</text>"))),
                "{most}: {drawn}"
            );
            let plot =
                Plot::within((56.0, 60.0), (662.0, 200.0), axis, ChartAxis::named("", &["edm".into()]));
            let lines = level_lines(&plot, &levels.iter().collect::<Vec<_>>());
            assert_eq!(lines.iter().max().unwrap() + 1, rows, "{most}: {lines:?}");
        }
    }
}
