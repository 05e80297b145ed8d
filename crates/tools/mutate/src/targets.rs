//! Targets of mutated inputs: one plain function for each parser and wire format.

use crate::mutation::Grammar;
use std::path::{Path, PathBuf};
use unrack_phy::Block;
use unrack_phy::edm::{Assembler, Demux, MuxPolicy, layout};
use unrack_phy::mac::{Deframer, Framer};
use unrack_phy::pcs::{BlockDecoder, BlockSync, Encoder};
use unrack_phy::text::listing;
use unrack_phy::text::script::{self, Item};
use unrack_rack::{Overrides, Scenario, ScenarioError};
use unrack_record::temporary::TemporaryFolder;
use unrack_sim::{Need, Setup, Work};
use unrack_units::Time;

/// A parser or wire format, in the form in which campaigns and fuzzers call it.
#[derive(Debug)]
pub struct FuzzTarget {
    pub name: &'static str,
    pub grammar: Grammar,
    /// Reads an input. It must return, without a panic, for any input.
    pub read: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "scenario", grammar: Grammar::Toml, read: scenario },
    FuzzTarget { name: "study", grammar: Grammar::Toml, read: study },
    FuzzTarget { name: "costs", grammar: Grammar::Lines, read: costs },
    FuzzTarget { name: "cables", grammar: Grammar::Lines, read: cables },
    FuzzTarget { name: "list", grammar: Grammar::Lines, read: list },
    FuzzTarget { name: "cdf", grammar: Grammar::Toml, read: cdf },
    FuzzTarget { name: "tables", grammar: Grammar::Bytes, read: tables },
    FuzzTarget { name: "folder", grammar: Grammar::Lines, read: folder },
    FuzzTarget { name: "script", grammar: Grammar::Lines, read: script },
    FuzzTarget { name: "listing", grammar: Grammar::Lines, read: listing },
    FuzzTarget { name: "blocks", grammar: Grammar::Bytes, read: blocks },
    FuzzTarget { name: "quantities", grammar: Grammar::Lines, read: quantities },
    FuzzTarget { name: "r2c2", grammar: Grammar::Bytes, read: r2c2 },
    FuzzTarget { name: "node", grammar: Grammar::Bytes, read: node },
    FuzzTarget { name: "rpc", grammar: Grammar::Bytes, read: rpc },
    FuzzTarget { name: "pool", grammar: Grammar::Bytes, read: pool },
    FuzzTarget { name: "sockets", grammar: Grammar::Bytes, read: sockets },
];

/// Longest permitted line of an error text, in characters: a path, four lines of a message, and an introduction.
const MOST_LINE: usize = 800;
/// Largest memory of a scenario that is run, in bytes. Larger scenarios are only checked, because a smaller machine would refuse them.
const MOST_BYTES: f64 = 40e6;
/// Maximum number of lines of text that are read.
const MOST_LINES: usize = 2000;

/// Asserts that an error text is not empty and that its lines are not too long for a terminal.
fn explained(why: impl std::fmt::Display) {
    let why = why.to_string();
    let longest = why.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest <= MOST_LINE, "a line of {longest} characters");
    assert!(!why.is_empty(), "no reason is given");
}

/// Parses a scenario, and runs it until its first event would happen.
pub fn scenario(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    prepared(text).unwrap_or_else(explained);
}

fn prepared(text: &str) -> Result<(), ScenarioError> {
    let mut scenario = unrack_sim::check(Scenario::parse("mutated.toml", text, &Overrides::none())?)?;
    scenario.explain();
    if Need::from_scenario(&scenario).bytes() > MOST_BYTES {
        return Ok(());
    }
    let setup = Setup::from_scenario(&mut scenario)?;
    let Some(work) = Work::drawn(&scenario)? else { return Ok(()) };
    let over = Setup { time_limit: Time::ZERO, ..setup };
    over.run(&work, |_| {}).map(drop).map_err(|why| why.in_scenario(&scenario))
}

/// Parses the file of a study.
pub fn study(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = unrack_study::Study::parse("mutated", text);
}

/// Parses measured costs.
pub fn costs(input: &[u8]) {
    let read = unrack_study::costs::MeasuredCosts::parse(&String::from_utf8_lossy(input));
    let _ = read.map(|costs| costs.words()).map_err(explained);
}

