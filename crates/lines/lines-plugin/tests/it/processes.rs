//! Programs of many processes: output and status are those without the plugin, and each process has its record.

use crate::common::{Kept, compiled, native, recorded, tools, total, words};
use std::os::unix::process::ExitStatusExt;
use unrack_lines::summary::RecordEnding;
use unrack_lines_run::Options;
use unrack_testing::{TestFolder, TestRequirement, skip};

/// Runs a command both ways, and checks that they do the same.
#[track_caller]
fn same(command: &[&str], folder: &TestFolder) -> Option<Kept> {
    let tools = tools()?;
    let command = words(command);
    let expected = native(&command, folder);
    let kept = recorded(&tools, &command, &Options::default(), folder);
    assert_eq!(kept.out, String::from_utf8_lossy(&expected.stdout), "{}", kept.err);
    assert_eq!(kept.run.status.code(), expected.status.code(), "{}", kept.err);
    assert_eq!(kept.run.status.signal(), expected.status.signal(), "{}", kept.err);
    for process in &kept.run.processes {
        assert_eq!(process.summary.error, None, "{}", process.summary.program);
    }
    Some(kept)
}

/// Returns the names of the programs that have a record, without their folders, in alphabetical order.
fn programs(kept: &Kept) -> Vec<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let mut names: Vec<String> =
        kept.run.processes.iter().map(|process| name(&process.summary.program)).collect();
    names.sort();
    names
}

#[test]
fn pipelines_of_a_shell() {
    let folder = TestFolder::new("pipeline");
    let script =
        "printf '3\\n1\\n2\\n' | sort -n | head -n 2; x=$(printf abc | wc -c); echo $x; (exit 4); exit $?";
    let Some(kept) = same(&["bash", "-c", script], &folder) else { return };
    let names = programs(&kept);
    for program in ["sort", "head", "wc"] {
        assert_eq!(names.iter().filter(|name| *name == program).count(), 1, "{names:?}");
    }
    let instructions = |process| total(process, |thread| thread.instructions);
    assert!(kept.run.processes.iter().all(|process| instructions(process) > 0));
}

#[test]
fn scripts_and_missing_programs() {
    let folder = TestFolder::new("scripts");
    std::fs::write(folder.join("one"), "#!/bin/sh -e\necho \"$0\" \"$@\"\n./two a 'b c'\n").unwrap();
    std::fs::write(folder.join("two"), "#! /usr/bin/env sh\necho \"$@\"; ./three\n").unwrap();
    // Without a first line for the kernel: the shell runs it itself.
    std::fs::write(folder.join("three"), "echo three; ./absent; exit 9\n").unwrap();
    for name in ["one", "two", "three"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.join(name), mode).unwrap();
    }
    let Some(kept) = same(&["sh", "-c", "./one x 'y z'"], &folder) else { return };
    let programs = programs(&kept);
    assert!(programs.contains(&"env".to_owned()), "{programs:?}");
    assert!(kept.run.processes.iter().all(|process| process.summary.left.is_empty()));
}

#[test]
fn forks_of_forks_leave_a_record_each() {
    let folder = TestFolder::new("forks");
    let source = "
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static long work(long n) { volatile long sum = 0; while (n--) sum += n; return sum; }
        int main(void) {
            for (int i = 0; i < 5; i++) fork();
            work(20000);
            while (wait(0) > 0) {}
            return 0;
        }";
    let program = compiled(&folder, "forks", source, &["-O1"]);
    let Some(kept) = same(&[program.to_str().unwrap()], &folder) else { return };
    assert_eq!(kept.run.processes.len(), 32);
    let mut parents = 0;
    for process in &kept.run.processes {
        assert_eq!(process.summary.ending, RecordEnding::Exit);
        // Each loop is one load and one store of `sum`: nothing of it is in two records.
        let stores = total(process, |thread| thread.stores);
        assert!((20_000..40_000).contains(&stores), "{stores}");
        parents += (stores > 20_000 + 2_000) as u32;
    }
    assert!(parents <= 1, "only the first process has loaded the program: {parents}");
}

