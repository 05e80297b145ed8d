//! Fates of requests.

/// Completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCompletion {
    /// The node holds the page; its slot belongs to the caller again.
    Stored { id: u32 },
    /// The page's contents, as last stored, are in its slot.
    Loaded { id: u32 },
    /// The node has no room for the page; its slot belongs to the caller again and is its only copy.
    Refused { id: u32 },
}

/// Reason why a request is not even queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The queue is full: make progress first.
    Full,
    /// The node holds no such page.
    NotHeld,
    /// The id is beyond what the node can name.
    BadId,
}

/// Kind of what the node owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// Pages to be loaded.
    Pages,
    /// Room for pages to be stored.
    Room,
}
