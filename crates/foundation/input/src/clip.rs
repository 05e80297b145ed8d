//! Clips quotations of input to one line.

use std::borrow::Cow;

/// Maximum number of characters of an input that an error quotes.
pub const WIDTH: usize = 80;
/// Number of characters that are kept from the end of a longer text.
const TAIL: usize = 20;
const GAP: char = '…';

/// Returns `text` clipped to [`WIDTH`] characters. Of a longer text, the beginning and the end are kept.
pub fn clipped(text: &str) -> Cow<'_, str> {
    clipped_to(text, WIDTH)
}

/// Returns `text` clipped to `width` characters. `width` must exceed [`WIDTH`] / 2.
pub fn clipped_to(text: &str, width: usize) -> Cow<'_, str> {
    // Counting the characters of a long text takes time, and most texts are short, so the byte length is checked first.
    let place = |n| text.char_indices().nth(n).map(|(at, _)| at);
    if text.len() <= width || place(width).is_none() {
        return text.into();
    }
    let head = place(width - TAIL - 1).unwrap_or(text.len());
    let tail = text.char_indices().nth_back(TAIL - 1).map_or(0, |(at, _)| at);
    format!("{}{GAP}{}", &text[..head], &text[tail..]).into()
}
