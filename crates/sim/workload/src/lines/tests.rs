//! Tests of the replay of lines, on a network with a fixed latency.

use super::*;
use crate::message::{Kind, Message};
use crate::source::{Outbox, Source};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use unrack_rack::Blades;

fn ns(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn read(after: Option<u32>, gap_ns: u64) -> LineMessage {
    let when = Dependence { after, gap: ns(gap_ns) };
    LineMessage { when, address: 0x1000, is_write_back: false }
}

fn window(requests: Vec<LineMessage>, after: Option<u32>, gap_ns: u64) -> LineWindow {
    LineWindow { requests, end: Dependence { after, gap: ns(gap_ns) } }
}

/// Network on which every message takes the same time.
#[derive(Default)]
struct Fixed {
    latency: Time,
    now: Time,
    waiting: BinaryHeap<Reverse<(Time, u64, Next)>>,
    messages: Vec<(Time, Message)>,
    count: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Wake(u32),
    Complete(usize),
}

impl Outbox for Fixed {
    fn submit(&mut self, message: Message) {
        self.messages.push((self.now, message));
        self.push(self.now + self.latency, Next::Complete(self.messages.len() - 1));
    }

    fn wake_at(&mut self, at: Time, actor: u32) {
        self.push(at, Next::Wake(actor));
    }
}

impl Fixed {
    fn push(&mut self, at: Time, next: Next) {
        self.count += 1;
        self.waiting.push(Reverse((at, self.count, next)));
    }
}

/// Replays on `compute` compute blades and one memory blade. Returns the messages with their times, and the time of
/// the last event.
fn replayed(threads: &[Vec<LineWindow>], compute: u32, latency: Time) -> (Vec<(Time, Message)>, Time) {
    let trace = Arc::new(LineTrace::new(threads).unwrap());
    let mut source = LineReplay::new(trace, Blades::new(compute, 1), 7, compute + 1).unwrap();
    let mut out = Fixed { latency, ..Fixed::default() };
    source.start(&mut out);
    while let Some(Reverse((at, _, next))) = out.waiting.pop() {
        assert!(at >= out.now);
        out.now = at;
        match next {
            Next::Wake(actor) => source.wake(actor, at, &mut out),
            Next::Complete(index) => {
                let message = out.messages[index].1;
                source.completed(&message, at, &mut out);
            }
        }
    }
    assert!(source.is_exhausted());
    (out.messages, out.now)
}

#[test]
fn a_chain_takes_latency_and_gap_a_step() {
    let chain: Vec<_> = (0..10u32).map(|n| read(n.checked_sub(1), 7)).collect();
    let (messages, end) = replayed(&[vec![window(chain, Some(9), 0)]], 1, ns(300));
    assert_eq!(end, ns(10 * (300 + 7)));
    let times: Vec<_> = messages.iter().map(|(at, _)| at.as_ns()).collect();
    assert_eq!(times, (0..10).map(|n| 7 + n * 307).collect::<Vec<u64>>());
}

#[test]
fn independent_requests_overlap() {
    let together: Vec<_> = (0..10).map(|n| read(None, n)).collect();
    let (messages, end) = replayed(&[vec![window(together, Some(9), 0)]], 1, ns(300));
    assert_eq!((messages.len(), end), (10, ns(9 + 300)));
}

#[test]
fn windows_of_a_thread_follow_each_other_and_threads_do_not_wait() {
    let one = || window(vec![read(None, 5)], Some(0), 20);
    let (messages, _) = replayed(&[vec![one(), one(), one()], vec![one()]], 1, ns(100));
    let times: Vec<_> = messages.iter().map(|(at, _)| at.as_ns()).collect();
    assert_eq!(times, [5, 5, 130, 255], "5 + 100 + 20 a window");
}

#[test]
fn a_window_without_requests_takes_its_time() {
    let idle = window(Vec::new(), None, 40);
    let busy = window(vec![read(None, 1)], None, 10);
    let (messages, _) = replayed(&[vec![idle, busy]], 1, ns(100));
    assert_eq!(messages[0].0, ns(41));
}

#[test]
fn replicas_begin_with_different_windows() {
    let windows: Vec<_> = (0..4).map(|n| window(vec![read(None, 10 * n)], Some(0), 0)).collect();
    let (messages, _) = replayed(&[windows], 4, ns(1));
    let mut first: Vec<_> =
        (0..4).map(|src| messages.iter().find(|(_, m)| m.src == src).unwrap().0.as_ns()).collect();
    first.sort_unstable();
    assert_eq!(first, [0, 10, 20, 30]);
}

#[test]
fn the_place_of_a_tag_is_where_its_request_stands() {
    let (empty, two) =
        (window(Vec::new(), None, 1), window(vec![read(None, 0), read(Some(0), 0)], Some(1), 1));
    let trace = LineTrace::new(&[vec![two.clone(), empty.clone()], Vec::new(), vec![empty, two]]).unwrap();
    let place = |replica, thread, window, request| LinePlace { replica, thread, window, request };
    let expected =
        [place(0, 0, 0, 0), place(0, 0, 0, 1), place(0, 2, 3, 0), place(0, 2, 3, 1), place(1, 0, 0, 0)];
    assert_eq!((0..5).map(|tag| trace.place(tag)).collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_trace_is_refused() {
    let message = |window: LineWindow| LineTrace::new(&[vec![window]]).unwrap_err().to_string();
    assert!(message(window(vec![read(Some(0), 0)], None, 0)).contains("earlier ones, but is 0 for 0"));
    let write = LineMessage { is_write_back: true, ..read(None, 0) };
    assert!(message(window(vec![write, read(Some(0), 0)], None, 0)).contains("wait for reads only"));
    assert!(message(window(vec![], None, 2_000_000_000)).contains("at most a second"));
    assert!(message(window(vec![], Some(0), 0)).contains("0 for 0"));
}

/// Draws a window in which each request may wait for any earlier read.
fn any_window() -> impl Strategy<Value = LineWindow> {
    let request = (any::<prop::sample::Index>(), 0u64..50, any::<bool>(), any::<u16>());
    (prop::collection::vec(request, 0..30), any::<prop::sample::Index>(), 0u64..50).prop_map(
        |(drawn, end, gap)| {
            let mut requests: Vec<LineMessage> = Vec::new();
            let after = |requests: &[LineMessage], index: prop::sample::Index| {
                let chosen = index.index(requests.len() + 1).checked_sub(1)?;
                (!requests[chosen].is_write_back).then_some(chosen as u32)
            };
            for (index, gap, is_write_back, page) in drawn {
                let when = Dependence { after: after(&requests, index), gap: ns(gap) };
                requests.push(LineMessage { when, address: u64::from(page) << 12, is_write_back });
            }
            let end = Dependence { after: after(&requests, end), gap: ns(gap) };
            LineWindow { requests, end }
        },
    )
}

proptest! {
    #[test]
    fn every_request_is_made_once_on_each_blade(
        threads in prop::collection::vec(prop::collection::vec(any_window(), 0..4), 1..4), compute in 1u32..4,
    ) {
        let (messages, _) = replayed(&threads, compute, ns(100));
        let mut tags: Vec<_> = messages.iter().map(|(_, message)| message.tag).collect();
        tags.sort_unstable();
        let requests = threads.iter().flatten().map(|window| window.requests.len() as u32).sum::<u32>();
        prop_assert_eq!(tags, (0..requests * compute).collect::<Vec<_>>());
        let writes = threads.iter().flatten().flat_map(|window| &window.requests).filter(|r| r.is_write_back).count();
        let made = messages.iter().filter(|(_, message)| message.kind == Kind::Write).count();
        prop_assert_eq!(made, writes * compute as usize);
    }

    #[test]
    fn a_thread_takes_as_long_as_arithmetic_says(windows in prop::collection::vec(any_window(), 1..4), latency in 0u64..500) {
        let probe = window(vec![read(None, 0)], Some(0), 0);
        let all = windows.iter().cloned().chain([probe]).collect::<Vec<_>>();
        let trace = LineTrace::new(std::slice::from_ref(&all)).unwrap();
        let expected = (0..windows.len() as u32).fold(Time::ZERO, |sum, n| sum + trace.window_time_at(n, ns(latency)));
        let last = trace.len() as u32 - 1;
        let (messages, _) = replayed(&[all], 1, ns(latency));
        let made = messages.iter().find(|(_, message)| message.tag == last).unwrap();
        prop_assert_eq!(made.0, expected);
    }
}
