//! `unrack sim --pcap --perfetto --ports --explain`: files for other programs.

use crate::desk;

use desk::{Desk, example};
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use unrack_record::ports;
use unrack_testing::TestRequirement;

const FABRICS: [&str; 4] = ["edm", "cxl", "dctcp", "pfabric"];

/// Runs two thousand messages on this fabric with `more` arguments, and returns the summary.
fn run(desk: &Desk, fabric: &str, more: &[&str]) -> Value {
    let (star, protocol) = (example("star-dctcp.toml"), format!("fabric={{protocol=\"{fabric}\"}}"));
    let common = ["sim", star.as_str(), "--json", "--set", &protocol, "--set", "workload.messages=2000"];
    let text = desk.done(&[&common, more].concat());
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Returns the packets of a capture: their bytes, and their original length.
fn packets(capture: &[u8]) -> Vec<(Vec<u8>, u32)> {
    let mut reader = PcapNgReader::new(capture).expect("begins as a pcapng file");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a whole block") {
            packets.push((packet.data.to_vec(), packet.original_len));
        }
    }
    packets
}

#[test]
fn a_capture_holds_every_packet_on_every_link() {
    let desk = Desk::new("pcap");
    for fabric in FABRICS {
        let summary = run(&desk, fabric, &["--pcap", "all.pcapng"]);
        let packets = packets(&desk.bytes("all.pcapng"));
        assert_eq!(Some(packets.len() as u64), summary["packet_hops"].as_u64(), "{fabric}");
        for (bytes, length) in &packets {
            assert!(bytes.len() as u32 <= *length, "{fabric}");
            match fabric {
                // IPv4 and TCP, and the length in the IP header.
                "dctcp" => {
                    assert_eq!((&bytes[12..15], bytes[23]), (&[0x08, 0x00, 0x45][..], 6));
                    assert_eq!(u32::from(u16::from_be_bytes([bytes[16], bytes[17]])) + 14, *length);
                    assert_eq!(checksum(&bytes[14..34]), 0, "the checksum of the header");
                }
                _ => {
                    assert_eq!((&bytes[..3], bytes.len()), (&b"UR\x01"[..], 48));
                    assert_eq!(bytes[36..].split(|byte| *byte == 0).next().unwrap(), fabric.as_bytes());
                }
            }
        }
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    !((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// Returns the fields that tshark finds in a capture, a line for each packet.
fn tshark(desk: &Desk, capture: &str, fields: &[&str]) -> Option<Vec<String>> {
    let dissector = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/wireshark/unrack.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", dissector.display()));
    command.args(["-r", &desk.path(capture), "-T", "fields", "-E", "separator=,"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Ok(output) => output,
        Err(why) => {
            unrack_testing::skip(TestRequirement::Tshark, format!("tshark cannot be run ({why})"));
            return None;
        }
    };
    assert!(output.status.success(), "{}", desk::stderr(&output));
    Some(desk::stdout(&output).lines().map(str::to_string).collect())
}

#[test]
fn wireshark_reads_our_headers_and_those_of_tcp() {
    let desk = Desk::new("tshark");
    run(&desk, "edm", &["--pcap", "edm.pcapng", "--only", "message=5"]);
    let fields = ["_ws.col.Protocol", "unrack.message", "unrack.kind", "unrack.payload", "unrack.fabric"];
    let Some(lines) = tshark(&desk, "edm.pcapng", &fields) else { return };
    // 64 B: notification up and grant down, or the request each way; then one chunk up and down.
    let data = lines.iter().filter(|line| *line == "edm,5,0,64,edm").count();
    assert_eq!((lines.len(), data), (4, 2), "{lines:?}");

    run(&desk, "dctcp", &["--pcap", "tcp.pcapng", "--only", "message=5"]);
    let fields = ["_ws.col.Protocol", "tcp.len", "ip.dsfield.ecn", "tcp.dstport", "tcp.checksum.status"];
    let lines = tshark(&desk, "tcp.pcapng", &fields).unwrap();
    assert!(lines.iter().all(|line| line.starts_with("TCP,")), "{lines:?}");
    let data = lines.iter().filter(|line| line.starts_with("TCP,64,2,") || line.starts_with("TCP,64,3,"));
    assert_eq!(data.count(), 2, "{lines:?}");
}

#[test]
fn a_timeline_is_what_perfetto_reads() {
    let desk = Desk::new("perfetto");
    for fabric in FABRICS {
        run(&desk, fabric, &["--perfetto", "one.json", "--only", "message=7"]);
        let timeline: Value = serde_json::from_slice(&desk.bytes("one.json")).unwrap();
        let events = timeline["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        assert!(of("X").iter().all(|event| event["dur"].as_f64().unwrap() >= 0.0 && event["ts"].is_number()));
        let named: BTreeSet<_> = of("M").iter().map(|event| event["tid"].as_u64()).collect();
        let links: BTreeSet<_> = of("X").iter().map(|event| event["tid"].as_u64()).collect();
        assert!(links.is_subset(&named) && links.len() >= 2, "{fabric}: {timeline}");
        // The message's own track: from submission to completion without a gap.
        let parts: Vec<_> = of("X").into_iter().filter(|event| event["pid"] == 2).collect();
        assert!(!parts.is_empty(), "{fabric}");
        for two in parts.windows(2) {
            let end = two[0]["ts"].as_f64().unwrap() + two[0]["dur"].as_f64().unwrap();
            assert!((end - two[1]["ts"].as_f64().unwrap()).abs() < 1e-6, "{fabric}: {timeline}");
        }
    }
}

#[test]
fn links_over_time_hold_what_was_sent() {
    let desk = Desk::new("ports");
    for fabric in FABRICS {
        let summary = run(&desk, fabric, &["--ports", "ports.parquet", "--every", "50ns"]);
        let (meta, rows) = ports::read(desk.path("ports.parquet")).unwrap();
        assert_eq!(meta, ports::Meta { fabric: fabric.into(), interval_ps: 50_000 });
        let packets: u64 = rows.iter().map(|row| u64::from(row.packets)).sum();
        assert_eq!(Some(packets), summary["packet_hops"].as_u64(), "{fabric}");
        assert!(rows.iter().all(|row| row.busy_ps <= 50_000 && row.utilization <= 1.0), "{fabric}");
        assert!(rows.iter().any(|row| row.queue_max_bytes > 0), "{fabric}");
        assert_eq!(
            rows.iter().map(|row| row.queue_max_bytes).max(),
            summary["queue_bytes"]["max"].as_u64().map(|bytes| bytes.min(1 << 40)),
            "{fabric}"
        );
    }
}

#[test]
fn an_explanation_sums_to_the_completion() {
    let desk = Desk::new("explain");
    for fabric in FABRICS {
        let explained = &run(&desk, fabric, &["--explain", "1234"])["explained"];
        let number = |value: &Value| value.as_f64().unwrap();
        let parts = explained["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| number(&part["time_ns"])).sum();
        assert!((sum - number(&explained["completion_ns"])).abs() < 1e-6, "{fabric}: {explained}");
        assert!(number(&explained["completion_ns"]) >= number(&explained["unloaded_ns"]), "{fabric}");
    }
}

/// Scenario with ports of 36 KiB under Homa, in which many packets are dropped, and missed after a long time.
const DROPS: &str = r#"
seed = 4
[network]
topology = { kind = "leaf-spine", racks = 4, hosts_per_rack = 8, spines = 2 }
link = { rate = "100Gbps", propagation = "100ns" }
core_link = { rate = "400Gbps", propagation = "200ns" }
[fabric]
protocol = "homa"
resend = "2ms"
[workload]
kind = "flows"
size = { cdf_file = "sizes.toml" }
load = 0.6
messages = 4000
"#;

#[test]
fn the_message_that_took_longest_says_that_it_was_lost() {
    let desk = Desk::new("explain-lost");
    desk.file("sizes.toml", "points = [[100, 0.2], [1000, 0.6], [100000, 0.95], [2000000, 1]]");
    let scenario = desk.file("drops.toml", DROPS);
    desk.done(&["sim", scenario.as_str(), "--out", "run"]);
    let (_, rows) = unrack_record::messages::read(desk.path("run/messages.parquet")).unwrap();
    let worst = rows.iter().max_by(|a, b| a.slowdown.total_cmp(&b.slowdown)).unwrap();
    assert!(worst.drops > 0 && worst.slowdown > 1_000.0, "{worst:?}");
    let id = worst.id.to_string();
    let object = desk.done(&["sim", scenario.as_str(), "--json", "--explain", &id]);
    let object: Value = serde_json::from_str(&object).unwrap();
    let parts = object["explained"]["parts"].as_array().unwrap();
    let lost = parts.iter().filter(|part| part["cause"] == "lost");
    assert!(lost.clone().all(|part| part["where"] == "lost, and found out"));
    let lost: f64 = lost.map(|part| part["time_ns"].as_f64().unwrap()).sum();
    let completion = object["explained"]["completion_ns"].as_f64().unwrap();
    assert!(lost > 0.9 * completion, "{lost} of {completion}");
    // One retransmission timeout of 2 ms, and not a second one until a grant.
    assert!(completion < 3e6, "{completion}");
}

#[test]
fn drops_that_decide_the_figures_are_said_with_the_key_to_change() {
    let desk = Desk::new("warnings");
    desk.file("sizes.toml", "points = [[100, 0.2], [1000, 0.6], [100000, 0.95], [2000000, 1]]");
    let scenario = desk.file("drops.toml", DROPS);
    let key = "`network.switch.buffer` (now 36KiB)";
    for (buffer, fires) in [("36KiB", true), ("512KiB", false)] {
        let set = format!("network.switch.buffer={buffer}");
        let text = desk.done(&["sim", scenario.as_str(), "--set", &set, "--out", buffer]);
        assert_eq!(
            text.lines().any(|line| line.starts_with("warning") && line.contains(key)),
            fires,
            "{text}"
        );
        let object = desk.done(&["sim", scenario.as_str(), "--set", &set, "--json"]);
        let object: Value = serde_json::from_str(&object).unwrap();
        let warnings = object["warnings"].as_array().unwrap();
        let drops = warnings.iter().find(|warning| warning["key"] == "drops");
        assert_eq!(
            drops.is_some_and(|drops| drops["text"].as_str().unwrap().contains(key)),
            fires,
            "{warnings:?}"
        );
        desk.done(&["report", buffer, "-o", "report.html"]);
        assert_eq!(String::from_utf8(desk.bytes("report.html")).unwrap().contains(key), fires);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let desk = Desk::new("watch-refused");
    let star = example("star-dctcp.toml");
    let said = |more: &[&str]| {
        desk.refused(2, &[&["sim", star.as_str(), "--set", "workload.messages=10"], more].concat())
    };
    assert!(said(&["--explain", "10"]).contains("messages 0 to 9"));
    assert!(said(&["--only", "node=3"]).contains("--pcap or --perfetto"));
    assert!(said(&["--pcap", "a.pcapng", "--only", "node=144"]).contains("nodes 0 to 143"));
    assert!(said(&["--pcap", "a.pcapng", "--only", "port=999"]).contains("ports 0 to 143"));
    assert!(said(&["--pcap", "a.pcapng", "--only", "link=9"]).contains("use `message`, `node` or `port`"));
    assert!(said(&["--pcap", "absent/a.pcapng"]).contains("absent/a.pcapng"));
    assert!(said(&["--ports", "p.parquet", "--every", "0ns"]).contains("above 0"));
}
