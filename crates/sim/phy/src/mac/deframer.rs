//! Extraction of frames from columns.

use super::{FCS, MAX_FRAME, MIN_FRAME};
use crate::pcs::code::BlockClass;
use crate::pcs::column::{Column, START, TERMINATE};

/// Reason why received columns are not a valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A column with other control characters than an end arrived before the end of the frame.
    Broken,
    /// The start-of-frame delimiter is not at the end of the preamble.
    Preamble,
    Short,
    Long,
    Fcs,
}

/// Extractor of frames from columns.
#[derive(Debug, Clone)]
pub struct Deframer {
    /// Received bytes of the frame. They begin with the start character, so that the frame's contents are aligned to eight bytes. Bytes
    /// beyond `length` are remains of earlier frames.
    bytes: Box<[u8; ROOM]>,
    length: usize,
    open: bool,
}

/// Bytes of the preamble, including the start character and the delimiter.
const PREAMBLE: usize = 8;
const DELIMITER: u8 = 0xd5;
const MOST: usize = PREAMBLE + MAX_FRAME + FCS;
/// Size of the buffer in bytes: the longest frame and a few more bytes. A frame that does not fit into the buffer is too long.
const ROOM: usize = (MOST + 16).next_multiple_of(8);
/// Value of the CRC-32 over a frame and its FCS if the FCS is correct.
const RESIDUE: u32 = 0x2144_df1c;

impl Default for Deframer {
    fn default() -> Deframer {
        Deframer { bytes: Box::new([0; ROOM]), length: 0, open: false }
    }
}

impl Deframer {
    /// Handles a column. If a frame ends in it, returns the frame without preamble and FCS, or the reason why the frame is not valid. If a
    /// frame starts in the column while another one has not ended, the result is about the frame that has not ended.
    #[inline]
    pub fn handle(&mut self, column: Column) -> Option<Result<&[u8], FrameError>> {
        let class = match column.control {
            0 => BlockClass::Data,
            _ if is_start(column, 0) || is_start(column, 4) => BlockClass::Start,
            control => {
                let end = control.trailing_zeros() as usize;
                let is_end = control == 0xff << end && column.lane(end) == TERMINATE;
                if is_end { BlockClass::Terminate } else { BlockClass::Control }
            }
        };
        self.handle_class(class, column)
    }

    /// Does the same as [`Deframer::handle`] for a column whose class the caller has already determined.
    #[inline(always)]
    pub(crate) fn handle_class(
        &mut self,
        class: BlockClass,
        column: Column,
    ) -> Option<Result<&[u8], FrameError>> {
        let was_open = self.open;
        match class {
            BlockClass::Data => {
                self.add(column.data, 8);
                None
            }
            BlockClass::Start => {
                let lane = if column.is_control(4) { 4 } else { 0 };
                self.open = true;
                self.length = 0;
                self.add(column.data >> (8 * lane), 8 - lane);
                was_open.then_some(Err(FrameError::Broken))
            }
            BlockClass::Terminate if was_open => {
                self.open = false;
                self.add(column.data, column.control.trailing_zeros() as usize);
                Some(self.check())
            }
            _ => {
                self.open = false;
                was_open.then_some(Err(FrameError::Broken))
            }
        }
    }

    /// Returns the free part of the buffer, into which the caller can write the words of the following data columns.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [[u8; 8]] {
        if !self.open {
            self.length = 0;
        }
        self.bytes.get_mut(self.length..).unwrap_or_default().as_chunks_mut().0
    }

    /// Records that the caller has written `words` words to the beginning of the free part of the buffer.
    #[inline]
    pub(crate) fn fill(&mut self, words: usize) {
        self.length += 8 * words;
    }

    /// Appends the first `count` bytes of a word to the buffer if there is room. The function always writes all eight bytes, because this
    /// takes no longer than one byte.
    #[inline]
    fn add(&mut self, bytes: u64, count: usize) {
        if let Some(room) = self.bytes.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut) {
            *room = bytes.to_le_bytes();
            self.length += count;
        }
    }

    #[inline]
    fn check(&self) -> Result<&[u8], FrameError> {
        if self.length < PREAMBLE + MIN_FRAME + FCS {
            return Err(FrameError::Short);
        }
        if self.length > MOST {
            return Err(FrameError::Long);
        }
        if self.bytes[PREAMBLE - 1] != DELIMITER {
            return Err(FrameError::Preamble);
        }
        let frame = &self.bytes[PREAMBLE..self.length];
        match libdeflater::crc32(frame) == RESIDUE {
            true => Ok(&frame[..frame.len() - FCS]),
            false => Err(FrameError::Fcs),
        }
    }
}

/// Returns whether a frame starts in this lane of the column, and only data follows it in the column.
#[inline]
fn is_start(column: Column, lane: usize) -> bool {
    column.control >> lane == 1 && column.lane(lane) == START
}
