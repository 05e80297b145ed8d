//! Valid inputs, from which damaged ones are made: files of the repository, and inputs that are generated here.

use crate::mutation::{Grammar, words_of};
use crate::targets::{FuzzTarget, scratch};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use unrack_phy::pcs::Line;
use unrack_phy::text::listing;
use unrack_pool::wire as pool;
use unrack_protocol::r2c2::packet::{Data, Route};
use unrack_record::{completions, messages, ports, trace};

/// Valid inputs of a target, and the words that they contain.
#[derive(Debug, Default)]
pub struct Corpus {
    pub inputs: Vec<Vec<u8>>,
    pub words: Vec<String>,
}

/// Returns valid inputs for `target`.
pub fn corpus(target: &FuzzTarget) -> Corpus {
    let inputs = match target.name {
        "scenario" => files("examples", "toml"),
        "study" => ["edm", "ddc", "drack", "r2c2"].map(|of| files(&format!("studies/{of}"), "toml")).concat(),
        "costs" => vec![COSTS.as_bytes().to_vec()],
        "cables" => vec![read("examples/cables.txt"), b"0 1\n1 2 40Gbps\n2 0 10Gbps 300ns # last\n".to_vec()],
        "list" => {
            vec![b"src,dst,bytes,start_ns,kind\n0,1,64,0,read\n1,2,4096,10,flow\n2,0,1,20,rmw\n".to_vec()]
        }
        "cdf" => vec![b"points = [[1, 0.0], [100, 0.5], [4096.5, 0.9], [1e6, 1.0]]\n".to_vec()],
        "tables" => tables(),
        "folder" => folders(),
        "script" => {
            vec![read("examples/phy.txt"), read("examples/phy-jumbo.txt"), SCRIPT.as_bytes().to_vec()]
        }
        "listing" => vec![listed().into_bytes()],
        "blocks" => vec![line(), vec![0xff; 200]],
        "quantities" => vec![b"10ns 4KiB 100Gbps 25% 0.25 64MiB 299.52ns 1.5GiB 3us 36kB 2.56ns\n".to_vec()],
        "r2c2" => packets(),
        "node" => node(),
        "rpc" => rpc(),
        "sockets" => sockets(),
        _ => pool_messages(),
    };
    let texts = inputs.iter().filter(|_| target.grammar != Grammar::Bytes);
    let words: BTreeSet<String> = texts.flat_map(|input| words_of(&String::from_utf8_lossy(input))).collect();
    Corpus { inputs, words: words.into_iter().collect() }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(root().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Returns the contents of the files with this extension in a folder, sorted by name.
fn files(folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|why| panic!("{folder}: {why}"));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths.iter().flat_map(std::fs::read).collect()
}

const COSTS: &str = r#"{"machine": "a test", "by_value_ns": {"64": 8000.0, "1024": 10000.0},
    "by_reference_ns": {"64": 300.0, "1024": 500.0}, "copy_bytes_per_s": 10e9}"#;

const SCRIPT: &str = "frame hex=0180c200\nframe bytes=64\nidle blocks=4\nread node=1 id=2 address=0x40 bytes=64\n\
    write node=1 id=2 address=0x40 hex=0011\ncas node=1 id=2 address=8 expected=0 new=1\n\
    response node=1 id=2 hex=0011\nnotify node=1 id=2 bytes=64\ngrant node=1 id=2 bytes=64 of=write\n";

/// Returns the blocks of [`SCRIPT`] as a listing.
fn listed() -> String {
    let blocks = crate::targets::blocks_of(SCRIPT);
    (0..).zip(blocks).map(|(cycle, block)| listing::line(cycle, block) + "\n").collect()
}

/// Returns the blocks of [`SCRIPT`] as the bits on a line.
fn line() -> Vec<u8> {
    let (mut line, mut bytes) = (Line::default(), Vec::new());
    // Starts with idle blocks, because a receiver locks only after 64 valid headers.
    let idle = std::iter::repeat_n(unrack_phy::Block::IDLE, 80);
    idle.chain(crate::targets::blocks_of(SCRIPT)).for_each(|block| line.send(block, &mut bytes));
    line.finish(&mut bytes);
    bytes
}

