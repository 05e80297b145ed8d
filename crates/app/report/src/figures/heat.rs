//! Slowdown over latency and bandwidth. There is a panel of cells for each local share of one program, or for each of several programs.

use unrack_record::{MapLocal, SlowdownMap};

use crate::chart::{AxisRange, ChartData, Drawing, Key, Picture, WIDE, fitted, legend, style, text_width};
use crate::markup::{Attributes, Markup, Px};
use crate::words::{bytes, nanoseconds, percent, rate, ratio, share};

/// Slowdowns above which the next darker colour is used.
const STEPS: [f64; style::HEAT - 1] = [1.01, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0];
/// Largest slowdown that DDC §3 allows.
const ALLOWED: f64 = 1.05;
const CELL_HEIGHT: f64 = 28.0;
/// Minimum width of a cell that shows a slowdown with three decimals. `TWO_DECIMALS` is the width for two.
const THREE_DECIMALS: f64 = 46.0;
const TWO_DECIMALS: f64 = 30.0;
/// Maximum number of panels side by side.
const COLUMNS: usize = 2;
/// Space to the right of a panel.
const RIGHT: f64 = 12.0;

/// Slowdowns of one panel.
struct Surface<'a> {
    title: String,
    map: &'a SlowdownMap,
    local: &'a MapLocal,
}

/// Draws a panel for each local share of a map.
pub(crate) fn heat(map: &SlowdownMap) -> Picture {
    let mut surfaces = Vec::new();
    for local in &map.locals {
        let title = format!("{} local ({})", share(&local.local), bytes(local.local_bytes));
        surfaces.push(Surface { title, map, local });
    }
    picture("map-heat", "Slowdown over latency and bandwidth", &surfaces, THREE_DECIMALS)
}

/// Draws a panel for each named program that has a map with this local share. The panels are narrow, so that they can be compared side by
/// side.
pub fn heat_of_programs(id: &str, title: &str, programs: &[(&str, &SlowdownMap)], share: &str) -> Picture {
    let mut surfaces = Vec::new();
    for (name, map) in programs {
        if let Some(local) = map.locals.iter().find(|local| local.local == share) {
            surfaces.push(Surface { title: (*name).into(), map, local });
        }
    }
    picture(id, title, &surfaces, TWO_DECIMALS)
}

/// Draws the panels. They are side by side if their cells are then at least `narrowest` wide.
fn picture(id: &str, title: &str, surfaces: &[Surface], narrowest: f64) -> Picture {
    let description = surfaces.iter().map(described).collect::<Vec<_>>().join(" ");
    Picture::new(id, title, &description, |width| drawing(surfaces, width, narrowest))
}

fn described(Surface { title, map, local }: &Surface) -> String {
    let Some(slowdown) = &local.slowdown else { return format!("{title}: withheld.") };
    let cells = || slowdown.iter().flatten().copied();
    let within = cells().filter(|slowdown| *slowdown <= ALLOWED).count();
    format!(
        "{title}: from {} to {}; {within} of {} cells lose at most {}.",
        ratio(cells().fold(f64::INFINITY, f64::min)),
        ratio(cells().fold(0.0, f64::max)),
        map.latencies_ns.len() * map.bandwidths_bps.len(),
        percent(ALLOWED - 1.0),
    )
}

fn drawing(surfaces: &[Surface], width: f64, narrowest: f64) -> Drawing {
    let mut body = Markup::new();
    let top = keys(&mut body, width);
    let rates = surfaces.iter().map(|surface| surface.map.bandwidths_bps.len()).max().unwrap_or(0);
    let is_wide = |columns: usize| {
        surfaces.iter().all(|surface| cell_width(surface.map, width / columns as f64) >= narrowest)
    };
    let most = if width < WIDE { 1 } else { surfaces.len().clamp(1, COLUMNS) };
    let columns = (1..=most).rev().find(|columns| is_wide(*columns)).unwrap_or(1);
    let size = (width / columns as f64, 28.0 + rates as f64 * CELL_HEIGHT + 52.0);
    for (index, surface) in surfaces.iter().enumerate() {
        let corner = ((index % columns) as f64 * size.0, top + (index / columns) as f64 * size.1);
        Panel::new(surface, corner, size.0).draw(&mut body);
    }
    let height = top + surfaces.len().div_ceil(columns) as f64 * size.1;
    Drawing { width, height, body, data: data(surfaces) }
}

