//! Encoding of code blocks and windows as payloads of the records of a recording.

use super::RecordingError;
use super::bytes::{Cursor, put, put_difference};
use super::history::{AccessShape, History};
use crate::instruction::{BlockEnding, CodeBlock, Instruction, MemoryUse, OperationClass};
use crate::window::{
    BlockStep, CodeFetch, LineAccess, Prefetch, RecordedWindow, ServedBy, WalkLoads, WriteBack,
};

const OPERATIONS: [OperationClass; 13] = [
    OperationClass::Nothing,
    OperationClass::Integer,
    OperationClass::Multiply,
    OperationClass::Divide32,
    OperationClass::Divide64,
    OperationClass::Vector,
    OperationClass::FloatAdd,
    OperationClass::FloatMultiply,
    OperationClass::FloatDivide,
    OperationClass::Cross,
    OperationClass::Branch,
    OperationClass::Serializing,
    OperationClass::SystemCall,
];
const MEMORIES: [MemoryUse; 6] = [
    MemoryUse::None,
    MemoryUse::Load,
    MemoryUse::Store,
    MemoryUse::Modify,
    MemoryUse::NontemporalStore,
    MemoryUse::Prefetch,
];
const ENDINGS: [BlockEnding; 5] = [
    BlockEnding::Falls,
    BlockEnding::Jump,
    BlockEnding::Conditional,
    BlockEnding::Indirect,
    BlockEnding::Return,
];
const SERVED: [ServedBy; 5] = [ServedBy::L1, ServedBy::L2, ServedBy::L3, ServedBy::Peer, ServedBy::Memory];

// Flags in the first byte of a step.
const IS_MISPREDICTED: u8 = 1;
const IS_PARTIAL: u8 = 2;
const HAS_COUNT: u8 = 4;
const HAS_BLOCK: u8 = 8;

// Flags in the first byte of an access. The lowest three bits encode the level that served it.
const SERVED_BITS: u8 = 7;
const HAS_SHAPE: u8 = 8;
const HAS_WALK: u8 = 16;
const HAS_NEAR: u8 = 32;
const HAS_ADDRESS: u8 = 64;

/// Returns the index of a value in a table. The table must contain the value.
fn number_of<T: PartialEq>(table: &[T], value: &T) -> u8 {
    table.iter().position(|entry| entry == value).expect("every value stands in its table") as u8
}

/// Returns `bit` if `is_set`, otherwise 0.
fn bit(bit: u8, is_set: bool) -> u8 {
    if is_set { bit } else { 0 }
}

fn value_of<T: Copy>(table: &[T], number: u8, cursor: &Cursor) -> Result<T, RecordingError> {
    table.get(usize::from(number)).copied().ok_or_else(|| cursor.damaged("a kind does not exist"))
}

/// Appends a code block.
pub(super) fn put_block(bytes: &mut Vec<u8>, block: &CodeBlock) {
    put(bytes, block.pc);
    put(bytes, u64::from(block.bytes));
    bytes.push(number_of(&ENDINGS, &block.ending));
    put(bytes, block.instructions.len() as u64);
    for instruction in &block.instructions {
        bytes.extend(instruction.address);
        bytes.extend(instruction.sources);
        bytes.extend(instruction.targets);
        bytes.push(number_of(&OPERATIONS, &instruction.operation));
        bytes.push(number_of(&MEMORIES, &instruction.memory));
        bytes.push(instruction.slots);
    }
}

/// Reads a code block.
///
/// # Errors
/// If the payload is not a valid code block.
pub(super) fn block(cursor: &mut Cursor) -> Result<CodeBlock, RecordingError> {
    let pc = cursor.number()?;
    let length = cursor.small()?;
    let ending = cursor.byte()?;
    let ending = value_of(&ENDINGS, ending, cursor)?;
    let count = cursor.count()?;
    let instructions = (0..count).map(|_| instruction(cursor)).collect::<Result<_, _>>()?;
    Ok(CodeBlock { pc, bytes: length, instructions, ending })
}

