//! `unrack memory bench`: latency and rate of a memory node, by the way in which a client requests pages. DDC (section 5.1) states the gain
//! of each way for its RDMA block device; here each way is measured by itself.

use crate::failure::CommandFailure;
use crate::stdout::print;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};
use unrack_node::{Listen, Options, RunningNode};
use unrack_units::Bytes;
use unrack_wire::{GreetingStatus, HEADER, Header, Hello, PAGE, PageTransport, Verb, WELCOME, Welcome};

/// Pages that the node stores. The benchmark reads them in turn.
const HELD: u32 = 16 * 1024;
/// Time without an answer after which the client gives up.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(super) struct Bench {
    /// Node to measure, at a loopback address; by default, one that this command starts
    #[arg(value_name = "ADDRESS:PORT")]
    node: Option<SocketAddrV4>,
    /// Pages in one batch of requests
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=64))]
    together: u16,
    /// Pages to read in each way
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pages: u64,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Way in which the client requests pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestMode {
    /// One page at a time; the client waits for it.
    Single,
    /// Several requests of one page each; the client waits for all of them.
    Batched,
    /// One request for several successive pages; the client waits for it.
    Merged,
    /// Requests of one page each, several of them always in flight.
    Asynchronous,
    /// Requests of several pages each, two of them always in flight.
    All,
}

impl RequestMode {
    const ALL: [RequestMode; 5] = [
        RequestMode::Single,
        RequestMode::Batched,
        RequestMode::Merged,
        RequestMode::Asynchronous,
        RequestMode::All,
    ];

    fn name(self) -> &'static str {
        match self {
            RequestMode::Single => "single",
            RequestMode::Batched => "batched",
            RequestMode::Merged => "merged",
            RequestMode::Asynchronous => "asynchronous",
            RequestMode::All => "merged-asynchronous",
        }
    }

    /// Returns the number of pages of a request, the maximum number of requests in flight, and the number of requests in flight at which
    /// the client sends new ones.
    fn shape(self, together: u16) -> (u16, usize, usize) {
        match self {
            RequestMode::Single => (1, 1, 0),
            RequestMode::Batched => (1, usize::from(together), 0),
            RequestMode::Merged => (together, 1, 0),
            RequestMode::Asynchronous => (1, usize::from(together), usize::from(together) - 1),
            RequestMode::All => (together, 2, 1),
        }
    }
}

/// Result of `unrack memory bench`.
#[derive(Debug, Serialize)]
struct BenchResult {
    version: &'static str,
    together: u16,
    /// Results of all ways, the simplest way first.
    ways: Vec<WayResult>,
}