/// Parses a list of cables.
pub fn cables(input: &[u8]) {
    let read = unrack_rack::graph::list::ListedGraph::read(&String::from_utf8_lossy(input));
    let _ = read.map_err(|why| explained(clip(&why.to_string())));
}

/// Clips an error text, as is done for a scenario that names a list.
fn clip(text: &str) -> String {
    text.chars().take(MOST_LINE).collect()
}

/// Parses a list of messages.
pub fn list(input: &[u8]) {
    use unrack_workload::{ListedMessages, listed::parse_csv};
    let read =
        parse_csv(&String::from_utf8_lossy(input)).and_then(|rows| ListedMessages::new(rows.into(), 4));
    let _ = read.map_err(explained);
}

/// Parses a distribution of sizes, in the way in which a scenario names it.
pub fn cdf(input: &[u8]) {
    let path = scratch("cdf.toml");
    if std::fs::write(&path, input).is_err() {
        return;
    }
    let text = format!(
        "network = {{ topology = {{ kind = \"star\", nodes = 4 }} }}\nfabric = {{ protocol = \"ideal\" }}\n\
         workload = {{ kind = \"flows\", load = 0.5, messages = 3, size = {{ cdf_file = {path:?} }} }}\n"
    );
    prepared(&text).unwrap_or_else(explained);
}

/// Reads a table as each of the known kinds.
pub fn tables(input: &[u8]) {
    let path = scratch("table.parquet");
    if std::fs::write(&path, input).is_err() {
        return;
    }
    let _ = unrack_record::rows_of(&path).map_err(explained);
    let _ = unrack_record::trace::read(&path).map_err(explained);
    let _ = unrack_record::completions::read(&path).map_err(explained);
    let _ = unrack_record::messages::read(&path).map_err(explained);
    let _ = unrack_record::ports::read(&path).map_err(explained);
}

/// Reads run folders in which this input is the summary, the map or the manifest.
pub fn folder(input: &[u8]) {
    for (folder, name) in
        [("simulated", "summary.json"), ("mapped", "map.json"), ("described", "manifest.json")]
    {
        let folder = scratch(folder);
        let written =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(name), input));
        if written.is_ok() {
            let _ = unrack_report::RecordedRun::read(&folder).map_err(explained);
        }
    }
}

/// Parses the lines of a script, and converts them into blocks.
pub fn script(input: &[u8]) {
    blocks_of(&String::from_utf8_lossy(input));
}

/// Returns the blocks for the valid lines of a script.
pub fn blocks_of(text: &str) -> Vec<Block> {
    let (mut framer, mut encoder) = (Framer::default(), Encoder::default());
    let (mut blocks, mut columns) = (Vec::new(), Vec::new());
    for item in text.lines().take(MOST_LINES).filter_map(|line| script::parse(line).ok().flatten()) {
        match item {
            Item::Frame(contents) => framer.frame(&contents, &mut columns),
            Item::Idle(count) => framer.idle(count.min(1 << 10), &mut columns),
            Item::Message(message) => message.blocks(&mut blocks),
            Item::Notification(control) => blocks.push(control.block(layout::N)),
            Item::Grant(control) => blocks.push(control.block(layout::G)),
        }
        blocks.extend(columns.drain(..).map(|column| encoder.encode(column)));
    }
    blocks
}

/// Parses a list of blocks, and receives the blocks.
pub fn listing(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let blocks = text.lines().take(MOST_LINES).filter_map(|line| listing::parse(line).ok().flatten());
    received(blocks.inspect(|block| drop(listing::line(0, *block))));
}

/// Receives the bits of a line: block lock, descrambling, and the messages and frames in the blocks.
pub fn blocks(input: &[u8]) {
    let mut sync = BlockSync::new();
    let mut blocks = Vec::new();
    input.iter().for_each(|byte| sync.handle_byte(*byte, |block| blocks.push(block)));
    received(blocks.into_iter());
}

fn received(blocks: impl Iterator<Item = Block>) {
    let (mut demux, mut assembler) = (Demux::new(MuxPolicy::Fair), Assembler::default());
    let (mut decoder, mut deframer) = (BlockDecoder::default(), Deframer::default());
    for block in blocks.chain([Block::IDLE; 8]) {
        let received = demux.tick(block);
        if let Some(unrack_phy::edm::demux::MemoryBlock::Block(block)) = received.memory {
            let _ = assembler.handle(block);
        }
        let _ = deframer.handle(decoder.decode(received.to_decoder));
    }
}