/// Returns one small table of each kind.
fn tables() -> Vec<Vec<u8>> {
    let path = scratch("corpus.parquet");
    let mut all = Vec::new();
    let mut keep = || all.push(std::fs::read(&path).expect("it was just written"));
    let mut writer = trace::Writer::create(&path).expect("a temporary file");
    for n in 0..50 {
        let kind = if n % 3 == 0 { trace::Kind::WriteBack } else { trace::Kind::Fetch };
        let wait_ns = if n % 3 == 0 { 0 } else { 100 + n };
        let row = trace::Row {
            t_ns: n * 1000,
            thread: n as u32 % 2,
            page: n * 7,
            kind,
            bytes: 4096,
            wait_ns,
            overhead_ns: n,
        };
        writer.push(row).expect("a good row");
    }
    let meta = trace::Meta {
        program: "a".into(),
        command_line: vec!["a".into(), "b".into()],
        page_size: 4096,
        local_bytes: 1 << 20,
        footprint_bytes: 4 << 20,
        run_ns: 100_000,
        native_ns: Some(50_000),
    };
    writer.finish(&meta).expect("a temporary file");
    keep();
    let mut writer = completions::Writer::create(&path).expect("a temporary file");
    for n in 0..50 {
        let row = completions::Row {
            kind: completions::Kind::Fetch,
            bytes: 4096,
            completion_ps: 3000 + n,
            ideal_ps: 1000,
        };
        writer.push(row).expect("a good row");
    }
    let meta = completions::Meta { fabric: "edm".into(), link_rate_bps: 100_000_000_000 };
    writer.finish(&meta).expect("a temporary file");
    keep();
    let mut writer = messages::Writer::create(&path).expect("a temporary file");
    for id in 0..50 {
        let row = messages::Row {
            id,
            src: id as u32 % 4,
            dst: 5,
            kind: messages::Kind::ALL[id as usize % 4],
            bytes: 64,
            submitted_ps: id * 1000,
            completed_ps: (id % 5 > 0).then_some(id * 1000 + 500),
            unloaded_ps: 400,
            ideal_ps: 300,
            slowdown: 1.25,
            retransmissions: 0,
            drops: 1,
            trims: 2,
        };
        writer.push(row).expect("a good row");
    }
    writer.finish(&messages::Meta { fabric: "edm".into() }).expect("a temporary file");
    keep();
    let mut writer = ports::Writer::create(&path).expect("a temporary file");
    for n in 0..50 {
        let row = ports::Row {
            from_ps: n * 100,
            kind: ports::Kind::Port,
            number: 3,
            busy_ps: 50,
            utilization: 0.5,
            packets: 1,
            wire_bytes: 84,
            payload_bytes: 64,
            queue_mean_bytes: 0.0,
            queue_max_bytes: 64,
        };
        writer.push(row).expect("a good row");
    }
    writer.finish(&ports::Meta { fabric: "edm".into(), interval_ps: 100 }).expect("a temporary file");
    keep();
    all
}

/// Returns results in the form of the JSON files of run folders, reduced to the parts that a page reads first.
fn folders() -> Vec<Vec<u8>> {
    let stats = r#"{"count":9,"mean":1.5,"p50":1.1,"p95":2.0,"p99":2.5,"p999":3.0,"max":3.5}"#;
    let simulation = format!(
        r#"{{"fabric":"edm","nodes":8,"messages":9,"completed":9,"dropped":0,"unfinished":null,
        "excluded":{{"warm_up":0,"cool_down":0}},"slowdown":{stats},"completion_ns":{stats},
        "by_kind":{{"read":{{"messages":9,"slowdown":{stats},"completion_ns":{stats}}}}},"throughput_gbps":1.5,
        "queue_bytes":{{"mean":0.0,"p99":0,"max":0}},"program":null,"sim_time_ns":10.0,"wall_s":1.0,"events":9,
        "packet_hops":9,"packet_hops_per_s":9.0,"seed":1,"version":"0.1.0"}}"#
    );
    let map = r#"{"version":"0.1.0","program":"a","latencies_ns":[1.0,2.0],"bandwidths_bps":[1000],
        "locals":[{"local":"25%","local_bytes":1048576,"slowdown":[[1.1],[1.2]]}]}"#;
    vec![
        simulation.into_bytes(),
        map.as_bytes().to_vec(),
        br#"{"injection":{"fabric":"edm"},"fabrics":[]}"#.to_vec(),
    ]
}