fn data(surfaces: &[Surface]) -> ChartData {
    let mut data = ChartData::of_cells("latency of a fetch", "bandwidth", "slowdown", &STEPS);
    for Surface { title, map, local } in surfaces {
        for (bandwidth, bps) in map.bandwidths_bps.iter().enumerate().rev() {
            for (latency, ns) in map.latencies_ns.iter().enumerate() {
                let interval = interval(local, (latency, bandwidth)).map_or(AxisRange::None, AxisRange::Cell);
                if let Some(slowdown) = &local.slowdown {
                    data.cell(title, nanoseconds(*ns), rate(*bps), slowdown[latency][bandwidth], interval);
                }
            }
        }
    }
    data
}

/// Returns the interval of a cell, if it is known.
fn interval(local: &MapLocal, (latency, bandwidth): (usize, usize)) -> Option<[f64; 2]> {
    local.slowdown_ci95.as_ref()?.get(latency)?.get(bandwidth).copied()
}

fn keys(m: &mut Markup, width: f64) -> f64 {
    let classes: Vec<_> = (0..style::HEAT).map(|step| format!("h{step}")).collect();
    let mut texts = vec![format!("≤ {}", STEPS[0])];
    texts.extend(STEPS.windows(2).map(|pair| format!("≤ {}", pair[1])));
    texts.push(format!("> {}", STEPS[STEPS.len() - 1]));
    let mut entries: Vec<_> =
        classes.iter().zip(&texts).map(|(c, t)| (Key::Cell, c.as_str(), t.as_str())).collect();
    entries.push((Key::Line, "accent", "5 % loss"));
    legend(m, 8.0, width - 16.0, &entries) + 6.0
}

/// Returns the width of the rate names to the left of a panel.
fn margin(map: &SlowdownMap) -> f64 {
    map.bandwidths_bps.iter().map(|bps| text_width(&rate(*bps))).fold(0.0, f64::max) + 14.0
}

/// Returns the width of a cell in a panel of this width.
fn cell_width(map: &SlowdownMap, width: f64) -> f64 {
    (width - margin(map) - RIGHT) / map.latencies_ns.len().max(1) as f64
}

/// The cells of one surface. Latency increases to the right, bandwidth upwards.
struct Panel<'a> {
    title: &'a str,
    map: &'a SlowdownMap,
    local: &'a MapLocal,
    left: f64,
    top: f64,
    cell: (f64, f64),
}

