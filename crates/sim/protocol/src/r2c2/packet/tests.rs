//! Tests of the packet formats: encoded packets can be decoded, and arbitrary bytes are refused or decoded.

use super::*;
use crate::r2c2::links::LinkState;
use proptest::prelude::*;

fn any_route() -> impl Strategy<Value = Route> {
    prop::collection::vec(0u32..8, 0..=42).prop_map(|ports| {
        let mut route = Route::default();
        ports.into_iter().for_each(|port| route.push(port));
        route
    })
}

fn any_data() -> impl Strategy<Value = (Data, Vec<u8>)> {
    let numbers = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u32>(), any::<u8>());
    (numbers, any_route(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(
        |((flow, src, dst, seq, done), route, payload)| {
            let kind = Kind::ALL[usize::from(done) % 5];
            let (plen, ridx) = (payload.len() as u16, done % (route.hops + 1));
            (Data { kind, flow, src, dst, seq, plen, route, ridx }, payload)
        },
    )
}

fn any_broadcast() -> impl Strategy<Value = Broadcast> {
    let ends = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u8>());
    let kinds = (prop::sample::select(&Event::ALL[..]), prop::sample::select(&Routing::ALL[..]));
    (ends, kinds, 1u8.., any::<u8>(), any::<u32>()).prop_map(
        |((src, dst, flow, tree), (event, routing), weight, priority, demand_kbps)| {
            let asked = Requirements { weight, priority, demand_kbps };
            Broadcast { event, src, dst, flow, asked, routing, tree }
        },
    )
}

