//! `--fail-if EXPRESSION`: a limit on results. If the expression is true, the exit status is 1.
//!
//! ```text
//! slowdown.p99>3 or completed<messages          paths of the summary's JSON, numbers, `and`, `or`, parentheses
//! completion_ns.p99 > 5us                       a value with a unit, where the path's name has one
//! fabrics.edm.slowdown > 1.05                   elements of a list, by their name or number
//! ```
//! An expression that cannot be true for any result, for example because a path is misspelt, is rejected before anything runs. A value that
//! is missing in a result (null) counts as beyond its limit, because a check that cannot be made has not been passed.

mod expression;
mod operand;
mod shape;

use crate::failure::CommandFailure;
use expression::Condition;
use serde::Serialize;
use serde_json::Value;
pub(crate) use shape::ValueShape;

/// Help text of the option.
pub(crate) const HELP: &str = "\
Exit with status 1 if this expression over the summary holds, such as 'slowdown.p99>3' or 'completed<messages or \
completion_ns.p99>5us'; a missing value makes it hold";

/// An expression, as given and as parsed.
#[derive(Debug, Clone)]
pub(crate) struct FailIf {
    text: String,
    condition: Condition,
}

impl std::str::FromStr for FailIf {
    type Err = String;
    fn from_str(text: &str) -> Result<FailIf, String> {
        Ok(FailIf { text: text.into(), condition: expression::parse(text)? })
    }
}

impl FailIf {
    /// Returns an error if the expression has a path that does not exist in results of this shape.
    pub(crate) fn check(&self, shape: &ValueShape) -> Result<(), CommandFailure> {
        let refused = |why: String| CommandFailure::Usage(format!("--fail-if '{}': {why}", self.text));
        self.condition.paths().into_iter().try_for_each(|path| shape.check(path)).map_err(refused)
    }

    /// Returns an error if the expression is true for `result`. The error has the values that make it true.
    pub(crate) fn judge(&self, result: &impl Serialize) -> Result<(), CommandFailure> {
        let result = serde_json::to_value(result).map_err(|why| CommandFailure::Failed(why.to_string()))?;
        match self.holds(&result) {
            Some(values) => Err(CommandFailure::Failed(format!("--fail-if '{}' holds: {values}", self.text))),
            None => Ok(()),
        }
    }

    /// Returns an error if the expression is true for any of these named results; see [`FailIf::judge`].
    pub(crate) fn judge_all<T: Serialize>(&self, results: &[(String, T)]) -> Result<(), CommandFailure> {
        let mut held = Vec::new();
        for (name, result) in results {
            let result =
                serde_json::to_value(result).map_err(|why| CommandFailure::Failed(why.to_string()))?;
            held.extend(self.holds(&result).map(|values| (name, values)));
        }
        let (all, count) = (results.len(), held.len());
        match held.first() {
            Some((name, values)) => Err(CommandFailure::Failed(format!(
                "--fail-if '{}' holds at {count} of {all} points, first at {name}: {values}",
                self.text
            ))),
            None => Ok(()),
        }
    }

    /// Returns a text with the values that make the expression true; `None` if it is false.
    fn holds(&self, result: &Value) -> Option<String> {
        self.condition.holds(result).map(|values| values.join(", "))
    }
}

#[cfg(test)]
mod tests;
