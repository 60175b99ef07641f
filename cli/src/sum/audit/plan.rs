//! The folders and manifests of an audit, and the content of the manifests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::report::Report;
use crate::sum::bag::{Bag, bag_of_manifest, is_manifest, manifests};
use crate::sum::console::reason;
use crate::sum::digest::Digest;
use crate::sum::listed::{absolute, normalized};
use crate::sum::lists::{Expected, ListParser, ParsedLine};
use crate::sum::names::HashId;
use crate::sum::object::{Recorded, Special};
use crate::sum::read_mode::ReadMode;

/// The folders and manifests to compare.
pub(super) struct Plan {
    /// Names in results are relative to this folder.
    pub(super) root: PathBuf,
    /// The folder in which unlisted files are looked for.
    pub(super) folder: PathBuf,
    pub(super) manifests: Vec<PathBuf>,
    /// The bag that is compared as a whole.
    pub(super) bag: Option<Bag>,
    /// True if listed names are relative to the current folder.
    names_from_current_folder: bool,
}

/// The content of all manifests, by names below the root.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) files: BTreeMap<Vec<u8>, ListedFile>,
    /// Symbolic links and folders.
    pub(super) specials: BTreeMap<Vec<u8>, Special>,
}

pub(super) struct ListedFile {
    pub(super) digests: Vec<(HashId, Digest)>,
    pub(super) recorded: Option<Recorded>,
}

impl Plan {
    /// Interprets the operands: a manifest and a folder, `.` by default; or a bag, given as a folder or by one of its manifests (RFC 8493),
    /// whose payload is in `data`.
    ///
    /// # Errors
    /// Describes operands that cannot be used.
    pub(super) fn new(operands: &[OsString]) -> Result<Self, String> {
        let (manifest, folder) = (Path::new(&operands[0]), operands.get(1).map(PathBuf::from));
        if manifest.is_dir() {
            let Some(bag) = Bag::open(manifest) else {
                return Err(format!(
                    "{}: a folder, but not a bag; MANIFEST is a checksum file or a bag",
                    manifest.display()
                ));
            };
            if folder.is_some() {
                return Err("a bag contains its files, so DIR cannot be given".to_owned());
            }
            let all = manifests(manifest).map_err(|error| format!("{}: {}", manifest.display(), reason(&error)))?;
            if !all.iter().any(|path| is_payload_manifest(path)) {
                return Err(format!("{}: the bag has no manifest", manifest.display()));
            }
            let folder = manifest.join("data");
            return Ok(Self {
                root: manifest.into(),
                folder,
                manifests: all,
                bag: Some(bag),
                names_from_current_folder: true,
            });
        }
        let manifests = vec![manifest.to_owned()];
        let of_bag = bag_of_manifest(manifest);
        let names_from_current_folder = of_bag.is_some();
        if let (Some(bag), None) = (of_bag, &folder) {
            let root = if bag.folder.as_os_str().is_empty() { PathBuf::from(".") } else { bag.folder };
            return Ok(Self { folder: root.join("data"), root, manifests, bag: None, names_from_current_folder });
        }
        let folder = folder.unwrap_or_else(|| ".".into());
        if !folder.is_dir() {
            return Err(format!("{}: not a folder", folder.display()));
        }
        Ok(Self { root: folder.clone(), folder, manifests, bag: None, names_from_current_folder })
    }

