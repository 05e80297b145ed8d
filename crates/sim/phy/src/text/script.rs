//! Text script of blocks, frames, messages and requests to send, one per line. A line is a verb followed by `name=value` for each of the
//! verb's parameters.
//!
//! ```text
//! frame hex=0180c2…  or  frame bytes=64        contents without FCS; of `bytes`, 00 01 02 …
//! idle blocks=4
//! read node=1 id=2 address=0x40 bytes=64        RREQ
//! write node=1 id=2 address=0x40 hex=0011       WREQ; last=no if more follows
//! cas node=1 id=2 address=8 expected=0 new=1    RMWREQ: compare and swap; add ... addend=1; swap ... new=1
//! response node=1 id=2 hex=0011                 RRES; last=no if more follows; without hex, NULL
//! notify node=1 id=2 bytes=64                   /N/
//! grant node=1 id=2 bytes=64 of=write           /G/, of=write or of=response
//! ```
//!
//! Text after `#` is a comment.

use crate::edm::layout::NODES;
use crate::edm::{Body, ControlFields, Kind, MemoryMessage, RmwOperation};
use crate::mac::MAX_FRAME;
use unrack_units::nearest::hint;

/// Content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Frame(Vec<u8>),
    Idle(usize),
    Message(MemoryMessage),
    Notification(ControlFields),
    Grant(ControlFields),
}

/// Maximum number of idle blocks that one line of a script can request.
const MOST_IDLE: u64 = 1 << 20;

/// Fields of a script line. The caller takes the values that the verb has; [`Fields::finish`] refuses the line if any value was not taken.
#[derive(Debug)]
pub struct Fields<'a> {
    pub verb: &'a str,
    values: Vec<(&'a str, &'a str)>,
    /// Names of the values that the caller has asked for so far.
    asked: Vec<String>,
}

impl<'a> Fields<'a> {
    /// Splits a line. Returns `None` if it is empty.
    ///
    /// # Errors
    /// Description of the word that is wrong: it is not a verb of a script, not of the form `name=value`, or repeats a
    /// name.
    pub fn parse(line: &'a str) -> Result<Option<Fields<'a>>, String> {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(verb) = words.next() else { return Ok(None) };
        if !VERBS.contains(&verb) {
            return Err(format!("no line begins with `{verb}`{}", hint(verb, &VERBS)));
        }
        let mut values: Vec<(&str, &str)> = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').ok_or(format!("`{word}` is no name=value"))?;
            if values.iter().any(|(known, _)| *known == name) {
                return Err(format!("`{name}` is there twice"));
            }
            values.push((name, value));
        }
        Ok(Some(Fields { verb, values, asked: Vec::new() }))
    }

    /// Takes a value by its name.
    pub fn take(&mut self, name: &str) -> Option<&'a str> {
        self.asked.push(name.into());
        let at = self.values.iter().position(|(known, _)| *known == name)?;
        Some(self.values.remove(at).1)
    }

    /// Takes the value `name`, a decimal or hex number of at most `most`.
    ///
    /// # Errors
    /// Description of the error: the name is missing, or its value is not a number or is above `most`.
    pub fn number(&mut self, name: &str, most: u64) -> Result<u64, String> {
        let text = self.take(name).ok_or(format!("`{}` needs {name}=", self.verb))?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let number = number.map_err(|_| format!("{name}={text} is no number, such as 64 or 0x40"))?;
        if number > most { Err(format!("{name}={text} is above {most}")) } else { Ok(number) }
    }

    /// Takes the value `name`, a number of at most `most`. Returns `default` if the line has no such value.
    ///
    /// # Errors
    /// Description of the error: the value is not a number, or is above `most`.
    pub fn number_or(&mut self, name: &str, most: u64, default: u64) -> Result<u64, String> {
        if self.has(name) {
            return self.number(name, most);
        }
        self.asked.push(name.into());
        Ok(default)
    }

    /// Takes the value `name`, at most `most` bytes in hex. Returns an empty vector if the line has no such value.
    ///
    /// # Errors
    /// Description of the error: the value is not hex with two digits per byte, or is longer than `most` bytes.
    pub fn bytes(&mut self, name: &str, most: usize) -> Result<Vec<u8>, String> {
        let text = self.take(name).unwrap_or("");
        let digits = text.is_ascii() && text.len().is_multiple_of(2);
        let byte = |at: usize| {
            u8::from_str_radix(&text[at..at + 2], 16).ok().filter(|_| !text[at..].starts_with('+'))
        };
        let bytes: Option<Vec<u8>> = digits.then(|| (0..text.len()).step_by(2).map(byte).collect()).flatten();
        let bytes = bytes.ok_or(format!("{name}={text} is no hex, two digits a byte"))?;
        if bytes.len() > most { Err(format!("{name}= is longer than {most} bytes")) } else { Ok(bytes) }
    }

    /// Returns whether the line has a value with this name that the caller has not taken yet.
    pub fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| *known == name)
    }

    /// Verifies that every value was taken.
    ///
    /// # Errors
    /// If the caller has not taken all values. The error describes the first such value, and suggests the name that was probably meant.
    pub fn finish(self) -> Result<(), String> {
        match self.values.first() {
            Some((name, _)) => {
                let known: Vec<&str> = self.asked.iter().map(String::as_str).collect();
                Err(format!("`{}` has no {name}={}", self.verb, hint(name, &known)))
            }
            None => Ok(()),
        }
    }
}

