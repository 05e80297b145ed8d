//! Desk for tests of the `unrack` that was built with them, for verbs that need no preload library.

use std::path::Path;
use std::process::{Command, Output};
use unrack_testing::TestFolder;

/// A folder of its own for each test, removed at its end.
pub(crate) struct Desk(TestFolder);

/// Returns the path of `examples/NAME` of the repository.
pub(crate) fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    folder.join(name).display().to_string()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Desk {
    pub(crate) fn new(name: &str) -> Desk {
        Desk(TestFolder::new(name))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file, and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    pub(crate) fn unrack(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(arguments).current_dir(&self.0).output().unwrap()
    }

    /// Runs a command that has to succeed, and returns its output.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.unrack(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Runs a command that has to be refused with this exit status, and returns its message.
    pub(crate) fn refused(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.unrack(arguments);
        let said = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(status), ""), "{said}");
        said
    }
}
