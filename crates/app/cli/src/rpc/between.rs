//! `unrack rpc bench --hosts A,B`: the benchmark between two virtual machines of a rack.

use crate::failure::CommandFailure;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use unrack_guests::DEVICE;

/// Socket of the benchmark's pool on each host.
const SOCKET: &str = "/run/unrack-bench.sock";

/// A program on a host. Dropping the value ends the program.
struct HostProgram(Child);

impl Drop for HostProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the command that runs this program on a host of the rack that is up.
fn on(host: &str, words: &[&str]) -> Result<Command, CommandFailure> {
    let failed = |why: std::io::Error| CommandFailure::Failed(why.to_string());
    let own = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(&own);
    command.args(["rack", "exec", host, "--"]).arg(own).args(words);
    Ok(command)
}

/// Starts a pool manager on a host, and returns when programs can connect to it.
fn manage(host: &str, number: &str) -> Result<HostProgram, CommandFailure> {
    let words = ["pool", "serve", "--json", "--device", DEVICE, "--host", number, "--socket", SOCKET];
    let mut command = on(host, &words)?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running = HostProgram(child.map_err(|why| CommandFailure::Failed(why.to_string()))?);
    let stdout = running.0.stdout.take().expect("it is piped");
    let mut line = String::new();
    match BufReader::new(stdout).read_line(&mut line) {
        Ok(read) if read > 0 => Ok(running),
        _ => Err(CommandFailure::Failed(format!("no manager serves host {host}: see above"))),
    }
}

/// Formats the rack's device, serves a pool on both hosts, serves the benchmark on the first host, and runs it on the second with the
/// arguments `words`.
pub(super) fn run(hosts: &str, waiting: &str, words: &[String]) -> Result<ExitCode, CommandFailure> {
    let Some((server, client)) = hosts.split_once(',').filter(|(a, b)| a != b && !b.contains(',')) else {
        return Err(CommandFailure::Usage(format!(
            "--hosts {hosts}: give two hosts of the rack that is up, as in `--hosts a,b`"
        )));
    };
    let failed = |why: std::io::Error| CommandFailure::Failed(why.to_string());
    let format = on(server, &["pool", "format", DEVICE, "--hosts", "2"])?.stdin(Stdio::null()).status();
    if !format.map_err(failed)?.success() {
        return Err(CommandFailure::Failed(format!("{DEVICE} cannot be used: see above")));
    }
    let _managers = [manage(server, "0")?, manage(client, "1")?];
    let serve = ["rpc", "bench", "--waiting", waiting, "--serve", SOCKET];
    let _server = HostProgram(on(server, &serve)?.stdin(Stdio::null()).spawn().map_err(failed)?);
    let mut bench = on(client, &["rpc", "bench", "--pool", SOCKET])?;
    let status = bench.args(words).stdin(Stdio::null()).status().map_err(failed)?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
