//! Sharded key-value store with clients in a closed loop. Each connection of a client has one open request, as in
//! memtier_benchmark with a pipeline of 1. A server has a single thread, which processes requests in turn, as in Redis.
//!
//! For each request, a server loads the request, a line of its key table, and all lines of an entry that it returns. A
//! client loads the answer.

use super::tasks::{Builder, Tasks};
use crate::error::WorkloadError;
use crate::random::{DrawPurpose, Generator, drawn, generator, scale, unit};
use crate::source::TaskLoads;
use rand_distr::{Distribution, Normal, Zipf};
use std::sync::Arc;
use unrack_basis::mix;
use unrack_rack::jobs::{KeyPattern, KeyValue, Sharding};

/// Bytes of a key, which consists of `memtier-` and eight digits.
const KEY_BYTES: u64 = 16;
/// Bytes of a cache line of the processor.
const LINE_BYTES: u64 = 64;
/// Bytes of a GET request in RESP, the protocol of Redis: `*2 $3 GET $16 key`, each with its end of line.
const GET_BYTES: u64 = 4 + 4 + 5 + 5 + KEY_BYTES + 2;
/// Bytes of the answer to a SET request in RESP: `+OK`, with its end of line.
const DONE_BYTES: u64 = 5;

/// Returns the bytes of a value in RESP, including the length before it: `$length value`.
fn value_bytes(value: u64) -> u64 {
    1 + u64::from(value.ilog10() + 1) + 2 + value + 2
}

/// Maximum number of connections. It is equal to the maximum number of requests that may be drawn.
const MOST_CONNECTIONS: u32 = 1 << 28;

/// Returns one round that contains the requests of all connections.
///
/// # Errors
/// If there is no server or no client, or there are too many connections.
pub fn key_value(spec: &KeyValue, ranks: u32, seed: u64) -> Result<Vec<Arc<Tasks>>, WorkloadError> {
    if !(1..ranks).contains(&spec.servers) {
        let rule = "is at least 1, and leaves a host that asks";
        return Err(WorkloadError::new("servers", rule, format!("{} of {ranks}", spec.servers)));
    }
    let clients = ranks - spec.servers;
    let connections = clients.checked_mul(spec.connections).filter(|all| *all <= MOST_CONNECTIONS);
    let Some(connections) = connections else {
        let rule = "makes at most 268435456 connections in all";
        let value = format!("{} of each of {clients} clients", spec.connections);
        return Err(WorkloadError::new("connections", rule, value));
    };
    let entry = KEY_BYTES + spec.value.get();
    // Each entry also has one line in the key table.
    let among = u64::from(spec.keys / spec.servers) * (LINE_BYTES + entry.next_multiple_of(LINE_BYTES));
    let mut builder = Builder::new();
    for connection in 0..connections {
        let share =
            |until: u32| (u64::from(spec.requests) * u64::from(until) / u64::from(connections)) as u32;
        let client = spec.servers + connection % clients;
        let mut draws = RequestDraw::new(spec, seed, connection);
        let mut last = builder.task(client, unrack_units::Time::ZERO);
        for _ in share(connection)..share(connection + 1) {
            let (server, asked, answered) = draws.next();
            let serves = builder.task(server, spec.service);
            builder.send(last, serves, asked);
            let given = if answered > DONE_BYTES { entry.div_ceil(LINE_BYTES) } else { 0 };
            builder.loads(
                serves,
                TaskLoads { came: asked, scattered: 1 + given, among, ..TaskLoads::default() },
            );
            let ends = builder.task(client, unrack_units::Time::ZERO);
            builder.send(serves, ends, answered);
            builder.loads(ends, TaskLoads { came: answered, ..TaskLoads::default() });
            builder.request(last, ends);
            last = ends;
        }
    }
    Ok(vec![Arc::new(builder.finish())])
}

/// Generator that draws the requests of one connection.
struct RequestDraw<'a> {
    spec: &'a KeyValue,
    keys: Generator,
    kinds: Generator,
}