#[test]
fn static_programs_and_descriptors() {
    let folder = TestFolder::new("static");
    let source = "
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            // The plugin holds no descriptor that a program could close, and takes no number from it.
            for (int i = 3; i < 64; i++) close(i);
            printf(\"%d %s\\n\", open(\"/dev/null\", O_RDONLY), argc > 1 ? argv[1] : \"first\");
            fflush(stdout);
            char *next[] = {argv[0], \"second\", 0}, *environment[] = {\"A=1\", 0};
            if (argc == 1) fexecve(open(argv[0], O_RDONLY | O_CLOEXEC), next, environment);
            return 6;
        }";
    let program = compiled(&folder, "static", source, &["-static"]);
    let Some(kept) = same(&[program.to_str().unwrap()], &folder) else { return };
    let endings: Vec<RecordEnding> =
        kept.run.processes.iter().map(|process| process.summary.ending).collect();
    assert_eq!(endings, [RecordEnding::Exec, RecordEnding::Exit]);
}

#[test]
fn processes_that_signals_end() {
    let folder = TestFolder::new("signals");
    let source = "
        #include <signal.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            volatile long sum = 0;
            for (long i = 0; i < 3000000; i++) sum += i;
            raise(atoi(argv[1]));
            return 0;
        }";
    let program = compiled(&folder, "signals", source, &["-O1"]);
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT] {
        let Some(kept) = same(&[program.to_str().unwrap(), &signal.to_string()], &folder) else { return };
        let [process] = &kept.run.processes[..] else { panic!("{} records", kept.run.processes.len()) };
        assert_eq!(process.summary.ending, RecordEnding::Killed);
        assert!(total(process, |thread| thread.loads) >= 3_000_000, "signal {signal}");
        let mut recording = process.open().unwrap().expect("windows of nine million instructions");
        let mut windows = 0;
        while recording.next_window().unwrap().is_some() {
            windows += 1;
        }
        assert!(windows > 0);
    }
}

#[test]
fn signals_that_are_handled() {
    let folder = TestFolder::new("handled");
    let source = "
        #include <setjmp.h>
        #include <signal.h>
        #include <stdio.h>
        static sigjmp_buf back;
        static volatile int count;
        static void on_fault(int signal) { siglongjmp(back, signal); }
        static void on_user(int signal) { count++; }
        int main(void) {
            signal(SIGSEGV, on_fault);
            signal(SIGUSR1, on_user);
            for (int i = 0; i < 100; i++) {
                raise(SIGUSR1);
                if (!sigsetjmp(back, 1)) *(volatile int *)16 = 1;
                count++;
            }
            printf(\"%d\\n\", count);
            return 0;
        }";
    let program = compiled(&folder, "handled", source, &["-O1"]);
    same(&[program.to_str().unwrap()], &folder);
}

#[test]
fn python() {
    let folder = TestFolder::new("python");
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return skip(TestRequirement::Python3, "python3 is not installed");
    }
    let script = "import json, subprocess, threading\n\
        t = [threading.Thread(target=lambda: sum(range(1000))) for _ in range(4)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n\
        print(json.dumps(sorted({'b': 1, 'a': [2.5, None]})))\n\
        print(subprocess.run(['sh', '-c', 'echo sub; exit 3'], capture_output=True))\n";
    let Some(kept) = same(&["python3", "-c", script], &folder) else { return };
    assert!(kept.run.processes.iter().any(|process| process.summary.threads.len() >= 5));
}

/// Takes every mapping that the kernel gives, and then works on memory of its own.
const MAPPINGS: &str = "
    #define _GNU_SOURCE
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    int main(void) {
        char *own = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int k = 0; k < 100000; k++) {
            int protection = k & 1 ? PROT_READ : PROT_READ | PROT_WRITE;
            if (mmap(0, 8192, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
        }
        memset(own, 7, 4 << 20);
        printf(\"%d\\n\", own[12345]);
        return 0;
    }";

#[test]
fn a_program_may_take_all_mappings() {
    let folder = TestFolder::new("all-mappings");
    let program = compiled(&folder, "mappings", MAPPINGS, &["-O1"]);
    let Some(kept) = same(&[program.to_str().unwrap()], &folder) else { return };
    assert_eq!(kept.out, "7\n");
}
