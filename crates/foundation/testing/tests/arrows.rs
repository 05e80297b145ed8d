//! Dependencies between the modules of each crate: no circle of more than three modules, and no type whose methods are
//! spread over more than three files.
//!
//! The check reads text, not types: it knows paths, `use` and re-exports, and does not see which module a method call
//! leads to. A path counts as a use of the module that defines the item, also through re-exports; a re-export by
//! itself counts as nothing, because a parent that only lists its children does not depend on what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates that still have larger circles, with the modules of each circle.
const KNOWN: &[(&str, &[usize])] = &[];
/// Types whose methods still are in more files, with their number.
const SPREAD: &[(&str, &str, usize)] = &[
    ("live/torus", "node::Node", 8),
    ("pool/pool", "manager::state::State", 9),
    ("sim/protocol", "r2c2::node::Node", 5),
    ("sim/rack", "check::Checker", 6),
    ("sim/sim", "fabric::edm::Edm", 4),
    ("sim/sim", "fabric::packet::Wires", 4),
];
/// Modules that a circle may have, and files that may have methods of a type.
const MOST: usize = 3;

type Module = Vec<String>;
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// A `use`: its path, the name that it binds (`*` for all), and whether others see that name.
#[derive(Debug, PartialEq)]
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// What the text of a module says.
#[derive(Default)]
struct Source {
    imports: Vec<Import>,
    /// Paths of two names and more.
    paths: BTreeSet<Vec<String>>,
    /// All names outside of `use`.
    names: BTreeSet<String>,
    /// Names of the items that stand here.
    items: BTreeSet<String>,
    /// Types that get methods here.
    methods: BTreeSet<Vec<String>>,
}

struct Crate(BTreeMap<Module, Source>);

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let found = found.into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
    found.chain(folders.iter().flat_map(|folder| files(folder))).collect()
}

/// Returns the name of a file's module: `fast/mod.rs` is `fast`, and the root of a crate has no name.
fn module(source: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    let mut parts: Module = path.iter().map(|part| part.to_str().unwrap().into()).collect();
    let root = if source.join("lib.rs").exists() { "lib" } else { "main" };
    parts.pop_if(|last| *last == "mod" || *last == root);
    parts
}

/// Returns the folders of all crates, below the folder that has their groups.
fn crates() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let below = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut crates: Vec<_> = below(&all).iter().flat_map(|group| below(group)).collect();
    crates.retain(|folder| folder.join("src").exists());
    crates.sort();
    crates
}

/// Returns the group and the name of a crate.
fn short(folder: &Path) -> String {
    let names: Vec<_> = folder.iter().rev().take(2).map(|name| name.to_str().unwrap()).collect();
    format!("{}/{}", names[1], names[0])
}

fn read(folder: &Path) -> Crate {
    let source = folder.join("src");
    let text = |file: PathBuf| (module(&source, &file), std::fs::read_to_string(&file).unwrap());
    Crate::new(files(&source).into_iter().map(text))
}

/// Splits a text into names, `::` and single characters. Comments, strings and tests, which are last, are left out.
fn tokens(text: &str) -> Vec<&str> {
    let end = ["#[cfg(test)]\nmod tests", "#[cfg(test)]\npub(crate) mod tests"];
    let mut rest = end.iter().fold(text, |text, end| text.split(end).next().unwrap());
    let mut tokens = Vec::new();
    while let Some(letter) = rest.chars().next() {
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let len = match letter {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("'\"'") || rest.starts_with("'\\'") => 3,
            _ if rest.starts_with("r#\"") => rest[3..].find("\"#").unwrap() + 5,
            '"' => string(rest),
            _ if is_name(letter) => rest.find(|letter| !is_name(letter)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => letter.len_utf8(),
        };
        let is_text = matches!(letter, '"' | '\'') || rest.starts_with("//") || rest.starts_with("r#\"");
        if !is_text && !letter.is_whitespace() {
            tokens.push(&rest[..len]);
        }
        rest = &rest[len..];
    }
    tokens
}

/// Returns the length of the string that a text begins with.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text[1..].find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    end.unwrap() + 2
}

fn is_name(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// Takes the braces of a `use` apart: `a::{b, c::d}` is `a::b` and `a::c::d`. Returns what follows it.
fn import<'a>(
    before: &[String],
    mut rest: &'a [&'a str],
    is_public: bool,
    found: &mut Vec<Import>,
) -> &'a [&'a str] {
    let mut path = before.to_vec();
    loop {
        match rest {
            ["::", after @ ..] => rest = after,
            ["{", after @ ..] => {
                rest = after;
                while rest[0] != "}" {
                    rest = import(&path, rest, is_public, found);
                    rest = rest.strip_prefix(&[","]).unwrap_or(rest);
                }
                return &rest[1..];
            }
            ["as", name, after @ ..] => {
                found.push(Import { path, name: name.to_string(), is_public });
                return after;
            }
            ["*", after @ ..] => {
                found.push(Import { path, name: "*".into(), is_public });
                return after;
            }
            ["self", after @ ..] if !path.is_empty() => rest = after,
            [name, after @ ..] if is_name(name) => {
                path.push(name.to_string());
                rest = after;
            }
            _ => {
                let name = path.last().cloned().unwrap_or_default();
                found.push(Import { path, name, is_public });
                return rest;
            }
        }
    }
}

