//! Early loads on the wrong path after a mispredicted branch.
//!
//! The two paths of a branch usually reconverge soon. While a mispredicted branch waits for a cache miss, the core
//! executes the wrong path, and often reaches instructions beyond the point of reconvergence. If the address of a load
//! beyond this point does not depend on instructions between the branch and this point, the wrong path issues that load
//! early. The right path later finds the line of this load in flight. A simulator that only follows the right path
//! serializes the two misses, although they overlap in a real core.
//!
//! Eyerman, Van den Steen, Heirman and Hur, "Simulating wrong-path instructions in decoupled functional-first
//! simulation", ISPASS 2023, find the point of reconvergence in the instructions that follow on the right path. This
//! module does the same.
//!
//! The recorded window contains only the right path of each branch. The wrong path is therefore assembled from the most
//! frequent successors of each code block elsewhere in the window. After reconvergence, the values of registers that
//! either path wrote before this point are treated as unknown. The same holds for values that depend on these registers
//! or on a cache miss.
//!
//! Departure: the model does not fetch lines that only the wrong path requests.

use super::CoreModel;
use crate::core::memory::Memory;
use crate::core::program::{PreparedInstruction, Program};
use crate::core::time::LaneTime;
use crate::core::watch::CoreObserver;
use crate::instruction::{REGISTERS, Register};
use crate::window::{BlockStep, LineAccess, RecordedWindow, ServedBy};
use std::collections::VecDeque;

/// Maximum number of steps on the right path in which the point of reconvergence is searched.
const LONGEST: usize = 16;
/// Maximum number of blocks of the wrong path in which the point of reconvergence is searched.
const MOST: usize = 32;
/// Minimum number of cycles by which a load on the wrong path has to begin before its branch completes. Later loads are
/// ignored, because they would gain little. The number exceeds the latency of a second-level cache.
const LAST: f32 = 32.0;

/// Set of registers, with one bit for each register.
type Registers = u64;
const _: () = assert!(REGISTERS <= Registers::BITS as usize, "each register has a bit");

/// Code block that followed another block in a window, with the number of times that it did.
#[derive(Clone, Copy, Default)]
struct Successor {
    block: u32,
    count: u32,
}

/// Control flow of a recorded window.
#[derive(Default)]
pub(super) struct ControlFlow {
    /// The two most frequent successors of each block. The more frequent successor is the first one.
    successors: Vec<[Successor; 2]>,
}

/// Point at which the right path and the wrong path of a mispredicted branch reconverge.
#[derive(Debug, PartialEq, Eq)]
struct Reconvergence {
    /// Index of the window's step that begins at the point of reconvergence.
    step: usize,
    /// Registers that either path writes before the point of reconvergence.
    written: Registers,
    /// Number of slots on the wrong path before the point of reconvergence.
    slots: usize,
}

impl ControlFlow {
    /// Discards the known control flow, and learns the control flow of a window from its steps.
    pub(super) fn learn(&mut self, steps: &[BlockStep]) {
        self.successors.clear();
        for pair in steps.windows(2) {
            let from = pair[0].block as usize;
            if self.successors.len() <= from {
                self.successors.resize(from + 1, Default::default());
            }
            let [first, second] = &mut self.successors[from];
            if first.count == 0 || first.block == pair[1].block {
                *first = Successor { block: pair[1].block, count: first.count + 1 };
                continue;
            }
            match second.count {
                _ if second.block == pair[1].block => second.count += 1,
                0 => *second = Successor { block: pair[1].block, count: 1 },
                _ => second.count -= 1,
            }
            if second.count > first.count {
                std::mem::swap(first, second);
            }
        }
    }

    /// Returns the known successors of the block `from`. The most frequent successor is the first one.
    fn next(&self, from: u32) -> impl Iterator<Item = u32> {
        let known = self.successors.get(from as usize).copied().unwrap_or_default();
        known.into_iter().filter(|next| next.count > 0).map(|next| next.block)
    }

