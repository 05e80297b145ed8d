//! Racks without switches: `up` starts a background process that runs the nodes.

use super::options::Among;
use crate::failure::{CommandFailure, say};
use crate::scenario;
use crate::stdout::print;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use unrack_protocol::r2c2::Params;
use unrack_rack::{FlowWorkload, Size, TopologySpec, ValidScenario, Workload};
use unrack_sim::Setup;
use unrack_sim::fabric::r2c2::R2c2;
use unrack_torus::{Emulation, RackState, TorusPlan};

/// A scenario that a live rack supports.
pub(super) struct Loaded {
    pub scenario: ValidScenario,
    pub setup: Setup,
    pub params: Params,
    /// The simulator's fabric, which computes unloaded completion times.
    pub fabric: R2c2,
    pub plan: TorusPlan,
}

/// Loads a scenario. Fails if a live rack does not support it.
pub(super) fn load(file: &Path, set: &[String]) -> Result<Loaded, CommandFailure> {
    let (mut scenario, setup) = scenario::load(file, set)?;
    anchor(&mut scenario);
    let Some(params) = setup.fabric.params::<R2c2>().cloned() else {
        let why = "is r2c2 for a live torus or mesh: `unrack sim` does others";
        return Err(scenario.error_at("fabric.protocol", why).into());
    };
    let fabric = R2c2::new(&setup.network, &setup.ethernet, &params, setup.seed);
    let fabric = fabric.map_err(|why| why.in_scenario(&scenario))?;
    let plan = TorusPlan::new(&scenario.network, &scenario.faults, &params, scenario.seed)?;
    Ok(Loaded { scenario, setup, params, fabric, plan })
}

/// Makes the scenario's paths absolute, so that processes in other folders can read the files.
fn anchor(scenario: &mut ValidScenario) {
    let cables = match &mut scenario.network.topology {
        TopologySpec::Graph(cabling) => Some(&mut cabling.file),
        _ => None,
    };
    let work = match &mut scenario.workload {
        Workload::Trace(trace) => Some(&mut trace.file),
        Workload::Flows(FlowWorkload { size: Size::File { file, .. }, .. }) => Some(file),
        _ => None,
    };
    for file in cables.into_iter().chain(work) {
        file.path = absolute(&file.path);
        file.written = file.path.display().to_string();
    }
}

/// Builds the rack, and leaves its process running in the background.
pub(super) fn up(
    file: &Path,
    set: &[String],
    among: &Among,
    folder: &Path,
) -> Result<ExitCode, CommandFailure> {
    let Loaded { scenario, plan, .. } = load(file, set)?;
    let machines = among.machines()?;
    // Trying the gateways here reports an error at once; otherwise only the background process would notice it.
    Emulation::try_gateways(&plan, &among.gateways)?;
    let rack_state = RackState::claim(folder, &scenario.explain())?;
    if let Err(failure) = leave_behind(&rack_state, among, folder) {
        // The first error is more informative than an error of this call.
        let _ = rack_state.down();
        return Err(failure);
    }
    let topology = scenario.network.topology.kind();
    let nodes = machines.map_or(0..plan.nodes(), |machines| machines.own(plan.nodes()));
    print(&format!("{} nodes of a {topology} are up\n", nodes.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the background process of the nodes, and waits until it accepts requests.
fn leave_behind(rack_state: &RackState, among: &Among, folder: &Path) -> Result<(), CommandFailure> {
    let failed =
        |why: std::io::Error| CommandFailure::Failed(format!("the rack's process cannot be started: {why}"));
    let log = std::fs::File::create(rack_state.log()).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command
        .args(["rack", "__serve", "--state"])
        .arg(absolute(folder))
        .args(among.arguments())
        .current_dir("/");
    // The process gets a separate process group, so that signals of the terminal do not reach it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        // Without a line, the process has ended or is useless.
        let _ = BufReader::new(stdout).read_line(&mut said);
    }
    match said.as_str() {
        READY => Ok(()),
        _ => {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
            let log = std::fs::read_to_string(rack_state.log()).unwrap_or_default();
            Err(CommandFailure::Failed(log.trim().trim_start_matches("unrack: ").into()))
        }
    }
}

const READY: &str = "ready\n";

/// Serves the rack's nodes in this process, until the rack is taken down.
pub(super) fn serve(among: &Among, folder: &Path) -> Result<(), CommandFailure> {
    let rack_state = find(folder)?;
    let plan = load(&rack_state.scenario(), &[])?.plan;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let emulation = match among.machines()? {
        Some(machines) => Emulation::start_part(plan, cores, &machines)?,
        None => Emulation::start_bridged(plan, cores, &among.gateways)?,
    };
    let mut told = Ok(());
    rack_state.serve(emulation, || told = print(READY))?;
    told
}

/// Returns the rack that is up in a folder.
pub(super) fn find(folder: &Path) -> Result<RackState, CommandFailure> {
    let shown = folder.display();
    RackState::find(folder)?.ok_or_else(|| {
        CommandFailure::Usage(format!(
            "no torus or mesh is up in {shown}: `unrack rack up SCENARIO` starts one"
        ))
    })
}

/// Returns an error if a rack without switches is up in this folder.
pub(super) fn check_free(folder: &Path) -> Result<(), CommandFailure> {
    match RackState::sweep(folder)? {
        false => Ok(()),
        true => {
            let folder = folder.display();
            Err(CommandFailure::Usage(format!(
                "a rack is up in {folder} already: take it down first (`unrack rack down`), \
            or give another --state"
            )))
        }
    }
}

/// Takes down the torus, mesh or graph whose state is in this folder. Returns whether there was a rack or the remains of one.
pub(super) fn down(folder: &Path) -> Result<bool, CommandFailure> {
    let Some(rack_state) = RackState::find(folder)? else { return Ok(false) };
    match rack_state.down()? {
        true => say("the rack is down"),
        false => say("the rack had ended already; its remains are removed"),
    }
    Ok(true)
}

fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())
}
