//! Storage of taken pages: in place, or at a memory node.
//!
//! Without a node, contents stay in their slot of the arena, and being remote only means a delay. With a node
//! they leave:
//! ```text
//!   in the slot --store--> leaving --stored--> at the node --load--> coming --loaded--> landed
//! ```
//! A page faulted on while it is leaving is taken back if its store was not sent yet; else it goes back from its
//! slot as soon as the store is done. Loaded pages arrive in a *landing*, a page of the den that is always
//! present, and are moved into the program from there. A slot's memory becomes a landing once its contents are at
//! the node, so that in the steady state no memory is allocated or freed.

use crate::control::{Control, FOR_GREETING, Settings, Slot};
use crate::den::{self, LANDINGS};
use crate::gate;
use crate::moves;
use crate::node::{self, Address, Client, Completion, Rejected};
use crate::pager::{Pager, zero_pages};
use crate::sys::{PAGE, Uffd};
use crate::table::{Contents, Id, State};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

/// Most spare landings with memory, kept for the next loads.
const SPARE: usize = 64;
/// Time in ns that evicting waits for a busy node before it handles faults again.
const BACK_PRESSURE_NS: i64 = 2_000_000;

/// Time in ns by which a session outlasts the patience of `unrack`, whose message is more detailed when it ends
/// the run.
const SECOND_THOUGHT_NS: u64 = 5_000_000_000;

/// Load of a page under way from the node.
struct Load {
    id: Id,
    landing: u32,
}

/// Session of this process with a memory node, and the landings.
pub(crate) struct Node {
    pub(crate) client: Client,
    done: Vec<Completion>,
    loads: Vec<Load>,
    /// Landings that hold a page that is not needed; below, those without memory.
    spare: Vec<u32>,
    bare: Vec<u32>,
    /// Number of slots whose contents are being stored, or are stored but not yet emptied.
    pub(crate) full_slots: usize,
}

impl Node {
    /// Connects, for at most the run's patience, and shows in `slot` that it waits for the greeting.
    fn connect(address: Address, control: &Control, slot: &'static Slot) -> Result<Node, node::Error> {
        slot.waits_for.store(FOR_GREETING, Relaxed);
        let timeout_ns = control.settings.patience_ns.load(Relaxed);
        let waited_ns = Some(&slot.waited_ns);
        let patience_ns = timeout_ns.saturating_add(SECOND_THOUGHT_NS);
        let settings = node::Settings { timeout_ns, waited_ns, patience_ns, ..node::Settings::new(address) };
        let client = Client::connect(&settings)?;
        slot.waited_ns.store(0, Relaxed);
        Ok(Node {
            client,
            done: Vec::new(),
            loads: Vec::new(),
            spare: Vec::new(),
            bare: (0..LANDINGS as u32).collect(),
            full_slots: 0,
        })
    }

    /// Returns the number of pages of this process's memory that hold remote pages or serve as landings.
    pub(crate) fn resident(&self) -> usize {
        self.full_slots + LANDINGS - self.bare.len()
    }

    /// Returns a landing with memory; `None` when all are in use, or the address space is changing.
    fn landing(&mut self, uffd: &Uffd) -> Option<u32> {
        if let Some(spare) = self.spare.pop() {
            return Some(spare);
        }
        let bare = self.bare.pop()?;
        if uffd.copy(den::landing(bare), zero_pages(), PAGE).1.is_err() {
            self.bare.push(bare);
            return None;
        }
        Some(bare)
    }

    fn landing_of(&self, id: Id) -> Option<usize> {
        let load = self.loads.iter().find(|load| load.id == id)?;
        Some(den::landing(load.landing))
    }

    /// Returns what to poll besides the userfaultfd.
    pub(crate) fn poll(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.client.fd(), self.client.interest())
    }
}

impl Settings {
    /// Returns the address of the run's memory node, if it has one.
    pub fn node(&self) -> Option<Address> {
        match self.backend.load(Relaxed) {
            0 => None,
            1 => Some(Address::Tcp { ip: self.node_ip(), port: self.node_port.load(Relaxed) as u16 }),
            2 => Some(Address::Shared(self.node_path())),
            _ => Some(Address::Encrypted {
                ip: self.node_ip(),
                port: self.node_port.load(Relaxed) as u16,
                by: self.node_path(),
            }),
        }
    }

    fn node_ip(&self) -> [u8; 4] {
        self.node_address.load(Relaxed).to_be_bytes()
    }

