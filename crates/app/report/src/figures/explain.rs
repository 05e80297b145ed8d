//! Figure of the time of one message: one row for each place where the message was, with bars along the time axis.

use crate::ExplainedMessage;
use crate::chart::{
    AxisPosition, AxisRange, ChartAxis, Drawing, Ink, MarkShape, Picture, Plot, fitted, text_width,
};
use crate::markup::{Attributes, Markup, Px};
use crate::words::{bytes, nanoseconds, percent};

const ROW: f64 = 38.0;
const BAR: f64 = 14.0;

/// Row of the figure: a place, and the periods that the message spent there.
struct Row<'a> {
    place: &'a str,
    class: &'static str,
    /// Periods that the message spent at this place, in nanoseconds since its submission.
    periods: Vec<[f64; 2]>,
}

/// Draws where a message spent its time.
pub fn explain_figure(explained: &ExplainedMessage) -> Picture {
    let rows = rows(explained);
    let ExplainedMessage { message, kind, bytes: size, src, dst, completion_ns, unloaded_ns, .. } = explained;
    let title = format!("Message {message}: {kind} of {}, node {src} to node {dst}", bytes(*size));
    let spent: Vec<String> =
        rows.iter().map(|row| format!("{}: {}", row.place, row.text(*completion_ns))).collect();
    let description = format!(
        "{} in all, {} alone on the same fabric. {}.",
        nanoseconds(*completion_ns),
        nanoseconds(*unloaded_ns),
        spent.join("; ")
    );
    Picture::new("explain", &title, &description, |width| draw(explained, &rows, width))
}

/// Returns the places in the order in which the message first reached them.
fn rows(explained: &ExplainedMessage) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for part in &explained.parts {
        let from = part.from_ns - explained.submitted_ns;
        let period = [from, from + part.time_ns];
        match rows.iter_mut().find(|row| row.place == part.place) {
            Some(row) => row.periods.push(period),
            None => rows.push(Row { place: &part.place, class: class(&part.cause), periods: vec![period] }),
        }
    }
    rows
}

/// Returns the class for the colour of a cause.
fn class(cause: &str) -> &'static str {
    match cause {
        "serialization" => "s0",
        "propagation" => "s5",
        "host-queue" | "queue" => "s1",
        "protocol" => "s3",
        "lost" => "accent",
        _ => "s2",
    }
}

impl Row<'_> {
    /// Returns the time spent at this place and its share of the whole: `8.51 ns, 12.4 %`.
    fn text(&self, completion_ns: f64) -> String {
        let time: f64 = self.periods.iter().map(|[from, to]| to - from).sum();
        let share = if completion_ns > 0.0 { time / completion_ns } else { 0.0 };
        format!("{}, {}", nanoseconds(time), percent(share))
    }
}

fn draw(explained: &ExplainedMessage, rows: &[Row], width: f64) -> Drawing {
    let mut body = Markup::new();
    let top = 24.0;
    let bottom = top + rows.len() as f64 * ROW + 4.0;
    let names: Vec<String> = rows.iter().map(|row| row.place.to_string()).collect();
    let end = explained.completion_ns.max(explained.unloaded_ns);
    let x = ChartAxis::filled("time since the submission (ns)", 0.0, end);
    let mut plot = Plot::within((14.0, top), (width - 16.0, bottom), x, ChartAxis::named("", &names));
    plot.frame_x(&mut body);
    let alone = format!("alone: {}", nanoseconds(explained.unloaded_ns));
    let half = text_width(&alone) / 2.0;
    let middle = plot.at_x(explained.unloaded_ns).clamp(plot.left + half, plot.right - half);
    plot.level(
        &mut body,
        Ink { class: "accent thin", name: "alone on the same fabric" },
        explained.unloaded_ns,
        &format!("Alone on the same fabric it takes {}", nanoseconds(explained.unloaded_ns)),
    );
    let place: Attributes = &[("class", &"mid accent-text"), ("x", &Px(middle)), ("y", &Px(top - 8.0))];
    body.text("text", place, &alone);
    for (index, row) in rows.iter().enumerate() {
        let y = top + index as f64 * ROW;
        let text = row.text(explained.completion_ns);
        let place = fitted(row.place, plot.right - plot.left - text_width(&text) - 10.0);
        let text = format!("{place}: {text}");
        let place: Attributes = &[("class", &"halo"), ("x", &Px(plot.left)), ("y", &Px(y + 15.0))];
        body.text("text", place, &text);
        for period in &row.periods {
            draw_period(&mut body, &mut plot, row, *period, y + 20.0);
        }
    }
    plot.finish(width, bottom + 44.0, body)
}

fn draw_period(m: &mut Markup, plot: &mut Plot, row: &Row, [from, to]: [f64; 2], y: f64) {
    let (left, right) = (plot.at_x(from), plot.at_x(to));
    let class = format!("mark area {}", row.class);
    let place: Attributes = &[
        ("class", &class),
        ("x", &Px(left)),
        ("y", &Px(y)),
        // Even the shortest period is wide enough to be visible.
        ("width", &Px((right - left).max(1.0))),
        ("height", &Px(BAR)),
    ];
    let text = format!("{}: {} from {}", row.place, nanoseconds(to - from), nanoseconds(from));
    m.explained("rect", place, &text);
    let ink = Ink { class: row.class, name: row.place };
    plot.note(
        MarkShape::Bar,
        ink,
        (AxisPosition::Any, AxisPosition::Name(row.place.into())),
        AxisRange::X([from, to]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explained::ExplainedPart;

    #[test]
    fn a_place_met_twice_has_one_row() {
        let part = |from_ns, time_ns, place: &str| ExplainedPart {
            from_ns,
            time_ns,
            cause: "queue".into(),
            place: place.into(),
        };
        let explained = ExplainedMessage {
            message: 7,
            kind: "read".into(),
            bytes: 64,
            src: 1,
            dst: 2,
            submitted_ns: 100.0,
            completion_ns: 40.0,
            unloaded_ns: 30.0,
            parts: vec![
                part(100.0, 10.0, "port 3"),
                part(110.0, 20.0, "port 4"),
                part(130.0, 10.0, "port 3"),
            ],
        };
        let rows = rows(&explained);
        assert_eq!(rows.iter().map(|row| row.place).collect::<Vec<_>>(), ["port 3", "port 4"]);
        assert_eq!(rows[0].periods, [[0.0, 10.0], [30.0, 40.0]]);
        assert_eq!(rows[0].text(40.0), "20\u{a0}ns, 50\u{a0}%");
        let svg = explain_figure(&explained).to_svg();
        assert_eq!(svg.matches("class=\"mark area").count(), 3);
    }
}
