//! Sources of messages, one for each kind of work.

use super::Work;
use unrack_engine::error::SetupError;
use unrack_engine::network::Network;
use unrack_rack::Replay;
use unrack_units::Time;
use unrack_workload::{
    CapturedReplay, JobsSpec, LineReplay, ListedMessages, Message, Outbox, RunningJobs, Source, Synthetic,
    forecast,
};

/// Source of the messages of a run. It is a single type, so that the loop of each fabric is compiled only once.
#[allow(clippy::large_enum_variant, reason = "there is one of it in a run")]
pub(crate) enum MessageSource {
    Synthetic(Synthetic),
    Listed(ListedMessages),
    Replay(CapturedReplay, Replay),
    Lines(LineReplay),
    Jobs(RunningJobs),
}

impl MessageSource {
    /// Creates the source of `work` on a network.
    pub(crate) fn new(work: &Work, network: &Network, seed: u64) -> Result<MessageSource, SetupError> {
        let (racks, rate) = (network.topology.racks(), network.host_rate());
        let loads_take_time = network.topology.hosts().is_some();
        Ok(match work {
            Work::Synthetic(spec) => {
                MessageSource::Synthetic(Synthetic::new(spec.clone(), racks, rate, seed)?)
            }
            Work::Listed(messages) => {
                MessageSource::Listed(ListedMessages::new(messages.clone(), racks.nodes())?)
            }
            Work::Collective(spec) => {
                let jobs = JobsSpec::collective(spec, racks.nodes())?;
                MessageSource::Jobs(RunningJobs::new(&jobs, racks, rate, loads_take_time)?)
            }
            Work::Jobs(spec) => MessageSource::Jobs(RunningJobs::new(spec, racks, rate, loads_take_time)?),
            Work::Replay(trace, spec) => {
                MessageSource::Replay(CapturedReplay::new(trace.clone(), spec, racks)?, spec.mode)
            }
            Work::Lines(trace, blades) => {
                MessageSource::Lines(LineReplay::new(trace.clone(), *blades, seed, racks)?)
            }
        })
    }

    /// Returns the messages that `work` submits, each with its time; `None` if some messages wait for others.
    pub(crate) fn calls(
        work: &Work,
        network: &Network,
        seed: u64,
    ) -> Result<Option<Vec<(Time, Message)>>, SetupError> {
        let waits = match work {
            Work::Replay(_, spec) => spec.mode == Replay::ClosedLoop,
            Work::Lines(..) | Work::Collective(_) | Work::Jobs(_) => true,
            Work::Synthetic(_) | Work::Listed(_) => false,
        };
        Ok(if waits { None } else { Some(forecast(MessageSource::new(work, network, seed)?)) })
    }
}

/// Passes a call on to the source inside an `Asker`.
macro_rules! ask {
    ($asker:expr, $source:ident => $call:expr) => {
        match $asker {
            MessageSource::Synthetic($source) => $call,
            MessageSource::Listed($source) => $call,
            MessageSource::Replay($source, _) => $call,
            MessageSource::Lines($source) => $call,
            MessageSource::Jobs($source) => $call,
        }
    };
}

impl Source for MessageSource {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        ask!(self, source => source.start(out));
    }
    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        ask!(self, source => source.wake(actor, now, out));
    }
    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O) {
        ask!(self, source => source.completed(message, now, out));
    }
    fn total(&self) -> Option<u64> {
        ask!(self, source => source.total())
    }
    fn is_exhausted(&self) -> bool {
        ask!(self, source => source.is_exhausted())
    }
}
