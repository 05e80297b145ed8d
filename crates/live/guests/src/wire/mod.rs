//! Protocol between the process of a rack and the agent in a guest: frames on a stream of bytes.
//!
//! ```text
//! kind: u8 | program: u32 | length: u32 | payload            numbers are little-endian
//! ```
//!
//! Each end first sends [`Frame::Hello`] with its version. Frames of several programs mix on one stream; `program` is the number of the
//! frame's program. At most [`WINDOW`] frames of a program's stream are in flight: an end that has passed a frame on answers with
//! [`Frame::Took`]. Therefore a program whose output is not read does not hold up others. Each end must expect that the other is faulty or
//! malicious: lengths are bounded, and a malformed frame is an error, after which the stream is unusable.

use std::io::{self, Read, Write};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Version of this protocol. The two ends are of the same build, unless a file was replaced in between.
pub(crate) const VERSION: u32 = 1;
/// Frames of one stream of a program that may be in flight.
pub(crate) const WINDOW: usize = 8;
/// Maximum bytes of a program's stream in one frame.
pub(crate) const MOST_BYTES: usize = 32 << 10;
/// Maximum bytes of a payload. A long command line may need this size.
const MOST_PAYLOAD: usize = 4 << 20;

/// Start of a frame.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    kind: u8,
    program: U32,
    /// Length of the payload that follows, in bytes.
    length: U32,
}

const HEADER: usize = size_of::<Header>();
const _: () = assert!(HEADER == 9);

/// Stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Input,
    Output,
    Errors,
}

/// Program to run, with the data that it gets from the process that starts it. Texts are bytes, as in Linux.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    /// Name and arguments.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Folder to run in. If it does not exist in the guest, the program runs in the root.
    pub(crate) folder: Vec<u8>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestExit {
    Exited(u8),
    /// This signal ended the program.
    Signalled(u8),
    /// The program failed to start. `status` is the status that a shell would return, and `why` is the reason.
    NotStarted {
        status: u8,
        why: String,
    },
}

/// Message between the two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello {
        version: u32,
    },
    Start {
        program: u32,
        it: Program,
    },
    /// Bytes of a stream; an empty frame marks its end.
    Bytes {
        program: u32,
        stream: Stream,
        bytes: Vec<u8>,
    },
    /// One frame of a stream was passed on.
    Took {
        program: u32,
        stream: Stream,
    },
    /// Signal for the program, or the agent's answer to it.
    Signal {
        program: u32,
        signal: u8,
    },
    /// The process that started the program is gone, so the program is killed.
    Leave {
        program: u32,
    },
    Ended {
        program: u32,
        outcome: GuestExit,
    },
}

/// Reason why a stream cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a frame of the agent's protocol is malformed: {0}")]
    Malformed(&'static str),
    #[error("the agent speaks version {0} of its protocol, not {VERSION}: take the rack down, and up again")]
    Version(u32),
}

use WireError::Malformed;

impl Stream {
    const ALL: [Stream; 3] = [Stream::Input, Stream::Output, Stream::Errors];

    fn from_byte(byte: u8) -> Result<Stream, WireError> {
        Stream::ALL.get(usize::from(byte)).copied().ok_or(Malformed("no such stream"))
    }
}

impl Frame {
    /// Returns the program that the frame is about; `None` for [`Frame::Hello`].
    pub(crate) fn program(&self) -> Option<u32> {
        match self {
            Frame::Hello { .. } => None,
            Frame::Start { program, .. }
            | Frame::Bytes { program, .. }
            | Frame::Took { program, .. }
            | Frame::Signal { program, .. }
            | Frame::Leave { program }
            | Frame::Ended { program, .. } => Some(*program),
        }
    }