    fn node_path(&self) -> String {
        let bytes = self.node_path.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        let path: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&path).into_owned()
    }
}

impl Pager {
    /// Connects to the run's memory node before the first page goes there: most forked processes never send one.
    pub(crate) fn connect(&mut self) {
        if self.node.is_some() {
            return;
        }
        if let Some(address) = self.control.settings.node() {
            match Node::connect(address, self.control, self.slot) {
                Ok(node) => self.node = Some(node),
                Err(error) => self.lose_node(error),
            }
        }
    }

    fn lose_node(&self, error: node::Error) -> ! {
        gate::die(self.control, &std::fmt::format(format_args!("{error}")))
    }

    fn lose_room(&self) -> ! {
        let node::Limits { capacity, share } =
            self.node.as_ref().map(|node| node.client.limits()).unwrap_or_default();
        let mib = |pages: u64| (pages as usize * PAGE) >> 20;
        let text = format_args!(
            "the memory node is full, or this client has its share of it ({} of {} MiB): serve with a larger \
             --capacity or --per-client, or keep more local",
            mib(share),
            mib(capacity)
        );
        gate::die(self.control, &std::fmt::format(text))
    }

    /// Returns where a taken page's contents are, if they are in this process.
    pub(crate) fn contents(&self, id: Id) -> Option<usize> {
        match self.table.get(id).contents {
            Contents::Slot => Some(den::slot(id)),
            Contents::Landed => self.node.as_ref()?.landing_of(id),
            Contents::Leaving | Contents::AtNode | Contents::Coming => None,
        }
    }

    /// Notes that a page was moved out of the place from [`Pager::contents`]: its landing has no memory now.
    pub(crate) fn contents_moved(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        let record = self.table.get_mut(id);
        if record.contents == Contents::Landed {
            let at = node.loads.iter().position(|load| load.id == id).expect("landed");
            node.bare.push(node.loads.swap_remove(at).landing);
        }
        record.contents = Contents::Slot;
    }

    /// Sends an inactive page to the node. Returns false if the node is too busy now.
    pub(crate) fn send_out(&mut self, id: Id, changed: bool) -> bool {
        let Some(node) = &mut self.node else { return true };
        let record = self.table.get_mut(id);
        if record.held && !changed {
            record.contents = Contents::AtNode;
            node.full_slots += 1;
            self.vacate(id);
            return true;
        }
        // SAFETY: the slot's page does not change while the record says that it is leaving.
        match unsafe { node.client.store(id, den::slot(id)) } {
            Ok(()) => {
                record.contents = Contents::Leaving;
                node.full_slots += 1;
                true
            }
            Err(Rejected::Full) => false,
            Err(Rejected::NotHeld | Rejected::BadId) => {
                gate::die(self.control, "the memory node cannot name as many pages as this program has")
            }
        }
    }

    /// Takes a page back whose store was not sent yet. Its contents are in its slot again.
    pub(crate) fn withdraw(&mut self, id: Id) -> bool {
        let Some(node) = &mut self.node else { return false };
        let record = self.table.get_mut(id);
        if record.contents != Contents::Leaving || !node.client.withdraw(id) {
            return false;
        }
        node.full_slots -= 1;
        (record.contents, record.held, record.dirty) = (Contents::Slot, false, true);
        true
    }

    /// Requests the load of a page that is being fetched, unless it is under way, or here.
    pub(crate) fn ask_for(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        if self.table.get(id).contents != Contents::AtNode {
            return;
        }
        let Some(landing) = node.landing(&self.uffd) else { return };
        let at = den::landing(landing);
        // SAFETY: the landing's page was just put there, and only this load uses it.
        match unsafe { node.client.load(id, at) } {
            Ok(()) => {
                node.loads.push(Load { id, landing });
                self.table.get_mut(id).contents = Contents::Coming;
            }
            Err(Rejected::Full) => node.spare.push(landing),
            Err(Rejected::NotHeld | Rejected::BadId) => gate::die(
                self.control,
                "internal error: a page is neither here nor remote. Please report this",
            ),
        }
    }

