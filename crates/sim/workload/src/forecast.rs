//! Forecast of an open-loop source: the messages that the source will submit, and their times. The forecast does not
//! simulate the transfer of these messages.

use crate::message::Message;
use crate::source::{Outbox, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_units::Time;

/// Returns all messages that `source` submits, in order, with their times. The source is never notified of a
/// completion.
pub fn forecast(mut source: impl Source) -> Vec<(Time, Message)> {
    let mut heard = RecordingOutbox::default();
    source.start(&mut heard);
    let mut all = heard.stamped(Time::ZERO);
    while !source.is_exhausted()
        && let Some(Reverse((now, _, actor))) = heard.wakes.pop()
    {
        source.wake(actor, now, &mut heard);
        all.append(&mut heard.stamped(now));
    }
    all
}

/// Outbox that records the messages and the wakeups that the source requests.
#[derive(Default)]
struct RecordingOutbox {
    messages: Vec<Message>,
    /// Requested wakeups: their time, their position in the order of requests, and their actor.
    wakes: BinaryHeap<Reverse<(Time, u64, u32)>>,
    asked: u64,
}

impl RecordingOutbox {
    fn stamped(&mut self, now: Time) -> Vec<(Time, Message)> {
        self.messages.drain(..).map(|message| (now, message)).collect()
    }
}

impl Outbox for RecordingOutbox {
    fn submit(&mut self, message: Message) {
        self.messages.push(message);
    }
    fn wake_at(&mut self, at: Time, actor: u32) {
        self.asked += 1;
        self.wakes.push(Reverse((at, self.asked, actor)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListedMessages;
    use std::sync::Arc;

    #[test]
    fn a_list_is_its_own_forecast() {
        let list: Vec<_> =
            [3, 3, 7].map(|ns| (Time::from_ns(ns), Message::flow(0, 1, 64 + ns))).into_iter().collect();
        assert_eq!(forecast(ListedMessages::new(Arc::new(list.clone()), 2).unwrap()), list);
    }
}
