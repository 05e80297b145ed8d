//! Figures as files: SVG, and a Vega-Lite specification from which other tools can redraw the figure.

use std::path::{Path, PathBuf};

use unrack_record::atomic_write;

use crate::{Picture, ReportError};

/// Writes the files `ID.svg` and `ID.vl.json` (the Vega-Lite specification) of each figure into `folder`, which is created if it does not
/// exist. Returns the paths, first those of the SVG files, then those of the specifications.
///
/// # Errors
/// [`ReportError`] if a file or the folder cannot be written.
pub fn write_svgs(figures: &[Picture], folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, ReportError> {
    let folder = folder.as_ref();
    let mut paths = write_each(figures, folder, "svg", Picture::to_svg)?;
    paths.extend(write_each(figures, folder, "vl.json", Picture::to_vega_lite)?);
    Ok(paths)
}

fn write_each(
    figures: &[Picture],
    folder: &Path,
    ending: &str,
    content: impl Fn(&Picture) -> String,
) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |why| ReportError::Folder { action: "create", path: folder.into(), why };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let write = |figure: &Picture| {
        let path = folder.join(format!("{}.{ending}", figure.id));
        atomic_write(&path, content(figure).as_bytes())?;
        Ok(path)
    };
    figures.iter().map(write).collect()
}
