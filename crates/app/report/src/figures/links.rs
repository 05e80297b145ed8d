//! Links of a simulation over time, as cells that show their utilization or their queues.

use super::cells::{class, draw_cell, steps};
use crate::chart::{ChartAxis, Drawing, Key, Picture, Plot, legend, style, text_width};
use crate::links::{LinkOverTime, LinksOverTime};
use crate::markup::{Attributes, Markup, Px};
use crate::words::{bytes, nanoseconds, percent};

const ROW: f64 = 15.0;
/// Utilizations from which the next darker colour is used.
const SHARES: [f64; style::HEAT - 1] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98];

/// Quantity that the cells show.
struct ShownQuantity {
    label: &'static str,
    steps: Vec<f64>,
    /// Names of the colour classes.
    keys: Vec<String>,
    values: fn(&LinkOverTime) -> Vec<f64>,
    text: fn(f64) -> String,
}

/// Draws the utilization of each link over time. `suffix` makes the ids of several runs' figures different.
pub(crate) fn link_use(suffix: &str, links: &LinksOverTime) -> Picture {
    let mut keys = vec![format!("< {}", percent(SHARES[0]))];
    keys.extend(SHARES.iter().map(|share| format!("≥ {}", percent(*share))));
    let shown = ShownQuantity {
        label: "share of the time",
        steps: SHARES.to_vec(),
        keys,
        values: |link| link.utilization.clone(),
        text: percent,
    };
    picture(&format!("link-use{suffix}"), "Use of links over time", links, &shown)
}

/// Draws the queue of each link over time. `None` if all queues were always empty.
pub(crate) fn link_queues(suffix: &str, links: &LinksOverTime) -> Option<Picture> {
    let mut links = links.clone();
    links.links.retain(|link| link.queue_bytes.iter().any(|bytes| *bytes > 0));
    let most = links.links.iter().flat_map(|link| link.queue_bytes.iter().copied()).max()?;
    let steps = steps(most);
    let mut keys = vec!["none".to_string()];
    keys.extend(steps.iter().map(|least| format!("≥ {}", bytes(*least as u64))));
    let shown = ShownQuantity {
        label: "bytes ahead, at most",
        steps,
        keys,
        values: |link| link.queue_bytes.iter().map(|bytes| *bytes as f64).collect(),
        text: |value| bytes(value as u64),
    };
    Some(picture(&format!("link-queues{suffix}"), "Queues over time", &links, &shown))
}

fn picture(id: &str, title: &str, links: &LinksOverTime, shown: &ShownQuantity) -> Picture {
    let most = |link: &LinkOverTime| (shown.values)(link).into_iter().fold(0.0, f64::max);
    let top = links.links.iter().max_by(|a, b| most(a).total_cmp(&most(b)));
    let peak =
        top.map_or(String::new(), |link| format!(", most at {}: {}", link.name, (shown.text)(most(link))));
    let description = format!(
        "{} of {} links, the busiest, over {}{peak}.",
        links.links.len(),
        links.in_all,
        nanoseconds(links.end_us * 1e3)
    );
    Picture::new(id, title, &description, |width| draw(links, shown, width))
}

fn draw(links: &LinksOverTime, shown: &ShownQuantity, width: f64) -> Drawing {
    let mut body = Markup::new();
    let classes: Vec<String> = (0..style::HEAT).map(|class| format!("h{class}")).collect();
    let entries: Vec<_> = classes
        .iter()
        .zip(&shown.keys)
        .map(|(class, key)| (Key::Cell, class.as_str(), key.as_str()))
        .collect();
    let top = legend(&mut body, 8.0, width - 16.0, &entries) + 4.0;
    let names: Vec<String> = links.links.iter().map(|link| link.name.clone()).collect();
    let left = names.iter().map(|name| text_width(name)).fold(0.0, f64::max) + 14.0;
    let bottom = top + names.len() as f64 * ROW;
    let x = ChartAxis::filled("time (µs)", 0.0, links.end_us);
    let mut plot = Plot::within((left, top), (width - 16.0, bottom), x, ChartAxis::named("link", &names));
    plot.cells(shown.label, &shown.steps);
    plot.frame_x(&mut body);
    for (row, link) in links.links.iter().enumerate() {
        let y = top + row as f64 * ROW;
        for (step, value) in (shown.values)(link).into_iter().enumerate() {
            let from = step as f64 * links.step_us;
            let ends = [from, (from + links.step_us).min(links.end_us)];
            let [x, right] = ends.map(|us| plot.at_x(us));
            let at = nanoseconds(from * 1e3);
            let text = format!("{}: {} from {at}", link.name, (shown.text)(value));
            draw_cell(&mut body, class(&shown.steps, value), (x, y), (right - x, ROW - 1.0), &text);
            plot.note_cell(ends, &link.name, value);
        }
        let place: Attributes = &[("class", &"tick end"), ("x", &Px(left - 7.0)), ("y", &Px(y + 11.5))];
        body.text("text", place, &link.name);
    }
    plot.finish(width, bottom + 44.0, body)
}
