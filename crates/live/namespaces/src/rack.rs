//! Racks of namespaces: racks that are running, half built, or left behind by a crash.

use crate::plan::{NamespaceHost, NamespacePlan};
use crate::tools::{batch, settings};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use unrack_basis::fnv_1a;
use unrack_live::{Error, folder, iproute2::run};
use unrack_rack::NetworkSpec;

/// The rack of a state folder.
#[derive(Debug)]
pub struct Rack {
    folder: PathBuf,
    prefix: String,
}

/// Content of the state file of a running rack.
#[derive(serde::Serialize, serde::Deserialize)]
struct State {
    hosts: Vec<NamespaceHost>,
    nics: u32,
}

/// Shell script that runs a program in a new mount namespace, in which `/etc/hosts` names the rack's hosts.
const ENTER: &str = r#"mount --bind "$1" /etc/hosts || exit 1
if [ -n "$2" ]; then LD_PRELOAD="$2${LD_PRELOAD:+:$LD_PRELOAD}" UNRACK_NICS=$3; export LD_PRELOAD UNRACK_NICS; fi
shift 3; exec "$@""#;

impl Rack {
    /// Returns the rack of this folder, whether it is running or not.
    ///
    /// # Errors
    /// Fails if the path cannot be made absolute.
    pub fn at(folder: &Path) -> Result<Rack, Error> {
        let folder = std::path::absolute(folder).map_err(file(folder))?;
        // The prefix is a hash of the folder, so that the same folder always gives the same names.
        let hash = fnv_1a(folder.as_os_str().as_encoded_bytes());
        Ok(Rack { prefix: format!("unrack-{:08x}", hash as u32 ^ (hash >> 32) as u32), folder })
    }

    /// Builds a rack for this network. If that fails, the rack is removed again.
    ///
    /// # Errors
    /// [`Error::Usage`] if the network cannot be emulated or a rack exists already; [`Error::Lacking`] if the machine cannot emulate it.
    pub fn up(&self, network: &NetworkSpec) -> Result<NamespacePlan, Error> {
        let plan = NamespacePlan::new(network, &self.prefix)?;
        crate::machine::check_machine()?;
        let claim = self.claim(&plan)?;
        let built = crate::machine::try_tools(&self.prefix)
            .and_then(|()| build(&plan))
            .and_then(|()| self.write("hosts", &plan.names()));
        drop(claim);
        match built {
            Ok(()) => Ok(plan),
            Err(error) => {
                // Report the first error, because it is more specific than a failure of `down`.
                let _ = self.down();
                Err(error)
            }
        }
    }

    /// Claims the folder. If two processes try at once, one of them succeeds. The state file stays locked until it is closed in this
    /// process and in the tools that inherit it, because a tool may outlive a process that was killed.
    fn claim(&self, plan: &NamespacePlan) -> Result<File, Error> {
        folder::claim(&self.folder)?;
        if !self.namespaces()?.is_empty() {
            return Err(self.is_up());
        }
        let path = self.folder.join(STATE);
        let made = File::create_new(&path).map_err(|why| match why.kind() {
            ErrorKind::AlreadyExists => self.is_up(),
            _ => file(&path)(why),
        })?;
        flock(&made, FlockOperation::LockExclusive).map_err(|why| file(&path)(why.into()))?;
        fcntl_setfd(&made, FdFlags::empty()).map_err(|why| file(&path)(why.into()))?;
        let state = State { hosts: plan.hosts.clone(), nics: plan.nics };
        self.write(STATE, &serde_json::to_string(&state).expect("names and addresses"))?;
        Ok(made)
    }

    /// Waits until no process is building a rack in this folder.
    fn wait_for_builders(&self) -> Result<(), Error> {
        let path = self.folder.join(STATE);
        let Ok(claimed) = File::open(&path) else { return Ok(()) };
        for _ in 0..MOST_ROUNDS {
            if flock(&claimed, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(());
            }
            std::thread::sleep(ROUND);
        }
        let folder = self.folder.display();
        Err(Error::Usage(format!("a rack is being built in {folder}: wait for `rack up`, or end it")))
    }

