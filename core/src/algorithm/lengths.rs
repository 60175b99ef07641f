//! Allowed lengths of keys, IVs and tags, and allowed compression levels.

use std::fmt;

/// The lengths that are allowed for a key, an IV, a tag or a context, in bytes. Also the allowed compression levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Shortest.
    pub min: usize,
    /// Longest; `usize::MAX` if only memory limits it.
    pub max: usize,
    /// Distance between neighbouring allowed lengths.
    pub step: usize,
}

impl Lengths {
    /// Allows only length 0.
    pub const NONE: Lengths = Lengths::exactly(0);

    /// Allows one length.
    pub const fn exactly(bytes: usize) -> Lengths {
        Lengths { min: bytes, max: bytes, step: 1 }
    }

    /// Allows every `step`th length from `min` to `max`.
    pub const fn range(min: usize, max: usize, step: usize) -> Lengths {
        Lengths { min, max, step }
    }

    /// Returns whether `bytes` is allowed.
    #[inline]
    pub const fn allows(self, bytes: usize) -> bool {
        // Most steps are 1, and need no division.
        bytes >= self.min && bytes <= self.max && (self.step == 1 || (bytes - self.min).is_multiple_of(self.step))
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.min, self.max, self.step) {
            (min, max, _) if min == max => min.to_string(),
            (min, usize::MAX, _) => format!("{min} or more"),
            (min, max, 1) => format!("{min} to {max}"),
            (min, max, step) if max - min == step => format!("{min} or {max}"),
            (min, max, step) => format!("{min} to {max} in steps of {step}"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_display_their_range() {
        assert_eq!(Lengths::exactly(16).to_string(), "16");
        assert_eq!(Lengths::range(4, 16, 2).to_string(), "4 to 16 in steps of 2");
        assert_eq!(Lengths::range(64, 2400, 2336).to_string(), "64 or 2400");
        assert!(Lengths::range(4, 16, 2).allows(6) && !Lengths::range(4, 16, 2).allows(7));
        assert!(!Lengths::range(4, 16, 2).allows(18) && !Lengths::NONE.allows(1));
        assert_eq!(Lengths::range(0, usize::MAX, 1).to_string(), "0 or more");
    }
}
