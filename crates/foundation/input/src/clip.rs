//! Clipping of quotations to a line.

use std::borrow::Cow;

/// Largest number of characters of an input that an error quotes.
pub const WIDTH: usize = 80;
/// Characters kept of the end of a longer text.
const TAIL: usize = 20;
const GAP: char = '…';

/// Returns `text` in at most [`WIDTH`] characters: of a longer one, the beginning and the end.
pub fn clipped(text: &str) -> Cow<'_, str> {
    clipped_to(text, WIDTH)
}

/// Returns `text` in at most `width` characters, which must be more than [`WIDTH`] / 2.
pub fn clipped_to(text: &str, width: usize) -> Cow<'_, str> {
    // Most texts are short, and counting the characters of a long one takes time.
    let place = |n| text.char_indices().nth(n).map(|(at, _)| at);
    if text.len() <= width || place(width).is_none() {
        return text.into();
    }
    let head = place(width - TAIL - 1).unwrap_or(text.len());
    let tail = text.char_indices().nth_back(TAIL - 1).map_or(0, |(at, _)| at);
    format!("{}{GAP}{}", &text[..head], &text[tail..]).into()
}
