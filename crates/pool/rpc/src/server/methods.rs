//! Handlers of methods, by number.

use super::call::{Call, CallRefusal};
use crate::error::Error;
use crate::method::Method;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a handler: success, or a refusal with a status that the service defines.
pub type Answered = Result<(), CallRefusal>;

/// Writer of the parts of a stream. Each call writes one part and returns whether more follow.
pub type PartSource = Box<dyn FnMut(&mut Call<'_>) -> Result<bool, CallRefusal> + Send>;

type Handles<T> = Box<dyn Fn(&mut Call<'_>) -> Result<T, CallRefusal> + Send + Sync>;

/// Handler of a method.
pub(crate) enum Handler {
    Plain(Handles<()>),
    Stream(Handles<PartSource>),
}

/// Handlers of all methods. [`finish`](Methods::finish) sorts them by number.
#[derive(Default)]
pub(crate) struct Methods {
    all: Vec<(Method, String, Handler)>,
    gone: Option<Gone>,
}

/// Callback that runs for each client that is gone.
type Gone = Box<dyn Fn(u64) + Send + Sync>;

impl Methods {
    /// Adds a method.
    pub(crate) fn add(&mut self, name: &str, handler: Handler) {
        self.all.push((Method::named(name), name.to_string(), handler));
    }

    /// Sets the callback that runs for each client that is gone.
    pub(crate) fn when_gone(&mut self, gone: Gone) {
        self.gone = Some(gone);
    }

    /// Runs the callback for a client that is gone and whose calls have all ended. If the callback panics, no other
    /// client is affected.
    pub(crate) fn tell_gone(&self, client: u64) {
        if let Some(gone) = &self.gone {
            let _ = catch_unwind(AssertUnwindSafe(|| gone(client)));
        }
    }

    /// Sorts the handlers by number.
    ///
    /// # Errors
    /// If two names have the same number.
    pub(crate) fn finish(mut self) -> Result<Methods, Error> {
        self.all.sort_by_key(|&(number, ..)| number);
        match self.all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some([first, second]) => Err(Error::SameNumber(first.1.clone(), second.1.clone())),
            _ => Ok(self),
        }
    }

    /// Returns the handler of the method with this number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Handler> {
        let at = self.all.binary_search_by_key(&Method(number), |&(number, ..)| number).ok()?;
        Some(&self.all[at].2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Handler {
        Handler::Plain(Box::new(|_| Ok(())))
    }

    #[test]
    fn methods_are_found_and_names_that_collide_refused() {
        let mut methods = Methods::default();
        for name in ["kv.get", "kv.put", "echo"] {
            methods.add(name, nothing());
        }
        let methods = methods.finish().unwrap();
        assert!(methods.get(Method::named("echo").0).is_some());
        assert!(methods.get(Method::named("ech").0).is_none());

        // Two words with the same 32-bit FNV-1a value, a known collision.
        let mut methods = Methods::default();
        methods.add("costarring", nothing());
        methods.add("liquid", nothing());
        assert!(matches!(methods.finish(), Err(Error::SameNumber(..))));
    }
}
