//! Arrows between the modules of this crate and of those beside it: nobody is used by what it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Module = Vec<String>;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    found.into_iter().chain(folders.iter().flat_map(|folder| files(folder))).collect()
}

/// Returns the name of a file's module: `fast/mod.rs` is `fast`, and `lib.rs` has no name.
fn module(source: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    let mut parts: Module = path.iter().map(|part| part.to_str().unwrap().into()).collect();
    parts.pop_if(|last| *last == "mod" || *last == "lib");
    parts
}

/// Returns the code without comments and tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Takes the braces of a `use` apart: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn spread(before: &str, text: &str, paths: &mut Vec<String>) {
    let Some(open) = text.find('{') else {
        return paths.push(format!("{before}{}", text.trim().split(" as ").next().unwrap_or_default()));
    };
    let before = format!("{before}{}", text[..open].trim());
    let (mut depth, mut start) = (0, open + 1);
    for (at, letter) in text.char_indices().skip(open) {
        depth += (letter == '{') as i32 - (letter == '}') as i32;
        if letter == ',' && depth == 1 || letter == '}' && depth == 0 {
            spread(&before, text[start..at].trim(), paths);
            start = at + 1;
        }
    }
}

/// Returns all paths of a text that may name modules, of which `children` are its own.
fn paths(code: &str, children: &[String]) -> Vec<String> {
    let mut paths = Vec::new();
    for part in code.split(";").filter_map(|part| part.rsplit_once("use ").map(|(_, path)| path)) {
        spread("", part, &mut paths);
    }
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let names = code.split(|letter| !is_name(letter));
    // Before a brace stands the beginning of a `use`, which was taken apart above.
    paths.extend(names.filter(|name| name.contains("::") && !name.ends_with(':')).map(str::to_string));
    for path in &mut paths {
        if children.iter().any(|child| path.split("::").next() == Some(child)) {
            path.insert_str(0, "self::");
        }
    }
    paths
}

/// Returns the module that a path in `own` names, if it is of this crate.
fn resolve(own: &Module, path: &str, modules: &BTreeMap<Module, String>) -> Option<Module> {
    let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut base = own.clone();
    match parts.remove(0) {
        "crate" => base.clear(),
        "super" => _ = base.pop(),
        "self" => {}
        _ => return None,
    }
    for part in parts {
        match part {
            "super" => _ = base.pop(),
            part => base.push(part.into()),
        }
    }
    (0..=base.len()).rev().map(|len| base[..len].to_vec()).find(|name| modules.contains_key(name))
}

fn uses(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let read = |file: PathBuf| (module(source, &file), code(&std::fs::read_to_string(&file).unwrap()));
    let modules: BTreeMap<Module, String> = files(source).into_iter().map(read).collect();
    let used = |(own, code): (&Module, &String)| {
        let is_child = |name: &&Module| name.len() == own.len() + 1 && name.starts_with(own);
        let children: Vec<String> =
            modules.keys().filter(is_child).flat_map(|name| name.last().cloned()).collect();
        let used = paths(code, &children).into_iter().filter_map(|path| resolve(own, &path, &modules));
        (own.clone(), used.filter(|name| name != own).collect())
    };
    modules.iter().map(used).collect()
}

/// Returns the modules that are left when those that use nothing of the rest are taken away, again and again; and
/// those that nothing of the rest uses.
fn knots(mut uses: BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    loop {
        let before = uses.len();
        let rest: BTreeSet<Module> = uses.keys().cloned().collect();
        uses.retain(|_, used| !used.is_disjoint(&rest));
        let used: BTreeSet<Module> = uses.values().flatten().cloned().collect();
        uses.retain(|name, _| used.contains(name));
        if uses.len() == before {
            return uses.keys().map(|name| name.join("::")).collect();
        }
    }
}

#[test]
fn uses_go_one_way() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, least) in [("pager", 60), ("node", 10), ("wire", 4)] {
        let uses = uses(&crates.join(name).join("src"));
        let arrows: usize = uses.values().map(BTreeSet::len).sum();
        assert!(uses.len() >= least && arrows >= least, "{name}: {} modules, {arrows} uses", uses.len());
        assert_eq!(knots(uses), [""; 0], "modules of {name} that use each other");
    }
}

#[test]
fn a_knot_is_found_through_braces_paths_and_children() {
    let folder = unrack_testing::Folder::new("arrows");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    std::fs::create_dir(folder.join("low")).unwrap();
    write("lib.rs", "mod high;\nmod low;\nmod one;\npub use high::run;\n");
    write("high.rs", "use crate::{low::{leaf, Thing}, one};\n");
    write("one.rs", "// crate::high\nfn f() { crate::low::leaf::g() }\n");
    write("low/mod.rs", "mod leaf;\nfn h() { leaf::g() }\n");
    write("low/leaf.rs", "pub fn g() {}\n#[cfg(test)]\nmod tests { use crate::high; }\n");
    assert_eq!(knots(uses(&folder)), [""; 0]);
    write("low/leaf.rs", "use super::super::one;\n");
    assert_eq!(knots(uses(&folder)), ["low::leaf", "one"]);
}
