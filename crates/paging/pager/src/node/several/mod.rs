//! Sessions with several memory nodes, behind the interface of one client.
//!
//! *Striped*: each page is at one node. Runs of [`STRIPE`] neighbouring ids go to one node and the next run to the next node, so that
//! neighbouring pages still travel in one message. If a node refuses a page, the page goes to the next node that has room; therefore the
//! capacity is the sum of all capacities. If one node is lost, its pages are lost, and the set ends with the error that names the node.
//!
//! *Mirrored*: each page is at every node. A store completes when all live nodes have the page, and a load asks one live node. A node is
//! lost if its session ends, or if it owes an answer and stays silent while another node answers. Its session is then closed, which means
//! that no late answer can arrive in memory that is used otherwise by then. Stores no longer wait for the lost node, and its loads are
//! asked of another node. The set ends when the last node is lost.
//!
//! The caller polls one descriptor: an epoll instance with the sockets of all sessions.

mod member;

use self::member::Member;
use super::client::Client;
use super::error::{Error, ErrorKind};
use super::held::ById;
use super::request::{Owed, PageCompletion, Rejected};
use super::settings::{NodeLimits, NodeSettings};
use crate::sys::now_ns;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of neighbouring page ids that go to the same node: as many as one message carries by default.
const STRIPE: u32 = 32;
/// Time in ns of silence after which loads are asked of another node of the mirror. A node that is alive answers within microseconds, or
/// milliseconds if its core or the network is busy.
const LATE_NS: u64 = 20_000_000;

/// Store that is not complete.
struct PendingStore {
    at: usize,
    /// Nodes that have not answered, one bit each.
    awaited: u32,
    /// Nodes that refused the page, one bit each.
    refused: u32,
    is_stored: bool,
}

/// Load that is not complete.
#[derive(Clone, Copy)]
struct PendingLoad {
    id: u32,
    at: usize,
    node: usize,
}

/// Way in which pages are placed at several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redundancy {
    Striped,
    /// A node that is silent for this time in ns while another one answers is lost.
    Mirrored {
        spare_patience_ns: u64,
    },
}

/// Sessions with several nodes.
pub struct NodeSet {
    redundancy: Redundancy,
    /// The nodes in the order of their addresses; `None`: lost.
    members: Vec<Option<Member>>,
    stores: BTreeMap<u32, PendingStore>,
    loads: Vec<PendingLoad>,
    /// 1 + index of the node that has a page; 0: none. Only used without a mirror.
    places: ById<u8>,
    ready: OwnedFd,
    /// Time of the latest exchange (monotonic ns).
    now_ns: u64,
    done: Vec<PageCompletion>,
}

impl NodeSet {
    /// Connects to the nodes. In a mirror, nodes that other sessions of the run have lost are left out while there is another one, and so
    /// are nodes to which no connection can be made.
    pub(super) fn connect(nodes: &[NodeSettings], redundancy: Redundancy) -> Result<NodeSet, Error> {
        let members = match redundancy {
            Redundancy::Striped => connect_all(nodes)?,
            Redundancy::Mirrored { spare_patience_ns } => connect_any(nodes, spare_patience_ns)?,
        };
        let failed = |errno| Error { address: nodes[0].address.clone(), kind: ErrorKind::Broken(errno) };
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        members.iter().flatten().try_for_each(|member| member.watch(&ready)).map_err(failed)?;
        Ok(NodeSet {
            redundancy,
            members,
            stores: BTreeMap::new(),
            loads: Vec::new(),
            places: ById::new(0),
            ready,
            now_ns: now_ns(),
            done: Vec::new(),
        })
    }

    fn is_mirrored(&self) -> bool {
        self.redundancy != Redundancy::Striped
    }

    /// Returns the nodes that are not lost, with their indexes.
    fn live(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().enumerate().filter_map(|(at, member)| Some((at, member.as_ref()?)))
    }

