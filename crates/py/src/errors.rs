//! Errors as exceptions of `unrack.errors`, which tell apart what the exit statuses of the command do.

use pyo3::prelude::*;
use serde::Serialize;
use unrack_grid::ScenarioRunError;
use unrack_record::RecordError;

/// Class of `unrack.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Refused,
    Failed,
    Lacking,
}

/// Returns an exception of this class. Where the text names an option of the command, that is an argument here.
pub(crate) fn raised(class: Class, text: &str) -> PyErr {
    let text = text.replace("give --replace", "give replace=True");
    let name = match class {
        Class::Refused => "Refused",
        Class::Failed => "Failed",
        Class::Lacking => "Lacking",
    };
    Python::attach(|py| {
        let made = py.import("unrack.errors").and_then(|errors| errors.getattr(name)?.call1((text,)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// Converts the error of a scenario.
pub(crate) fn of_run(error: &ScenarioRunError) -> PyErr {
    let class = match error {
        ScenarioRunError::Refused(_) => Class::Refused,
        ScenarioRunError::Failed(_) => Class::Failed,
        ScenarioRunError::Lacking(_) => Class::Lacking,
    };
    raised(class, &error.to_string())
}

/// Converts the error of a file.
pub(crate) fn of_record(error: &RecordError) -> PyErr {
    raised(Class::Failed, &error.to_string())
}

/// Returns a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|why| raised(Class::Failed, &why.to_string()))
}
