//! Identity of this build, as `build.rs` determined it. Results contain it, and kept results are valid only for it.
//!
//! This is a separate crate because of its build script, which runs whenever any source changes: only the crates that depend on this one
//! must then be compiled again. Both the command and the Python package depend on it.
#![forbid(unsafe_code)]

use std::sync::LazyLock;
use unrack_record::Build;

/// Hash of the sources that can change a measurement, 16 hexadecimal digits.
pub const MEASURING: &str = env!("UNRACK_MEASURING");

/// Returns the identity of this build.
pub fn build() -> Build {
    let commit = Some(env!("UNRACK_COMMIT")).filter(|commit| !commit.is_empty());
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: commit.map(Into::into),
        tree_changed: env!("UNRACK_TREE_CHANGED").parse().ok(),
        sources: env!("UNRACK_SOURCES").into(),
    }
}

/// Returns the text that `--version` prints after the name of the command.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let build = build();
        format!("{}\ncommit   {}\nsources  {}", build.version, build.commit_text(), build.sources)
    });
    &VERSION
}
