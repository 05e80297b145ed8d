//! Scoreboard of an out-of-order core, over one window.
//!
//! Each instruction is seen once, in the order of the program; a sum or a maximum of times tells when it is dispatched, when
//! its inputs and its result are known, and when it retires, as in ZSim (Sanchez and Kozyrakis, ISCA 2013, section 3.1)
//! and in Sniper's instruction-window-centric core (Carlson et al., TACO 2014).

use super::arrivals::{Arrivals, By};
use super::buffers::Buffers;
use super::memory::{Channel, Memory};
use super::parameters::CoreParameters;
use super::ports::{Kind, PortRates};
use super::program::{Order, Prepared, Program};
use super::ring::Ring;
use super::scheduler::Scheduler;
use super::stores::Stores;
use super::time::Time;
use super::watch::{Retirement, Waited, Watch};
use crate::instruction::{self, REGISTERS};
use crate::window::{Access, Served, Walk, Window};

/// Cycles after which times are counted anew.
const REBASE: f32 = 262_144.0;
/// Stands for no line.
const NO_LINE: u64 = u64::MAX;

/// Core and its queues.
pub(super) struct Machine<T, M, W> {
    parameters: CoreParameters,
    /// Time at which each register has its value.
    registers: [T; REGISTERS],
    /// Dispatch of the last slot, and of as many slots as are dispatched in a cycle.
    dispatch: T,
    dispatched: Ring<T>,
    /// Retirement of the last slot, and of all slots of the reorder buffer.
    retired: T,
    reorder_buffer: Ring<T>,
    load_queue: Ring<T>,
    store_queue: Ring<T>,
    /// Write of the last store to the first level.
    commit: T,
    /// Line of the last store; the line that a write-combining buffer collects.
    store_line: u64,
    combined_line: u64,
    /// Time before which no memory access begins.
    fence: T,
    is_restart: bool,
    ports: PortRates<T>,
    scheduler: Scheduler<T>,
    /// Scheduler of vectors, where there is one.
    vector_scheduler: Option<Scheduler<T>>,
    fills: Buffers<T>,
    prefetches: Buffers<T>,
    walkers: Buffers<T>,
    /// Way from the last level to the second.
    l3: Channel<T>,
    stores: Stores<T>,
    arrivals: Arrivals<T>,
    pub(super) memory: M,
    pub(super) watch: W,
}

/// Place in a window: what comes next.
struct Position<'a> {
    window: &'a Window,
    /// Index of the next access to be taken, and of the end of its step's.
    access: usize,
    end: usize,
    /// Accesses whose lines have moved.
    handled: usize,
    /// Index of the next prefetch and write-back.
    prefetch: usize,
    write_back: usize,
}

impl<T: Time, M: Memory<T>, W: Watch<T>> Machine<T, M, W> {
    /// Creates a core that has done nothing. The parameters are valid.
    pub(super) fn new(parameters: &CoreParameters, memory: M, watch: W) -> Machine<T, M, W> {
        let p = parameters;
        Machine {
            registers: [T::START; REGISTERS],
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
            ports: PortRates::new(p),
            scheduler: Scheduler::new(p.scheduler),
            vector_scheduler: p.vector_scheduler.map(Scheduler::new),
            fills: Buffers::new(p.fill_buffers),
            prefetches: Buffers::new(p.prefetch_buffers),
            walkers: Buffers::new(p.walkers),
            l3: Channel::new(p.caches.l3_interval),
            stores: Stores::new(p.store_queue, p.forward_latency, p.caches.l1),
            arrivals: Arrivals::new(),
            memory,
            watch,
            parameters: parameters.clone(),
        }
    }

