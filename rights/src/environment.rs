use std::ffi::OsString;

/// Returns `true` if this process has more rights than its caller: its program is set-user-ID or set-group-ID, has file capabilities, or a
/// security module says so. The result is the same until the process executes another program, even after it has given up the rights.
pub fn has_elevated_rights() -> bool {
    #[allow(unsafe_code, reason = "the C library")]
    // SAFETY: `getauxval` has no preconditions.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}

/// Returns a variable of the environment; `None` in a process with [elevated](has_elevated_rights) rights.
pub fn variable(name: &str) -> Option<OsString> {
    if has_elevated_rights() { None } else { std::env::var_os(name) }
}

/// Returns all variables of the environment; none in a process with [elevated](has_elevated_rights) rights.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    (!has_elevated_rights()).then(std::env::vars_os).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    // For programs with elevated rights see conformance/hostile.
    #[test]
    fn an_ordinary_process_can_read_its_environment() {
        assert!(!has_elevated_rights());
        assert_eq!(variable("PATH"), std::env::var_os("PATH"));
        assert_eq!(variables().count(), std::env::vars_os().count());
    }
}