fn instruction(cursor: &mut Cursor) -> Result<Instruction, RecordingError> {
    let address = bytes(cursor)?;
    let sources = bytes(cursor)?;
    let targets = bytes(cursor)?;
    let [operation, memory, slots] = bytes(cursor)?;
    let operation = value_of(&OPERATIONS, operation, cursor)?;
    let memory = value_of(&MEMORIES, memory, cursor)?;
    Ok(Instruction { address, sources, targets, operation, slots, memory })
}

fn bytes<const N: usize>(cursor: &mut Cursor) -> Result<[u8; N], RecordingError> {
    let mut bytes = [0; N];
    for byte in &mut bytes {
        *byte = cursor.byte()?;
    }
    Ok(bytes)
}

/// State of the encoding or decoding of one window.
pub(super) struct WindowCoder<'a> {
    history: &'a mut History,
    /// Number of the block that is predicted to follow the previous step.
    next: u32,
    /// Address of the previous access.
    address: u64,
    /// Near masks of previous accesses: of the last access that a cache served (index 0), and of the last access that
    /// memory served (index 1).
    near: [u16; 2],
}

impl<'a> WindowCoder<'a> {
    /// Creates the state for the beginning of a window.
    pub(super) fn new(history: &'a mut History) -> WindowCoder<'a> {
        history.restart();
        WindowCoder { history, next: 0, address: 0, near: [0; 2] }
    }

    /// Appends a window. Given the block number of a step, `block` returns the number that this block has in the file,
    /// and the block itself.
    pub(super) fn put_window<'b>(
        mut self,
        bytes: &mut Vec<u8>,
        window: &RecordedWindow,
        block: impl Fn(u32) -> (u32, &'b CodeBlock),
    ) {
        put(bytes, u64::from(window.thread));
        put(bytes, window.start);
        put(bytes, u64::from(window.lead));
        put(bytes, window.steps.len() as u64);
        let ends = window.steps.iter().skip(1).map(|step| step.first_access as usize);
        for (step, end) in window.steps.iter().zip(ends.chain([window.accesses.len()])) {
            let (number, block) = block(step.block);
            self.put_step(bytes, step, number, block, &window.accesses[step.first_access as usize..end]);
        }
        put(bytes, window.fetches.len() as u64);
        let mut before = (0, 0);
        for fetch in &window.fetches {
            put_found_line(bytes, &mut before, (fetch.step, fetch.line, fetch.served, fetch.near));
        }
        put(bytes, window.prefetches.len() as u64);
        let mut before = (0, 0);
        for prefetch in &window.prefetches {
            put_found_line(
                bytes,
                &mut before,
                (prefetch.after, prefetch.line, prefetch.served, prefetch.near),
            );
        }
        put(bytes, window.write_backs.len() as u64);
        let mut before = (0, 0);
        for write_back in &window.write_backs {
            put_line(bytes, &mut before, write_back.after, write_back.line);
            put(bytes, u64::from(write_back.near));
        }
    }

    fn put_step(
        &mut self,
        bytes: &mut Vec<u8>,
        step: &BlockStep,
        number: u32,
        block: &CodeBlock,
        accesses: &[LineAccess],
    ) {
        let is_partial = usize::from(step.instructions) != block.instructions.len();
        let has_block = number != self.next;
        let expected = self.history.block(number, block);
        let has_count = accesses.len() as u32 != expected.accesses;
        expected.accesses = accesses.len() as u32;
        bytes.push(
            bit(IS_MISPREDICTED, step.is_mispredicted)
                | bit(IS_PARTIAL, is_partial)
                | bit(HAS_COUNT, has_count)
                | bit(HAS_BLOCK, has_block),
        );
        if has_block {
            put(bytes, u64::from(number));
        }
        if is_partial {
            put(bytes, u64::from(step.instructions));
        }
        if has_count {
            put(bytes, accesses.len() as u64);
        }
        for (index, access) in accesses.iter().enumerate() {
            let site = expected.site(index);
            let address = site.expected(self.address);
            let near = &mut self.near[usize::from(access.served == ServedBy::Memory)];
            put_access(bytes, access, site.shape, address, *near);
            site.learn(access);
            (self.address, *near) = (access.address, access.near);
        }
        self.next = self.history.follow(number);
    }

    /// Reads a window.
    ///
    /// # Errors
    /// If the payload is not a valid window.
    pub(super) fn window(
        mut self,
        cursor: &mut Cursor,
        blocks: &[CodeBlock],
    ) -> Result<RecordedWindow, RecordingError> {
        let mut window = RecordedWindow {
            thread: cursor.small()?,
            start: cursor.number()?,
            lead: cursor.small()?,
            ..RecordedWindow::default()
        };
        let steps = cursor.count()?;
        for _ in 0..steps {
            let step = self.step(cursor, blocks, &mut window.accesses)?;
            window.steps.push(step);
        }
        let mut before = (0, 0);
        for _ in 0..cursor.count()? {
            let (step, line, served, near) = found_line(cursor, &mut before)?;
            window.fetches.push(CodeFetch { step, line, served, near });
        }
        let mut before = (0, 0);
        for _ in 0..cursor.count()? {
            let (after, line, served, near) = found_line(cursor, &mut before)?;
            window.prefetches.push(Prefetch { after, line, served, near });
        }
        let mut before = (0, 0);
        for _ in 0..cursor.count()? {
            let (after, line) = line(cursor, &mut before)?;
            window.write_backs.push(WriteBack { after, line, near: cursor.small()? });
        }
        Ok(window)
    }

    fn step(
        &mut self,
        cursor: &mut Cursor,
        blocks: &[CodeBlock],
        accesses: &mut Vec<LineAccess>,
    ) -> Result<BlockStep, RecordingError> {
        let bits = cursor.byte()?;
        if bits > IS_MISPREDICTED | IS_PARTIAL | HAS_COUNT | HAS_BLOCK {
            return Err(cursor.damaged("a step has a flag that does not exist"));
        }
        let number = if bits & HAS_BLOCK == 0 { self.next } else { cursor.small()? };
        let unknown = || cursor.damaged("a step has a block that does not exist");
        let block = blocks.get(number as usize).ok_or_else(unknown)?;
        let instructions =
            if bits & IS_PARTIAL == 0 { block.instructions.len() as u16 } else { cursor.small()? };
        let expected = self.history.block(number, block);
        if bits & HAS_COUNT != 0 {
            expected.accesses = cursor.count()? as u32;
        }
        let first_access = accesses.len() as u32;
        for index in 0..expected.accesses as usize {
            let site = expected.site(index);
            let address = site.expected(self.address);
            let access = access(cursor, site.shape, address, &mut self.near)?;
            site.learn(&access);
            self.address = access.address;
            accesses.push(access);
        }
        self.next = self.history.follow(number);
        let is_mispredicted = bits & IS_MISPREDICTED != 0;
        Ok(BlockStep { block: number, instructions, first_access, is_mispredicted })
    }
}

fn put_access(bytes: &mut Vec<u8>, access: &LineAccess, shape: AccessShape, address: u64, near: u16) {
    let has_shape = AccessShape::from(access) != shape;
    let has_walk = access.walk != WalkLoads::default();
    let has_near = access.near != near;
    let has_address = access.address != address;
    bytes.push(
        number_of(&SERVED, &access.served)
            | bit(HAS_SHAPE, has_shape)
            | bit(HAS_WALK, has_walk)
            | bit(HAS_NEAR, has_near)
            | bit(HAS_ADDRESS, has_address),
    );
    if has_shape {
        put(bytes, u64::from(access.instruction));
        bytes.extend([access.bytes, u8::from(access.is_store)]);
    }
    if has_walk {
        put_walk(bytes, access.walk);
    }
    if has_near {
        put(bytes, u64::from(access.near));
    }
    if has_address {
        put_difference(bytes, access.address.wrapping_sub(address));
    }
}

fn access(
    cursor: &mut Cursor,
    mut shape: AccessShape,
    mut address: u64,
    near: &mut [u16; 2],
) -> Result<LineAccess, RecordingError> {
    let bits = cursor.byte()?;
    if bits >= HAS_ADDRESS << 1 {
        return Err(cursor.damaged("an access has a flag that does not exist"));
    }
    let served = value_of(&SERVED, bits & SERVED_BITS, cursor)?;
    if bits & HAS_SHAPE != 0 {
        let (instruction, bytes) = (cursor.small()?, cursor.byte()?);
        shape = AccessShape { instruction, bytes, is_store: flag(cursor)? };
    }
    let walk = if bits & HAS_WALK == 0 { WalkLoads::default() } else { walk(cursor)? };
    let near = &mut near[usize::from(served == ServedBy::Memory)];
    if bits & HAS_NEAR != 0 {
        *near = cursor.small()?;
    }
    if bits & HAS_ADDRESS != 0 {
        address = address.wrapping_add(cursor.difference()?);
    }
    let AccessShape { instruction, bytes, is_store } = shape;
    Ok(LineAccess { instruction, address, bytes, is_store, served, near: *near, walk })
}

/// Appends the loads of a page walk, counted by the level that served them. The first byte is twice the number of
/// levels whose counts follow, plus 1 if the second-level TLB contained the page.
fn put_walk(bytes: &mut Vec<u8>, walk: WalkLoads) {
    let counts = [walk.caches[0], walk.caches[1], walk.caches[2], walk.memory];
    let told = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    bytes.push(((told as u8) << 1) | u8::from(walk.is_second_level_hit));
    bytes.extend(&counts[..told]);
}

fn walk(cursor: &mut Cursor) -> Result<WalkLoads, RecordingError> {
    let head = cursor.byte()?;
    let mut counts = [0; 4];
    let told = counts.get_mut(..usize::from(head >> 1));
    for count in told.ok_or_else(|| cursor.damaged("a page walk has too many levels"))? {
        *count = cursor.byte()?;
    }
    let [first, second, third, memory] = counts;
    Ok(WalkLoads { is_second_level_hit: head & 1 != 0, caches: [first, second, third], memory })
}

fn flag(cursor: &mut Cursor) -> Result<bool, RecordingError> {
    match cursor.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged("a flag is neither 0 nor 1")),
    }
}