/// Result of one way.
#[derive(Debug, Serialize)]
struct WayResult {
    name: &'static str,
    pages: u64,
    seconds: f64,
    /// Bytes of pages received per second.
    bytes_per_s: f64,
    /// Time from a request to its last page, in nanoseconds.
    latency_ns: FetchLatency,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct FetchLatency {
    min: u64,
    mean: f64,
    median: u64,
    p99_5: u64,
    max: u64,
}

/// Runs `unrack memory bench`.
pub(super) fn main(bench: &Bench) -> Result<(), CommandFailure> {
    let own = bench.node.is_none().then(own_node).transpose()?;
    let address = match (&own, bench.node) {
        (_, Some(address)) if !address.ip().is_loopback() => {
            return Err(CommandFailure::Usage(format!(
                "{address} is not a loopback address: this client does not encrypt"
            )));
        }
        (_, Some(address)) => address.to_string(),
        (Some(node), None) => node.address().to_string(),
        (None, None) => unreachable!("a node of its own was started"),
    };
    let mut client =
        Client::connect(&address).map_err(|why| CommandFailure::Failed(format!("{address}: {why}")))?;
    let together = bench.together.min(client.most_pages);
    let measure = |way: RequestMode| client.measure(way, together, bench.pages);
    let ways = RequestMode::ALL.into_iter().map(measure).collect::<Result<Vec<_>, _>>();
    let ways = ways.map_err(|why| CommandFailure::Failed(format!("{address}: {why}")))?;
    let result = BenchResult { version: env!("CARGO_PKG_VERSION"), together, ways };
    match bench.json {
        true => print(&(text_of(&result)? + "\n")),
        false => print(&result.text()),
    }
}

fn text_of(result: &BenchResult) -> Result<String, CommandFailure> {
    serde_json::to_string_pretty(result).map_err(|why| CommandFailure::Failed(why.to_string()))
}

/// Starts a memory node with room for the pages.
fn own_node() -> Result<RunningNode, CommandFailure> {
    let any: SocketAddrV4 = "127.0.0.1:0".parse().expect("an address");
    let room = Bytes::new(4 * u64::from(HELD) * PAGE as u64);
    Ok(RunningNode::start(&Options::new(Listen::Tcp(any.into()), room))?)
}

impl BenchResult {
    fn text(&self) -> String {
        let mut text = format!("pages of {PAGE} B, {} together\n", self.together);
        text.push_str("way                     GB/s  min us    mean  median  99.5 %     max\n");
        for way in &self.ways {
            let FetchLatency { min, mean, median, p99_5, max } = way.latency_ns;
            let us = |ns: u64| ns as f64 / 1e3;
            text.push_str(&format!(
                "{:<20}{:>8.2}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>8.0}\n",
                way.name,
                way.bytes_per_s / 1e9,
                us(min),
                mean / 1e3,
                us(median),
                us(p99_5),
                us(max)
            ));
        }
        text
    }
}

/// Session with a memory node.
struct Client {
    stream: TcpStream,
    most_pages: u16,
    room: Vec<u8>,
}

impl Client {
    /// Opens a session with the node, and stores the pages there.
    fn connect(address: &str) -> Result<Client, String> {
        let stream = TcpStream::connect(address).map_err(said)?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        set.map_err(said)?;
        let mut client = Client { stream, most_pages: 1, room: Vec::new() };
        client.send(&Hello::new(PageTransport::Stream, u64::from(HELD)).encode())?;
        let mut welcome = [0; WELCOME];
        client.stream.read_exact(&mut welcome).map_err(said)?;
        let welcome = Welcome::decode(&welcome).map_err(|why| why.0.to_string())?;
        if welcome.status != GreetingStatus::Welcome {
            return Err(format!("the node refuses: {:?}", welcome.status));
        }
        client.most_pages = welcome.most_pages as u16;
        client.room = vec![0; usize::from(client.most_pages) * PAGE];
        for first in (0..HELD).step_by(usize::from(client.most_pages)) {
            let count = (HELD - first).min(u32::from(client.most_pages)) as u16;
            let mut message = Header::request(Verb::Store, first, count, first).encode().to_vec();
            for id in first..first + u32::from(count) {
                message.extend(std::iter::repeat_n(id.to_le_bytes(), PAGE / 4).flatten());
            }
            client.send(&message)?;
            let stored = client.header()?;
            if stored.detail != u32::from(count) {
                return Err("the node is full".into());
            }
        }
        Ok(client)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(said)
    }

    /// Reads the header of a reply.
    fn header(&mut self) -> Result<Header, String> {
        let mut bytes = [0; HEADER];
        self.stream.read_exact(&mut bytes).map_err(said)?;
        let header = Header::decode(&bytes).map_err(|why| why.0.to_string())?;
        match header.verb {
            Verb::Bye => Err("the node has ended the session".into()),
            _ if header.reply => Ok(header),
            _ => Err("no reply where one belongs".into()),
        }
    }

