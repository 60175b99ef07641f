//! Compares the names in a folder with the listed names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd};

use super::plan::{Listing, Plan};
use super::report::{Report, Verdict};
use crate::args::sum::Options;
use crate::sum::object::Special;
use crate::sum::quote::quote;
use crate::sum::record::ObjectWriter;
use crate::sum::walk::{WalkEntry, identity, is_selected, special, walk};

/// The names in the folder.
#[derive(Default)]
pub(super) struct Tree<'l> {
    /// Listed files that are present, with their names in the folder if those differ.
    pub(super) present: BTreeMap<&'l Vec<u8>, Option<Vec<u8>>>,
    /// Files that are not listed.
    pub(super) new: BTreeSet<Vec<u8>>,
    /// Listed files that are not present.
    pub(super) missing: BTreeSet<&'l Vec<u8>>,
    /// The number of files in the folder, and their bytes.
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl<'l> Tree<'l> {
    /// Walks the folder. Reports links and folders, and files that became a link or folder.
    pub(super) fn new(plan: &Plan, listing: &'l Listing, options: &Options, report: &mut Report<'_>) -> Self {
        let excluded = plan.manifests.iter().map(PathBuf::as_path).chain(options.cache.as_deref().map(Path::new));
        let excluded: BTreeSet<_> =
            excluded.filter_map(|path| fs::metadata(path).ok()).map(|data| identity(&data)).collect();
        let mut tree = Self::default();
        let mut unlisted = Vec::new();
        walk(&[plan.folder.clone().into()], options, |step| match step {
            WalkEntry::File(path) => {
                let data = fs::metadata(&path).ok();
                tree.files += 1;
                tree.bytes += data.as_ref().map_or(0, fs::Metadata::len);
                let name = plan.name(&path);
                if let Some((listed, _)) = listing.files.get_key_value(&name) {
                    tree.present.insert(listed, None);
                } else if !listing.specials.contains_key(&name)
                    && !data.is_some_and(|data| excluded.contains(&identity(&data)))
                {
                    tree.new.insert(name);
                }
            }
            WalkEntry::Special(path, special) => {
                // A link to a file counts as a file.
                if let Some(data) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) {
                    tree.files += 1;
                    tree.bytes += data.len();
                }
                let name = plan.name(&path);
                if !listing.files.contains_key(&name) && !listing.specials.contains_key(&name) {
                    unlisted.push((name, special));
                }
            }
            WalkEntry::Skipped(path, what) => {
                let path = quote(path.as_bytes());
                report.console.error(&[&path, format!(": {what}, skipped").as_bytes()].concat());
            }
            WalkEntry::Failed(path, error) => {
                report.print_unreadable(path.as_bytes(), &error);
            }
        });
        // Files below an excluded folder are not compared either.
        let is_wanted = |name: &[u8]| is_selected(&plan.folder, &plan.path(name), options);
        for name in listing.files.keys() {
            let path = plan.path(name);
            if tree.present.contains_key(name) || !is_wanted(name) {
                continue;
            }
            let became = special(&path).ok().flatten().filter(|found| match found {
                Special::Folder => true,
                // A list without links cannot tell whether this was a link before.
                Special::Link(_) => !listing.specials.is_empty() && !listing.specials.contains_key(name),
            });
            match became {
                Some(found) => report.print(Verdict::Changed, name, None, |object| object.special(&found)),
                // The name is a link to a file, or a file of a bag outside its payload.
                None if path.is_file() => drop(tree.present.insert(name, None)),
                None => drop(tree.missing.insert(name)),
            }
        }
        tree.match_normalized(report);
        for (name, listed) in listing.specials.iter().filter(|(name, _)| is_wanted(name)) {
            compare_special(plan, name, listed, report);
        }
        // A list without links and folders cannot tell which of these are new.
        if !listing.specials.is_empty() {
            for (name, found) in unlisted {
                report.print(Verdict::New, &name, None, |object| object.special(&found));
            }
        }
        tree
    }

    /// Finds missing files whose names are present in another normalization form: file systems and archives change the form.
    fn match_normalized(&mut self, report: &mut Report<'_>) {
        let normalized = |name: &[u8]| Some(std::str::from_utf8(name).ok()?.nfc().collect::<String>());
        if self.missing.is_empty() {
            return;
        }
        let candidates = self.new.iter().filter(|name| !name.is_ascii());
        let by_form: BTreeMap<String, Vec<u8>> =
            candidates.filter_map(|name| Some((normalized(name)?, name.clone()))).collect();
        let pair = |name: &&'l Vec<u8>| Some((*name, by_form.get(&normalized(name)?)?.clone()));
        let pairs: Vec<(&Vec<u8>, Vec<u8>)> = self.missing.iter().filter_map(pair).collect();
        for (listed, found) in pairs {
            // Two listed names may be equal in another form.
            if !self.new.remove(&found) {
                continue;
            }
            let words = format!("listed in {}, found in {}: Unicode normalization", form(listed), form(&found));
            report.print_remark(listed, &words);
            self.missing.remove(listed);
            self.present.insert(listed, Some(found));
        }
    }
}

/// Returns the normalization form of a file's name, in words.
fn form(name: &[u8]) -> &'static str {
    let name = String::from_utf8_lossy(name);
    if is_nfc(&name) {
        "NFC"
    } else if is_nfd(&name) {
        "NFD"
    } else {
        "no normalization form"
    }
}

/// Compares a symbolic link or folder with the list.
fn compare_special(plan: &Plan, name: &[u8], listed: &Special, report: &mut Report<'_>) {
    let expected = |object: &mut ObjectWriter<'_>| object.expected_special(listed);
    let shown: &[u8] = if name.is_empty() { b"." } else { name };
    match special(&plan.path(name)) {
        Ok(Some(found)) if found == *listed => report.print(Verdict::Ok, shown, None, |object| object.special(&found)),
        // The operand of the walk may be a link to the folder.
        Ok(_) if name.is_empty() && *listed == Special::Folder => report.print(Verdict::Ok, shown, None, expected),
        Ok(found) => report.print(Verdict::Changed, shown, None, |object| {
            if let Some(found) = found {
                object.special(&found);
            }
            expected(object);
        }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            report.print(Verdict::Missing, shown, None, expected);
        }
        Err(error) => report.print_unreadable(shown, &error),
    }
}
