//! Tests of probes for lost tails (RFC 8985 §7): which losses they reveal, and which they do not.

use super::pair::{Link, Pair};
use super::*;
use unrack_units::Time;

fn sender(segments: u32) -> Sender<LossBased> {
    let params = Params { congestion: Congestion::NewReno, tail_loss_probe: true, ..Params::default() };
    Sender::new(LossBased::new(&params), params.timeouts(Time::from_us(2)), segments)
}

/// Runs a transfer between a sender and a receiver with a round trip of 2.12 us and a retransmission timeout of 200 us.
fn run(segments: u32, lost: &[u64]) -> Pair<LossBased> {
    let link = Link { drop_nth: lost.to_vec(), ..Link::default() };
    let mut pair = Pair::new(sender(segments), Receiver::new(1, Time::ZERO), link, 0);
    pair.run().unwrap();
    pair
}

#[test]
fn a_lost_tail_is_sent_again_after_two_round_trips() {
    for segments in [11, 20, 33] {
        let pair = run(segments, &[u64::from(segments) - 1]);
        let whole = run(segments, &[]);
        assert_eq!((pair.sender.retransmissions(), whole.sender.retransmissions()), (1, 0));
        // Two round trips of waiting, as long as samples differ, and one more.
        let later = pair.now - whole.now;
        assert!(later > Time::from_us(4) && later < Time::from_us(12), "{segments}: {later}");
        // The segment was really lost, therefore the window is cut.
        assert!(pair.sender.control().cwnd() < whole.sender.control().cwnd());
    }
}

#[test]
fn the_probe_betrays_what_was_lost_before_it() {
    let pair = run(20, &[17, 18, 19]);
    assert_eq!(pair.sender.retransmissions(), 3);
    assert!(pair.now < Time::from_us(30), "{}", pair.now);
}

#[test]
fn a_probe_that_is_lost_leaves_it_to_the_timer() {
    let pair = run(20, &[19, 20]);
    assert_eq!(pair.sender.retransmissions(), 2);
    assert!(pair.now > Time::from_us(200) && pair.now < Time::from_us(230), "{}", pair.now);
}

#[test]
fn before_anything_is_known_of_the_round_trip_there_is_none() {
    let pair = run(5, &[0, 1, 2, 3, 4]);
    assert!(pair.now > Time::from_us(200), "{}", pair.now);
}

/// Returns the tail loss probe of a sender of ten segments. The first nine segments are acknowledged after 10 us.
fn probed(sender: &mut Sender<LossBased>) -> Segment {
    let ten: Vec<_> = std::iter::from_fn(|| sender.poll_transmit(Time::ZERO)).collect();
    assert_eq!(ten.len(), 10);
    let ack = Ack { next: 9, echo: Time::ZERO, marked: false, sack: Sack::NONE };
    sender.handle_ack(Time::from_us(10), &ack);
    assert_eq!(sender.poll_timeout(), Some(Time::from_us(30)));
    assert_eq!(sender.poll_transmit(Time::from_us(29)), None);
    sender.handle_timeout(Time::from_us(30));
    let probe = sender.poll_transmit(Time::from_us(30)).unwrap();
    assert_eq!((probe.number, sender.poll_transmit(Time::from_us(30))), (9, None));
    // Afterwards the retransmission timer runs as always.
    assert_eq!(sender.poll_timeout(), Some(Time::from_us(230)));
    probe
}

#[test]
fn who_is_late_was_not_lost() {
    let acked = |echo| {
        let mut sender = sender(10);
        let probe = probed(&mut sender);
        let before = sender.control().cwnd();
        let echo = if echo { probe.sent } else { Time::ZERO };
        sender.handle_ack(Time::from_us(40), &Ack { next: 10, echo, marked: false, sack: Sack::NONE });
        assert!(sender.is_done());
        (before, sender.control().cwnd())
    };
    // The acknowledgement is that of the probe, so the last segment was lost. One segment was in flight, so the window
    // shrinks to its minimum.
    assert_eq!(acked(true), (19, 2));
    // The acknowledgement is that of the segment itself, which was only late.
    let (before, after) = acked(false);
    assert!(after >= before);
}

#[test]
fn an_answer_says_nothing_of_the_probe() {
    let mut sender = sender(10);
    probed(&mut sender);
    assert_eq!(sender.acknowledged_by_answer().echo, Time::ZERO);
}
