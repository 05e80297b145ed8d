//! Scoreboard model of an out-of-order core. It executes one recorded window of instructions.
//!
//! The model processes each instruction once, in program order. It computes the times at which the instruction is
//! dispatched, obtains its inputs, produces its result, and retires, as sums and maxima of earlier times. This is the
//! approach of ZSim (Sanchez and Kozyrakis, ISCA 2013, section 3.1) and of Sniper's instruction-window-centric core
//! (Carlson et al., TACO 2014).

mod accesses;
mod position;
mod wrong_path;

use position::WindowPosition;
use wrong_path::{ControlFlow, Early};

use super::arrivals::ArrivalTable;
use super::buffers::TimedBuffers;
use super::front::FrontEnd;
use super::memory::{Channel, Memory};
use super::parameters::CoreParameters;
use super::ports::{Kind, PortRates};
use super::program::{OrderingConstraint, PreparedInstruction, Program};
use super::ring::Ring;
use super::scheduler::Scheduler;
use super::stores::Stores;
use super::time::LaneTime;
use super::watch::{CoreObserver, Retirement, WaitCause};
use crate::instruction::{self, REGISTERS};
use crate::window::RecordedWindow;

/// Number of cycles after which all times are made relative to a later time base, so that times in 32-bit floating
/// point remain exact.
const REBASE: f32 = 262_144.0;
/// Line number that marks the absence of a line.
const NO_LINE: u64 = u64::MAX;

/// State of a simulated core and its queues.
pub(super) struct CoreModel<T, M, W> {
    parameters: CoreParameters,
    /// Time at which the value of each register is available.
    registers: [T; REGISTERS],
    front: FrontEnd<T>,
    /// Dispatch time of the last micro-operation slot (`dispatch`), and dispatch times of the last `dispatch_width`
    /// slots (`dispatched`).
    dispatch: T,
    dispatched: Ring<T>,
    /// Retirement time of the last micro-operation slot (`retired`), and retirement times of the last slots, up to the
    /// size of the reorder buffer (`reorder_buffer`).
    retired: T,
    reorder_buffer: Ring<T>,
    load_queue: Ring<T>,
    store_queue: Ring<T>,
    /// Time at which the last store was written to the first-level cache.
    commit: T,
    /// Line of the last store (`store_line`), and line whose non-temporal stores a write-combining buffer gathers
    /// (`combined_line`).
    store_line: u64,
    combined_line: u64,
    /// Time before which no memory access may begin.
    fence: T,
    is_restart: bool,
    /// Dispatch and completion time of the last mispredicted branch.
    branch: (T, T),
    ways: ControlFlow,
    early: Early<T>,
    ports: PortRates<T>,
    scheduler: Scheduler<T>,
    /// Scheduler of vector operations; `None` if vector operations use `scheduler` too.
    vector_scheduler: Option<Scheduler<T>>,
    fills: TimedBuffers<T>,
    /// Buffers of prefetches into the first-level cache.
    ahead: TimedBuffers<T>,
    prefetches: TimedBuffers<T>,
    walkers: TimedBuffers<T>,
    /// Channel that transfers lines to the first-level cache.
    l1: Channel<T>,
    /// Channel that transfers lines from the last-level cache to the second-level cache.
    l3: Channel<T>,
    stores: Stores<T>,
    arrivals: ArrivalTable<T>,
    pub(super) memory: M,
    pub(super) watch: W,
}

