//! Reads files of unknown kind and size. `/dev/zero` and pipes give errors; they neither exhaust memory nor block forever.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Maximum bytes of a file that Gantry reads as a whole.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the bytes of a file. Character devices such as `/dev/null` are read, too.
///
/// # Errors
/// An error of the system; a file of more than 16 MiB; a pipe, a socket or a block device.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_bytes(open(path)?)
}

/// Opens a file to read. Refuses pipes, sockets and block devices.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Without `O_NONBLOCK`, `open` would block on a pipe without a writer. `O_NOCTTY`: a terminal must not become the controlling one.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

fn read_bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

/// Reads the text of a file.
///
/// # Errors
/// As [`read`]; also if the bytes are not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    read_text_from(open(path)?)
}

/// Reads the text of an open file.
pub(crate) fn read_text_from(file: File) -> io::Result<String> {
    String::from_utf8(read_bytes(file)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn endless_and_oversized_files_are_errors() {
        let folder = std::env::temp_dir().join(format!("gantry-bounded-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        let wrong = |path: &Path| read_to_string(path).unwrap_err().to_string();

        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(wrong(&path("pipe")), "not a regular file");
        for device in ["/dev/zero", "/dev/full"] {
            assert_eq!(wrong(Path::new(device)), "larger than 16 MiB");
        }
        // Sparse, so that it takes no room on the disk.
        fs::File::create(path("long")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(wrong(&path("long")), "larger than 16 MiB");
        assert!(wrong(&folder).starts_with("Is a directory"));
        fs::write(path("bytes"), b"\xff").unwrap();
        assert_eq!(wrong(&path("bytes")), "not UTF-8");

        fs::File::create(path("longest")).unwrap().set_len(MAX_BYTES).unwrap();
        assert_eq!(read(&path("longest")).unwrap().len() as u64, MAX_BYTES);
        assert_eq!(read_to_string(Path::new("/dev/null")).unwrap(), "");
        fs::remove_dir_all(&folder).unwrap();
    }
}