proptest! {
    #[test]
    fn data_reads_back((data, payload) in any_data()) {
        let mut packet = [0; 300];
        let length = data.encode(&payload, &mut packet).unwrap();
        prop_assert_eq!(Data::decode(&packet[..length]), Ok((data, &payload[..])));
        prop_assert_eq!(data.encode(&payload, &mut packet[..length - 1]), None);
    }

    /// Each node takes the next port of the route, and the packet that arrives equals the one that was sent.
    #[test]
    fn a_packet_goes_its_way((data, payload) in any_data()) {
        let data = Data { ridx: 0, ..data };
        let mut packet = [0; 300];
        let length = data.encode(&payload, &mut packet).unwrap();
        let packet = &mut packet[..length];
        for hop in 0..data.route.hops() {
            prop_assert_eq!(Data::forward(packet), Ok(data.route.port(hop)));
            prop_assert!(Data::decode(packet).is_ok());
        }
        prop_assert_eq!(Data::forward(packet), Ok(None));
        let arrived = Data { ridx: data.route.hops, ..data };
        prop_assert_eq!(Data::decode(packet), Ok((arrived, &payload[..])));
    }

    /// A single flipped bit is noticed anywhere except in the hop counter.
    #[test]
    fn a_flipped_bit_is_seen((data, payload) in any_data(), bit in any::<prop::sample::Index>()) {
        let mut packet = [0; 300];
        let length = data.encode(&payload, &mut packet).unwrap();
        let bit = bit.index(length * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(bit / 8 == 2 || Data::decode(&packet[..length]).is_err());
    }

    #[test]
    fn keep_alives_read_back(
        states in prop::collection::vec((any::<u32>(), any::<u32>()), 0..40), bit in any::<prop::sample::Index>(),
        junk in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let states: Vec<LinkState> =
            states.into_iter().map(|(link, version)| LinkState { link, version }).collect();
        let mut packet = vec![1; 5];
        Hello::encode(&states, &mut packet);
        prop_assert!(Hello::is(&packet) && Broadcast::is(&packet) && !Announcement::is(&packet));
        prop_assert!(Broadcast::decode(&packet).is_err() && Hello::fit(packet.len()) == states.len());
        prop_assert_eq!(Hello::decode(&packet).map(|states| states.collect::<Vec<_>>()), Ok(states));
        let bit = bit.index(packet.len() * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Hello::decode(&packet).is_err());
        let _ = Hello::decode(&junk).map(|states| states.count());
    }

    #[test]
    fn announcements_read_back(
        (tree, src, number) in any::<(u8, u16, u16)>(), pairs in prop::collection::vec((any::<u16>(), any::<u16>(), 0u8..6), 0..40),
        bit in any::<prop::sample::Index>(), junk in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let of = |(src, flow, code)| Assignment { src, flow, routing: Routing::from_code(code).unwrap() };
        let pairs: Vec<Assignment> = pairs.into_iter().map(of).collect();
        let mut packet = vec![1; BROADCAST + pairs.len() * Assignment::BYTES];
        Assignment::encode(&pairs, &mut packet[BROADCAST..]);
        let announcement = Announcement { tree, src, number };
        announcement.seal(&mut packet);
        prop_assert!(Announcement::is(&packet) && Broadcast::is(&packet) && Broadcast::decode(&packet).is_err());
        let (read, list) = Announcement::decode(&packet).unwrap();
        prop_assert_eq!((read, list.collect::<Vec<_>>()), (announcement, pairs));
        let bit = bit.index(packet.len() * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Announcement::decode(&packet).is_err());
        prop_assert!(Announcement::decode(&junk).is_err());
    }

    #[test]
    fn broadcasts_read_back(broadcast in any_broadcast(), bit in 0usize..128) {
        let mut packet = broadcast.encode();
        prop_assert_eq!(Broadcast::decode(&packet), Ok(broadcast));
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Broadcast::decode(&packet), Err(Malformed::Checksum));
    }

    #[test]
    fn assignments_read_back(drawn in prop::collection::vec((any::<u16>(), any::<u16>(), 0u8..6), 0..400)) {
        let of = |(src, flow, code)| Assignment { src, flow, routing: Routing::from_code(code).unwrap() };
        let assignments: Vec<_> = drawn.into_iter().map(of).collect();
        let mut packet = [0; 1_500];
        let (count, bytes) = Assignment::encode(&assignments, &mut packet);
        prop_assert_eq!(count, assignments.len().min(300));
        let read: Vec<_> = Assignment::decode(&packet[..bytes]).unwrap().collect();
        prop_assert_eq!(&read[..], &assignments[..count]);
    }

    #[test]
    fn a_repaired_packet_has_its_checksum(mut bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0u8..105) {
        bytes.splice(..bytes.len().min(1), [kind]);
        repair(&mut bytes);
        let (plen, is_long) = (bytes.len().saturating_sub(DATA_HEADER) as u16, bytes.len() >= DATA_HEADER);
        if Kind::from_packet(&bytes).is_some() && is_long {
            bytes[10..12].copy_from_slice(&plen.to_be_bytes());
            repair(&mut bytes);
            prop_assert_ne!(Data::decode(&bytes).err(), Some(Malformed::Checksum));
        }
        if bytes.len() == BROADCAST && Broadcast::is(&bytes) && !Hello::is(&bytes) && !Announcement::is(&bytes) {
            prop_assert_ne!(Broadcast::decode(&bytes), Err(Malformed::Checksum));
        }
        prop_assert_ne!(Announcement::decode(&bytes).err(), Some(Malformed::Checksum));
        if Hello::is(&bytes) && bytes.len() >= 8 {
            prop_assert_ne!(Hello::decode(&bytes).err(), Some(Malformed::Checksum));
        }
    }

    /// Arbitrary bytes are refused or decoded correctly. Half of them get a correct checksum first.
    #[test]
    fn nonsense_is_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0u8..9, seal: bool) {
        if seal && !bytes.is_empty() {
            bytes[0] = if bytes.len() == BROADCAST { kind << 4 | bytes[0] & 7 } else { kind };
        }
        if seal && bytes.len() == BROADCAST {
            let checksum = crc16(&bytes[..14]);
            bytes[14..].copy_from_slice(&checksum.to_be_bytes());
        } else if seal && bytes.len() >= DATA_HEADER {
            let plen = (bytes.len() - DATA_HEADER) as u16;
            bytes[10..12].copy_from_slice(&plen.to_be_bytes());
            let checksum = Data::checksum(&bytes);
            bytes[32..36].copy_from_slice(&checksum.to_be_bytes());
        }
        if let Ok((data, payload)) = Data::decode(&bytes) {
            let mut again = vec![0; bytes.len()];
            prop_assert_eq!(data.encode(payload, &mut again), Some(bytes.len()));
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok(broadcast) = Broadcast::decode(&bytes) {
            prop_assert_eq!(&broadcast.encode()[..], &bytes[..]);
        }
        let _ = Assignment::decode(&bytes).map(Iterator::count);
        let _ = Data::forward(&mut bytes);
        prop_assert!(Broadcast::decode(&bytes).is_err() || Broadcast::is(&bytes));
        prop_assert!(Data::decode(&bytes).is_err() || !Broadcast::is(&bytes));
    }
}

/// The formats match the documentation bit by bit, as an independent implementation would have to write them.
#[test]
fn formats_are_as_told() {
    let mut route = Route::default();
    [5, 0, 7].into_iter().for_each(|port| route.push(port));
    let (flow, src, dst, seq) = (0x0102, 0x0304, 0x0506, 0x0708_090A);
    let data = Data { kind: Kind::Data, flow, src, dst, seq, plen: 1, route, ridx: 1 };
    let mut packet = [0; DATA_HEADER + 1];
    data.encode(&[0xFF], &mut packet).unwrap();
    assert_eq!(packet[..16], [1, 3, 1, 0, 1, 2, 3, 4, 5, 6, 0, 1, 7, 8, 9, 10]);
    assert_eq!(packet[16..32], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0b1100_0101]);
    let asked = Requirements { weight: 9, priority: 8, demand_kbps: 0x0A0B_0C0D };
    let (src, dst, flow, tree) = (0x0102, 0x0304, 0x0506, 7);
    let broadcast = Broadcast { event: Event::End, src, dst, flow, asked, routing: Routing::Vlb, tree };
    assert_eq!(broadcast.encode()[..14], [0x32, 7, 1, 2, 3, 4, 5, 6, 9, 8, 10, 11, 12, 13]);
}
