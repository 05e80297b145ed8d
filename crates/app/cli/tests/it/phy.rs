//! `unrack phy`: listings, traces, captures and waveforms.

use crate::desk;

use desk::{Desk, example, stdout};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use unrack_testing::{TestRequirement, skip};

const SCRIPT: &str = "\
frame hex=0800207705380e8b000000000800450000281c6600001b069ed70000594d000068d139284aeb0000307700007a0c50121ed262840000000000000000
idle blocks=2
read node=1 id=2 address=0x1234 bytes=64
read node=1 id=3 address=0x40 bytes=64
write node=1 id=4 address=0x40 hex=00112233445566778899
cas node=5 id=5 address=0x8 expected=0x1 new=0x2
response node=1 id=6 last=no hex=0011
response node=1 id=7
notify node=1 id=8 bytes=512
grant node=1 id=9 bytes=256 of=response
";

#[test]
fn what_is_encoded_is_decoded() {
    let desk = Desk::new("phy");
    let script = desk.file("script", SCRIPT);
    for scrambled in [false, true] {
        let flag: &[&str] = if scrambled { &["--scrambled"] } else { &[] };
        let blocks = desk.done(&[&["phy", "encode", &script], flag].concat());
        assert_eq!(
            blocks.lines().any(|line| line.contains("/MST/ RREQ node 1 id 3, 64 B at 0x40")),
            !scrambled
        );
        let blocks = desk.file("blocks", blocks);
        let items = desk.done(&[&["phy", "decode", &blocks], flag].concat());
        let items: Vec<&str> = items.lines().map(|line| line[8..].trim()).collect();
        let mut sent: Vec<&str> = SCRIPT.lines().filter(|line| !line.starts_with("idle")).collect();
        let mut got = items.clone();
        sent.sort();
        got.sort();
        assert_eq!(got, sent);
    }
}

#[test]
fn damage_is_told_and_bad_input_refused() {
    let desk = Desk::new("phy-bad");
    let blocks = desk.file("blocks", "01 39000001002009b8\n10 0000000000000000\n00 0000000000000000\n");
    let output = desk.unrack(&["phy", "decode", &blocks]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output).matches("damaged: ").count(), 3, "{}", stdout(&output));
    for (text, what) in [
        ("read node=1", "line 1: `read` needs id="),
        ("\nread node=512 id=1 address=0 bytes=1", "line 2: node=512 is above 511"),
        ("red node=1 id=1", "no line begins with `red`; did you mean `read`?"),
        ("write node=1 id=1 address=0 hex=0x", "is no hex"),
        ("idle blocks=1 more=2", "`idle` has no more=; use `blocks`"),
    ] {
        let script = desk.file("script", text);
        let said = desk.refused(2, &["phy", "encode", &script]);
        assert!(said.contains(what), "{said}");
    }
    let said = desk.refused(2, &["phy", "decode", &desk.file("blocks", "12 000000000000001e")]);
    assert!(said.contains("line 1: `12` is no sync header"), "{said}");
    let said =
        desk.refused(2, &["phy", "trace", &desk.file("script", "read from=0 node=2 address=0 bytes=1")]);
    assert!(said.contains("node=2 is above 1"), "{said}");
}

/// §4.2.1: with 9 KB of a frame on every line, 64 B are read in about 300 ns.
#[test]
fn the_picture_of_the_docs_is_what_the_tool_draws() {
    let desk = Desk::new("phy-picture");
    let svg = desk.path("read.svg");
    let said = desk.done(&["phy", "trace", &example("phy-jumbo.txt"), "--wire", "19", "--svg", &svg]);
    let first = said.split("answered with 64 B").nth(1).and_then(|rest| rest.split("cycle ").nth(1)).unwrap();
    let cycles = first.split(',').next().unwrap().parse::<u64>().unwrap() - 100;
    assert!(
        (118..=126).contains(&cycles),
        "{cycles} cycles of 2.56 ns, 42 and 19 for each link without frames"
    );
    let drawn = String::from_utf8(desk.bytes("read.svg")).unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/pictures/phy-read.svg");
    assert_eq!(drawn, std::fs::read_to_string(kept).unwrap(), "draw it again: docs/phy.md says how");
}