impl RequestDraw<'_> {
    fn new(spec: &KeyValue, seed: u64, connection: u32) -> RequestDraw<'_> {
        let of = |purpose| generator(seed, purpose, connection);
        RequestDraw { spec, keys: of(DrawPurpose::Keys), kinds: of(DrawPurpose::Kinds) }
    }

    /// Draws the next request. Returns the server that stores its key, the bytes of the request, and the bytes of the
    /// answer.
    fn next(&mut self) -> (u32, u64, u64) {
        let key = self.key();
        let value = value_bytes(self.spec.value.get());
        let is_set = unit(&mut self.kinds) * (f64::from(self.spec.gets_per_set) + 1.0) < 1.0;
        let (asked, answered) = if is_set { (GET_BYTES + value, DONE_BYTES) } else { (GET_BYTES, value) };
        (shard(self.spec, key), asked, answered)
    }

    fn key(&mut self) -> u32 {
        let keys = f64::from(self.spec.keys);
        match self.spec.pattern {
            KeyPattern::Uniform => (unit(&mut self.keys) * keys) as u32,
            KeyPattern::Zipf => {
                let zipf =
                    Zipf::new(keys, self.spec.exponent).expect("checked: at least a key, no less than 0");
                drawn(zipf.sample(&mut self.keys), self.spec.keys)
            }
            KeyPattern::Gaussian => {
                let normal = Normal::new(keys / 2.0, keys / 6.0).expect("a positive deviation");
                loop {
                    let key = normal.sample(&mut self.keys);
                    if (0.0..keys).contains(&key) {
                        return key as u32;
                    }
                }
            }
        }
    }
}

/// Returns the number of the server that stores a key.
fn shard(spec: &KeyValue, key: u32) -> u32 {
    match spec.sharding {
        Sharding::Range => (u64::from(key) * u64::from(spec.servers) / u64::from(spec.keys)) as u32,
        Sharding::Hash => scale((mix(key.into()) >> 32) as u32, spec.servers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_units::{Bytes, Time};

    fn spec(pattern: KeyPattern, sharding: Sharding) -> KeyValue {
        KeyValue {
            servers: 6,
            requests: 20_000,
            connections: 50,
            keys: 1_000_000,
            pattern,
            exponent: 0.99,
            sharding,
            value: Bytes::new(100),
            gets_per_set: 10,
            service: Time::from_us(5),
        }
    }

    /// Returns the share of all requests that each server receives.
    fn asked(spec: &KeyValue) -> Vec<f64> {
        let tasks = &key_value(spec, 8, 3).unwrap()[0];
        let mut asked = [0.0; 8];
        tasks.messages().filter(|(_, to, _)| *to < 6).for_each(|(_, to, _)| asked[to as usize] += 1.0);
        assert_eq!(asked.iter().sum::<f64>(), 20_000.0);
        asked.iter().take(6).map(|asked| asked / 20_000.0).collect()
    }

    fn near(found: &[f64], expected: [f64; 6]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01), "{found:?}");
    }

    #[test]
    fn servers_are_asked_as_keys_are_spread() {
        near(&asked(&spec(KeyPattern::Uniform, Sharding::Range)), [1.0 / 6.0; 6]);
        near(&asked(&spec(KeyPattern::Gaussian, Sharding::Hash)), [1.0 / 6.0; 6]);
        // Each server's range of keys is one standard deviation wide. Within three standard deviations of the mean, the
        // ranges have 2.1, 13.6 and 34.2 % of the requests.
        let bell = [0.0215, 0.1363, 0.3422, 0.3422, 0.1363, 0.0215];
        near(&asked(&spec(KeyPattern::Gaussian, Sharding::Range)), bell);
        let zipf = asked(&spec(KeyPattern::Zipf, Sharding::Range));
        assert!(zipf[0] > 0.8 && zipf.windows(2).all(|two| two[0] > two[1]), "{zipf:?}");
    }

    #[test]
    fn gets_and_sets_have_the_bytes_of_their_protocol() {
        let tasks = &key_value(&spec(KeyPattern::Uniform, Sharding::Hash), 8, 3).unwrap()[0];
        let count = |bytes: u64| tasks.messages().filter(|message| message.2 == bytes).count() as f64;
        // An answer is `$100`, 100 bytes, and the ends of both lines.
        let (gets, sets) = (count(36), count(36 + 108));
        assert_eq!((gets + sets, count(108), count(5)), (20_000.0, gets, sets));
        assert!((9.0..11.0).contains(&(gets / sets)), "{}", gets / sets);
    }

    #[test]
    fn somebody_must_ask() {
        assert!(key_value(&KeyValue { servers: 8, ..spec(KeyPattern::Zipf, Sharding::Hash) }, 8, 1).is_err());
    }
}