    /// Returns the same frame with another program number.
    pub(crate) fn with_program(mut self, number: u32) -> Frame {
        match &mut self {
            Frame::Hello { .. } => {}
            Frame::Start { program, .. }
            | Frame::Bytes { program, .. }
            | Frame::Took { program, .. }
            | Frame::Signal { program, .. }
            | Frame::Leave { program }
            | Frame::Ended { program, .. } => *program = number,
        }
        self
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// Fails if `to` cannot be written, or with [`io::ErrorKind::InvalidInput`] if the frame is longer than the protocol allows.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let bytes = self.to_bytes();
        if bytes.len() > HEADER + MOST_PAYLOAD {
            let why = format!("arguments and environment have more than {} MiB", MOST_PAYLOAD >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        to.write_all(&bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Frame::Hello { version } => (0, version.to_le_bytes().to_vec()),
            Frame::Start { it, .. } => (1, it.to_bytes()),
            Frame::Bytes { stream, bytes, .. } => (2, [&[*stream as u8], &bytes[..]].concat()),
            Frame::Took { stream, .. } => (3, vec![*stream as u8]),
            Frame::Signal { signal, .. } => (4, vec![*signal]),
            Frame::Leave { .. } => (5, Vec::new()),
            Frame::Ended { outcome, .. } => (6, outcome.to_bytes()),
        };
        let program = self.program().unwrap_or(0).into();
        let header = Header { kind, program, length: (payload.len() as u32).into() };
        [header.as_bytes(), &payload].concat()
    }

    /// Reads a frame; `None` at the end of the stream.
    ///
    /// # Errors
    /// Fails if `from` cannot be read, if it ends inside a frame, or if a frame is malformed.
    pub(crate) fn read(from: &mut impl Read) -> Result<Option<Frame>, WireError> {
        let mut header = [0; HEADER];
        match from.read(&mut header[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => from.read_exact(&mut header[1..])?,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => return Frame::read(from),
            Err(why) => return Err(why.into()),
        }
        let Header { kind, program, length } = transmute!(header);
        let length = u32::from(length) as usize;
        if length > longest(kind)? {
            return Err(Malformed("it is too long"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Frame::from_payload(kind, program.into(), &payload).map(Some)
    }

    fn from_payload(kind: u8, program: u32, payload: &[u8]) -> Result<Frame, WireError> {
        let mut rest = Rest(payload);
        let frame = match kind {
            0 => Frame::Hello { version: rest.number()? },
            1 => Frame::Start { program, it: Program::from_rest(&mut rest)? },
            2 => Frame::Bytes { program, stream: Stream::from_byte(rest.byte()?)?, bytes: rest.all() },
            3 => Frame::Took { program, stream: Stream::from_byte(rest.byte()?)? },
            4 => Frame::Signal { program, signal: rest.byte()? },
            5 => Frame::Leave { program },
            6 => Frame::Ended { program, outcome: GuestExit::from_rest(&mut rest)? },
            _ => return Err(Malformed("no such kind")),
        };
        match rest.0 {
            [] => Ok(frame),
            _ => Err(Malformed("bytes follow its last field")),
        }
    }
}

/// Returns the most bytes that the payload of this kind of frame may have.
fn longest(kind: u8) -> Result<usize, WireError> {
    match kind {
        0 => Ok(4),
        1 => Ok(MOST_PAYLOAD),
        2 => Ok(1 + MOST_BYTES),
        3 | 4 => Ok(1),
        5 => Ok(0),
        6 => Ok(2 + MOST_WHY),
        _ => Err(Malformed("no such kind")),
    }
}

/// Maximum bytes of a reason.
const MOST_WHY: usize = 4096;

impl Program {
    fn to_bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut text = |bytes: &[u8]| {
            all.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            all.extend_from_slice(bytes);
        };
        text(&self.folder);
        text(&(self.words.len() as u32).to_le_bytes());
        self.words.iter().for_each(|word| text(word));
        for (name, value) in &self.variables {
            text(name);
            text(value);
        }
        all
    }

    fn from_rest(rest: &mut Rest) -> Result<Program, WireError> {
        let folder = rest.text()?;
        let count = Rest(&rest.text()?).number()?;
        // A wrong count ends with the payload, because each word takes at least 4 bytes.
        let words = (0..count).map(|_| rest.text()).collect::<Result<Vec<_>, _>>()?;
        let mut variables = Vec::new();
        while !rest.0.is_empty() {
            variables.push((rest.text()?, rest.text()?));
        }
        match words.is_empty() {
            true => Err(Malformed("a program has no name")),
            false => Ok(Program { words, variables, folder }),
        }
    }
}

impl GuestExit {
    /// Returns the exit status that a shell would return.
    pub fn status(&self) -> u8 {
        match self {
            GuestExit::Exited(status) | GuestExit::NotStarted { status, .. } => *status,
            GuestExit::Signalled(signal) => signal.saturating_add(128),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            GuestExit::Exited(status) => vec![0, *status],
            GuestExit::Signalled(signal) => vec![1, *signal],
            GuestExit::NotStarted { status, why } => {
                let why = &why.as_bytes()[..why.floor_char_boundary_to(MOST_WHY)];
                [&[2, *status], why].concat()
            }
        }
    }

    fn from_rest(rest: &mut Rest) -> Result<GuestExit, WireError> {
        let (kind, number) = (rest.byte()?, rest.byte()?);
        match kind {
            0 => Ok(GuestExit::Exited(number)),
            1 => Ok(GuestExit::Signalled(number)),
            2 => {
                let why = String::from_utf8(rest.all()).map_err(|_| Malformed("a reason is not UTF-8"))?;
                Ok(GuestExit::NotStarted { status: number, why })
            }
            _ => Err(Malformed("no such outcome")),
        }
    }
}

trait FloorChar {
    fn floor_char_boundary_to(&self, most: usize) -> usize;
}

impl FloorChar for String {
    /// Returns the largest length up to `most` that does not split a character.
    fn floor_char_boundary_to(&self, most: usize) -> usize {
        let most = most.min(self.len());
        (0..=most).rev().find(|&at| self.is_char_boundary(at)).unwrap_or(0)
    }
}

/// Unread part of a payload.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends inside a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u32, WireError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> Result<Vec<u8>, WireError> {
        let length = self.number()? as usize;
        Ok(self.take(length)?.to_vec())
    }

    fn all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }
}

#[cfg(test)]
mod tests;