    fn is_up(&self) -> Error {
        let folder = self.folder.display();
        Error::Usage(format!(
            "there is a rack in {folder} already, or what is left of one: take it down first"
        ))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).map_err(file(&path))
    }

    /// Returns the hosts of the running rack.
    ///
    /// # Errors
    /// [`Error::Usage`] if no rack is running.
    pub fn hosts(&self) -> Result<Vec<NamespaceHost>, Error> {
        Ok(self.state()?.hosts)
    }

    fn state(&self) -> Result<State, Error> {
        folder::check(&self.folder)?;
        let path = self.folder.join(STATE);
        let text = std::fs::read_to_string(&path).map_err(|why| match why.kind() {
            ErrorKind::NotFound => Error::Usage(format!("no rack is up in {}", self.folder.display())),
            _ => file(&path)(why),
        })?;
        let state: State = serde_json::from_str(&text).map_err(|why| {
            Error::Usage(format!("{} is not what `up` wrote ({why}): take the rack down", path.display()))
        })?;
        // A state file may have any content, so only namespaces of this folder are accepted.
        if !state.hosts.iter().all(|host| self.has(&host.namespace)) {
            return Err(Error::Usage(format!("{} is of another folder", path.display())));
        }
        Ok(state)
    }

    fn has(&self, namespace: &str) -> bool {
        namespace.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('-') && !rest.contains('/'))
    }

    /// Returns the file of a host's network namespace.
    pub fn namespace_file(&self, host: &NamespaceHost) -> PathBuf {
        Path::new(NAMES).join(&host.namespace)
    }

    /// Returns the folder for the broker of sockets by reference. [`down`](Rack::down) removes this folder with all its files.
    pub fn sockets_folder(&self) -> PathBuf {
        self.folder.join("sockets")
    }

    /// Returns the command that runs a program on a host, which is given by number or name. `preloads` are libraries that are loaded into
    /// the program, in this order.
    ///
    /// # Errors
    /// [`Error::Usage`] if the host does not exist, or no rack is running.
    pub fn enter(&self, host: &str, preloads: &[&Path], program: &[String]) -> Result<Command, Error> {
        let state = self.state()?;
        let number = host.strip_prefix("host").unwrap_or(host).parse::<usize>().ok();
        let found = number.and_then(|number| state.hosts.get(number)).ok_or_else(|| {
            Error::Usage(format!(
                "there is no host `{host}`: they are 0 to {}",
                state.hosts.len().saturating_sub(1)
            ))
        })?;
        let preloads: Vec<&OsStr> = preloads.iter().map(|path| path.as_os_str()).collect();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &found.namespace, "sh", "-c", ENTER, "sh"]);
        command
            .arg(self.folder.join("hosts"))
            .arg(preloads.join(OsStr::new(":")))
            .arg(state.nics.to_string());
        command.args(program);
        Ok(command)
    }

    /// Kills the programs on the hosts, and removes the rack. Returns how many namespaces were removed.
    ///
    /// # Errors
    /// Fails if a part of the rack cannot be removed.
    pub fn down(&self) -> Result<usize, Error> {
        folder::check(&self.folder)?;
        self.wait_for_builders()?;
        let namespaces = self.namespaces()?;
        for namespace in &namespaces {
            for _ in 0..MOST_ROUNDS {
                let processes = run("ip", &["netns", "pids", namespace], "")?;
                let processes: Vec<&str> = processes.split_whitespace().collect();
                if processes.is_empty() {
                    break;
                }
                processes.iter().filter_map(|id| id.parse().ok()).for_each(kill);
                std::thread::sleep(ROUND);
            }
        }
        for namespace in &namespaces {
            run("ip", &["netns", "delete", namespace], "")?;
        }
        for name in [STATE, "hosts"] {
            let path = self.folder.join(name);
            match std::fs::remove_file(&path) {
                Err(why) if why.kind() != ErrorKind::NotFound => return Err(file(&path)(why)),
                _ => {}
            }
        }
        // A broker that served there ends with its program, which may remove the same files.
        let _ = std::fs::remove_dir_all(self.sockets_folder());
        // Ignore errors, because removing the folder should fail if the user keeps other files there.
        let _ = std::fs::remove_dir(&self.folder);
        Ok(namespaces.len())
    }

    /// Returns the names of the existing namespaces that belong to this folder.
    fn namespaces(&self) -> Result<Vec<String>, Error> {
        let names = match std::fs::read_dir(NAMES) {
            Ok(names) => names,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(file(Path::new(NAMES))(why)),
        };
        let mine = format!("{}-", self.prefix);
        let mut names: Vec<String> = names
            .filter_map(|name| name.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(&mine))
            .collect();
        names.sort();
        Ok(names)
    }
}

const STATE: &str = "rack.json";
/// Folder in which `ip netns` keeps namespaces.
const NAMES: &str = "/run/netns";
/// Maximum number of rounds of waiting. Several are needed because a killed process may have started another one, and because building a
/// rack takes seconds.
const MOST_ROUNDS: u32 = 500;
const ROUND: Duration = Duration::from_millis(20);

fn build(plan: &NamespacePlan) -> Result<(), Error> {
    let spaces = &plan.spaces;
    spaces.iter().try_for_each(|space| run("ip", &["netns", "add", &space.name], "").map(drop))?;
    spaces.iter().try_for_each(|space| batch("ip", &space.name, &space.links))?;
    spaces.iter().try_for_each(|space| settings(&space.name, &space.settings))?;
    spaces.iter().try_for_each(|space| batch("ip", &space.name, &space.routes))?;
    spaces.iter().try_for_each(|space| batch("tc", &space.name, &space.shapes))
}

fn kill(id: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(id) = Pid::from_raw(id) {
        // Ignore errors, because the process may be gone already.
        let _ = kill_process(id, Signal::KILL);
    }
}

fn file(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |why| Error::File { path: path.clone(), why }
}
