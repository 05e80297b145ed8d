//! Broadcasts, and the reports of lost broadcasts (§3.2).

use super::packet::{Broadcast, Event};
use crate::silence::TimeoutCount;
use unrack_units::Time;

/// Content of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastContent {
    /// State of one flow.
    Flow(Broadcast),
    /// Chosen routings (§3.4), by the number of the list that contains them.
    Routings { src: u16, tree: u8, number: u32 },
}

impl BroadcastContent {
    /// Returns the source of the broadcast.
    pub fn src(self) -> u32 {
        match self {
            BroadcastContent::Flow(told) => u32::from(told.src),
            BroadcastContent::Routings { src, .. } => u32::from(src),
        }
    }

    /// Returns the tree that it follows.
    pub fn tree(self) -> u8 {
        match self {
            BroadcastContent::Flow(told) => told.tree,
            BroadcastContent::Routings { tree, .. } => tree,
        }
    }

    /// Returns the same broadcast, sent along another of its source's trees.
    pub fn along(self, tree: u8) -> BroadcastContent {
        match self {
            BroadcastContent::Flow(told) => BroadcastContent::Flow(Broadcast { tree, ..told }),
            BroadcastContent::Routings { src, number, .. } => {
                BroadcastContent::Routings { src, tree, number }
            }
        }
    }

    /// Returns whether the two have the same content, so that repeating one also repeats the other.
    pub fn is_like(self, other: BroadcastContent) -> bool {
        match (self, other) {
            (BroadcastContent::Flow(one), BroadcastContent::Flow(other)) => {
                (one.src, one.flow, one.event) == (other.src, other.flow, other.event)
            }
            _ => self.along(0) == other.along(0),
        }
    }

    /// Returns whether a node that received this broadcast does not need the other any more.
    fn replaces(self, other: BroadcastContent) -> bool {
        let is_over = match (self, other) {
            (BroadcastContent::Flow(end), BroadcastContent::Flow(other)) => {
                end.event == Event::End && (end.src, end.flow) == (other.src, other.flow)
            }
            _ => false,
        };
        is_over || self.is_like(other)
    }
}

/// Reports of other nodes' broadcasts that this node had to drop. Each is kept until a broadcast with the same or
/// newer content arrives.
///
/// Departure: the paper does not specify what happens when a report is lost as well. Here it is sent again after a
/// timeout, which doubles each time, until TCP would give up.
#[derive(Debug, Clone, Default)]
pub struct Reports(Vec<FlowReport>);

#[derive(Debug, Clone)]
struct FlowReport {
    news: BroadcastContent,
    /// Time at which the report is sent again.
    at: Time,
    silence: TimeoutCount,
}

/// Maximum number of reports that are kept. Reports beyond it are sent only once.
const MOST: usize = 1_024;

impl Reports {
    /// Records that the node had to drop a broadcast. Returns whether to report it to the source now; if so,
    /// [`Reports::poll`] must be called after `timeout`.
    pub fn dropped(&mut self, now: Time, timeout: Time, news: BroadcastContent) -> bool {
        let is_open = self.0.iter().any(|open| open.news.is_like(news));
        if !is_open && self.0.len() < MOST {
            let silence = TimeoutCount::new(self.0.len() as u32);
            self.0.push(FlowReport { news, at: now + timeout, silence });
        }
        !is_open
    }

    /// Removes the reports that an arrived broadcast answers: its source received them, or had newer content to
    /// announce.
    pub fn heard(&mut self, news: BroadcastContent) {
        self.0.retain(|open| !news.replaces(open.news));
    }

    /// Returns one report to repeat, and the time of the next call of [`Reports::poll`] for it; to be called until it
    /// returns `None`.
    pub fn poll(&mut self, now: Time, timeout: Time) -> Option<(BroadcastContent, Time)> {
        while let Some(due) = self.0.iter().position(|open| open.at <= now) {
            let open = &mut self.0[due];
            match open.silence.handle_timeout(timeout, 0) {
                Some(wait) => {
                    open.at = now + wait;
                    return Some((open.news, open.at));
                }
                None => {
                    self.0.swap_remove(due);
                }
            }
        }
        None
    }

    /// Drops all reports, because all flows are announced again.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r2c2::Routing;
    use crate::r2c2::rates::Requirements;

    const TIMEOUT: Time = Time::from_us(1_000);

    fn told(event: Event, flow: u16, tree: u8) -> BroadcastContent {
        let (routing, asked) = (Routing::Spraying, Requirements::default());
        BroadcastContent::Flow(Broadcast { event, src: 0, dst: 1, flow, asked, routing, tree })
    }

    #[test]
    fn a_report_is_sent_until_it_is_answered() {
        let ms = |ms: u64| Time::from_us(1_000 * ms);
        let mut reports = Reports::default();
        assert!(reports.dropped(ms(0), TIMEOUT, told(Event::Start, 1, 0)));
        assert!(!reports.dropped(ms(0), TIMEOUT, told(Event::Start, 1, 1)));
        assert!(reports.dropped(ms(0), TIMEOUT, BroadcastContent::Routings { src: 0, tree: 0, number: 1 }));
        assert_eq!(reports.poll(Time::from_us(999), TIMEOUT), None);
        let (again, next) = reports.poll(ms(1), TIMEOUT).unwrap();
        assert!(again == told(Event::Start, 1, 0) && (ms(3)..ms(4)).contains(&next), "{next}");
        reports.heard(BroadcastContent::Routings { src: 0, tree: 3, number: 1 });
        assert_eq!(reports.poll(ms(1), TIMEOUT), None);
        reports.heard(told(Event::Demand, 1, 1));
        reports.heard(told(Event::End, 2, 1));
        let (again, last) = reports.poll(next, TIMEOUT).unwrap();
        assert!(again == told(Event::Start, 1, 0) && (next + ms(4)..next + ms(6)).contains(&last), "{last}");
        reports.heard(told(Event::End, 1, 1));
        assert_eq!(reports.poll(ms(900), TIMEOUT), None);
    }

    #[test]
    fn reports_end() {
        let mut reports = Reports::default();
        reports.dropped(Time::ZERO, TIMEOUT, told(Event::End, 1, 0));
        let (mut now, mut sent) = (TIMEOUT, 0);
        while let Some((_, next)) = reports.poll(now, TIMEOUT) {
            assert_eq!(reports.poll(now, TIMEOUT), None);
            (now, sent) = (next, sent + 1);
        }
        assert!((10..20).contains(&sent) && reports.0.is_empty(), "{sent}");
        for flow in 0..2_000 {
            assert!(reports.dropped(now, TIMEOUT, told(Event::Start, flow, 0)));
        }
        assert_eq!(reports.0.len(), MOST);
    }
}
