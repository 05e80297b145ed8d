//! Converts errors to exceptions of `unrack.errors`, whose classes make the same distinctions as the exit statuses of the command.

use pyo3::prelude::*;
use serde::Serialize;
use unrack_grid::ScenarioRunError;
use unrack_record::RecordError;

/// Exception class of `unrack.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ErrorClass {
    Refused,
    Failed,
    NotWritten,
    Lacking,
}

/// Returns an exception of this class. If the text advises the option `--replace` of the command, the text is changed to advise the Python
/// argument.
pub(crate) fn raised(class: ErrorClass, text: &str) -> PyErr {
    let text = text.replace("give --replace", "give replace=True");
    let name = match class {
        ErrorClass::Refused => "Refused",
        ErrorClass::Failed => "Failed",
        ErrorClass::NotWritten => "NotWritten",
        ErrorClass::Lacking => "Lacking",
    };
    Python::attach(|py| {
        let made = py.import("unrack.errors").and_then(|errors| errors.getattr(name)?.call1((text,)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// Converts the error of a scenario.
pub(crate) fn of_run(error: &ScenarioRunError) -> PyErr {
    let text = error.to_string();
    match error {
        ScenarioRunError::Refused(_) => raised(ErrorClass::Refused, &text),
        ScenarioRunError::Failed(_) => raised(ErrorClass::Failed, &text),
        ScenarioRunError::NotWritten { number, .. } => not_written(&text, *number),
        ScenarioRunError::Lacking(_) => raised(ErrorClass::Lacking, &text),
    }
}

/// Converts the error of a file.
pub(crate) fn of_record(error: &RecordError) -> PyErr {
    match error {
        RecordError::Io { why, .. } => not_written(&error.to_string(), why.raw_os_error()),
        _ => raised(ErrorClass::Failed, &error.to_string()),
    }
}

/// Converts the error of a run folder that cannot be created or taken over.
pub(crate) fn of_folder(error: &RecordError) -> PyErr {
    match error {
        RecordError::Io { .. } => of_record(error),
        _ => raised(ErrorClass::Refused, &error.to_string()),
    }
}

/// Returns the exception for a file that cannot be written, with the number of the system's error.
fn not_written(text: &str, number: Option<i32>) -> PyErr {
    let error = raised(ErrorClass::NotWritten, text);
    // Like every `OSError`, the exception has the attribute `errno`.
    let _ = Python::attach(|py| error.value(py).setattr("errno", number));
    error
}

/// Returns a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|why| raised(ErrorClass::Failed, &why.to_string()))
}