    pub(super) fn path(&self, name: &[u8]) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(OsStr::from_bytes(name)) }
    }

    /// Returns the name of a file below the root.
    pub(super) fn name(&self, path: &OsStr) -> Vec<u8> {
        let path = Path::new(path);
        path.strip_prefix(&self.root).unwrap_or(path).as_os_str().as_bytes().to_vec()
    }

    /// Reads all manifests.
    ///
    /// # Errors
    /// Describes a manifest that cannot be used.
    pub(super) fn read(&self, mut parser: ListParser, report: &mut Report<'_>) -> Result<Listing, String> {
        let (mut files, mut specials) = (Vec::new(), Vec::new());
        for manifest in &self.manifests {
            let at = |error: io::Error| format!("{}: {}", manifest.display(), reason(&error));
            // A pipe in a stranger's bag would block the audit; other lists may be pipes.
            if self.bag.is_some() && !manifest.is_file() {
                return Err(format!("{}: not a regular file", manifest.display()));
            }
            let mut lines = parser.lines(File::open(manifest).map_err(at)?).map_err(at)?;
            parser.begin(manifest.as_os_str());
            let (mut line, mut number, before) = (Vec::new(), 0, files.len());
            while let Some(whole) = lines.next(&mut line).map_err(at)? {
                number += 1;
                match if whole { parser.line(&line) } else { ParsedLine::Improper } {
                    ParsedLine::Blank => {}
                    ParsedLine::File(expected) if expected.read_mode != ReadMode::Bytes => {
                        report.print_error(&expected.name, "listed as text, bits or a piece, which only -c verifies");
                    }
                    ParsedLine::File(expected) => files.push(expected),
                    ParsedLine::Special(name, special) => specials.push((name, special)),
                    ParsedLine::Improper => {
                        let words = format!("{number}: improperly formatted checksum line");
                        report.print_error(manifest.as_os_str().as_bytes(), &words);
                    }
                }
            }
            // A bag may be empty.
            if files.len() == before && bag_of_manifest(manifest).is_none() {
                return Err(format!("{}: no properly formatted checksum lines found", manifest.display()));
            }
        }
        let listing = self.listing(files, specials, report);
        self.compare_manifests(&listing, report);
        Ok(listing)
    }

    fn listing(&self, files: Vec<Expected>, specials: Vec<(Vec<u8>, Special)>, report: &mut Report<'_>) -> Listing {
        // `gantry sum -r DIR` lists names relative to the current folder; a list in DIR has names relative to DIR.
        let below_folder =
            |name: &[u8]| normalized(Path::new(OsStr::from_bytes(name))).starts_with(normalized(&self.folder));
        let names_from_current_folder =
            self.names_from_current_folder || files.iter().all(|file| below_folder(&file.name));
        let base = if names_from_current_folder { Path::new(".") } else { &self.root };
        let root = absolute(&self.root);
        let mut below_root = |name: Vec<u8>| {
            let path = absolute(&base.join(OsString::from_vec(name.clone())));
            let below = path.strip_prefix(&root).map(|name| name.as_os_str().as_bytes().to_vec()).ok();
            if below.is_none() {
                report.print_error(&name, "listed, but not below the folder");
            }
            below
        };
        let mut listing = Listing::default();
        let files: Vec<_> = files.into_iter().filter_map(|file| Some((below_root(file.name.clone())?, file))).collect();
        listing.specials =
            specials.into_iter().filter_map(|(name, special)| Some((below_root(name)?, special))).collect();
        for (name, file) in files {
            let room = || ListedFile { digests: Vec::with_capacity(file.digests.len()), recorded: file.recorded };
            let listed = listing.files.entry(name).or_insert_with(room);
            for (id, digest) in file.digests {
                match listed.digests.iter().find(|(other, _)| *other == id) {
                    None => listed.digests.push((id, digest)),
                    Some((_, other)) if *other == digest => {}
                    Some(_) => report.print_error(&file.name, "listed with two digests"),
                }
            }
        }
        listing
    }

    /// Reports payload files that are not in all manifests of the bag. This is a fault since version 1.0 (RFC 8493, section 3).
    fn compare_manifests(&self, listing: &Listing, report: &mut Report<'_>) {
        let Some(bag) = &self.bag else { return };
        let names = |path: &PathBuf| Some(path.file_name()?.as_bytes().to_vec());
        let payload = self.manifests.iter().filter(|path| is_payload_manifest(path)).filter_map(names);
        let functions: Vec<(HashId, Vec<u8>)> =
            payload.filter_map(|name| Some((HashId::from_file_name(&name)?, name))).collect();
        for (name, file) in listing.files.iter().filter(|(name, _)| name.starts_with(b"data/")) {
            for (id, manifest) in &functions {
                if file.digests.iter().any(|(other, _)| other == id) {
                    continue;
                }
                let words = format!("not in {}", String::from_utf8_lossy(manifest).escape_debug());
                if bag.is_at_least_1_0() {
                    report.print_fault(&format!("{}: {words}", String::from_utf8_lossy(name).escape_debug()));
                } else {
                    report.print_remark(name, &words);
                }
            }
        }
    }
}

fn is_payload_manifest(manifest: &Path) -> bool {
    manifest.file_name().is_some_and(|name| is_manifest(name.as_bytes()))
}
