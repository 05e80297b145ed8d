//! Remote memory inside a program: page table, reclaim, link, backends, the pager thread.