/// Returns the path at the beginning of these tokens.
fn path(tokens: &[&str]) -> Vec<String> {
    let mut path = vec![tokens[0].to_string()];
    let mut rest = &tokens[1..];
    while let ["::", name, after @ ..] = rest
        && is_name(name)
    {
        path.push(name.to_string());
        rest = after;
    }
    path
}

/// Returns what follows the angle brackets at the beginning of these tokens.
fn after_angles<'a>(mut tokens: &'a [&'a str]) -> &'a [&'a str] {
    let mut depth = 0;
    while let [first, rest @ ..] = tokens {
        match *first {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ if depth == 0 => break,
            "-" if rest.first() == Some(&">") => tokens = rest,
            _ => {}
        }
        tokens = &tokens[1..];
    }
    tokens
}

/// Returns the type that a block after `impl` gives methods, if the block is not of a trait.
fn methods(tokens: &[&str]) -> Option<Vec<String>> {
    let tokens = after_angles(tokens);
    let path = tokens.first().filter(|name| is_name(name)).map(|_| path(tokens))?;
    let rest = after_angles(&tokens[2 * path.len() - 1..]);
    matches!(rest.first(), Some(&"{" | &"where")).then_some(path)
}

impl Source {
    fn new(text: &str) -> Source {
        let (tokens, mut source) = (tokens(text), Source::default());
        let mut at = 0;
        while at < tokens.len() {
            let (token, rest) = (tokens[at], &tokens[at + 1..]);
            let before = if at == 0 { ";" } else { tokens[at - 1] };
            at += 1;
            if token == "use" && matches!(before, ";" | "{" | "}" | "]" | "pub" | ")") {
                let left = import(&[], rest, matches!(before, "pub" | ")"), &mut source.imports);
                at = tokens.len() - left.len();
            } else if is_name(token) && before != "::" {
                source.name(token, before, rest, &tokens[at - 1..]);
            }
        }
        source
    }

    fn name(&mut self, token: &str, before: &str, rest: &[&str], all: &[&str]) {
        if matches!(before, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union") {
            self.items.insert(token.into());
        }
        if token == "impl" {
            self.methods.extend(methods(rest));
        }
        self.names.insert(token.into());
        let path = path(all);
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

/// Returns the modules that a text has for tests alone.
fn of_tests(own: &Module, text: &str) -> Vec<Module> {
    let after =
        text.split("#[cfg(").skip(1).filter(|part| part.starts_with("test") || part.starts_with("all(test"));
    let declared = after.filter_map(|part| {
        let mut lines = part.lines().skip(1);
        let line = lines.find(|line| !line.starts_with('#'))?;
        let name = line.strip_suffix(';')?.rsplit_once("mod ")?.1;
        let file = part.lines().find_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix(".rs\"]"));
        Some((name, file))
    });
    let child = |name: &str| own.iter().cloned().chain([name.to_string()]).collect::<Module>();
    let beside = |name: &str| {
        let parent = own.iter().take(own.len().saturating_sub(1)).cloned();
        parent.chain([name.to_string()]).collect::<Module>()
    };
    declared
        .flat_map(|(name, file)| [Some(child(name)), file.map(child), file.map(beside)])
        .flatten()
        .collect()
}

impl Crate {
    fn new(texts: impl Iterator<Item = (Module, String)>) -> Crate {
        let texts: BTreeMap<Module, String> = texts.collect();
        let tests: Vec<Module> = texts.iter().flat_map(|(own, text)| of_tests(own, text)).collect();
        let is_test = |name: &Module| tests.iter().any(|test| name.starts_with(test));
        let sources = texts.into_iter().filter(|(name, _)| !is_test(name));
        Crate(sources.map(|(name, text)| (name, Source::new(&text))).collect())
    }

    fn child(&self, module: &Module, name: &str) -> Option<Module> {
        let child = module.iter().cloned().chain([name.to_string()]).collect();
        self.0.contains_key(&child).then_some(child)
    }

    /// Returns the module that defines what a path in `own` names, and the item's name, empty for a module itself.
    /// `depth` limits the re-exports that are followed.
    fn resolve(&self, own: &Module, path: &[String], depth: u32) -> Option<(Module, String)> {
        let (first, rest) = path.split_first()?;
        let mut above = own.clone();
        match first.as_str() {
            "crate" => self.walk(Vec::new(), rest, depth),
            "self" => self.walk(above, rest, depth),
            "super" => {
                above.pop();
                self.walk(above, rest, depth)
            }
            name if self.child(own, name).is_some() => self.walk(above, path, depth),
            _ => self.through(own, path, depth),
        }
    }

    fn walk(&self, mut module: Module, path: &[String], depth: u32) -> Option<(Module, String)> {
        for (at, name) in path.iter().enumerate() {
            match name.as_str() {
                "super" => _ = module.pop(),
                name => match self.child(&module, name) {
                    Some(child) => module = child,
                    None if self.imports(&module, name) => return self.through(&module, &path[at..], depth),
                    None => {
                        return Some(self.in_globs(&module, name, depth).unwrap_or((module, name.into())));
                    }
                },
            }
        }
        Some((module, String::new()))
    }

    fn imports(&self, module: &Module, name: &str) -> bool {
        self.0[module].imports.iter().any(|import| import.name == name)
    }

    /// Follows the `use` that binds the first name of a path.
    fn through(&self, module: &Module, path: &[String], depth: u32) -> Option<(Module, String)> {
        let import = self.0.get(module)?.imports.iter().find(|import| import.name == path[0])?;
        let full: Vec<_> = import.path.iter().chain(&path[1..]).cloned().collect();
        self.resolve(module, &full, depth.checked_sub(1)?)
    }

    /// Finds an item that a module has from another by `use …::*`.
    fn in_globs(&self, module: &Module, name: &str, depth: u32) -> Option<(Module, String)> {
        let globs = self.0[module].imports.iter().filter(|import| import.name == "*");
        globs.into_iter().find_map(|glob| {
            let (from, _) = self.resolve(module, &glob.path, depth.checked_sub(1)?)?;
            let has = self.0[&from].items.contains(name) || self.imports(&from, name);
            has.then(|| self.walk(from, &[name.into()], depth - 1)).flatten()
        })
    }

    /// Returns the modules that each module uses.
    fn uses(&self) -> Uses {
        let used = |(own, source): (&Module, &Source)| {
            let imports = source.imports.iter().filter(|it| !it.is_public || source.names.contains(&it.name));
            let imports = imports.filter_map(|import| {
                let (module, item) = self.resolve(own, &import.path, 9)?;
                (import.name == "*" || !item.is_empty()).then_some(module)
            });
            let paths = source.paths.iter().filter_map(|path| Some(self.resolve(own, path, 9)?.0));
            (own.clone(), imports.chain(paths).filter(|module| module != own).collect())
        };
        self.0.iter().map(used).collect()
    }

    /// Returns the types whose methods are in too many files, and the number of these.
    fn spread(&self) -> Vec<(String, usize)> {
        let mut files = BTreeMap::<(Module, String), usize>::new();
        for (own, source) in &self.0 {
            for path in &source.methods {
                let of = self.resolve(own, path, 9).unwrap_or((own.clone(), path.join("::")));
                *files.entry(of).or_default() += 1;
            }
        }
        let many = files.into_iter().filter(|(_, files)| *files > MOST);
        many.map(|((module, name), files)| (format!("{}::{name}", module.join("::")), files)).collect()
    }
}

/// Returns the modules that `start` uses, and those that these use, and so on.
fn reach<'a>(uses: &'a Uses, start: &'a Module) -> BTreeSet<&'a Module> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(module) = open.pop() {
        open.extend(uses[module].iter().filter(|used| found.insert(*used)));
    }
    found
}

/// Returns the circles that have too many modules, the largest first.
fn circles(uses: &Uses) -> Vec<BTreeSet<&Module>> {
    let reached: BTreeMap<_, _> = uses.keys().map(|module| (module, reach(uses, module))).collect();
    let circle =
        |module| reached[module].iter().filter(|other| reached[*other].contains(module)).copied().collect();
    let circles: BTreeSet<BTreeSet<&Module>> = uses.keys().map(circle).collect();
    let mut circles: Vec<_> = circles.into_iter().filter(|circle| circle.len() > MOST).collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// Lists a circle: a line for each module, with those of the circle that it uses.
fn shown(uses: &Uses, circle: &BTreeSet<&Module>) -> String {
    let name = |module: &Module| if module.is_empty() { "(root)".into() } else { module.join("::") };
    let line = |module: &&Module| {
        let used = uses[*module].iter().filter(|used| circle.contains(used)).map(name);
        format!("  {} -> {}\n", name(module), used.collect::<Vec<_>>().join(", "))
    };
    circle.iter().map(line).collect()
}

#[test]
fn no_circle_has_more_than_three_modules() {
    let (mut found, mut text) = (Vec::new(), String::new());
    for folder in crates() {
        let uses = read(&folder).uses();
        let circles = circles(&uses);
        for circle in &circles {
            text += &format!(
                "{}: {} of {} modules\n{}",
                short(&folder),
                circle.len(),
                uses.len(),
                shown(&uses, circle)
            );
        }
        if !circles.is_empty() {
            found.push((short(&folder), circles.iter().map(|circle| circle.len()).collect::<Vec<_>>()));
        }
    }
    let known: Vec<_> = KNOWN.iter().map(|(name, sizes)| (name.to_string(), sizes.to_vec())).collect();
    assert_eq!(found, known, "{text}");
}

#[test]
fn no_type_has_methods_in_more_than_three_files() {
    let of = |folder: PathBuf| {
        let spread = read(&folder).spread().into_iter();
        spread.map(|(name, files)| (short(&folder), name, files)).collect::<Vec<_>>()
    };
    let found: Vec<_> = crates().into_iter().flat_map(of).collect();
    let known: Vec<_> =
        SPREAD.iter().map(|(at, name, files)| (at.to_string(), name.to_string(), *files)).collect();
    assert_eq!(found, known, "types whose methods are in more than {MOST} files");
}

#[test]
fn crates_and_their_uses_are_found() {
    let crates = crates();
    let uses =
        |name: &str| crates.iter().find(|folder| short(folder) == name).map(|folder| read(folder).uses());
    for (name, least) in [("sim/sim", 60), ("paging/pager", 30), ("pool/socket", 20)] {
        let uses = uses(name).unwrap();
        let arrows: usize = uses.values().map(BTreeSet::len).sum();
        assert!(uses.len() >= least && arrows >= least, "{name}: {} modules, {arrows} uses", uses.len());
    }
}

fn sample(files: &[(&str, &str)]) -> Crate {
    let name = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_string).collect();
    Crate::new(files.iter().map(|(path, text)| (name(path), text.to_string())))
}

#[test]
fn paths_lead_through_re_exports_to_the_module_that_defines() {
    let sample = sample(&[
        ("", "pub mod low;\nmod high;\npub use low::Thing;\npub(crate) use high::{run, other as named};"),
        ("low", "mod leaf;\npub use self::leaf::*;\npub use leaf::Used;\nfn f(_: Used) {}"),
        (
            "low::leaf",
            "pub struct Thing;\npub struct Used;\n// crate::high\nconst A: &str = \"crate::high::run\";",
        ),
        (
            "high",
            "use crate::{Thing, low};\nuse std::fmt;\nfn run() { low::leaf::g(); crate::named() }\n#[cfg(test)]\nmod deep;",
        ),
        ("high::deep", "use crate::low::Thing;"),
        ("one", "#[cfg(test)]\nmod tests { use crate::high; }\n"),
    ]);
    let uses = sample.uses();
    let used = |name: &str| {
        let name: Module = name.split("::").filter(|part| !part.is_empty()).map(str::to_string).collect();
        uses[&name].iter().map(|module| module.join("::")).collect::<Vec<_>>()
    };
    assert_eq!(used(""), [""; 0]);
    assert_eq!(used("low"), ["low::leaf"]);
    assert_eq!(used("low::leaf"), [""; 0]);
    assert_eq!(used("high"), ["low::leaf"]);
    assert_eq!(used("one"), [""; 0]);
    assert!(!uses.contains_key(&vec!["high".into(), "deep".into()]));
}

#[test]
fn a_circle_is_found_through_the_root() {
    let files = [
        ("", "mod a;\nmod b;\nmod c;\nmod d;\npub use a::A;"),
        ("a", "pub struct A(crate::b::B);"),
        ("b", "use crate::c::{self, deep};\npub struct B(c::C);"),
        ("c", "pub struct C(super::d::D);"),
        ("d", "pub struct D(Box<super::A>);"),
    ];
    let uses = sample(&files).uses();
    let circles = circles(&uses);
    assert_eq!(circles.iter().map(BTreeSet::len).collect::<Vec<_>>(), [4]);
    assert_eq!(shown(&uses, &circles[0]).lines().next(), Some("  a -> b"));
}

#[test]
fn methods_are_counted_by_file() {
    let methods = "use super::T;\nimpl<K: Fn() -> u32> T<K> { }\nimpl<K> Clone for T<K> {}";
    let files = [("", "struct T<K>(K);\nimpl<K> T<K> where K: Copy {}"), ("a", methods), ("b", methods)];
    assert_eq!(sample(&files).spread(), []);
    let more = files.into_iter().chain([("c", "impl crate::T<u8> {}")]).collect::<Vec<_>>();
    assert_eq!(sample(&more).spread(), [("::T".to_string(), 4)]);
}
