//! Serving a fault: the faulting thread waits until its page is in the program.

use super::fetches::{Fetch, KernelFault};
use super::pager::Pager;
use super::space::PagedSpace;
use crate::control::count;
use crate::stride::Stride;
use crate::sys::{PAGE, now_ns};
use crate::table::{RecordId, State};
use crate::transfers::EndedFetch;
use rustix::io::Errno;

/// Result of an attempt to serve a fault.
enum FaultResult {
    Yes,
    /// The address space is changing: the messages about the changes have to be read first.
    NotYet,
}

impl Pager {
    /// Serves a fault, makes room for its page, and charges the cost to the faulting thread. During a burst, the room is made first, because
    /// the woken thread takes this core.
    pub(super) fn serve(&mut self, fault: KernelFault) {
        if self.handover.is_on() {
            self.make_room(1);
        }
        while let FaultResult::NotYet = self.try_serve(fault) {
            self.space.read_changes();
        }
        if self.handover.is_on() {
            return self.charge_overhead(fault, self.handover.woken_ns(fault.read_ns));
        }
        self.reclaim();
        self.charge_overhead(fault, now_ns());
    }

    fn try_serve(&mut self, fault: KernelFault) -> FaultResult {
        let Some(id) = self.space.pages.table.find(fault.address) else {
            return self.first_touch(fault);
        };
        match self.space.pages.table.get(id).state {
            State::Inactive => self.soft_fault(id, fault),
            State::Remote => self.start_fetch(id, fault),
            State::Fetching => {
                self.await_fetch(id, fault);
                FaultResult::Yes
            }
            State::Active | State::Stuck | State::Free => self.fill_if_missing(fault.address),
        }
    }

    /// Serves the first touch of a page of registered memory.
    fn first_touch(&mut self, KernelFault { address, thread, read_ns, .. }: KernelFault) -> FaultResult {
        let here = self.threads.here;
        let thread = self.threads.faulted(thread, read_ns);
        let wanted = self.space.pages.untracked(address, thread.stride.pages_ahead(address));
        let memory = &self.space.memory;
        let (filled, result) = self.handover.wake(thread, here, || memory.fill(address, wanted));
        let given = filled / PAGE;
        thread.stride = Stride::new(address, given);
        if given == 0 {
            if result == Err(Errno::AGAIN) {
                return FaultResult::NotYet;
            }
            // The page is present already, or the memory is gone. The woken thread repeats its access and gets the result.
            self.space.memory.uffd.wake(address);
        }
        self.space.pages.track_new(address, given, now_ns());
        FaultResult::Yes
    }

    /// Serves a fault on a page that is recorded as present. Either the fault of another thread brought the page, or the kernel dropped it
    /// (`MADV_FREE`); in the latter case, it reads as zero.
    fn fill_if_missing(&mut self, address: usize) -> FaultResult {
        match self.space.memory.fill(address, 1).1 {
            Err(Errno::AGAIN) => FaultResult::NotYet,
            Err(_) => {
                self.space.memory.uffd.wake(address);
                FaultResult::Yes
            }
            Ok(()) => FaultResult::Yes,
        }
    }

    fn soft_fault(&mut self, id: RecordId, fault: KernelFault) -> FaultResult {
        let address = self.space.pages.table.get(id).address;
        self.threads.faulted(fault.thread, fault.read_ns);
        let served = self.put_back(id, address, fault.write, fault.thread);
        if let FaultResult::Yes = served {
            count(&self.control.counts.soft_faults, 1);
            self.read_on(address, fault.thread);
        }
        served
    }

    /// Notes that a thread waits for a page in flight. If two threads wait for it, both will be woken at once.
    fn await_fetch(&mut self, id: RecordId, fault: KernelFault) {
        let Some(fetch) = self.space.fetches.find(id) else { return };
        if !fetch.is_awaited {
            fetch.is_awaited = true;
            fetch.due_ns = fetch.due_ns.max(fault.read_ns);
            fetch.fault = KernelFault { address: fetch.fault.address, ..fault };
            count(&self.control.counts.late, 1);
            self.read_on(fault.address, fault.thread);
        }
    }

    fn start_fetch(&mut self, id: RecordId, fault: KernelFault) -> FaultResult {
        if self.space.withdraw(id) {
            self.space.pages.stayed(id);
            return self.soft_fault(id, fault);
        }
        self.threads.faulted(fault.thread, fault.read_ns);
        self.begin_fetch(id, fault, true);
        self.read_ahead_of(fault.address, fault.thread);
        FaultResult::Yes
    }

