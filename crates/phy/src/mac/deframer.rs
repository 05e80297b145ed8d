//! Columns to frames.

use super::{FCS, MAX_FRAME, MIN_FRAME};
use crate::pcs::column::{Column, START, TERMINATE};

/// Why what was received is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Something else than data came before its end.
    Broken,
    /// The delimiter is not where the preamble ends.
    Preamble,
    Short,
    Long,
    Fcs,
}

/// Takes frames out of columns.
#[derive(Debug, Clone, Default)]
pub struct Deframer {
    /// What came since the start, that character apart.
    bytes: Vec<u8>,
    open: bool,
}

/// Preamble after the start character, with the delimiter.
const PREAMBLE: usize = 7;
const DELIMITER: u8 = 0xd5;
const MOST: usize = PREAMBLE + MAX_FRAME + FCS;

impl Deframer {
    /// A frame that ends in this column, without preamble and FCS; or why it is none. A column in which one is
    /// broken off by the next one's start tells of the first.
    #[inline]
    pub fn handle(&mut self, column: Column) -> Option<Result<&[u8], FrameError>> {
        if column.control == 0 {
            if self.open && self.bytes.len() <= MOST {
                self.bytes.extend(column.data.to_le_bytes());
            }
            return None;
        }
        self.handle_control(&column)
    }

    // By reference: a copy of what was just written in two parts would wait for both.
    #[inline]
    fn handle_control(&mut self, column: &Column) -> Option<Result<&[u8], FrameError>> {
        let was_open = self.open;
        if let Some(lane) = [0, 4].into_iter().find(|lane| is_start(column, *lane)) {
            self.open = true;
            self.bytes.clear();
            self.add(column.data >> 8 >> (8 * lane), 7 - lane);
            return was_open.then_some(Err(FrameError::Broken));
        }
        if !was_open {
            return None;
        }
        self.open = false;
        let end = column.control.trailing_zeros() as usize;
        if column.control != 0xff << end || column.lane(end) != TERMINATE {
            return Some(Err(FrameError::Broken));
        }
        self.add(column.data, end);
        Some(self.check())
    }

    /// The first `count` bytes of these: all are written, which takes no longer than one.
    fn add(&mut self, bytes: u64, count: usize) {
        let length = self.bytes.len() + count;
        self.bytes.extend(bytes.to_le_bytes());
        self.bytes.truncate(length);
    }

    fn check(&self) -> Result<&[u8], FrameError> {
        let length = self.bytes.len();
        if length < PREAMBLE + MIN_FRAME + FCS {
            return Err(FrameError::Short);
        }
        if length > MOST {
            return Err(FrameError::Long);
        }
        if self.bytes[PREAMBLE - 1] != DELIMITER {
            return Err(FrameError::Preamble);
        }
        let (contents, fcs) = self.bytes[PREAMBLE..].split_at(length - PREAMBLE - FCS);
        match crc32fast::hash(contents).to_le_bytes() == fcs {
            true => Ok(contents),
            false => Err(FrameError::Fcs),
        }
    }
}

/// Whether a frame starts in this lane, with data behind it.
fn is_start(column: &Column, lane: usize) -> bool {
    column.control >> lane == 1 && column.lane(lane) == START
}
