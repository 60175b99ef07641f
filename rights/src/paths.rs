use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The kernel follows as many links in a path (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Fails unless a file, or a folder, belongs to root or to the user of this process, and nobody else may write to it. The group that the
/// process has may write where that is not root's: many systems give each user a group.
///
/// # Errors
/// `PermissionDenied`, with a sentence about "it".
pub fn is_ours(file: &Metadata) -> io::Result<()> {
    let [user, group] = user_and_group();
    let others = if user != 0 && file.gid() == group { 0o002 } else { 0o022 };
    if file.uid() != 0 && file.uid() != user {
        Err(denied("it belongs to another user".to_owned()))
    } else if file.mode() & others != 0 {
        Err(denied("other users may write to it".to_owned()))
    } else {
        Ok(())
    }
}

/// The path of code to load, without links. Each folder on the way, in which links lie, too, and the file have to be [ours](is_ours): then nobody
/// else can put other code there, now or later.
///
/// # Errors
/// `PermissionDenied` with the folder or file that another user could change, or what the system says.
pub fn loadable(path: &Path) -> io::Result<PathBuf> {
    let mut rest: Vec<OsString> = Vec::new();
    let push = |rest: &mut Vec<OsString>, path: &Path| {
        rest.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
    };
    push(&mut rest, &std::path::absolute(path)?);
    // Each folder is known to be ours before anything in it is looked at, so none of it can change meanwhile.
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                at.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            // The root folder takes the place of all that was there.
            Some(part) => at.push(part),
        }
        let found = fs::symlink_metadata(&at)?;
        if found.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            push(&mut rest, &fs::read_link(&at)?);
            at.pop();
        } else {
            is_ours(&found).map_err(|error| denied(format!("{}: {error}", at.display())))?;
        }
    }
    Ok(at)
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[allow(unsafe_code, reason = "the C library")]
fn user_and_group() -> [u32; 2] {
    // SAFETY: neither has conditions.
    unsafe { [libc::geteuid(), libc::getegid()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    // With other users' files: conformance/hostile.
    #[test]
    fn a_program_of_the_system_is_loadable_and_a_folder_for_all_is_not() {
        let shell = Path::new("/bin/sh");
        assert_eq!(loadable(shell).unwrap(), fs::canonicalize(shell).unwrap());
        assert_eq!(loadable(Path::new("/bin/../bin/./sh")).unwrap(), fs::canonicalize(shell).unwrap());
        let denied = loadable(Path::new("/tmp/../bin/sh")).unwrap_err();
        assert_eq!(denied.to_string(), "/tmp: other users may write to it");
        assert_eq!(loadable(Path::new("/nowhere/at/all")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
