//! The parts of a CXL fabric, each alone.

use super::*;
use proptest::prelude::*;
use unrack_units::Time;

fn line(class: Class, dst: u16, message: u32) -> Line {
    Line { message, src: 0, dst, class, fetches: false }
}

/// Fills flits from `queue` until it is empty; the numbers of the messages that end in each.
fn flits(slots: u32, queue: Vec<Line>) -> Vec<Vec<u32>> {
    let mut transmitter = Transmitter::new(slots, 1_000);
    let mut queue = std::collections::VecDeque::from(queue);
    let mut flits = Vec::new();
    loop {
        let mut ends = Vec::new();
        let carries = transmitter.fill(Time::ZERO, |_| queue.pop_front(), |line| ends.push(line.message));
        if !carries {
            return flits;
        }
        flits.push(ends);
    }
}

#[test]
fn requests_share_a_flit_and_lines_run_over_into_the_next() {
    let requests = (0..6).map(|n| line(Class::Req, 1, n)).collect();
    assert_eq!(flits(4, requests), [vec![0, 1, 2, 3], vec![4, 5]]);
    let data = |n| (0..n).map(|n| line(Class::Drs, 1, n)).collect::<Vec<_>>();
    // 4 lines of 5 slots in 5 flits of 4.
    assert_eq!(flits(4, data(4)), [vec![], vec![0], vec![1], vec![2], vec![3]]);
    assert_eq!(flits(15, data(4)), [vec![0, 1, 2], vec![3]]);
}

#[test]
fn a_class_without_credits_does_not_stop_the_others() {
    let mut transmitter = Transmitter::new(4, 1);
    let mut offered = Vec::new();
    let mut sent = Vec::new();
    for _ in 0..2 {
        transmitter.fill(
            Time::ZERO,
            |allowed| {
                offered.push(allowed);
                let class = Class::ALL.into_iter().find(|class| allowed.contains(*class))?;
                Some(line(class, 1, 0))
            },
            |line| sent.push(line.class),
        );
    }
    assert_eq!(sent, [Class::Req, Class::RwD, Class::Ndr]);
    assert_eq!(transmitter.credits(Class::Drs), 0, "begun");
    transmitter.handle_credit(Time::from_ns(5), Class::Req);
    assert_eq!((transmitter.credits(Class::Req), transmitter.next_credit()), (1, Some(Time::from_ns(5))));
    transmitter.fill(Time::from_ns(4), |_| unreachable!("the message that is midway fills it"), |_| {});
}

#[test]
fn outputs_serve_inputs_in_turn() {
    let mut switch = Switch::new(130, 8);
    for input in [3, 64, 129] {
        for n in 0..2 {
            switch.handle_line(input, line(Class::RwD, 7, n));
        }
    }
    let order: Vec<u16> =
        std::iter::from_fn(|| switch.take(7, ClassSet::ALL)).map(|(input, _)| input).collect();
    assert_eq!(order, [3, 64, 129, 3, 64, 129]);
}

#[test]
fn the_first_of_a_queue_blocks_what_is_behind_it_but_no_other_class() {
    let mut switch = Switch::new(4, 8);
    switch.handle_line(0, line(Class::RwD, 1, 10));
    switch.handle_line(0, line(Class::RwD, 2, 11));
    switch.handle_line(0, line(Class::Req, 2, 12));
    let mut only_req = ClassSet::NONE;
    only_req.insert(Class::Req);
    assert_eq!(switch.take(1, only_req), None, "no credit for RwD towards 1");
    assert_eq!(switch.take(2, ClassSet::ALL).map(|(_, line)| line.message), Some(12));
    assert_eq!(switch.take(2, ClassSet::ALL), None, "11 is behind 10");
    assert_eq!(switch.take(1, ClassSet::ALL).map(|(_, line)| line.message), Some(10));
    assert_eq!(switch.take(2, ClassSet::ALL).map(|(_, line)| line.message), Some(11));
}

#[test]
fn a_request_keeps_its_buffer_until_its_answer_leaves() {
    let mut memory = Node::new(1, 4);
    let request = Line { message: 9, src: 0, dst: 1, class: Class::Req, fetches: false };
    assert!(!memory.handle_line(request));
    assert_eq!(memory.held(Class::Req), 1);
    let taken = memory.take(ClassSet::ALL).unwrap();
    assert_eq!(
        taken,
        Taken { line: Line { src: 1, dst: 0, class: Class::Drs, ..request }, frees: Some(Class::Req) }
    );
    assert_eq!(memory.held(Class::Req), 0);
}

#[test]
fn a_node_requests_no_more_than_its_window() {
    let mut node = Node::new(0, 3);
    node.submit(Burst { message: 1, dst: 1, lines: 5, class: Class::Req, fetches: false });
    let sent: Vec<Line> = std::iter::from_fn(|| node.take(ClassSet::ALL)).map(|taken| taken.line).collect();
    assert_eq!(sent.len(), 3);
    let answer = Line { src: 1, dst: 0, class: Class::Drs, ..sent[0] };
    assert!(node.handle_line(answer));
    assert!(node.take(ClassSet::ALL).is_some());
    assert!(node.waiting().is_empty());
}

proptest! {
    /// Whatever the traffic, nothing is lost, doubled or overtaken within a class and pair of ports.
    #[test]
    fn a_switch_keeps_everything_in_order(
        lines in prop::collection::vec((0u16..5, 0u16..5, 0usize..4), 0..200), masks in prop::collection::vec(0u8..16, 50),
    ) {
        let mut switch = Switch::new(5, 1_000);
        for (number, (input, dst, class)) in lines.iter().enumerate() {
            switch.handle_line(*input, line(Class::ALL[*class], *dst, number as u32));
        }
        let masks = masks.into_iter().map(ClassSet).chain([ClassSet::ALL; 1_000]);
        let mut last = std::collections::BTreeMap::new();
        let mut taken = 0;
        for (round, mask) in masks.enumerate() {
            let output = (round % 5) as u16;
            let Some((input, line)) = switch.take(output, mask) else { continue };
            prop_assert!(mask.contains(line.class));
            prop_assert_eq!((line.dst, lines[line.message as usize].0), (output, input));
            let before = last.insert((input, line.class.index()), line.message);
            prop_assert!(before.is_none_or(|before| before < line.message), "overtaken");
            taken += 1;
        }
        prop_assert_eq!(taken, lines.len());
    }
}
