//! Figures as files: SVG as it is with its specification, PNG rendered by resvg.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use unrack_record::atomic_write;

use crate::{Picture, ReportError};

/// Pixels of a PNG per pixel of the page: sharp on dense screens and in print.
const SCALE: f32 = 2.0;

/// Writes `ID.svg` for each figure into `folder`, which is created if absent, and beside it `ID.vl.json`, its Vega-Lite
/// specification. Returns the paths, those of the specifications last.
///
/// # Errors
/// [`ReportError`] if a file or the folder cannot be written.
pub fn write_svgs(figures: &[Picture], folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, ReportError> {
    let folder = folder.as_ref();
    let mut paths = write_each(figures, folder, "svg", |figure| Ok(figure.to_svg().into_bytes()))?;
    paths.extend(write_each(figures, folder, "vl.json", |figure| Ok(figure.to_vega_lite().into_bytes()))?);
    Ok(paths)
}

/// Writes `ID.png` for each figure, as [`write_svgs`] does.
///
/// # Errors
/// [`ReportError`] if a file or the folder cannot be written, or there are no fonts.
pub fn write_pngs(figures: &[Picture], folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, ReportError> {
    let fonts = system_fonts()?;
    write_each(figures, folder.as_ref(), "png", |figure| png(figure, &fonts))
}

fn write_each(
    figures: &[Picture],
    folder: &Path,
    ending: &str,
    content: impl Fn(&Picture) -> Result<Vec<u8>, ReportError>,
) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |why| ReportError::Folder { action: "create", path: folder.into(), why };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let write = |figure: &Picture| {
        let path = folder.join(format!("{}.{ending}", figure.id));
        atomic_write(&path, &content(figure)?)?;
        Ok(path)
    };
    figures.iter().map(write).collect()
}

fn system_fonts() -> Result<Arc<fontdb::Database>, ReportError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    with_default(fonts)
}

/// Chooses an installed font as `sans-serif`.
fn with_default(mut fonts: fontdb::Database) -> Result<Arc<fontdb::Database>, ReportError> {
    let families = || fonts.faces().flat_map(|face| face.families.iter().map(|(name, _)| name.clone()));
    let preferred = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial"];
    let known = preferred.into_iter().find(|name| families().any(|family| family == *name));
    let family = known.map(String::from).or_else(|| families().next()).ok_or(ReportError::NoFonts)?;
    fonts.set_sans_serif_family(family);
    Ok(Arc::new(fonts))
}

fn png(figure: &Picture, fonts: &Arc<fontdb::Database>) -> Result<Vec<u8>, ReportError> {
    let failed = |reason: String| ReportError::Png { figure: figure.id.clone(), reason };
    let options = Options { fontdb: fonts.clone(), font_family: "sans-serif".into(), ..Options::default() };
    let tree = Tree::from_str(&figure.to_svg(), &options).map_err(|why| failed(why.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| failed("it has no size".into()))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("it is too large".into()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|why| failed(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_fonts_is_told_what_to_install() {
        let error = with_default(fontdb::Database::new()).unwrap_err();
        assert!(matches!(error, ReportError::NoFonts));
        assert!(error.to_string().contains("apt-get install fonts-dejavu-core"), "{error}");
    }
}
