//! Stride prefetcher, which tracks individual load instructions.
//!
//! According to Intel's manual, "if a load instruction is detected to have a regular stride, then a prefetch is sent to
//! the next address, which is the sum of the current address and the stride". The stride may be up to 2 KiB, forward or
//! backward.

use super::page::is_same_page;

/// Number of load instructions that the prefetcher tracks simultaneously.
const INSTRUCTIONS: usize = 256;
/// Maximum stride, in bytes.
const LONGEST: i64 = 2048;
/// Number of successive equal strides after which the prefetcher predicts the next address.
const EQUAL: u8 = 2;

/// Load instruction that is tracked.
#[derive(Clone, Copy, Debug)]
struct Followed {
    instruction: u64,
    address: u64,
    /// Last stride of the instruction, in bytes and in lines.
    bytes: i64,
    lines: i64,
    /// Number of successive strides that are equal to the last stride, including the last one.
    equal: u8,
}

impl Followed {
    const NOTHING: Followed = Followed { instruction: u64::MAX, address: 0, bytes: 0, lines: 0, equal: 0 };
}

/// Direct-mapped table of tracked load instructions. Its index is a hash of the instruction's number.
#[derive(Clone, Debug)]
pub(super) struct Strides {
    followed: Box<[Followed; INSTRUCTIONS]>,
}

impl Strides {
    pub(super) fn new() -> Strides {
        Strides { followed: Box::new([Followed::NOTHING; INSTRUCTIONS]) }
    }

    /// Trains the prefetcher with a load by `instruction` from `address`. If the stride of the instruction is regular,
    /// the function returns the line that the instruction is predicted to load next.
    ///
    /// The prefetcher observes only the first load of each line, because later loads of the line hit the first-level
    /// cache. Therefore steps to the neighbouring line count as regular even if their strides in bytes differ.
    pub(super) fn loaded(&mut self, instruction: u64, address: u64) -> Option<u64> {
        let followed = &mut self.followed[index(instruction)];
        if followed.instruction != instruction {
            *followed = Followed { instruction, address, ..Followed::NOTHING };
            return None;
        }
        let line = address / 64;
        let bytes = address.wrapping_sub(followed.address) as i64;
        let lines = line.wrapping_sub(followed.address / 64) as i64;
        let is_neighbour = lines.abs() == 1 && lines == followed.lines;
        let is_equal = bytes == followed.bytes || is_neighbour;
        followed.equal = if is_equal { followed.equal.saturating_add(1) } else { 1 };
        (followed.address, followed.bytes, followed.lines) = (address, bytes, lines);
        if followed.equal < EQUAL || lines == 0 || bytes.abs() > LONGEST {
            return None;
        }
        let ahead = address.wrapping_add_signed(bytes) / 64;
        let next = if is_neighbour { line.wrapping_add_signed(lines) } else { ahead };
        is_same_page(next, line).then_some(next)
    }
}

/// Returns the table index of an instruction.
fn index(instruction: u64) -> usize {
    (instruction ^ instruction >> 9 ^ instruction >> 18) as usize % INSTRUCTIONS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every stride between one line and 2 KiB is detected at the third load, forward and backward, up to the end
        /// of the page.
        #[test]
        fn a_regular_stride_is_found(stride in 128i64..=LONGEST, is_back: bool, first in 1u64 << 30..1 << 31) {
            let stride = if is_back { -stride } else { stride };
            let mut strides = Strides::new();
            for load in 0..40 {
                let address = first.wrapping_add_signed(stride * load);
                let next = address.wrapping_add_signed(stride);
                let asked = strides.loaded(7, address);
                let is_due = load >= 2 && next >> 12 == address >> 12;
                prop_assert_eq!(asked, is_due.then_some(next / 64), "load {}", load);
            }
        }

        /// Shorter strides are detected from the first load to each line: all lines of a page but the first three are
        /// requested.
        #[test]
        fn a_short_stride_is_found_by_its_lines(stride in 1u64..64, page in 1u64..1 << 40) {
            let mut strides = Strides::new();
            let addresses = (0..4096u64.div_ceil(stride)).map(|load| (page << 12) + load * stride);
            let mut line = 0;
            let mut asked = Vec::new();
            for address in addresses {
                if address / 64 != line {
                    line = address / 64;
                    asked.extend(strides.loaded(7, address));
                }
            }
            // The third line requests the fourth, and the last line of the page requests none.
            prop_assert_eq!(asked, (page * 64 + 3..page * 64 + 64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn loads_without_order_and_long_strides_trigger_nothing() {
        let mut strides = Strides::new();
        let squares = (0..1000u64).filter_map(|load| strides.loaded(1, (load * load) % 7919 * 64)).count();
        assert!(squares <= 2, "{squares}");
        assert!((0..100).all(|load| strides.loaded(2, load * 4096).is_none()));
        assert!((0..100).all(|_| strides.loaded(3, 640).is_none()), "one address is no stride");
    }

    #[test]
    fn instructions_have_strides_of_their_own() {
        let mut strides = Strides::new();
        let mut asked = |instruction, address| strides.loaded(instruction, address);
        for load in 0..3 {
            let expected = (load == 2).then_some(load * 3 + 3);
            assert_eq!(asked(1, load * 192), expected);
            assert_eq!(asked(2, 8192 + load * 320), expected.map(|_| 128 + load * 5 + 5));
        }
        // A third instruction takes the entry of the first.
        assert_eq!(asked(1 + INSTRUCTIONS as u64, 0), None);
        assert_eq!(asked(1, 3 * 192), None);
    }
}
