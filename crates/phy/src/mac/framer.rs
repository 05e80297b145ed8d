//! Frames to columns.

use super::{FCS, GAP, MIN_FRAME};
use crate::pcs::column::{Column, IDLE, TERMINATE};

/// Start, preamble and start-of-frame delimiter.
const PREAMBLE: u64 = 0xd555_5555_5555_55fb;
const IDLES: u64 = Column::IDLE.data;

/// Makes the columns of one sender: frames start in lane 0 or 4, gaps are twelve characters on average, by the
/// deficit idle count (§46.3.1.4).
#[derive(Debug, Clone, Default)]
pub struct Framer {
    /// The next frame starts in lane 4: the first four characters of its column are idle.
    in_lane_4: bool,
    /// Characters by which gaps were shorter than twelve, altogether: 0 to 3.
    deficit: usize,
}

impl Framer {
    /// Adds the columns of a frame: preamble, contents, padding, FCS, end, and as many idle columns of the gap as
    /// the next frame must wait for.
    ///
    /// `contents` begin with the destination's address and have no FCS.
    #[inline]
    pub fn frame(&mut self, contents: &[u8], columns: &mut impl Extend<Column>) {
        let mut padded = [0; MIN_FRAME];
        let contents = match padded.get_mut(..contents.len()) {
            Some(room) if contents.len() < MIN_FRAME => {
                room.copy_from_slice(contents);
                &padded
            }
            _ => contents,
        };
        self.add(contents, crc32fast::hash(contents), columns);
    }

    /// Adds `count` idle columns.
    pub fn idle(&mut self, count: usize, columns: &mut impl Extend<Column>) {
        columns.extend(std::iter::repeat_n(Column::IDLE, count));
        if count > 0 {
            (self.in_lane_4, self.deficit) = (false, 0);
        }
    }

    fn add(&mut self, contents: &[u8], fcs: u32, columns: &mut impl Extend<Column>) {
        let (words, rest) = contents.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut carried = 0;
        if self.in_lane_4 {
            let first = Column { data: IDLES >> 32 | PREAMBLE << 32, control: 0x1f };
            carried = PREAMBLE >> 32;
            columns.extend(std::iter::once(first).chain(words.map(|word| {
                let column = Column::data(carried | word << 32);
                carried = word >> 32;
                column
            })));
        } else {
            let first = Column { data: PREAMBLE, control: 0x01 };
            columns.extend(std::iter::once(first).chain(words.map(Column::data)));
        }
        let held = 4 * usize::from(self.in_lane_4);
        let mut tail = [0; 16];
        tail[..held].copy_from_slice(&carried.to_le_bytes()[..held]);
        tail[held..held + rest.len()].copy_from_slice(rest);
        tail[held + rest.len()..][..FCS].copy_from_slice(&fcs.to_le_bytes());
        self.end(u128::from_le_bytes(tail), held + rest.len() + FCS, columns);
    }

    /// The last bytes of a frame, at most 15, the end, and the gap.
    fn end(&mut self, mut tail: u128, mut length: usize, columns: &mut impl Extend<Column>) {
        let has_data = length >= 8;
        let data = Column::data(tail as u64);
        if has_data {
            tail >>= 64;
            length -= 8;
        }
        let end = u64::from(TERMINATE) << (8 * length);
        let after = IDLES & (!0u64).checked_shl(8 * (length as u32 + 1)).unwrap_or(0);
        let last = Column { data: tail as u64 | end | after, control: 0xff << length };

        let early = length % 4;
        let gap = if self.deficit + early < 4 {
            self.deficit += early;
            GAP - early
        } else {
            self.deficit -= 4 - early;
            GAP + 4 - early
        };
        let left = gap - (8 - length);
        // At most fifteen characters: one column.
        let all = [data, last, Column::IDLE];
        columns.extend(all[usize::from(!has_data)..2 + left / 8].iter().copied());
        self.in_lane_4 = left % 8 == 4;
    }
}

const _: () = assert!(IDLE as u64 == IDLES & 0xff);