impl<T: LaneTime, M: Memory<T>, W: CoreObserver<T>> CoreModel<T, M, W> {
    /// Creates an idle core. The caller has checked that `parameters` are valid.
    pub(super) fn new(parameters: &CoreParameters, memory: M, watch: W) -> CoreModel<T, M, W> {
        let p = parameters;
        CoreModel {
            registers: [T::START; REGISTERS],
            front: FrontEnd::new(p),
            dispatch: T::START,
            dispatched: Ring::new(p.dispatch_width),
            retired: T::START,
            reorder_buffer: Ring::new(p.reorder_buffer),
            load_queue: Ring::new(p.load_queue),
            store_queue: Ring::new(p.store_queue),
            commit: T::START,
            store_line: NO_LINE,
            combined_line: NO_LINE,
            fence: T::START,
            is_restart: false,
            branch: (T::START, T::START),
            ways: ControlFlow::default(),
            early: Early::new(),
            ports: PortRates::new(p),
            scheduler: Scheduler::new(p.scheduler),
            vector_scheduler: p.vector_scheduler.map(Scheduler::new),
            fills: TimedBuffers::new(p.fill_buffers),
            ahead: TimedBuffers::new(p.fill_buffers),
            prefetches: TimedBuffers::new(p.prefetch_buffers),
            walkers: TimedBuffers::new(p.walkers),
            l1: Channel::new(p.caches.fill_interval),
            l3: Channel::new(p.caches.l3_interval),
            stores: Stores::new(p.store_queue, p.forward_latency, p.caches.l1),
            arrivals: ArrivalTable::new(),
            memory,
            watch,
            parameters: parameters.clone(),
        }
    }

    /// Executes a recorded window, starting with an empty core. The first instructions of the window (the lead) only
    /// fill the pipeline. For each lane (memory configuration), the function adds to `cycles` the cycles from the end
    /// of the lead to the retirement of the last instruction.
    pub(super) fn run(&mut self, program: &Program, window: &RecordedWindow, cycles: &mut [f64]) {
        self.reset();
        self.ways.learn(&window.steps);
        let mut position = WindowPosition::new(window);
        let mut lead = window.lead;
        if lead == 0 {
            self.watch.start();
        }
        for (number, step) in window.steps.iter().enumerate() {
            position.enter(number);
            if number > 0 && program.is_elsewhere(step.block, window.steps[number - 1].block) {
                self.front.end_group();
            }
            self.fetch_code(number, &mut position);
            for (index, prepared) in (0..step.instructions).zip(program.block(step.block)) {
                let is_last = index + 1 == step.instructions;
                self.instruction(prepared, index, &mut position, step.is_mispredicted && is_last);
                lead = self.lead(lead, cycles);
            }
            if step.is_mispredicted {
                self.look_ahead(program, window, number, self.branch);
            }
            if self.dispatch.is_after(REBASE) {
                let sign = if lead == 0 { 1.0 } else { 0.0 };
                self.count(cycles, sign);
                self.rebase();
                self.count(cycles, -sign);
            }
        }
        self.count(cycles, if lead == 0 { 1.0 } else { 0.0 });
    }

    /// Returns the time at which the last executed instruction retired.
    pub(super) fn retired(&self) -> T {
        self.retired
    }

    /// Counts one executed instruction. `left` is the number of instructions of the window's lead that were left before
    /// this instruction, and the function returns the number that are left after it. When the lead ends, the function
    /// starts the count of cycles.
    #[inline(always)]
    fn lead(&mut self, left: u32, cycles: &mut [f64]) -> u32 {
        if left == 1 {
            self.watch.start();
            self.count(cycles, -1.0);
        }
        left.saturating_sub(1)
    }

    /// Adds the time of the last retirement to `cycles`, multiplied by `sign`.
    fn count(&self, cycles: &mut [f64], sign: f64) {
        for (lane, cycles) in cycles.iter_mut().enumerate() {
            *cycles += sign * f64::from(self.retired.cycles(lane));
        }
    }

