//! Corrections of misspelt names.

/// Returns the end of a message about an unknown `name`: the name that was probably meant, or all names.
///
/// ```
/// let names = ["software", "lanes"];
/// assert_eq!(gantry_runtime::suggest("lane", &names), "; did you mean lanes?");
/// assert_eq!(gantry_runtime::suggest("gpu", &names), "; there are software, lanes");
/// ```
pub fn suggest(name: &str, names: &[&str]) -> String {
    match nearest(name, names) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; there are {}", names.join(", ")),
    }
}

/// Returns the name of `names` that was probably meant, if there is one.
pub(crate) fn nearest<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    (names.iter())
        .map(|other| (strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase()), *other))
        .filter(|(distance, other)| *distance <= 1 + other.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}
