//! Tests of the parts of a CXL fabric in isolation.

use super::*;
use proptest::prelude::*;
use unrack_units::Time;

const NS: Time = Time::from_ns(1);

fn line(class: MessageClass, dst: u16, message: u32) -> Line {
    Line { message, src: 0, dst, class, fetches: false, count: 1, last: Time::ZERO }
}

/// Feed that offers its messages in order, and records which ones are complete. It offers those of any allowed class,
/// or only the first message.
#[derive(Default)]
struct Stock {
    queue: std::collections::VecDeque<Line>,
    complete: Vec<Line>,
}

impl Feed for Stock {
    const KEEPS_PLACES: bool = true;

    fn take(&mut self, allowed: ClassSet, credits: impl Fn(MessageClass) -> u32) -> Option<Line> {
        // Only the first message of a class may go before the messages of other classes.
        let mut passed = ClassSet::NONE;
        let at = self.queue.iter().position(|line| {
            let first = !passed.contains(line.class);
            passed.insert(line.class);
            first && allowed.contains(line.class) && credits(line.class) >= line.count.into()
        })?;
        self.queue.remove(at)
    }
    fn begin(&mut self, _run: Line, _slots: FlitSlots, _late: Time) {}
    fn complete(&mut self, line: Line) {
        self.complete.push(line);
    }
}

/// Fills flits from `queue` until it is empty. Returns the numbers of the messages that end in each flit.
fn flits(slots: u32, queue: Vec<Line>) -> Vec<Vec<u32>> {
    let mut transmitter = FlitTransmitter::new((slots, NS, NS), [1_000; CLASSES], 1);
    let mut stock = Stock { queue: queue.into(), ..Stock::default() };
    let mut flits = Vec::new();
    while transmitter.fill(Time::ZERO, &mut stock).is_some() {
        flits.push(stock.complete.drain(..).map(|line| line.message).collect());
    }
    flits
}

#[test]
fn requests_share_a_flit_and_lines_run_over_into_the_next() {
    let requests = (0..6).map(|n| line(MessageClass::Req, 1, n)).collect();
    assert_eq!(flits(4, requests), [vec![0, 1, 2, 3], vec![4, 5]]);
    let data = |n| (0..n).map(|n| line(MessageClass::Drs, 1, n)).collect::<Vec<_>>();
    // 4 lines of 5 slots take 5 flits of 4 slots.
    assert_eq!(flits(4, data(4)), [vec![], vec![0], vec![1], vec![2], vec![3]]);
    assert_eq!(flits(15, data(4)), [vec![0, 1, 2], vec![3]]);
}

#[test]
fn a_class_without_credits_does_not_stop_the_others() {
    let mut transmitter = FlitTransmitter::new((4, NS, NS), [1; CLASSES], 1);
    let twice = MessageClass::ALL.into_iter().flat_map(|class| [line(class, 1, 0), line(class, 1, 1)]);
    let mut stock = Stock { queue: twice.collect(), ..Stock::default() };
    while transmitter.fill(Time::ZERO, &mut stock).is_some() {}
    assert_eq!(stock.complete.iter().map(|line| line.class).collect::<Vec<_>>(), MessageClass::ALL);
    transmitter.handle_credits(Time::from_ns(5), MessageClass::RwD, 1);
    assert_eq!(
        (transmitter.credits(MessageClass::RwD), transmitter.next_credit(ClassSet::ALL)),
        (1, Some(Time::from_ns(5)))
    );
    assert!(transmitter.fill(Time::from_ns(4), &mut stock).is_none(), "the credit is on its way");
    assert!(transmitter.fill(Time::from_ns(5), &mut stock).is_some());
    assert_eq!(
        (transmitter.midway().map(|line| line.class), transmitter.credits(MessageClass::RwD)),
        (Some(MessageClass::RwD), 0)
    );
}

/// Returns the next message for `output`, and the input from which it leaves.
fn pass(switch: &mut Switch, output: u16, allowed: ClassSet) -> Option<(u16, Line)> {
    let line = switch.take(output, allowed, |_| 1)?;
    Some((switch.finish(output).unwrap().0, line))
}

#[test]
fn outputs_serve_inputs_in_turn() {
    let mut switch = Switch::new(130, [8; CLASSES], true);
    for input in [3, 64, 129] {
        for n in 0..2 {
            switch.handle_line(input, 7, line(MessageClass::RwD, 7, n));
        }
    }
    let order: Vec<u16> =
        std::iter::from_fn(|| pass(&mut switch, 7, ClassSet::ALL)).map(|(input, _)| input).collect();
    assert_eq!(order, [3, 64, 129, 3, 64, 129]);
}

