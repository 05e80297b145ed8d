//! Computes the jobs of a scenario.

use std::collections::BTreeSet;
use std::sync::Arc;
use unrack_basis::mix;
use unrack_rack::jobs;
use unrack_workload::collective;
use unrack_workload::jobs::{embedding, experts, graph, key_value, training, word_count};
use unrack_workload::{ComputedJob, JobsSpec, WorkloadError};

/// Computes the jobs of a mix for `nodes` nodes, with the messages of each job.
///
/// # Errors
/// If an application cannot run on the number of its ranks.
pub(super) fn jobs_spec(mix: &jobs::Jobs, nodes: u32, seed: u64) -> Result<JobsSpec, WorkloadError> {
    let mut names: BTreeSet<String> = mix.jobs.iter().filter_map(|job| job.name.clone()).collect();
    let computed = mix.jobs.iter().zip(0u64..).map(|(job, number)| {
        let name = job.name.clone().unwrap_or_else(|| free_name(job, &mut names));
        let path = format!("workload.jobs.{number}.{}", job.applications()[0]);
        computed(job, name, nodes, seed, number).map_err(|why| why.inside(&path))
    });
    let jobs = computed.collect::<Result<Vec<ComputedJob>, WorkloadError>>()?;
    Ok(JobsSpec { jobs: Arc::new(jobs), policy: mix.policy, slots: mix.slots })
}

/// Returns a name that no other job has: `pagerank`, `pagerank-2`, and so on.
fn free_name(job: &jobs::JobSpec, names: &mut BTreeSet<String>) -> String {
    let application = job.applications()[0];
    let numbered = (2..).map(|number| format!("{application}-{number}"));
    let mut all = std::iter::once(application.to_string()).chain(numbered);
    all.find(|name| names.insert(name.clone())).expect("numbers do not end")
}

fn computed(
    job: &jobs::JobSpec,
    name: String,
    nodes: u32,
    seed: u64,
    number: u64,
) -> Result<ComputedJob, WorkloadError> {
    let on = job.on.as_ref().map(|on| on.len() as u32);
    let ranks = on.or(job.hosts).unwrap_or(nodes);
    // The number of the job changes the seed, so that two jobs with the same text draw different random numbers.
    let seed = if number == 0 { seed } else { mix(seed ^ mix(number)) };
    let rounds = match job {
        jobs::JobSpec { pagerank: Some(spec), .. } => graph::pagerank(spec, ranks, seed).rounds,
        jobs::JobSpec { components: Some(spec), .. } => graph::components(spec, ranks, seed).rounds,
        jobs::JobSpec { training: Some(spec), .. } => training::training(spec, ranks)?,
        jobs::JobSpec { key_value: Some(spec), .. } => key_value::key_value(spec, ranks, seed)?,
        jobs::JobSpec { word_count: Some(spec), .. } => word_count::word_count(spec, ranks, seed)?.rounds,
        jobs::JobSpec { embedding: Some(spec), .. } => embedding::embedding(spec, ranks, seed),
        jobs::JobSpec { experts: Some(spec), .. } => experts::experts(spec, ranks, seed),
        jobs::JobSpec { collective, .. } => {
            let spec = collective.as_ref().expect("a checked job has an application");
            collective::job(spec, ranks)?.rounds
        }
    };
    Ok(ComputedJob { start: job.start, on: job.on.clone(), ..ComputedJob::new(name, ranks, rounds) })
}
