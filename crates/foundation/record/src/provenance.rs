//! The program and the machine that made a result. They are stored apart from the result, so that repeated runs agree in everything else.

use serde::{Deserialize, Serialize};

use crate::HostRow;

/// Identity of a build of Unrack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub version: String,
    /// Commit of the built source tree; `None` if the tree was not in a repository.
    pub commit: Option<String>,
    /// True if the compiled sources differed from the commit; `None` without a commit.
    pub tree_changed: Option<bool>,
    /// Hash of all compiled sources, 16 hexadecimal digits. Builds with the same hash give the same results, so the keys of kept results
    /// contain it. Empty in results of versions that had no such hash.
    #[serde(default)]
    pub sources: String,
}

impl Build {
    /// Returns the commit in readable form, and whether the compiled sources differed from it.
    pub fn commit_text(&self) -> String {
        match (&self.commit, self.tree_changed) {
            (Some(commit), Some(true)) => format!("{commit}, with changes"),
            (Some(commit), _) => commit.clone(),
            (None, _) => "not built from a repository".into(),
        }
    }
}

#[cfg(test)]
impl Build {
    /// Returns a build without a commit.
    pub fn for_tests() -> Build {
        let version = env!("CARGO_PKG_VERSION").into();
        Build { version, commit: None, tree_changed: None, sources: "0123456789abcdef".into() }
    }
}

/// The `machine` part of a result's JSON, in which repeated runs may differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub build: Build,
    pub host: HostRow,
    /// Wall-clock time in seconds: of the simulation alone if there was one, otherwise of the whole command.
    pub wall_s: f64,
    /// Speed of a simulation in packet hops per second; absent in other results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_hops_per_s: Option<f64>,
}
