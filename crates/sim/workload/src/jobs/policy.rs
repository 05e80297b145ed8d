//! Policies, which decide on which hosts jobs run and when jobs may send.
//!
//! To add a policy, implement [`JobPolicy`], and add a word for the policy to the format of scenarios.
//!
//! | policy | places the ranks of a job | lets a job send |
//! |---|---|---|
//! | first-fit | on the first hosts with room | at any time |
//! | round-robin | on racks in turn | at any time |
//! | `ShuffleWatcher` | in as few racks as possible | in turn with other jobs on the same hosts |
//! | `Crux` | as first-fit does | before less intense jobs in the same racks |

use super::ComputedJob;
use crate::blades::BladeRacks;
use crate::error::WorkloadError;
use crate::message::NodeId;
use unrack_rack::jobs::PlacementPolicy;
use unrack_units::{Rate, Time};

/// Properties of a job that are known before the job runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobDemand {
    /// Intensity of the job as in Crux §3.2, equation 2: I = W / t. W is the computation of all ranks, and t is the
    /// time for which the bytes of the job occupy the busiest link. Here W and t are totals of the whole job, W is in
    /// core seconds, and t refers to the link of a host.
    pub intensity: f64,
}

impl JobDemand {
    /// Computes the demand of a job whose hosts send at `rate`.
    pub fn new(job: &ComputedJob, rate: Rate) -> JobDemand {
        let (mut work, mut sent, mut got) =
            (0.0, vec![0u64; job.ranks as usize], vec![0u64; job.ranks as usize]);
        for tasks in &job.rounds {
            work += tasks.computed().as_secs_f64();
            for (from, to, bytes) in tasks.messages() {
                sent[from as usize] += bytes;
                got[to as usize] += bytes;
            }
        }
        let busiest = sent.iter().chain(&got).copied().max().unwrap_or(0);
        let transfer = busiest as f64 * 8.0 / rate.as_bps() as f64;
        JobDemand { intensity: if busiest == 0 { f64::INFINITY } else { work / transfer } }
    }
}

/// State of a running job, by which a policy decides which jobs may send.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSending {
    pub hosts: Vec<NodeId>,
    /// Whether a message of the job is in flight.
    pub is_sending: bool,
    /// Time since which the job has continuously had messages in flight or waiting to be sent; `None` if no message
    /// waits to be sent now.
    pub wants_since: Option<Time>,
    pub intensity: f64,
}

/// Policy that decides on which hosts jobs run, and when jobs may send.
pub trait JobPolicy: Send {
    /// Returns the host for the next rank of a job, which must have room; `None` if no host has room. `room` is the
    /// number of ranks that each node can still take, `ranks` is the number of ranks of the job that have no host yet,
    /// including this one, and `hosts` are the hosts of the job's earlier ranks.
    fn next(&self, room: &[u32], ranks: u32, hosts: &[NodeId], racks: BladeRacks) -> Option<NodeId>;

    /// Returns whether the policy allows all jobs to send at any time.
    fn always_sends(&self) -> bool {
        true
    }

    /// Returns whether messages in flight of jobs that may not send are stopped, by pausing their hosts. Only fabrics of windowed
    /// streams (`tcp`, `dctcp`, `mptcp`) can pause.
    fn pauses(&self) -> bool {
        false
    }

    /// Returns whether `job`, which has messages to send or in flight, may send them now. Messages in flight are stopped only if
    /// the policy [pauses](JobPolicy::pauses). The policy must always allow at least one job to send.
    fn may_send(&self, job: usize, all: &[JobSending], racks: BladeRacks) -> bool {
        let _ = (job, all, racks);
        true
    }
}

/// Returns the policy that a scenario selects by this word.
pub fn policy(word: PlacementPolicy) -> Box<dyn JobPolicy> {
    match word {
        PlacementPolicy::FirstFit => Box::new(FirstFit),
        PlacementPolicy::RoundRobin => Box::new(RoundRobin),
        PlacementPolicy::ShuffleWatcher => Box::new(ShuffleWatcher),
        PlacementPolicy::Crux => Box::new(Crux),
    }
}

/// Returns the hosts of the ranks of each job. The jobs for which the scenario gives the nodes are placed first.
pub(super) fn place(
    policy: &dyn JobPolicy,
    jobs: &[ComputedJob],
    racks: BladeRacks,
    slots: u32,
) -> Result<Vec<Vec<NodeId>>, WorkloadError> {
    let mut room = vec![slots; racks.nodes() as usize];
    let given =
        jobs.iter().enumerate().flat_map(|(n, job)| job.on.iter().flatten().map(move |node| (n, node)));
    for (job, node) in given {
        let Some(left) = room.get_mut(*node as usize) else {
            let key = format!("workload.jobs.{job}.on");
            return Err(WorkloadError::new(key, "names nodes that there are", node));
        };
        *left = left.checked_sub(1).ok_or_else(|| {
            WorkloadError::new(
                "workload.slots",
                "has room for all ranks on their nodes",
                format!("{slots}, too few on node {node}"),
            )
        })?;
    }
    let mut placed = Vec::new();
    for job in jobs {
        if let Some(on) = &job.on {
            placed.push(on.clone());
            continue;
        }
        let mut hosts = Vec::new();
        for left in (1..=job.ranks).rev() {
            let Some(host) = policy.next(&room, left, &hosts, racks) else {
                let value = format!("{slots}, with {left} of {} ranks of {} left over", job.ranks, job.name);
                return Err(WorkloadError::new("workload.slots", "has room for all ranks", value));
            };
            room[host as usize] -= 1;
            hosts.push(host);
        }
        placed.push(hosts);
    }
    Ok(placed)
}

