//! `unrack rack`: racks on this machine. A rack has switches and runs ordinary programs, or has no switches and runs R2C2, or consists of
//! virtual machines that share memory.

mod direct;
mod guests;
mod options;
mod run;

use crate::completions;
use crate::failure::{CommandFailure, say};
use crate::stdout::print;
use clap_complete::engine::ArgValueCompleter;
use options::{Among, StateFolder};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_guests::{GuestRack, GuestRackState, HostChange};
use unrack_live::Error;
use unrack_namespaces::{NamespaceHost, Rack};
use unrack_rack::Scenario;
use unrack_socket::broker::SharingHost;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo unrack rack up examples/drack-2x2.toml
  sudo unrack rack exec 2 -- redis-server --bind 0.0.0.0 --protected-mode no
  sudo unrack rack exec 0 -- redis-benchmark -h host2
  sudo unrack rack exec 0 --sockets -- redis-server --bind 0.0.0.0 --protected-mode no
  sudo unrack rack exec 1 --sockets -- redis-benchmark -h host0
  sudo unrack rack down
  unrack rack up examples/torus-4x4.toml
  unrack rack run examples/torus-4x4.toml --json | jq .live
  unrack sim examples/torus-4x4.toml
  unrack rack down
  unrack rack up examples/two-hosts.toml
  unrack rack exec a -- sh -c 'uname -a; ls -l /dev/rack-memory'
  unrack rack kill a
  unrack rack boot a
  unrack rack ls --json | jq '.hosts[].state'
  unrack rack down

Hosts are network namespaces, named host0, host1 and so on; NICs are links shaped to the scenario's rate. A \
program's TCP connections use all NICs of its rack on a `drack` (MPTCP), and one NIC on a `torack`. With --sockets, \
connections between hosts of one rack of a `drack` pass bytes through memory, not through its NICs, once they have lasted for \
16 calls. The machine's own network is not touched.

The nodes of a torus or mesh are threads of a process that `up` leaves behind, which sleeps while idle. They run \
R2C2 in real time, over links with the scenario's rates and delays, and with its failures. `run` sends the \
scenario's flows over them, and prints what `unrack sim` prints for the same file. No privilege is needed.

With --machines, each machine runs a part of the nodes, and links between machines are UDP datagrams. Every machine \
runs `up` with its own --here, and `run` sends the flows of its own nodes. Beyond loopback, datagrams are sealed with a \
key that all machines share (`unrack keys shared`, --key): strangers cannot forge or replay them, but can read them. \
Packets of 1,400 bytes (network.mtu) fit into frames of 1,500; without a key, packets of 1,456 do.

With --gateway, a node has a TAP device: an Ethernet interface of this machine, for a bridge or a network namespace. \
Frames cross the rack to the gateway of their destination, at the rate that R2C2 gives them. This needs root:
  sudo unrack rack up examples/torus-4x4.toml --gateway 0=tap0 --gateway 10=tap1

Hosts of a scenario with [[host]] are virtual machines with kernels of their own, which share one memory device: \
/dev/rack-memory in each. Their files are those of this machine, and what a program writes to them stays in its host. \
They have no network. `kill`, `stop`, `cont` and `boot` make such hosts fail and come back. No privilege is needed; \
QEMU emulates them where KVM does not work.

`down` also removes the remains of a crash.";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Builds the racks of a scenario on this machine
    Up {
        /// The scenario file
        scenario: PathBuf,
        /// Replace a value of the file
        #[arg(long, value_name = "KEY=VALUE", add = ArgValueCompleter::new(completions::settings))]
        set: Vec<String>,
        #[command(flatten)]
        among: Among,
        #[command(flatten)]
        place: StateFolder,
    },
    /// Sends a scenario's flows over a torus or mesh that is up, and prints their figures
    Run(run::Args),
    /// Runs a program on a host, and exits with its status
    Exec {
        /// Number or name of the host
        host: String,
        /// Leave the program's TCP sockets unchanged
        #[arg(long)]
        tcp: bool,
        /// Pass bytes between hosts of a rack by reference, if both programs were started with this option (see `unrack sockets`)
        #[arg(long)]
        sockets: bool,
        #[command(flatten)]
        place: StateFolder,
        /// The program and its arguments
        #[arg(required = true, last = true, value_name = "CMD")]
        program: Vec<String>,
    },
    /// Ends all programs on the hosts, and removes the racks
    Down {
        #[command(flatten)]
        place: StateFolder,
    },
    /// Lists the hosts that are virtual machines, with their state
    Ls {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: StateFolder,
    },
    /// Kills a virtual machine, as a loss of power does; its programs end, and the shared memory stays
    Kill(Changed),
    /// Stops the processors of a virtual machine, as if it hung
    Stop(Changed),
    /// Continues a stopped virtual machine
    Cont(Changed),
    /// Boots a virtual machine that is down
    Boot(Changed),
    /// The process of virtual machines that are up
    #[command(name = "__guests", hide = true)]
    Guests {
        #[command(flatten)]
        place: StateFolder,
    },
    /// The process in a virtual machine that runs programs
    #[command(name = "__agent", hide = true)]
    Agent,
    /// The process of a torus or mesh that is up
    #[command(name = "__serve", hide = true)]
    Serve {
        #[command(flatten)]
        among: Among,
        #[command(flatten)]
        place: StateFolder,
    },
}

