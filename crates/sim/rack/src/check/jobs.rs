//! Checks the jobs of a mix. Limits that depend on placement and on numbers of ranks are checked where the messages are
//! created.

use super::Checker;
use crate::workload::jobs::{Embedding, Experts, JobSpec, Jobs, KeyValue, Kronecker, Training, WordCount};
use crate::workload::{Collective, Operation};
use std::collections::BTreeSet;
use unrack_units::{Bytes, Time};

/// Longest time, because a longer one is probably a mistaken unit.
const LONGEST: Time = Time::from_us(3_600_000_000);
/// Largest scale of a graph, because 2^24 vertices already take some gigabytes.
const LARGEST_SCALE: u32 = 24;
/// Largest number of words or keys, because each of them is drawn before the run.
const MOST_DRAWS: u64 = 1 << 28;
const MOST_JOBS: usize = 4096;
const MOST_SLOTS: u32 = 1024;
const MOST_RATE: u64 = 1 << 50;

impl Checker<'_> {
    pub(super) fn check_jobs(&mut self, jobs: &Jobs, nodes: u32) {
        self.within("workload.slots", jobs.slots, 1, MOST_SLOTS);
        self.within("workload.jobs", jobs.jobs.len(), 1, MOST_JOBS);
        let mut names = BTreeSet::new();
        for (n, job) in jobs.jobs.iter().enumerate() {
            if let Some(name) = job.name.as_ref().filter(|name| !names.insert(*name)) {
                let message = format!("two jobs have the name `{}`", name.escape_debug());
                self.complain(&format!("workload.jobs.{n}.name"), message);
            }
            self.check_job(&format!("workload.jobs.{n}"), job, nodes, jobs.slots);
        }
    }

    fn check_job(&mut self, path: &str, job: &JobSpec, nodes: u32, slots: u32) {
        if job.name.as_ref().is_some_and(|name| name.is_empty() || name.contains(['.', '/'])) {
            self.complain(&format!("{path}.name"), "expected a word without `.` and `/`");
        }
        self.within(&format!("{path}.start"), job.start, Time::ZERO, LONGEST);
        if let Some(hosts) = job.hosts {
            self.check_hosts(path, hosts, nodes, slots);
        }
        if let Some(on) = &job.on {
            if on.len() < 2 || job.hosts.is_some_and(|hosts| hosts as usize != on.len()) {
                self.complain(&format!("{path}.on"), "expected a node for each of its hosts, at least 2");
            }
            if let Some(node) = on.iter().find(|node| **node >= nodes) {
                self.complain(
                    &format!("{path}.on"),
                    format!(
                        "there is no node {node}: the network has {nodes}, \
                numbered from 0"
                    ),
                );
            }
        }
        match job.applications().as_slice() {
            [_] => {}
            [] => self.complain(
                path,
                "expected one application, such as pagerank = { scale = 16 }, training, key_value, word_count, embedding, experts",
            ),
            several => self.complain(path, format!("expected one application, found {}", several.join(" and "))),
        }
        let of = |application: &str| format!("{path}.{application}");
        if let Some(pagerank) = job.pagerank {
            self.check_graph(&of("pagerank"), &pagerank.graph());
            self.within(&of("pagerank.iterations"), pagerank.iterations, 1, 1 << 16);
            // Each batch has at least one edge for each vertex.
            self.within(&of("pagerank.batches"), pagerank.batches, 1, pagerank.degree.max(1));
        }
        if let Some(components) = job.components {
            self.check_graph(&of("components"), &components.graph());
        }
        if let Some(training) = &job.training {
            self.check_training(&of("training"), training);
        }
        if let Some(key_value) = &job.key_value {
            self.check_key_value(&of("key_value"), key_value);
        }
        if let Some(word_count) = &job.word_count {
            self.check_word_count(&of("word_count"), word_count);
        }
        if let Some(embedding) = &job.embedding {
            self.check_embedding(&of("embedding"), embedding);
        }
        if let Some(experts) = &job.experts {
            self.check_experts(&of("experts"), experts);
        }
        if let Some(collective) = &job.collective {
            self.check_collective(&of("collective"), collective);
        }
    }

    /// Rejects more ranks than the rack has room for, before any traffic is computed for them.
    fn check_hosts(&mut self, path: &str, hosts: u32, nodes: u32, slots: u32) {
        let room = u64::from(nodes) * u64::from(slots);
        if !(2..=room).contains(&u64::from(hosts)) {
            let message = format!("{hosts} is outside 2 to {room}, {nodes} nodes with room for {slots} each");
            self.complain(&format!("{path}.hosts"), message);
        }
    }

    fn check_graph(&mut self, path: &str, graph: &Kronecker) {
        self.within(&format!("{path}.scale"), graph.scale, 1, LARGEST_SCALE);
        self.within(&format!("{path}.degree"), graph.degree, 1, 64);
        self.within(&format!("{path}.edges_per_s"), graph.edges_per_s, 1, MOST_RATE);
    }

    fn check_training(&mut self, path: &str, training: &Training) {
        let Training { operation, servers, iterations, compute, bucket, .. } = *training;
        self.check_collective(path, &Collective { operation, size: bucket, servers, iterations, compute });
        if matches!(operation, Operation::AllGather | Operation::AllToAll) {
            self.complain(
                &format!("{path}.operation"),
                "training sums up gradients: use `ring-all-reduce`, `halving-doubling` or `parameter-server`",
            );
        }
        self.within(&format!("{path}.iterations"), iterations, 1, 1 << 16);
        self.within(&format!("{path}.bucket"), bucket, Bytes::new(4096), Bytes::new(1 << 30));
    }

    fn check_key_value(&mut self, path: &str, key_value: &KeyValue) {
        self.within(&format!("{path}.servers"), key_value.servers, 1, u32::MAX);
        self.within(&format!("{path}.requests"), u64::from(key_value.requests), 1, MOST_DRAWS);
        self.within(&format!("{path}.connections"), key_value.connections, 1, 1 << 16);
        self.within(&format!("{path}.keys"), key_value.keys, 1, u32::MAX);
        self.within(&format!("{path}.value"), key_value.value, Bytes::new(1), Bytes::new(1 << 30));
        self.within(&format!("{path}.service"), key_value.service, Time::ZERO, LONGEST);
        self.check_exponent(path, key_value.exponent);
    }

    fn check_word_count(&mut self, path: &str, word_count: &WordCount) {
        self.within(&format!("{path}.words"), u64::from(word_count.words), 1, MOST_DRAWS);
        self.within(&format!("{path}.vocabulary"), word_count.vocabulary, 1, 1 << 24);
        self.within(&format!("{path}.words_per_s"), word_count.words_per_s, 1, u32::MAX);
        self.within(&format!("{path}.iterations"), word_count.iterations, 1, 1 << 16);
        self.check_exponent(path, word_count.exponent);
    }

    fn check_embedding(&mut self, path: &str, embedding: &Embedding) {
        let Embedding { batches, batch, dimension, .. } = *embedding;
        for (key, value) in [
            ("batches", batches),
            ("batch", batch),
            ("dimension", dimension),
            ("lookups_per_s", embedding.lookups_per_s),
        ] {
            self.within(&format!("{path}.{key}"), value, 1, u32::MAX);
        }
        let draws = u64::from(batches).saturating_mul(u64::from(batch)).saturating_mul(26);
        if draws > MOST_DRAWS {
            let message =
                format!("{draws} lookups, 26 for each query of a batch, are more than {MOST_DRAWS}");
            self.complain(&format!("{path}.batches"), message);
        }
        self.within(&format!("{path}.dimension"), dimension, 1, 1 << 16);
        self.within(&format!("{path}.compute"), embedding.compute, Time::ZERO, LONGEST);
        self.check_exponent(path, embedding.exponent);
    }

    fn check_experts(&mut self, path: &str, experts: &Experts) {
        let Experts { layers, tokens, top, hidden, tokens_per_s, exponent, .. } = *experts;
        self.within(&format!("{path}.layers"), layers, 1, 1 << 16);
        for (key, value) in [("tokens", tokens), ("hidden", hidden), ("tokens_per_s", tokens_per_s)] {
            self.within(&format!("{path}.{key}"), value, 1, u32::MAX);
        }
        if let Some(all) = experts.experts {
            self.within(&format!("{path}.experts"), all, 1, 1 << 16);
        }
        self.within(&format!("{path}.top"), top, 1, experts.experts.unwrap_or(u32::MAX));
        let draws = u64::from(layers).saturating_mul(u64::from(tokens)).saturating_mul(u64::from(top));
        if draws > MOST_DRAWS {
            let message = format!("{draws} choices of an expert on each rank are more than {MOST_DRAWS}");
            self.complain(&format!("{path}.tokens"), message);
        }
        self.check_exponent(path, exponent);
    }

    fn check_exponent(&mut self, path: &str, exponent: f64) {
        self.within(&format!("{path}.exponent"), exponent, 0.0, 10.0);
    }
}
