use crate::Figure;
use crate::markup::Markup;

/// One result on the page.
pub(crate) struct Section {
    pub id: String,
    pub question: String,
    pub answer: String,
    pub figures: Vec<Figure>,
    pub body: Markup,
}

impl Section {
    /// `prefix` keeps the ids of several sections apart. The figures are placed into the body by
    /// [`Section::figure`].
    pub fn new(prefix: &str, question: String, answer: String, figures: Vec<Figure>) -> Section {
        let renamed = |figure: Figure| {
            let id = format!("{prefix}{}", figure.id);
            figure.renamed(id)
        };
        let figures = figures.into_iter().map(renamed).collect();
        Section { id: format!("{prefix}result"), question, answer, figures, body: Markup::new() }
    }

    /// The figure whose id ends so, if there is one, with a caption that helps to read it.
    pub fn figure(&mut self, id: &str, caption: &str) {
        let Some(figure) = self.figures.iter().find(|figure| figure.id.ends_with(id)) else { return };
        self.body.element("figure", &[("id", &figure.id)], |m| {
            m.text("h3", &[], &figure.title);
            figure.inline(m);
            m.text("figcaption", &[], caption);
        });
    }

    /// What to check before trusting the result: nothing is shown when there is nothing.
    pub fn warnings(&mut self, warnings: &[String]) {
        if warnings.is_empty() {
            return;
        }
        self.body.element("aside", &[("class", &"warnings"), ("aria-label", &"Warnings")], |m| {
            m.text("h3", &[], "Check before you trust this");
            list(m, warnings);
        });
    }

    /// Names and values, large, in a row.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.body.element("dl", &[("class", &"facts")], |m| {
            for (name, value) in facts {
                m.open("div", &[]).text("dt", &[], name).text("dd", &[], value).close("div");
            }
        });
    }

    pub fn draw(&self, m: &mut Markup, with_heading: bool) {
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

/// A column of a table: its name, its unit, and the term that explains it.
pub(crate) struct Column {
    pub name: &'static str,
    pub unit: &'static str,
    pub term: &'static str,
}

/// A table whose first column names the rows and whose column heads lead to their explanation.
pub(crate) fn table(m: &mut Markup, caption: &str, columns: &[Column], rows: &[Vec<String>]) {
    m.element(
        "div",
        &[("class", &"scroll"), ("role", &"region"), ("aria-label", &caption), ("tabindex", &"0")],
        |m| {
            m.element("table", &[], |m| {
                m.text("caption", &[], caption);
                m.element("thead", &[], |m| {
                    m.element("tr", &[], |m| columns.iter().for_each(|column| head(m, column)));
                });
                m.element("tbody", &[], |m| rows.iter().for_each(|cells| row(m, cells)));
            });
        },
    );
}

fn head(m: &mut Markup, column: &Column) {
    m.element("th", &[("scope", &"col")], |m| {
        m.text("a", &[("href", &format!("#term-{}", column.term))], column.name);
        if !column.unit.is_empty() {
            m.words(" ").text("small", &[], column.unit);
        }
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
