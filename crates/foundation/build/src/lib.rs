//! Identity of this build, as `build.rs` found it: results name it, and kept results are known by it.
//!
//! It is a crate because of its build script, which runs when any source changes: only the crates above it are compiled again
//! then. The command and the Python package are both built with it.
#![forbid(unsafe_code)]

use std::sync::LazyLock;
use unrack_record::Build;

/// Hash of the sources that can change a measurement, 16 hexadecimal digits.
pub const MEASURING: &str = env!("UNRACK_MEASURING");

/// Returns the build.
pub fn build() -> Build {
    let commit = Some(env!("UNRACK_COMMIT")).filter(|commit| !commit.is_empty());
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: commit.map(Into::into),
        tree_changed: env!("UNRACK_TREE_CHANGED").parse().ok(),
        sources: env!("UNRACK_SOURCES").into(),
    }
}

/// Returns the text that `--version` prints after the command's name.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let build = build();
        format!("{}\ncommit   {}\nsources  {}", build.version, build.commit_text(), build.sources)
    });
    &VERSION
}
