//! `--budget`: the time limit of a whole command.

/// Help of the option.
pub(crate) const HELP: &str = "Time limit of the whole command, such as 90s or 2m: runs are left out, a recorded run of lines is ended early, and answers that lack what was left out are withheld. What is left of it goes into more runs where answers are too uncertain";

/// Parses its value.
pub(crate) use unrack_compare::parse_budget as parse;