/// Returns the first node with room, preferably a node that has no rank of this job yet.
fn first(room: &[u32], hosts: &[NodeId], among: impl Iterator<Item = NodeId> + Clone) -> Option<NodeId> {
    let free = among.filter(|node| room[*node as usize] > 0);
    free.clone().find(|node| !hosts.contains(node)).or_else(|| free.clone().next())
}

struct FirstFit;

impl JobPolicy for FirstFit {
    fn next(&self, room: &[u32], _: u32, hosts: &[NodeId], racks: BladeRacks) -> Option<NodeId> {
        first(room, hosts, 0..racks.nodes())
    }
}

struct RoundRobin;

impl JobPolicy for RoundRobin {
    fn next(&self, room: &[u32], _: u32, hosts: &[NodeId], racks: BladeRacks) -> Option<NodeId> {
        first(room, hosts, (0..racks.nodes()).map(|n| racks.in_turn(n)))
    }
}

/// Policy of Ahmad et al., USENIX ATC 2014, as used in DRack §7.3. In the paper, a shuffle waits while another shuffle
/// loads the network. Here, a job waits while another job that has a rank on the same host sends. In the paper,
/// reducers are placed near mappers. Here, the whole job is placed in as few racks as possible. Three parts of the
/// policy are not modelled: the choice among replicas of the input (§3.3 of that paper), the bounds on unfairness, and
/// elongated shuffles.
struct ShuffleWatcher;

impl JobPolicy for ShuffleWatcher {
    fn next(&self, room: &[u32], ranks: u32, hosts: &[NodeId], racks: BladeRacks) -> Option<NodeId> {
        let nodes = |rack: u32| rack * racks.hosts..(rack + 1) * racks.hosts;
        let free = |rack: u32| nodes(rack).map(|node| room[node as usize].min(1)).sum::<u32>();
        // Rack of the previous rank, if it has room; otherwise the fullest rack with room for all remaining ranks;
        // otherwise the emptiest rack.
        let begun = hosts
            .last()
            .map(|host| racks.rack_of(*host))
            .filter(|rack| nodes(*rack).any(|node| room[node as usize] > 0 && !hosts.contains(&node)));
        let holds = (0..racks.racks).filter(|rack| free(*rack) >= ranks).min_by_key(|rack| free(*rack));
        let emptiest = || (0..racks.racks).max_by_key(|rack| (free(*rack), std::cmp::Reverse(*rack)));
        let rack = begun.or(holds).or_else(emptiest)?;
        first(room, hosts, nodes(rack)).or_else(|| first(room, hosts, 0..racks.nodes()))
    }

    fn always_sends(&self) -> bool {
        false
    }

    fn may_send(&self, job: usize, all: &[JobSending], _: BladeRacks) -> bool {
        let this = &all[job];
        let share = |other: &JobSending| other.hosts.iter().any(|host| this.hosts.contains(host));
        let is_before = |number: usize, other: &JobSending| {
            other.wants_since.is_some_and(|since| (Some(since), number) < (this.wants_since, job))
        };
        let others = all.iter().enumerate().filter(|(number, other)| *number != job && share(other));
        this.is_sending
            || others.into_iter().all(|(number, other)| !other.is_sending && !is_before(number, other))
    }
}

/// Policy of Cao et al., SIGCOMM 2024, as used in DRack §7.3. More intense jobs send first, and the jobs that compete
/// with them wait. Jobs compete if they share a rack. Hosts of jobs that wait are paused, as DRack's prototype does by
/// priority flow control; packets that a host has queued still leave. Three parts of the policy are not modelled: the
/// choice of paths (MPTCP uses all of them), the correction of the intensity for iterations of different length (§4.2
/// of that paper), and the mapping of many jobs to a few priority levels.
struct Crux;

impl JobPolicy for Crux {
    fn next(&self, room: &[u32], ranks: u32, hosts: &[NodeId], racks: BladeRacks) -> Option<NodeId> {
        FirstFit.next(room, ranks, hosts, racks)
    }

    fn always_sends(&self) -> bool {
        false
    }

    fn pauses(&self) -> bool {
        true
    }

