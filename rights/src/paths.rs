use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The kernel's limit for links in a path (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Fails unless a file or folder belongs to root or to the user of this process, and no other user may write to it. The group of the process
/// may write unless the process runs as root: many systems give each user a group.
///
/// # Errors
/// `PermissionDenied`, with a sentence that begins with "it" or "other users".
pub fn check_trusted(file: &Metadata) -> io::Result<()> {
    let [user, group] = user_and_group();
    let forbidden_mode = if user != 0 && file.gid() == group { 0o002 } else { 0o022 };
    if file.uid() != 0 && file.uid() != user {
        Err(denied("it belongs to another user".to_owned()))
    } else if file.mode() & forbidden_mode != 0 {
        Err(denied("other users may write to it".to_owned()))
    } else {
        Ok(())
    }
}

/// Returns the path of code to load, with links resolved. The file and each folder on the way, including the folders of links, must be
/// [trusted](check_trusted). No other user can then put other code there, now or later.
///
/// # Errors
/// `PermissionDenied` with the folder or file that another user could change, or an error of the system.
pub fn resolve_trusted(path: &Path) -> io::Result<PathBuf> {
    let mut rest: Vec<OsString> = Vec::new();
    let push = |rest: &mut Vec<OsString>, path: &Path| {
        rest.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
    };
    push(&mut rest, &std::path::absolute(path)?);
    // Each folder is checked before its content is read, so no other user can change the content in between.
    let mut resolved = PathBuf::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                resolved.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            // An absolute path replaces the path so far.
            Some(part) => resolved.push(part),
        }
        let metadata = fs::symlink_metadata(&resolved)?;
        if metadata.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            push(&mut rest, &fs::read_link(&resolved)?);
            resolved.pop();
        } else {
            check_trusted(&metadata).map_err(|error| denied(format!("{}: {error}", resolved.display())))?;
        }
    }
    Ok(resolved)
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[allow(unsafe_code, reason = "the C library")]
fn user_and_group() -> [u32; 2] {
    // SAFETY: neither function has preconditions.
    unsafe { [libc::geteuid(), libc::getegid()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    // For files of other users see conformance/hostile.
    #[test]
    fn loads_programs_of_the_system_but_not_from_a_world_writable_folder() {
        let shell = Path::new("/bin/sh");
        assert_eq!(resolve_trusted(shell).unwrap(), fs::canonicalize(shell).unwrap());
        assert_eq!(resolve_trusted(Path::new("/bin/../bin/./sh")).unwrap(), fs::canonicalize(shell).unwrap());
        let denied = resolve_trusted(Path::new("/tmp/../bin/sh")).unwrap_err();
        assert_eq!(denied.to_string(), "/tmp: other users may write to it");
        assert_eq!(resolve_trusted(Path::new("/nowhere/at/all")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
