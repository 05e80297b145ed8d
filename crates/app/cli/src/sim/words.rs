//! Figures of a simulation, as text for people.

use unrack_grid::simulation::SimulationFigures;
use unrack_record::Machine;
use unrack_report::{SimulationSummary, simulation_text};
use unrack_sim::summary::{JobSummary, Program};
use unrack_sim::{Excluded, Summary};

/// Returns the table of one run, and a line about its network.
pub(crate) fn figures(name: &str, summary: &Summary) -> serde_json::Result<String> {
    let shown: SimulationSummary = serde_json::from_value(serde_json::to_value(summary)?)?;
    Ok(format!("{}\n{}\n", simulation_text(&[(name.to_string(), shown)]), network(summary)))
}

/// Returns the figures of a simulation, including those that are not in the table.
pub(crate) fn table(
    name: &str,
    SimulationFigures { summary, machine }: &SimulationFigures,
) -> serde_json::Result<String> {
    let mut text = figures(name, summary)? + &simulator(summary, machine) + "\n";
    text += &counted(summary).map_or(String::new(), |line| line + "\n");
    if let Some(program) = &summary.program {
        text += &format!("{}\n", replayed(program));
    }
    for (name, job) in &summary.jobs {
        text += &format!("{}\n", job_line(name, job));
    }
    for warning in &summary.warnings {
        text += &format!("warning    {warning} [{}]\n", warning.key);
    }
    for note in &summary.notes {
        text += &format!("note       {note} [{}]\n", note.key);
    }
    Ok(text)
}

/// Describes the messages that did not finish, and the reason.
pub(crate) fn unfinished(summary: &Summary) -> Option<String> {
    let unfinished = summary.unfinished.as_ref()?;
    Some(format!(
        "{} of {} messages did not finish ({}); the figures are of the others",
        unfinished.messages, summary.messages, unfinished.why
    ))
}

/// Describes which messages the figures include, if they do not include all.
fn counted(summary: &Summary) -> Option<String> {
    let Excluded { warm_up, cool_down } = summary.excluded;
    let counted = summary.messages.saturating_sub(warm_up + cool_down);
    let shown = format!(
        "counted    {counted} of {} messages; left out: {warm_up} of warm-up, {cool_down} of cool-down",
        summary.messages
    );
    (warm_up + cool_down > 0).then_some(shown)
}

fn network(summary: &Summary) -> String {
    let queue = &summary.queue_bytes;
    let background = summary.background_gbps.map_or(String::new(), |gbps| format!(", and {gbps:.1} besides"));
    let trimmed = match summary.trimmed {
        0 => String::new(),
        trimmed => format!(", {trimmed} trimmed"),
    };
    format!(
        "network    {:.1} Gbps in all{background}; switch queues {:.0} B mean, {} B p99, {} B max; {} packets dropped{trimmed}",
        summary.throughput_gbps, queue.mean, queue.p99, queue.max, summary.dropped
    )
}

fn simulator(summary: &Summary, machine: &Machine) -> String {
    format!(
        "simulator  {:.1} us in {:.1} s: {} events, {:.2} million packet-hops a second",
        summary.sim_time_ns / 1e3,
        machine.wall_s,
        summary.events,
        machine.packet_hops_per_s.unwrap_or(0.0) / 1e6
    )
}

fn replayed(program: &Program) -> String {
    format!(
        "program    {:.3} times as long as without any network; what was replayed took {:.3} ms for {:.3} ms \
         (mean of {} copies)",
        program.slowdown,
        program.run_time_ns / 1e6,
        program.zero_latency_ns / 1e6,
        program.replicas
    )
}

fn job_line(name: &str, job: &JobSummary) -> String {
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let mut line = format!("job        {name} on {} hosts: ", job.hosts.len());
    line += &job.completion_ns.map_or("did not end".into(), |ns| format!("{} in all", ms(ns)));
    line += &format!(", {} communicating", ms(job.communication_ns));
    if job.waiting_ns > 0.0 {
        line += &format!(", {} waiting for others", ms(job.waiting_ns));
    }
    line += &format!(", {} computing; {} messages", ms(job.compute_ns), job.messages);
    if let Some(requests) = job.request_ns {
        let us = |value: Option<f64>| value.unwrap_or(f64::NAN) / 1e3;
        line += &format!("; requests {:.1} us mean, {:.1} us p99", us(requests.mean), us(requests.p99));
    }
    line
}
