//! Tests of captures, read back by another implementation.

use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{PcapNgReader, blocks::enhanced_packet::EnhancedPacketOption};
use proptest::prelude::*;
use std::path::PathBuf;
use unrack_record::pcapng::{Captured, LinkType, Pcapng};
use unrack_testing::TestFolder;

/// File of one test, removed afterwards.
struct Scratch {
    _folder: TestFolder,
    path: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder = TestFolder::new(name);
        let path = folder.join("some.pcapng");
        Scratch { _folder: folder, path }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Packet {
    interface: u32,
    time_ps: u64,
    bytes: Vec<u8>,
    length: u32,
    comment: String,
}

fn read(bytes: &[u8]) -> (Vec<(String, u16, u8)>, Vec<Packet>) {
    let mut reader = PcapNgReader::new(bytes).expect("begins as a pcapng file");
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::InterfaceDescription(found) => {
                let (mut name, mut resolution) = (String::new(), 6);
                for option in &found.options {
                    match option {
                        InterfaceDescriptionOption::IfName(text) => name = text.to_string(),
                        InterfaceDescriptionOption::IfTsResol(digits) => resolution = *digits,
                        _ => {}
                    }
                }
                interfaces.push((name, u32::from(found.linktype) as u16, resolution));
            }
            Block::EnhancedPacket(found) => {
                let comment = found.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                });
                packets.push(Packet {
                    interface: found.interface_id,
                    // The reader takes all times for nanoseconds.
                    time_ps: found.timestamp.as_nanos() as u64,
                    bytes: found.data.to_vec(),
                    length: found.original_len,
                    comment: comment.unwrap_or_default(),
                });
            }
            other => panic!("an unexpected block: {other:?}"),
        }
    }
    (interfaces, packets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_reads_back(
        names in prop::collection::vec("[a-z0-9 ]{1,20}", 1..5),
        drawn in prop::collection::vec(
            (any::<u32>(), 0u64..1 << 60, prop::collection::vec(any::<u8>(), 0..90), 0u32..9000, "[ -~]{0,30}"),
            0..20,
        ),
    ) {
        let file = Scratch::new("back");
        let mut writer = Pcapng::create(&file.path).unwrap();
        for (n, name) in names.iter().enumerate() {
            let link = if n % 2 == 0 { LinkType::Ethernet } else { LinkType::User0 };
            prop_assert_eq!(writer.interface(name, link, 100_000_000_000).unwrap(), n as u32);
        }
        let packets: Vec<Packet> = drawn.into_iter().map(|(interface, time_ps, bytes, more, comment)| Packet {
            interface: interface % names.len() as u32,
            time_ps,
            length: bytes.len() as u32 + more,
            bytes,
            comment,
        }).collect();
        for Packet { interface, time_ps, bytes, length, comment } in &packets {
            let (interface, time_ps, length) = (*interface, *time_ps, *length);
            writer.packet(&Captured { interface, time_ps, bytes, length, comment }).unwrap();
        }
        prop_assert!(!file.path.exists());
        writer.finish().unwrap();
        let (interfaces, read) = read(&std::fs::read(&file.path).unwrap());
        let kinds = [1u16, 147];
        let expected: Vec<_> = names.iter().enumerate().map(|(n, name)| (name.clone(), kinds[n % 2], 12)).collect();
        prop_assert_eq!(interfaces, expected);
        prop_assert_eq!(read, packets);
    }
}
