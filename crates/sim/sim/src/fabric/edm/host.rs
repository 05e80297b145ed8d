//! Limits of senders: at most X active notifications per destination (§3.1.2).

use unrack_workload::{Message, MessageId};

/// Active and waiting messages of every (sender, destination) pair.
///
/// Reads and writes of a sender to one destination share the limit, and are announced in the order in which they were submitted. A write
/// stops being active when its sender gets its last grant. A read stops being active when its requester gets the last of the data.
///
/// Maximum number of messages access only one byte per pair, because with 512 nodes a larger entry would not stay in the cache.
pub(super) struct Announcements {
    nodes: u32,
    limit: u8,
    /// Number of active messages, and the bit [`OTHERS_WAIT`], by pair.
    active: Vec<u8>,
    /// First and last waiting message, by pair. Valid only if [`OTHERS_WAIT`] is set.
    waiting: Vec<Queue>,
    /// For each message, the next message that waits behind it. The array grows only when a message has to wait.
    behind: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    head: u32,
    tail: u32,
}

/// Bit that is set if messages of the pair wait.
const OTHERS_WAIT: u8 = 1 << 7;
/// Highest limit that fits in the bits below [`OTHERS_WAIT`].
pub(super) const MOST_ACTIVE: u32 = (OTHERS_WAIT - 1) as u32;

impl Announcements {
    /// Creates a state without messages for all pairs. `limit` is at most [`MOST_ACTIVE`].
    pub(super) fn new(nodes: u32, limit: u32) -> Announcements {
        let pairs = nodes as usize * nodes as usize;
        Announcements {
            nodes,
            limit: limit as u8,
            active: vec![0; pairs],
            waiting: vec![Queue::default(); pairs],
            behind: Vec::new(),
        }
    }

    /// Returns whether the message may be announced now. If not, the message is queued for its turn.
    pub(super) fn admit(&mut self, id: MessageId, message: &Message) -> bool {
        let pair = self.index(message);
        if self.active[pair] < self.limit {
            self.active[pair] += 1;
            return true;
        }
        self.wait(id.0, pair);
        false
    }

    /// Ends the active state of a message. Returns the message that may be announced in its place.
    pub(super) fn release(&mut self, message: &Message) -> Option<MessageId> {
        let pair = self.index(message);
        if self.active[pair] & OTHERS_WAIT == 0 {
            self.active[pair] -= 1;
            return None;
        }
        let next = self.first_waiting(message);
        self.drop_first_waiting(message);
        next
    }

    /// Returns the first waiting message of the same pair as this message.
    pub(super) fn first_waiting(&self, message: &Message) -> Option<MessageId> {
        let pair = self.index(message);
        (self.active[pair] & OTHERS_WAIT != 0).then(|| MessageId(self.waiting[pair].head))
    }

    /// Removes the first waiting message of this message's pair from the queue.
    pub(super) fn drop_first_waiting(&mut self, message: &Message) {
        let pair = self.index(message);
        let Queue { head, tail } = self.waiting[pair];
        match head == tail {
            true => self.active[pair] &= !OTHERS_WAIT,
            false => self.waiting[pair].head = self.behind[head as usize],
        }
    }

    fn wait(&mut self, id: u32, pair: usize) {
        if self.behind.len() <= id as usize {
            self.behind.resize(id as usize + 1, 0);
        }
        if self.active[pair] & OTHERS_WAIT == 0 {
            self.active[pair] |= OTHERS_WAIT;
            self.waiting[pair].head = id;
        } else {
            self.behind[self.waiting[pair].tail as usize] = id;
        }
        self.waiting[pair].tail = id;
    }

    fn index(&self, message: &Message) -> usize {
        message.src as usize * self.nodes as usize + message.dst as usize
    }
}
