use std::io;
use std::process::{Command, Output};

use gantry::{Algorithm, Kind, Operation};
use nix::sys::resource::UsageWho;

use super::Group;
use super::measure::{Tally, cpu_time};
use crate::output::Failure;

/// The installed `openssl speed`.
pub(super) struct Openssl {
    /// What it turned out not to have.
    missing: Vec<(Algorithm, Operation)>,
}

impl Openssl {
    pub(super) fn find() -> Result<Self, Failure> {
        match openssl(&["version".to_owned()]) {
            Ok(output) if output.status.success() => Ok(Self { missing: Vec::new() }),
            Ok(output) => Err(Failure::Failed(format!("openssl cannot be run: {}", output.status))),
            Err(error) => Err(Failure::at("openssl cannot be run", &error)),
        }
    }

    /// What it does with the same algorithm, operation and size; `None`, and a note, where it has no such thing. It
    /// measures whole seconds and one request at a time.
    pub(super) fn measure(
        &mut self,
        group: &Group,
        threads: usize,
        seconds: f64,
        note: &dyn Fn(&str),
    ) -> Result<Option<Tally>, Failure> {
        let wanted = (group.algorithm, group.operation);
        if self.missing.contains(&wanted) {
            return Ok(None);
        }
        let mut none = || {
            note(&format!("openssl speed has no {} {}", group.algorithm, group.operation));
            self.missing.push(wanted);
            Ok(None)
        };
        let Some(what) = arguments(group.algorithm, group.operation) else { return none() };
        let seconds = seconds.round().max(1.0);
        let mut arguments: Vec<String> = ["speed", "-elapsed", "-mr"].map(str::to_owned).into();
        arguments.extend(["-bytes".to_owned(), group.bytes.to_string(), "-seconds".to_owned(), seconds.to_string()]);
        if threads > 1 {
            arguments.extend(["-multi".to_owned(), threads.to_string()]);
        }
        arguments.extend(what);
        let before = cpu_time(UsageWho::RUSAGE_CHILDREN);
        let output = openssl(&arguments).map_err(|error| Failure::at("openssl", &error))?;
        let cpu = cpu_time(UsageWho::RUSAGE_CHILDREN) - before;
        let measured = String::from_utf8_lossy(&output.stderr).lines().filter_map(result).collect::<Vec<_>>();
        if !output.status.success() || measured.len() != threads {
            return none();
        }
        let requests = measured.iter().map(|(requests, _)| requests).sum();
        let wall = measured.iter().map(|(_, wall)| *wall).fold(0.0, f64::max);
        Ok(Some(Tally { requests, wall, cpu, latencies: Vec::new() }))
    }
}

fn openssl(arguments: &[String]) -> io::Result<Output> {
    Command::new("openssl").args(arguments).output()
}

/// What makes `openssl speed` do this.
fn arguments(algorithm: Algorithm, operation: Operation) -> Option<Vec<String>> {
    let info = algorithm.info();
    let name = info.name.to_owned();
    let mut arguments = match (info.kind, info.digest, info.name.strip_suffix("cmac")) {
        (Kind::Mac, Some(digest), _) => vec!["-hmac".to_owned(), digest.name().to_owned()],
        (Kind::Mac, None, Some(aes)) => vec!["-cmac".to_owned(), format!("{aes}cbc")],
        // OpenSSL's AEADs with a digest inside are TLS's, which authenticate first and encrypt then; its signatures and secrets are
        // counted in lines of another form.
        (Kind::Mac, None, None) | (Kind::Aead, Some(_), _) | (Kind::Signature | Kind::Exchange, ..) => return None,
        // With a nonce, associated data and a tag for each request, as ours; without, it would only encrypt.
        (Kind::Aead, None, _) => vec!["-evp".to_owned(), name, "-aead".to_owned()],
        (Kind::Cipher, ..) if algorithm == Algorithm::Null => return None,
        // Their digests have another length there, or they are not there at all.
        (Kind::Digest, ..) if info.xof.is_some() => return None,
        (Kind::Digest | Kind::Cipher, ..) => vec!["-evp".to_owned(), name],
    };
    if operation.is_back() {
        arguments.push("-decrypt".to_owned());
    }
    Some(arguments)
}

/// Requests and seconds from a line such as `+R:345785:sha256:1.000000`.
fn result(line: &str) -> Option<(u64, f64)> {
    let (requests, rest) = line.strip_prefix("+R:")?.split_once(':')?;
    let (_, seconds) = rest.rsplit_once(':')?;
    Some((requests.parse().ok()?, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_openssl_speed_are_read() {
        assert_eq!(result("+R:345785:sha256:1.000000"), Some((345785, 1.0)));
        assert_eq!(result("+R:544353:cmac(aes-128-cbc):1.5"), Some((544353, 1.5)));
        assert_eq!(result("+F:25:sha256:354083840.00"), None);
        assert_eq!(result("+R:"), None);
    }

    #[test]
    fn openssl_is_asked_for_the_same_thing() {
        let ask = |algorithm, operation| arguments(algorithm, operation).map(|arguments| arguments.join(" "));
        assert_eq!(ask(Algorithm::Sha256, Operation::Digest).as_deref(), Some("-evp sha256"));
        assert_eq!(ask(Algorithm::HmacSha1, Operation::Mac).as_deref(), Some("-hmac sha1"));
        assert_eq!(ask(Algorithm::Aes256Cmac, Operation::Mac).as_deref(), Some("-cmac aes-256-cbc"));
        assert_eq!(ask(Algorithm::Aes128Cbc, Operation::Decrypt).as_deref(), Some("-evp aes-128-cbc -decrypt"));
        assert_eq!(ask(Algorithm::Aes128Gcm, Operation::Open).as_deref(), Some("-evp aes-128-gcm -aead -decrypt"));
        for none in [
            Algorithm::Aes128Gmac,
            Algorithm::Poly1305,
            Algorithm::Null,
            Algorithm::Aes128CbcHmacSha1,
            Algorithm::Shake128,
        ] {
            assert_eq!(arguments(none, none.kind().operations()[0]), None);
        }
    }
}
