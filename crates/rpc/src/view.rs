//! Messages in place: what the peer wrote, or may read, without a copy in between.
//!
//! A peer has the same bytes mapped. One that keeps to the protocol leaves them alone while they are ours; one that
//! does not can change them under our eyes. A view therefore copies out what is read, a value or a range at a
//! time, so that what was checked is what is used. Slices are there too, for those who trust the peer that far.

use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;

/// Bytes in shared memory that this side may read. Lives no longer than the message that it is of.
#[derive(Clone, Copy)]
pub struct View<'a> {
    base: *const u8,
    length: usize,
    message: PhantomData<&'a [u8]>,
}

/// Bytes in shared memory that this side may write.
pub struct ViewMut<'a> {
    base: *mut u8,
    length: usize,
    message: PhantomData<&'a mut [u8]>,
}

/// A range that is not inside of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {at} are not in a message of {length}")]
pub struct OutOfRange {
    pub at: usize,
    pub bytes: usize,
    pub length: usize,
}

fn check(at: usize, bytes: usize, length: usize) -> Result<(), OutOfRange> {
    match at.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        _ => Err(OutOfRange { at, bytes, length }),
    }
}

impl<'a> View<'a> {
    /// # Safety
    /// The bytes are mapped for as long as `'a`.
    pub(crate) unsafe fn new(base: *const u8, length: usize) -> Self {
        View { base, length, message: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A value at a byte offset, which need not be aligned.
    ///
    /// # Errors
    /// If it is not inside.
    #[inline]
    pub fn get<T: AnyBitPattern>(&self, at: usize) -> Result<T, OutOfRange> {
        check(at, size_of::<T>(), self.length)?;
        // SAFETY: inside, mapped; any bytes are a value, even those of a peer that writes at the same time.
        Ok(unsafe { self.base.add(at).cast::<T>().read_unaligned() })
    }

    /// Part of the message.
    ///
    /// # Errors
    /// If it is not inside.
    pub fn part(&self, at: usize, bytes: usize) -> Result<View<'a>, OutOfRange> {
        check(at, bytes, self.length)?;
        // SAFETY: inside of this view.
        Ok(unsafe { View::new(self.base.add(at), bytes) })
    }

    /// Copies the message into a slice of the same length.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.length, "as many bytes as the message has");
        // SAFETY: both are as long, and a slice of ours is not in the message.
        unsafe { std::ptr::copy_nonoverlapping(self.base, to.as_mut_ptr(), self.length) };
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.copy_to(&mut bytes);
        bytes
    }

    /// Where the message begins: aligned to a cache line, unless it is a part.
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    /// The bytes themselves.
    ///
    /// # Safety
    /// The peer keeps to the protocol: it writes nothing to the message while `'a` lasts.
    pub unsafe fn as_slice(&self) -> &'a [u8] {
        // SAFETY: mapped; that nobody writes is what the caller says.
        unsafe { std::slice::from_raw_parts(self.base, self.length) }
    }
}

impl<'a> ViewMut<'a> {
    /// # Safety
    /// The bytes are mapped writable for as long as `'a`, and no other view of this process is of them.
    pub(crate) unsafe fn new(base: *mut u8, length: usize) -> Self {
        ViewMut { base, length, message: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Writes a value at a byte offset, which need not be aligned.
    ///
    /// # Errors
    /// If it would not be inside.
    #[inline]
    pub fn put<T: NoUninit>(&mut self, at: usize, value: T) -> Result<(), OutOfRange> {
        check(at, size_of::<T>(), self.length)?;
        // SAFETY: inside, mapped writable.
        unsafe { self.base.add(at).cast::<T>().write_unaligned(value) };
        Ok(())
    }

    /// Copies a slice of the same length into the message.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_from(&mut self, from: &[u8]) {
        assert_eq!(from.len(), self.length, "as many bytes as the message has");
        // SAFETY: both are as long, and a slice of ours is not in the message.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.base, self.length) };
    }

    /// Part of the message.
    ///
    /// # Errors
    /// If it is not inside.
    pub fn part(&mut self, at: usize, bytes: usize) -> Result<ViewMut<'_>, OutOfRange> {
        check(at, bytes, self.length)?;
        // SAFETY: inside of this view, which is borrowed for as long.
        Ok(unsafe { ViewMut::new(self.base.add(at), bytes) })
    }

    pub fn as_view(&self) -> View<'_> {
        // SAFETY: the same bytes, borrowed from this view.
        unsafe { View::new(self.base, self.length) }
    }

    /// Where the message begins: aligned to a cache line, unless it is a part.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.base
    }

    /// The bytes themselves.
    ///
    /// # Safety
    /// The peer keeps to the protocol: it neither writes to the message nor minds what it reads while the slice
    /// is in use.
    pub unsafe fn into_slice(self) -> &'a mut [u8] {
        // SAFETY: mapped, and the view is used up; that nobody else writes is what the caller says.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.length) }
    }
}

// SAFETY: shared memory is reached from any thread alike; borrows are as those of slices.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}
// SAFETY: as above.
unsafe impl Send for ViewMut<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_written_wherever_they_are() {
        let mut bytes = [0u8; 40];
        // SAFETY: the array outlives the view, and nobody else has it.
        let mut view = unsafe { ViewMut::new(bytes.as_mut_ptr(), bytes.len()) };
        view.put(3, 0x0102_0304_0506_0708u64).unwrap();
        view.put(30, [1.5f32, -2.5]).unwrap();
        assert_eq!(view.as_view().get::<u64>(3).unwrap(), 0x0102_0304_0506_0708);
        assert_eq!(view.as_view().get::<[f32; 2]>(30).unwrap(), [1.5, -2.5]);
        view.part(1, 2).unwrap().copy_from(&[7, 8]);
        assert_eq!(view.as_view().part(1, 2).unwrap().to_vec(), [7, 8]);
    }

    #[test]
    fn nothing_outside_is_reached() {
        let mut bytes = [0u8; 16];
        // SAFETY: as above.
        let mut view = unsafe { ViewMut::new(bytes.as_mut_ptr(), bytes.len()) };
        let wrong = OutOfRange { at: 9, bytes: 8, length: 16 };
        assert_eq!(view.put(9, 1u64), Err(wrong));
        assert_eq!(view.as_view().get::<u64>(9), Err(wrong));
        assert!(view.as_view().get::<u64>(usize::MAX).is_err());
        assert!(view.part(17, 0).is_err());
        assert!(view.as_view().part(16, 0).unwrap().is_empty());
    }
}