    fn may_send(&self, job: usize, all: &[JobSending], racks: BladeRacks) -> bool {
        let this = &all[job];
        let in_rack = |host: &NodeId, other: &JobSending| {
            other.hosts.iter().any(|node| racks.rack_of(*node) == racks.rack_of(*host))
        };
        let is_above = |number: usize, other: &JobSending| {
            other.intensity > this.intensity || (other.intensity == this.intensity && number < job)
        };
        let holds_up = |(number, other): (usize, &JobSending)| {
            number != job
                && is_above(number, other)
                && (other.is_sending || other.wants_since.is_some())
                && this.hosts.iter().any(|host| in_rack(host, other))
        };
        !all.iter().enumerate().any(holds_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACKS: BladeRacks = BladeRacks { racks: 3, hosts: 4 };

    fn jobs(ranks: &[u32]) -> Vec<ComputedJob> {
        ranks.iter().map(|ranks| ComputedJob::new("job", *ranks, Vec::new())).collect()
    }

    fn placed(word: PlacementPolicy, ranks: &[u32], slots: u32) -> Result<Vec<Vec<NodeId>>, WorkloadError> {
        place(policy(word).as_ref(), &jobs(ranks), RACKS, slots)
    }

    #[test]
    fn jobs_are_where_their_policy_puts_them() {
        assert_eq!(placed(PlacementPolicy::FirstFit, &[2, 3], 1).unwrap(), [vec![0, 1], vec![2, 3, 4]]);
        assert_eq!(placed(PlacementPolicy::RoundRobin, &[2, 3], 1).unwrap(), [vec![0, 4], vec![8, 1, 5]]);
        // The third job does not fit into the rack of the first job. The fourth job does fit, so that the other racks
        // remain empty for larger jobs.
        let compact = placed(PlacementPolicy::ShuffleWatcher, &[3, 2, 4, 1], 1).unwrap();
        assert_eq!(compact, [vec![0, 1, 2], vec![4, 5], vec![8, 9, 10, 11], vec![3]]);
        assert_eq!(placed(PlacementPolicy::ShuffleWatcher, &[6], 1).unwrap(), [vec![0, 1, 2, 3, 4, 5]]);
    }

    #[test]
    fn no_host_has_more_than_its_slots_and_all_are_used() {
        for word in [
            PlacementPolicy::FirstFit,
            PlacementPolicy::RoundRobin,
            PlacementPolicy::ShuffleWatcher,
            PlacementPolicy::Crux,
        ] {
            for slots in [1, 2] {
                let all = placed(word, &[5, 4, 3 + 12 * (slots - 1)], slots).unwrap();
                let mut ranks = [0; 12];
                all.iter().flatten().for_each(|host| ranks[*host as usize] += 1);
                assert_eq!(ranks, [slots; 12], "{word:?}");
                let error = placed(word, &[5, 8 + 12 * (slots - 1)], slots).err().unwrap();
                assert_eq!(error.key, "workload.slots");
            }
        }
    }

    #[test]
    fn a_job_that_says_where_it_runs_has_its_room() {
        let mut two = jobs(&[2, 2]);
        two[1].on = Some(vec![0, 1]);
        let hosts = place(&FirstFit, &two, RACKS, 1).unwrap();
        assert_eq!(hosts, [vec![2, 3], vec![0, 1]]);
        two[0].on = Some(vec![1, 5]);
        assert_eq!(place(&FirstFit, &two, RACKS, 1).err().unwrap().key, "workload.slots");
    }

    fn sending(hosts: &[NodeId], is_sending: bool, wants_us: Option<u64>, intensity: f64) -> JobSending {
        JobSending { hosts: hosts.to_vec(), is_sending, wants_since: wants_us.map(Time::from_us), intensity }
    }

    #[test]
    fn shuffles_on_the_same_hosts_take_turns() {
        let may = |job, all: &[JobSending]| ShuffleWatcher.may_send(job, all, RACKS);
        let all = [
            sending(&[0, 1], true, None, 1.0),
            sending(&[1, 2], false, Some(3), 9.0),
            sending(&[2, 3], false, Some(5), 1.0),
        ];
        assert!(may(0, &all), "it goes on");
        assert!(!may(1, &all), "another one sends on host 1");
        assert!(!may(2, &all), "job 1 waits for longer");
        assert!(may(1, &[sending(&[0, 1], false, None, 1.0), all[1].clone(), all[2].clone()]));
    }

    #[test]
    fn the_intense_go_first() {
        let may = |job, all: &[JobSending]| Crux.may_send(job, all, RACKS);
        let all = [
            sending(&[0, 4], true, None, 1.0),
            sending(&[1, 5], false, Some(3), 2.0),
            sending(&[8], false, Some(3), 0.5),
        ];
        assert!(!may(0, &all), "job 1 wants to send in its racks");
        assert!(may(1, &all) && may(2, &all));
    }
}