    #[inline(always)]
    fn instruction(
        &mut self,
        prepared: &PreparedInstruction,
        index: u16,
        position: &mut WindowPosition,
        is_mispredicted: bool,
    ) {
        let accesses = position.accesses(index);
        let stores = accesses.iter().filter(|access| access.is_store).count();
        let loads = accesses.len() - stores;
        let room = self.dispatch(prepared, loads, stores);
        let mut start = self.ready(self.dispatch, prepared.sources.all());
        if prepared.order != OrderingConstraint::Free {
            start = start.later(self.retired).later(self.commit);
        }
        let mut address = start;
        let mut waited = WaitCause::Core;
        if !accesses.is_empty() {
            address = self.address(prepared);
            if prepared.memory == instruction::MemoryUse::Prefetch {
                start = start.later(self.prefetch(accesses, address, position));
            } else {
                for access in accesses.iter().filter(|access| !access.is_store) {
                    let value = self.load(access, address, position, &mut waited);
                    start = start.later(value);
                }
            }
        }
        let end = start.after(prepared.latency);
        for target in prepared.targets.all() {
            self.registers[usize::from(*target)] = end;
        }
        self.issue(prepared, start, address, accesses.len());
        let known = if stores == 0 { end } else { end.later(self.translate(accesses, address)) };
        self.retire(prepared, known, loads, room, waited);
        if stores > 0 {
            self.store(prepared, accesses, known, position);
        }
        self.restart(prepared, end, is_mispredicted);
    }

    /// Dispatches the slots of an instruction. Returns the time from which the store queue has room for the
    /// instruction's stores.
    #[inline(always)]
    fn dispatch(&mut self, prepared: &PreparedInstruction, loads: usize, stores: usize) -> T {
        let mut room = T::START;
        self.dispatch = self.front.bound(self.dispatch, usize::from(prepared.slots));
        if loads > 0 {
            self.dispatch = self.dispatch.later(self.load_queue.oldest(loads - 1));
        }
        if stores > 0 {
            room = self.store_queue.oldest(stores - 1);
            self.dispatch = self.dispatch.later(room);
        }
        self.dispatch = self.ports.bound(self.dispatch, (prepared.kind, prepared.is_vector), loads, stores);
        if prepared.is_scheduled(loads + stores) {
            let dispatch = self.dispatch;
            self.dispatch = self.scheduler(prepared.kind).room(dispatch);
        }
        for slot in 0..usize::from(prepared.slots) {
            let width = self.dispatched.oldest(0).after(self.parameters.turn);
            self.dispatch = self.dispatch.later(self.reorder_buffer.oldest(slot)).later(width);
            self.dispatched.push(self.dispatch);
        }
        room
    }

    /// Returns the scheduler that holds operations of the given kind.
    #[inline(always)]
    fn scheduler(&mut self, kind: Kind) -> &mut Scheduler<T> {
        match &mut self.vector_scheduler {
            Some(scheduler) if kind.is_vector() => scheduler,
            _ => &mut self.scheduler,
        }
    }

    /// Records when an operation leaves the scheduler, which is when it begins. A load that only moves data to a
    /// register leaves the scheduler as soon as its address is available.
    #[inline(always)]
    fn issue(&mut self, prepared: &PreparedInstruction, start: T, address: T, accesses: usize) {
        if prepared.is_scheduled(accesses) {
            let begin = match prepared.memory {
                instruction::MemoryUse::Load if prepared.is_move => address,
                _ => start.later(address),
            };
            self.scheduler(prepared.kind).push(begin);
        }
    }

    /// Returns the time at which the values of all `registers` are available, at the earliest `from`.
    #[inline(always)]
    fn ready(&self, from: T, registers: &[instruction::Register]) -> T {
        registers.iter().fold(from, |time, register| time.later(self.registers[usize::from(*register)]))
    }

    /// Returns the time from which the memory accesses of an instruction may begin, because their address is available
    /// and no ordering constraint delays them.
    #[inline(always)]
    fn address(&self, prepared: &PreparedInstruction) -> T {
        let address = self.ready(self.dispatch.later(self.fence), prepared.address.all());
        match prepared.order {
            OrderingConstraint::Free => address,
            _ => address.later(self.retired).later(self.commit),
        }
    }

