//! Modules of a kernel: where they are, and in which order they are loaded.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use unrack_live::Error;

/// Modules of one kernel, as `depmod` lists them.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    folder: PathBuf,
    /// For each module: its path in the folder, and the paths of the modules that must be loaded before it, nearest first.
    loadable: BTreeMap<String, (PathBuf, Vec<PathBuf>)>,
    built_in: HashSet<String>,
}

impl Modules {
    /// Reads the lists in a folder such as `/lib/modules/6.1.0`.
    ///
    /// # Errors
    /// [`Error::File`] if `modules.dep` or `modules.builtin` cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Modules, Error> {
        let text = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|why| Error::File { path, why })
        };
        Ok(Modules::parse(folder, &text("modules.dep")?, &text("modules.builtin")?))
    }

    /// Parses the texts of `modules.dep` and `modules.builtin`. Invalid lines are skipped.
    fn parse(folder: &Path, dependencies: &str, built_in: &str) -> Modules {
        let line = |line: &str| {
            let (path, needs) = line.split_once(':')?;
            Some((name(path)?, (path.into(), needs.split_whitespace().map(PathBuf::from).collect())))
        };
        Modules {
            folder: folder.into(),
            loadable: dependencies.lines().filter_map(line).collect(),
            built_in: built_in.lines().filter_map(name).collect(),
        }
    }

    /// Returns the files of the given modules and of all modules that they need, in the order in which they must be loaded. Modules that
    /// are built into the kernel are left out.
    ///
    /// # Errors
    /// [`Error::Lacking`] if the kernel does not have one of the modules.
    pub(crate) fn in_order(&self, names: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let mut order: Vec<PathBuf> = Vec::new();
        for name in names {
            if self.built_in.contains(*name) {
                continue;
            }
            let (path, needs) = self.loadable.get(*name).ok_or_else(|| {
                let folder = self.folder.display();
                Error::Lacking(format!(
                    "the kernel's modules in {folder} lack `{name}`: install another kernel"
                ))
            })?;
            // Load the last module first, because it needs none of the others.
            for path in needs.iter().rev().chain([path]) {
                let path = self.folder.join(path);
                if !order.contains(&path) {
                    order.push(path);
                }
            }
        }
        Ok(order)
    }
}

/// Returns the name of the module in a file such as `kernel/fs/9p/9p.ko.xz`. The kernel treats `-` as `_`.
fn name(path: &str) -> Option<String> {
    let file = path.trim().rsplit('/').next()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/a.ko: kernel/b.ko.xz kernel/deep/c-d.ko
kernel/b.ko.xz: kernel/deep/c-d.ko
kernel/deep/c-d.ko:
not a line of it
";

    fn modules() -> Modules {
        Modules::parse(Path::new("/m"), DEPENDENCIES, "kernel/e.ko\nkernel/f-g.ko\n")
    }

    #[test]
    fn what_a_module_needs_comes_before_it_and_once() {
        let order = modules().in_order(&["a", "c_d", "e", "f_g", "b"]).unwrap();
        let expected = ["/m/kernel/deep/c-d.ko", "/m/kernel/b.ko.xz", "/m/kernel/a.ko"];
        assert_eq!(order, expected.map(PathBuf::from));
    }

    #[test]
    fn a_module_that_is_not_there_is_named() {
        let error = modules().in_order(&["a", "zfs"]).unwrap_err();
        assert!(matches!(&error, Error::Lacking(text) if text.contains("lack `zfs`")), "{error}");
    }
}