#[test]
fn a_trace_shows_every_block_and_can_be_captured() {
    let desk = Desk::new("phy-trace");
    let script = example("phy.txt");
    let (pcap, vcd) = (desk.path("run.pcapng"), desk.path("run.vcd"));
    let said = desk.done(&["phy", "trace", &script, "--pcap", &pcap, "--vcd", &vcd]);
    assert!(said.contains("request 0 answered with 64 B"), "{said}");
    assert!(said.contains("request 2 answered with 1 B 01"), "{said}");
    assert!(said.contains("16 B written at 0x80: first block in cycle 101"), "{said}");
    let waves = String::from_utf8(desk.bytes("run.vcd")).unwrap();
    assert!(waves.contains("$scope module node1_down $end") && waves.contains("s/MST/ "));
    let dissector = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/wireshark/unrack-edm.lua");
    let fields = ["edm.kind", "edm.node", "edm.id", "edm.size", "edm.address", "edm.data", "frame.len"];
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", dissector.display())).args(["-r", &pcap, "-T", "fields"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = match command.output() {
        Ok(output) => output,
        Err(why) => return skip(TestRequirement::Tshark, format!("tshark cannot be run ({why})")),
    };
    let lines = stdout(&output);
    assert!(
        lines.contains("1\t0\t1\t16\t0x0000000000000080\t00112233445566778899aabbccddeeff\t40"),
        "{lines}"
    );
    assert!(lines.lines().any(|line| line.trim() == "1500"), "the frame: {lines}");
}

/// Returns the changes of a VCD: by signal, when it took which value, words as their ASCII codes.
fn changes(vcd: &str) -> BTreeMap<String, Vec<(u64, String)>> {
    let (mut scope, mut names, mut now) = (String::new(), BTreeMap::new(), 0);
    let mut changes: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for line in vcd.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["$scope", _, name, _] => scope = name.into(),
            ["$var", _, _, code, name, ..] => _ = names.insert(code.to_string(), format!("{scope}.{name}")),
            [time] if time.starts_with('#') => now = time[1..].parse().unwrap(),
            // Before the first step there is nothing.
            [value, code] if value.starts_with(['b', 's']) && !value.contains('x') => {
                let digits = match value.strip_prefix('s') {
                    Some(word) => {
                        let digits = word.bytes().map(|byte| format!("{byte:08b}")).collect::<String>();
                        format!("{digits:0<64}")
                    }
                    None => value[1..].to_string(),
                };
                let digits = digits.trim_start_matches('0').to_string();
                changes.entry(names[code].clone()).or_default().push((now, digits));
            }
            _ => {}
        }
    }
    changes
}

/// Both kinds of waveform have the same content, by a converter that is not ours.
#[test]
fn a_signal_trace_has_the_changes_of_the_dump() {
    let desk = Desk::new("phy-waves");
    let (vcd, fst) = (desk.path("run.vcd"), desk.path("run.fst"));
    let run = ["phy", "trace", &example("phy.txt"), "--nodes", "3", "--vcd", &vcd, "--fst", &fst];
    desk.done(&run);
    let dump = String::from_utf8(desk.bytes("run.vcd")).unwrap();
    let trace = desk.bytes("run.fst");
    let end = dump.lines().last().unwrap()[1..].parse::<u64>().unwrap();
    let number = |at: usize| u64::from_be_bytes(trace[at..at + 8].try_into().unwrap());
    assert_eq!((trace[0], number(1)), (0, 329), "the header's block");
    assert_eq!([9, 17, 41, 49, 57].map(number), [0, end, 6, 18, 18], "begin, end, scopes, signals");
    assert!(trace.len() < dump.len() / 2, "{} and {} B", trace.len(), dump.len());
    desk.done(&run);
    assert_eq!(desk.bytes("run.fst"), trace, "the same run, the same file");

    let output = match Command::new("fst2vcd").args(["-f", &fst]).output() {
        Ok(output) => output,
        Err(why) => return skip(TestRequirement::Fst2vcd, format!("fst2vcd cannot be run ({why})")),
    };
    let (dumped, traced) = (changes(&dump), changes(&stdout(&output)));
    assert_eq!(dumped.len(), 18);
    assert!(dumped["node1_down.name"].len() > 10);
    assert_eq!(dumped, traced);
}