/// Virtual machine to be changed.
#[derive(clap::Args)]
struct Changed {
    /// Name or number of the host
    host: String,
    #[command(flatten)]
    place: StateFolder,
}

const LIBRARY: &str = "libunrack_mptcp.so";

/// Runs `unrack rack`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        Verb::Up { scenario, set, among, place } => {
            let read = Scenario::load(&scenario, &set.iter().collect())?;
            guests::check_free(&place.folder())?;
            if GuestRack::is_of(&read) {
                among.check_absent()?;
                direct::check_free(&place.folder())?;
                check_free(&place)?;
                return guests::up(&read, &place.folder());
            }
            let network = unrack_sim::check(read)?.network;
            if network.topology.graph().is_some() {
                return direct::up(&scenario, &set, &among, &place.folder());
            }
            among.check_absent()?;
            direct::check_free(&place.folder())?;
            let plan = place.rack()?.up(&network)?;
            print(&plan.names().lines().skip(1).map(|line| format!("{line}\n")).collect::<String>())?;
        }
        Verb::Run(args) => return run::main(&args),
        Verb::Serve { among, place } => direct::serve(&among, &place.folder())?,
        Verb::Exec { host, tcp, sockets, place, program } => {
            if let Some(rack_state) = GuestRackState::find(&place.folder())? {
                return match tcp || sockets {
                    true => Err(CommandFailure::Usage(
                        "virtual machines have no network: leave out --tcp and --sockets".into(),
                    )),
                    false => guests::exec(&rack_state, &host, &program),
                };
            }
            return exec(&place.rack()?, &host, (tcp, sockets), &program);
        }
        Verb::Ls { json, place } => guests::list(&place, json)?,
        Verb::Kill(Changed { host, place }) => guests::change(&place, &host, HostChange::Kill)?,
        Verb::Stop(Changed { host, place }) => guests::change(&place, &host, HostChange::Stop)?,
        Verb::Cont(Changed { host, place }) => guests::change(&place, &host, HostChange::Cont)?,
        Verb::Boot(Changed { host, place }) => guests::change(&place, &host, HostChange::Boot)?,
        Verb::Guests { place } => guests::serve(&place.folder())?,
        Verb::Agent => unrack_guests::agent::serve()?,
        Verb::Down { place } if direct::down(&place.folder())? || guests::down(&place.folder())? => {}
        Verb::Down { place } => match place.rack()?.down()? {
            0 => say("nothing was up"),
            1 => say("1 namespace removed"),
            several => say(&format!("{several} namespaces removed")),
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns an error if a rack of network namespaces is up in this folder.
fn check_free(place: &StateFolder) -> Result<(), CommandFailure> {
    match place.rack()?.hosts() {
        Err(_) => Ok(()),
        Ok(_) => {
            let folder = place.folder();
            let folder = folder.display();
            Err(CommandFailure::Usage(format!(
                "a rack is up in {folder} already: take it down first (`unrack rack down`), or give another --state"
            )))
        }
    }
}

/// Runs a program on a host. With `tcp`, the program's TCP sockets are left unchanged; with `sockets`, they pass bytes by reference within
/// the rack.
fn exec(
    rack: &Rack,
    host: &str,
    (tcp, sockets): (bool, bool),
    program: &[String],
) -> Result<ExitCode, CommandFailure> {
    let multipath = if tcp { None } else { Some(library().map_err(CommandFailure::Lacking)?) };
    let references =
        if sockets { Some(crate::sockets::library().map_err(CommandFailure::Lacking)?) } else { None };
    // `LD_PRELOAD` order: the `connect` of the first library calls that of the next one.
    let preloads: Vec<&Path> = references.iter().chain(&multipath).map(PathBuf::as_path).collect();
    let mut command = rack.enter(host, &preloads, program)?;
    if !sockets {
        let why = command.exec();
        return Err(CommandFailure::Lacking(format!("`ip` (package iproute2) cannot be run: {why}")));
    }
    let of_rack = |host: &NamespaceHost| {
        let namespace = rack.namespace_file(host);
        Some(SharingHost { namespace, addresses: host.addresses.clone(), rack: host.memory? })
    };
    let hosts: Vec<SharingHost> = rack.hosts()?.iter().filter_map(of_rack).collect();
    let folder = rack.sockets_folder();
    std::fs::create_dir_all(&folder)
        .map_err(|why| CommandFailure::Failed(format!("cannot make {}: {why}", folder.display())))?;
    crate::sockets::run_in_rack(&folder, &hosts, command)
}

/// Finds the library in the folder of this executable, or in the folder where it is installed.
pub(crate) fn library() -> Result<PathBuf, String> {
    let executable = std::env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/unrack").join(LIBRARY)];
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        format!(
            "{LIBRARY} is not in {}: build the whole workspace, or give --tcp to leave sockets unchanged",
            folder.display()
        )
    })
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> CommandFailure {
        match error {
            Error::Usage(text) => CommandFailure::Usage(text),
            Error::Lacking(text) => CommandFailure::Lacking(text),
            error => CommandFailure::Failed(error.to_string()),
        }
    }
}
