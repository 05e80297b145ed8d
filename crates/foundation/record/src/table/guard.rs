//! Catches panics of a library that reads foreign files, before the panic message is printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// True while this thread executes [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `read`, or `None` if `read` panicked. Panics of other threads, and panics of this thread outside `guarded`, are
/// passed to the previously installed hook.
pub(crate) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
    let around = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(around);
    done.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_nothing_and_what_follows_is_as_before() {
        assert_eq!(guarded(|| 1), Some(1));
        assert_eq!(guarded(|| -> u8 { panic!("must not be printed") }), None);
        assert_eq!(guarded(|| guarded(|| -> u8 { panic!("nor this") })), Some(None));
        assert!(!GUARDED.get());
    }
}