    /// Requests a remote page from the link.
    pub(super) fn begin_fetch(&mut self, id: RecordId, fault: KernelFault, is_awaited: bool) {
        let due_ns = self.transfers.request(fault.read_ns, 0);
        let begun_ns = self.space.watch.awake_ns();
        self.space.pages.table.set_state(id, State::Fetching);
        self.space.fetches.begin(Fetch { id, fault, due_ns, begun_ns, is_awaited });
    }

    /// Gives the program the pages that have arrived by now.
    pub(super) fn finish_fetches(&mut self) {
        let now = now_ns();
        while let Some(fetch) = self.take_due(now) {
            match fetch.is_awaited {
                true => self.finish_fetch(fetch),
                false => self.finish_ahead(fetch),
            }
        }
    }

    fn take_due(&mut self, now_ns: u64) -> Option<Fetch> {
        let PagedSpace { fetches, store, pages, .. } = &mut self.space;
        fetches.take_due(now_ns, |id| store.contents(&pages.table, id).is_some())
    }

    /// Gives the program the page of a fetch, which was removed from the list, as soon as the page has arrived.
    pub(super) fn finish_fetch(&mut self, fetch: Fetch) {
        let Fetch { id, fault, .. } = fetch;
        let is_accounted = fetch.is_awaited && self.handover.is_on();
        if is_accounted {
            self.make_room(1);
            self.account_fetch(fetch, self.handover.end_ns());
        }
        loop {
            // Changes that are read below may have dropped or moved the page.
            if self.space.pages.table.get(id).state != State::Fetching {
                return self.space.memory.uffd.wake(fault.address);
            }
            if self.space.contents(id).is_none() {
                self.space.ask_for(id);
                self.space.wait_for_node();
                self.space.read_changes();
                continue;
            }
            let address = self.space.pages.table.get(id).address;
            match self.put_back(id, address, fault.write, fault.thread) {
                FaultResult::Yes => break,
                FaultResult::NotYet => self.space.read_changes(),
            }
        }
        if self.space.pages.table.get(id).address != fault.address {
            self.space.memory.uffd.wake(fault.address);
        }
        if fetch.is_awaited && !is_accounted {
            self.account_fetch(fetch, self.handover.woken_ns(fault.read_ns));
        }
        self.reclaim();
    }

    /// Moves a page's contents into the program.
    fn put_back(&mut self, id: RecordId, address: usize, write: bool, thread: u32) -> FaultResult {
        let contents = self.space.contents(id).expect("the page is here");
        let memory = &self.space.memory;
        let here = self.threads.here;
        let thread = self.threads.faulted(thread, now_ns());
        match self.handover.wake(thread, here, || memory.give(address, contents, PAGE, true)).1 {
            Ok(()) => {}
            Err(Errno::AGAIN) => return FaultResult::NotYet,
            Err(_) => return self.put_back_copy(id, address, write),
        }
        self.space.contents_moved(id);
        self.space.pages.activate(id, write, now_ns());
        FaultResult::Yes
    }

    fn put_back_copy(&mut self, id: RecordId, address: usize, write: bool) -> FaultResult {
        match self.space.copy_back(id, address) {
            Ok(id) => self.space.pages.activate(id, write, now_ns()),
            Err(Errno::AGAIN) => return FaultResult::NotYet,
            // The place of the page is gone; the message about that change will follow.
            Err(_) => {
                self.space.pages.table.set_state(id, State::Remote);
                self.space.memory.uffd.wake(address);
            }
        }
        FaultResult::Yes
    }

    /// Accounts a fetch whose thread is woken at `woken_ns`.
    fn account_fetch(&mut self, Fetch { fault, due_ns, .. }: Fetch, woken_ns: u64) {
        let KernelFault { address, thread, read_ns, .. } = fault;
        let thread = self.threads.faulted(thread, read_ns);
        let overhead_ns = core::mem::take(&mut thread.overhead_ns);
        let fetched = EndedFetch { address, seen_ns: read_ns, due_ns, thread: thread.index, overhead_ns };
        self.transfers.fetched(fetched, woken_ns);
    }

    /// Charges a fault that was not a fetch, and whose thread continued at `end_ns`, to its thread, because a real blade would not have
    /// taken this time.
    fn charge_overhead(&mut self, KernelFault { address, thread, read_ns, .. }: KernelFault, end_ns: u64) {
        let fetching = |id| self.space.pages.table.get(id).state == State::Fetching;
        if self.space.pages.table.find(address).is_some_and(fetching) {
            return;
        }
        let cost_ns = self.transfers.overhead_ns(read_ns, end_ns);
        self.threads.faulted(thread, read_ns).overhead_ns += cost_ns;
    }
}
