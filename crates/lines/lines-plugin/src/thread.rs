//! State of a recorded thread. It converts the thread's events to executions of blocks and to accesses to cache lines.

use crate::code::{AccessSite, BlockExit as Continuation, Code};
use crate::events::{Event, EventBuffer};
use crate::predictor::Predictor;
use crate::process::ProcessState;
use crate::qemu::Qemu;
use crate::sizes::SizeCache;
use unrack_lines::hierarchy::Kind;
use unrack_lines::instruction::BlockEnding;
use unrack_lines::window::{BlockStep, RecordedWindow};

/// Bytes of a line.
const LINE: u64 = 64;

/// Number of accesses by a repeated string instruction after which an access to another line starts a new step of the
/// recording. Such an instruction makes one or two accesses per line. A step therefore covers about one line, as in
/// processors with fast strings (Intel, Optimization Reference Manual, 3.7.6).
const REPEATED: u32 = 2;

/// Number of instructions before a window during which the branch predictor is trained. These instructions contain some
/// 100,000 branches, which fill the predictor's tables of 10,000 entries.
const TRAINING: u64 = 500_000;

/// Recorded thread of the program.
pub(crate) struct Thread {
    /// Events that have not been processed yet.
    pub(crate) events: EventBuffer,
    /// State after the events that have been processed.
    pub(crate) state: State,
    /// System call in progress: its number and arguments. `None` if no system call is in progress or its result is not
    /// needed.
    pub(crate) pending_call: Option<(i64, [u64; 6])>,
}

/// Counts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadCounts {
    /// Instructions executed.
    pub(crate) instructions: u64,
    /// Loads. A load that touches several lines counts once per line.
    pub(crate) loads: u64,
    /// Stores. A store that touches several lines counts once per line.
    pub(crate) stores: u64,
    /// Branches that the predictor processed: the branches in windows, and those in the instructions before each window
    /// that train the predictor.
    pub(crate) branches: u64,
    /// Number of mispredicted branches among [`branches`](Self::branches).
    pub(crate) mispredicted: u64,
    /// Software prefetches executed. They are only counted, because QEMU does not report their addresses.
    pub(crate) prefetches: u64,
}

/// State of a thread after the processed events.
pub(crate) struct State {
    number: u32,
    counts: ThreadCounts,
    predictor: Predictor,
    sizes: SizeCache,
    /// Block that the thread is executing.
    current: Option<Current>,
    /// Last load and last store. The next event may extend them, because QEMU reports a vector access in parts.
    pending: [Option<AccessPiece>; 2],
    /// Code line that contains the end of the last instruction.
    code_line: u64,
    /// Window that is being recorded.
    window: Option<RecordedWindow>,
    /// Number of executed instructions at which the next window begins or, within a window, at which that window ends.
    boundary: u64,
}

/// Execution of a block in progress.
#[derive(Clone, Copy)]
struct Current {
    code: &'static Code,
    /// Whether this execution only repeats the last instruction of the block.
    is_repetition: bool,
    /// Index of the instruction that made the last access.
    last_access: Option<u16>,
    /// Number of accesses to lines in this execution of the block so far.
    accesses: u32,
}

/// Contiguous bytes that one instruction loads or stores. QEMU may report them in several parts, which are joined as
/// long as they lie within one line.
#[derive(Clone, Copy)]
pub(crate) struct AccessPiece {
    /// Index of the instruction in its block.
    pub(crate) instruction: u16,
    /// Address of the first byte.
    pub(crate) address: u64,
    /// Number of bytes.
    pub(crate) bytes: u64,
    /// Kind of the access.
    pub(crate) kind: Kind,
}

impl Thread {
    pub(crate) fn new(number: u32, shared: &ProcessState) -> Thread {
        let state = State {
            number,
            counts: ThreadCounts::default(),
            predictor: Predictor::new(),
            sizes: SizeCache::new(),
            current: None,
            pending: [None; 2],
            code_line: u64::MAX,
            window: None,
            boundary: shared.samples.next(number, 0),
        };
        Thread { events: EventBuffer::new(), state, pending_call: None }
    }

    /// Processes the events in the buffer, in order.
    pub(crate) fn process(&mut self, shared: &mut ProcessState, qemu: &Qemu) {
        for event in self.events.iter() {
            match event {
                Event::Block(code) => self.state.enter(code, shared),
                Event::Access { instruction, address, info } => {
                    let (bytes, is_store) = self.state.sizes.access(info, qemu);
                    self.state.access(instruction, address, bytes, is_store, shared);
                }
            }
        }
        self.events.clear();
        self.events.share(shared.is_alone());
        shared.set_counts(self.state.number, self.state.counts, false);
    }