/// Parses a line. Returns `None` if it is empty.
///
/// # Errors
/// Description of the error in the line: its verb, a name that is missing or unknown for this verb, or a value that is
/// out of bounds.
pub fn parse(line: &str) -> Result<Option<Item>, String> {
    let Some(mut fields) = Fields::parse(line)? else { return Ok(None) };
    let item = match fields.verb {
        "frame" => Item::Frame(frame(&mut fields)?),
        "idle" => Item::Idle(fields.number("blocks", MOST_IDLE)? as usize),
        "notify" => Item::Notification(control(&mut fields, Kind::Write)?),
        "grant" => {
            let kind = match fields.take("of") {
                Some("write") => Kind::Write,
                Some("response") => Kind::Response,
                _ => return Err("`grant` needs of=write or of=response".into()),
            };
            Item::Grant(control(&mut fields, kind)?)
        }
        _ => {
            let node = fields.number("node", u64::from(NODES) - 1)? as u16;
            let id = fields.number("id", 255)? as u8;
            Item::Message(MemoryMessage { node, id, body: body(&mut fields)? })
        }
    };
    fields.finish()?;
    Ok(Some(item))
}

/// Takes the contents of a frame.
///
/// # Errors
/// Description of the error: `bytes` is not a number, `hex` is not hex, or the frame is longer than [`MAX_FRAME`].
pub fn frame(fields: &mut Fields) -> Result<Vec<u8>, String> {
    if let Some(text) = fields.take("bytes") {
        let bytes: usize = text.parse().map_err(|_| format!("bytes={text} is no number"))?;
        if bytes > MAX_FRAME {
            return Err(format!("bytes={text} is above {MAX_FRAME}"));
        }
        return Ok((0..bytes).map(|at| at as u8).collect());
    }
    fields.bytes("hex", MAX_FRAME)
}

/// Verbs that may begin a line.
const VERBS: [&str; 10] =
    ["frame", "idle", "read", "write", "cas", "add", "swap", "response", "notify", "grant"];

/// Takes the body of a message: the address and the parameters of a request, or the data of a response.
///
/// # Errors
/// Description of the error: the verb does not name a message, a required value is missing, or a value is malformed or
/// out of bounds.
pub fn body(fields: &mut Fields) -> Result<Body, String> {
    let most = usize::from(u16::MAX);
    if fields.verb == "response" {
        let last = last(fields)?;
        return Ok(Body::Response { last, data: fields.bytes("hex", most)? });
    }
    if !["read", "write", "cas", "add", "swap"].contains(&fields.verb) {
        let verb = fields.verb;
        return Err(format!("`{verb}` asks a node for nothing"));
    }
    let address = fields.number("address", u64::MAX)?;
    Ok(match fields.verb {
        "read" => Body::Read { address, bytes: at_least_one(fields)? },
        "write" => {
            let data = fields.bytes("hex", most)?;
            if data.is_empty() {
                return Err("`write` needs hex= with at least one byte".into());
            }
            Body::Write { address, last: last(fields)?, data }
        }
        "cas" => {
            let (expected, new) = (fields.number("expected", u64::MAX)?, fields.number("new", u64::MAX)?);
            Body::Modify { address, operation: RmwOperation::CompareSwap { expected, new } }
        }
        "add" => {
            let addend = fields.number("addend", u64::MAX)?;
            Body::Modify { address, operation: RmwOperation::FetchAdd { addend } }
        }
        _ => {
            let new = fields.number("new", u64::MAX)?;
            Body::Modify { address, operation: RmwOperation::Swap { new } }
        }
    })
}

fn last(fields: &mut Fields) -> Result<bool, String> {
    match fields.take("last") {
        None | Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(other) => Err(format!("last={other} is neither yes nor no")),
    }
}

fn at_least_one(fields: &mut Fields) -> Result<u16, String> {
    match fields.number("bytes", u64::from(u16::MAX))? {
        0 => Err("bytes=0 is nothing".into()),
        bytes => Ok(bytes as u16),
    }
}

fn control(fields: &mut Fields, kind: Kind) -> Result<ControlFields, String> {
    let node = fields.number("node", u64::from(NODES) - 1)? as u16;
    let id = fields.number("id", 255)? as u8;
    Ok(ControlFields { kind, node, id, size: at_least_one(fields)? })
}
