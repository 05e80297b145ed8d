//! Serving a fault: the thread that took it waits until its page is there.

use super::pager::{Pager, Pending};
use crate::control::count;
use crate::stride::Stride;
use crate::sys::{PAGE, now_ns};
use crate::table::{Id, State};
use crate::transfers::Fetched;
use rustix::io::Errno;

/// Fault as the kernel reports it.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    pub address: usize,
    pub write: bool,
    pub thread: u32,
    /// Time when it was read.
    pub read_ns: u64,
}

/// Result of serving a fault.
enum Served {
    Yes,
    /// The address space is changing: its changes have to be read first.
    NotYet,
}

impl Pager {
    /// Serves a fault, makes room for its page, and charges it to its thread.
    pub(super) fn serve(&mut self, fault: Fault) {
        while let Served::NotYet = self.try_serve(fault) {
            self.read_changes();
        }
        self.reclaim();
        self.charge_overhead(fault);
    }

    fn try_serve(&mut self, fault: Fault) -> Served {
        let Some(id) = self.pages.table.find(fault.address) else {
            return self.first_touch(fault);
        };
        match self.pages.table.get(id).state {
            State::Inactive => self.soft_fault(id, fault),
            State::Remote => self.start_fetch(id, fault),
            State::Fetching => {
                self.await_fetch(id, fault);
                Served::Yes
            }
            State::Active | State::Stuck | State::Free => self.fill_if_missing(fault.address),
        }
    }

    /// Serves the first touch of a page of registered memory.
    fn first_touch(&mut self, Fault { address, thread, read_ns, .. }: Fault) -> Served {
        let thread = self.threads.faulted(thread, read_ns, self.control);
        let wanted = self.pages.untracked(address, thread.stride.pages_ahead(address));
        let memory = &self.memory;
        let (filled, result) = thread.woken_on(self.here, || memory.fill(address, wanted));
        let given = filled / PAGE;
        thread.stride = Stride::new(address, given);
        if given == 0 {
            if result == Err(Errno::AGAIN) {
                return Served::NotYet;
            }
            // The page is there already, or the memory is gone: the thread finds out by itself.
            self.memory.uffd.wake(address);
        }
        self.pages.track_new(address, given, now_ns());
        Served::Yes
    }

    /// Serves a fault on a page that the record says is there. Either another thread's fault brought it, or the
    /// kernel dropped it (`MADV_FREE`), in which case it reads as zero.
    fn fill_if_missing(&mut self, address: usize) -> Served {
        match self.memory.fill(address, 1).1 {
            Err(Errno::AGAIN) => Served::NotYet,
            Err(_) => {
                self.memory.uffd.wake(address);
                Served::Yes
            }
            Ok(()) => Served::Yes,
        }
    }

    fn soft_fault(&mut self, id: Id, fault: Fault) -> Served {
        let address = self.pages.table.get(id).address;
        self.threads.faulted(fault.thread, fault.read_ns, self.control);
        let served = self.put_back(id, address, fault.write, fault.thread);
        if let Served::Yes = served {
            count(&self.control.counts.soft_faults, 1);
            self.read_on(address, fault.thread);
        }
        served
    }

