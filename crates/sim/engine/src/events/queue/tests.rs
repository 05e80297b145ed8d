//! The event queue against a sorted list, over densities that make the calendar refit and overflow.

use super::*;

impl Tied for u64 {
    /// Returns (number / 8) mod 16 for multiples of 8, and [`Tie::HERE`] for all other numbers.
    fn tie(&self) -> u32 {
        if self.is_multiple_of(8) { (*self / 8 % 16) as u32 } else { Tie::HERE }
    }
}

/// Returns the next number of xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Delays of one phase of a run, in picoseconds.
type Delay = fn(u64) -> u64;
const PHASES: [Delay; 6] = [
    |draw| draw % 4,
    |draw| draw % 70_000,
    |draw| if draw.is_multiple_of(10) { draw % 1_000_000_000 } else { 100_000 + draw % 1_000 },
    |_| 0,
    |draw| draw % 5_000_000_000_000,
    |draw| 63_360 + draw % 3 * 1_000,
];

#[test]
fn gives_back_in_order_of_time_tie_and_insertion() {
    for pending in [1, 50, 3_000] {
        let mut queue = EventQueue::new();
        let mut reference = std::collections::BTreeSet::new();
        let (mut state, mut order, mut now) = (42, 0u64, 0);
        let mut push = |queue: &mut EventQueue<u64>, reference: &mut std::collections::BTreeSet<_>, at| {
            queue.push(Time::from_ps(at), order);
            reference.insert((at, order.tie(), order));
            order += 1;
        };
        for phase in PHASES {
            while queue.len() < pending {
                push(&mut queue, &mut reference, now + phase(next(&mut state)));
            }
            for _ in 0..60_000 {
                let (at, event) = queue.pop().unwrap();
                assert_eq!(reference.pop_first(), Some((at.as_ps(), event.tie(), event)));
                now = at.as_ps();
                push(&mut queue, &mut reference, now + phase(next(&mut state)));
            }
        }
        while let Some((at, event)) = queue.pop() {
            assert_eq!(reference.pop_first(), Some((at.as_ps(), event.tie(), event)));
        }
        assert!(reference.is_empty() && queue.is_empty());
    }
}

#[test]
fn the_end_of_time_is_a_time() {
    let mut queue = EventQueue::new();
    queue.push(Time::MAX, 2u64);
    queue.push(Time::ZERO, 1);
    assert_eq!(queue.pop(), Some((Time::ZERO, 1)));
    assert_eq!(queue.pop(), Some((Time::MAX, 2)));
    assert_eq!(queue.pop(), None);
}
