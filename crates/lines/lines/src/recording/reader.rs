//! Reader of recordings.

use super::bytes::Cursor;
use super::code::{self, WindowCoder};
use super::history::History;
use super::writer::checksum;
use super::{
    BLOCK, HEADER, Header, LARGEST, LONGEST_NAME, MAGIC, PLACEMENTS, RecordingError, VERSION, WINDOW, check,
};
use crate::instruction::CodeBlock;
use crate::window::RecordedWindow;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};

/// Code blocks of the part of a recording that has been read.
#[derive(Default)]
pub struct Blocks {
    blocks: Vec<CodeBlock>,
    /// Index in `names` of each block's function; `None` if the function is unknown.
    functions: Vec<Option<u32>>,
    names: Vec<String>,
    indices: BTreeMap<String, u32>,
}

impl Blocks {
    /// Returns the blocks, indexed by [`BlockStep::block`](crate::window::BlockStep::block).
    pub fn all(&self) -> &[CodeBlock] {
        &self.blocks
    }

    /// Returns the name of the function that contains a block, if the recorder knew it.
    ///
    /// # Panics
    /// If there is no block with this number.
    pub fn function(&self, block: u32) -> Option<&str> {
        self.functions[block as usize].map(|index| self.names[index as usize].as_str())
    }

    fn push(&mut self, block: CodeBlock, function: &str) {
        self.blocks.push(block);
        let index = (!function.is_empty()).then(|| self.name(function));
        self.functions.push(index);
    }

    fn name(&mut self, function: &str) -> u32 {
        if let Some(index) = self.indices.get(function) {
            return *index;
        }
        let index = self.names.len() as u32;
        self.names.push(function.into());
        self.indices.insert(function.into(), index);
        index
    }
}

/// Reader that returns the windows of a recording one after another.
///
/// The reader reads a few bytes at a time. Therefore a file should be wrapped in a [`BufReader`](std::io::BufReader).
pub struct Reader<R> {
    file: R,
    offset: u64,
    header: Header,
    blocks: Blocks,
    history: History,
    record: Vec<u8>,
    is_cut: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the magic bytes, the version and the header of a recording.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a recording of this version.
    pub fn new(file: R) -> Result<Reader<R>, RecordingError> {
        let (header, blocks, history) = (
            Header { processor: String::new(), placements: Vec::new() },
            Blocks::default(),
            History::default(),
        );
        let record = Vec::new();
        let mut reader = Reader { file, offset: 0, header, blocks, history, record, is_cut: false };
        let (mut magic, mut version) = ([0; 8], [0; 4]);
        if !reader.fill(&mut magic)? || &magic != MAGIC {
            return Err(RecordingError::Foreign);
        }
        let is_whole = reader.fill(&mut version)?;
        let found = u32::from_le_bytes(version);
        if is_whole && found != VERSION {
            return Err(RecordingError::Version { found });
        }
        reader.read_header()?;
        Ok(reader)
    }

    /// Returns the header of the recording.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the code blocks of all windows that have been read.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Consumes the reader and returns the code blocks of all windows that have been read.
    pub fn into_blocks(self) -> Blocks {
        self.blocks
    }

    /// Returns whether the file ends within a record, because its writer was killed. The result is final only after
    /// [`next_window`](Self::next_window) has returned `None`.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads the next window, or returns `None` at the end of the recording.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn next_window(&mut self) -> Result<Option<RecordedWindow>, RecordingError> {
        while let Some((kind, offset)) = self.next_record()? {
            let mut cursor = Cursor::new(&self.record, offset);
            match kind {
                BLOCK => {
                    let function = cursor.text(LONGEST_NAME)?;
                    let block = code::block(&mut cursor)?;
                    cursor.end()?;
                    check::block(&block).map_err(|what| damaged(offset, what))?;
                    self.blocks.push(block, function);
                }
                WINDOW => {
                    let blocks = &self.blocks.blocks;
                    let window = WindowCoder::new(&mut self.history).window(&mut cursor, blocks)?;
                    cursor.end()?;
                    let length = |number: u32| blocks.get(number as usize).map(|b| b.instructions.len());
                    check::window(&window, self.header.placements.len(), length)
                        .map_err(|what| damaged(offset, what))?;
                    return Ok(Some(window));
                }
                _ => return Err(damaged(offset, "a record of a kind that does not exist")),
            }
        }
        Ok(None)
    }

    fn read_header(&mut self) -> Result<(), RecordingError> {
        let absent = damaged(self.offset, "the header is absent");
        let Some((HEADER, offset)) = self.next_record()? else { return Err(absent) };
        let mut cursor = Cursor::new(&self.record, offset);
        let count = cursor.count()?;
        if count > PLACEMENTS {
            return Err(cursor.damaged("there are over 16 placements"));
        }
        self.header.processor = cursor.text(LONGEST_NAME)?.into();
        for _ in 0..count {
            self.header.placements.push(cursor.text(LONGEST_NAME)?.into());
        }
        cursor.end()
    }

    /// Reads a record and returns its kind and the offset of its payload. Returns `None` at the end of the file, or
    /// if the last record is incomplete.
    fn next_record(&mut self) -> Result<Option<(u8, u64)>, RecordingError> {
        let mut head = [0; 9];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let [kind, l0, l1, l2, l3, c0, c1, c2, c3] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > LARGEST {
            return Err(damaged(self.offset - 8, "a record is too long"));
        }
        let offset = self.offset;
        self.record.clear();
        let taken = self.file.by_ref().take(length as u64).read_to_end(&mut self.record);
        taken.map_err(|error| RecordingError::Io { offset, error })?;
        self.offset += self.record.len() as u64;
        if self.record.len() < length {
            self.is_cut = true;
            return Ok(None);
        }
        if checksum(kind, &self.record) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(damaged(offset, "the checksum of a record differs"));
        }
        Ok(Some((kind, offset)))
    }

    /// Reads the next bytes of the file until `bytes` is full. Returns `false` if the file ends before. If the file
    /// ends after at least one of these bytes, the file is marked as cut.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, RecordingError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read(&mut bytes[done..]) {
                Ok(0) => {
                    self.is_cut = done > 0;
                    return Ok(false);
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(RecordingError::Io { offset: self.offset, error }),
            }
        }
        self.offset += done as u64;
        Ok(true)
    }
}

fn damaged(offset: u64, what: &'static str) -> RecordingError {
    RecordingError::Damaged { offset, what }
}
