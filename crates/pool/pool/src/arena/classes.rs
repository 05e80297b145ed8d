//! Sizes of buffers: whole cache lines, with four sizes per doubling, so that at most a fifth of a buffer is wasted.

use crate::{LINE, SECTION};

/// Number of sizes.
pub(super) const CLASSES: usize = 52;
/// Size of the largest buffer that shares a section with others, in bytes.
pub const MOST_SMALL: u64 = size_of_class(CLASSES - 1);

/// Returns the smallest class whose buffers have at least `bytes` bytes; `bytes` is at most [`MOST_SMALL`].
#[inline(always)]
pub(super) const fn class_of(bytes: u64) -> usize {
    let lines = bytes.div_ceil(LINE as u64);
    if lines <= 4 {
        return lines.saturating_sub(1) as usize;
    }
    let above = lines - 1;
    let doubling = above.ilog2() - 2;
    (4 + doubling * 4) as usize + (above >> doubling & 3) as usize
}

/// Returns the size of a buffer of this class in bytes.
pub(super) const fn size_of_class(class: usize) -> u64 {
    let lines = match class {
        0..4 => class as u64 + 1,
        _ => ((class as u64 & 3) + 5) << (class / 4 - 1),
    };
    lines * LINE as u64
}

/// Returns the number of buffers of this class in a section.
pub(super) const fn count_of_class(class: usize) -> u32 {
    (SECTION / size_of_class(class)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        assert_eq!(MOST_SMALL, 1 << 20);
        for lines in 1..=MOST_SMALL / LINE as u64 {
            for bytes in [lines * LINE as u64, lines * LINE as u64 - 63] {
                let class = class_of(bytes);
                assert!(size_of_class(class) >= bytes, "{bytes}");
                assert!(class == 0 || size_of_class(class - 1) < bytes, "{bytes}");
            }
        }
        assert_eq!(class_of(0), 0);
    }

    #[test]
    fn little_is_lost() {
        for class in 1..CLASSES {
            let (smaller, size) = (size_of_class(class - 1), size_of_class(class));
            assert!(smaller < size && size.is_multiple_of(LINE as u64));
            assert!(class < 4 || (size - smaller - 1) * 5 <= size, "class {class}");
            assert!(count_of_class(class) >= 2);
        }
    }
}
