//! `unrack __definition`: prints the subcommands and their arguments as JSON, from which the Python functions are generated.

use crate::failure::CommandFailure;
use crate::stdout::print;
use clap::{Arg, ArgAction, Command};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Runs `unrack __definition`.
pub(crate) fn main(mut command: Command) -> Result<ExitCode, CommandFailure> {
    command.build();
    let text = serde_json::to_string_pretty(&below(&command)).expect("JSON values are printed");
    print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the subcommands of a command that its help shows.
fn below(command: &Command) -> Value {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    shown.map(defined).collect()
}

fn defined(verb: &Command) -> Value {
    let arguments = verb.get_arguments().filter(|one| !one.is_hide_set() && !is_help(one));
    json!({
        "name": verb.get_name(),
        "about": verb.get_about().map(ToString::to_string),
        "arguments": arguments.map(argument).collect::<Value>(),
        "verbs": below(verb),
    })
}

fn is_help(argument: &Arg) -> bool {
    matches!(
        argument.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

fn argument(one: &Arg) -> Value {
    let takes = one.get_action().takes_values();
    let values = one.get_num_args().unwrap_or_default();
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    json!({
        "name": one.get_id().as_str(),
        // `None`: the argument is identified by its position.
        "long": one.get_long(),
        "help": one.get_help().map(ToString::to_string),
        "is_flag": !takes,
        // The argument takes several values, as separate words or in one word.
        "is_list": takes && (matches!(one.get_action(), ArgAction::Append) || values.max_values() > 1),
        "delimiter": one.get_value_delimiter(),
        "is_required": one.is_required_set(),
        "defaults": one.get_default_values().iter().map(|value| text(value)).collect::<Vec<_>>(),
        "choices": one.get_possible_values().iter().map(|value| value.get_name().to_string()).collect::<Vec<_>>(),
    })
}
