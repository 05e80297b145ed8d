//! Packet captures: pcapng (draft-ietf-opsawg-pcapng), with times in picoseconds.
//!
//! Blocks are little-endian and consist of whole 32-bit words. The file is written sequentially, so an interface is described before its
//! first packet.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::{AtomicFile, RecordError};

/// Format of the first header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkType {
    Ethernet = 1,
    /// Format defined by the user: `LINKTYPE_USER0`.
    User0 = 147,
}

/// One captured packet.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// Number of the interface, as returned by [`Pcapng::interface`].
    pub interface: u32,
    pub time_ps: u64,
    /// Captured bytes of the packet.
    pub bytes: &'a [u8],
    /// Original length in bytes, at least the captured length.
    pub length: u32,
    /// Comment for human readers; may be empty.
    pub comment: &'a str,
}

/// Capture that is being written. The file appears only when [`Pcapng::finish`] is called.
pub struct Pcapng {
    file: BufWriter<AtomicFile>,
    interfaces: u32,
    block: Vec<u8>,
}

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_SPEED: u16 = 8;
const TIME_RESOLUTION: u16 = 9;
/// Time resolution: units of 10^-12 s.
const PICOSECONDS: u8 = 12;

impl Pcapng {
    /// Starts a capture in the file `path`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Pcapng, RecordError> {
        let file = BufWriter::new(AtomicFile::create(path)?);
        let mut pcapng = Pcapng { file, interfaces: 0, block: Vec::new() };
        pcapng.word(BYTE_ORDER);
        pcapng.half(1); // version 1.0
        pcapng.half(0);
        pcapng.block.extend(u64::MAX.to_le_bytes()); // section length unknown
        pcapng.option(USER_APPLICATION, format!("unrack {}", env!("CARGO_PKG_VERSION")).as_bytes());
        pcapng.end_options();
        pcapng.end(SECTION_HEADER)?;
        Ok(pcapng)
    }

    /// Describes one direction of a link with this rate. Returns the number of the interface, from 0.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn interface(&mut self, name: &str, link: LinkType, rate_bps: u64) -> Result<u32, RecordError> {
        self.half(link as u16);
        self.half(0);
        self.word(0); // no limit on the captured length of a packet
        self.option(INTERFACE_NAME, name.as_bytes());
        self.option(INTERFACE_SPEED, &rate_bps.to_le_bytes());
        self.option(TIME_RESOLUTION, &[PICOSECONDS]);
        self.end_options();
        self.end(INTERFACE_DESCRIPTION)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a packet.
    ///
    /// # Panics
    /// If the interface was not described before.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn packet(&mut self, packet: &Captured) -> Result<(), RecordError> {
        assert!(packet.interface < self.interfaces, "an interface is described before its packets");
        self.word(packet.interface);
        self.word((packet.time_ps >> 32) as u32);
        self.word(packet.time_ps as u32);
        self.word(packet.bytes.len() as u32);
        self.word(packet.length);
        self.padded(packet.bytes);
        if !packet.comment.is_empty() {
            self.option(COMMENT, packet.comment.as_bytes());
            self.end_options();
        }
        self.end(ENHANCED_PACKET)
    }

    /// Completes the file and gives it its final name.
    ///
    /// # Errors
    /// If the file cannot be written or renamed.
    pub fn finish(self) -> Result<(), RecordError> {
        let path = self.file.get_ref().path().to_path_buf();
        let file = self.file.into_inner().map_err(|why| RecordError::io("write", &path)(why.into_error()))?;
        file.commit()
    }

    fn word(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    fn half(&mut self, value: u16) {
        self.block.extend(value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.half(code);
        self.half(u16::try_from(value.len()).expect("options are short"));
        self.padded(value);
    }

    fn end_options(&mut self) {
        self.word(0);
    }

    /// Writes the collected block: type, length, content, length again.
    fn end(&mut self, kind: u32) -> Result<(), RecordError> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        let parts = [&kind.to_le_bytes(), &length, &self.block[..], &length];
        let written = parts.into_iter().try_for_each(|part| self.file.write_all(part));
        self.block.clear();
        written.map_err(|why| RecordError::io("write", self.file.get_ref().path())(why))
    }
}
