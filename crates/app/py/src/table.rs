//! Tables through Arrow's C interface, from which polars, pandas, pyarrow and duckdb read them without a copy.

use crate::errors::of_record;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;

/// A table that other libraries read through `__arrow_c_stream__`.
#[pyclass(frozen, module = "unrack._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the schema as a capsule `arrow_schema`.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(wrong)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Returns the rows as a capsule `arrow_array_stream`. A requested schema is only a preference, and is ignored.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: Vec<Result<RecordBatch, ArrowError>> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Reads a Parquet file.
#[pyfunction]
pub(crate) fn read_table(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let (schema, batches) =
        py.detach(|| unrack_record::read_batches(&path)).map_err(|why| of_record(&why))?;
    Ok(Table { schema, batches })
}

fn wrong(why: ArrowError) -> PyErr {
    PyValueError::new_err(why.to_string())
}