impl Panel<'_> {
    fn new<'a>(surface: &'a Surface, corner: (f64, f64), width: f64) -> Panel<'a> {
        let Surface { title, map, local } = surface;
        let cell = (cell_width(map, width), CELL_HEIGHT);
        Panel { title, map, local, left: corner.0 + margin(map), top: corner.1 + 28.0, cell }
    }

    fn draw(&self, m: &mut Markup) {
        m.text(
            "text",
            &[("class", &"strong"), ("x", &Px(self.left)), ("y", &Px(self.top - 9.0))],
            &fitted(self.title, self.map.latencies_ns.len() as f64 * self.cell.0),
        );
        let Some(slowdown) = &self.local.slowdown else { return self.draw_reason(m) };
        for (latency, row) in slowdown.iter().enumerate() {
            for (bandwidth, cell) in row.iter().enumerate() {
                self.draw_cell(m, *cell, (latency, bandwidth));
            }
        }
        let boundary = self.boundary(slowdown);
        if !boundary.is_empty() {
            m.leaf("path", &[("class", &"mark contour accent"), ("d", &boundary)]);
        }
        self.draw_axes(m);
    }

    /// Writes the reason why the share is withheld.
    fn draw_reason(&self, m: &mut Markup) {
        let why = self.local.withheld.as_ref().map_or("", |why| &why.text);
        let place: Attributes = &[("class", &"note"), ("x", &Px(self.left)), ("y", &Px(self.top + 12.0))];
        m.text(
            "text",
            place,
            &fitted(&format!("withheld: {why}"), self.map.latencies_ns.len() as f64 * self.cell.0),
        );
    }

    fn draw_cell(&self, m: &mut Markup, slowdown: f64, (latency, bandwidth): (usize, usize)) {
        let step = STEPS.iter().filter(|limit| slowdown > **limit).count();
        let (x, y) = self.corner(latency, bandwidth);
        let (width, height) = self.cell;
        let explanation = format!(
            "{}{} at {} and {}, {} local",
            ratio(slowdown),
            self.interval(latency, bandwidth),
            nanoseconds(self.map.latencies_ns[latency]),
            rate(self.map.bandwidths_bps[bandwidth]),
            self.local.local
        );
        let class = format!("mark cell h{step}");
        let place: Attributes = &[
            ("class", &class),
            ("x", &Px(x)),
            ("y", &Px(y)),
            ("width", &Px(width - 1.0)),
            ("height", &Px(height - 1.0)),
        ];
        m.explained("rect", place, &explanation);
        let decimals = if slowdown >= 10.0 {
            0
        } else if width >= THREE_DECIMALS {
            3
        } else {
            2
        };
        let text = format!("{slowdown:.decimals$}");
        if text_width(&text) + 4.0 < width {
            let class = format!("value mid t{step}");
            let middle = (Px(x + width / 2.0 - 0.5), Px(y + height / 2.0 + 3.5));
            m.text("text", &[("class", &class), ("x", &middle.0), ("y", &middle.1)], &text);
        }
    }

    /// Returns a text such as " (1.020 to 1.028)", or an empty text if the interval is unknown.
    fn interval(&self, latency: usize, bandwidth: usize) -> String {
        let interval = interval(self.local, (latency, bandwidth));
        interval.map_or(String::new(), |[lo, hi]| format!(" ({} to {})", ratio(lo), ratio(hi)))
    }

    /// Returns the upper left corner of a cell.
    fn corner(&self, latency: usize, bandwidth: usize) -> (f64, f64) {
        let row = self.map.bandwidths_bps.len() - 1 - bandwidth;
        (self.left + latency as f64 * self.cell.0, self.top + row as f64 * self.cell.1)
    }

    /// Returns the path along the edges between cells whose loss is allowed and cells whose loss is larger.
    fn boundary(&self, slowdown: &[Vec<f64>]) -> String {
        let within = |latency: usize, bandwidth: usize| slowdown[latency][bandwidth] <= ALLOWED;
        let (columns, rows) = (self.map.latencies_ns.len(), self.map.bandwidths_bps.len());
        let mut d = String::new();
        for (latency, bandwidth) in (0..columns).flat_map(|l| (0..rows).map(move |b| (l, b))) {
            let (x, y) = self.corner(latency, bandwidth);
            let (x, y) = (x - 0.5, y - 0.5);
            if latency > 0 && within(latency, bandwidth) != within(latency - 1, bandwidth) {
                d += &format!("M{} {}v{}", Px(x), Px(y), Px(self.cell.1));
            }
            if bandwidth > 0 && within(latency, bandwidth) != within(latency, bandwidth - 1) {
                d += &format!("M{} {}h{}", Px(x), Px(y + self.cell.1), Px(self.cell.0));
            }
        }
        d
    }

    fn draw_axes(&self, m: &mut Markup) {
        for (index, bps) in self.map.bandwidths_bps.iter().enumerate() {
            let y = Px(self.corner(0, index).1 + self.cell.1 / 2.0 + 3.5);
            m.text("text", &[("class", &"tick end"), ("x", &Px(self.left - 7.0)), ("y", &y)], &rate(*bps));
        }
        let bottom = self.top + self.map.bandwidths_bps.len() as f64 * self.cell.1;
        let mut free = f64::NEG_INFINITY;
        for (index, ns) in self.map.latencies_ns.iter().enumerate() {
            let (x, text) = (self.corner(index, 0).0 + self.cell.0 / 2.0, nanoseconds(*ns));
            let half = text_width(&text) / 2.0;
            if x - half > free {
                m.text("text", &[("class", &"tick mid"), ("x", &Px(x)), ("y", &Px(bottom + 15.0))], &text);
                free = x + half + 4.0;
            }
        }
        let middle = self.left + self.map.latencies_ns.len() as f64 * self.cell.0 / 2.0;
        let place: Attributes = &[("class", &"label mid"), ("x", &Px(middle)), ("y", &Px(bottom + 33.0))];
        m.text("text", place, "latency of a fetch");
    }
}
