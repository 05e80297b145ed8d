//! `unrack run` when it is killed: everything that it started ends with it, and nothing is left.
//!
//! `unrack run` is three processes: the one that becomes the program, a guard and its worker. A kill may hit any, or the
//! latter two. `UNRACK_RUN_KILLS` sets the number of random kills, `UNRACK_RUN_KILLS_SEED` their seed.

use crate::common;

use common::{Lab, Marked, children, compile, run_folders, wait_until};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Program,
    Guard,
    Worker,
    Both,
}

const VICTIMS: [Victim; 4] = [Victim::Program, Victim::Guard, Victim::Worker, Victim::Both];

/// Script that starts processes that are hard to find again: a session of its own whose parent is gone, one process
/// after the other, one that pages, and, as $1, a program into which nothing can be preloaded.
const SCRIPT: &str = r#"
(setsid sh -c 'sleep 300' &)
setsid python3 -c '
data = bytearray(12 << 20)
while True:
    for at in range(0, len(data), 4096): data[at] ^= 1' &
if [ -n "$1" ]; then (setsid "$1" &); fi
: > "$2"
while :; do sleep 0.02; done
"#;

/// A run of that script.
struct Run {
    process: Child,
    marked: Marked,
    /// File that exists once the script has started everything.
    all_there: PathBuf,
}

impl Run {
    fn start(lab: &Lab, options: &[&str], victim: Victim) -> Run {
        let (lonely, all_there, marked) = (lab.path("lonely"), lab.path("all-there"), Marked::new(lab));
        let _ = std::fs::remove_file(&all_there);
        if !lonely.exists() {
            let source = "#include <unistd.h>\nint main(void) { for (;;) pause(); }";
            compile(source, &lonely, &["-static"]);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(["run", "--local", "6MiB"]).args(options).args(["--", "sh", "-c", SCRIPT, "sh"]);
        // When both processes of unrack are killed, only programs with a pager notice, which this one has not in fast mode.
        let has_pager = !options.contains(&"--fast");
        command.arg(if victim == Victim::Both && !has_pager { PathBuf::new() } else { lonely });
        command.arg(&all_there);
        command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
        marked.mark(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Run { process: command.spawn().unwrap(), marked, all_there }
    }

    /// Kills the victim with SIGKILL, and waits until everything is gone. Returns the folders that are left then.
    fn kill(mut self, lab: &Lab, victim: Victim) -> Vec<PathBuf> {
        let (guard, worker) = self.helpers();
        let victims: Vec<u32> = match victim {
            Victim::Program => vec![],
            Victim::Guard => guard.into_iter().collect(),
            Victim::Worker => worker.into_iter().collect(),
            Victim::Both => guard.into_iter().chain(worker).collect(),
        };
        // Killed before there were others, it is alone.
        let victims = if victims.is_empty() { vec![self.process.id()] } else { victims };
        let pids = victims.iter().map(u32::to_string);
        let _ = Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status().unwrap();
        self.process.wait().unwrap();
        wait_until("everything has ended", || self.marked.left().is_empty());
        let of = |pid| run_folders(pid, &lab.path("tmp"));
        worker.map(of).unwrap_or_default()
    }

    /// Returns the guard and its worker, as far as they exist: the worker is the child of the guard.
    fn helpers(&self) -> (Option<u32>, Option<u32>) {
        let unracks = self.marked.named("unrack");
        let worker_of = |guard: &u32| children(*guard).into_iter().find(|child| unracks.contains(child));
        match unracks.iter().find_map(|guard| Some((*guard, worker_of(guard)?))) {
            Some((guard, worker)) => (Some(guard), Some(worker)),
            None => (unracks.into_iter().find(|pid| *pid != self.process.id()), None),
        }
    }
}

fn sweep(lab: &Lab) {
    assert!(lab.unrack(&[&"completions", &"bash"]).status.success());
}

#[test]
fn everything_ends_with_unrack_and_nothing_is_left() {
    for victim in VICTIMS {
        for options in [&[][..], &["--fast"]] {
            let lab = Lab::new("killed");
            let capture = lab.path("trace.parquet");
            let options = [options, &["--capture", capture.to_str().unwrap()]].concat();
            let run = Run::start(&lab, &options, victim);
            wait_until("everything has started", || run.all_there.exists());
            // Until the pagers have something to do, and files.
            std::thread::sleep(Duration::from_millis(300));
            let left = run.kill(&lab, victim);
            assert_eq!(left.is_empty(), !matches!(victim, Victim::Both), "{victim:?} {options:?}: {left:?}");
            sweep(&lab);
            left.iter().for_each(|path| assert!(!path.exists(), "{}", path.display()));
        }
    }
}

#[test]
fn random_kills_leave_nothing() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().expect(name));
    let (kills, mut seed) = (number("UNRACK_RUN_KILLS", 6), number("UNRACK_RUN_KILLS_SEED", 16));
    let lab = Lab::new("random-kills");
    for n in 0..kills {
        // Knuth's generator: the next seed is the last number drawn.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (victim, fast, ms) =
            (VICTIMS[(seed >> 33) as usize % 3], seed >> 40 & 1 == 1, seed >> 45 & 0x7ff);
        let run = Run::start(&lab, if fast { &["--fast"] } else { &[] }, victim);
        std::thread::sleep(Duration::from_millis(ms));
        let left = run.kill(&lab, victim);
        sweep(&lab);
        let left: Vec<_> = left.into_iter().filter(|path| path.exists()).collect();
        assert!(left.is_empty(), "kill {n}: {victim:?} after {ms} ms, fast {fast}: {left:?}");
    }
}