    /// Runs a window from an empty core. Adds the cycles of each lane from the end of the lead to the retirement of the last
    /// instruction to `cycles`.
    pub(super) fn run(&mut self, program: &Program, window: &Window, cycles: &mut [f64]) {
        self.reset();
        let mut position = Position { window, access: 0, end: 0, handled: 0, prefetch: 0, write_back: 0 };
        let mut lead = window.lead;
        if lead == 0 {
            self.watch.start();
        }
        for (number, step) in window.steps.iter().enumerate() {
            position.enter(number);
            for (index, prepared) in (0..step.instructions).zip(program.block(step.block)) {
                let is_last = index + 1 == step.instructions;
                self.instruction(prepared, index, &mut position, step.is_mispredicted && is_last);
                lead = self.lead(lead, cycles);
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

    /// Returns when the last instruction has retired.
    pub(super) fn retired(&self) -> T {
        self.retired
    }

    /// Counts one instruction of the lead, if any is left. Returns how many are left.
    #[inline(always)]
    fn lead(&mut self, left: u32, cycles: &mut [f64]) -> u32 {
        if left == 1 {
            self.watch.start();
            self.count(cycles, -1.0);
        }
        left.saturating_sub(1)
    }

    /// Adds the time of the last retirement, with this sign.
    fn count(&self, cycles: &mut [f64], sign: f64) {
        for (lane, cycles) in cycles.iter_mut().enumerate() {
            *cycles += sign * f64::from(self.retired.cycles(lane));
        }
    }

    #[inline(always)]
    fn instruction(
        &mut self,
        prepared: &Prepared,
        index: u16,
        position: &mut Position,
        is_mispredicted: bool,
    ) {
        let accesses = position.accesses(index);
        let stores = accesses.iter().filter(|access| access.is_store).count();
        let loads = accesses.len() - stores;
        let room = self.dispatch(prepared, loads, stores);
        let mut start = self.ready(self.dispatch, prepared.sources.all());
        if prepared.order != Order::Free {
            start = start.later(self.retired).later(self.commit);
        }
        let mut address = start;
        let mut waited = Waited::Core;
        if !accesses.is_empty() {
            address = self.address(prepared);
            if prepared.memory == instruction::Memory::Prefetch {
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

    /// Dispatches the slots of an instruction. Returns when the store queue had room.
    #[inline(always)]
    fn dispatch(&mut self, prepared: &Prepared, loads: usize, stores: usize) -> T {
        let mut room = T::START;
        if loads > 0 {
            self.dispatch = self.dispatch.later(self.load_queue.oldest(loads - 1));
        }
        if stores > 0 {
            room = self.store_queue.oldest(stores - 1);
            self.dispatch = self.dispatch.later(room);
        }
        self.dispatch = self.ports.bound(self.dispatch, prepared.kind, loads, stores);
        if prepared.is_scheduled(loads + stores) {
            let dispatch = self.dispatch;
            self.dispatch = self.scheduler(prepared.kind).room(dispatch);
        }
        for slot in 0..usize::from(prepared.slots) {
            let width = self.dispatched.oldest(0).after(1.0);
            self.dispatch = self.dispatch.later(self.reorder_buffer.oldest(slot)).later(width);
            self.dispatched.push(self.dispatch);
        }
        room
    }

    /// Returns the scheduler of a kind of operations.
    #[inline(always)]
    fn scheduler(&mut self, kind: Kind) -> &mut Scheduler<T> {
        match &mut self.vector_scheduler {
            Some(scheduler) if kind.is_vector() => scheduler,
            _ => &mut self.scheduler,
        }
    }

    /// Notes when an operation leaves the scheduler: at its beginning, or where it only loads, with its address.
    #[inline(always)]
    fn issue(&mut self, prepared: &Prepared, start: T, address: T, accesses: usize) {
        if prepared.is_scheduled(accesses) {
            let begin = match prepared.memory {
                instruction::Memory::Load if prepared.is_move => address,
                _ => start.later(address),
            };
            self.scheduler(prepared.kind).push(begin);
        }
    }

    /// Returns when some registers have their values, at the earliest at `from`.
    #[inline(always)]
    fn ready(&self, from: T, registers: &[instruction::Register]) -> T {
        registers.iter().fold(from, |time, register| time.later(self.registers[usize::from(*register)]))
    }

    /// Returns when the address of an instruction's accesses is known and they may begin.
    #[inline(always)]
    fn address(&self, prepared: &Prepared) -> T {
        let address = self.ready(self.dispatch.later(self.fence), prepared.address.all());
        match prepared.order {
            Order::Free => address,
            _ => address.later(self.retired).later(self.commit),
        }
    }

    /// Retires an instruction whose results are known at `known`, in order and by so many slots a cycle.
    #[inline(always)]
    fn retire(&mut self, prepared: &Prepared, known: T, loads: usize, room: T, waited: Waited) {
        let before = self.retired;
        let width = self.parameters.retire_width.min(self.reorder_buffer.len());
        let mut retired = known.later(before);
        for _ in 0..prepared.slots {
            retired = retired.later(self.reorder_buffer.pushed(width).after(1.0));
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

    /// Lets the front end begin anew after a mispredicted branch, and the core after a system call.
    #[inline(always)]
    fn restart(&mut self, prepared: &Prepared, end: T, is_mispredicted: bool) {
        self.is_restart = is_mispredicted || prepared.order == Order::SystemCall;
        if is_mispredicted {
            self.dispatch = self.dispatch.later(end.after(self.parameters.mispredict_penalty));
        }
        match prepared.order {
            Order::Free => {}
            Order::Serializing => self.fence = self.fence.later(end),
            Order::SystemCall => self.dispatch = self.dispatch.later(self.retired),
        }
    }

    /// Loads what one access asks for. Returns when the value is there.
    #[inline(always)]
    fn load(&mut self, access: &Access, address: T, position: &mut Position, waited: &mut Waited) -> T {
        let ready = self.walk(access.walk, address, waited);
        let line = access.address / 64;
        let (begin, mut end);
        if access.served == Served::L1 {
            (begin, end) = (ready, ready.after(self.parameters.caches.l1));
            let forwarded = self.stores.forwarded(access.address, access.bytes);
            let is_whole = forwarded.as_ref().is_some_and(|forwarded| forwarded.is_whole);
            if let Some(forwarded) = forwarded {
                end = end.later(forwarded.time);
            }
            if !is_whole
                && let Some(arrival) = self.arrivals.arrival(line, ready)
                && arrival.end.is_later(&end)
            {
                *waited = (*waited).max(arrival.waited);
                end = end.later(arrival.end);
            }
        } else {
            (begin, end) = self.fetch(access.served, line, access.near, ready, By::Load);
            *waited = (*waited).max(Waited::for_line(access.served));
        }
        self.moved(position, begin);
        end
    }

    /// Brings a line to the first level. Returns when it is asked for and when it is there.
    fn fetch(&mut self, served: Served, line: u64, near: u16, ready: T, by: By) -> (T, T) {
        let begin = self.fills.begin(ready);
        let mut end = self.level(served, line, near, begin);
        // Of a line on its way, the caches below have no copy yet. One that was lost again is older.
        if served == Served::L2
            && let Some(arrival) = self.arrivals.arrival(line, begin)
        {
            end = end.later(arrival.end);
        }
        self.fills.take(end);
        self.arrivals.insert(line, begin, end, by, Waited::for_line(served));
        (begin, end)
    }

    /// Returns when a level has served a request that begins at `begin`.
    fn level(&mut self, served: Served, line: u64, near: u16, begin: T) -> T {
        let caches = &self.parameters.caches;
        match served {
            Served::L1 => begin.after(caches.l1),
            Served::L2 => begin.after(caches.l2),
            Served::L3 => self.l3.send(begin, self.dispatch).after(caches.l3),
            Served::Peer => begin.after(caches.peer),
            Served::Memory => {
                let end = self.memory.read(begin, self.dispatch, line, near);
                self.watch.read(begin, end);
                end
            }
        }
    }

    /// Translates the address of an access. Returns when that is done.
    #[inline(always)]
    fn walk(&mut self, walk: Walk, address: T, waited: &mut Waited) -> T {
        if walk == Walk::default() { address } else { self.walk_tables(walk, address, waited) }
    }

    /// Walks the page tables: one load after another, each at its level. They are near.
    #[cold]
    fn walk_tables(&mut self, walk: Walk, address: T, waited: &mut Waited) -> T {
        let caches = &self.parameters.caches;
        let looked_up = address.after(caches.second_level_tlb);
        if walk.is_second_level_hit {
            return looked_up;
        }
        let latencies = [caches.l1, caches.l2, caches.l3];
        let levels = walk.caches.iter().zip(latencies);
        let cycles: f32 = levels.map(|(loads, latency)| f32::from(*loads) * latency).sum();
        let mut end = self.walkers.begin(looked_up).after(cycles + self.parameters.walk_latency);
        *waited = (*waited).max(Waited::Cache);
        for _ in 0..walk.memory {
            end = self.memory.load_entry(end);
            *waited = Waited::Memory;
        }
        self.walkers.take(end);
        end
    }

    /// Begins software prefetches. Returns when the last has its buffer: nothing waits for the lines.
    fn prefetch(&mut self, accesses: &[Access], address: T, position: &mut Position) -> T {
        let mut last = address;
        for access in accesses {
            let begin = self.walk(access.walk, address, &mut Waited::Core);
            let line = access.address / 64;
            let begin = match access.served {
                Served::L1 => begin,
                served => self.fetch(served, line, access.near, begin, By::Load).0,
            };
            last = last.later(begin);
            self.moved(position, begin);
        }
        last
    }

    /// Translates the addresses of an instruction's stores, which they need before they retire.
    fn translate(&mut self, accesses: &[Access], address: T) -> T {
        let mut end = address;
        for access in accesses.iter().filter(|access| access.is_store) {
            end = end.later(self.walk(access.walk, address, &mut Waited::Core));
        }
        end
    }

    /// Writes what an instruction stores, after its retirement and in order.
    fn store(&mut self, prepared: &Prepared, accesses: &[Access], known: T, position: &mut Position) {
        let is_nontemporal = prepared.memory == instruction::Memory::NontemporalStore;
        for access in accesses.iter().filter(|access| access.is_store) {
            let begin = if is_nontemporal { self.combine(access) } else { self.commit(access) };
            self.store_queue.push(self.commit);
            self.stores.push(access.address, access.bytes, known, self.commit);
            self.moved(position, begin);
        }
    }

    /// Writes a store to the first level. Its line is asked for at retirement, so that lines of several stores are on their
    /// way at once (Cebrian et al., "Boosting store buffer efficiency with store-prefetch bursts", MICRO 2020, section 2).
    /// A store to the line of the store before joins it. Returns when the line is asked for.
    fn commit(&mut self, access: &Access) -> T {
        let line = access.address / 64;
        let next = if line == self.store_line { self.commit } else { self.commit.after(1.0) };
        let mut commit = next.later(self.retired);
        let mut begin = self.retired;
        if access.served == Served::L1 {
            if let Some(end) = self.arrivals.end(line) {
                commit = commit.later(end);
            }
        } else {
            let end;
            (begin, end) = self.fetch(access.served, line, access.near, begin, By::Store);
            commit = commit.later(end);
        }
        (self.commit, self.store_line) = (commit, line);
        begin
    }

    /// Collects a non-temporal store in a write-combining buffer, which is one of the fill buffers (Intel 64 and IA-32
    /// Architectures Optimization Reference Manual, "Write combining"). Returns when its line is sent to memory.
    ///
    /// The recorder notes the line as a write-back too: [`moved`](Self::moved) leaves it out.
    ///
    /// Departure: a line is sent with its first store, not its last.
    fn combine(&mut self, access: &Access) -> T {
        let line = access.address / 64;
        // The recorder has several such buffers: it says of a store whose line is gathered that the first level served it.
        if line == self.combined_line || access.served == Served::L1 {
            self.commit = self.commit.later(self.retired);
            return self.commit;
        }
        let begin = self.fills.begin(self.commit.after(1.0).later(self.retired));
        let end = self.memory.write(begin, self.dispatch, line, access.near);
        self.fills.take(end);
        (self.commit, self.combined_line, self.store_line) = (begin, line, NO_LINE);
        begin
    }

    /// Moves the lines that an access caused to move, which began at `begin`: prefetches and write-backs.
    #[inline(always)]
    fn moved(&mut self, position: &mut Position, begin: T) {
        let window = position.window;
        while let Some(prefetch) = window.prefetches.get(position.prefetch)
            && prefetch.after as usize <= position.handled
        {
            position.prefetch += 1;
            let begin = self.prefetches.begin(begin);
            let line = prefetch.line / 64;
            let end = self.level(prefetch.served, line, prefetch.near, begin);
            self.prefetches.take(end);
            self.arrivals.insert(line, begin, end, By::Load, Waited::for_line(prefetch.served));
        }
        while let Some(write_back) = window.write_backs.get(position.write_back)
            && write_back.after as usize <= position.handled
        {
            position.write_back += 1;
            let line = write_back.line / 64;
            if line != self.combined_line {
                self.memory.write_back(begin, self.dispatch, line, write_back.near);
            }
        }
        position.handled += 1;
    }

    /// Counts all times from the last dispatch.
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
        for buffers in [&mut self.fills, &mut self.prefetches, &mut self.walkers] {
            buffers.rebase(base);
        }
        self.ports.rebase(base);
        self.scheduler.rebase(base);
        self.vector_scheduler.iter_mut().for_each(|scheduler| scheduler.rebase(base));
        self.l3.rebase(base);
        self.stores.rebase(base);
        self.arrivals.rebase(base);
        self.memory.rebase(base);
        self.watch.rebase(base);
    }

    /// Empties the core.
    fn reset(&mut self) {
        self.registers.fill(T::START);
        (self.dispatch, self.retired) = (T::START, T::START);
        (self.commit, self.fence) = (T::START, T::START);
        (self.store_line, self.combined_line, self.is_restart) = (NO_LINE, NO_LINE, false);
        for ring in
            [&mut self.dispatched, &mut self.reorder_buffer, &mut self.load_queue, &mut self.store_queue]
        {
            ring.reset(T::START);
        }
        for buffers in [&mut self.fills, &mut self.prefetches, &mut self.walkers] {
            buffers.reset();
        }
        self.ports.reset();
        self.scheduler.reset();
        self.vector_scheduler.iter_mut().for_each(Scheduler::reset);
        self.l3.reset();
        self.stores.reset();
        self.arrivals.reset();
        self.memory.reset();
    }
}

impl<'a> Position<'a> {
    /// Enters a step.
    #[inline(always)]
    fn enter(&mut self, number: usize) {
        let next = self.window.steps.get(number + 1);
        self.access = self.window.steps[number].first_access as usize;
        self.end = next.map_or(self.window.accesses.len(), |next| next.first_access as usize);
    }

    /// Takes the accesses of the next instruction, whose index in its block is `index`.
    #[inline(always)]
    fn accesses(&mut self, index: u16) -> &'a [Access] {
        let rest = &self.window.accesses[self.access..self.end];
        let count = rest.iter().take_while(|access| access.instruction == index).count();
        self.access += count;
        &rest[..count]
    }
}
