//! Tests of the model: all messages arrive, and messages alone take the expected time.

use super::super::counting::Counting;
use super::super::trace::{Sizes, TraceDraw};
use super::*;

fn traffic(load: f64) -> TraceDraw {
    TraceDraw { sizes: Sizes::Application("hadoop"), load, writes: 0.5, rows: 40 }
}

/// Every message arrives once, and a read is two flows of which the answer follows the request.
#[test]
fn everything_arrives_by_all_rules() {
    let rows = traffic(0.4).draw(5);
    for rules in [Rules::PAPER, Rules::AUTHORS, Rules { stepwise: true, ..Rules::PAPER }] {
        let ran = run(&rows, rules);
        let reads = rows.iter().filter(|row| row.is_read).count();
        assert_eq!(ran.flows.len(), rows.len() + reads);
        for flow in &ran.flows {
            let is_stuck = rules.whole_blocks && !flow.bytes.is_multiple_of(8);
            assert_eq!(
                flow.received,
                if is_stuck { flow.bytes / 8 * 8 } else { flow.bytes.next_multiple_of(8) }
            );
            assert_eq!(flow.finished.is_none(), is_stuck);
            let request = flow.request.map(|request| &ran.flows[request]);
            assert!(
                request.is_none_or(|request| is_stuck || request.finished < flow.finished),
                "an answer before its request"
            );
        }
    }
}

/// A write of 64 B crosses four links: notification, grant, and data twice; its eight blocks follow each other.
#[test]
fn a_write_alone_takes_four_links_and_its_blocks() {
    let row = Row { slot: 0, src: 0, dst: 1, bytes: 64, is_read: false };
    let took = run(&[row], Rules::AUTHORS).flows[0].finished.unwrap();
    assert!((4 * LINK + 8..=4 * LINK + 8 + 6).contains(&took), "{took}");
    let counting = Counting { stops: false, ..Counting::AUTHORS };
    assert_eq!(counting.mean(&run(&[row], Rules::AUTHORS), Rules::AUTHORS), Some(1.0));
}

#[test]
fn a_long_message_alone_goes_on_in_periods() {
    for rules in [Rules::PAPER, Rules::AUTHORS] {
        for (is_read, bytes) in [(false, 5_840), (true, 5_840), (false, 64_240), (true, 20_008)] {
            let flows = run(&[Row { slot: 0, src: 0, dst: 1, bytes, is_read }], rules).flows;
            let last = flows.last().unwrap();
            assert_eq!(
                alone(is_read, bytes, rules)[1],
                last.finished.unwrap() - last.start,
                "{bytes} {rules:?}"
            );
        }
    }
}

/// A chunk of 256 B, then its way down and up, before the next is granted: half the rate of the link. The paper's rule fills it.
#[test]
fn a_long_write_alone_is_half_as_fast_chunk_by_chunk() {
    let row = Row { slot: 0, src: 0, dst: 1, bytes: 256 * 100, is_read: false };
    let took = |rules| run(&[row], rules).flows[0].finished.unwrap() as f64 / (3_200.0);
    let (authors, paper) = (took(Rules::AUTHORS), took(Rules::PAPER));
    assert!((1.9..2.2).contains(&authors) && (1.0..1.2).contains(&paper), "{authors} {paper}");
}
