//! Kernel that guests boot: the newest kernel on this machine that is installed with its modules.

use crate::modules::Modules;
use std::cmp::Ordering;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use unrack_live::Error;

const BOOT: &str = "/boot";
const MODULES: &str = "/lib/modules";
const PREFIX: &str = "vmlinuz-";
const HOW: &str =
    "install one with its modules: on Debian, the package linux-image-amd64; on Ubuntu, linux-image-generic";

/// Installed kernel.
#[derive(Debug)]
pub(crate) struct InstalledKernel {
    pub(crate) version: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: Modules,
}

impl InstalledKernel {
    /// Finds the newest kernel.
    ///
    /// # Errors
    /// [`Error::Lacking`] if no kernel is installed with its modules, or if this user may not read it.
    pub(crate) fn find() -> Result<InstalledKernel, Error> {
        InstalledKernel::find_in(Path::new(BOOT), Path::new(MODULES))
    }

    fn find_in(boot: &Path, modules: &Path) -> Result<InstalledKernel, Error> {
        let entries = std::fs::read_dir(boot).into_iter().flatten().flatten();
        let versions =
            entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(PREFIX)?.to_string()));
        let mut versions: Vec<String> = versions.collect();
        if versions.is_empty() {
            return Err(Error::Lacking(format!("no kernel is in {}: {HOW}", boot.display())));
        }
        versions.sort_by(|a, b| by_number(b, a));
        let Some(version) =
            versions.iter().find(|version| modules.join(version).join("modules.dep").exists())
        else {
            let (version, modules) = (&versions[0], modules.display());
            return Err(Error::Lacking(format!(
                "the modules of kernel {version} are not in {modules}: {HOW}"
            )));
        };
        let image = boot.join(format!("{PREFIX}{version}"));
        if let Err(why) = std::fs::File::open(&image) {
            let image = image.display();
            return Err(Error::Lacking(format!("{image} cannot be read ({why}): `sudo chmod +r {image}`")));
        }
        Ok(InstalledKernel {
            modules: Modules::read(&modules.join(version))?,
            version: version.clone(),
            image,
        })
    }

    /// Returns the kernel as an ELF file, which QEMU starts without unpacking it in the guest. If QEMU emulates the processor, unpacking in
    /// the guest takes seconds. Returns `None` if the kernel cannot be unpacked here.
    pub(crate) fn unpacked(&self) -> Option<Vec<u8>> {
        let image = std::fs::read(&self.image).ok()?;
        let unpacked = unpack(payload(&image)?).ok()?;
        unpacked.starts_with(b"\x7fELF").then_some(unpacked)
    }
}

/// Returns the packed kernel in an image, which Linux's boot protocol 2.08 locates by `payload_offset` and `payload_length`. The last 4
/// bytes of the payload are left out, because they are the size of the unpacked kernel.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        several => usize::from(several),
    };
    let start = ((sectors + 1) * 512).checked_add(number(0x248)?)?;
    let end = start.checked_add(number(0x24c)?)?.checked_sub(4)?;
    (image.get(0x202..0x206)? == b"HdrS").then_some(())?;
    image.get(start..end)
}

/// Packers: the magic bytes of their files, and the program that unpacks such files.
const PACKERS: [(&[u8], &str); 3] =
    [(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b", "gzip")];

/// Unpacks data that xz, zstd or gzip has packed. Other data is returned unchanged.
///
/// # Errors
/// [`Error::Lacking`] if the program that unpacks the data is not installed; [`Error::Broken`] if it fails.
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, Error> {
    let Some((_, program)) = PACKERS.iter().find(|(magic, _)| packed.starts_with(magic)) else {
        return Ok(packed.to_vec());
    };
    let failed = |why: &str| Error::Broken(format!("{program} cannot unpack a part of the kernel: {why}"));
    let mut command = Command::new(program);
    command.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|why| match why.kind() {
        ErrorKind::NotFound => {
            Error::Lacking(format!("`{program}` is not installed: it unpacks the kernel's files"))
        }
        _ => failed(&why.to_string()),
    })?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // Ignore a failed write, because the exit status shows whether the program read all of its input.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(packed)));
        child.wait_with_output()
    });
    let output = output.map_err(|why| failed(&why.to_string()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failed(&output.status.to_string())),
    }
}

/// Compares versions by their numbers, so that 6.10 is newer than 6.9.
fn by_number(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    #[test]
    fn the_newest_kernel_with_modules_is_found() {
        let folder = TestFolder::new("kernel");
        let (boot, modules) = (folder.join("boot"), folder.join("modules"));
        let find = || {
            InstalledKernel::find_in(&boot, &modules)
                .map(|kernel| kernel.version)
                .map_err(|why| why.to_string())
        };
        assert!(find().unwrap_err().contains("linux-image-amd64"));
        std::fs::create_dir(&boot).unwrap();
        for version in ["6.9.0-1", "6.10.0-2", "6.11.0-1"] {
            std::fs::write(boot.join(format!("vmlinuz-{version}")), "").unwrap();
        }
        assert!(find().unwrap_err().contains("modules of kernel 6.11.0-1 are not in"));
        for version in ["6.9.0-1", "6.10.0-2"] {
            let of = modules.join(version);
            std::fs::create_dir_all(&of).unwrap();
            std::fs::write(of.join("modules.dep"), "").unwrap();
            std::fs::write(of.join("modules.builtin"), "").unwrap();
        }
        assert_eq!(find().unwrap(), "6.10.0-2");
    }

    #[test]
    fn a_payload_is_where_the_header_says() {
        let mut image = vec![0; 2048];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248] = 16;
        image[0x24c] = 12;
        image[1040..1048].copy_from_slice(b"unpacked");
        assert_eq!(unpack(payload(&image).unwrap()).unwrap(), b"unpacked");
        for broken in [&image[..1044], &image[..0x204], &[]] {
            assert!(payload(broken).is_none());
        }
        image[0x24f] = 0xff;
        assert!(payload(&image).is_none());
    }

    #[test]
    fn what_gzip_packed_is_unpacked() {
        let packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00";
        assert_eq!(unpack(packed).unwrap(), b"hello");
        assert!(matches!(unpack(&packed[..15]), Err(Error::Broken(_))));
    }
}