/// Parses quantities with units, and asserts that each survives formatting and parsing again.
pub fn quantities(input: &[u8]) {
    use unrack_units::{Bytes, Fraction, Rate, Share};
    for word in String::from_utf8_lossy(input).split_whitespace() {
        if let Ok(time) = word.parse::<Time>() {
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        if let Ok(bytes) = word.parse::<Bytes>() {
            assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }
        if let Ok(rate) = word.parse::<Rate>() {
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        let _ = (word.parse::<Fraction>(), word.parse::<Share>());
    }
}

/// Decodes packets of R2C2, bare and in a tunnel, each twice: as it is, and with a corrected checksum. Without the correction, few damaged
/// packets would reach the code behind the checksum test.
pub fn r2c2(input: &[u8]) {
    let bare = unrack_protocol::r2c2::tunnel::Tunnel::decode(input).map(|(_, packet)| packet);
    for packet in [Some(input), bare.ok()].into_iter().flatten() {
        let mut repaired = packet.to_vec();
        unrack_protocol::r2c2::packet::repair(&mut repaired);
        r2c2_packet(packet);
        r2c2_packet(&repaired);
    }
}

fn r2c2_packet(packet: &[u8]) {
    use unrack_protocol::r2c2::packet::{Announcement, Assignment, Broadcast, Data, Hello, Kind};
    if let Ok((data, payload)) = Data::decode(packet) {
        assert_eq!(usize::from(data.plen), payload.len());
    }
    let mut forwarded = packet.to_vec();
    let _ = (Data::forward(&mut forwarded), Data::next_port(packet), Kind::from_packet(packet));
    if let Ok(broadcast) = Broadcast::decode(packet) {
        assert_eq!(broadcast.encode(), packet);
    }
    let _ = Hello::decode(packet).map(Iterator::count);
    let _ = Announcement::decode(packet).map(|(_, pairs)| pairs.count());
    let _ = Assignment::decode(packet).map(Iterator::count);
}

/// Decodes messages of the memory node protocol.
pub fn node(input: &[u8]) {
    use unrack_wire::{Header, Hello, Welcome};
    if let Some(Ok(header)) = input.first_chunk().map(Header::decode) {
        let _ = header.check_request();
        assert_eq!(Some(&header.encode()), input.first_chunk());
    }
    let _ = input.first_chunk().map(Hello::decode);
    let _ = input.first_chunk().map(Welcome::decode);
}

/// Decodes frames of calls over TCP, and entries of queues.
pub fn rpc(input: &[u8]) {
    use unrack_rpc::queue::entry::{Answer, Request};
    use unrack_rpc::tcp::hello::{Hello, Welcome};
    use unrack_rpc::tcp::{Notice, from_bytes};
    let _ = input.first_chunk().map(Hello::from_bytes);
    let _ = input.first_chunk().map(Welcome::from_bytes);
    if let Some(bytes) = input.first_chunk::<24>() {
        let entries = from_bytes(*bytes);
        let _ = (Request::from_entries(entries), Notice::from_entries(entries), Request::slot_of(entries));
    }
    if let Some(bytes) = input.first_chunk::<16>() {
        let _ = Answer::from_entries(from_bytes(*bytes));
    }
}

/// Decodes messages between a pool's manager and its clients.
pub fn pool(input: &[u8]) {
    use unrack_pool::wire::{Ask, Hello, ListingEntry, Tell, Welcome, decode, encode, read_first};
    let _ = (read_first::<Hello>(input), read_first::<Welcome>(input));
    if let Ok(ask) = decode::<Ask>(input) {
        assert_eq!(decode(&encode(&ask)), Ok(ask));
    }
    let _ = (decode::<Tell>(input), decode::<ListingEntry>(input));
}

/// Decodes messages between a program and the broker of its sockets.
pub fn sockets(input: &[u8]) {
    use unrack_socket::wire::{Reply, Request};
    if let Some(request) = Request::decode(input) {
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    if let Some(reply) = Reply::decode(input) {
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
    }
}

/// Returns a path in a temporary folder of this thread, which is in memory if possible.
pub fn scratch(name: &str) -> PathBuf {
    thread_local! {
        static FOLDER: TemporaryFolder = TemporaryFolder::within(Path::new("/dev/shm"))
            .or_else(|_| TemporaryFolder::within(&std::env::temp_dir()))
            .expect("a folder can be made in /dev/shm or TMPDIR");
    }
    FOLDER.with(|folder| folder.path(name))
}