    fn live_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().flatten()
    }

    /// Returns whether a node has no room for further requests. Requests that concern several nodes are accepted by all of them or by
    /// none.
    fn is_busy(&self) -> bool {
        self.live().any(|(_, member)| member.is_busy())
    }

    fn is_under_way(&self, id: u32) -> bool {
        self.stores.contains_key(&id) || self.loads.iter().any(|load| load.id == id)
    }

    /// # Safety
    /// The same as for [`Client::store`].
    pub(super) unsafe fn store(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        if self.is_busy() || self.is_under_way(id) {
            return Err(Rejected::Full);
        }
        let all = self.live().fold(0, |all, (node, _)| all | bit(node));
        let awaited = if self.is_mirrored() { all } else { bit(self.home(id)) };
        for (node, member) in self.members.iter_mut().enumerate() {
            if let Some(member) = member.as_mut().filter(|_| awaited & bit(node) != 0) {
                // SAFETY: the caller guarantees this.
                unsafe { member.store(id, at) }?;
            }
        }
        self.stores.insert(id, PendingStore { at, awaited, refused: 0, is_stored: false });
        Ok(())
    }

    /// Returns the node at which a page is to be stored: the one that has it already, or the next one with room.
    fn home(&self, id: u32) -> usize {
        if let place @ 1.. = self.places.get(id) {
            return place as usize - 1;
        }
        let has_room = |node: &usize| self.members[*node].as_ref().is_some_and(|member| !member.is_full);
        self.nodes_by_stripe(id).find(has_room).unwrap_or(self.stripe(id))
    }

    fn stripe(&self, id: u32) -> usize {
        (id / STRIPE) as usize % self.members.len()
    }

    /// Returns the indexes of all nodes, beginning with the one to which the page's stripe belongs.
    fn nodes_by_stripe(&self, id: u32) -> impl Iterator<Item = usize> + use<> {
        let (first, nodes) = (self.stripe(id), self.members.len());
        (first..first + nodes).map(move |node| node % nodes)
    }

    /// # Safety
    /// The same as for [`Client::load`].
    pub(super) unsafe fn load(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        if self.is_under_way(id) {
            return Err(Rejected::Full);
        }
        let node = self.source(id).ok_or(Rejected::NotHeld)?;
        let member = self.members[node].as_mut().ok_or(Rejected::NotHeld)?;
        // SAFETY: the caller guarantees this.
        unsafe { member.load(id, at) }?;
        self.loads.push(PendingLoad { id, at, node });
        Ok(())
    }

    /// Returns the node from which to load a page. In a mirror, stripes are spread over the nodes that answer.
    fn source(&self, id: u32) -> Option<usize> {
        if !self.is_mirrored() {
            return (self.places.get(id) as usize).checked_sub(1);
        }
        let live = |node: &usize| self.members[*node].is_some();
        let answers = |node: &usize| {
            self.members[*node].as_ref().is_some_and(|member| member.silent_ns(self.now_ns) < LATE_NS)
        };
        self.nodes_by_stripe(id).find(answers).or_else(|| self.nodes_by_stripe(id).find(live))
    }

    pub(super) fn forget(&mut self, ids: &[u32]) -> usize {
        ids.iter().take_while(|id| self.forget_one(**id)).count()
    }

    /// Returns whether the request was accepted.
    fn forget_one(&mut self, id: u32) -> bool {
        if self.is_busy() || self.is_under_way(id) {
            return false;
        }
        if self.is_mirrored() {
            self.live_mut().for_each(|member| member.forget(id));
        } else if let Some(node) = self.source(id) {
            *self.places.get_mut(id) = 0;
            self.members[node].iter_mut().for_each(|member| member.forget(id));
        }
        true
    }

    pub(super) fn is_unsent(&self, id: u32) -> bool {
        self.stores.get(&id).is_some_and(|store| {
            let mut awaited = self.live().filter(|(node, _)| store.awaited & bit(*node) != 0);
            !store.is_stored && awaited.all(|(_, member)| member.is_unsent(id))
        })
    }

    pub(super) fn withdraw(&mut self, id: u32) -> bool {
        if !self.is_unsent(id) {
            return false;
        }
        let awaited = self.stores.remove(&id).map_or(0, |store| store.awaited);
        for (node, member) in self.members.iter_mut().enumerate() {
            if let Some(member) = member.as_mut().filter(|_| awaited & bit(node) != 0) {
                member.withdraw(id);
            }
        }
        true
    }

    pub(super) fn flush(&mut self) {
        self.live_mut().for_each(|member| member.client.flush());
    }

    pub(super) fn progress(&mut self, done: &mut Vec<PageCompletion>) -> Result<(), Error> {
        self.now_ns = now_ns();
        // When a node is lost, the others get its loads, which they should send at once.
        while self.exchange(done)? || self.give_up_silent(done)? {}
        Ok(())
    }

    /// Exchanges bytes with each node. Returns whether a node was lost.
    fn exchange(&mut self, done: &mut Vec<PageCompletion>) -> Result<bool, Error> {
        let mut is_any_lost = false;
        for node in 0..self.members.len() {
            let Some(member) = &mut self.members[node] else { continue };
            let mut completed = core::mem::take(&mut self.done);
            let mut result = member.progress(&mut completed);
            if let Err(errno) = member.look(&self.ready, self.now_ns) {
                result = result.and(Err(member.client.error(ErrorKind::Broken(errno))));
            }
            completed.drain(..).for_each(|completion| self.completed(node, completion, done));
            self.done = completed;
            if let Err(error) = result {
                self.lose(node, error, done)?;
                is_any_lost = true;
            }
        }
        Ok(is_any_lost)
    }

    fn completed(&mut self, node: usize, completion: PageCompletion, done: &mut Vec<PageCompletion>) {
        match completion {
            PageCompletion::Loaded { id } => {
                self.loads.retain(|load| load.id != id);
                done.push(completion);
            }
            PageCompletion::Stored { id } => {
                if !self.is_mirrored() {
                    *self.places.get_mut(id) = node as u8 + 1;
                }
                if let Some(store) = self.stores.get_mut(&id) {
                    store.awaited &= !bit(node);
                    store.is_stored = true;
                }
                self.settle(id, done);
            }
            PageCompletion::Refused { id } => {
                if let Some(store) = self.stores.get_mut(&id) {
                    store.awaited &= !bit(node);
                    store.refused |= bit(node);
                }
                if !self.is_mirrored() {
                    self.store_elsewhere(id, node);
                }
                self.settle(id, done);
            }
        }
    }

    /// Completes a store that no node has to answer any more.
    fn settle(&mut self, id: u32, done: &mut Vec<PageCompletion>) {
        let Some(store) = self.stores.get(&id).filter(|store| store.awaited == 0) else { return };
        let is_refused = store.refused != 0 && (self.is_mirrored() || !store.is_stored);
        done.push(if is_refused { PageCompletion::Refused { id } } else { PageCompletion::Stored { id } });
        self.stores.remove(&id);
    }

    /// Stores a page that a node refused at the next node that has not refused it. If none is left, the store stays refused.
    fn store_elsewhere(&mut self, id: u32, refused_by: usize) {
        if let Some(full) = &mut self.members[refused_by] {
            // A node refuses all pages of a message after the first refused one, also those that it has an older copy of.
            if self.places.get(id) as usize == refused_by + 1 {
                full.forget(id);
                *self.places.get_mut(id) = 0;
            }
            full.is_full = true;
        }
        let Some(store) = self.stores.get_mut(&id) else { return };
        let (at, refused) = (store.at, store.refused);
        let next =
            self.nodes_by_stripe(id).find(|node| refused & bit(*node) == 0 && self.members[*node].is_some());
        let Some(next) = next else { return };
        let Some(member) = &mut self.members[next] else { return };
        // SAFETY: the caller of `store` guarantees this until the store completes.
        if unsafe { member.store(id, at) }.is_ok()
            && let Some(store) = self.stores.get_mut(&id)
        {
            member.client.flush();
            store.awaited = bit(next);
        }
    }

    /// Closes the session with a node. In a mirror, the set goes on if another node is left.
    fn lose(&mut self, node: usize, error: Error, done: &mut Vec<PageCompletion>) -> Result<(), Error> {
        let lost = self.members[node].take();
        if !self.is_mirrored() || self.live().next().is_none() {
            return Err(error);
        }
        if let Some(counts) = lost.as_ref().and_then(|lost| lost.counts) {
            counts.lose(&alloc::fmt::format(format_args!("{error}")));
        }
        // Closes the socket: from here on, nothing arrives in the pages of its loads.
        drop(lost);
        let ids: Vec<u32> = self.stores.keys().copied().collect();
        for id in ids {
            if let Some(store) = self.stores.get_mut(&id) {
                store.awaited &= !bit(node);
            }
            self.settle(id, done);
        }
        for at in 0..self.loads.len() {
            let PendingLoad { id, at: to, node: asked } = self.loads[at];
            if asked != node {
                continue;
            }
            let Some(next) = self.source(id) else { return Err(error) };
            self.loads[at].node = next;
            let Some(member) = &mut self.members[next] else { return Err(error) };
            // SAFETY: the caller of `load` guarantees this until the load completes, and the closed session no longer uses the page.
            if unsafe { member.load(id, to) }.is_err() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Loses a node of a mirror that is silent for too long while another node answers. Returns whether there was one.
    fn give_up_silent(&mut self, done: &mut Vec<PageCompletion>) -> Result<bool, Error> {
        let Redundancy::Mirrored { spare_patience_ns } = self.redundancy else { return Ok(false) };
        let silent_ns = |member: &Member| member.silent_ns(self.now_ns);
        let Some((node, member)) = self.live().max_by_key(|(_, member)| silent_ns(member)) else {
            return Ok(false);
        };
        let is_spare =
            self.live().any(|(other, member)| other != node && silent_ns(member) < spare_patience_ns / 2);
        if !is_spare || silent_ns(member) < spare_patience_ns {
            return Ok(false);
        }
        let seconds = silent_ns(member) / 1_000_000_000;
        let error = member.client.error(ErrorKind::Silent { seconds });
        self.lose(node, error, done).map(|()| true)
    }

    /// Returns the node that has owed an answer for longest, with its index; `None` if no node owes one.
    pub(super) fn most_silent(&self) -> Option<(usize, &Client)> {
        let owing = self.live().filter(|(_, member)| member.client.owed().is_some());
        let longest = owing.max_by_key(|(_, member)| member.silent_ns(self.now_ns));
        longest.map(|(node, member)| (node, &member.client))
    }

    /// Returns the sums of the nodes' limits, or in a mirror the least ones.
    pub(super) fn limits(&self) -> NodeLimits {
        let is_mirrored = self.is_mirrored();
        let join = |a: NodeLimits, b: NodeLimits| {
            let of = |a: u64, b: u64| if is_mirrored { a.min(b) } else { a + b };
            NodeLimits { capacity: of(a.capacity, b.capacity), share: of(a.share, b.share), identity: 0 }
        };
        self.live().map(|(_, member)| member.client.limits()).reduce(join).unwrap_or_default()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    pub(super) fn owed(&self) -> Option<Owed> {
        self.most_silent().and_then(|(_, client)| client.owed())
    }

    pub(super) fn heard(&self) -> u64 {
        self.most_silent().map_or(0, |(_, client)| client.heard())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.stores.is_empty()
            && self.loads.is_empty()
            && self.live().all(|(_, member)| !member.is_busy() && member.client.is_idle())
    }
}

/// Returns the bit of a node in [`PendingStore`].
fn bit(node: usize) -> u32 {
    1 << node
}

fn connect_all(nodes: &[NodeSettings]) -> Result<Vec<Option<Member>>, Error> {
    nodes.iter().map(|node| Ok(Some(Member::new(Client::connect(node)?, node.counts, now_ns())))).collect()
}

/// Connects to the nodes of a mirror. Returns the error of the last node if there is no connection to any.
fn connect_any(nodes: &[NodeSettings], spare_patience_ns: u64) -> Result<Vec<Option<Member>>, Error> {
    let is_lost = |node: &NodeSettings| node.counts.is_some_and(|counts| counts.is_lost());
    let are_all_lost = nodes.iter().all(is_lost);
    let is_tried = |node: &&NodeSettings| are_all_lost || !is_lost(node);
    let last = nodes.iter().rposition(|node| is_tried(&node));
    let (mut members, mut failure) = (Vec::new(), None);
    for (at, node) in nodes.iter().enumerate() {
        if !is_tried(&node) {
            members.push(None);
            continue;
        }
        let has_other = Some(at) != last || members.iter().any(Option::is_some);
        let most_ns = if has_other { spare_patience_ns } else { u64::MAX };
        match Client::connect(&NodeSettings { timeout_ns: node.timeout_ns.min(most_ns), ..node.clone() }) {
            Ok(client) => members.push(Some(Member::new(client, node.counts, now_ns()))),
            Err(error) => {
                if let Some(counts) = node.counts {
                    counts.lose(&alloc::fmt::format(format_args!("{error}")));
                }
                members.push(None);
                failure = Some(error);
            }
        }
    }
    match failure {
        Some(error) if members.iter().all(Option::is_none) => Err(error),
        _ => Ok(members),
    }
}
