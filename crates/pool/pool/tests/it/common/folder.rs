//! A folder of a test's own.

use std::path::PathBuf;

/// Folder that is removed when dropped.
pub(crate) struct Folder(unrack_testing::TestFolder);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(unrack_testing::TestFolder::new("pool"))
    }

    /// Makes a folder whose files are memory.
    pub(crate) fn in_memory() -> Folder {
        Folder(unrack_testing::TestFolder::in_memory("pool"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
