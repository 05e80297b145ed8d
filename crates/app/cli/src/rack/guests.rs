//! Racks of virtual machines: `up` starts a background process, which runs a QEMU guest for each host.

use super::options::StateFolder;
use crate::failure::{CommandFailure, say};
use crate::stdout::print;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use unrack_guests::{BootStep, DEVICE, GuestExit, GuestRack, GuestRackState, HostChange, RackStatus};
use unrack_rack::Scenario;
use unrack_units::Bytes;

/// Builds the rack, and leaves its process running in the background.
pub(super) fn up(scenario: &Scenario, folder: &Path) -> Result<ExitCode, CommandFailure> {
    let rack = GuestRack::read(scenario)?;
    unrack_guests::check_machine()?;
    let rack_state = GuestRackState::claim(folder, &rack)?;
    if let Err(failure) = leave_behind(&rack_state) {
        // The first error is more informative than an error of this call.
        let _ = rack_state.down();
        return Err(failure);
    }
    let hosts = match rack.host.len() {
        1 => "1 host is up: it has".into(),
        several => format!("{several} hosts are up: they share"),
    };
    print(&format!("{hosts} {} at {DEVICE}\n", rack.device.bytes))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the rack's background process, and waits until its guests are up.
fn leave_behind(rack_state: &GuestRackState) -> Result<(), CommandFailure> {
    let failed =
        |why: std::io::Error| CommandFailure::Failed(format!("the rack's process cannot be started: {why}"));
    let log = std::fs::File::create(rack_state.log()).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    let folder = std::path::absolute(rack_state.folder()).map_err(failed)?;
    command.args(["rack", "__guests", "--state"]).arg(folder).current_dir("/");
    // The process gets a separate process group, so that signals of the terminal do not reach it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let said = child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
    for line in said.map_while(Result::ok) {
        match line.as_str() {
            READY => return Ok(()),
            warning if warning.starts_with(WARNING) => say(warning),
            step if std::io::stderr().is_terminal() => say(step),
            _ => {}
        }
    }
    // The process may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    let log = std::fs::read_to_string(rack_state.log()).unwrap_or_default();
    Err(CommandFailure::Failed(log.trim().trim_start_matches("unrack: ").into()))
}

const READY: &str = "ready";
/// Prefix of a message that is printed even if standard error is not a terminal.
const WARNING: &str = "warning: ";

/// Runs the rack of a folder in this process, until the rack is taken down.
pub(super) fn serve(folder: &Path) -> Result<(), CommandFailure> {
    let agent = std::env::current_exe().map_err(|why| CommandFailure::Failed(why.to_string()))?;
    let tell = |step: BootStep| {
        let line = match step {
            BootStep::Booting { kernel, accelerator } => {
                format!("booting Linux {kernel} under {}", accelerator.name())
            }
            BootStep::Emulated { host, silent } => format!(
                "{WARNING}host `{host}` printed nothing for {} s under KVM: it is started again, emulated",
                silent.as_secs()
            ),
            BootStep::Up { host, seconds } => format!("host `{host}` is up after {seconds:.1} s"),
            BootStep::Ready => READY.into(),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
    };
    Ok(unrack_guests::serve(folder, &agent, tell)?)
}

/// Returns the rack that is up in a folder.
fn find(place: &StateFolder) -> Result<GuestRackState, CommandFailure> {
    let folder = place.folder();
    let found = GuestRackState::find(&folder)?;
    found.ok_or_else(|| {
        let folder = folder.display();
        CommandFailure::Usage(format!(
            "no virtual machines are up in {folder}: `unrack rack up examples/two-hosts.toml` boots two"
        ))
    })
}

/// Returns an error if a rack of virtual machines is up in this folder.
pub(super) fn check_free(folder: &Path) -> Result<(), CommandFailure> {
    match GuestRackState::sweep(folder)? {
        false => Ok(()),
        true => {
            let folder = folder.display();
            Err(CommandFailure::Usage(format!(
                "a rack is up in {folder} already: take it down first (`unrack rack down`), or give another --state"
            )))
        }
    }
}

/// Runs a program on a host, and returns its exit status.
pub(super) fn exec(
    rack_state: &GuestRackState,
    host: &str,
    program: &[String],
) -> Result<ExitCode, CommandFailure> {
    let words: Vec<OsString> = program.iter().map(OsString::from).collect();
    let outcome = unrack_guests::exec(rack_state, host, &words)?;
    if let GuestExit::NotStarted { why, .. } = &outcome {
        say(why);
    }
    Ok(ExitCode::from(outcome.status()))
}

/// Changes the state of a host.
pub(super) fn change(place: &StateFolder, host: &str, change: HostChange) -> Result<(), CommandFailure> {
    Ok(find(place)?.change(host, change)?)
}

/// Takes down the rack of virtual machines in this folder. Returns whether there was a rack or the remains of one.
pub(super) fn down(folder: &Path) -> Result<bool, CommandFailure> {
    let Some(rack_state) = GuestRackState::find(folder)? else { return Ok(false) };
    match rack_state.down()? {
        true => say("the rack is down"),
        false => say("the rack had ended already; its remains are removed"),
    }
    Ok(true)
}

/// Prints the state of the rack's hosts.
pub(super) fn list(place: &StateFolder, json: bool) -> Result<(), CommandFailure> {
    let status = find(place)?.status()?;
    match json {
        true => {
            let text =
                serde_json::to_string(&status).map_err(|why| CommandFailure::Failed(why.to_string()))?;
            print(&(text + "\n"))
        }
        false => print(&table(&status)),
    }
}

/// Returns a line for each host, and one for the device.
fn table(status: &RackStatus) -> String {
    let width = status.hosts.iter().map(|host| host.name.len()).max().unwrap_or(0);
    let host = |host: &unrack_guests::HostStatus| {
        let memory = Bytes::new(host.memory_bytes);
        let boot = host.boot_s.map_or(String::new(), |boot| format!(", booted in {boot:.1} s"));
        let state = host.state.name();
        format!("{:width$}  {state:7}  {memory}, {} cpus{boot}; {}\n", host.name, host.cpus, host.console)
    };
    let hosts: String = status.hosts.iter().map(host).collect();
    let (device, accelerator) = (&status.device, status.accelerator.name());
    let (bytes, kind) = (Bytes::new(device.bytes), device.kind.name());
    format!("{hosts}{bytes} of {kind} at {}, under {accelerator}\n", device.path)
}