    /// Returns the point of reconvergence of the branch at the end of the step `branch`, or `None` if none is found. If
    /// the two paths meet at several points, it is the point with the minimum sum of slots on the two paths before it.
    /// The wrong path is assembled from transitions between blocks that occur elsewhere in the window.
    fn meeting(&self, program: &Program, steps: &[BlockStep], branch: usize) -> Option<Reconvergence> {
        let right = &steps[branch + 1..steps.len().min(branch + 1 + LONGEST)];
        let taken = right.first()?.block;
        let wrong = self.next(steps[branch].block).find(|block| *block != taken)?;
        let slots = |block| program.block(block).iter().map(|one| usize::from(one.slots)).sum::<usize>();
        // Blocks of the wrong path in the order in which they are found. Each entry has the index of the block's
        // predecessor in this list, and the number of slots on the wrong path before the block.
        let mut reached = vec![(wrong, usize::MAX, 0)];
        let mut place = 0;
        while place < reached.len() && reached.len() < MOST {
            let (from, _, before) = reached[place];
            for block in self.next(from) {
                if reached.iter().all(|(known, ..)| *known != block) {
                    reached.push((block, place, before + slots(from)));
                }
            }
            place += 1;
        }
        let mut passed = 0;
        let meetings = right.iter().enumerate().filter_map(|(index, step)| {
            let before = passed;
            passed += slots(step.block);
            let met = reached.iter().position(|(block, ..)| *block == step.block)?;
            Some((index, met, before + reached[met].2))
        });
        let (index, met, _) = meetings.min_by_key(|(_, _, both)| *both)?;
        let written = |set, block| program.block(block).iter().fold(set, |set, one| set | one.written());
        let mut meeting = Reconvergence { step: branch + 1 + index, written: 0, slots: reached[met].2 };
        meeting.written = right[..index].iter().fold(0, |set, step| written(set, step.block));
        let mut before = reached[met].1;
        while let Some((block, earlier, _)) = reached.get(before) {
            meeting.written = written(meeting.written, *block);
            before = *earlier;
        }
        Some(meeting)
    }
}

impl PreparedInstruction {
    fn written(&self) -> Registers {
        self.targets.all().iter().fold(0, |set, register| set | bit(*register))
    }
}

fn bit(register: Register) -> Registers {
    1 << register
}

/// Accesses that a wrong path issues early, in the order of the window. Each entry consists of the index of the access
/// and the time at which its address is available on the wrong path. In lanes (memory configurations) in which the
/// branch completes before this time, the time of the entry is a time that never comes.
pub(super) struct Early<T> {
    loads: VecDeque<(usize, T)>,
}

impl<T: LaneTime> Early<T> {
    pub(super) fn new() -> Early<T> {
        Early { loads: VecDeque::new() }
    }

    /// Removes the entry of an access and returns its time, or returns `None` if no wrong path issues the access early.
    /// Entries of earlier accesses are discarded.
    #[inline(always)]
    pub(super) fn take(&mut self, access: usize) -> Option<T> {
        while let Some((index, time)) = self.loads.front().copied()
            && index <= access
        {
            self.loads.pop_front();
            if index == access {
                return Some(time);
            }
        }
        None
    }

    /// Records an access that a wrong path issues at `time`. If the access was already recorded for another wrong path,
    /// the earlier of the two times is kept.
    fn note(&mut self, access: usize, time: T) {
        let place = self.loads.partition_point(|(index, _)| *index < access);
        match self.loads.get_mut(place) {
            Some((index, known)) if *index == access => *known = known.earlier(time),
            _ => self.loads.insert(place, (access, time)),
        }
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.loads.iter_mut().for_each(|(_, time)| *time = time.minus(base));
    }

    pub(super) fn reset(&mut self) {
        self.loads.clear();
    }
}

/// State of the core while it executes a wrong path.
struct Shadow<T> {
    registers: [T; REGISTERS],
    /// Registers whose values are unknown on the wrong path.
    unknown: Registers,
    dispatch: T,
    /// Number of slots that the wrong path has executed.
    slots: usize,
}

