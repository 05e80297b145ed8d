//! A section of the page, with its lists and tables.

use crate::Picture;
use crate::markup::{Attributes, Markup};

/// One result on the page.
pub(crate) struct PageSection {
    pub id: String,
    pub question: String,
    pub answer: String,
    pub figures: Vec<Picture>,
    pub body: Markup,
}

impl PageSection {
    /// Returns a section. `prefix` makes the ids of several sections different. [`PageSection::figure`] places the figures into the body.
    pub(super) fn new(prefix: &str, question: String, answer: String, figures: Vec<Picture>) -> PageSection {
        let renamed = |figure: Picture| {
            let id = format!("{prefix}{}", figure.id);
            figure.renamed(id)
        };
        let figures = figures.into_iter().map(renamed).collect();
        PageSection { id: format!("{prefix}result"), question, answer, figures, body: Markup::new() }
    }

    /// Places the figure whose id ends with `id`, if there is one, with a caption that explains how to read it.
    pub(super) fn figure(&mut self, id: &str, caption: &str) {
        let Some(figure) = self.figures.iter().find(|figure| figure.id.ends_with(id)) else { return };
        self.body.element("figure", &[("id", &figure.id)], |m| {
            m.text("h3", &[], &figure.title);
            figure.inline(m);
            m.text("figcaption", &[], caption);
        });
    }

    /// Writes the warnings that a reader must consider before relying on the result, if there are any.
    pub(super) fn warnings(&mut self, warnings: &[String]) {
        if warnings.is_empty() {
            return;
        }
        self.body.element("aside", &[("class", &"warnings"), ("aria-label", &"Warnings")], |m| {
            m.text("h3", &[], "Check before you trust this");
            list(m, warnings);
        });
    }

    /// Writes names and values in large text, in a row.
    pub(super) fn facts(&mut self, facts: &[(&str, String)]) {
        self.body.element("dl", &[("class", &"facts")], |m| {
            for (name, value) in facts {
                m.open("div", &[]).text("dt", &[], name).text("dd", &[], value).close("div");
            }
        });
    }

    /// Writes the section.
    pub(super) fn draw(&self, m: &mut Markup, with_heading: bool) {
        m.element("section", &[("id", &self.id)], |m| {
            if with_heading {
                m.text("h2", &[], &self.question).text("p", &[("class", &"answer")], &self.answer);
            }
            m.raw(&self.body.clone().into_string());
        });
    }
}

pub(crate) fn list(m: &mut Markup, items: &[String]) {
    m.element("ul", &[], |m| {
        for item in items {
            m.text("li", &[], item);
        }
    });
}

/// Columns that belong together: their name, the term that explains it, and the headings of the columns. A group without columns is itself
/// one column.
pub(crate) struct ColumnGroup<'a> {
    pub name: &'a str,
    pub term: &'static str,
    pub columns: &'static [&'static str],
}

/// Writes a table. The first column names the rows, and the column headings link to their explanations.
pub(crate) fn table(m: &mut Markup, caption: &str, groups: &[ColumnGroup], rows: &[Vec<String>]) {
    let region: Attributes =
        &[("class", &"scroll"), ("role", &"region"), ("aria-label", &caption), ("tabindex", &"0")];
    m.element("div", region, |m| {
        m.element("table", &[], |m| {
            m.element("caption", &[], |m| {
                m.text("span", &[], caption);
            });
            m.element("thead", &[], |m| heads(m, groups));
            m.element("tbody", &[], |m| rows.iter().for_each(|cells| row(m, cells)));
        });
    });
}

fn heads(m: &mut Markup, groups: &[ColumnGroup]) {
    m.element("tr", &[], |m| groups.iter().for_each(|group| group_head(m, group)));
    m.element("tr", &[], |m| {
        for column in groups.iter().flat_map(|group| group.columns) {
            m.text("th", &[("scope", &"col")], column);
        }
    });
}

fn group_head(m: &mut Markup, group: &ColumnGroup) {
    let width = group.columns.len();
    let alone: Attributes = &[("scope", &"col"), ("rowspan", &2)];
    let spanning: Attributes = &[("scope", &"colgroup"), ("colspan", &width)];
    m.element("th", if width == 0 { alone } else { spanning }, |m| {
        m.text("a", &[("href", &format!("#term-{}", group.term))], group.name);
    });
}

fn row(m: &mut Markup, cells: &[String]) {
    m.element("tr", &[], |m| {
        for (index, cell) in cells.iter().enumerate() {
            match index {
                0 => m.text("th", &[("scope", &"row")], cell),
                _ => m.text("td", &[], cell),
            };
        }
    });
}
