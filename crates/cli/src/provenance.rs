//! Build of this command, as `build.rs` found it.

use std::sync::LazyLock;
use unrack_record::Build;

/// Returns the build.
pub(crate) fn build() -> Build {
    let commit = Some(env!("UNRACK_COMMIT")).filter(|commit| !commit.is_empty());
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: commit.map(Into::into),
        tree_changed: env!("UNRACK_TREE_CHANGED").parse().ok(),
        sources: env!("UNRACK_SOURCES").into(),
    }
}

/// Returns the text that `--version` prints after the command's name.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let build = build();
        format!("{}\ncommit   {}\nsources  {}", build.version, build.commit_text(), build.sources)
    });
    &VERSION
}
