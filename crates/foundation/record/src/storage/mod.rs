//! Record batches in Parquet files, by the columns of the format itself.
//!
//! What tables of ours need is a few types of flat columns. The Parquet library's own conversion to Arrow covers every type
//! and nesting there is: it was a fifth of the command and of the time to build it.

mod read;
#[cfg(test)]
mod tests;
mod types;
mod write;

pub(crate) use read::Stored;
pub(crate) use write::StoredWriter;
