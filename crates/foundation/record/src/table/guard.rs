//! Guard against panics of a library that reads files of others: caught before anything is printed of them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// True while this thread is in [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `read`, or `None` if it panicked. Panics of other threads, and of this one at other times, go
/// to the hook installed before.
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
