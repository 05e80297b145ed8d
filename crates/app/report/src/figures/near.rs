//! The fitted line at the fetch times of the fabrics.

use unrack_record::{Comparison, FabricResult, Fit, Interval, Requirement, Stated};

use crate::chart::{
    AxisPosition, AxisRange, ChartAxis, Drawing, Ink, MarkShape, Picture, PlacedLabels, Plot, WIDE, fitted,
    style, text_width,
};
use crate::markup::{Markup, Px};
use crate::words::{nanoseconds, percent, ratio};

/// Vertical distance between two labels, in pixels.
const LINE: f64 = 16.0;
/// Name of the vertical line at the transmission time of a page.
const BITS: &str = "the bits of a page";

/// Draws the fitted line at the fetch times of the fabrics, which are too short to be visible in the figure of the injected delays. It also
/// draws the longest fetch time for each allowed loss. `None` if the fitted line allows no conclusion.
pub(crate) fn near_fabrics(c: &Comparison) -> Option<Picture> {
    let fit = c.injection.fit.as_ref().filter(|_| c.injection.withheld.is_none())?;
    let names: Vec<_> = c.fabrics.iter().map(|fabric| fabric.fabric.as_str()).collect();
    let fabric = |f: &FabricResult| {
        let (fetch_us, slowdown, interval) = (f.fetch_us?.mean, f.slowdown?, f.slowdown_ci95?);
        Some(FabricOnLine {
            name: f.fabric.clone(),
            class: style::fabric(&names, &f.fabric),
            fetch_us,
            slowdown,
            interval,
        })
    };
    let places: Vec<_> = c.fabrics.iter().filter_map(fabric).collect();
    if places.is_empty() {
        return None;
    }
    let one = |place: &FabricOnLine| {
        format!("{}: {} at {}.", place.name, ratio(place.slowdown), us(place.fetch_us))
    };
    let description = places.iter().map(one).collect::<Vec<_>>().join(" ");
    let near = NearFigure { places, fit, requirements: &c.requirements, page_us: c.injection.page_us };
    Some(Picture::new("slowdown-fabrics", "Where the fabrics are", &description, |width| near.draw(width)))
}

/// A fabric, as a point on the line.
struct FabricOnLine {
    name: String,
    class: String,
    fetch_us: f64,
    slowdown: f64,
    interval: [f64; 2],
}

/// Content of the figure.
struct NearFigure<'a> {
    places: Vec<FabricOnLine>,
    fit: &'a Fit,
    requirements: &'a [Requirement],
    page_us: f64,
}

