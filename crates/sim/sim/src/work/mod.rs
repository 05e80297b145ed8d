//! Work for a network: the messages, their senders and receivers, and their times.

mod asker;

pub(crate) use self::asker::MessageSource;
use std::borrow::Cow;
use std::sync::Arc;
use unrack_engine::error::SetupError;
use unrack_rack::{Blades, Collective};
use unrack_units::Time;
use unrack_workload::{
    CapturedTrace, ComputedJob, JobsSpec, LineTrace, Message, ReplaySpec, SyntheticSpec, Traffic, size,
};

/// Work for a network. It is cheap to clone, because clones share traces and lists.
#[derive(Debug, Clone)]
pub enum Work {
    Synthetic(SyntheticSpec),
    Listed(Arc<Vec<(Time, Message)>>),
    Replay(Arc<CapturedTrace>, ReplaySpec),
    /// Cache lines that the misses of a program request, on each compute blade.
    Lines(Arc<LineTrace>, Blades),
    Collective(Collective),
    Jobs(JobsSpec),
}

impl Work {
    /// Returns whether the tail of the distribution of message sizes is heavier than that of an exponential
    /// distribution.
    pub fn is_heavy_tailed(&self) -> bool {
        match self {
            Work::Synthetic(spec) => spec.size.is_heavy_tailed(),
            Work::Listed(messages) => {
                let mean = |power| {
                    let sum: f64 =
                        messages.iter().map(|(_, message)| (message.bytes as f64).powi(power)).sum();
                    sum / messages.len() as f64
                };
                size::heavy_tailed(mean(1), mean(2))
            }
            Work::Jobs(spec) => {
                let (mut count, mut mean, mut square) = (0.0, 0.0, 0.0);
                for tasks in spec.jobs.iter().flat_map(|job| &job.rounds) {
                    for (_, _, bytes) in tasks.messages() {
                        count += 1.0;
                        mean += bytes as f64;
                        square += (bytes as f64).powi(2);
                    }
                }
                size::heavy_tailed(mean / count, square / count)
            }
            // The messages of these kinds of work are pages, lines or chunks, which have equal sizes.
            Work::Replay(..) | Work::Lines(..) | Work::Collective(_) => false,
        }
    }
}

/// Size of a message of some work: the key that sets it, its bytes, and a description of the message.
pub(crate) struct Sized {
    pub key: Cow<'static, str>,
    pub bytes: u64,
    pub of: String,
}

impl Work {
    /// Returns the largest messages and requests that the work may submit among `nodes` nodes, one for each key.
    pub(crate) fn largest(&self, nodes: u32) -> Result<Vec<Sized>, SetupError> {
        let only = |key: &'static str, bytes| vec![Sized { key: key.into(), bytes, of: String::new() }];
        Ok(match self {
            Work::Synthetic(spec) => {
                let mut all = only("workload.size", spec.size.largest());
                if let Traffic::Memory(mix) = &spec.traffic {
                    all.extend(only("workload.request_size", mix.request.into()));
                    all.extend(only("workload.rmw_request_size", mix.rmw_request.into()));
                    all.extend(only("workload.rmw_size", mix.rmw_answer));
                    let disk =
                        mix.disk.iter().flat_map(|disk| only("workload.disk.size", disk.size.largest()));
                    all.extend(disk);
                }
                all
            }
            Work::Listed(messages) => {
                let sizes = messages.iter().zip(1..);
                let sizes = sizes.map(|((_, message), n)| (message.bytes.max(message.request.into()), n));
                // If several messages are equally large, the first one is reported.
                let largest = sizes.max_by_key(|(bytes, n)| (*bytes, std::cmp::Reverse(*n)));
                let sized = |(bytes, n): (u64, u64)| Sized {
                    key: "workload.file".into(),
                    bytes,
                    of: format!(" in message {n}"),
                };
                largest.map(sized).into_iter().collect()
            }
            Work::Replay(trace, _) => only("workload.file", trace.largest()),
            Work::Lines(..) => Vec::new(),
            Work::Collective(spec) => {
                let largest = JobsSpec::collective(spec, nodes)?.jobs.iter().map(ComputedJob::largest).max();
                only("workload.size", largest.unwrap_or(0))
            }
            Work::Jobs(spec) => {
                let sized = |(number, job): (usize, &ComputedJob)| Sized {
                    key: format!("workload.jobs.{number}").into(),
                    bytes: job.largest(),
                    of: format!(" in job `{}`", job.name),
                };
                spec.jobs.iter().enumerate().map(sized).collect()
            }
        })
    }
}
