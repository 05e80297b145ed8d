//! Racks without switches in real time: properties that hold however busy the machine is.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use unrack_keys::datagram::SharedKey;
use unrack_protocol::r2c2::{Params, Routing};
use unrack_rack::{BitErrors, Faults, LinkSpec, NetworkSpec, Scenario};
use unrack_torus::{Emulation, LiveReport, Machines, TorusPlan};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

fn plan(shape: &str, rate: Rate, params: Params) -> TorusPlan {
    failing(shape, rate, params, &Faults::default())
}

fn failing(shape: &str, rate: Rate, params: Params, faults: &Faults) -> TorusPlan {
    let text = format!(
        "[network]\ntopology = {{ kind = \"torus\", shape = {shape} }}\nswitch = {{ buffer = \"256KiB\" }}\n\
         [fabric]\nprotocol = \"r2c2\"\n[workload]\nkind = \"flows\"\nsize = \"1KiB\"\nload = \"1%\"\nmessages = 1\n"
    );
    let scenario = Scenario::parse("test", &text, &std::iter::empty::<String>().collect()).unwrap();
    let mut network: NetworkSpec = unrack_sim::check(scenario).unwrap().network;
    network.link = LinkSpec { rate, propagation: Time::from_us(5) };
    TorusPlan::new(&network, faults, &params, 3).unwrap()
}

/// Flows from all nodes to all others, started one after the other.
fn flows(nodes: u32, count: u32, bytes: u64, apart: Time) -> Vec<(Time, Message)> {
    let flow =
        |n: u32| (apart * u64::from(n), Message::flow(n % nodes, (n % nodes + 1 + n / nodes) % nodes, bytes));
    (0..count).map(flow).collect()
}

/// Verifies what holds of every run in which no node dies.
fn check(report: &LiveReport, flows: &[(Time, Message)]) {
    let bytes: u64 = flows.iter().map(|(_, message)| message.bytes).sum();
    assert!(report.outcomes.iter().all(|outcome| outcome.completed_ps.is_some()), "{report:?}");
    assert_eq!((report.wrong_bytes, report.counters.malformed), (0, 0));
    let counters = report.counters;
    assert!(counters.arrived_bytes >= bytes);
    let again: u64 = report.outcomes.iter().map(|outcome| u64::from(outcome.retransmissions)).sum();
    // A second copy of a packet may still be under way when its flow, and with it the run, ends.
    let under_way = counters.sent_bytes.checked_sub(counters.arrived_bytes + counters.dropped_bytes);
    assert!(under_way == Some(0) || under_way.is_some() && again > 0, "{counters:?}");
    assert!(again > 0 || counters.sent_bytes == bytes);
    for (outcome, (at, _)) in report.outcomes.iter().zip(flows) {
        assert!(outcome.submitted_ps >= at.as_ps() && outcome.completed_ps > Some(outcome.submitted_ps));
    }
}

#[test]
fn flows_come_to_their_ends_by_every_routing() {
    for (routing, threads) in Routing::ALL.into_iter().zip([1, 2, 3, 2, 16, 2]) {
        let params = Params { routing, ..Params::default() };
        let mut rack = Emulation::start(plan("[4, 4]", Rate::from_gbps(1), params), threads).unwrap();
        let flows = flows(16, 96, 50_000, Time::from_us(100));
        check(&rack.run(&flows).unwrap(), &flows);
    }
}

/// No link carries more than its rate under any load: here, all nodes send to one. Two runs, one after the other, use
/// the same rack.
#[test]
fn no_link_is_faster_than_its_rate() {
    let mut rack =
        Emulation::start(plan("[3, 3]", Rate::from_bps(200_000_000), Params::default()), 2).unwrap();
    for _ in 0..2 {
        let flows: Vec<_> = (1..9).map(|src| (Time::ZERO, Message::flow(src, 0, 250_000))).collect();
        let report = rack.run(&flows).unwrap();
        check(&report, &flows);
        let last = report.outcomes.iter().filter_map(|outcome| outcome.completed_ps).max().unwrap();
        // 2 MB and their headers over four links of 200 Mb/s.
        assert!(last > Rate::from_bps(800_000_000).transmit(unrack_units::Bytes::new(2_000_000)).as_ps());
        assert!(report.most_queued.iter().all(|bytes| *bytes <= 256 << 10));
    }
}

