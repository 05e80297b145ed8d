//! Translated code: blocks as QEMU executes them, and as the recording knows them.

use crate::decode::{Decoded, Decoder, Flow};
use crate::qemu::Translation;
use std::collections::HashMap;
use unrack_lines::instruction::{BlockEnding, CodeBlock, MemoryUse};

/// Block of translated code. It lives as long as the process: QEMU's code refers to it.
#[derive(Debug)]
pub(crate) struct Code {
    /// Number in the order of the first translations.
    pub(crate) number: u32,
    /// Block of the model.
    pub(crate) block: CodeBlock,
    /// Accesses to expect, by instruction.
    pub(crate) sites: Box<[Site]>,
    /// Continuation after the last instruction.
    pub(crate) flow: Flow,
    /// Address of the last instruction.
    pub(crate) last: u64,
    /// Whether the last instruction has a `rep` prefix.
    pub(crate) ends_repeated: bool,
    /// Software prefetches among its instructions.
    pub(crate) prefetches: u16,
    /// Function that it belongs to, where the program has a table of symbols.
    pub(crate) function: Option<Box<str>>,
}

/// Kind of the accesses of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// None, or one that QEMU does not announce: a software prefetch.
    Silent,
    /// Loads and stores that pass through the caches.
    Cached,
    /// Load and store in one piece.
    Atomic,
    /// Stores that bypass the caches.
    Nontemporal,
}

/// Continuation of an execution, seen from the block that it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockStep {
    /// Way to where the last instruction leads.
    Whole,
    /// Way to the last instruction again: it is repeated.
    Repeated,
    /// Elsewhere: a signal came.
    Interrupted,
}

impl Code {
    fn new(
        number: u32,
        pc: u64,
        decoded: Vec<(u64, Decoded)>,
        behind: u64,
        function: Option<Box<str>>,
    ) -> Code {
        let (last, end) = decoded.last().expect("QEMU translates no empty block");
        let (last, flow, ends_repeated) = (*last, end.flow, end.is_repeated);
        let is_prefetch = |decoded: &Decoded| decoded.instruction.memory == MemoryUse::Prefetch;
        let prefetches = decoded.iter().filter(|(_, decoded)| is_prefetch(decoded)).count() as u16;
        let sites = decoded.iter().map(|(_, decoded)| site(decoded)).collect();
        let instructions = decoded.into_iter().map(|(_, decoded)| decoded.instruction).collect();
        // 512 instructions of 15 bytes at most.
        let bytes = (behind - pc) as u32;
        let block = CodeBlock { pc, bytes, instructions, ending: flow.ending };
        Code { number, block, sites, flow, last, ends_repeated, prefetches, function }
    }

    /// Returns the number of its instructions.
    pub(crate) fn length(&self) -> u16 {
        // QEMU translates at most 512 at once (TCG_MAX_INSNS).
        self.sites.len() as u16
    }

    /// Tells how execution went on, when the next block begins at `next`.
    pub(crate) fn step(&self, next: u64) -> BlockStep {
        let is_expected = match self.flow.ending {
            BlockEnding::Falls => next == self.block.behind(),
            BlockEnding::Jump => next == self.flow.target,
            BlockEnding::Conditional => next == self.flow.target || next == self.block.behind(),
            BlockEnding::Indirect | BlockEnding::Return => true,
        };
        match is_expected {
            true => BlockStep::Whole,
            false if self.ends_repeated && next == self.last => BlockStep::Repeated,
            false => BlockStep::Interrupted,
        }
    }

    /// Returns the number of instructions that were executed before a signal, given the instruction of the last access.
    ///
    /// A fault is announced by the absence of an access that was due; other signals come between blocks.
    pub(crate) fn executed(&self, last_access: Option<u16>) -> u16 {
        let seen = last_access.map_or(0, |index| index as usize + 1);
        let due = self.sites.iter().skip(seen).position(|site| *site != Site::Silent);
        due.map_or(self.length(), |index| (seen + index).max(1) as u16)
    }
}

fn site(decoded: &Decoded) -> Site {
    match decoded.instruction.memory {
        MemoryUse::None | MemoryUse::Prefetch => Site::Silent,
        MemoryUse::NontemporalStore => Site::Nontemporal,
        _ if decoded.is_atomic => Site::Atomic,
        MemoryUse::Load | MemoryUse::Store | MemoryUse::Modify => Site::Cached,
    }
}

/// Identity of code: QEMU translates the same more than once, and a program may replace it.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    pc: u64,
    bytes: Box<[u8]>,
}

/// Code that was translated.
pub(crate) struct Codes {
    decoder: Decoder,
    all: Vec<&'static Code>,
    known: HashMap<Key, &'static Code>,
}

impl Codes {
    pub(crate) fn new() -> Codes {
        Codes { decoder: Decoder::new(), all: Vec::new(), known: HashMap::default() }
    }

    /// Returns the code of a translation.
    pub(crate) fn translated(&mut self, translation: &Translation<'_>) -> Option<&'static Code> {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        let mut function = None;
        for instruction in translation.instructions() {
            starts.push((instruction.address(), bytes.len()));
            bytes.extend_from_slice(instruction.bytes());
            function = function.or_else(|| instruction.symbol().map(|name| name.to_string_lossy().into()));
        }
        let pc = starts.first()?.0;
        let (last, offset) = *starts.last()?;
        // QEMU leaves an instruction that begins on the block's page and ends on the next to a block of its own. Version 7.2
        // lists it here too, with the bytes on this page; it is never executed here.
        if starts.len() > 1 && self.decoder.is_cut(&bytes[offset..], last) {
            starts.pop();
            bytes.truncate(offset);
        }
        let key = Key { pc, bytes: bytes.into() };
        if let Some(code) = self.known.get(&key) {
            return Some(code);
        }
        let (last, offset) = *starts.last()?;
        let behind = last + (key.bytes.len() - offset) as u64;
        let decoder = &mut self.decoder;
        let decoded = starts
            .iter()
            .map(|(address, offset)| (*address, decoder.decode(&key.bytes[*offset..], *address)));
        let code = Code::new(self.all.len() as u32, pc, decoded.collect(), behind, function);
        let code: &'static Code = Box::leak(Box::new(code));
        self.all.push(code);
        self.known.insert(key, code);
        Some(code)
    }

    /// Returns all code, in the order of its numbers.
    pub(crate) fn all(&self) -> &[&'static Code] {
        &self.all
    }
}
