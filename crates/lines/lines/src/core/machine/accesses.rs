//! Loads and stores of the core model: page walks, buffers, and the arrival of lines.

use super::{CoreModel, NO_LINE, WindowPosition};
use crate::core::arrivals::ArrivalKind;
use crate::core::memory::Memory;
use crate::core::program::PreparedInstruction;
use crate::core::time::LaneTime;
use crate::core::watch::{CoreObserver, WaitCause};
use crate::instruction;
use crate::window::{LineAccess, ServedBy, WalkLoads};

impl<T: LaneTime, M: Memory<T>, W: CoreObserver<T>> CoreModel<T, M, W> {
    /// Executes a load whose address is known at `address`. Returns when the loaded value is available.
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        access: &LineAccess,
        address: T,
        position: &mut WindowPosition,
        waited: &mut WaitCause,
    ) -> T {
        let asked = self.early.take(position.handled).map_or(address, |early| address.earlier(early));
        let ready = self.walk(access, asked, waited);
        let line = access.address / 64;
        let (begin, mut end);
        if access.served == ServedBy::L1 {
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
            let waited_for;
            (begin, end, waited_for) = self.fetch(access.served, line, access.near, ready, ArrivalKind::Load);
            end = end.later(address.after(self.parameters.caches.l1));
            *waited = (*waited).max(waited_for);
        }
        self.moved(position, begin);
        end
    }

    /// Fetches the code lines that a step needs and that are not in the first-level cache. The requests begin with the
    /// step's first fetch group.
    #[inline(always)]
    pub(super) fn fetch_code(&mut self, step: usize, position: &mut WindowPosition) {
        while let Some(fetch) = position.window.fetches.get(position.fetch)
            && fetch.step as usize == step
        {
            position.fetch += 1;
            let begin = self.front.group(self.dispatch);
            let interval = self.parameters.caches.l3_demand_interval;
            let end = self.level(fetch.served, fetch.line / 64, fetch.near, begin, interval);
            self.front.wait(end);
        }
    }

    /// Brings a line into the first-level cache. Returns the time at which the line is requested, the time at which it
    /// arrives, and the reason that is reported for a wait for the line.
    fn fetch(
        &mut self,
        served: ServedBy,
        line: u64,
        near: u16,
        ready: T,
        by: ArrivalKind,
    ) -> (T, T, WaitCause) {
        let caches = &self.parameters.caches;
        let interval =
            if by == ArrivalKind::Store { caches.store_fill_interval } else { caches.fill_interval };
        let begin = self.l1.send_for(interval, self.fills.begin(ready), self.dispatch);
        let (end, waited) = self.arrived(served, line, near, begin);
        self.fills.take(end);
        self.arrivals.insert(line, begin, end, by, waited);
        (begin, end, waited)
    }

    /// Prefetches a line from the second-level cache into the first-level cache.
    ///
    /// Departure: prefetches into the first-level cache have separate buffers, and their number is the number of fill
    /// buffers for loads. In a real core, loads and prefetches share one set of buffers, in which loads have priority.
    fn fetch_ahead(&mut self, line: u64, near: u16, ready: T) {
        let begin = self.l1.send(self.ahead.begin(ready), self.dispatch);
        let (end, waited) = self.arrived(ServedBy::L2, line, near, begin);
        self.ahead.take(end);
        self.arrivals.insert(line, begin, end, ArrivalKind::Load, waited);
    }

    /// Returns the time at which a line that is requested at `begin` arrives at the first-level cache, and the reason
    /// that is reported for a wait for the line.
    fn arrived(&mut self, served: ServedBy, line: u64, near: u16, begin: T) -> (T, WaitCause) {
        let interval = self.parameters.caches.l3_demand_interval;
        let end = self.level(served, line, near, begin, interval);
        // According to the recorder, the second-level cache contains the line, but the line may still be in flight. If
        // another level serves the line, a recorded arrival belongs to a copy that has been evicted since.
        match self.arrivals.arrival(line, begin).filter(|_| served == ServedBy::L2) {
            Some(arrival) if arrival.end.is_later(&end) => (end.later(arrival.end), arrival.waited),
            _ => (end, WaitCause::for_line(served)),
        }
    }

    /// Returns when the level `served` has served a request that begins at `begin`. A line from the last-level cache
    /// occupies the channel from this cache for `l3_interval` cycles.
    fn level(&mut self, served: ServedBy, line: u64, near: u16, begin: T, l3_interval: f32) -> T {
        let caches = &self.parameters.caches;
        match served {
            ServedBy::L1 => begin.after(caches.l1),
            ServedBy::L2 => begin.after(caches.l2),
            ServedBy::L3 => self.l3.send_for(l3_interval, begin, self.dispatch).after(caches.l3),
            ServedBy::Peer => begin.after(caches.peer),
            ServedBy::Memory => {
                let end = self.memory.read(begin, self.dispatch, line, near);
                self.watch.read(begin, end);
                end
            }
        }
    }

    /// Translates the virtual address of an access. `address` is the time at which this address is known. Returns when
    /// the translation is available.
    #[inline(always)]
    fn walk(&mut self, access: &LineAccess, address: T, waited: &mut WaitCause) -> T {
        if access.walk == WalkLoads::default() { address } else { self.walk_tables(access, address, waited) }
    }

    /// Walks the page tables, which are in local memory. The loads of a walk depend on one another, so the latencies of
    /// the levels that serve them add up.
    #[cold]
    fn walk_tables(&mut self, access: &LineAccess, address: T, waited: &mut WaitCause) -> T {
        let walk = access.walk;
        let caches = &self.parameters.caches;
        let looked_up = address.after(caches.second_level_tlb);
        if walk.is_second_level_hit {
            return looked_up;
        }
        let latencies = [caches.l1, caches.l2, caches.l3];
        let levels = walk.caches.iter().zip(latencies);
        let cycles: f32 = levels.map(|(loads, latency)| f32::from(*loads) * latency).sum();
        let latency = match access.served {
            ServedBy::Memory => self.parameters.walk_latency,
            _ => self.parameters.cached_walk_latency,
        };
        let mut end = self.walkers.begin(looked_up).after(cycles + latency);
        *waited = (*waited).max(WaitCause::Cache);
        for _ in 0..walk.memory {
            end = self.memory.load_entry(end);
            *waited = WaitCause::Memory;
        }
        self.walkers.take(end);
        end
    }

    /// Issues the software prefetches of an instruction. Returns when the last prefetch has obtained its fill buffer.
    /// The function does not wait for the lines to arrive, because no instruction waits for them.
    pub(super) fn prefetch(
        &mut self,
        accesses: &[LineAccess],
        address: T,
        position: &mut WindowPosition,
    ) -> T {
        let mut last = address;
        for access in accesses {
            let begin = self.walk(access, address, &mut WaitCause::Core);
            let line = access.address / 64;
            let begin = match access.served {
                ServedBy::L1 => begin,
                served => self.fetch(served, line, access.near, begin, ArrivalKind::Load).0,
            };
            last = last.later(begin);
            self.moved(position, begin);
        }
        last
    }

    /// Translates the addresses of an instruction's stores. Returns when all translations are available, because an
    /// instruction cannot retire before.
    pub(super) fn translate(&mut self, accesses: &[LineAccess], address: T) -> T {
        let mut end = address;
        for access in accesses.iter().filter(|access| access.is_store) {
            end = end.later(self.walk(access, address, &mut WaitCause::Core));
        }
        end
    }

    /// Executes an instruction's stores in order, after its retirement.
    pub(super) fn store(
        &mut self,
        prepared: &PreparedInstruction,
        accesses: &[LineAccess],
        known: T,
        position: &mut WindowPosition,
    ) {
        let is_nontemporal = prepared.memory == instruction::MemoryUse::NontemporalStore;
        for access in accesses.iter().filter(|access| access.is_store) {
            let begin = if is_nontemporal { self.combine(access) } else { self.commit(access) };
            self.store_queue.push(self.commit);
            self.stores.push(access.address, access.bytes, known, self.commit);
            self.moved(position, begin);
        }
    }

    /// Writes a store to the first-level cache. Returns when the store's line is requested.
    ///
    /// The line is requested when the store retires, so that the lines of several stores can be in flight
    /// simultaneously (Cebrian et al., "Boosting store buffer efficiency with store-prefetch bursts", MICRO 2020,
    /// section 2). A store to the same line as the previous store is merged with it.
    fn commit(&mut self, access: &LineAccess) -> T {
        let line = access.address / 64;
        let next = if line == self.store_line { self.commit } else { self.commit.after(1.0) };
        let mut commit = next.later(self.retired);
        let mut begin = self.retired;
        if access.served == ServedBy::L1 {
            if let Some(end) = self.arrivals.end(line) {
                commit = commit.later(end);
            }
        } else {
            let end;
            (begin, end, _) = self.fetch(access.served, line, access.near, begin, ArrivalKind::Store);
            commit = commit.later(end);
        }
        (self.commit, self.store_line) = (commit, line);
        begin
    }

    /// Gathers a non-temporal store in a write-combining buffer, which is one of the fill buffers (Intel 64 and IA-32
    /// Architectures Optimization Reference Manual, "Write combining"). Returns when the line of the store is sent to
    /// memory.
    ///
    /// The recorder also records a write-back of the same line, which [`moved`](Self::moved) ignores.
    ///
    /// Departure: the model sends the line to memory at the first store to it. A real core sends the line after the
    /// last store.
    fn combine(&mut self, access: &LineAccess) -> T {
        let line = access.address / 64;
        // The recorder has several write-combining buffers. It marks a store to a line that is already being gathered
        // as served by the first level.
        if line == self.combined_line || access.served == ServedBy::L1 {
            self.commit = self.commit.later(self.retired);
            return self.commit;
        }
        let begin = self.fills.begin(self.commit.after(1.0).later(self.retired));
        let end = self.memory.write(begin, self.dispatch, line, access.near);
        self.fills.take(end);
        (self.commit, self.combined_line, self.store_line) = (begin, line, NO_LINE);
        begin
    }

    /// Executes the prefetches and write-backs that the recorder attributes to the current access, which began at
    /// `begin`.
    #[inline(always)]
    fn moved(&mut self, position: &mut WindowPosition, begin: T) {
        let window = position.window;
        while let Some(prefetch) = window.prefetches.get(position.prefetch)
            && prefetch.after as usize <= position.handled
        {
            position.prefetch += 1;
            let line = prefetch.line / 64;
            // A prefetcher of the second-level cache requests only lines that are not in this cache. Therefore a
            // prefetched line that the second-level cache serves goes to the first-level cache.
            if prefetch.served == ServedBy::L2 {
                self.fetch_ahead(line, prefetch.near, begin);
                continue;
            }
            let begin = self.prefetches.begin(begin);
            let interval = self.parameters.caches.l3_interval;
            let end = self.level(prefetch.served, line, prefetch.near, begin, interval);
            self.prefetches.take(end);
            self.arrivals.insert(line, begin, end, ArrivalKind::Load, WaitCause::for_line(prefetch.served));
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
}
