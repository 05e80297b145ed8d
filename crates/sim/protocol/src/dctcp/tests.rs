//! DCTCP between two endpoints in virtual time.

use super::*;
use crate::tcp::pair::{Link, Pair};
use crate::tcp::{CongestionControl as _, Receiver, Sender};
use proptest::prelude::*;
use unrack_units::{Bytes, Fraction, Rate, Time};

fn pair(params: &Params, segments: u32, link: Link, seed: u64) -> Pair<WindowControl> {
    delayed_pair(params, 1, segments, link, seed)
}

fn delayed_pair(params: &Params, every: u32, segments: u32, link: Link, seed: u64) -> Pair<WindowControl> {
    let timeouts = params.timeouts(Time::from_us(2));
    let sender = Sender::new(WindowControl::new(params), timeouts, segments);
    Pair::new(sender, Receiver::new(every, Time::from_us(100)), link, seed)
}

fn calm() -> Params {
    Params { initial_alpha: Fraction::new(0.0).unwrap(), ..Params::default() }
}

fn ack(una: u32, next: u32, marked: bool) -> Acked {
    Acked { delivered: 1, marked, una, next, may_grow: true, now: Time::ZERO, rtt: Time::ZERO }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every segment is delivered once and in order, for any loss below 100 %, any marks, any order, and any
    /// acknowledgement policy. The sender learns of it, or gives up after the permitted number of timeouts.
    #[test]
    fn everything_arrives_once_in_order(
        segments in 1u32..400, drop_data in 0u64..600, drop_ack in 0u64..600, mark in 0u64..1000,
        jitter_ns in 0u64..5_000, ack_every in 1u32..4, seed: u64,
    ) {
        let link = Link { drop_data, drop_ack, mark, jitter: Time::from_ns(jitter_ns), ..Link::default() };
        let params = Params { max_rto: Time::from_us(3_000), ..Params::default() };
        let mut pair = delayed_pair(&params, ack_every, segments, link, seed);
        prop_assert!(pair.run().is_some(), "the sender waits for nothing");
        if !pair.sender.has_given_up() {
            prop_assert_eq!(pair.handed_on, segments);
            prop_assert_eq!(pair.sent, u64::from(segments) + u64::from(pair.sender.retransmissions()));
        }
    }

    /// Without loss and reordering, no segment is sent twice, however much acknowledgements are delayed.
    #[test]
    fn nothing_is_sent_twice_without_need(
        segments in 1u32..2_000, mark in 0u64..1000, ack_every in 1u32..4, seed: u64,
    ) {
        let mut pair = delayed_pair(&Params::default(), ack_every, segments, Link { mark, ..Link::default() }, seed);
        prop_assert!(pair.run().is_some());
        prop_assert_eq!(pair.sent, u64::from(segments));
    }
}

#[test]
fn completion_alone_is_arithmetic() {
    // The initial window holds all 4 segments: 4 slots, one delay there, and one delay back.
    let link = Link { delay: Time::from_ns(1_000), slot: Time::from_ns(120), ..Link::default() };
    let mut pair = pair(&Params::default(), 4, link, 0);
    assert_eq!(pair.run(), Some(Time::from_ns(4 * 120 + 2 * 1_000)));
}

#[test]
fn slow_start_doubles_every_round_trip() {
    // The round trip is far longer than the window takes on the wire, so that rounds send 10, 20, 40 and 80 segments.
    let link = Link { delay: Time::from_us(50), slot: Time::from_ps(1), ..Link::default() };
    let params = Params { min_rto: Time::from_us(1_000), ..Params::default() };
    let mut pair = pair(&params, 150, link, 0);
    let end = pair.run().unwrap();
    assert_eq!(end.as_ns() / 1_000, 4 * 100);
}

#[test]
fn alpha_converges_to_the_closed_form() {
    // Every segment is marked, from alpha 0 on: after n windows alpha = 1 - (1 - g)^n (DCTCP eq. 1).
    let mut control = WindowControl::new(&calm());
    for window in 1..=40u32 {
        let una = window * 10;
        control.handle_ack(&Acked { delivered: 10, ..ack(una, una + 9, true) });
        let expected = 1.0 - (15.0f64 / 16.0).powi(window as i32);
        assert!((control.alpha() - expected).abs() < 1e-12, "window {window}: {}", control.alpha());
    }
}

#[test]
fn alpha_is_the_share_marked_in_the_long_run() {
    let link = Link { mark: 300, ..Link::default() };
    let params = Params { gain: Fraction::new(1.0 / 256.0).unwrap(), ..Params::default() };
    let mut pair = pair(&params, 200_000, link, 7);
    pair.run().unwrap();
    let alpha = pair.sender.control().alpha();
    assert!((alpha - 0.3).abs() < 0.06, "{alpha}");
}

