//! Why a verb ends early, and with which exit status.

use std::process::ExitCode;

/// The text says what is wrong and what to do; it has no `unrack:` or `error:` in front.
#[derive(Debug)]
pub enum Failure {
    /// It broke while running.
    Failed(String),
    /// The command line or the scenario is wrong.
    Usage(String),
    /// The machine or the program lacks something needed.
    Lacking(String),
}

impl Failure {
    /// Prints the reason on stderr.
    pub fn tell(self) -> ExitCode {
        let (status, text) = match self {
            Failure::Failed(text) => (1, text),
            Failure::Usage(text) => (2, text),
            Failure::Lacking(text) => (3, text),
        };
        use std::io::Write;
        // With stderr closed there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "unrack: {text}");
        ExitCode::from(status)
    }
}

impl From<unrack_record::RecordError> for Failure {
    fn from(error: unrack_record::RecordError) -> Failure {
        Failure::Failed(error.to_string())
    }
}
