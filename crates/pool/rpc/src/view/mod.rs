//! Messages in place: bytes that the peer wrote, or that it may read, without a copy in between.
//!
//! The peer has the same bytes mapped. A peer that keeps to the protocol does not write to them while this process uses
//! them, but a malicious peer can change them at any time. Therefore a view copies out one value or range at a time and
//! loads each byte only once, so that the bytes that were checked are the bytes that are used ([`copy`]). Because a
//! second read may return other bytes, check the copy and use the copy. A view gives no references to the bytes, except
//! to code that states that it trusts the peer.

mod copy;

use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes in shared memory that this process may read. The view lives no longer than its message.
#[derive(Clone, Copy)]
pub struct View<'a> {
    base: *const u8,
    length: usize,
    message: PhantomData<&'a [u8]>,
}

/// Bytes in shared memory that this process may write.
pub struct ViewMut<'a> {
    base: *mut u8,
    length: usize,
    message: PhantomData<&'a mut [u8]>,
}

/// Error for a range that is not inside the message.
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
    /// Makes a view of the bytes of a message, or of other bytes that a peer may write at the same time.
    ///
    /// # Safety
    /// The bytes must stay mapped for as long as `'a`.
    pub unsafe fn new(base: *const u8, length: usize) -> Self {
        View { base, length, message: PhantomData }
    }

    /// Returns the number of bytes of the message.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies out the value at a byte offset, which need not be aligned. Each byte is read once, and aligned words are
    /// read whole.
    ///
    /// # Errors
    /// If the value is not inside the message.
    #[inline]
    pub fn get<T: AnyBitPattern>(&self, at: usize) -> Result<T, OutOfRange> {
        check(at, size_of::<T>(), self.length)?;
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the range is inside the message and mapped; the whole value is written, and any bytes are a valid
        // value.
        unsafe {
            copy::load(self.base.add(at), value.as_mut_ptr().cast(), size_of::<T>());
            Ok(value.assume_init())
        }
    }

    /// Returns a view of part of the message.
    ///
    /// # Errors
    /// If the part is not inside the message.
    pub fn part(&self, at: usize, bytes: usize) -> Result<View<'a>, OutOfRange> {
        check(at, bytes, self.length)?;
        // SAFETY: the part is inside this view.
        Ok(unsafe { View::new(self.base.add(at), bytes) })
    }

    /// Copies the message to a slice of the same length, so that the copy can be checked and then used.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.length, "as many bytes as the message has");
        // SAFETY: the two lengths are equal, and a slice of this process does not overlap the message.
        unsafe { copy::load(self.base, to.as_mut_ptr(), self.length) };
    }

    /// Copies the message to a vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.copy_to(&mut bytes);
        bytes
    }

    /// Returns the address of the message, which is aligned to a cache line unless the view is a part of a message.
    /// Note that bytes read there without a view may change between two reads.
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    /// Returns the bytes themselves. Use this only if the peer is trusted, because a peer that writes to the bytes
    /// meanwhile can cause undefined behaviour.
    ///
    /// # Safety
    /// The peer keeps to the protocol: it does not write to the message during `'a`.
    pub unsafe fn as_slice_of_trusted_peer(&self) -> &'a [u8] {
        // SAFETY: the bytes are mapped, and the caller guarantees that no process writes them.
        unsafe { std::slice::from_raw_parts(self.base, self.length) }
    }
}

impl<'a> ViewMut<'a> {
    /// Makes a view of bytes to write.
    ///
    /// # Safety
    /// The bytes must stay mapped writable for as long as `'a`, and this process must have no other view of them.
    pub(crate) unsafe fn new(base: *mut u8, length: usize) -> Self {
        ViewMut { base, length, message: PhantomData }
    }

    /// Returns the number of bytes of the message.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Writes a value at a byte offset, which need not be aligned.
    ///
    /// # Errors
    /// If the value would not be inside the message.
    #[inline]
    pub fn put<T: NoUninit>(&mut self, at: usize, value: T) -> Result<(), OutOfRange> {
        check(at, size_of::<T>(), self.length)?;
        // SAFETY: the range is inside the message and mapped writable; a value without padding has this many
        // initialized bytes.
        unsafe { copy::store(ptr::from_ref(&value).cast(), self.base.add(at), size_of::<T>()) };
        Ok(())
    }

    /// Copies a slice of the same length into the message.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_from(&mut self, from: &[u8]) {
        assert_eq!(from.len(), self.length, "as many bytes as the message has");
        // SAFETY: the two lengths are equal, and a slice of this process does not overlap the message.
        unsafe { copy::store(from.as_ptr(), self.base, self.length) };
    }

    /// Returns a view of part of the message.
    ///
    /// # Errors
    /// If the part is not inside the message.
    pub fn part(&mut self, at: usize, bytes: usize) -> Result<ViewMut<'_>, OutOfRange> {
        check(at, bytes, self.length)?;
        // SAFETY: the part is inside this view, which is borrowed for as long.
        Ok(unsafe { ViewMut::new(self.base.add(at), bytes) })
    }

    /// Returns a view that reads the same bytes.
    pub fn as_view(&self) -> View<'_> {
        // SAFETY: it is a view of the same bytes, borrowed from this view.
        unsafe { View::new(self.base, self.length) }
    }

    /// Returns the address of the message, which is aligned to a cache line unless the view is a part of a message.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.base
    }

    /// Returns the bytes themselves. Use this only if the peer is trusted, because a peer that writes to the bytes
    /// meanwhile can cause undefined behaviour.
    ///
    /// # Safety
    /// The peer keeps to the protocol: while the slice is in use, the peer does not write to the message, and it may
    /// read any contents.
    pub unsafe fn into_slice_for_trusted_peer(self) -> &'a mut [u8] {
        // SAFETY: the bytes are mapped and the view is consumed; the caller guarantees that no other thread or process
        // writes them.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.length) }
    }
}