#[test]
fn the_window_is_cut_by_half_alpha_once_per_window() {
    let mut control = WindowControl::new(&Params::default());
    control.cwnd = 100.0;
    control.window_end = 1_000;
    control.handle_ack(&ack(1, 100, true));
    assert_eq!(control.cwnd(), 50);
    for una in 2..=100 {
        control.handle_ack(&ack(una, 150, true));
    }
    assert_eq!(control.cwnd(), 50, "marks of the same window");
    control.alpha = 0.5;
    control.handle_ack(&ack(101, 150, true));
    assert_eq!(control.cwnd, 37.5);
}

#[test]
fn a_lost_segment_is_sent_again_at_once_and_halves_the_window() {
    // Ten segments leave at once. Segment 3 is lost; 4, 5 and 6 reveal it.
    let mut pair = pair(&calm(), 60, Link { drop_nth: vec![3], ..Link::default() }, 0);
    pair.run_until(|p| p.sender.retransmissions() == 1).unwrap();
    // Segments 0, 1 and 2 grew the window to 13. The selective acknowledgements of 4 and 5 let two more leave (RFC
    // 3042).
    assert_eq!(pair.sender.acknowledged(), 3);
    assert_eq!(pair.sender.control().cwnd(), (13 + 2) / 2);
    pair.run().unwrap();
    assert_eq!((pair.sender.retransmissions(), pair.timeouts), (1, 0));
    assert!(pair.now < Time::from_us(20), "{}", pair.now);
}

#[test]
fn many_losses_in_one_window_halve_it_once() {
    let lost = vec![2, 3, 5, 7, 8];
    let mut pair = pair(&calm(), 200, Link { drop_nth: lost, ..Link::default() }, 0);
    pair.run().unwrap();
    assert_eq!((pair.sender.retransmissions(), pair.timeouts), (5, 0));
}

#[test]
fn a_lost_tail_waits_for_the_timer_which_backs_off() {
    // One segment is lost four times: 200 us, then 400, 800 and 1600, each longer by up to a half. Then it arrives.
    let params = Params::default();
    let mut pair = pair(&params, 1, Link { drop_nth: vec![0, 1, 2, 3], ..Link::default() }, 0);
    let end = pair.run().unwrap();
    let waited = end - Time::from_ns(120) - Time::from_us(2);
    assert!((Time::from_us(3_000)..Time::from_us(200 + 2_800 * 3 / 2)).contains(&waited), "{waited}");
    assert_eq!((pair.timeouts, pair.sender.control().cwnd()), (4, 2));
}

#[test]
fn after_a_timeout_only_what_is_missing_is_sent_again() {
    // Segments 8 and 9 of ten are lost, and too few follow them to reveal the loss.
    let mut pair = pair(&calm(), 10, Link { drop_nth: vec![8, 9], ..Link::default() }, 0);
    pair.run().unwrap();
    assert_eq!((pair.sender.retransmissions(), pair.timeouts), (2, 1));
}

#[test]
fn marks_are_echoed_exactly_with_delayed_acknowledgements() {
    let mut receiver = Receiver::new(2, Time::from_us(100));
    let mut echoed = Vec::new();
    for (number, marked) in [false, true, true, true, false, false].into_iter().enumerate() {
        let segment = tcp::Segment { number: number as u32, sent: Time::ZERO };
        receiver.handle_segment(Time::ZERO, segment, marked);
        echoed.extend(std::iter::from_fn(|| receiver.poll_ack()).map(|ack| (ack.next, ack.marked)));
    }
    // Segment 0 is acknowledged alone when the mark appears, and segment 3 alone when it disappears.
    assert_eq!(echoed, [(1, false), (3, true), (4, true), (6, false)]);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let link =
            Link { drop_data: 100, drop_ack: 50, mark: 200, jitter: Time::from_us(3), ..Link::default() };
        let mut pair = pair(&Params::default(), 300, link, seed);
        (pair.run(), pair.sent)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn the_guideline_is_the_papers() {
    // DCTCP §3.4: 10 Gbps, 100 us, 1500 B packets: K > 11.9.
    let k = marking_guideline(Rate::from_gbps(10), Time::from_us(100), Bytes::new(1500));
    assert_eq!(k, Bytes::new(12 * 1500));
}

#[test]
fn parameters_are_read_by_name() {
    use serde::de::value::{Error, MapDeserializer};
    let read = |key: &'static str, value: &'static str| {
        <Params as serde::Deserialize>::deserialize(MapDeserializer::<_, Error>::new(
            [(key, value)].into_iter(),
        ))
    };
    assert_eq!(read("min_rto", "10us").unwrap().min_rto, Time::from_us(10));
    assert!(read("minimum_rto", "10us").is_err());
}
