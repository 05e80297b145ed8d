//! `unrack run`: a program behaves as it does natively, and its memory transfers are reported.

use crate::common;

use common::{Lab, Marked, children, compile, run_folders, stderr, wait_until};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use unrack_testing::{TestRequirement, skip};

/// Program that accesses 16 MiB in random order, and prints what it found.
const WORK: &str = r#"
n = 16 << 20
data = bytearray(n)
at = 1
for i in range(20000):
    at = (at * 1103515245 + 12345) % n
    data[at] = (data[at] + i) % 251
print(sum(data[i] * (i % 7) for i in range(0, n, 4096)), sum(data))
"#;

const FREE_LINK: [&str; 4] = ["--latency", "0ns", "--bandwidth", "10000Gbps"];

fn count(summary: &serde_json::Value, key: &str) -> u64 {
    summary[key].as_u64().unwrap_or_else(|| panic!("no {key} in {summary}"))
}

#[test]
fn output_is_the_same_and_memory_was_remote() {
    let Some(lab) = Lab::paging("same") else { return };
    let native = Command::new("python3").args(["-c", WORK]).output().unwrap();
    let (output, summary) = lab.run(&["--local", "10%"], &["python3", "-c", WORK]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(output.stdout, native.stdout);
    assert!(count(&summary, "fetches") > 1000, "{summary}");
    let (footprint, local) = (count(&summary, "footprint_bytes"), count(&summary, "local_bytes"));
    assert!(footprint > 16 << 20, "{summary}");
    assert!(local.abs_diff(footprint / 10) <= 1, "{summary}");
    let said = stderr(&output);
    let first = ["unrack: measuring the footprint", "unrack: 10% local (", "unrack: "];
    assert!(said.lines().zip(first).all(|(line, first)| line.starts_with(first)), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(count(&summary, "peak_local_bytes") < local + local / 4 + (1 << 20), "{summary}");
    let second = |key: &str| summary[key].as_f64().unwrap();
    // What other work makes of the run's time is not for a test: it is stated within what is possible, or withheld.
    match summary["expected_s"].as_f64() {
        Some(expected_s) => {
            assert!(second("native_s") <= expected_s, "{summary}");
            assert!(said.lines().last().unwrap().starts_with("unrack: about "), "{said}");
        }
        None => {
            assert!(summary["expected_withheld"]["key"].is_string(), "{summary}");
            assert!(
                said.lines().last().unwrap().contains("; withheld what it would take where a fetch"),
                "{said}"
            );
        }
    }
    assert!(lab.path("cache/unrack/footprints.json").exists());
}

#[test]
fn beside_other_work_no_time_is_expected_and_the_native_one_is_marked() {
    let Some(lab) = Lab::paging("beside-others") else { return };
    let json = lab.path("run.json");
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 8] =
        [&"run", &"--json", &json, &"--local", &"50%", &"--", &"python3", &"-c"];
    let run = |others: u32| {
        let mut command = lab.command(&arguments);
        let output = command.arg(WORK).env("UNRACK_PROC", lab.proc(others)).output().unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        (stderr(&output), summary)
    };
    let (said, busy) = run(8);
    assert!(said.contains("other work disturbed this run (8 other tasks"), "{said}");
    assert_eq!(busy["expected_withheld"]["key"], "disturbed", "{busy}");
    assert!(busy["expected_s"].is_null() && busy["native_s"].is_null(), "{busy}");
    // The footprint is remembered, and that its run was disturbed, too.
    let (said, quiet) = run(0);
    assert!(!said.contains("measuring the footprint"), "{said}");
    assert!(said.contains("other work disturbed the native run") && said.contains("--no-cache"), "{said}");
    assert!(quiet["native_s"].is_null() && quiet["footprint_bytes"] == busy["footprint_bytes"], "{quiet}");
}

/// Program that changes most of a file that it maps for itself, and then accesses as much memory that can be remote.
const CHANGES_A_FILE: &str = r#"
import mmap, sys, tempfile
n = 12 << 20
file = tempfile.TemporaryFile()
file.truncate(n)
kept = mmap.mmap(file.fileno(), n, access=mmap.ACCESS_COPY)
for at in range(0, n, 4096): kept[at] = at % 251
data = bytearray(n)
at = 1
for i in range(20000):
    at = (at * 1103515245 + 12345) % n
    data[at] = (data[at] + kept[at // 4096 * 4096] + i) % 251
print(sum(data), kept[at // 4096 * 4096])
"#;

#[test]
fn memory_that_nobody_can_take_counts_for_nothing_and_is_said() {
    let Some(lab) = Lab::paging("kept") else { return };
    let native = Command::new("python3").args(["-c", CHANGES_A_FILE]).output().unwrap();
    for share in ["25%", "10%"] {
        let (output, summary) = lab.run(&["--local", share], &["python3", "-c", CHANGES_A_FILE]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(output.stdout, native.stdout);
        let (footprint, local) = (count(&summary, "footprint_bytes"), count(&summary, "local_bytes"));
        assert!((12 << 20..20 << 20).contains(&footprint), "{summary}");
        assert!(count(&summary, "fetches") > 1000, "{summary}");
        // Twelve more would be local if these pages counted; a fork brings some back for a moment.
        assert!(count(&summary, "peak_local_bytes") < local + (6 << 20), "{summary}");
        assert!(stderr(&output).contains("more of private memory stays local"), "{}", stderr(&output));
    }
}

#[test]
fn a_failed_run_does_not_decide_the_next_ones_footprint() {
    let Some(lab) = Lab::paging("failed") else { return };
    let work = "import os, time\nif 'READY' not in os.environ: raise SystemExit(3)\nd = b'x' * (16 << 20)\ntime.sleep(0.2)";
    let run = |is_ready: bool| {
        let summary = lab.path("summary.json");
        let mut command =
            lab.command(&[&"run", &"--local=50%", &"--json", &summary, &"--", &"python3", &"-c", &work]);
        if is_ready {
            command.env("READY", "1");
        }
        let output = command.output().unwrap();
        let summary: serde_json::Value = unrack_record::read_json(&summary).unwrap();
        (output.status.code(), count(&summary, "footprint_bytes"))
    };
    let (status, little) = run(false);
    assert!(status == Some(3) && little < 16 << 20, "{status:?} {little}");
    let (status, much) = run(true);
    assert!(status == Some(0) && much > 16 << 20, "{status:?} {much}");
}

#[test]
fn a_footprint_run_that_was_killed_measures_nothing() {
    let Some(lab) = Lab::paging("cut-off") else { return };
    let mark = lab.path("second");
    let script = format!("test -e {0} && echo again; touch {0}; kill -KILL $$", mark.display());
    let output = lab.unrack(&[&"run", &"--local=25%", &"--", &"sh", &"-c", &script]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("was killed by signal 9"), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "it is not started again");
}

#[test]
fn a_footprint_that_is_given_is_not_measured() {
    let Some(lab) = Lab::paging("given") else { return };
    let mark = lab.path("runs");
    let script = format!("open({:?}, 'a').write('x'); d = b'x' * (16 << 20)", mark.display().to_string());
    let (output, summary) = lab.run(&["--local=50%", "--footprint=16MiB"], &["python3", "-c", &script]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x", "it ran once");
    assert_eq!((count(&summary, "footprint_bytes"), count(&summary, "local_bytes")), (16 << 20, 8 << 20));
    assert!(summary["native_s"].is_null(), "{summary}");
}

#[test]
fn a_service_that_is_measured_is_said_after_ten_seconds() {
    use std::io::{BufRead, BufReader};
    let Some(lab) = Lab::paging("service") else { return };
    let mut command = lab.command(&[&"run", &"--local=25%", &"--", &"sleep", &"1000"]);
    let mut unrack = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(unrack.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take(2).collect();
    assert!(said[1].contains("--footprint SIZE") && said[1].contains("output discarded"), "{said:?}");
    assert!(Command::new("kill").arg(unrack.id().to_string()).status().unwrap().success());
    assert!(!unrack.wait().unwrap().success());
}

/// Program whose eight children read what it wrote, three times.
const FAMILY: &str = r#"
import os
data = bytearray(os.urandom(4096)) * 5000
def read(n): return sum(data[i] for _ in range(3) for i in range(n, len(data), 4096)) % 250
for n in range(8):
    if os.fork() == 0: os._exit(read(n))
print(sorted(os.wait()[1] >> 8 for _ in range(8)) == sorted(read(n) for n in range(8)))
"#;

#[test]
fn memory_that_processes_share_is_one_memory() {
    let Some(lab) = Lab::paging("family") else { return };
    let (output, summary) = lab.run(&["--local", "25%"], &["python3", "-c", FAMILY]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "True\n", "{}", stderr(&output));
    let footprint = count(&summary, "footprint_bytes");
    assert!((20 << 20..60 << 20).contains(&footprint), "{summary}");
    assert!(count(&summary, "fetches") > 1000, "{summary}");
}

/// Program that locks 16 MiB, which can then not be taken, and works on them for a while.
const LOCKED: &str = r#"
import ctypes, time
data = (ctypes.c_char * (16 << 20))()
assert ctypes.CDLL(None).mlock(data, len(data)) == 0
end = time.monotonic() + 0.5
while time.monotonic() < end:
    for at in range(0, len(data), 4096): data[at] = 1
"#;

#[test]
fn memory_that_stayed_local_is_said_first() {
    let Some(lab) = Lab::paging("stayed") else { return };
    let (output, summary) = lab.run(&["--local", "25%"], &["python3", "-c", LOCKED]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(summary["warnings"][0]["key"], "not-away", "{summary}");
    assert!(stderr(&output).lines().nth(1).unwrap().starts_with("unrack: WARNING: "), "{}", stderr(&output));
}

#[test]
fn a_small_program_runs_with_all_it_needs() {
    let Some(lab) = Lab::paging("small") else { return };
    let (output, summary) = lab.run(&["--local", "10%"], &["true"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(count(&summary, "local_bytes"), 1 << 20, "{summary}");
    assert_eq!(summary["warnings"][0]["key"], "all-local", "{summary}");
}

#[test]
fn input_is_read_by_the_native_run_and_again() {
    let Some(lab) = Lab::paging("input") else { return };
    let script = "import sys; data = sys.stdin.buffer.read() * 4000; print(len(data), data[-3:])";
    let mut command = lab.command(&[&"run", &"--local", &"50%", &"--", &"python3", &"-c", &script]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &[b'x'; 4096]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "16384000 b'xxx'\n", "{}", stderr(&output));
}

#[test]
fn the_exit_status_is_the_programs() {
    let Some(lab) = Lab::paging("status") else { return };
    let (output, summary) = lab.run(&["--local", "1MiB"], &["sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(count(&summary, "exit_status"), 7);
    let (output, _) = lab.run(&["--local", "1MiB"], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15), "{}", stderr(&output));
}

#[test]
fn a_summary_goes_through_links_and_pipes_and_leaves_them() {
    let Some(lab) = Lab::paging("links") else { return };
    let (file, link) = (lab.path("file.json"), lab.path("link.json"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    lab.unrack(&[&"run", &"--local=1MiB", &"--json", &link, &"--", &"true"]);
    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"fetches\""));
    // A link of our own: if this went wrong, it must not be the machine's.
    let stream = lab.path("stream");
    std::os::unix::fs::symlink("/proc/self/fd/1", &stream).unwrap();
    let output = lab.unrack(&[&"run", &"--local=1MiB", &"--json", &stream, &"--", &"true"]);
    assert!(stream.is_symlink());
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["wall_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_fetch_is_captured() {
    let Some(lab) = Lab::paging("capture") else { return };
    let trace = lab.path("trace.parquet");
    let options = ["--local", "4MiB", "--capture", trace.to_str().unwrap()];
    let script =
        format!("import os, threading\n{WORK}\nif os.fork() == 0: data[7] = 1; os._exit(0)\nos.wait()");
    let (output, summary) = lab.run(&options, &["python3", "-c", &script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (meta, rows) = unrack_record::trace::read(&trace).unwrap();
    let of = |kind| rows.iter().filter(|row| row.kind == kind).count() as u64;
    assert_eq!(of(unrack_record::trace::Kind::Fetch), count(&summary, "fetches"));
    assert_eq!(of(unrack_record::trace::Kind::WriteBack), count(&summary, "write_backs"));
    assert!(count(&summary, "fetches") > 1000, "{summary}");
    assert_eq!((meta.local_bytes, meta.page_size, meta.program.as_str()), (4 << 20, 4096, "python3"));
    let threads = rows.iter().map(|row| row.thread).max().unwrap() + 1;
    let seen: std::collections::BTreeSet<_> = rows.iter().map(|row| row.thread).collect();
    assert_eq!(seen.len(), threads as usize, "threads are numbered without gaps");
    assert!(rows.iter().all(|row| row.t_ns <= meta.run_ns), "times are within the run");
}

#[test]
fn a_full_disk_ends_a_captured_run_with_the_reason() {
    let lab = Lab::new("full-disk");
    let script = r#"mount -t tmpfs -o size=1m none "$TMPDIR" || exit 77; exec "$@""#;
    let trace = lab.path("trace.parquet");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_unrack"), "run", "--local", "4MiB"]);
    command.arg("--capture").arg(&trace).args(["--", "python3", "-c", WORK]);
    command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
    let output = command.output().unwrap();
    if !matches!(output.status.code(), Some(0..=3)) {
        return skip(
            TestRequirement::Root,
            format!("needs root and `unshare` for a small disk: {}", stderr(&output)),
        );
    }
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no room left on disk") && !trace.exists(), "{said}");
}

#[test]
fn an_injected_latency_is_waited_for() {
    let Some(lab) = Lab::paging("latency") else { return };
    let (_, free) = lab.run(&[&["--local", "4MiB"][..], &FREE_LINK].concat(), &["python3", "-c", WORK]);
    assert!(count(&free, "fetches") > 1000, "{free}");
    let options = ["--local", "4MiB", "--latency", "200us", "--bandwidth", "10000Gbps"];
    let (_, slow) = lab.run(&options, &["python3", "-c", WORK]);
    let (fetches, wall_s) = (count(&slow, "fetches") as f64, slow["wall_s"].as_f64().unwrap());
    assert!(wall_s > fetches * 200e-6 * 0.8, "{slow}");
    assert!(count(&slow, "wait_ns") as f64 > fetches * 200e3 * 0.99, "{slow}");
}

#[test]
fn delays_are_drawn_from_completions() {
    use unrack_record::completions::{Kind, Meta, Row, Writer};
    let Some(lab) = Lab::paging("completions") else { return };
    let path = lab.path("completions.parquet");
    let mut writer = Writer::create(&path).unwrap();
    for completion_ps in [100_000_000, 300_000_000] {
        writer.push(Row { kind: Kind::Fetch, bytes: 4096, completion_ps, ideal_ps: 1 }).unwrap();
    }
    writer.finish(&Meta { fabric: "edm".into(), link_rate_bps: 100_000_000_000 }).unwrap();
    let options = ["--local", "4MiB", "--completions", path.to_str().unwrap()];
    let (output, summary) = lab.run(&options, &["python3", "-c", WORK]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(summary["delay_ns"].as_f64(), Some(200_000.0));
    let waited = count(&summary, "wait_ns") as f64 / count(&summary, "fetches") as f64;
    assert!(waited > 180_000.0, "{waited}");
}

/// Program that traces the one which it starts, so that nobody else can put a pager into that.
const TRACES: &str = r#"
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int n, char **words) {
    pid_t child = fork();
    if (n > 1 && child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        syscall(SYS_execve, words[1], words + 1, environ);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 8;
}
"#;

#[test]
fn what_runs_without_a_pager_is_named() {
    let Some(lab) = Lab::paging("unpaged") else { return };
    let (program, tracer) = (lab.path("lonely"), lab.path("traces"));
    compile("#include <unistd.h>\nint main(void) { sleep(1); return 0; }", &program, &["-static"]);
    compile(TRACES, &tracer, &[]);
    let command = [tracer.to_str().unwrap(), program.to_str().unwrap()];
    let (output, summary) = lab.run(&["--local", "1MiB"], &command);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(summary["warnings"][0]["key"], "not-preloaded", "{summary}");
    assert!(summary["warnings"].to_string().contains("preloaded into them: lonely"), "{summary}");
}

#[test]
fn what_is_left_behind_is_ended_and_named() {
    let Some(lab) = Lab::paging("left") else { return };
    let (output, summary) = lab.run(&["--local", "1MiB"], &["sh", "-c", "sleep 50 > /dev/null 2>&1 &"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        summary["warnings"].to_string().contains("that the command left behind were killed: sleep"),
        "{summary}"
    );
}

/// Interrupts `unrack run`: the program is interrupted, and nothing stays behind.
fn interrupted_by(signal: &str, status: i32) {
    let Some(lab) = Lab::paging(signal) else { return };
    let mark = lab.path("mark");
    let script = format!("touch {}; exec sleep 50", mark.display());
    let trace = lab.path("trace.parquet");
    let arguments = ["--local=1MiB", "--capture", trace.to_str().unwrap(), "--", "sh", "-c", &script];
    // Tests may run in the background, where shells ignore interrupts.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_unrack"), "run"]).args(arguments);
    let marked = Marked::new(&lab);
    marked.mark(command.env("TMPDIR", lab.path("tmp"))).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while !mark.exists() {
        assert!(start.elapsed() < Duration::from_secs(50), "the program did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let unracks = marked.named("unrack");
    let worker = unracks.iter().find_map(|guard| children(*guard).first().copied()).unwrap();
    assert_eq!(run_folders(worker, &lab.path("tmp")).len(), 2);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(status));
    assert!(start.elapsed() < Duration::from_secs(50), "the program was not interrupted");
    wait_until("nothing is left", || marked.left().is_empty());
    assert_eq!(run_folders(worker, &lab.path("tmp")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    interrupted_by("-INT", 2);
}

#[test]
fn a_request_to_end_leaves_nothing_behind() {
    interrupted_by("-TERM", 15);
}
