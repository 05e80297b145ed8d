//! How a program ended.

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    Exited(u8),
    Signaled(u8),
}

impl ProgramEnd {
    /// Returns the exit code as a shell reports it: for a program that was killed, 128 plus the signal's number.
    pub fn code(self) -> u8 {
        match self {
            ProgramEnd::Exited(code) => code,
            ProgramEnd::Signaled(signal) => 128u8.saturating_add(signal),
        }
    }

    /// Returns whether the program ended with exit status 0.
    pub fn is_success(self) -> bool {
        self == ProgramEnd::Exited(0)
    }
}

impl std::fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            ProgramEnd::Exited(code) => write!(f, "exit status {code}"),
            ProgramEnd::Signaled(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_what_a_shell_says() {
        assert_eq!(ProgramEnd::Signaled(9).code(), 137);
        assert_eq!(ProgramEnd::Exited(3).code(), 3);
        assert!(ProgramEnd::Exited(0).is_success() && !ProgramEnd::Signaled(0).is_success());
    }
}