    /// Processes the remaining events, because the thread or the program that it executes ends.
    pub(crate) fn finish(&mut self, shared: &mut ProcessState, qemu: &Qemu, has_ended: bool) {
        self.process(shared, qemu);
        self.state.leave(None, shared);
        self.state.close_window(shared);
        self.state.boundary = shared.samples.next(self.state.number, self.state.counts.instructions);
        shared.set_counts(self.state.number, self.state.counts, has_ended);
    }

    /// Prepares the state of the forking thread to continue as the only thread of a child process. The counts and
    /// events of the parent process are discarded.
    pub(crate) fn begin_child(&mut self, shared: &ProcessState) {
        self.events.clear();
        self.pending_call = None;
        let state = &mut self.state;
        (state.number, state.counts) = (0, ThreadCounts::default());
        (state.current, state.pending, state.window) = (None, [None; 2], None);
        state.boundary = shared.samples.next(0, 0);
    }
}

impl State {
    /// Starts the execution of a block. The address of the block shows why execution left the previous one.
    fn enter(&mut self, code: &'static Code, shared: &mut ProcessState) {
        if let Some(current) = &mut self.current
            && current.code.ends_repeated
            && current.code.step(code.block.pc) == Continuation::Repeated
            && (current.accesses < REPEATED || is_within_line(&self.pending))
        {
            current.is_repetition = true;
            return;
        }
        self.leave(Some(code.block.pc), shared);
        if self.counts.instructions >= self.boundary {
            self.turn(shared);
        }
        self.current = Some(Current { code, is_repetition: false, last_access: None, accesses: 0 });
        if let Some(window) = &mut self.window {
            window.steps.push(BlockStep {
                block: code.number,
                instructions: code.length(),
                first_access: window.accesses.len() as u32,
                is_mispredicted: false,
            });
        }
        self.fetch(code, shared);
    }

    /// Simulates the fetches of a block's code lines. The first line is not fetched again if the previous block ended
    /// in it.
    #[inline]
    fn fetch(&mut self, code: &Code, shared: &mut ProcessState) {
        let (first, last) = (code.block.pc / LINE, (code.block.behind() - 1) / LINE);
        for line in (first..=last).skip(usize::from(first == self.code_line)) {
            shared.fetch(self.number, line * LINE, self.window.as_mut());
        }
        self.code_line = last;
    }

    /// Ends the execution of the current block. `next` is the address at which execution continues.
    fn leave(&mut self, next: Option<u64>, shared: &mut ProcessState) {
        self.flush(shared);
        let Some(Current { code, last_access, .. }) = self.current.take() else { return };
        let continuation = next.map_or(Continuation::Whole, |next| code.step(next));
        let executed = match continuation {
            Continuation::Whole | Continuation::Repeated => code.length(),
            Continuation::Interrupted => code.executed(last_access),
        };
        self.counts.instructions += u64::from(executed);
        self.counts.prefetches += u64::from(code.prefetches);
        let is_mispredicted = match next {
            Some(next) if continuation == Continuation::Whole => self.is_mispredicted(code, next),
            _ => false,
        };
        if let Some(step) = self.window.as_mut().and_then(|window| window.steps.last_mut()) {
            step.instructions = executed;
            step.is_mispredicted = is_mispredicted;
        }
    }

    fn is_mispredicted(&mut self, code: &Code, next: u64) -> bool {
        let is_far_from_window = self.window.is_none() && self.counts.instructions + TRAINING < self.boundary;
        if code.flow.ending == BlockEnding::Falls || is_far_from_window {
            return false;
        }
        let is_mispredicted =
            self.predictor.is_mispredicted(&code.flow, code.last, code.block.behind(), next);
        self.counts.branches += 1;
        self.counts.mispredicted += u64::from(is_mispredicted);
        is_mispredicted
    }

    /// Processes one access of the current block.
    #[inline]
    fn access(
        &mut self,
        instruction: u16,
        address: u64,
        bytes: u8,
        is_store: bool,
        shared: &mut ProcessState,
    ) {
        let Some(current) = &mut self.current else { return };
        // With several threads, QEMU 7.2 was observed to report an access with an instruction index beyond the block.
        // Such an access is attributed to the last instruction.
        let last = current.code.length() - 1;
        let instruction = if current.is_repetition { last } else { instruction.min(last) };
        let site = current.code.sites[instruction as usize];
        if current.last_access.replace(instruction) != Some(instruction) {
            self.flush(shared);
        }
        let kind = match (is_store, site) {
            (false, _) => Kind::Load,
            (true, AccessSite::Nontemporal) => Kind::NontemporalStore,
            (true, _) => Kind::Store,
        };
        let piece = AccessPiece { instruction, address, bytes: u64::from(bytes), kind };
        if is_store && site == AccessSite::Atomic && self.pending[0].is_none() {
            // While there are several threads, QEMU reports an atomic instruction as a single store.
            self.pending[0] = Some(AccessPiece { kind: Kind::Load, ..piece });
        }
        self.add(piece, shared);
    }

