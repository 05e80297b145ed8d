//! A finished figure: title, description, and drawings in two widths.

use super::{ChartData, style, vega};
use crate::markup::{Attributes, Markup, Px};
use crate::words::shortened;

/// Width of a figure on a desktop, in pixels of the page. `NARROW` is the width on a telephone.
pub(crate) const WIDE: f64 = 720.0;
const NARROW: f64 = 380.0;
/// Maximum number of characters of a job's name in a title.
const LONGEST_JOB: usize = 32;

/// A picture for a page or for a separate file.
#[derive(Debug, Clone)]
pub struct Picture {
    /// Name of the figure in the page, and of its file. It consists of letters, digits and dashes.
    pub id: String,
    pub title: String,
    /// Description of the content, for readers who cannot see the picture.
    pub description: String,
    wide: Drawing,
    narrow: Drawing,
}

/// Content of an SVG, its size in pixels, and the values that it shows.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    pub width: f64,
    pub height: f64,
    pub body: Markup,
    pub data: ChartData,
}

impl Picture {
    /// Makes a figure; `draw` is called once for each width.
    pub(crate) fn new(id: &str, title: &str, description: &str, draw: impl Fn(f64) -> Drawing) -> Picture {
        Picture {
            id: id.into(),
            title: title.into(),
            description: description.into(),
            wide: draw(WIDE),
            narrow: draw(NARROW),
        }
    }

    /// Returns the same figure under another id.
    pub(crate) fn renamed(self, id: String) -> Picture {
        Picture { id, ..self }
    }

    /// Returns the same figure with the name of the job or run at the start of its title.
    pub(crate) fn named(self, job: &str) -> Picture {
        let mut title = self.title.chars();
        let first = title.next().map_or(String::new(), |first| first.to_lowercase().collect());
        Picture { title: format!("{}: {first}{}", shortened(job, LONGEST_JOB), title.as_str()), ..self }
    }

    /// Writes the drawings in both widths. The page's style sheet then shows only one of them.
    pub(crate) fn inline(&self, m: &mut Markup) {
        self.svg(m, &self.wide, "wide");
        self.svg(m, &self.narrow, "narrow");
    }

    fn svg(&self, m: &mut Markup, drawing: &Drawing, variant: &str) {
        let id = format!("{}-{variant}", self.id);
        let (title_id, desc_id) = (format!("{id}-title"), format!("{id}-desc"));
        let view = format!("0 0 {} {}", Px(drawing.width), Px(drawing.height));
        let named = format!("{title_id} {desc_id}");
        let class = format!("chart {variant}");
        let attributes: Attributes = &[
            ("id", &id),
            ("class", &class),
            ("viewBox", &view),
            ("role", &"img"),
            ("aria-labelledby", &named),
        ];
        m.element("svg", attributes, |m| {
            m.text("title", &[("id", &title_id)], &self.title);
            m.text("desc", &[("id", &desc_id)], &self.description);
            m.raw(&drawing.body.clone().into_string());
        });
    }

    /// Returns a Vega-Lite specification of the figure that includes the data. It is JSON, which Altair and Vega's editor read.
    pub fn to_vega_lite(&self) -> String {
        let spec = vega::specification(&self.title, &self.description, &self.wide.data);
        format!("{spec:#}\n")
    }

    /// Returns an SVG file that includes heading, colours and background.
    pub fn to_svg(&self) -> String {
        let head = 40.0;
        let (width, height) = (Px(self.wide.width + 24.0), Px(self.wide.height + head + 20.0));
        let view = format!("0 0 {width} {height}");
        let mut m = Markup::new();
        let attributes: Attributes = &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("id", &self.id),
            ("class", &"chart"),
            ("width", &width),
            ("height", &height),
            ("viewBox", &view),
            ("font-family", &style::FONTS),
        ];
        m.element("svg", attributes, |m| {
            m.text("title", &[], &self.title).text("desc", &[], &self.description);
            m.element("style", &[], |m| {
                m.raw(&style::standalone());
            });
            m.leaf("rect", &[("class", &"paper"), ("width", &width), ("height", &height)]);
            m.text("text", &[("class", &"heading"), ("x", &"12"), ("y", &"26")], &self.title);
            m.element("g", &[("transform", &format!("translate(12 {})", Px(head)))], |m| {
                m.raw(&self.wide.body.clone().into_string());
            });
        });
        m.into_string() + "\n"
    }
}