    /// Retires an instruction whose results are available at `known`. Instructions retire in program order, and at most
    /// `retire_width` micro-operation slots retire per turn.
    #[inline(always)]
    fn retire(&mut self, prepared: &PreparedInstruction, known: T, loads: usize, room: T, waited: WaitCause) {
        let before = self.retired;
        let width = self.parameters.retire_width.min(self.reorder_buffer.len());
        let mut retired = known.later(before);
        for _ in 0..prepared.slots {
            retired = retired.later(self.reorder_buffer.pushed(width).after(self.parameters.turn));
            self.reorder_buffer.push(retired);
        }
        for _ in 0..loads {
            self.load_queue.push(retired);
        }
        self.retired = retired;
        let (dispatch, is_restart) = (self.dispatch, self.is_restart);
        let least = prepared.latency + if loads > 0 { self.parameters.caches.l1 } else { 0.0 };
        self.watch.retire(&Retirement { dispatch, room, before, at: retired, waited, least, is_restart });
    }

    /// Delays later instructions after an instruction that requires it. After a mispredicted branch or a system call,
    /// the function delays dispatch and restarts the front end. After a serializing instruction, it delays memory
    /// accesses.
    #[inline(always)]
    fn restart(&mut self, prepared: &PreparedInstruction, end: T, is_mispredicted: bool) {
        self.is_restart = is_mispredicted || prepared.order == OrderingConstraint::SystemCall;
        if is_mispredicted {
            self.branch = (self.dispatch, end);
            self.dispatch = self.dispatch.later(end.after(self.parameters.mispredict_penalty));
        }
        match prepared.order {
            OrderingConstraint::Free => {}
            OrderingConstraint::Serializing => self.fence = self.fence.later(end),
            OrderingConstraint::SystemCall => self.dispatch = self.dispatch.later(self.retired),
        }
        if self.is_restart {
            self.front.restart(self.dispatch);
        }
    }

    /// Makes all times that the core stores relative to the last dispatch time, which becomes the new time base.
    #[cold]
    fn rebase(&mut self) {
        let base = self.dispatch;
        self.registers.iter_mut().for_each(|time| *time = time.minus(base));
        for time in [&mut self.dispatch, &mut self.retired, &mut self.commit, &mut self.fence] {
            *time = time.minus(base);
        }
        for ring in
            [&mut self.dispatched, &mut self.reorder_buffer, &mut self.load_queue, &mut self.store_queue]
        {
            ring.rebase(base);
        }
        for buffers in [&mut self.fills, &mut self.ahead, &mut self.prefetches, &mut self.walkers] {
            buffers.rebase(base);
        }
        self.front.rebase(base);
        self.ports.rebase(base);
        self.scheduler.rebase(base);
        self.vector_scheduler.iter_mut().for_each(|scheduler| scheduler.rebase(base));
        self.l1.rebase(base);
        self.l3.rebase(base);
        self.stores.rebase(base);
        self.arrivals.rebase(base);
        self.early.rebase(base);
        self.memory.rebase(base);
        self.watch.rebase(base);
    }

    /// Empties the core before a new window.
    fn reset(&mut self) {
        self.registers.fill(T::START);
        (self.dispatch, self.retired) = (T::START, T::START);
        (self.commit, self.fence) = (T::START, T::START);
        (self.store_line, self.combined_line, self.is_restart) = (NO_LINE, NO_LINE, false);
        self.early.reset();
        for ring in
            [&mut self.dispatched, &mut self.reorder_buffer, &mut self.load_queue, &mut self.store_queue]
        {
            ring.reset(T::START);
        }
        for buffers in [&mut self.fills, &mut self.ahead, &mut self.prefetches, &mut self.walkers] {
            buffers.reset();
        }
        self.front.reset();
        self.ports.reset();
        self.scheduler.reset();
        self.vector_scheduler.iter_mut().for_each(Scheduler::reset);
        self.l1.reset();
        self.l3.reset();
        self.stores.reset();
        self.arrivals.reset();
        self.memory.reset();
    }
}
