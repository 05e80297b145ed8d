//! Loads that the wrong path behind a mispredicted branch makes early.
//!
//! Both ways of a branch mostly meet again soon. While a mispredicted branch waits for a miss, the core is already behind that
//! meeting, and makes loads there whose addresses the detour has not changed: it finds their lines on the way when it comes back.
//! A simulator that follows the right path alone makes such misses wait for each other, though they overlap. Eyerman, Van den Steen,
//! Heirman and Hur, "Simulating wrong-path instructions in decoupled functional-first simulation", ISPASS 2023, find the meeting in
//! the instructions that follow, as is done here.
//!
//! The wrong way is known as far as the window has gone it at another time: from each block, the way it went most often.
//! Registers that either way writes before they meet are not known behind it, nor is what depends on them, or on a miss.
//!
//! Departure: lines that only the wrong path asks for are not fetched.

use super::Machine;
use crate::core::memory::Memory;
use crate::core::program::{Prepared, Program};
use crate::core::time::Time;
use crate::core::watch::Watch;
use crate::instruction::{REGISTERS, Register};
use crate::window::{BlockStep, LineAccess, RecordedWindow, Served};
use std::collections::VecDeque;

/// Steps of the right way in which both have to meet.
const LONGEST: usize = 16;
/// Blocks of the wrong ways that are looked at.
const MOST: usize = 32;
/// Cycles before the completion of a branch in which looking ahead is no longer worth it: more than a second level takes.
const LAST: f32 = 32.0;

/// Set of registers, a bit each.
type Registers = u64;
const _: () = assert!(REGISTERS <= Registers::BITS as usize, "each register has a bit");

/// Block that followed another one, and how often.
#[derive(Clone, Copy, Default)]
struct Successor {
    block: u32,
    count: u32,
}

/// Ways that a window went.
#[derive(Default)]
pub(super) struct Ways {
    /// The two most frequent successors of each block, the more frequent first.
    successors: Vec<[Successor; 2]>,
}

/// Place where both ways of a branch meet.
#[derive(Debug, PartialEq, Eq)]
struct Meeting {
    /// Step of the window that begins there.
    step: usize,
    /// Registers that one of the ways has written.
    written: Registers,
    /// Slots of the wrong way.
    slots: usize,
}

impl Ways {
    /// Forgets what was learned, and learns the ways of a window.
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

    /// Returns the blocks that a block went on with, the most frequent first.
    fn next(&self, from: u32) -> impl Iterator<Item = u32> {
        let known = self.successors.get(from as usize).copied().unwrap_or_default();
        known.into_iter().filter(|next| next.count > 0).map(|next| next.block)
    }

    /// Returns where the way of the branch that ends a step meets the one that it was mispredicted to take: where both together
    /// are shortest, by their slots. The wrong way is made of ways that the window has gone.
    fn meeting(&self, program: &Program, steps: &[BlockStep], branch: usize) -> Option<Meeting> {
        let right = &steps[branch + 1..steps.len().min(branch + 1 + LONGEST)];
        let taken = right.first()?.block;
        let wrong = self.next(steps[branch].block).find(|block| *block != taken)?;
        let slots = |block| program.block(block).iter().map(|one| usize::from(one.slots)).sum::<usize>();
        // Blocks in the order in which they are found, each with the place of the one before and the slots up to it.
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
        let mut meeting = Meeting { step: branch + 1 + index, written: 0, slots: reached[met].2 };
        meeting.written = right[..index].iter().fold(0, |set, step| written(set, step.block));
        let mut before = reached[met].1;
        while let Some((block, earlier, _)) = reached.get(before) {
            meeting.written = written(meeting.written, *block);
            before = *earlier;
        }
        Some(meeting)
    }
}

impl Prepared {
    fn written(&self) -> Registers {
        self.targets.all().iter().fold(0, |set, register| set | bit(*register))
    }
}

fn bit(register: Register) -> Registers {
    1 << register
}

/// Accesses that a wrong path makes early, in the order of the window: index, and time at which the address is known there.
/// A time that never comes stands for lanes in which the branch is complete before.
pub(super) struct Early<T> {
    loads: VecDeque<(usize, T)>,
}

impl<T: Time> Early<T> {
    pub(super) fn new() -> Early<T> {
        Early { loads: VecDeque::new() }
    }

    /// Takes the time of an access, if it is made early. Those before it are forgotten.
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

    /// Notes an access. A wrong path in another one's shadow changes nothing that is earlier.
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

/// Core on the wrong path.
struct Shadow<T> {
    registers: [T; REGISTERS],
    /// Registers whose values are not known there.
    unknown: Registers,
    dispatch: T,
    /// Slots so far.
    slots: usize,
}

impl<T: Time, M: Memory<T>, W: Watch<T>> Machine<T, M, W> {
    /// Looks for loads that are made early behind the branch that ends a step, which was dispatched at `dispatched` and is complete
    /// at `complete`.
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

    /// Runs a step on the wrong path. Returns whether there is time and room for more.
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
        one: &Prepared,
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
                if is_address_known && access.served != Served::L1 {
                    self.early.note(index, address.only_before(limit));
                }
                let caches = &self.parameters.caches;
                match access.served {
                    Served::L1 => start = start.later(address.after(caches.l1)),
                    Served::L2 => start = start.later(address.after(caches.l2)),
                    Served::L3 => start = start.later(address.after(caches.l3)),
                    Served::Peer | Served::Memory => is_value_known = false,
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

impl<T: Time> Shadow<T> {
    /// Passes the slots of the wrong way.
    fn skip(&mut self, slots: usize, per_cycle: f32) {
        self.slots += slots;
        self.dispatch = self.dispatch.after(slots as f32 / per_cycle);
    }
}

/// Returns whether an access is one of a step.
fn is_in(window: &RecordedWindow, step: usize, access: usize) -> bool {
    window.steps.get(step + 1).is_none_or(|next| access < next.first_access as usize)
}
