//! `gantry openssl config --post-quantum`: the line of TLS groups that OpenSSL 3.0 to 3.4 need.

use std::fmt::Write as _;

use super::conf::Conf;

/// The preferred group.
const PREFERRED_GROUP: &str = "X25519MLKEM768";

/// The default list of OpenSSL 3.0 to 3.4.
const DEFAULT_GROUPS: &str = "X25519:P-256:X448:P-521:P-384:ffdhe2048:ffdhe3072:ffdhe4096:ffdhe6144:ffdhe8192";

/// Keys whose value is a list of groups (SSL_CONF_cmd(3)).
const GROUP_KEYS: [&str; 2] = ["groups", "curves"];

/// The lines of a configuration that lead to the TLS defaults of all programs.
struct TlsDefaults<'c> {
    /// The section that `ssl_conf` names.
    ssl: Option<&'c str>,
    /// The section that `system_default` names in the section `ssl`.
    tls: Option<&'c str>,
    /// The list of groups in the section `tls`.
    groups: Option<&'c str>,
}

impl<'c> TlsDefaults<'c> {
    fn of(conf: &'c Conf, init: &str) -> Self {
        let ssl = conf.line(init, "ssl_conf").map(|line| &*line.value);
        let tls = ssl.and_then(|ssl| conf.line(ssl, "system_default")).map(|line| &*line.value);
        let lists = tls.into_iter().flat_map(|tls| conf.section(tls));
        // The last list is in force.
        let groups = lists.filter(|line| GROUP_KEYS.contains(&&*line.key.to_ascii_lowercase())).last();
        Self { ssl, tls, groups: groups.map(|line| &*line.value) }
    }
}

/// Returns true if a configuration lists [`PREFERRED_GROUP`].
pub(super) fn prefers_group(conf: &Conf) -> bool {
    let defaults = conf.init_line().map(|line| TlsDefaults::of(conf, &line.value));
    defaults.and_then(|defaults| defaults.groups).is_some_and(contains_group)
}

/// Returns true if a list has [`PREFERRED_GROUP`]. OpenSSL takes `?` before a name from 3.3 on, and `*` and `/` from 3.5 on.
fn contains_group(list: &str) -> bool {
    list.split([':', '/']).any(|group| group.trim_start_matches(['?', '*']).eq_ignore_ascii_case(PREFERRED_GROUP))
}

/// Adds lines that put the group before the file's own list. `head` ends in the section `init`; `tail` is the end of the file. The list
/// must be the last line of `tail`: without the module, OpenSSL stops reading at the unknown group.
pub(super) fn add_group(conf: &Conf, init: &str, head: &mut String, tail: &mut String) {
    let TlsDefaults { ssl, tls, groups } = TlsDefaults::of(conf, init);
    if groups.is_some_and(contains_group) {
        return;
    }
    if ssl.is_none() {
        *head += "ssl_conf = gantry_ssl\n";
    }
    if tls.is_none() {
        let _ = writeln!(tail, "[{}]\nsystem_default = gantry_tls", ssl.unwrap_or("gantry_ssl"));
    }
    let _ = writeln!(
        tail,
        "[{}]\nGroups = {PREFERRED_GROUP}:{}",
        tls.unwrap_or("gantry_tls"),
        groups.unwrap_or(DEFAULT_GROUPS)
    );
}

/// The message after the lines are added.
pub(super) const PREFERENCE_MESSAGE: &str = "X25519MLKEM768 is preferred in TLS 1.3. Programs that set their own groups ignore it: PostgreSQL, Postfix, nginx \
     with ssl_ecdh_curve, HAProxy with curves, Apache with SSLOpenSSLConfCmd Groups\n";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn added(text: &str) -> (String, String) {
        let (mut head, mut tail) = (String::new(), String::new());
        add_group(&Conf::parse(text, Path::new("/nowhere/openssl.cnf")), "init", &mut head, &mut tail);
        (head, tail)
    }

    #[test]
    fn the_group_precedes_the_list_that_is_in_force() {
        let list = format!("Groups = X25519MLKEM768:{DEFAULT_GROUPS}\n");
        let sections = (
            "ssl_conf = gantry_ssl\n".to_owned(),
            format!("[gantry_ssl]\nsystem_default = gantry_tls\n[gantry_tls]\n{list}"),
        );
        assert_eq!(added("openssl_conf = init\n[init]\n"), sections);
        let existing = "openssl_conf = init\n[init]\nssl_conf = s\n[s]\n";
        assert_eq!(added(existing), (String::new(), format!("[s]\nsystem_default = gantry_tls\n[gantry_tls]\n{list}")));
        let existing = format!("{existing}system_default = d\n[d]\nMinProtocol = TLSv1.2\n");
        assert_eq!(added(&existing), (String::new(), format!("[d]\n{list}")));
        // Red Hat's configuration has both keys.
        let existing = format!("{existing}Groups = P-256\nCurves = P-384:X25519\n");
        assert_eq!(added(&existing), (String::new(), "[d]\nGroups = X25519MLKEM768:P-384:X25519\n".to_owned()));
        let optional = format!("{existing}Groups = ?X25519MLKEM768:X25519\n");
        assert_eq!(added(&optional), (String::new(), String::new()), "OpenSSL may refuse a list with a name twice");
        let existing = format!("{existing}Groups = X25519:x25519mlkem768\n");
        assert_eq!(added(&existing), (String::new(), String::new()));
        assert!(prefers_group(&Conf::parse(&existing, Path::new("/nowhere/openssl.cnf"))));
    }
}
