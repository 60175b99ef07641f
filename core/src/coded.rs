//! Enums that have a name for each value, in tables and JSON.

/// Declares an enum, the list of all its values, and their names, from one list of rows.
macro_rules! coded {
    ($(#[$about:meta])+ pub enum $name:ident { $($(#[$doc:meta])+ $variant:ident = $code:literal;)+ }) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])+ $variant),+ }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the name in tables and JSON.
            pub const fn code(self) -> &'static str {
                match self { $($name::$variant => $code),+ }
            }
        }
    };
}

pub(crate) use coded;