#[test]
fn the_first_of_a_queue_blocks_what_is_behind_it_but_no_other_class() {
    let mut switch = Switch::new(4, [8; CLASSES], true);
    switch.handle_line(0, 1, line(MessageClass::RwD, 1, 10));
    switch.handle_line(0, 2, line(MessageClass::RwD, 2, 11));
    switch.handle_line(0, 2, line(MessageClass::Req, 2, 12));
    let mut only_req = ClassSet::NONE;
    only_req.insert(MessageClass::Req);
    let mut take = |output, allowed| pass(&mut switch, output, allowed).map(|(_, line)| line.message);
    assert_eq!(take(1, only_req), None, "no credit for RwD towards 1");
    assert_eq!(take(2, ClassSet::ALL), Some(12));
    assert_eq!(take(2, ClassSet::ALL), None, "11 is behind 10");
    assert_eq!(take(1, ClassSet::ALL), Some(10));
    assert_eq!(take(2, ClassSet::ALL), Some(11));
}

#[test]
fn head_of_line_blocking_costs_what_karol_says() {
    // Karol, Hluchyj, Morgan (1987), table I: the saturation throughput of input queues of N ports under
    // uniform traffic. 2 - sqrt 2 = 0.586 for many.
    for (ports, expected) in [(2u16, 0.75), (4, 0.6553), (8, 0.6184), (128, 0.5858)] {
        let slots = 400_000 / u32::from(ports);
        let share = f64::from(saturate(ports, slots, 4, true)) / f64::from(slots) / f64::from(ports);
        assert!((share - expected).abs() < 0.008, "{ports} ports: {share}");
    }
}

/// With a queue for each output, outputs are idle only when no input has anything for them.
#[test]
fn without_head_of_line_blocking_outputs_are_busy() {
    for ports in [2u16, 8, 32] {
        let slots = 100_000 / u32::from(ports);
        let share =
            |blocking| f64::from(saturate(ports, slots, 64, blocking)) / f64::from(slots) / f64::from(ports);
        let (without, with) = (share(false), share(true));
        assert!(without > 0.9 && with < 0.8, "{ports} ports: {without}, {with}");
    }
}

/// Counts the messages that pass if inputs are always full, destinations are random, and an output passes one message
/// per slot.
fn saturate(ports: u16, slots: u32, buffers: u32, blocking: bool) -> u32 {
    let mut switch = Switch::new(ports, [buffers; CLASSES], blocking);
    let mut seed = 1u64;
    let mut passed = 0;
    for _ in 0..slots {
        for input in 0..ports {
            while switch.queued(input, MessageClass::RwD) < buffers {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let dst = (seed >> 33) % u64::from(ports);
                switch.handle_line(input, dst as u16, line(MessageClass::RwD, dst as u16, 0));
            }
        }
        let sending: Vec<u16> =
            (0..ports).filter(|o| switch.take(*o, ClassSet::ALL, |_| 1).is_some()).collect();
        passed += sending.len() as u32;
        for output in sending {
            switch.finish(output);
        }
        while switch.poll_output().is_some() {}
    }
    passed
}

#[test]
fn a_request_keeps_its_buffer_until_its_answer_leaves() {
    let mut memory = Node::new(1, &Params { outstanding: 4, ..Params::default() }, 1);
    let request = line(MessageClass::Req, 1, 9);
    assert!(!memory.handle_line(request));
    assert_eq!(memory.held(MessageClass::Req), 1);
    let taken = memory.take(ClassSet::ALL, |_| 1).unwrap();
    assert_eq!(
        taken,
        DepartedMessage {
            line: Line { src: 1, dst: 0, class: MessageClass::Drs, ..request },
            frees: Some(MessageClass::Req)
        }
    );
    assert_eq!(memory.held(MessageClass::Req), 0);
}

#[test]
fn a_node_requests_no_more_than_its_window() {
    let mut node = Node::new(0, &Params { outstanding: 3, ..Params::default() }, 1);
    node.submit(Burst { message: 1, dst: 1, lines: 5, class: MessageClass::Req, fetches: false });
    let sent: Vec<Line> =
        std::iter::from_fn(|| node.take(ClassSet::ALL, |_| 1)).map(|taken| taken.line).collect();
    assert_eq!(sent.len(), 3);
    let answer = Line { src: 1, dst: 0, class: MessageClass::Drs, ..sent[0] };
    assert!(node.handle_line(answer));
    assert!(node.take(ClassSet::ALL, |_| 1).is_some());
    assert!(node.waiting().is_empty());
}

#[test]
fn as_many_transfers_as_cores_leave_in_turn() {
    let mut node = Node::new(0, &Params { outstanding: 100, ..Params::default() }, 1);
    for message in 0..18 {
        node.submit(Burst { message, dst: 1, lines: 2, class: MessageClass::RwD, fetches: false });
    }
    let taken = std::iter::from_fn(|| node.take(ClassSet::ALL, |_| 1));
    let order: Vec<u32> = taken.map(|taken| taken.line.message).collect();
    let expected: Vec<u32> = (0..16).chain(0..16).chain([16, 17, 16, 17]).collect();
    assert_eq!(order, expected);
}