fn packets() -> Vec<Vec<u8>> {
    let mut route = Route::default();
    [1, 0, 3, 2].into_iter().for_each(|port| route.push(port));
    let data = Data { kind: Default::default(), flow: 7, src: 1, dst: 2, seq: 9, plen: 64, route, ridx: 0 };
    let mut packet = vec![0; 256];
    let length = data.encode(&[5; 64], &mut packet).expect("there is room");
    packet.truncate(length);
    let broadcast = vec![0x21, 1, 0, 1, 0, 2, 0, 7, 1, 0, 0, 0, 4, 0, 0, 0];
    let mut hello = Vec::new();
    unrack_protocol::r2c2::packet::Hello::encode(&[], &mut hello);
    let tunnel = unrack_protocol::r2c2::tunnel::Tunnel { rack: 5, link: 6 };
    let tunnelled = [&tunnel.encode()[..], &packet].concat();
    vec![packet, broadcast, hello, tunnelled]
}

fn node() -> Vec<Vec<u8>> {
    use unrack_wire::{EndReason, Header, Hello, PageTransport, Verb};
    let requests = [Verb::Store, Verb::Load, Verb::Forget, Verb::Grant]
        .map(|verb| Header::request(verb, 3, 2, 1).encode().to_vec());
    let hello = Hello::new(PageTransport::Stream, 100).encode().to_vec();
    requests.into_iter().chain([Header::bye(EndReason::NotHeld).encode().to_vec(), hello]).collect()
}

fn rpc() -> Vec<Vec<u8>> {
    use unrack_rpc::queue::entry::{Kind, Request};
    use unrack_rpc::tcp::{REQUEST_BYTES, hello, to_bytes};
    let session = [9; 16];
    let hello = hello::Hello { version: 1, lines: 16, patience_ms: 500, session, service: "kv".into() };
    let request = Request {
        kind: Kind::Call,
        connection: 1,
        slot: 2,
        generation: 3,
        offset: 64,
        method: 5,
        length: 6,
        capacity: 7,
    };
    vec![hello.to_bytes(), to_bytes::<_, REQUEST_BYTES>(request.entries()).to_vec()]
}

fn sockets() -> Vec<Vec<u8>> {
    use unrack_socket::wire::{Connection, Reply, Request};
    let asked = [(0, 0, false), (4711, 4712, false), (4711, 4712, true)];
    let asked = asked.map(|(own, peer, again)| Request::Area(Connection { own, peer, again }));
    let requests = asked.into_iter().chain([Request::Name, Request::Wakeup(9)]);
    let requests: Vec<Vec<u8>> = requests.map(|request| request.encode().to_vec()).collect();
    let replies = [Reply::Area(1), Reply::NotYet, Reply::Never].map(|reply| reply.encode().to_vec());
    requests.into_iter().chain(replies).collect()
}

fn pool_messages() -> Vec<Vec<u8>> {
    let ask = |request| pool::encode(&pool::Ask { number: 7, request });
    vec![
        pool::first(&pool::Hello { name: "a".into(), again: Some(pool::ClientId(5)) }),
        ask(pool::Request::Lease { sections: 3 }),
        ask(pool::Request::Register { service: "kv".into() }),
        ask(pool::Request::Open { service: "kv".into(), greeting: vec![1, 2, 3], wakeup: 4 }),
        ask(pool::Request::Close { channel: pool::ChannelId(9) }),
    ]
}
