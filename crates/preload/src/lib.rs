//! The preload library: puts the pager into an unmodified program.
