use std::ffi::OsString;

/// Whether this process has rights that its caller has not: its program is set-user-ID or set-group-ID, has file capabilities, or a security
/// module says so. That stays so until the process runs another program, even after it has given up the rights.
pub fn borrowed() -> bool {
    #[allow(unsafe_code, reason = "the C library")]
    // SAFETY: `getauxval` has no conditions.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}

/// A variable of the environment. In a process with [borrowed] rights there is none.
pub fn variable(name: &str) -> Option<OsString> {
    if borrowed() { None } else { std::env::var_os(name) }
}

/// All variables of the environment. In a process with [borrowed] rights there are none.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    (!borrowed()).then(std::env::vars_os).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    // conformance/hostile has the programs in which it is otherwise.
    #[test]
    fn an_ordinary_process_has_its_environment() {
        assert!(!borrowed());
        assert_eq!(variable("PATH"), std::env::var_os("PATH"));
        assert_eq!(variables().count(), std::env::vars_os().count());
    }
}
