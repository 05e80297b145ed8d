//! Loads files and overrides into one tree. The loader follows `extends`, and lays the overrides over the result.

use std::path::{Path, PathBuf};

use crate::overrides::{self, Overrides};
use crate::problem::ScenarioProblem;
use crate::read::Reader;
use crate::source::{Origin, Source, SourceRange};
use crate::tree::{Node, Value, overlay};

/// Largest scenario in bytes, because a longer file was probably named by mistake.
pub const MOST_BYTES: u64 = 1 << 20;

#[derive(Default)]
pub(crate) struct Loader {
    pub sources: Vec<Source>,
    pub problems: Vec<ScenarioProblem>,
    /// Chain of files that extend each other, down to the file that is being read.
    open: Vec<PathBuf>,
}

impl Loader {
    /// Reads a scenario file and every file that it extends.
    pub(crate) fn file(&mut self, path: &Path) -> Option<Node> {
        self.read(path, None)
    }

    /// Reads a text and every file that it extends. File names are relative to `folder`.
    pub(crate) fn text(&mut self, name: &str, folder: &Path, text: &str) -> Option<Node> {
        let origin = Origin::File { name: name.into(), folder: folder.into() };
        self.sources.push(Source { origin, text: text.into() });
        let source = self.sources.len() - 1;
        let root = Reader { source, offset: 0, problems: &mut self.problems }.document(text)?;
        self.extended(root, folder)
    }

    /// Returns `root` with the overrides on top. The overrides are first merged with each other, so that their order
    /// does not matter if one of them changes the kind of a table.
    pub(crate) fn overridden(&mut self, root: Node, overrides: &Overrides) -> Node {
        let mut all: Option<Node> = None;
        for text in overrides.texts() {
            self.sources.push(Source { origin: Origin::Override, text: text.clone() });
            if let Some(node) = overrides::parse(self.sources.len() - 1, text, &mut self.problems) {
                all = Some(match all {
                    Some(before) => overlay(before, node),
                    None => node,
                });
            }
        }
        match all {
            Some(all) => overlay(root, all),
            None => root,
        }
    }

    /// Reads a file. Its name is given by the user, or by an `extends` at the place `asked_at`.
    fn read(&mut self, path: &Path, asked_at: Option<SourceRange>) -> Option<Node> {
        match self.open_file(path) {
            Ok(text) => {
                let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
                let root = self.text(&path.display().to_string(), &folder, &text);
                self.open.pop();
                root
            }
            Err(message) => {
                self.problems.push(ScenarioProblem { message, place: asked_at });
                None
            }
        }
    }

    fn open_file(&mut self, path: &Path) -> Result<String, String> {
        let shown = path.display();
        let cannot = |why: std::io::Error| format!("cannot read {shown}: {why}");
        let real = path.canonicalize().map_err(cannot)?;
        if self.open.contains(&real) {
            return Err(format!("{shown} extends itself"));
        }
        let text = unrack_input::read_text(path, MOST_BYTES).map_err(|why| why.to_string())?;
        self.open.push(real);
        Ok(text)
    }

    /// Returns `root` laid over the file that it extends; if it extends none, returns `root`.
    fn extended(&mut self, root: Node, folder: &Path) -> Option<Node> {
        let Some(extends) = root.get("extends") else { return Some(root) };
        let Value::Text(file) = &extends.value else {
            let message = format!("`extends` needs a file name, not {}", extends.describe());
            self.problems.push(ScenarioProblem::at(extends.place, message));
            return None;
        };
        let base = self.read(&folder.join(file), Some(extends.place))?;
        Some(overlay(base, root.without("extends")))
    }
}
