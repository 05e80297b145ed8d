//! Conversion of frames to columns.

use super::{FCS, GAP, MIN_FRAME};
use crate::pcs::column::{Column, ColumnSink, IDLE, TERMINATE};

/// Start character, preamble and start-of-frame delimiter.
const PREAMBLE: u64 = 0xd555_5555_5555_55fb;
const IDLES: u64 = Column::IDLE.data;

/// Converts the frames of one sender to columns. Frames start in lane 0 or 4. The gaps between frames are twelve characters long on
/// average, which the deficit idle count ensures (§46.3.1.4).
#[derive(Debug, Clone, Default)]
pub struct Framer {
    /// Whether the next frame starts in lane 4, after four idle characters.
    in_lane_4: bool,
    /// Deficit idle count: number of characters, 0 to 3, by which the total length of the gaps so far falls short of twelve characters per
    /// gap.
    deficit: usize,
}

impl Framer {
    /// Adds the columns of a frame to `columns`: preamble, contents, padding, FCS, end, and the idle columns of the gap before the next
    /// frame.
    ///
    /// `contents` begin with the destination address and do not include the FCS.
    #[inline(always)]
    pub fn frame(&mut self, contents: &[u8], columns: &mut impl ColumnSink) {
        let mut padded = [0; MIN_FRAME];
        let contents = match padded.get_mut(..contents.len()) {
            Some(room) if contents.len() < MIN_FRAME => {
                room.copy_from_slice(contents);
                &padded
            }
            _ => contents,
        };
        self.add(contents, libdeflater::crc32(contents), columns);
    }

    /// Adds `count` idle columns.
    #[inline]
    pub fn idle(&mut self, count: usize, columns: &mut impl ColumnSink) {
        (0..count).for_each(|_| columns.column(Column::IDLE));
        if count > 0 {
            (self.in_lane_4, self.deficit) = (false, 0);
        }
    }

    #[inline(always)]
    fn add(&mut self, contents: &[u8], fcs: u32, columns: &mut impl ColumnSink) {
        let mut words = contents;
        if self.in_lane_4 {
            columns.column(Column { data: IDLES >> 32 | PREAMBLE << 32, control: 0x1f });
            let (first, behind) = contents.split_first_chunk::<4>().expect("it is padded");
            columns.data(std::iter::once(PREAMBLE >> 32 | u64::from(u32::from_le_bytes(*first)) << 32));
            words = behind;
        } else {
            columns.column(Column { data: PREAMBLE, control: 0x01 });
        }
        // If the frame starts in lane 4, words begin after four bytes. In this way, no column depends on the one
        // before.
        let (words, rest) = words.as_chunks::<8>();
        columns.data(words.iter().map(|word| u64::from_le_bytes(*word)));
        // The remaining bytes are the upper bytes of the last eight.
        let last = u64::from_le_bytes(*contents.last_chunk::<8>().expect("it is padded"));
        let tail = u128::from(last) >> (8 * (8 - rest.len())) | u128::from(fcs) << (8 * rest.len());
        self.end(tail, rest.len() + FCS, columns);
    }

    /// Adds the last bytes of a frame (at most 11), the end character, and the gap after the frame.
    #[inline(always)]
    fn end(&mut self, mut tail: u128, mut length: usize, columns: &mut impl ColumnSink) {
        if length >= 8 {
            columns.data(std::iter::once(tail as u64));
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
        columns.column(last);
        // At most fifteen characters of the gap are left, which is at most one idle column.
        if left >= 8 {
            columns.column(Column::IDLE);
        }
        self.in_lane_4 = left % 8 == 4;
    }
}

const _: () = assert!(IDLE as u64 == IDLES & 0xff);
