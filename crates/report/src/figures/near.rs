use unrack_record::{Comparison, FabricResult};

use crate::chart::{Axis, Drawing, Figure, Plot, WIDE, style, text_width};
use crate::markup::{Attributes, Markup, Px};
use crate::words::{nanoseconds, percent, ratio};

/// Between two labels, one above the other.
const LINE: f64 = 16.0;

/// The line where the fabrics are, too close to nothing to be seen beside injected delays; and what
/// a fetch may take for each allowed loss.
pub(crate) fn near_fabrics(c: &Comparison) -> Option<Figure> {
    if c.fabrics.is_empty() || c.native.median_s <= 0.0 {
        return None;
    }
    let one = |f: &FabricResult| format!("{}: {} at {}.", f.fabric, ratio(f.slowdown), us(f.fetch_us.mean));
    let description = c.fabrics.iter().map(one).collect::<Vec<_>>().join(" ");
    Some(Figure::new("slowdown-fabrics", "Where the fabrics are", &description, |width| drawing(c, width)))
}

fn drawing(c: &Comparison, width: f64) -> Drawing {
    let height = if width < WIDE { 300.0 } else { 360.0 };
    let mut body = Markup::new();
    let plot = Plot::filling(width, height, 16.0, x_axis(c), y_axis(c));
    plot.frame(&mut body);
    prediction(c, &plot, &mut body);
    let mut free = plot.bottom;
    for requirement in &c.requirements {
        if let Some(max_us) = requirement.max_fetch_us.filter(|us| plot.x.contains(*us)) {
            free = allowed(&plot, &mut body, requirement.loss, max_us, free);
        }
    }
    fabrics(c, &plot, &mut body);
    Drawing { width, height, body }
}

fn x_axis(c: &Comparison) -> Axis {
    let longest = c.fabrics.iter().map(|fabric| fabric.fetch_us.mean).fold(0.0, f64::max);
    Axis::linear("time of one page fetch (µs, mean)", 0.0, longest * 1.04)
}

fn y_axis(c: &Comparison) -> Axis {
    let all = c
        .fabrics
        .iter()
        .flat_map(|f| f.slowdown_ci95.into_iter().chain([f.slowdown, predicted(c, f.fetch_us.mean)]));
    let (lo, hi) = all.filter(|v| v.is_finite()).fold((1.0f64, 1.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
    Axis::linear("slowdown (run time over native)", lo, hi)
}

fn with_waits(c: &Comparison, waits: f64, us: f64) -> f64 {
    1.0 + waits * us / 1e6 / c.native.median_s
}

fn predicted(c: &Comparison, us: f64) -> f64 {
    with_waits(c, c.injection.fit.waits, us)
}

fn prediction(c: &Comparison, plot: &Plot, m: &mut Markup) {
    // As far to the right as the line stays below the upper edge.
    let fit = &c.injection.fit;
    let steepest = fit.waits.max(fit.waits_ci95[1]).max(1e-9);
    let end = plot.x.end().min((plot.y.end() - 1.0) * c.native.median_s * 1e6 / steepest);
    let line = |waits: f64| [(0.0, 1.0), (end, with_waits(c, waits, end))];
    plot.band(m, "ink", &line(fit.waits_ci95[0]), &line(fit.waits_ci95[1]));
    plot.line(
        m,
        "ink",
        &line(fit.waits),
        "Slowdown = 1 + waits on the critical path × time of a fetch / native run time",
    );
}

/// From the allowed loss to the line, and down to the time; its text where that is free, above the line
/// at the left. Answers below what height space is free then.
fn allowed(plot: &Plot, m: &mut Markup, loss: f64, max_us: f64, free: f64) -> f64 {
    let (x, y) = (plot.at_x(max_us), plot.at_y(1.0 + loss));
    let d = format!("M{} {}H{}V{}", Px(plot.left), Px(y), Px(x), Px(plot.bottom));
    let text = format!("At most {} loss: at most {} per fetch", percent(loss), us(max_us));
    m.explained("path", &[("class", &"mark line accent thin"), ("d", &d)], &text);
    if y > free || y - LINE < plot.top {
        return free;
    }
    let place: Attributes =
        &[("class", &"accent-text halo"), ("x", &Px(plot.left + 6.0)), ("y", &Px(y - 4.0))];
    m.text("text", place, &format!("{} loss: {}", percent(loss), us(max_us)));
    y - LINE
}

/// The fabrics from right to left, so that a label can give way upward.
fn fabrics(c: &Comparison, plot: &Plot, m: &mut Markup) {
    let names: Vec<_> = c.fabrics.iter().map(|fabric| fabric.fabric.as_str()).collect();
    let mut sorted: Vec<_> = c.fabrics.iter().collect();
    sorted.sort_by(|a, b| b.fetch_us.mean.total_cmp(&a.fetch_us.mean));
    let mut labels: Vec<(f64, f64)> = Vec::new();
    for fabric in sorted {
        let (x, y) = (plot.at_x(fabric.fetch_us.mean), plot.at_y(fabric.slowdown));
        let right = x + text_width(&fabric.fabric) + 8.0;
        let blocking = labels.iter().filter(|(left, _)| *left < right).map(|(_, top)| top - LINE);
        let top = blocking.fold(y - 22.0, f64::min).max(plot.top + 4.0);
        labels.push((x, top));
        draw(plot, m, fabric, &style::fabric(&names, &fabric.fabric), top);
    }
}

fn draw(plot: &Plot, m: &mut Markup, fabric: &FabricResult, class: &str, top: f64) {
    let (x, y) = (plot.at_x(fabric.fetch_us.mean), plot.at_y(fabric.slowdown));
    let leader = format!("M{} {}V{}", Px(x), Px(y), Px(top + 3.0));
    m.leaf("path", &[("class", &format!("leader {class}")), ("d", &leader)]);
    let text =
        format!("{}: {} at {} per fetch", fabric.fabric, ratio(fabric.slowdown), us(fabric.fetch_us.mean));
    plot.dot(m, class, (fabric.fetch_us.mean, fabric.slowdown), fabric.slowdown_ci95, &text);
    m.text("text", &[("class", &"strong halo"), ("x", &Px(x - 2.0)), ("y", &Px(top))], &fabric.fabric);
}

fn us(value: f64) -> String {
    nanoseconds(value * 1e3)
}