/// A node dies: flows from it and to it are abandoned, and all others arrive.
#[test]
fn a_node_that_dies_is_counted() {
    let params = Params { timeout: Time::from_us(100), ..Params::default() };
    let mut rack = Emulation::start(plan("[4, 4]", Rate::from_bps(100_000_000), params), 2).unwrap();
    rack.stop_node(5);
    let flows = flows(16, 48, 20_000, Time::from_us(100));
    let report = rack.run(&flows).unwrap();
    for (outcome, (_, message)) in report.outcomes.iter().zip(&flows) {
        assert_eq!(outcome.completed_ps.is_some(), message.src != 5 && message.dst != 5, "{message:?}");
    }
    let counters = report.counters;
    assert_eq!(report.wrong_bytes, 0);
    assert!(counters.dropped_packets > 0);
    // Second copies may be under way at the end.
    assert!(counters.sent_bytes >= counters.arrived_bytes + counters.dropped_bytes);
}

/// A flipped bit is detected by the frame's check sequence: the packet is dropped, counted and retransmitted.
#[test]
fn packets_with_flipped_bits_are_sent_again() {
    // One packet of 1,500 B in 42, on each link.
    let bit_errors = BitErrors { core_link: 2e-6, ..BitErrors::default() };
    let faults = Faults { bit_errors, ..Faults::default() };
    let plan = failing("[3, 3]", Rate::from_bps(500_000_000), Params::default(), &faults);
    let mut rack = Emulation::start(plan, 2).unwrap();
    let flows = flows(9, 40, 60_000, Time::from_us(200));
    let report = rack.run(&flows).unwrap();
    check(&report, &flows);
    let again: u64 = report.outcomes.iter().map(|outcome| u64::from(outcome.retransmissions)).sum();
    // Of 1,640 packets over one or two links.
    assert!(again > 10 && report.counters.dropped_packets > 10, "{again} {:?}", report.counters);
}

/// Runs a flow again and again until none of its packets is lost, for at most a minute. Returns the number of runs
/// before.
fn until_nothing_is_lost(rack: &mut Emulation, (src, dst): (u32, u32)) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(60);
    for runs in 0.. {
        let report = rack.run(&[(Time::ZERO, Message::flow(src, dst, 300_000))]).unwrap();
        assert!(report.outcomes[0].completed_ps.is_some() && report.wrong_bytes == 0, "{report:?}");
        if report.outcomes[0].retransmissions == 0 && report.counters.dropped_packets == 0 {
            return runs;
        }
        assert!(Instant::now() < deadline, "{report:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    0
}

/// Half of the paths from 4 to 6 lead through node 5, whose power is cut. Its neighbours detect that by its silence.
#[test]
fn a_node_that_is_silent_is_avoided() {
    let params = Params { timeout: Time::from_us(10_000), ..Params::default() };
    let mut rack = Emulation::start(plan("[4, 4]", Rate::from_bps(200_000_000), params), 2).unwrap();
    rack.stop_node(5);
    assert!(until_nothing_is_lost(&mut rack, (4, 6)) > 0);
}

/// Four machines of one node each in a ring, one of which is gone.
#[test]
fn a_machine_that_is_gone_is_avoided() {
    let addresses = addresses(4);
    let part = |here: usize| {
        let params = Params { timeout: Time::from_us(10_000), ..Params::default() };
        let machines = Machines::new(addresses.clone(), here).unwrap();
        Emulation::start_part(plan("[4]", Rate::from_bps(200_000_000), params), 1, &machines).unwrap()
    };
    let mut racks: Vec<Emulation> = (0..4).map(part).collect();
    until_nothing_is_lost(&mut racks[0], (0, 2));
    drop(racks.remove(1));
    let lost =
        racks[0].run(&[(Time::ZERO, Message::flow(0, 2, 300_000))]).unwrap().outcomes[0].retransmissions;
    assert!(lost > 0);
    until_nothing_is_lost(&mut racks[0], (0, 2));
}

#[test]
fn what_a_live_rack_does_not_carry_is_refused() {
    let mut rack = Emulation::start(plan("[2, 2]", Rate::from_gbps(1), Params::default()), 1).unwrap();
    let refused =
        [Message::read(0, 1, 64), Message::flow(0, 4, 64), Message::flow(1, 1, 64), Message::flow(0, 1, 0)];
    for message in refused {
        assert!(rack.run(&[(Time::ZERO, message)]).unwrap_err().to_string().starts_with("workload: "));
    }
    assert!(rack.run(&[]).unwrap().outcomes.is_empty());
}

/// Addresses on loopback that were free just now.
fn addresses(count: usize) -> Vec<SocketAddr> {
    let sockets: Vec<UdpSocket> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    sockets.iter().map(|socket| socket.local_addr().unwrap()).collect()
}

#[test]
fn links_may_be_between_machines() {
    between_machines(None);
}

#[test]
fn links_between_machines_may_be_sealed() {
    between_machines(Some(SharedKey::from_bytes([3; 32])));
}

/// Three machines with six or five nodes each, and a stranger who writes to their sockets.
fn between_machines(key: Option<SharedKey>) {
    let key = &key;
    let addresses = addresses(3);
    let (flows, machines) = (flows(16, 96, 20_000, Time::from_us(200)), addresses.len());
    let barrier = &Barrier::new(machines);
    let part = &|here: usize| {
        let plan = plan(
            "[4, 4]",
            Rate::from_bps(200_000_000),
            Params { timeout: Time::from_us(20_000), ..Params::default() },
        );
        let machines = Machines::new(addresses.clone(), here).unwrap().protect(key.clone(), false).unwrap();
        let mut rack = Emulation::start_part(plan, 1, &machines).unwrap();
        let own: Vec<_> =
            flows.iter().filter(|(_, message)| rack.own().contains(&message.src)).copied().collect();
        barrier.wait();
        if here == 0 {
            let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
            for n in 0..300u16 {
                let mut junk = [0x52, 0xC2, 1, 0].to_vec();
                junk.extend((0..n % 97).map(|byte| byte as u8));
                stranger.send_to(&junk, addresses[usize::from(n) % 3]).unwrap();
            }
        }
        let report = rack.run(&own).unwrap();
        // Flows of the other machines have to arrive as well.
        barrier.wait();
        (own, report)
    };
    let done = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..machines).map(|here| scope.spawn(move || part(here))).collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(done.iter().map(|(own, _)| own.len()).sum::<usize>(), flows.len());
    for (_, report) in done {
        assert!(report.outcomes.iter().all(|outcome| outcome.completed_ps.is_some()), "{report:?}");
        assert_eq!(report.wrong_bytes, 0);
    }
}