impl NearFigure<'_> {
    fn draw(&self, width: f64) -> Drawing {
        let height = if width < WIDE { 300.0 } else { 360.0 };
        let mut body = Markup::new();
        let mut plot = Plot::filling(width, height, 16.0, self.x_axis(), self.y_axis());
        plot.frame(&mut body);
        self.draw_bits(&mut plot, &mut body);
        self.draw_line(&mut plot, &mut body);
        let mut labels = PlacedLabels::default();
        for requirement in self.requirements {
            allowed(&mut plot, &mut body, requirement, &mut labels);
        }
        draw_places(&self.places, &mut plot, &mut body, &mut labels);
        self.name_bits(&plot, &mut body, &mut labels);
        plot.finish(width, height, body)
    }

    fn x_axis(&self) -> ChartAxis {
        let longest = self.places.iter().map(|place| place.fetch_us).fold(0.0, f64::max);
        ChartAxis::linear("time of one page fetch (µs, mean)", 0.0, longest * 1.04)
    }

    fn y_axis(&self) -> ChartAxis {
        let all = self.places.iter().flat_map(|place| {
            place
                .interval
                .into_iter()
                .chain([place.slowdown, self.predicted(self.fit.waits_per_s, place.fetch_us)])
        });
        let (lo, hi) =
            all.filter(|v| v.is_finite()).fold((1.0f64, 1.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
        ChartAxis::linear("slowdown (run time over native)", lo, hi)
    }

    fn predicted(&self, waits_per_s: f64, us: f64) -> f64 {
        1.0 + waits_per_s * us / 1e6
    }

    /// Marks the transmission time of a page, which is the lower bound of a fetch.
    fn draw_bits(&self, plot: &mut Plot, m: &mut Markup) {
        if !plot.x.contains(self.page_us) {
            return;
        }
        let text =
            format!("The bits of a page alone take {} at this rate: no fetch takes less", us(self.page_us));
        plot.level(m, Ink { class: "faint thin", name: BITS }, self.page_us, &text);
    }

    /// Writes the name of the vertical line at a page's transmission time beside that line, at its lower end or above other labels.
    fn name_bits(&self, plot: &Plot, m: &mut Markup, labels: &mut PlacedLabels) {
        if !plot.x.contains(self.page_us) {
            return;
        }
        let x = plot.at_x(self.page_us);
        let right = x + 5.0 + text_width(BITS) < plot.right;
        let beside = if right { x + 5.0 } else { (x - 5.0 - text_width(BITS)).max(plot.left + 2.0) };
        let lines = (0..).map(|line| plot.bottom - 7.0 - LINE * f64::from(line));
        if let Some(y) = labels.place(BITS, beside, lines.take_while(|y| y - LINE > plot.top)) {
            m.text("text", &[("class", &"note halo"), ("x", &Px(beside)), ("y", &Px(y))], BITS);
        }
    }

    fn draw_line(&self, plot: &mut Plot, m: &mut Markup) {
        // The line extends to the right until it reaches the upper edge.
        let Fit { waits_per_s, waits_per_s_ci95: [few, many], .. } = *self.fit;
        let steepest = waits_per_s.max(many).max(1e-9);
        let end = plot.x.end().min((plot.y.end() - 1.0) * 1e6 / steepest);
        let line = |waits_per_s: f64| [(0.0, 1.0), (end, self.predicted(waits_per_s, end))];
        let ink = Ink { class: "ink", name: "fit" };
        plot.band(m, ink, &line(few), &line(many));
        plot.line(
            m,
            ink,
            &line(waits_per_s),
            "Slowdown = 1 + waits on the critical path × time of a fetch / native run time",
        );
    }
}

/// Draws a line from the allowed loss to the fitted line and down to the fetch time, and draws the interval of the fetch time across it.
/// The text is above the line at the left, if that space is free.
fn allowed(plot: &mut Plot, m: &mut Markup, requirement: &Requirement, labels: &mut PlacedLabels) {
    let (loss, y) = (percent(requirement.loss), plot.at_y(1.0 + requirement.loss));
    if !plot.y.contains(1.0 + requirement.loss) {
        return;
    }
    let text = match &requirement.max_fetch_us {
        Stated::Withheld { .. } => format!("{loss} loss: withheld"),
        Stated::Known(Interval { value: Some(value), low, high: Some(high) }) if plot.x.contains(*value) => {
            let (x, [left, right]) = (plot.at_x(*value), [plot.at_x(*low), plot.at_x(*high)]);
            let d = format!("M{} {}H{}V{}", Px(plot.left), Px(y), Px(x), Px(plot.bottom));
            let text = format!(
                "At most {loss} loss: at most {} per fetch ({} to {})",
                us(*value),
                us(*low),
                us(*high)
            );
            m.explained("path", &[("class", &"mark line accent thin"), ("d", &d)], &text);
            let across = format!("M{} {}H{}", Px(left), Px(y), Px(right));
            m.leaf("path", &[("class", &"bar accent"), ("d", &across)]);
            let ink = Ink { class: "accent", name: "allowed loss" };
            let at = (AxisPosition::Number(*value), AxisPosition::Number(1.0 + requirement.loss));
            plot.note(MarkShape::Limit, ink, at, AxisRange::X([*low, *high]));
            format!("{loss} loss: {} ({} to {})", us(*value), us(*low), us(*high))
        }
        Stated::Known(_) => return,
    };
    let x = plot.left + 6.0;
    let text = fitted(&text, plot.right - x);
    let lines = Some(y - 4.0).filter(|_| y - LINE >= plot.top);
    if let Some(y) = labels.place(&text, x, lines.into_iter()) {
        m.text("text", &[("class", &"accent-text halo"), ("x", &Px(x)), ("y", &Px(y))], &text);
    }
}

/// Draws the fabrics from right to left. Each name is above its point, or above the labels that are in its way; if there is no space above,
/// it is below the point.
fn draw_places(places: &[FabricOnLine], plot: &mut Plot, m: &mut Markup, labels: &mut PlacedLabels) {
    let mut sorted: Vec<_> = places.iter().collect();
    sorted.sort_by(|a, b| b.fetch_us.total_cmp(&a.fetch_us));
    for place in sorted {
        let (x, y) = (plot.at_x(place.fetch_us), plot.at_y(place.slowdown));
        let name = fitted(&place.name, plot.right - x.min(plot.right - 60.0));
        let left = x.min(plot.right - text_width(&name));
        let (above, below) = (
            (1..).map(|line| y - 6.0 - LINE * f64::from(line)),
            (1..).map(|line| y + 6.0 + LINE * f64::from(line)),
        );
        let above = above.take_while(|baseline| *baseline > plot.top + 4.0);
        let below = below.take_while(|baseline| *baseline < plot.bottom - 4.0);
        let baseline = labels.place(&name, left - 2.0, above.chain(below));
        draw(plot, m, place, baseline.map(|baseline| (name.as_str(), left - 2.0, baseline)));
    }
}

fn draw(plot: &mut Plot, m: &mut Markup, place: &FabricOnLine, label: Option<(&str, f64, f64)>) {
    let (x, y) = (plot.at_x(place.fetch_us), plot.at_y(place.slowdown));
    if let Some((_, _, baseline)) = label {
        let leader = format!(
            "M{} {}V{}",
            Px(x),
            Px(y),
            Px(if baseline < y { baseline + 3.0 } else { baseline - 11.0 })
        );
        m.leaf("path", &[("class", &format!("leader {}", place.class)), ("d", &leader)]);
    }
    let text = format!("{}: {} at {} per fetch", place.name, ratio(place.slowdown), us(place.fetch_us));
    let ink = Ink { class: &place.class, name: &place.name };
    plot.dot(m, ink, (place.fetch_us, place.slowdown), place.interval, &text);
    if let Some((name, left, baseline)) = label {
        m.text("text", &[("class", &"strong halo"), ("x", &Px(left)), ("y", &Px(baseline))], name);
    }
}

fn us(value: f64) -> String {
    nanoseconds(value * 1e3)
}