    /// Joins `piece`, a part of an access that QEMU has reported, with the pending load or store if the piece continues
    /// it. Otherwise passes the pending access to the caches, and the piece becomes the pending access.
    fn add(&mut self, piece: AccessPiece, shared: &mut ProcessState) {
        let pending = &mut self.pending[piece.kind.is_store() as usize];
        match pending {
            Some(pending) if pending.grows_by(&piece) => pending.bytes += piece.bytes,
            _ => {
                if let Some(before) = pending.replace(piece) {
                    self.emit(before, shared);
                }
            }
        }
    }

    #[inline]
    fn flush(&mut self, shared: &mut ProcessState) {
        for direction in 0..self.pending.len() {
            if let Some(piece) = self.pending[direction].take() {
                self.emit(piece, shared);
            }
        }
    }

    /// Passes an access to the simulated caches, split at the boundaries of lines.
    fn emit(&mut self, mut piece: AccessPiece, shared: &mut ProcessState) {
        loop {
            let room = LINE - piece.address % LINE;
            let bytes = piece.bytes.min(room);
            self.emit_line(AccessPiece { bytes, ..piece }, shared);
            if piece.bytes <= room {
                return;
            }
            piece.address = piece.address.wrapping_add(room);
            piece.bytes -= room;
        }
    }

    fn emit_line(&mut self, piece: AccessPiece, shared: &mut ProcessState) {
        let Some(current) = &mut self.current else { return };
        current.accesses += 1;
        match piece.kind.is_store() {
            false => self.counts.loads += 1,
            true => self.counts.stores += 1,
        }
        shared.access(self.number, current.code, &piece, self.window.as_mut());
    }

    /// Starts or ends a sampled window, because the thread has executed the number of instructions in `boundary`.
    fn turn(&mut self, shared: &mut ProcessState) {
        let instructions = self.counts.instructions;
        let plan = shared.samples.plan(self.number);
        if self.window.is_some() {
            self.close_window(shared);
            self.boundary = shared.samples.next(self.number, instructions);
        }
        if instructions < self.boundary {
            return;
        }
        if !shared.samples.has(self.number, instructions) {
            // The sample was halved in the meantime.
            self.boundary = shared.samples.next(self.number, instructions);
            return;
        }
        let window = RecordedWindow {
            thread: self.number,
            start: instructions,
            lead: plan.lead as u32,
            ..RecordedWindow::default()
        };
        self.window = Some(window);
        self.boundary = instructions + plan.lead + plan.window;
    }

    /// Ends the current window and appends it to the recording. If the window consists only of its lead, it is dropped.
    fn close_window(&mut self, shared: &mut ProcessState) {
        let Some(window) = self.window.take() else { return };
        if self.counts.instructions > window.start + u64::from(window.lead) {
            shared.record(&window);
        }
    }
}

/// Returns whether the line that a repeated string instruction accesses has room for more bytes. It is the line that
/// the instruction writes or, if it does not write, the line that it reads.
fn is_within_line(pending: &[Option<AccessPiece>; 2]) -> bool {
    let [load, store] = pending;
    store.or(*load).is_some_and(|piece| !piece.address.wrapping_add(piece.bytes).is_multiple_of(LINE))
}

impl AccessPiece {
    /// Returns whether the next piece continues this one within the same line. This happens because QEMU reports a
    /// vector access in parts.
    fn grows_by(&self, next: &AccessPiece) -> bool {
        let end = self.address.wrapping_add(self.bytes);
        let room = LINE - end % LINE;
        next.address == end && room < LINE && next.bytes <= room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_vector_are_one_access_within_a_line() {
        let piece = |address, bytes| AccessPiece { instruction: 0, address, bytes, kind: Kind::Load };
        assert!(piece(0x1000, 8).grows_by(&piece(0x1008, 8)));
        assert!(piece(0x1030, 8).grows_by(&piece(0x1038, 8)));
        assert!(!piece(0x1038, 8).grows_by(&piece(0x1040, 8)), "the next line");
        assert!(!piece(0x1000, 8).grows_by(&piece(0x1010, 8)), "a gap");
        assert!(!piece(0x103c, 2).grows_by(&piece(0x103e, 4)), "beyond the line");
    }
}