/// Machines with different keys do not hear each other; machines with the same key do, even after one restarts.
#[test]
fn a_machine_with_another_key_is_not_heard() {
    let addresses = addresses(2);
    let part = |here: usize, key: u8| {
        let params = Params { timeout: Time::from_us(10_000), ..Params::default() };
        let key = Some(SharedKey::from_bytes([key; 32]));
        let machines = Machines::new(addresses.clone(), here).unwrap().protect(key, false).unwrap();
        Emulation::start_part(plan("[4]", Rate::from_bps(200_000_000), params), 1, &machines).unwrap()
    };
    // Keep-alives come every 100 ms; meanwhile a flow between two nodes of this machine.
    let refused = |rack: &mut Emulation| {
        let src = rack.own().start;
        let report = rack.run(&[(Time::from_us(500_000), Message::flow(src, src + 1, 1000))]).unwrap();
        report.counters.malformed
    };
    let (mut one, other) = (part(0, 1), part(1, 2));
    assert!(refused(&mut one) > 0);
    drop(other);
    for _ in 0..2 {
        let mut other = part(1, 1);
        until_nothing_is_lost(&mut one, (1, 2));
        until_nothing_is_lost(&mut other, (2, 1));
        assert_eq!((refused(&mut one), refused(&mut other)), (0, 0));
    }
}

#[test]
fn machines_beyond_loopback_need_a_key() {
    let machines =
        || Machines::new(vec!["127.0.0.1:7".parse().unwrap(), "10.0.0.2:7".parse().unwrap()], 0).unwrap();
    let said = machines().protect(None, false).unwrap_err().to_string();
    assert!(said.contains("10.0.0.2:7") && said.contains("unrack keys shared"), "{said}");
    machines().protect(None, true).unwrap();
    machines().protect(Some(SharedKey::from_bytes([1; 32])), false).unwrap();
}

#[test]
fn machines_that_cannot_be_are_refused() {
    let addresses = addresses(2);
    assert!(Machines::new(addresses.clone(), 2).unwrap_err().to_string().contains("0 to 1"));
    assert!(Machines::new(vec![addresses[0]; 2], 0).unwrap_err().to_string().contains("two machines"));
    let _taken = UdpSocket::bind(addresses[0]).unwrap();
    let machines = Machines::new(addresses, 0).unwrap();
    let plan = plan("[2, 2]", Rate::from_gbps(1), Params::default());
    let why = Emulation::start_part(plan, 2, &machines).err().unwrap().to_string();
    assert!(why.starts_with("machine 0: no socket at 127.0.0.1:"), "{why}");
}
