//! Colours, fonts and strokes of charts.
//!
//! Series have the hues of Okabe and Ito, "Color Universal Design", which can be distinguished under every common colour blindness. The
//! hues are darkened for paper and lightened for dark screens until each has a contrast of at least 3 to 1. Each series also has a
//! different dash pattern. Heat cells have one hue with different lightness, and show their value as text.

use std::fmt::Write;

pub(crate) const FONTS: &str = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif";

/// Colours of one scheme.
struct Palette {
    paper: &'static str,
    ink: &'static str,
    faint_ink: &'static str,
    grid: &'static str,
    accent: &'static str,
    ideal: &'static str,
    series: [&'static str; SERIES],
    /// Fill and text colours of heat cells, from no loss to the largest loss.
    heat: [(&'static str, &'static str); HEAT],
}

const SERIES: usize = 7;
pub(crate) const HEAT: usize = 8;

const LIGHT: Palette = Palette {
    paper: "#ffffff",
    ink: "#1c1f24",
    faint_ink: "#5a616b",
    grid: "#e4e6ea",
    accent: "#c2410c",
    ideal: "#6b7280",
    series: ["#0072b2", "#d55e00", "#00875f", "#b4508f", "#8a6d00", "#2b8fc4", "#4b3f9e"],
    heat: [
        ("#f3f7fb", "#1c1f24"),
        ("#dbe8f4", "#1c1f24"),
        ("#bcd6ea", "#1c1f24"),
        ("#8fbedd", "#1c1f24"),
        ("#5b9fcb", "#10131a"),
        ("#2f7cb4", "#ffffff"),
        ("#155a93", "#ffffff"),
        ("#08325f", "#ffffff"),
    ],
};

const DARK: Palette = Palette {
    paper: "#16181d",
    ink: "#e8eaed",
    faint_ink: "#a3abb8",
    grid: "#2c3038",
    accent: "#fb923c",
    ideal: "#9aa3b2",
    series: ["#56b4e9", "#f28e4c", "#2cc295", "#e39cc4", "#e0c04a", "#8fd0f5", "#a99cf0"],
    heat: [
        ("#1b222c", "#e8eaed"),
        ("#1b2f45", "#e8eaed"),
        ("#1c3f61", "#e8eaed"),
        ("#20547f", "#ffffff"),
        ("#2f76ab", "#ffffff"),
        ("#5b9fcb", "#10131a"),
        ("#9cc8e6", "#10131a"),
        ("#dcecf8", "#10131a"),
    ],
};

/// Dash patterns of the series, in addition to their colours.
const DASHES: [&str; SERIES] = ["none", "8 4", "2 3", "10 3 2 3", "5 2", "1 2", "12 4"];

/// Returns the class for the colour of series number `index`, in the order of the table.
pub(crate) fn series(index: usize) -> String {
    format!("s{}", index % SERIES)
}

/// Returns the class of a fabric. `ideal` is grey, because the others are compared with it; the others get the colours of the series in
/// turn.
pub(crate) fn fabric(fabrics: &[&str], name: &str) -> String {
    let mut others = fabrics.iter().filter(|other| **other != "ideal");
    match name {
        "ideal" => "ideal".into(),
        _ => series(others.position(|other| *other == name).unwrap_or(0)),
    }
}

/// Returns the colour on paper of an element with this class. Of several classes, the first is that of the colour.
pub(super) fn colour(class: &str) -> &'static str {
    match class.split(' ').next().unwrap_or(class) {
        "accent" => LIGHT.accent,
        "ideal" => LIGHT.ideal,
        "faint" => LIGHT.faint_ink,
        class => series_of(class).map_or(LIGHT.ink, |index| LIGHT.series[index]),
    }
}

/// Returns the dash pattern of a line of this class: lengths drawn and left out, in turn.
pub(super) fn dash(class: &str) -> Vec<u32> {
    let series = class.split(' ').next().and_then(series_of);
    let dash = match (class, series) {
        (_, Some(index)) => DASHES[index],
        ("ideal", _) => "3 3",
        _ if class.ends_with("thin") => "4 3",
        _ => "none",
    };
    let lengths: Vec<u32> = dash.split(' ').filter_map(|length| length.parse().ok()).collect();
    if lengths.is_empty() { vec![1, 0] } else { lengths }
}

fn series_of(class: &str) -> Option<usize> {
    class.strip_prefix('s')?.parse().ok().filter(|index| *index < SERIES)
}

/// Returns the fill on paper of heat cells in colour step `step`.
pub(super) fn heat_colour(step: usize) -> &'static str {
    LIGHT.heat[step.min(HEAT - 1)].0
}

