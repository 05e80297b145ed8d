//! `unrack docs`: the site that is installed with the command.

use crate::desk::{Desk, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The command, as it is installed below a prefix.
struct Installed {
    desk: Desk,
    prefix: PathBuf,
}

impl Installed {
    fn new(name: &str) -> Installed {
        let desk = Desk::new(name);
        let prefix = PathBuf::from(desk.path("prefix"));
        std::fs::create_dir_all(prefix.join("bin")).unwrap();
        let (built, installed) = (env!("CARGO_BIN_EXE_unrack"), prefix.join("bin/unrack"));
        // A link cannot cross file systems.
        std::fs::hard_link(built, &installed)
            .or_else(|_| std::fs::copy(built, &installed).map(drop))
            .unwrap();
        Installed { desk, prefix }
    }

    fn with_site(&self) -> PathBuf {
        let site = self.prefix.join("share/doc/unrack/site");
        std::fs::create_dir_all(&site).unwrap();
        std::fs::write(site.join("index.html"), "<title>Unrack</title>").unwrap();
        site.join("index.html")
    }

    /// Runs the command with a browser that notes what it opens.
    fn docs(&self, more: &[&str], display: &str) -> Output {
        let opener = self.desk.file(
            "xdg-open",
            "#!/bin/sh\necho \"$1\" > \"${0%/*}/part\" && mv \"${0%/*}/part\" \"${0%/*}/opened\"\n",
        );
        assert!(Command::new("chmod").args(["+x", &opener]).status().unwrap().success());
        let path = format!("{}:/usr/bin:/bin", self.desk.path(""));
        let mut command = Command::new(self.prefix.join("bin/unrack"));
        command
            .arg("docs")
            .args(more)
            .env("PATH", path)
            .env("DISPLAY", display)
            .env_remove("WAYLAND_DISPLAY");
        command.output().unwrap()
    }

    /// Returns what the browser was asked to open, once it was.
    fn opened(&self) -> String {
        let note = self.desk.path("opened");
        let patience = Instant::now() + Duration::from_secs(60);
        while !Path::new(&note).exists() {
            assert!(Instant::now() < patience, "nothing was opened");
            std::thread::sleep(Duration::from_millis(10));
        }
        String::from_utf8(self.desk.bytes("opened")).unwrap()
    }
}

#[test]
fn the_installed_site_is_named_and_opened_on_a_display() {
    let installed = Installed::new("docs");
    let line = format!("{}\n", installed.with_site().display());
    for (more, display) in [(&["--print"][..], ":0"), (&[], "")] {
        let output = installed.docs(more, display);
        assert_eq!((stdout(&output), output.status.code()), (line.clone(), Some(0)), "{}", stderr(&output));
    }
    assert!(!Path::new(&installed.desk.path("opened")).exists());
    assert_eq!(stdout(&installed.docs(&[], ":0")), line);
    assert_eq!(installed.opened(), line);
}

#[test]
fn a_site_that_is_not_installed_is_status_3_with_what_to_do() {
    let installed = Installed::new("docs-none");
    let output = installed.docs(&["--print"], "");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(3)));
    let said = stderr(&output);
    assert!(said.contains("share/doc/unrack/site/index.html") && said.contains("make docs"), "{said}");
    let doctor = Command::new(installed.prefix.join("bin/unrack")).args(["doctor", "docs"]).output().unwrap();
    assert_eq!(doctor.status.code(), Some(3), "{}", stdout(&doctor));
}