    /// Reads at least `pages` pages in one way, rounded up to whole requests, and returns the latency and the rate.
    fn measure(&mut self, way: RequestMode, together: u16, pages: u64) -> Result<WayResult, String> {
        let (count, most, least) = way.shape(together);
        let requests = pages.div_ceil(u64::from(count));
        let mut under_way: VecDeque<(u32, Instant)> = VecDeque::new();
        let mut latencies = Vec::with_capacity(requests as usize);
        let (mut sent, begin) = (0, Instant::now());
        while (latencies.len() as u64) < requests {
            if under_way.len() <= least && sent < requests {
                let mut message = Vec::new();
                while under_way.len() < most && sent < requests {
                    let id = place(sent, count);
                    message.extend(Header::request(Verb::Load, id, count, sent as u32).encode());
                    under_way.push_back((id, Instant::now()));
                    sent += 1;
                }
                self.send(&message)?;
            }
            let (id, asked) = under_way.pop_front().expect("requests are under way");
            self.page(id, count)?;
            latencies.push(asked.elapsed().as_nanos() as u64);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let pages = requests * u64::from(count);
        let bytes_per_s = (pages * PAGE as u64) as f64 / seconds;
        Ok(WayResult {
            name: way.name(),
            pages,
            seconds,
            bytes_per_s,
            latency_ns: FetchLatency::new(latencies),
        })
    }

    /// Reads the reply to a request. Fails if it does not have the requested pages.
    fn page(&mut self, id: u32, count: u16) -> Result<(), String> {
        let header = self.header()?;
        if (header.verb, header.id, header.count) != (Verb::Load, id, count) {
            return Err("the reply is to another request".into());
        }
        let room = &mut self.room[..usize::from(count) * PAGE];
        self.stream.read_exact(room).map_err(said)?;
        let is_right = room.chunks(PAGE).zip(id..).all(|(page, id)| page[..4] == id.to_le_bytes());
        is_right.then_some(()).ok_or_else(|| "a page with other contents".into())
    }
}

/// Describes an error of the connection.
fn said(why: io::Error) -> String {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer for {} s: is it a memory node (unrack memory serve)?", PATIENCE.as_secs())
        }
        io::ErrorKind::UnexpectedEof => "the node has closed the connection".into(),
        _ => why.to_string(),
    }
}

/// Returns the first page of a request. Single pages follow each other in a scattered order; requests of several pages are for aligned
/// groups of pages.
fn place(request: u64, count: u16) -> u32 {
    let places = u64::from(HELD / u32::from(count));
    // Multiplication by an odd factor reaches each place exactly once if the number of places is a power of two. Otherwise it spreads the
    // places.
    let place = request.wrapping_mul(0x9e37_79b9) % places;
    place as u32 * u32::from(count)
}

impl FetchLatency {
    /// Returns the summary of at least one latency.
    fn new(mut ns: Vec<u64>) -> FetchLatency {
        ns.sort_unstable();
        let at = |quantile: f64| ns[((ns.len() - 1) as f64 * quantile) as usize];
        let mean = ns.iter().sum::<u64>() as f64 / ns.len() as f64;
        FetchLatency { min: ns[0], mean, median: at(0.5), p99_5: at(0.995), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_reads_each_page_that_it_asks_for() {
        let node = own_node().unwrap();
        let mut client = Client::connect(&node.address().to_string()).unwrap();
        for together in [1, 5, client.most_pages] {
            for way in RequestMode::ALL {
                let found = client.measure(way, together, 1003).unwrap();
                assert!(
                    found.pages >= 1003 && found.pages < 1003 + u64::from(together),
                    "{way:?}: {found:?}"
                );
                let FetchLatency { min, mean, median, p99_5, max } = found.latency_ns;
                assert!(min <= median && median <= p99_5 && p99_5 <= max && mean >= min as f64);
            }
        }
    }

    #[test]
    fn what_is_no_memory_node_is_an_error() {
        for answer in [Vec::new(), vec![0; WELCOME]] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let other = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut hello = Hello::new(PageTransport::Stream, 1).encode();
                stream.read_exact(&mut hello).unwrap();
                stream.write_all(&answer).unwrap();
            });
            let Err(why) = Client::connect(&address) else { panic!("a session with something else") };
            assert!(why.contains("closed") || why.contains("greeting"), "{why}");
            other.join().unwrap();
        }
    }

    #[test]
    fn requests_lie_within_what_the_node_holds() {
        for count in [1, 3, 32, 64] {
            let last = (0..100_000).map(|request| place(request, count) + u32::from(count)).max().unwrap();
            assert!(last <= HELD, "{count}: {last}");
        }
    }
}