/// Returns the style of an SVG file: the light scheme, and the shapes.
pub(crate) fn standalone() -> String {
    SHAPES.to_string() + &dashes() + &colours(&LIGHT)
}

/// Returns the style of charts in a page. It follows the reader's colour scheme, but prints in the light scheme.
pub(crate) fn in_page() -> String {
    let dark = colours(&DARK);
    let light = colours(&LIGHT);
    format!("{SHAPES}{}{light}@media screen and (prefers-color-scheme: dark){{{dark}}}", dashes())
}

/// Sizes and strokes, equal in every scheme. Marks take their colour from `color`.
const SHAPES: &str = "\
.chart text{font-size:12px}.chart .label{font-size:12.5px}.chart .heading{font-size:16px;font-weight:600}\
.chart .mid{text-anchor:middle}.chart .end{text-anchor:end}\
.chart .strong{font-weight:600}\
.chart .grid{fill:none;stroke-width:1}.chart .axis{fill:none;stroke-width:1}\
.chart .line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}\
.chart .line.thin{stroke-width:1.2;stroke-dasharray:4 3}\
.chart .band{fill:currentColor;fill-opacity:.16;stroke:none}\
.chart .area{fill:currentColor;fill-opacity:.75;stroke:none}\
.chart .bar{fill:none;stroke:currentColor;stroke-width:2;stroke-opacity:.55}\
.chart .dot{fill:currentColor;stroke-width:1.5}\
.chart .ring{stroke:currentColor;stroke-width:2}\
.chart .leader{fill:none;stroke:currentColor;stroke-width:1;stroke-opacity:.6}\
.chart .halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}\
.chart .contour{fill:none;stroke:currentColor;stroke-width:2.5}\
.chart .stripe{fill:currentColor;fill-opacity:0}.chart .stripe:hover{fill-opacity:.08}\
";

fn dashes() -> String {
    let mut css = String::from(".chart .line.ideal{stroke-dasharray:3 3}");
    for (index, dash) in DASHES.iter().enumerate().skip(1) {
        let _ = write!(css, ".chart .line.s{index}{{stroke-dasharray:{dash}}}");
    }
    css
}

fn colours(p: &Palette) -> String {
    let mut css = format!(
        ".chart text{{fill:{ink}}}.chart .tick{{fill:{faint}}}.chart .note{{fill:{faint}}}\
         .chart .grid{{stroke:{grid}}}.chart .axis{{stroke:{faint}}}.chart .paper{{fill:{paper}}}\
         .chart .halo{{stroke:{paper}}}.chart .dot{{stroke:{paper}}}.chart .ring{{fill:{paper}}}.chart .stripe{{color:{faint}}}\
         .chart .accent{{color:{accent}}}.chart .accent-text{{fill:{accent}}}\
         .chart .ideal{{color:{ideal}}}.chart .ink{{color:{ink}}}.chart .faint{{color:{faint}}}",
        ink = p.ink,
        faint = p.faint_ink,
        grid = p.grid,
        paper = p.paper,
        accent = p.accent,
        ideal = p.ideal,
    );
    for (index, colour) in p.series.iter().enumerate() {
        let _ = write!(css, ".chart .s{index}{{color:{colour}}}");
    }
    for (index, (fill, text)) in p.heat.iter().enumerate() {
        let _ = write!(css, ".chart .h{index}{{fill:{fill}}}.chart .t{index}{{fill:{text}}}");
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabrics_keep_their_colour_and_ideal_is_grey() {
        let fabrics = ["ideal", "edm", "cxl"];
        assert_eq!(fabric(&fabrics, "ideal"), "ideal");
        assert_eq!((fabric(&fabrics, "edm"), fabric(&fabrics, "cxl")), ("s0".into(), "s1".into()));
    }

    /// Returns the relative luminance of WCAG 2.1.
    fn luminance(colour: &str) -> f64 {
        let channel = |from| {
            let value = u8::from_str_radix(&colour[from..from + 2], 16).unwrap() as f64 / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn colours_stand_out_from_their_background() {
        for p in [LIGHT, DARK] {
            for colour in p.series.iter().chain([&p.ideal, &p.accent]) {
                assert!(contrast(colour, p.paper) >= 3.0, "{colour} on {}", p.paper);
            }
            for (fill, text) in p.heat {
                assert!(contrast(fill, text) >= 4.5, "{text} on {fill}");
            }
            assert!(contrast(p.faint_ink, p.paper) >= 4.5 && contrast(p.ink, p.paper) >= 7.0);
        }
    }
}