#[test]
fn the_exit_status_says_that_the_worker_was_killed() {
    let lab = Lab::new("status-killed");
    let run = Run::start(&lab, &[], Victim::Worker);
    wait_until("everything has started", || run.all_there.exists());
    let (_, worker) = run.helpers();
    let Run { mut process, marked, .. } = run;
    assert!(Command::new("kill").args(["-9", &worker.unwrap().to_string()]).status().unwrap().success());
    // The kernel kills what the worker traced.
    assert_eq!(process.wait().unwrap().signal(), Some(9));
    wait_until("everything has ended", || marked.left().is_empty());
}

#[test]
fn the_next_start_of_any_verb_sweeps_what_is_dead_and_ours() {
    let lab = Lab::new("look-alikes");
    let tmp = lab.path("tmp");
    let alive = unrack_record::temporary::TemporaryFolder::within(&tmp).unwrap();
    let planted = |name: &str| {
        let folder = tmp.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(".unrack-lock"), "").unwrap();
        std::fs::write(folder.join("spool-00000000"), "x").unwrap();
        folder
    };
    let (dead, foreign) = (planted("unrack-1-1"), planted("unrack-1-2"));
    let is_root = std::os::unix::fs::chown(&foreign, Some(65534), None).is_ok();
    let unmarked = tmp.join("unrack-1-3");
    std::fs::create_dir(&unmarked).unwrap();
    sweep(&lab);
    assert!(!dead.exists() && alive.whole().exists() && unmarked.exists());
    assert_eq!(foreign.exists(), is_root, "only root can plant a folder of another user");
}

#[test]
fn a_run_folder_is_swept_when_it_is_used_again() {
    let lab = Lab::new("parts");
    let out = lab.path("out");
    let sim = || {
        let scenario = lab.path("scenario.toml");
        let text = "seed = 1\n[network]\ntopology = { kind = \"star\", nodes = 4 }\nlink = { rate = \"100Gbps\", \
                    propagation = \"10ns\" }\n[fabric]\nprotocol = \"edm\"\n[workload]\nkind = \"memory\"\n\
                    size = \"64B\"\nload = 0.5\nmessages = 100\n";
        std::fs::write(&scenario, text).unwrap();
        let output = lab.unrack(&[&"sim", &scenario, &"--out", &out]);
        assert!(output.status.success(), "{}", common::stderr(&output));
    };
    sim();
    let dead = out.join(".messages.parquet.999999-0.part");
    std::fs::write(&dead, "half").unwrap();
    sim();
    assert!(!dead.exists());
}
