//! A list of messages with their times, open loop: flows from a file.

use crate::error::WorkloadError;
use crate::message::Message;
use crate::size::MAX_BYTES;
use crate::source::{Outbox, Source};
use unrack_units::Time;

/// Submits each message of a list at its time.
pub struct Listed {
    messages: Vec<(Time, Message)>,
    next: usize,
}

impl Listed {
    /// Messages sorted by time, among `nodes` nodes.
    pub fn new(messages: Vec<(Time, Message)>, nodes: u32) -> Result<Listed, WorkloadError> {
        let refuse = |rule, value: String| Err(WorkloadError::new("workload.file", rule, value));
        if let Some(two) = messages.windows(2).find(|two| two[0].0 > two[1].0) {
            return refuse("is sorted by time", format!("{} after {}", two[1].0, two[0].0));
        }
        for (at, message) in &messages {
            let Message { src, dst, bytes, .. } = *message;
            if src >= nodes || dst >= nodes {
                return refuse("names nodes of the rack", format!("{src} to {dst} of {nodes} at {at}"));
            }
            if src == dst {
                return refuse("is between different nodes", format!("{src} to {dst} at {at}"));
            }
            if !(1..=MAX_BYTES).contains(&bytes) {
                return refuse("has messages of 1 to 4294967295 bytes", format!("{bytes} at {at}"));
            }
        }
        Ok(Listed { messages, next: 0 })
    }

    fn sleep<O: Outbox>(&self, out: &mut O) {
        if let Some((at, _)) = self.messages.get(self.next) {
            out.wake_at(*at, 0);
        }
    }
}

impl Source for Listed {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        self.sleep(out);
    }
    fn wake<O: Outbox>(&mut self, _actor: u32, _now: Time, out: &mut O) {
        out.submit(self.messages[self.next].1);
        self.next += 1;
        self.sleep(out);
    }
    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}
    fn total(&self) -> Option<u64> {
        Some(self.messages.len() as u64)
    }
    fn is_exhausted(&self) -> bool {
        self.next == self.messages.len()
    }
}
