//! Writer of recordings.

use super::bytes::{put, put_text};
use super::code::{self, WindowCoder};
use super::history::History;
use super::{
    BLOCK, HEADER, Header, LARGEST, LONGEST_NAME, MAGIC, PLACEMENTS, RecordingError, VERSION, WINDOW, check,
};
use crate::instruction::CodeBlock;
use crate::window::RecordedWindow;
use std::io::Write;

/// Writer of a recording. It writes each record by one call of `write_all`, and therefore has no buffer to flush.
pub struct RecordingWriter<W> {
    file: W,
    /// Number of bytes that have been written to the file.
    offset: u64,
    placements: usize,
    history: History,
    /// Number that each block has in the file, indexed by the caller's number of the block; [`UNWRITTEN`] if the block
    /// has not been written.
    numbers: Vec<u32>,
    /// Number of blocks that have been written to the file.
    blocks: u32,
    /// Record under construction.
    record: Vec<u8>,
}

/// Value that marks a block that has not been written to the file.
const UNWRITTEN: u32 = u32::MAX;
/// Maximum block number that a caller may use. It limits the memory of the table that is indexed by these numbers.
const LAST_BLOCK: u32 = 1 << 26;
/// Number of bytes of a record before its payload.
const HEAD: usize = 9;

impl<W: Write> RecordingWriter<W> {
    /// Starts a recording by writing its header.
    ///
    /// # Errors
    /// If the file cannot be written, if a name of the header is too long, or if there are more than 16 placements.
    pub fn new(file: W, header: &Header) -> Result<RecordingWriter<W>, RecordingError> {
        let names = || std::iter::once(&header.processor).chain(&header.placements);
        if names().any(|name| name.len() > LONGEST_NAME) || header.placements.len() > PLACEMENTS {
            return Err(RecordingError::Refused(
                "a name has over 1024 bytes, or there are over 16 placements",
            ));
        }
        let placements = header.placements.len();
        let (history, numbers, record) = (History::default(), Vec::new(), Vec::new());
        let mut writer = RecordingWriter { file, offset: 0, placements, history, numbers, blocks: 0, record };
        writer.begin(HEADER);
        put(&mut writer.record, placements as u64);
        names().for_each(|name| put_text(&mut writer.record, name));
        writer.seal()?;
        let mut first = MAGIC.to_vec();
        first.extend(VERSION.to_le_bytes());
        first.append(&mut writer.record);
        writer.record = first;
        writer.write()?;
        Ok(writer)
    }

    /// Appends a window to the file. Before it, the writer appends the code blocks of this window that are not in the
    /// file yet.
    ///
    /// The steps of the window may refer to blocks by any numbers up to 2^26. `block` returns the block with a given
    /// number and the name of its function, if it is known. It must always return the same result for the same number.
    /// The writer renumbers blocks in the file.
    ///
    /// # Errors
    /// If the file cannot be written, or if the window is inconsistent with itself or with its blocks. The recording
    /// remains readable after each of these errors.
    pub fn append<'a>(
        &mut self,
        window: &RecordedWindow,
        block: impl Fn(u32) -> (&'a CodeBlock, Option<&'a str>),
    ) -> Result<(), RecordingError> {
        if window.steps.iter().any(|step| step.block > LAST_BLOCK) {
            return Err(RecordingError::Refused("the number of a block is above 2^26"));
        }
        let length = |number| Some(block(number).0.instructions.len());
        check::window(window, self.placements, length).map_err(RecordingError::Refused)?;
        for step in &window.steps {
            if self.number(step.block) == UNWRITTEN {
                let (block, function) = block(step.block);
                self.write_block(step.block, block, function)?;
            }
        }
        self.begin(WINDOW);
        let numbers = &self.numbers;
        let numbered = |number| (numbers[number as usize], block(number).0);
        WindowCoder::new(&mut self.history).put_window(&mut self.record, window, numbered);
        self.seal()?;
        self.write()
    }

    /// Returns the number of bytes that have been written to the file.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Consumes the writer and returns the file.
    pub fn into_inner(self) -> W {
        self.file
    }

    fn number(&self, block: u32) -> u32 {
        self.numbers.get(block as usize).copied().unwrap_or(UNWRITTEN)
    }

    fn write_block(
        &mut self,
        number: u32,
        block: &CodeBlock,
        function: Option<&str>,
    ) -> Result<(), RecordingError> {
        check::block(block).map_err(RecordingError::Refused)?;
        self.begin(BLOCK);
        put_text(&mut self.record, cut(function.unwrap_or_default()));
        code::put_block(&mut self.record, block);
        self.seal()?;
        self.write()?;
        let index = number as usize;
        self.numbers.resize(self.numbers.len().max(index + 1), UNWRITTEN);
        self.numbers[index] = self.blocks;
        self.blocks += 1;
        Ok(())
    }

    /// Starts a record of the given kind.
    fn begin(&mut self, kind: u8) {
        self.record.clear();
        self.record.push(kind);
        self.record.resize(HEAD, 0);
    }

    /// Fills in the length and the checksum of the current record.
    ///
    /// # Errors
    /// If the payload of the record is too large.
    fn seal(&mut self) -> Result<(), RecordingError> {
        let payload = self.record.len() - HEAD;
        if payload > LARGEST {
            return Err(RecordingError::Refused("a window takes over 64 MiB"));
        }
        let crc = checksum(self.record[0], &self.record[HEAD..]);
        self.record[1..5].copy_from_slice(&(payload as u32).to_le_bytes());
        self.record[5..HEAD].copy_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    fn write(&mut self) -> Result<(), RecordingError> {
        let offset = self.offset;
        self.file.write_all(&self.record).map_err(|error| RecordingError::Io { offset, error })?;
        self.offset += self.record.len() as u64;
        Ok(())
    }
}

/// Truncates a name to the maximum length of names, at a character boundary.
fn cut(name: &str) -> &str {
    let end = (0..=name.len().min(LONGEST_NAME)).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or(0)]
}

/// Returns the checksum of a record.
pub(super) fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}
