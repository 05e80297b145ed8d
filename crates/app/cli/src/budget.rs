//! `--budget`: the time limit of a whole command.

/// Help of the option.
pub(crate) const HELP: &str = "Time limit of the whole command, such as 90s or 2m. If it is too short, runs are left out, a recorded run of lines ends early, and answers that need the missing runs are withheld. Remaining time goes into more runs where answers are too uncertain";

/// Parses its value.
pub(crate) use unrack_compare::parse_budget as parse;
