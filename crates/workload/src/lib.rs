//! What a rack is asked to do: messages, sizes, arrivals, captured traces.