// SAFETY: any thread may access shared memory, and the view copies what it reads.
unsafe impl Send for View<'_> {}
// SAFETY: a shared view only reads, by atomic loads or by an instruction with the same effect.
unsafe impl Sync for View<'_> {}
// SAFETY: any thread may access shared memory, and this process has no other view of the same bytes.
unsafe impl Send for ViewMut<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn values_read_as_written_wherever_they_are() {
        let mut bytes = [0u8; 40];
        // SAFETY: the array outlives the view, and no other code uses it.
        let mut view = unsafe { ViewMut::new(bytes.as_mut_ptr(), bytes.len()) };
        view.put(3, 0x0102_0304_0506_0708u64).unwrap();
        view.put(30, [1.5f32, -2.5]).unwrap();
        assert_eq!(view.as_view().get::<u64>(3).unwrap(), 0x0102_0304_0506_0708);
        assert_eq!(view.as_view().get::<[f32; 2]>(30).unwrap(), [1.5, -2.5]);
        view.part(1, 2).unwrap().copy_from(&[7, 8]);
        assert_eq!(view.as_view().part(1, 2).unwrap().to_vec(), [7, 8]);
    }

    /// A message that another thread writes all the time, a word at a time, while `Race::run` reads it.
    struct Race {
        words: Box<[AtomicU64]>,
    }

    impl Race {
        /// Number of rounds of the writer. Too few rounds would not show a race.
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 100_000 };

        fn new(words: usize) -> Race {
            Race { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
        }

        /// Stores the same byte everywhere, a different one in each round, while `read` reads.
        fn run(&self, mut read: impl FnMut(View<'_>)) {
            let written = AtomicU64::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for round in 1..=Self::ROUNDS {
                        let byte = round as u8;
                        let word = u64::from_ne_bytes([byte; 8]);
                        self.words.iter().for_each(|at| at.store(word, Ordering::Relaxed));
                        // A pause, so that some of the messages are read without a change.
                        (0..byte).for_each(|_| std::hint::spin_loop());
                        written.store(round, Ordering::Relaxed);
                    }
                });
                // SAFETY: the words outlive the view.
                let view = unsafe { View::new(self.words.as_ptr().cast(), self.words.len() * 8) };
                while written.load(Ordering::Relaxed) < Self::ROUNDS {
                    read(view);
                }
            });
        }
    }

    /// Returns whether no byte was changed during the copy, as a handler would check.
    fn is_valid(bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == bytes[0])
    }

    /// Acts like a handler: copies a message, checks the copy, and uses the copy if it is valid.
    #[inline(never)]
    fn accept(message: View<'_>, used: &mut [u8; 64]) -> bool {
        let mut copy = [0; 64];
        message.copy_to(&mut copy);
        let valid = is_valid(&copy);
        if valid {
            used.copy_from_slice(&copy);
        }
        valid
    }

    #[test]
    fn what_was_checked_is_what_is_used() {
        let (mut accepted, mut refused, mut used) = (0u64, 0u64, [0; 64]);
        Race::new(8).run(|view| match accept(view, &mut used) {
            true => {
                accepted += 1;
                assert!(is_valid(&used), "it was changed after it was checked: {used:?}");
            }
            false => refused += 1,
        });
        assert!(accepted > 0 && (refused > 0 || cfg!(miri)), "{accepted} accepted, {refused} refused");
    }

    #[test]
    fn a_value_is_read_once() {
        let race = Race::new(8);
        race.run(|view| {
            let word: u64 = view.get(16).unwrap();
            assert!(is_valid(&word.to_ne_bytes()), "{word:#x} was never written");
            let length = view.get::<u64>(0).unwrap() & 0xff;
            if length < 100 {
                assert!(std::hint::black_box(length) < 100, "it was read again");
            }
            let words: [u64; 8] = view.get(0).unwrap();
            assert!(words.iter().all(|word| is_valid(&word.to_ne_bytes())));
        });
    }

    #[test]
    fn nothing_outside_is_reached() {
        let mut bytes = [0u8; 16];
        // SAFETY: the array outlives the view, and no other code uses it.
        let mut view = unsafe { ViewMut::new(bytes.as_mut_ptr(), bytes.len()) };
        let wrong = OutOfRange { at: 9, bytes: 8, length: 16 };
        assert_eq!(view.put(9, 1u64), Err(wrong));
        assert_eq!(view.as_view().get::<u64>(9), Err(wrong));
        assert!(view.as_view().get::<u64>(usize::MAX).is_err());
        assert!(view.part(17, 0).is_err());
        assert!(view.as_view().part(16, 0).unwrap().is_empty());
    }
}