/// One transfer at a time: the next one's lines are requested when all of the first were. Its answers may also go one transfer at a time.
#[test]
fn one_transfer_at_a_time_leaves_whole_and_is_answered_whole() {
    let params = Params { transfers: 1, answers: AnswerOrder::ByTransfer, ..Params::default() };
    let mut node = Node::new(0, &params, 1);
    for message in 0..3 {
        node.submit(Burst { message, dst: 1, lines: 2, class: MessageClass::RwD, fetches: false });
    }
    let order: Vec<u32> =
        std::iter::from_fn(|| node.take(ClassSet::ALL, |_| 1)).map(|taken| taken.line.message).collect();
    assert_eq!(order, [0, 0, 1, 1, 2, 2]);
    for message in [7, 8, 7, 8, 7] {
        node.handle_line(line(MessageClass::Req, 0, message));
    }
    let answers: Vec<u32> =
        std::iter::from_fn(|| node.take(ClassSet::ALL, |_| 1)).map(|taken| taken.line.message).collect();
    assert_eq!(answers, [7, 7, 7, 8, 8]);
}

proptest! {
    /// Whatever the traffic, no message is lost, duplicated or overtaken within a class and a pair of ports.
    #[test]
    fn a_switch_keeps_everything_in_order(
        lines in prop::collection::vec((0u16..5, 0u16..5, 0usize..4), 0..200), masks in prop::collection::vec(0u8..16, 50),
        blocking in any::<bool>(),
    ) {
        let mut switch = Switch::new(5, [1_000; CLASSES], blocking);
        for (number, (input, dst, class)) in lines.iter().enumerate() {
            switch.handle_line(*input, *dst, line(MessageClass::ALL[*class], *dst, number as u32));
        }
        let masks = masks.into_iter().map(ClassSet).chain([ClassSet::ALL; 1_000]);
        let mut last = std::collections::BTreeMap::new();
        let mut taken = 0;
        for (round, mask) in masks.enumerate() {
            let output = (round % 5) as u16;
            let Some((input, line)) = pass(&mut switch, output, mask) else { continue };
            prop_assert!(mask.contains(line.class));
            prop_assert_eq!((line.dst, lines[line.message as usize].0), (output, input));
            let before = last.insert((input, line.class.index(), if blocking { 0 } else { output }), line.message);
            prop_assert!(before.is_none_or(|before| before < line.message), "overtaken");
            taken += 1;
        }
        prop_assert_eq!(taken, lines.len());
    }

    /// A link sends every run once, in order within its class, and never without credits for it.
    #[test]
    fn a_link_keeps_runs_in_order_and_credits_whole(
        runs in prop::collection::vec((0usize..4, 1u8..=16), 1..60), back in prop::collection::vec(1u64..200, 60),
        slots in prop::sample::select(vec![4u32, 15]),
    ) {
        let mut transmitter = FlitTransmitter::new((slots, NS, NS), [64; CLASSES], 16);
        let queue = runs.iter().enumerate();
        let queue = queue.map(|(n, (class, count))| Line { count: *count, ..line(MessageClass::ALL[*class], 1, n as u32) });
        let mut stock = Stock { queue: queue.collect(), ..Stock::default() };
        let (mut now, mut away, mut done) = (Time::ZERO, [0u32; CLASSES], 0);
        let mut last = [None; CLASSES];
        for _ in 0..100_000 {
            let next = transmitter.fill(now, &mut stock);
            for line in stock.complete.drain(..) {
                let before = last[line.class.index()].replace(line.message);
                prop_assert!(before.is_none_or(|before| before < line.message), "overtaken");
                // The receiver frees its buffers one by one, after a while.
                for n in 0..u64::from(line.count) {
                    let at = now + NS * (back[line.message as usize] + n);
                    transmitter.handle_credits(at, line.class, 1);
                }
                done += 1;
            }
            away.fill(0);
            if let Some(run) = transmitter.midway() {
                away[run.class.index()] = run.count.into();
            }
            for class in MessageClass::ALL {
                prop_assert_eq!(transmitter.credits(class) + away[class.index()], 64);
            }
            let waiting = stock.queue.iter().fold(ClassSet::NONE, |mut set, line| { set.insert(line.class); set });
            match next.or_else(|| transmitter.next_credit(waiting)) {
                Some(next) => { prop_assert!(next > now); now = next },
                None => break,
            }
        }
        prop_assert_eq!(done, runs.len());
    }
}
