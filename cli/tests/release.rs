//! `scripts/release --dry-run`: the changes of a release, and refusals.

mod gantry;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gantry::{Folder, text};

/// A clone of this repository, with this working tree's script.
struct Repository {
    _folder: Folder,
    path: PathBuf,
}

impl Repository {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let origin = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let path = folder.path().join("clone");
        let status = Command::new("git").args(["clone", "--quiet"]).arg(&origin).arg(&path).status().unwrap();
        assert!(status.success());
        let repository = Self { _folder: folder, path };
        fs::copy(origin.join("scripts/release"), repository.path.join("scripts/release")).unwrap();
        repository.commit();
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = self.command("git").args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "test: uncommitted changes"]);
    }

    fn release(&self, arguments: &[&str]) -> Output {
        self.command("scripts/release").args(arguments).output().unwrap()
    }

    /// Prepares a command in the clone, with a dummy author.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(if program.contains('/') { self.path.join(program) } else { program.into() });
        command.current_dir(&self.path);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "nobody").env(format!("GIT_{who}_EMAIL"), "nobody@localhost");
        }
        command
    }
}

#[test]
fn a_dry_run_shows_the_release_and_changes_nothing() {
    let repository = Repository::new("release-dry");
    let state =
        || [["status", "--porcelain"], ["rev-parse", "HEAD"], ["tag", "--list"]].map(|ask| repository.git(&ask));
    let before = state();
    let output = repository.release(&["--dry-run", "9.8.7", "7.8.9"]);
    let message = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let has = |line: &str| assert!(message.lines().any(|message| message == line), "{line}: {message}");
    has("+version = \"9.8.7\"");
    has("+gantry-digest = { path = \"digest\", version = \"=7.8.9\", default-features = false }");
    has("+version = \"7.8.9\"");
    has("+gantry-core = { package = \"gantry-crypto-core\", path = \"core\", version = \"9.8.7\" }");
    // The release changes every workspace and the changelog.
    for file in [
        "CHANGELOG.md",
        "Cargo.toml",
        "Cargo.lock",
        "benches/hashes/Cargo.lock",
        "digest/CHANGELOG.md",
        "digest/Cargo.toml",
        "benches/rustls/Cargo.lock",
        "frontends/rustls/examples/libraries/Cargo.lock",
        "fuzz/Cargo.lock",
    ] {
        has(&format!("+++ b/{file}"));
    }
    // The new section begins at the end of the unreleased one, whose content belongs to the release.
    has(" ## Unreleased");
    for section in ["+## 9.8.7 - 20", "+## 7.8.9 - 20"] {
        assert!(message.lines().any(|line| line.starts_with(section)), "{message}");
    }
    for check in ["make lint", "make test", "make test-deep", "make packages-test"] {
        has(&format!("release: would run {check}"));
    }
    has("release: would tag v9.8.7");
    // External crates keep their versions.
    assert!(!message.contains("\n-checksum"), "{message}");
    assert_eq!(state(), before);
}

#[test]
fn a_release_of_uncommitted_changes_or_of_an_old_version_is_refused() {
    let repository = Repository::new("release-refused");
    let refused = |versions: &str, error: &str| {
        let arguments: Vec<&str> = ["--dry-run"].into_iter().chain(versions.split(' ')).collect();
        let output = repository.release(&arguments);
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains(error), "{versions}: {message}");
    };
    refused("next", "is no version");
    refused("1.2", "is no version");
    refused("0.0.1", "is older than");
    refused("9.8.7 1", "is no version");
    refused("9.8.7 0.9.0", "is older than");
    repository.git(&["tag", "v9.8.7"]);
    refused("9.8.7 9.8.7", "there is a tag v9.8.7 already");

    let changelog = repository.path.join("CHANGELOG.md");
    let old = fs::read_to_string(&changelog).unwrap();
    fs::write(&changelog, old.replace("## Unreleased\n", "## Unreleased\n\n## 0.1.0 - 2026-01-01\n")).unwrap();
    refused("9.8.8", "not committed");
    repository.commit();
    refused("9.8.8", "nothing under 'Unreleased'");

    // A release contains the changes of gantry-digest, which has its own version.
    fs::write(&changelog, old).unwrap();
    repository.commit();
    refused("9.8.8", "gantry-digest has changes since its last release");
    let changelog = repository.path.join("digest/CHANGELOG.md");
    let old = fs::read_to_string(&changelog).unwrap();
    fs::write(&changelog, old.replace("## Unreleased\n", "## Unreleased\n\n## 1.0.0 - 2026-01-01\n")).unwrap();
    repository.commit();
    refused("9.8.8 9.8.8", "digest/CHANGELOG.md has nothing under 'Unreleased'");
}
