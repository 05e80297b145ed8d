//! Broadcasts, and the reports of lost broadcasts (§3.2).

use super::packet::{Broadcast, Event};
use crate::silence::TimeoutCount;
use unrack_units::Time;

/// Content of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastContent {
    /// State of one flow.
    Flow(Broadcast),
    /// Announcement of routings that node `src` has chosen for flows (§3.4). `number` identifies the list of these routings.
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

    /// Returns the same broadcast, to be sent along another broadcast tree of its source.
    pub fn along(self, tree: u8) -> BroadcastContent {
        match self {
            BroadcastContent::Flow(told) => BroadcastContent::Flow(Broadcast { tree, ..told }),
            BroadcastContent::Routings { src, number, .. } => {
                BroadcastContent::Routings { src, tree, number }
            }
        }
    }

    /// Returns whether the two broadcasts have the same content, so that a resent copy of one also replaces the other.
    pub fn is_like(self, other: BroadcastContent) -> bool {
        match (self, other) {
            (BroadcastContent::Flow(one), BroadcastContent::Flow(other)) => {
                (one.src, one.flow, one.event) == (other.src, other.flow, other.event)
            }
            _ => self.along(0) == other.along(0),
        }
    }

    /// Returns whether this broadcast makes the other one unnecessary for a node that receives this one.
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

/// Reports of lost broadcasts: this node had to drop broadcasts of other nodes, and asks the source of each to send the broadcast again.
/// The node keeps each report until a broadcast with the same or newer content arrives.
///
/// Departure: the paper does not specify what happens when a report is lost as well. Here the node sends the report again after a timeout.
/// The timeout doubles each time, and the node gives up after as many timeouts as TCP would.
#[derive(Debug, Clone, Default)]
pub struct Reports(Vec<FlowReport>);

#[derive(Debug, Clone)]
struct FlowReport {
    news: BroadcastContent,
    /// Time at which the node sends the report again.
    at: Time,
    silence: TimeoutCount,
}

/// Maximum number of reports that a node keeps. If a node has more reports, it sends each additional one only once.
const MOST: usize = 1_024;

impl Reports {
    /// Records that the node had to drop a broadcast. Returns whether the node should report the loss to the broadcast's source now. If so,
    /// the caller must call [`Reports::poll`] after `timeout`.
    pub fn dropped(&mut self, now: Time, timeout: Time, news: BroadcastContent) -> bool {
        let is_open = self.0.iter().any(|open| open.news.is_like(news));
        if !is_open && self.0.len() < MOST {
            let silence = TimeoutCount::new(self.0.len() as u32);
            self.0.push(FlowReport { news, at: now + timeout, silence });
        }
        !is_open
    }

    /// Removes the reports of lost broadcasts whose content a newly arrived broadcast repeats or replaces.
    pub fn heard(&mut self, news: BroadcastContent) {
        self.0.retain(|open| !news.replaces(open.news));
    }

    /// Returns one report that the node should send again now, and the time at which [`Reports::poll`] must be called for that report next.
    /// The caller repeats the call until it returns `None`.
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

    /// Drops all reports. They are unnecessary after a discovery, because the sources then announce all flows again.
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
