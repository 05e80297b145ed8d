//! Results of requests to a memory node.

/// A completed request, and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCompletion {
    /// The node has the page; its slot belongs to the caller again.
    Stored { id: u32 },
    /// The page's slot has the contents that were stored last.
    Loaded { id: u32 },
    /// The node has no room for the page. Its slot belongs to the caller again and has the only copy.
    Refused { id: u32 },
}

/// Reason why a request was not even queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The queue is full: the caller must make progress first.
    Full,
    /// The node does not have this page.
    NotHeld,
    /// The page id is larger than the node supports.
    BadId,
}

/// Kind of answer that the node owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// Pages to be loaded.
    Pages,
    /// Room for pages to be stored.
    Room,
}
