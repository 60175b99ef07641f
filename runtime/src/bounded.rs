//! Files that somebody else wrote, read within bounds: whoever names `/dev/zero` or a pipe gets an error, and not all memory or no end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// More than any file has that Gantry reads as a whole.
const MOST_BYTES: u64 = 16 << 20;

/// The bytes of a file. Devices such as `/dev/null` are read, too.
///
/// # Errors
/// What the system said; a file of more than 16 MiB; a pipe, a socket or a disk.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    bytes_of(open(path)?)
}

/// Opens a file to read.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Without the flag a pipe that nobody writes to holds `open` for ever.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

fn bytes_of(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {} MiB", MOST_BYTES >> 20)));
    }
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
/// Those of [`read`], and bytes that are no UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    text_of(open(path)?)
}

/// The text of a file that is open.
pub(crate) fn text_of(file: File) -> io::Result<String> {
    String::from_utf8(bytes_of(file)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_has_no_end_is_an_error() {
        let folder = std::env::temp_dir().join(format!("gantry-bounded-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        let wrong = |path: &Path| read_to_string(path).unwrap_err().to_string();

        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(wrong(&path("pipe")), "not a regular file");
        for device in ["/dev/zero", "/dev/full"] {
            assert_eq!(wrong(Path::new(device)), "larger than 16 MiB");
        }
        // Sparse: nothing of it is on the disk.
        fs::File::create(path("long")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(wrong(&path("long")), "larger than 16 MiB");
        assert!(wrong(&folder).starts_with("Is a directory"));
        fs::write(path("bytes"), b"\xff").unwrap();
        assert_eq!(wrong(&path("bytes")), "not UTF-8");

        fs::File::create(path("longest")).unwrap().set_len(MOST_BYTES).unwrap();
        assert_eq!(read(&path("longest")).unwrap().len() as u64, MOST_BYTES);
        assert_eq!(read_to_string(Path::new("/dev/null")).unwrap(), "");
        fs::remove_dir_all(&folder).unwrap();
    }
}
