//! Arrays of many items of which most are never used. Items are allocated when they are first changed.
//!
//! This matters because the unloaded time of a message is found by simulating it in a separate network, of which the
//! message uses only a small part.

use std::ops::{Index, IndexMut};

/// Sparse array that allocates `PAGE` items at a time.
pub(crate) struct Sparse<T, const PAGE: usize> {
    /// Pages of items; a page is empty until one of its items is changed.
    pages: Vec<Vec<T>>,
    blank: T,
    len: usize,
}

impl<T: Clone, const PAGE: usize> Sparse<T, PAGE> {
    /// Creates an array of `len` copies of `blank`.
    pub(super) fn new(len: u32, blank: T) -> Self {
        let len = len as usize;
        Sparse { pages: (0..len.div_ceil(PAGE)).map(|_| Vec::new()).collect(), blank, len }
    }

    /// Returns whether the array has no items.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of items, allocated or not.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the items that are allocated. All other items are blank.
    pub(super) fn made(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }
}

impl<T: Clone, const PAGE: usize> Index<usize> for Sparse<T, PAGE> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        debug_assert!(number < self.len);
        self.pages[number / PAGE].get(number % PAGE).unwrap_or(&self.blank)
    }
}

impl<T: Clone, const PAGE: usize> IndexMut<usize> for Sparse<T, PAGE> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        debug_assert!(number < self.len);
        let page = &mut self.pages[number / PAGE];
        if page.is_empty() {
            page.resize(PAGE, self.blank.clone());
        }
        &mut page[number % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_made_is_as_it_was() {
        let mut sparse = Sparse::<u32, 16>::new(100, 7);
        sparse[40] += 1;
        assert!((0..100).all(|n| sparse[n] == if n == 40 { 8 } else { 7 }));
        assert_eq!(sparse.made().count(), 16);
    }
}
