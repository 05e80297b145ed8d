//! Passes the identity of the sources to the crate, so that results contain it and kept results can be matched to their build:
//! `UNRACK_SOURCES` (a hash of all sources), `UNRACK_MEASURING` (a hash of those sources that can change a measurement), `UNRACK_COMMIT`
//! and `UNRACK_TREE_CHANGED` (both empty outside a repository).
//!
//! If a source changes, this crate and the crates that depend on it are compiled again, but no others. Neither git nor a repository is
//! required.

use std::path::{Path, PathBuf};
use std::process::Command;
use unrack_basis::Fnv1a;

fn main() {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../../..").canonicalize().expect("the workspace is above its crates");
    let (parts, commit) = (parts(&root), Commit::read(&root));
    for watched in parts.iter().chain(commit.iter().flat_map(|commit| &commit.files)) {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rustc-env=UNRACK_SOURCES={}", hash(&root, &parts));
    println!("cargo::rustc-env=UNRACK_MEASURING={}", hash(&root, &measuring(&root, &parts)));
    let (commit, changed) =
        commit.map_or_else(Default::default, |commit| (commit.id, commit.is_changed.to_string()));
    println!("cargo::rustc-env=UNRACK_COMMIT={commit}");
    println!("cargo::rustc-env=UNRACK_TREE_CHANGED={changed}");
}

/// Returns the compiled files and folders of the workspace, relative to its root: the crates without their tests and benchmarks, and the
/// texts that they include.
pub(crate) fn parts(root: &Path) -> Vec<PathBuf> {
    let texts = ["studies", "examples/torus-4x4.toml"];
    let mut parts: Vec<PathBuf> =
        ["Cargo.toml", "Cargo.lock"].iter().chain(&texts).map(PathBuf::from).collect();
    let groups = names(root, Path::new("crates"));
    for of in groups.iter().flat_map(|group| names(root, group)) {
        let is_compiled = |part: &PathBuf| !["tests", "benches"].iter().any(|name| part.ends_with(name));
        parts.extend(names(root, &of).into_iter().filter(is_compiled));
    }
    parts.retain(|part| root.join(part).exists());
    parts
}

/// Returns those `parts` that can change a measurement: all parts except the texts and pictures of studies, and in addition the programs
/// that studies measure.
pub(crate) fn measuring(root: &Path, parts: &[PathBuf]) -> Vec<PathBuf> {
    let is_text = |part: &&PathBuf| {
        ["studies", "crates/app/study", "crates/app/report"].iter().any(|text| part.starts_with(text))
    };
    let studies = names(root, Path::new("studies"));
    let programs = studies.iter().map(|study| study.join("programs"));
    parts
        .iter()
        .filter(|part| !is_text(part))
        .cloned()
        .chain(programs.filter(|programs| root.join(programs).is_dir()))
        .collect()
}

/// Returns a hash of the names and contents of all files in `parts`.
pub(crate) fn hash(root: &Path, parts: &[PathBuf]) -> String {
    let whole = parts.iter().fold(Fnv1a::EMPTY, |hash, part| with_all(hash, root, part));
    format!("{:016x}", whole.value())
}

/// Hashes the name and contents of a file, or of all files in a folder.
fn with_all(hash: Fnv1a, root: &Path, part: &Path) -> Fnv1a {
    if root.join(part).is_dir() {
        return names(root, part).iter().fold(hash, |hash, inner| with_all(hash, root, inner));
    }
    let contents = std::fs::read(root.join(part)).unwrap_or_default();
    // Lengths are hashed too, so that bytes cannot move between the end of one file and the beginning of the next without changing the
    // hash.
    [part.to_string_lossy().as_bytes(), &contents]
        .into_iter()
        .fold(hash, |hash, bytes| hash.with(&(bytes.len() as u64).to_le_bytes()).with(bytes))
}

/// Returns the sorted paths of the entries of a folder, as `folder/name`. Hidden files are left out, because editors create them.
fn names(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let names =
        entries.map(|entry| entry.file_name()).filter(|name| !name.to_string_lossy().starts_with('.'));
    let mut paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    paths.sort();
    paths
}

/// The commit that is checked out.
pub(crate) struct Commit {
    pub id: String,
    /// Whether the compiled files differ from the commit.
    pub is_changed: bool,
    /// Files that change when another commit is checked out.
    files: Vec<PathBuf>,
}

impl Commit {
    /// Finds the commit. Returns `None` without git, outside a repository, or if the tree is inside a repository that does not track it, as
    /// can happen with an unpacked archive.
    pub(crate) fn read(root: &Path) -> Option<Commit> {
        git(root, &["ls-files", "--error-unmatch", "crates/app/cli/Cargo.toml"])?;
        let id = git(root, &["rev-parse", "HEAD"])?;
        let compiled: Vec<String> = parts(root).iter().map(|part| part.display().to_string()).collect();
        let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
        status.extend(compiled.iter().map(String::as_str));
        let is_changed = !git(root, &status)?.is_empty();
        Some(Commit { id, is_changed, files: head_files(root) })
    }
}

/// Returns the files to watch. This is the log of HEAD, which grows with every commit and checkout; if there is no log, HEAD and all
/// branches.
fn head_files(root: &Path) -> Vec<PathBuf> {
    let path = |name| Some(PathBuf::from(git(root, &["rev-parse", "--git-path", name])?));
    let found = |name| path(name).filter(|path| root.join(path).exists());
    match found("logs/HEAD") {
        Some(log) => vec![log],
        None => ["HEAD", "refs/heads", "packed-refs"].into_iter().filter_map(found).collect(),
    }
}

/// Returns git's output without the final newline, or `None` if git fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(root).args(arguments);
    // Git sets these variables for its hooks. They would name another repository or index.
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_string())
}