/// Line that was fetched as code or prefetched. The fields are the index of the step or access that caused this, the
/// address of the line, the level that served it, and the bit mask of the placements in which it is near.
type FoundLine = (u32, u64, ServedBy, u16);

/// Appends a line that was fetched as code or prefetched.
fn put_found_line(bytes: &mut Vec<u8>, before: &mut (u32, u64), (cause, line, served, near): FoundLine) {
    put_line(bytes, before, cause, line);
    bytes.push(number_of(&SERVED, &served));
    put(bytes, u64::from(near));
}

fn found_line(cursor: &mut Cursor, before: &mut (u32, u64)) -> Result<FoundLine, RecordingError> {
    let (cause, line) = line(cursor, before)?;
    let served = cursor.byte()?;
    Ok((cause, line, value_of(&SERVED, served, cursor)?, cursor.small()?))
}

/// Appends the address of a line that was fetched as code, prefetched or written back, and the index of the step or
/// access that caused this. Each of the two numbers is encoded as the difference from the number of the previous such
/// line. The address is rotated right by 6 bits before, so that neighbouring lines have neighbouring numbers.
fn put_line(bytes: &mut Vec<u8>, before: &mut (u32, u64), after: u32, line: u64) {
    let turned = line.rotate_right(6);
    put(bytes, u64::from(after.wrapping_sub(before.0)));
    put_difference(bytes, turned.wrapping_sub(before.1));
    *before = (after, turned);
}

fn line(cursor: &mut Cursor, before: &mut (u32, u64)) -> Result<(u32, u64), RecordingError> {
    let after = before.0.wrapping_add(cursor.small()?);
    let turned = before.1.wrapping_add(cursor.difference()?);
    *before = (after, turned);
    Ok((after, turned.rotate_left(6)))
}
