//! Senders' limits: at most X active notifications per destination (§3.1.2).

use unrack_workload::{Message, MessageId};

/// For every (sender, destination): how many of its messages are active, and which wait.
///
/// Reads and writes of a sender to one destination share the limit and are announced in the order
/// in which they were submitted. A write stops being active when its sender has its last grant; a
/// read, when its requester has the last of the data.
pub(super) struct Announcements {
    nodes: u32,
    limit: u32,
    pairs: Vec<Pair>,
    /// By message: the next one that waits behind it. Only as long as waiting made it.
    behind: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Pair {
    active: u32,
    head: u32,
    tail: u32,
}

const NONE: u32 = u32::MAX;
const IDLE: Pair = Pair { active: 0, head: NONE, tail: NONE };

impl Announcements {
    pub fn new(nodes: u32, limit: u32) -> Announcements {
        let pairs = vec![IDLE; nodes as usize * nodes as usize];
        Announcements { nodes, limit, pairs, behind: Vec::new() }
    }

    /// Whether the message may be announced now; if not, it waits its turn.
    pub fn admit(&mut self, id: MessageId, message: &Message) -> bool {
        let index = self.index(message);
        let pair = &mut self.pairs[index];
        if pair.active < self.limit {
            pair.active += 1;
            return true;
        }
        let before = std::mem::replace(&mut pair.tail, id.0);
        match pair.head {
            NONE => pair.head = id.0,
            _ => self.behind[before as usize] = id.0,
        }
        if self.behind.len() <= id.index() {
            self.behind.resize(id.index() + 1, NONE);
        }
        self.behind[id.index()] = NONE;
        false
    }

    /// A message stopped being active: the one that may be announced in its place.
    pub fn release(&mut self, message: &Message) -> Option<MessageId> {
        let index = self.index(message);
        let pair = &mut self.pairs[index];
        let next = pair.head;
        if next == NONE {
            pair.active -= 1;
            return None;
        }
        pair.head = self.behind[next as usize];
        Some(MessageId(next))
    }

    fn index(&self, message: &Message) -> usize {
        message.src as usize * self.nodes as usize + message.dst as usize
    }
}