    /// Notes that a thread waits for a page under way. A second thread will be woken with the first.
    fn await_fetch(&mut self, id: Id, Fault { address, write, thread, read_ns }: Fault) {
        let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == id) else { return };
        if !pending.is_awaited {
            let due_ns = pending.due_ns.max(read_ns);
            *pending = Pending { is_awaited: true, due_ns, write, thread, read_ns, ..*pending };
            count(&self.control.counts.late, 1);
            self.read_on(address, thread);
        }
    }

    fn start_fetch(&mut self, id: Id, fault: Fault) -> Served {
        if self.withdraw(id) {
            self.pages.stayed(id);
            return self.soft_fault(id, fault);
        }
        let Fault { address, write, thread, read_ns } = fault;
        self.threads.faulted(thread, read_ns, self.control);
        let due_ns = self.transfers.request(read_ns, 0);
        self.pages.table.set_state(id, State::Fetching);
        let begun_ns = self.silence.awake_ns();
        self.pending.push(Pending {
            id,
            address,
            due_ns,
            read_ns,
            begun_ns,
            thread,
            write,
            is_awaited: true,
        });
        self.read_ahead_of(address, thread);
        Served::Yes
    }

    /// Returns when the next fetch under way is due, of those that a thread waits for or of the others. A page from a memory
    /// node counts once it is here.
    pub(super) fn next_due_ns(&self, is_awaited: bool) -> Option<u64> {
        let asked = self.pending.iter().filter(|pending| pending.is_awaited == is_awaited);
        asked.filter(|pending| self.contents(pending.id).is_some()).map(|pending| pending.due_ns).min()
    }

    /// Gives the program the pages that have arrived by now.
    pub(super) fn finish_fetches(&mut self) {
        let now = now_ns();
        let arrived =
            |pager: &Pager, pending: &Pending| pending.due_ns <= now && pager.contents(pending.id).is_some();
        while let Some(at) = self.pending.iter().position(|pending| arrived(self, pending)) {
            let pending = self.pending.remove(at);
            match pending.is_awaited {
                true => self.finish_fetch(pending),
                false => self.finish_ahead(pending),
            }
        }
    }

    /// Gives the program the page of a fetch that is not in `pending` any more, as soon as it is here.
    pub(super) fn finish_fetch(&mut self, pending: Pending) {
        loop {
            // Changes read below may have dropped or renamed the page.
            if self.pages.table.get(pending.id).state != State::Fetching {
                return self.memory.uffd.wake(pending.address);
            }
            if self.contents(pending.id).is_none() {
                self.ask_for(pending.id);
                self.wait_for_node();
                self.read_changes();
                continue;
            }
            let address = self.pages.table.get(pending.id).address;
            match self.put_back(pending.id, address, pending.write, pending.thread) {
                Served::Yes => break,
                Served::NotYet => self.read_changes(),
            }
        }
        if self.pages.table.get(pending.id).address != pending.address {
            self.memory.uffd.wake(pending.address);
        }
        if pending.is_awaited {
            self.account_fetch(pending);
        }
        self.reclaim();
    }

    /// Moves a page's contents into the program.
    fn put_back(&mut self, id: Id, address: usize, write: bool, thread: u32) -> Served {
        let contents = self.contents(id).expect("the page is here");
        let memory = &self.memory;
        let thread = self.threads.faulted(thread, now_ns(), self.control);
        match thread.woken_on(self.here, || memory.give(address, contents, PAGE, true)).1 {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Served::NotYet,
            Err(_) => return self.put_back_copy(id, address, write),
        }
        self.contents_moved(id);
        self.pages.activate(id, write, now_ns());
        Served::Yes
    }

    fn put_back_copy(&mut self, id: Id, address: usize, write: bool) -> Served {
        match self.copy_back(id, address) {
            Ok(id) => self.pages.activate(id, write, now_ns()),
            Err(Errno::AGAIN) => return Served::NotYet,
            // The page's place is gone; the message about that change is on its way.
            Err(_) => {
                self.pages.table.set_state(id, State::Remote);
                self.memory.uffd.wake(address);
            }
        }
        Served::Yes
    }

    fn account_fetch(&mut self, Pending { address, read_ns, due_ns, thread, .. }: Pending) {
        let thread = self.threads.faulted(thread, read_ns, self.control);
        let overhead_ns = core::mem::take(&mut thread.overhead_ns);
        let fetched = Fetched { address, seen_ns: read_ns, due_ns, thread: thread.index, overhead_ns };
        self.transfers.fetched(fetched, now_ns());
    }

    /// Charges a fault that was no fetch to its thread: time that a real blade would not have taken.
    fn charge_overhead(&mut self, Fault { address, thread, read_ns, .. }: Fault) {
        let fetching = |id| self.pages.table.get(id).state == State::Fetching;
        if self.pages.table.find(address).is_some_and(fetching) {
            return;
        }
        let cost_ns = self.transfers.overhead_ns(read_ns, now_ns());
        self.threads.faulted(thread, read_ns, self.control).overhead_ns += cost_ns;
    }
}