    /// Requests pending loads, exchanges bytes with the node, and handles completed requests.
    pub(crate) fn progress(&mut self) {
        if self.node.is_none() {
            return;
        }
        for n in 0..self.pending.len() {
            self.ask_for(self.pending[n].id);
        }
        let Some(node) = &mut self.node else { return };
        let mut done = std::mem::take(&mut node.done);
        let result = node.client.progress(&mut done);
        for completion in done.drain(..) {
            match completion {
                Completion::Stored { id } => self.stored(id),
                Completion::Loaded { id } => self.loaded(id),
                Completion::Refused { .. } => self.lose_room(),
            }
        }
        if let Some(node) = &mut self.node {
            node.done = done;
        }
        if let Err(error) = result {
            self.lose_node(error);
        }
    }

    fn stored(&mut self, id: Id) {
        let record = self.table.get_mut(id);
        record.held = true;
        if record.state == State::Remote {
            record.contents = Contents::AtNode;
            return self.vacate(id);
        }
        // The page is wanted back meanwhile, or not needed any more: its slot is the best place.
        record.contents = Contents::Slot;
        if let Some(node) = &mut self.node {
            node.full_slots -= 1;
        }
    }

    fn loaded(&mut self, id: Id) {
        let record = self.table.get_mut(id);
        if record.state != State::Free {
            record.contents = Contents::Landed;
            return;
        }
        record.contents = Contents::AtNode;
        let Some(node) = &mut self.node else { return };
        if let Some(at) = node.loads.iter().position(|load| load.id == id) {
            node.spare.push(node.loads.swap_remove(at).landing);
        }
    }

    /// Empties the slot of a page that the node holds.
    fn vacate(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        if node.spare.len() < SPARE
            && let Some(landing) = node.bare.pop()
        {
            let pagemap = self.files.pagemap.as_fd();
            if moves::take(&self.uffd, pagemap, den::landing(landing), den::slot(id), PAGE).1.is_ok() {
                node.spare.push(landing);
                node.full_slots -= 1;
                return;
            }
            node.bare.push(landing);
        }
        self.table.get_mut(id).emptying = true;
        self.vacated.push(id);
    }

    /// Returns whether the node has forgotten a record that is no longer needed, too.
    pub(crate) fn forgotten(&mut self, id: Id) -> bool {
        let Some(node) = &mut self.node else { return true };
        let record = self.table.get_mut(id);
        if matches!(record.contents, Contents::Leaving | Contents::Coming) {
            return false;
        }
        if record.held && node.client.forget(&[id]) == 0 {
            return false;
        }
        record.held = false;
        true
    }

    /// Handles a page under way that the program dropped before it was moved in.
    pub(crate) fn dropped(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        let record = self.table.get_mut(id);
        if record.contents == Contents::Landed
            && let Some(at) = node.loads.iter().position(|load| load.id == id)
        {
            record.contents = Contents::AtNode;
            node.spare.push(node.loads.swap_remove(at).landing);
        }
        if record.contents == Contents::Leaving && node.client.withdraw(id) {
            (record.contents, record.held) = (Contents::Slot, false);
            node.full_slots -= 1;
        }
    }

    /// Sends what is queued, although no batch is full.
    pub(crate) fn flush(&mut self) {
        if let Some(node) = &mut self.node {
            node.client.flush();
        }
    }

    /// Waits for a moment until the node makes progress.
    pub(crate) fn wait_for_node(&mut self) {
        self.flush();
        self.progress();
        self.keep_watch();
        let Some(node) = &self.node else { return };
        let moment = Timespec { tv_sec: 0, tv_nsec: BACK_PRESSURE_NS };
        let uffd = self.uffd.fd();
        let mut both = [node.poll(), PollFd::from_borrowed_fd(uffd, PollFlags::IN)];
        // An error means a signal or nothing: the caller checks by itself.
        let _ = rustix::event::poll(&mut both, Some(&moment));
        self.progress();
    }

    /// Calls `put_back` for every page of `away` as soon as it is here, including those at the node.
    pub(crate) fn bring_back(&mut self, away: &[Id], mut put_back: impl FnMut(&mut Pager, Id)) {
        let mut rest = away.iter().copied();
        let mut wave: Vec<Id> = Vec::with_capacity(LANDINGS / 2);
        loop {
            let room = wave.capacity() - wave.len();
            wave.extend(rest.by_ref().take(room));
            if wave.is_empty() {
                return;
            }
            let before = wave.len();
            wave.retain(|id| {
                if self.is_away(*id) {
                    self.withdraw(*id);
                    self.ask_for(*id);
                    if self.contents(*id).is_some() {
                        put_back(self, *id);
                    }
                }
                self.is_away(*id)
            });
            if wave.len() == before {
                self.wait_for_node();
                self.read_changes();
            }
        }
    }
}