impl<T: LaneTime, M: Memory<T>, W: CoreObserver<T>> CoreModel<T, M, W> {
    /// Finds the loads that the wrong path of a mispredicted branch issues early. The branch is at the end of the step
    /// `branch`, was dispatched at `dispatched`, and completes at `complete`.
    pub(super) fn look_ahead(
        &mut self,
        program: &Program,
        window: &RecordedWindow,
        branch: usize,
        (dispatched, complete): (T, T),
    ) {
        let limit = complete.after(-LAST);
        if !limit.is_later(&dispatched) {
            return;
        }
        let steps = &window.steps;
        let Some(mut meeting) = self.ways.meeting(program, steps, branch) else { return };
        let mut shadow = Shadow { registers: self.registers, unknown: 0, dispatch: dispatched, slots: 0 };
        loop {
            shadow.unknown |= meeting.written;
            shadow.skip(meeting.slots, self.parameters.dispatch_per_cycle());
            let mut number = meeting.step;
            loop {
                let Some(step) = steps.get(number) else { return };
                if !self.shadow_step(&mut shadow, program, window, number, limit) {
                    return;
                }
                if step.is_mispredicted {
                    break;
                }
                number += 1;
            }
            match self.ways.meeting(program, steps, number) {
                Some(next) => meeting = next,
                None => return,
            }
        }
    }

    /// Executes a step on the wrong path. Returns whether the wrong path can execute another step. It cannot if the
    /// mispredicted branch completes too soon, or if the reorder buffer is full.
    fn shadow_step(
        &mut self,
        shadow: &mut Shadow<T>,
        program: &Program,
        window: &RecordedWindow,
        number: usize,
        limit: T,
    ) -> bool {
        let step = &window.steps[number];
        let mut access = step.first_access as usize;
        let width = self.parameters.dispatch_per_cycle();
        for (index, one) in (0..step.instructions).zip(program.block(step.block)) {
            shadow.slots += usize::from(one.slots);
            if shadow.slots >= self.reorder_buffer.len() {
                return false;
            }
            let room = self.reorder_buffer.oldest(shadow.slots - 1);
            shadow.dispatch = shadow.dispatch.after(f32::from(one.slots) / width).later(room);
            if !limit.is_later(&shadow.dispatch) {
                return false;
            }
            let first = access;
            while window.accesses.get(access).is_some_and(|a| a.instruction == index)
                && is_in(window, number, access)
            {
                access += 1;
            }
            self.shadow_instruction(shadow, one, (first, &window.accesses[first..access]), limit);
        }
        true
    }

    fn shadow_instruction(
        &mut self,
        shadow: &mut Shadow<T>,
        one: &PreparedInstruction,
        (first, accesses): (usize, &[LineAccess]),
        limit: T,
    ) {
        let is_known =
            |unknown: Registers, registers: &[Register]| registers.iter().all(|r| unknown & bit(*r) == 0);
        let ready = |shadow: &Shadow<T>, registers: &[Register]| {
            registers.iter().fold(shadow.dispatch, |time, r| time.later(shadow.registers[usize::from(*r)]))
        };
        let mut is_value_known = is_known(shadow.unknown, one.sources.all());
        let mut start = ready(shadow, one.sources.all());
        if !accesses.is_empty() {
            let is_address_known = is_known(shadow.unknown, one.address.all());
            let address = ready(shadow, one.address.all());
            for (index, access) in (first..).zip(accesses).filter(|(_, access)| !access.is_store) {
                if is_address_known && access.served != ServedBy::L1 {
                    self.early.note(index, address.only_before(limit));
                }
                let caches = &self.parameters.caches;
                match access.served {
                    ServedBy::L1 => start = start.later(address.after(caches.l1)),
                    ServedBy::L2 => start = start.later(address.after(caches.l2)),
                    ServedBy::L3 => start = start.later(address.after(caches.l3)),
                    ServedBy::Peer | ServedBy::Memory => is_value_known = false,
                }
            }
            is_value_known &= is_address_known;
        }
        let end = start.after(one.latency);
        for target in one.targets.all() {
            shadow.registers[usize::from(*target)] = end;
        }
        shadow.unknown =
            if is_value_known { shadow.unknown & !one.written() } else { shadow.unknown | one.written() };
    }
}

impl<T: LaneTime> Shadow<T> {
    /// Accounts for the time and the slots of the wrong path before its point of reconvergence.
    fn skip(&mut self, slots: usize, per_cycle: f32) {
        self.slots += slots;
        self.dispatch = self.dispatch.after(slots as f32 / per_cycle);
    }
}

/// Returns whether the access with index `access` belongs to the step with index `step` or to an earlier one.
fn is_in(window: &RecordedWindow, step: usize, access: usize) -> bool {
    window.steps.get(step + 1).is_none_or(|next| access < next.first_access as usize)
}
