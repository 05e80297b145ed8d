//! Reads and writes record batches in Parquet files, directly by the columns of the Parquet format.
//!
//! Unrack's tables need only a few types of flat columns. The Parquet library's conversion to Arrow is not used, because it covers every
//! type and nesting: it made up a fifth of the command's size and of its build time.

mod read;
#[cfg(test)]
mod tests;
mod types;
mod write;

pub(crate) use read::Stored;
pub(crate) use write::StoredWriter;
