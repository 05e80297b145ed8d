//! Translated code: blocks of the guest program's instructions, as QEMU executes them and as the recorder describes
//! them.

use crate::decode::{Decoded, Flow, InstructionDecoder};
use crate::qemu::TranslatedBlock;
use std::collections::HashMap;
use unrack_lines::instruction::{BlockEnding, CodeBlock, MemoryUse};

/// Block of translated code. It is never freed, because code that QEMU has generated refers to it.
#[derive(Debug)]
pub(crate) struct Code {
    /// Number of the block, in the order in which QEMU first translated the blocks.
    pub(crate) number: u32,
    /// The block as the core model represents it.
    pub(crate) block: CodeBlock,
    /// For each instruction, the kind of its memory accesses.
    pub(crate) sites: Box<[AccessSite]>,
    /// Ways in which execution can continue after the last instruction.
    pub(crate) flow: Flow,
    /// Address of the last instruction.
    pub(crate) last: u64,
    /// Whether the last instruction has a `rep` prefix.
    pub(crate) ends_repeated: bool,
    /// Number of software prefetches in the block.
    pub(crate) prefetches: u16,
    /// Function that contains the block, if the program has a symbol table.
    pub(crate) function: Option<Box<str>>,
}

/// Kind of the memory accesses of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessSite {
    /// No access, or an access that QEMU does not report, namely a software prefetch.
    Silent,
    /// Loads and stores that pass through the caches.
    Cached,
    /// Load and store that form one atomic operation.
    Atomic,
    /// Stores that bypass the caches.
    Nontemporal,
}

/// Reason why execution left a block, as derived from the address of the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockExit {
    /// The block was executed completely, and execution continued at a successor of its last instruction.
    Whole,
    /// The last instruction is a repeated string instruction, which QEMU executes once more.
    Repeated,
    /// Execution continued elsewhere, because a signal arrived.
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
        // A block has at most 512 instructions of 15 bytes.
        let bytes = (behind - pc) as u32;
        let block = CodeBlock { pc, bytes, instructions, ending: flow.ending };
        Code { number, block, sites, flow, last, ends_repeated, prefetches, function }
    }

    /// Returns the number of instructions.
    pub(crate) fn length(&self) -> u16 {
        // QEMU translates at most 512 instructions at once (TCG_MAX_INSNS).
        self.sites.len() as u16
    }

    /// Returns the reason why execution left this block, given the address of the next block.
    pub(crate) fn step(&self, next: u64) -> BlockExit {
        let is_expected = match self.flow.ending {
            BlockEnding::Falls => next == self.block.behind(),
            BlockEnding::Jump => next == self.flow.target,
            BlockEnding::Conditional => next == self.flow.target || next == self.block.behind(),
            BlockEnding::Indirect | BlockEnding::Return => true,
        };
        match is_expected {
            true => BlockExit::Whole,
            false if self.ends_repeated && next == self.last => BlockExit::Repeated,
            false => BlockExit::Interrupted,
        }
    }

    /// Returns the number of instructions of this block that were executed before a signal interrupted it, given the
    /// index of the instruction that made the last access.
    ///
    /// If an instruction faults, its access is missing, which marks the position of the fault. Signals without a fault
    /// arrive only between blocks.
    pub(crate) fn executed(&self, last_access: Option<u16>) -> u16 {
        let seen = last_access.map_or(0, |index| index as usize + 1);
        let due = self.sites.iter().skip(seen).position(|site| *site != AccessSite::Silent);
        due.map_or(self.length(), |index| (seen + index).max(1) as u16)
    }
}

fn site(decoded: &Decoded) -> AccessSite {
    match decoded.instruction.memory {
        MemoryUse::None | MemoryUse::Prefetch => AccessSite::Silent,
        MemoryUse::NontemporalStore => AccessSite::Nontemporal,
        _ if decoded.is_atomic => AccessSite::Atomic,
        MemoryUse::Load | MemoryUse::Store | MemoryUse::Modify => AccessSite::Cached,
    }
}

/// Identity of a block of code: its address and its bytes. The two are needed, because QEMU may translate the same code
/// more than once, and a program may replace the code at an address.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    pc: u64,
    bytes: Box<[u8]>,
}

/// All blocks of code that QEMU has translated, each contained once.
pub(crate) struct Codes {
    decoder: InstructionDecoder,
    all: Vec<&'static Code>,
    known: HashMap<Key, &'static Code>,
}

impl Codes {
    pub(crate) fn new() -> Codes {
        Codes { decoder: InstructionDecoder::new(), all: Vec::new(), known: HashMap::default() }
    }

    /// Returns the recorder's block for a translation by QEMU, or `None` if the translation contains no instruction. If
    /// the same code was translated before, the existing block is returned.
    pub(crate) fn translated(&mut self, translation: &TranslatedBlock<'_>) -> Option<&'static Code> {
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
        // An instruction that begins on the block's page and ends on the next one gets its own block in QEMU. Version
        // 7.2 also lists it here, with only the bytes on this page, but never executes it here.
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

    /// Returns all blocks, indexed by block number.
    pub(crate) fn all(&self) -> &[&'static Code] {
        &self.all
    }
}
